// SPDX-License-Identifier: MIT
// Bodies of requests: JSON field by field, forms; and what is told in return.
#include <nlohmann/json.hpp>

#include "serve/base64.hpp"
#include "serve/fields.hpp"
#include "serve/form.hpp"
#include "serve/metrics.hpp"
#include "serve/refusal.hpp"
#include "support/catch.h"

namespace vkformer::tests {
namespace {

using namespace serve;
using json = nlohmann::ordered_json;

Request request_of(std::string type, std::string body) {
    return {.headers = {{"content-type", std::move(type)}}, .body = std::move(body)};
}

/// "status param", or "200".
template <class Do>
std::string outcome_of(const Do& act) {
    try {
        act();
    } catch (const Refusal& refusal) {
        return std::to_string(refusal.status) + " " + refusal.param;
    }
    return "200";
}

}  // namespace

TEST_CASE("serve: JSON bodies are JSON objects", "[serve]") {
    const auto of = [](const std::string& type, const std::string& body) {
        return outcome_of([&] { parse_body(request_of(type, body)); });
    };
    CHECK(of("application/json", "{}") == "200");
    CHECK(of("Application/JSON ; charset=utf-8", "{}") == "200");
    CHECK(of("text/plain", "{}") == "415 ");
    CHECK(of("", "{}") == "415 ");
    for (const std::string& bad :
         {std::string(), std::string("{"), std::string("[]"), std::string("1"), std::string("{\"a\":1,\"a\":2}"),
          std::string("{\"a\":\"\xff\"}"), "{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}"})
        CHECK(of("application/json", bad) == "400 ");
    const auto members = [](std::size_t count) {
        std::string all = "{\"list\": [{";
        for (std::size_t i = 0; i < count; ++i) all += (i ? ", \"" : "\"") + std::to_string(i) + "\": 1";
        return all + "}]}";
    };
    CHECK(of("application/json", members(4096)) == "200");
    CHECK(of("application/json", members(4097)) == "400 ");
}

TEST_CASE("serve: members of bodies keep their order", "[serve]") {
    const std::string text = R"({"z":1,"a":{"y":[{"n":null,"m":2}],"b":1.5},"k":[]})";
    CHECK(parse_body(request_of("application/json", text)).dump() == text);
}

TEST_CASE("serve: fields are what their readers say, and none is passed over", "[serve]") {
    const json body = {{"text", "a"},        {"number", 1.5},      {"whole", 3},
                       {"yes", true},        {"nothing", nullptr}, {"large", 18446744073709551615u},
                       {"list", {"a", "b"}}, {"mixed", {"a", 1}}};
    const auto with = [&](const auto& act) {
        return outcome_of([&] {
            Fields fields(body, "body");
            act(fields);
        });
    };
    Fields fields(body);
    CHECK(fields.text("text") == "a");
    CHECK(fields.number("number", 0, 2) == 1.5);
    CHECK(fields.number("whole", 0, 3) == 3);
    CHECK(fields.integer("whole", 3, 3) == 3);
    CHECK(fields.boolean("yes") == true);
    CHECK_FALSE(fields.text("nothing"));
    CHECK_FALSE(fields.text("absent"));
    CHECK(fields.texts("list", 2) == std::vector<std::string>{"a", "b"});
    CHECK(fields.texts("text", 1) == std::vector<std::string>{"a"});
    CHECK(with([](Fields& f) { (void)f.text("number"); }) == "400 body.number");
    CHECK(with([](Fields& f) { (void)f.needed_text("absent"); }) == "400 body.absent");
    CHECK(with([](Fields& f) { (void)f.needed_text("nothing"); }) == "400 body.nothing");
    CHECK(with([](Fields& f) { (void)f.number("number", 0, 1); }) == "400 body.number");
    CHECK(with([](Fields& f) { (void)f.number("text", 0, 1); }) == "400 body.text");
    CHECK(with([](Fields& f) { (void)f.integer("number", 0, 2); }) == "400 body.number");
    CHECK(with([](Fields& f) { (void)f.integer("whole", 4, 5); }) == "400 body.whole");
    CHECK(with([](Fields& f) { (void)f.integer("large", INT64_MIN, INT64_MAX); }) == "400 body.large");
    CHECK(with([](Fields& f) { (void)f.boolean("whole"); }) == "400 body.whole");
    CHECK(with([](Fields& f) { (void)f.texts("list", 1); }) == "400 body.list");
    CHECK(with([](Fields& f) { (void)f.texts("mixed", 9); }) == "400 body.mixed");
    CHECK(with([](Fields& f) { f.only("whole", 3, "no"); }) == "200");
    CHECK(with([](Fields& f) { f.only("whole", 4, "no"); }) == "400 body.whole");
    const json three = 3;
    CHECK(outcome_of([&] { Fields none(three, "a[0]"); }) == "400 a[0]");
    // Those that nothing has taken; null counts as absent.
    CHECK(with([](Fields& f) { f.finish(); }) != "200");
    fields.pass_over({"large", "mixed"});
    CHECK(outcome_of([&] { fields.finish(); }) == "200");
}

TEST_CASE("serve: forms", "[serve]") {
    CHECK(parse_url_encoded("q=a+b%21&to=%C3%A9&q=c&&flag") == json{{"q", {"a b!", "c"}}, {"to", "é"}, {"flag", ""}});
    CHECK(outcome_of([] { parse_url_encoded("a=%g0"); }) == "400 ");
    CHECK(outcome_of([] { parse_url_encoded("a=%4"); }) == "400 ");
    CHECK(outcome_of([] { parse_url_encoded("a=%ff"); }) == "400 ");
    CHECK(outcome_of([] { parse_url_encoded("%c3=a"); }) == "400 ");
    const auto fields = [](std::size_t count, const std::string& name) {
        std::string form;
        for (std::size_t i = 0; i < count; ++i) form += (name.empty() ? std::to_string(i) : name) + "&";
        return form;
    };
    for (const std::string name : {"", "q"}) {  // looking for a name takes time for each that there is
        CHECK(outcome_of([&] { parse_url_encoded(fields(4096, name)); }) == "200");
        CHECK(outcome_of([&] { parse_url_encoded(fields(4097, name)); }) == "400 ");
    }

    const std::string type = "multipart/form-data; boundary=x";
    const auto parts = parse_multipart(
        request_of(type,
                   "before\r\n--x\r\nContent-Disposition: form-data; name=\"a\\\"b\"\r\n\r\none\r\n--x \r\n"
                   "content-disposition: form-data; filename=f; name=file\r\nContent-Type: "
                   "audio/wav\r\n\r\n\r\n--y\r\n\r\n--x--\r\nafter"));
    REQUIRE(parts.size() == 2);
    CHECK(parts[0].name == "a\"b");
    CHECK(parts[0].bytes == "one");
    CHECK_FALSE(parts[0].is_file);
    CHECK(parts[1].name == "file");
    CHECK(parts[1].is_file);
    CHECK(parts[1].bytes == "\r\n--y\r\n");
    for (const std::string bad : {"", "--x", "--x\r\n", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\n",
                                  "--x\r\n\r\n--x--", "--xy\r\n\r\n\r\n--xy--", "--x\r\nA: b\r\n\r\n\r\n--x--",
                                  "--x\r\nContent-Disposition: form-data; x\r\n\r\n\r\n--x--"})
        CHECK(outcome_of([&] { parse_multipart(request_of(type, bad)); }) == "400 ");
    const auto form = [](std::size_t count, std::size_t further) {
        std::string body;
        for (std::size_t i = 0; i < count; ++i)
            body += "--x\r\nContent-Disposition: form-data; name=a\r\nA: " + std::string(further, 'b') + "\r\n\r\n\r\n";
        return body + "--x--";
    };
    CHECK(parse_multipart(request_of(type, form(64, 0))).size() == 64);
    CHECK(outcome_of([&] { parse_multipart(request_of(type, form(65, 0))); }) == "400 ");
    CHECK(parse_multipart(request_of(type, form(1, 4000))).size() == 1);
    CHECK(outcome_of([&] { parse_multipart(request_of(type, form(1, 4100))); }) == "400 ");
    for (const std::size_t length : {1, 70, 71}) {  // RFC 2046
        const std::string boundary(length, 'y');
        const auto request = request_of("multipart/form-data; boundary=" + boundary, "--" + boundary + "--");
        CHECK(outcome_of([&] { parse_multipart(request); }) == (length <= 70 ? "200" : "400 "));
    }
    CHECK(outcome_of([&] { parse_multipart(request_of("multipart/form-data", "--\r\n")); }) == "400 ");
    CHECK(outcome_of([&] { parse_multipart(request_of("multipart/mixed; boundary=x", "--x--")); }) == "415 ");
}

TEST_CASE("serve: errors have the shape that their client knows, and say nothing of the machine", "[serve]") {
    const Refusal refusal(404, "there is none", "model", "model_not_found");
    const json openai = json::parse(error_body(Family::openai, refusal))["error"];
    CHECK(openai == json{{"message", "model: there is none"},
                         {"type", "invalid_request_error"},
                         {"param", "model"},
                         {"code", "model_not_found"}});
    const json anthropic = json::parse(error_body(Family::anthropic, refusal));
    CHECK(anthropic ==
          json{{"type", "error"}, {"error", {{"type", "not_found_error"}, {"message", "model: there is none"}}}});
    CHECK(json::parse(error_body(Family::libretranslate, refusal)) == json{{"error", "model: there is none"}});
    CHECK(told({ErrorCode::CorruptFile, "/secret/path"}).message.find("secret") == std::string::npos);
    CHECK(told({ErrorCode::InvalidArgument, "too long"}).status == 400);
    CHECK(told({ErrorCode::DeviceLost, "the device"}).status == 503);
}

TEST_CASE("serve: metrics are told as Prometheus reads them", "[serve]") {
    using Family = Metrics::Family;
    Metrics metrics({{"a_total", "Of a", Family::counter},
                     {"b", "Of b", Family::histogram, {0.5, 2}},
                     {"c", "Of c", Family::gauge}});
    metrics.add("a_total", {{"x", "1\"\\\n"}});
    metrics.add("a_total", {{"x", "1\"\\\n"}}, 2);
    for (const double value : {0.25, 0.5, 1.0, 3.0}) metrics.observe("b", {{"y", "z"}}, value);
    CHECK(metrics.text() ==
          "# HELP a_total Of a\n# TYPE a_total counter\na_total{x=\"1\\\"\\\\ \"} 3\n"
          "# HELP b Of b\n# TYPE b histogram\nb_bucket{y=\"z\",le=\"0.5\"} 2\nb_bucket{y=\"z\",le=\"2\"} 3\n"
          "b_bucket{y=\"z\",le=\"+Inf\"} 4\nb_sum{y=\"z\"} 4.75\nb_count{y=\"z\"} 4\n");
    metrics.set("c", {}, 7);
    CHECK(metrics.text().ends_with("# TYPE c gauge\nc 7\n"));
}

TEST_CASE("serve: base64 as in RFC 4648", "[serve]") {
    const std::pair<std::string_view, std::string_view> cases[] = {{"", ""},
                                                                   {"f", "Zg=="},
                                                                   {"fo", "Zm8="},
                                                                   {"foo", "Zm9v"},
                                                                   {"foob", "Zm9vYg=="},
                                                                   {"fooba", "Zm9vYmE="},
                                                                   {"foobar", "Zm9vYmFy"},
                                                                   {"\xff\xfe\xfd", "//79"}};
    for (const auto& [bytes, text] : cases) CHECK(base64(bytes) == text);
}

}  // namespace vkformer::tests
