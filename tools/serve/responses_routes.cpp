// SPDX-License-Identifier: MIT
#include "serve/responses_routes.hpp"

#include <ctime>
#include <memory>

#include "serve/fields.hpp"
#include "serve/generation.hpp"
#include "serve/generation_fields.hpp"
#include "serve/sse.hpp"

namespace vkformer::serve {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostOutputTokens = 1 << 24;

struct WantedResponse {
    TextModel* model = nullptr;
    std::vector<std::int32_t> prompt;
    GenerateOptions options;
    bool streams = false;
    json said;  ///< fields that a response repeats
};

std::vector<Message> read_input(Fields& fields) {
    std::vector<Message> messages;
    if (const auto instructions = fields.text("instructions")) messages.push_back({"system", *instructions});
    const json& input = fields.needed("input");
    if (input.is_string()) {
        messages.push_back({"user", input.get<std::string>()});
        return messages;
    }
    if (!input.is_array() || input.empty()) fields.refuse("input", "it is neither a text nor a list of messages");
    for (std::size_t i = 0; i < input.size(); ++i) {
        Fields message(input[i], "input[" + std::to_string(i) + "]");
        message.only("type", "message", "only messages are read");
        std::string role = message.needed_text("role");
        if (role == "developer") role = "system";
        if (role != "system" && role != "user" && role != "assistant")
            message.refuse("role", "it is none of system, developer, user, assistant");
        messages.push_back({role, read_content(message, "content", {"input_text", "output_text"})});
        message.pass_over({"id", "status"});
        message.finish();
    }
    return messages;
}

WantedResponse read_response(const ModelSet& models, const json& body) {
    Fields fields(body);
    WantedResponse wanted;
    wanted.model = &models.get<TextModel>(fields.text("model"));
    if (!wanted.model->engine().has_chat_template())
        fields.refuse("input",
                      "the model has no chat template: it continues "
                      "texts, at /v1/completions");
    const std::vector<Message> messages = read_input(fields);
    wanted.options = read_sampling(fields, 2);
    wanted.options.max_tokens =
        static_cast<std::uint32_t>(fields.integer("max_output_tokens", 1, kMostOutputTokens).value_or(0));
    wanted.streams = fields.boolean("stream").value_or(false);
    fields.only("tools", json::array(), "tools are not supported");
    fields.only("include", json::array(), "nothing is included");
    fields.only("background", false, "responses are not kept");
    fields.only("truncation", "disabled", "only \"disabled\" is supported");
    fields.only("top_logprobs", 0, "log-probabilities are not given");
    if (const json* const text = fields.take("text"); text && *text != json{{"format", {{"type", "text"}}}})
        fields.refuse("text", "only {\"format\": {\"type\": \"text\"}} is supported");
    if (const json* const choice = fields.take("tool_choice"); choice && *choice != "none" && *choice != "auto")
        fields.refuse("tool_choice", "tools are not supported");
    const json* const options = fields.take("stream_options");
    if (options) {
        Fields stream(*options, "stream_options");
        stream.pass_over({"include_obfuscation"});
        stream.finish();
    }
    pass_over_bookkeeping(fields);
    fields.finish();
    for (const char* const name : {"instructions", "max_output_tokens", "temperature", "top_p", "metadata"})
        wanted.said[name] = body.contains(name) ? body[name] : json();
    auto tokens = wanted.model->engine().tokenize_chat(messages);
    if (!tokens) throw told(tokens.error());
    wanted.prompt = *std::move(tokens);
    return wanted;
}

class ResponseWriter {
public:
    ResponseWriter(const Call& call, const WantedResponse& wanted)
        : call_(call), stream_(call), model_(wanted.model->name()), said_(wanted.said) {}

    void reply(const Generation& generation) { call_.reply(ended(generation)); }

