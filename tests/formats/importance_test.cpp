// SPDX-License-Identifier: MIT
// Importance matrices in both of llama.cpp's forms.
#include "formats/importance.hpp"

#include <cmath>
#include <cstring>
#include <fstream>

#include "formats/gguf_writer.hpp"
#include "models/gguf_export.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using namespace formats;
using Catch::Matchers::ContainsSubstring;

OutputTensor floats(const std::string& name, Shape shape, const std::vector<float>& values) {
    auto kept = std::make_shared<const std::vector<float>>(values);
    return {.name = name,
            .dtype = DType::f32,
            .source = {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*kept)), .owner = kept}};
}

constexpr float kReplaced = 777;

/// `in_place`: of kReplaced in the file, since the writer refuses what is not finite.
Result<Importance> read(const std::vector<OutputTensor>& tensors, const std::string& type = "imatrix",
                        float in_place = kReplaced) {
    const TemporaryFolder folder;
    GgufMetadata metadata;
    metadata.set("general.type", type);
    must(write_gguf(folder / "x.gguf", metadata, tensors));
    std::string file = read_file(folder / "x.gguf");
    const std::string replaced(reinterpret_cast<const char*>(&kReplaced), sizeof kReplaced);
    if (const auto at = file.find(replaced); at != file.npos) std::memcpy(file.data() + at, &in_place, sizeof in_place);
    folder.write("x.gguf", file);
    return read_importance(folder / "x.gguf");
}

std::string refused(const Result<Importance>& found) {
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::CorruptFile);
    return found.error().message;
}

template <class T>
void put(std::string& file, T value) {
    file.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string old_entry(const std::string& name, std::int32_t calls, const std::vector<float>& values) {
    std::string entry;
    put(entry, static_cast<std::int32_t>(name.size()));
    entry += name;
    put(entry, calls);
    put(entry, static_cast<std::int32_t>(values.size()));
    for (const float value : values) put(entry, value);
    return entry;
}

std::string old_file(const std::vector<std::string>& entries) {
    std::string file;
    put(file, static_cast<std::int32_t>(entries.size()));
    for (const std::string& entry : entries) file += entry;
    return file;
}

Result<Importance> parse(const std::string& file) {
    return parse_old_importance(std::as_bytes(std::span(file)), "x.dat");
}

}  // namespace

TEST_CASE("importance: means of squares, of stacks as well", "[formats][gguf]") {
    const Importance found =
        must(read({floats("a.weight.in_sum2", {1, 3}, {2, 4, 0}), floats("a.weight.counts", {1, 1}, {2}),
                   floats("b.weight.in_sum2", {2, 2}, {8, 4, 5, 6}), floats("b.weight.counts", {2, 1}, {4, 0})}));
    REQUIRE(found.size() == 2);
    CHECK(*found.at("a.weight") == std::vector<float>{1, 2, 0});
    CHECK(*found.at("b.weight") == std::vector<float>{2, 1, 1, 1});  // no token came to the second
}

TEST_CASE("importance: what is none is refused", "[formats][gguf]") {
    const OutputTensor sums = floats("a.in_sum2", {2, 2}, {1, 2, 3, 4});
    CHECK_THAT(refused(read({sums}, "model")), ContainsSubstring("\"model\", not \"imatrix\""));
    CHECK_THAT(refused(read({sums})), ContainsSubstring("no counts"));
    CHECK_THAT(refused(read({floats("a.weight", {2}, {1, 2})})), ContainsSubstring("has no matrix"));
    CHECK_THAT(refused(read({sums, floats("a.counts", {3}, {1, 1, 1})})), ContainsSubstring("no means of squares"));
    for (const float bad : {-1.0f, NAN, INFINITY}) {
        const auto check = [&](const std::vector<OutputTensor>& tensors) {
            CHECK_THAT(refused(read(tensors, "imatrix", bad)), ContainsSubstring("no means of squares"));
        };
        check({sums, floats("a.counts", {2}, {1, kReplaced})});
        check({floats("a.in_sum2", {1, 2}, {1, kReplaced}), floats("a.counts", {1}, {1})});
    }
    const TemporaryFolder folder;
    CHECK(read_importance(folder / "nothing").error().code == ErrorCode::FileNotFound);
}