    // On the engine's thread.
    bool piece(std::string_view text) {
        begin();
        if (text.empty()) return stream_.write("");
        json delta = of_part("response.output_text.delta");
        delta["delta"] = text;
        delta["logprobs"] = json::array();
        return stream_.write(numbered(delta));
    }
    void end(const Generation& generation) {
        begin();
        json text = of_part("response.output_text.done"), part = of_part("response.content_part.done");
        text["text"] = generation.text;
        text["logprobs"] = json::array();
        part["part"] = content(generation.text);
        const json whole = ended(generation);
        const std::string events =
            numbered(text) + numbered(part) +
            numbered({{"type", "response.output_item.done"}, {"output_index", 0}, {"item", whole["output"][0]}});
        const bool is_complete = whole["status"] == "completed";
        stream_.end(events + numbered({{"type", is_complete ? "response.completed" : "response.incomplete"},
                                       {"response", whole}}));
    }
    void fail(const Refusal& refusal) { stream_.fail(refusal, "error"); }

private:
    static json content(std::string_view text) {
        return {{"type", "output_text"}, {"text", text}, {"annotations", json::array()}, {"logprobs", json::array()}};
    }
    json item(std::string_view status, json parts) const {
        return {{"id", item_id_},
                {"type", "message"},
                {"role", "assistant"},
                {"status", status},
                {"content", std::move(parts)}};
    }
    json response(std::string_view status) const {
        json body = said_;
        body.update({{"id", id_},
                     {"object", "response"},
                     {"created_at", created_},
                     {"model", model_},
                     {"status", status},
                     {"output", json::array()},
                     {"error", nullptr},
                     {"incomplete_details", nullptr},
                     {"tools", json::array()},
                     {"tool_choice", "auto"},
                     {"parallel_tool_calls", false},
                     {"store", false},
                     {"text", {{"format", {{"type", "text"}}}}},
                     {"truncation", "disabled"},
                     {"previous_response_id", nullptr},
                     {"usage", nullptr}});
        return body;
    }
    json ended(const Generation& generation) const {
        const bool is_cut = generation.finish == Finish::length || generation.finish == Finish::context;
        const std::string_view status = is_cut ? "incomplete" : "completed";
        json body = response(status);
        if (is_cut) body["incomplete_details"] = {{"reason", "max_output_tokens"}};
        body["output"].push_back(item(status, json::array({content(generation.text)})));
        body["usage"] = {{"input_tokens", generation.prompt_tokens},
                         {"input_tokens_details", {{"cached_tokens", generation.reused_tokens}}},
                         {"output_tokens", generation.tokens.size()},
                         {"output_tokens_details", {{"reasoning_tokens", 0}}},
                         {"total_tokens", generation.prompt_tokens + generation.tokens.size()}};
        return body;
    }
    json of_part(std::string_view type) const {
        return {{"type", type}, {"item_id", item_id_}, {"output_index", 0}, {"content_index", 0}};
    }
    std::string numbered(json data) {
        data["sequence_number"] = number_++;
        const std::string type = data["type"];
        return event(data, type);
    }
    void begin() {
        if (std::exchange(has_begun_, true)) return;
        json part = of_part("response.content_part.added");
        part["part"] = content("");
        std::string events = numbered({{"type", "response.created"}, {"response", response("in_progress")}});
        events += numbered({{"type", "response.in_progress"}, {"response", response("in_progress")}});
        events += numbered({{"type", "response.output_item.added"},
                            {"output_index", 0},
                            {"item", item("in_progress", json::array())}});
        stream_.write(events + numbered(part));
    }

    Call call_;
    EventStream stream_;
    std::string model_;
    json said_;
    std::string id_ = new_id("resp_"), item_id_ = new_id("msg_");
    std::time_t created_ = std::time(nullptr);
    std::uint64_t number_ = 0;
    bool has_begun_ = false;
};

void answer_response(const ModelSet& models, const Call& call) {
    const WantedResponse wanted = read_response(models, parse_body(call.request()));
    const auto writer = std::make_shared<ResponseWriter>(call, wanted);
    GenerationSteps steps{.on_error = [writer](const Refusal& refusal) { writer->fail(refusal); }};
    if (wanted.streams) {
        steps.on_text = [writer](std::size_t, std::string_view text) { return writer->piece(text); };
        steps.on_all = [writer](const std::vector<Generation>& all) { writer->end(all[0]); };
    } else {
        steps.on_all = [writer](const std::vector<Generation>& all) { writer->reply(all[0]); };
    }
    generate(*wanted.model, call, {{wanted.prompt, wanted.options}}, std::move(steps));
}

}  // namespace

std::vector<Route> responses_routes(const ModelSet& models, const Limits& limits) {
    return {{.method = "POST",
             .path = "/v1/responses",
             .body_bytes = limits.body_bytes,
             .is_work = true,
             .summary = "The answer to a text or a conversation, as OpenAI's "
                        "newer API has it; nothing is kept",
             .gives = {"application/json", "text/event-stream"},
             .answer = [&models](const Call& call) { answer_response(models, call); }}};
}

}  // namespace vkformer::serve