TEST_CASE("importance: the older form", "[formats]") {
    const std::string file = old_file({old_entry("a.weight", 2, {2, 4}), old_entry("b.weight", 0, {3})});
    for (const std::string& tail :
         {std::string(), std::string("\x05\0\0\0text", 8)}) {  // what it was made of may follow
        const Importance found = must(parse(file + tail));
        REQUIRE(found.size() == 2);
        CHECK(*found.at("a.weight") == std::vector<float>{1, 2});
        CHECK(*found.at("b.weight") == std::vector<float>{3});
    }
    for (std::size_t size = 0; size < file.size(); ++size) {
        CAPTURE(size);
        CHECK_THAT(refused(parse(file.substr(0, size))), ContainsSubstring("cut short"));
    }
    CHECK_THAT(refused(parse(old_file({old_entry("a", 1, {1}), old_entry("a", 1, {1})}))), ContainsSubstring("twice"));
    CHECK_THAT(refused(parse(old_file({old_entry("a", 1, {-1})}))), ContainsSubstring("no means of squares"));
    CHECK_THAT(refused(parse(old_file({old_entry("a", 1, {})}))), ContainsSubstring("cut short"));
    CHECK_THAT(refused(parse(old_file({old_entry("a", -1, {1})}))), ContainsSubstring("cut short"));
    std::string huge;
    put(huge, std::int32_t{1});
    put(huge, std::int32_t{0x7fffffff});
    CHECK_THAT(refused(parse(huge)), ContainsSubstring("cut short"));
    std::string many = old_entry("a", 1, {1});
    many.replace(many.size() - 8, 4, "\xff\xff\xff\x7f", 4);
    CHECK_THAT(refused(parse(old_file({many}))), ContainsSubstring("cut short"));
    const TemporaryFolder folder;
    std::ofstream(folder / "old.dat", std::ios::binary) << file;
    CHECK(must(read_importance(folder / "old.dat")).size() == 2);
}

TEST_CASE("importance: matrices in small blocks take theirs by name", "[formats][gguf]") {
    const auto all = [](float value) { return std::make_shared<const std::vector<float>>(32, value); };
    const auto contents = [&](DType dtype) {
        models::GgufContents made;
        for (const char* const name : {"a.weight", "b.weight", "norm.weight"}) {
            made.tensors.push_back(floats(name, {2, 32}, std::vector<float>(64, 1)));
            made.tensors.back().dtype = std::string_view(name) == "norm.weight" ? DType::f32 : dtype;
        }
        return made;
    };
    auto some = contents(DType::q4_0);
    must(models::weigh(some, {{"a.weight", all(1)}, {"norm.weight", all(1)}, {"c.weight", all(1)}}));
    CHECK(some.tensors[0].importance);
    CHECK_FALSE(some.tensors[1].importance);
    CHECK_FALSE(some.tensors[2].importance);
    REQUIRE(some.notes.size() == 1);
    CHECK_THAT(some.notes.front(), ContainsSubstring("b.weight: they count alike"));
    auto whole = contents(DType::q4_0);
    must(models::weigh(whole, {{"a.weight", all(1)}, {"b.weight", all(1)}}));
    CHECK(whole.notes.empty());
    for (const auto& [dtype, importance, why] :
         {std::tuple{DType::q4_0, Importance{{"c.weight", all(1)}}, "another model"},
          std::tuple{DType::q8_0, Importance{{"a.weight", all(1)}}, "not needed"},
          std::tuple{DType::q4_0, Importance{{"a.weight", std::make_shared<const std::vector<float>>(33, 1.0f)}},
                     "33 elements"}}) {
        auto other = contents(dtype);
        const auto weighed = models::weigh(other, importance);
        REQUIRE_FALSE(weighed);
        CHECK(weighed.error().code == ErrorCode::InvalidArgument);
        CHECK_THAT(weighed.error().message, ContainsSubstring(why));
    }
}

}  // namespace vkformer::tests
