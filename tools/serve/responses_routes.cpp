// SPDX-License-Identifier: MIT
#include "serve/responses_routes.hpp"

#include <ctime>
#include <memory>
#include <optional>
#include <utility>

#include "serve/answer_reader.hpp"
#include "serve/constraint_fields.hpp"
#include "serve/fields.hpp"
#include "serve/generation.hpp"
#include "serve/generation_fields.hpp"
#include "serve/response_store.hpp"
#include "serve/sse.hpp"
#include "serve/tools.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::int64_t kMostOutputTokens = 1 << 24;
constexpr std::string_view kResponses = "/v1/responses/";

struct WantedResponse {
    TextModel* model = nullptr;
    std::string name;  ///< as the client called it
    std::vector<std::int32_t> prompt;
    GenerateOptions options;
    Tools tools;
    Talk talk;  ///< without instructions, which are for one answer
    bool streams = false, is_stored = true;
    json said;  ///< fields that a response repeats
};

/// What was said before, and what is said now.
void read_talk(Fields& fields, const ResponseStore& store, Talk& talk) {
    if (const auto before = fields.text("previous_response_id")) {
        const auto kept = store.find(*before);
        if (!kept)
            throw Refusal(400,
                          "there is no such response: it was not to be stored, or has made room for later ones, or the "
                          "server was started anew",
                          "previous_response_id", "previous_response_not_found");
        talk = kept->talk;
    }
    read_input(fields, talk);
}

/// How much is said, and what it has to be.
void read_text(Fields& fields, WantedResponse& wanted) {
    wanted.said["text"] = {{"format", {{"type", "text"}}}};
    const json* const given = fields.take("text");
    if (!given) return;
    Fields text(*given, "text");
    wanted.options.constraint = read_format(text, "format", true);
    if (text.has("format")) wanted.said["text"]["format"] = *text.take("format");
    text.only("verbosity", "medium", "only \"medium\" is supported");
    text.finish();
}

WantedResponse read_response(const ModelSet& models, const ResponseStore& store, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    WantedResponse wanted;
    AskedModel<TextModel> of = read_model<TextModel>(fields, models, call);
    wanted.model = of.model;
    if (!wanted.model->engine().has_chat_template())
        fields.refuse("input",
                      "the model has no chat template: it continues "
                      "texts, at /v1/completions");
    read_talk(fields, store, wanted.talk);
    wanted.tools = read_tools(fields, true);
    wanted.options = read_sampling(fields, 2);
    wanted.options.adapters = read_adapters(fields, of);
    wanted.name = of.name;
    wanted.options.max_tokens =
        static_cast<std::uint32_t>(fields.integer("max_output_tokens", 1, kMostOutputTokens).value_or(0));
    wanted.streams = fields.boolean("stream").value_or(false);
    wanted.is_stored = fields.boolean("store").value_or(true);
    fields.only("include", json::array(), "nothing is included");
    fields.only("background", false, "responses are written while their client waits");
    fields.only("truncation", "disabled", "only \"disabled\" is supported");
    fields.only("top_logprobs", 0, "log-probabilities are given at /v1/chat/completions");
    read_text(fields, wanted);
    const json* const options = fields.take("stream_options");
    if (options) {
        Fields stream(*options, "stream_options");
        stream.pass_over({"include_obfuscation"});
        stream.finish();
    }
    pass_over_bookkeeping(fields);
    const std::string instructions = fields.text("instructions").value_or("");
    fields.finish();
    for (const char* const name :
         {"instructions", "max_output_tokens", "temperature", "top_p", "metadata", "previous_response_id"})
        wanted.said[name] = body.contains(name) ? body[name] : json();
    wanted.said["tools"] = fields.has("tools") ? body["tools"] : json::array();
    wanted.said["tool_choice"] = fields.has("tool_choice") ? body["tool_choice"] : json("auto");
    Talk asked;
    if (fields.has("instructions")) asked.say("system", instructions);
    asked.append(wanted.talk);
    wanted.prompt = make_prompt(fields, *wanted.model, asked, wanted.tools, wanted.options);
    return wanted;
}

class ResponseWriter {
public:
    ResponseWriter(const Call& call, WantedResponse wanted, ResponseStore& store)
        : call_(call),
          stream_(call),
          wanted_(std::move(wanted)),
          reader_(wanted_.tools, wanted_.streams, "call_"),
          store_(store) {}

    // All on the engine's thread.
    /// Of an answer that is not streamed; false: it is complete.
    bool read(std::string_view text) {
        events_of(reader_.push(text));
        return !reader_.is_enough();
    }
    void reply(const Generation& generation) {
        end_items(generation);
        call_.reply(ended(generation));
    }

    bool piece(std::string_view text) {
        begin();
        return stream_.write(events_of(reader_.push(text))) && !reader_.is_enough();
    }
    void end(const Generation& generation) {
        begin();
        const std::string events = end_items(generation);
        const json whole = ended(generation);
        const bool is_complete = whole["status"] == "completed";
        // The answer is there whole by now, which waits for who reads it, as one that is not streamed does.
        stream_.end_asked(events + numbered({{"type", is_complete ? "response.completed" : "response.incomplete"},
                                             {"response", whole}}));
    }
    void fail(const Refusal& refusal) { stream_.fail(refusal, "error"); }

private:
    enum class Open : std::uint8_t { none, message, call };

    static bool is_cut(const Generation& generation) {
        return generation.finish == Finish::length || generation.finish == Finish::context;
    }
    static json content(std::string_view text) {
        return {{"type", "output_text"}, {"text", text}, {"annotations", json::array()}, {"logprobs", json::array()}};
    }
    json response(std::string_view status) const {
        json body = wanted_.said;
        body.update({{"id", id_},
                     {"object", "response"},
                     {"created_at", created_},
                     {"model", wanted_.name},
                     {"status", status},
                     {"output", json::array()},
                     {"error", nullptr},
                     {"incomplete_details", nullptr},
                     {"parallel_tool_calls", !wanted_.tools.one_call},
                     {"store", wanted_.is_stored},
                     {"truncation", "disabled"},
                     {"usage", nullptr}});
        return body;
    }
    /// The whole response, which is kept if that is wanted.
    json ended(const Generation& generation) {
        json body = response(is_cut(generation) ? "incomplete" : "completed");
        if (is_cut(generation)) body["incomplete_details"] = {{"reason", "max_output_tokens"}};
        body["output"] = items_;
        body["usage"] = {{"input_tokens", generation.prompt_tokens},
                         {"input_tokens_details", {{"cached_tokens", generation.reused_tokens}}},
                         {"output_tokens", generation.tokens.size()},
                         {"output_tokens_details", {{"reasoning_tokens", 0}}},
                         {"total_tokens", generation.prompt_tokens + generation.tokens.size()}};
        if (!wanted_.is_stored) return body;
        Talk& talk = wanted_.talk;
        talk.say("assistant", reader_.content());
        for (const ToolCall& call : reader_.calls())
            if (!call.is_broken) talk.call(call.id, call.name, call.arguments);
        store_.keep(id_, {.talk = std::move(talk), .body = body.dump(-1, ' ', false, json::error_handler_t::replace)});
        return body;
    }

    // The items of the output: what is open, and what is whole.
    json item(std::string_view status) const {
        if (open_ == Open::message) {
            json parts = json::array();
            if (status != "in_progress") parts.push_back(content(text_));
            return {{"id", item_id_},
                    {"type", "message"},
                    {"role", "assistant"},
                    {"status", status},
                    {"content", std::move(parts)}};
        }
        return {{"id", item_id_},      {"type", "function_call"}, {"status", status},
                {"call_id", tool_id_}, {"name", tool_},           {"arguments", text_}};
    }
    json of_item(std::string_view type) const {
        json data = {{"type", type}, {"item_id", item_id_}, {"output_index", items_.size()}};
        if (open_ == Open::message) data["content_index"] = 0;
        return data;
    }
    std::string open_item(Open kind) {
        open_ = kind;
        item_id_ = new_id(kind == Open::message ? "msg_" : "fc_");
        text_.clear();
        std::string events = numbered(
            {{"type", "response.output_item.added"}, {"output_index", items_.size()}, {"item", item("in_progress")}});
        if (kind == Open::call) return events;
        json part = of_item("response.content_part.added");
        part["part"] = content("");
        events += numbered(part);
        return events;
    }
    std::string close_item(std::string_view status = "completed") {
        if (open_ == Open::none) return {};
        std::string events;
        if (open_ == Open::message) {
            json text = of_item("response.output_text.done"), part = of_item("response.content_part.done");
            text["text"] = text_;
            text["logprobs"] = json::array();
            part["part"] = content(text_);
            events = numbered(text);
            events += numbered(part);
        } else if (status == "completed") {
            json arguments = of_item("response.function_call_arguments.done");
            arguments["name"] = tool_;
            arguments["arguments"] = text_;
            events = numbered(arguments);
        }
        json whole = item(status);
        events += numbered({{"type", "response.output_item.done"}, {"output_index", items_.size()}, {"item", whole}});
        items_.push_back(std::move(whole));
        open_ = Open::none;
        return events;
    }
    std::string events_of(const std::vector<AnswerPart>& parts) {
        std::string events;
        for (const AnswerPart& part : parts) {
            switch (part.kind) {
            case AnswerPart::Kind::content: {
                if (open_ != Open::message) {
                    events += close_item();
                    events += open_item(Open::message);
                }
                text_ += part.text;
                json delta = of_item("response.output_text.delta");
                delta["delta"] = part.text;
                delta["logprobs"] = json::array();
                events += numbered(delta);
                break;
            }
            case AnswerPart::Kind::call:
                events += close_item();
                tool_ = part.text;
                tool_id_ = reader_.calls()[part.call].id;
                events += open_item(Open::call);
                break;
            case AnswerPart::Kind::arguments: {
                text_ += part.text;
                json delta = of_item("response.function_call_arguments.delta");
                delta["delta"] = part.text;
                events += numbered(delta);
                break;
            }
            case AnswerPart::Kind::call_end: events += close_item(part.is_broken ? "incomplete" : "completed"); break;
            }
        }
        return events;
    }
    std::string end_items(const Generation& generation) {
        std::string events = events_of(reader_.finish());
        if (open_ == Open::none && items_.empty()) events += open_item(Open::message);
        events += close_item(is_cut(generation) ? "incomplete" : "completed");
        return events;
    }

    std::string numbered(json data) {
        data["sequence_number"] = number_++;
        const std::string type = data["type"];
        return event(data, type);
    }
    void begin() {
        if (std::exchange(has_begun_, true)) return;
        std::string events = numbered({{"type", "response.created"}, {"response", response("in_progress")}});
        events += numbered({{"type", "response.in_progress"}, {"response", response("in_progress")}});
        stream_.write_asked(std::move(events));
    }

    Call call_;
    EventStream stream_;
    WantedResponse wanted_;
    AnswerReader reader_;
    ResponseStore& store_;
    std::string id_ = new_id("resp_");
    std::time_t created_ = std::time(nullptr);
    std::uint64_t number_ = 0;
    bool has_begun_ = false;
    json items_ = json::array();
    Open open_ = Open::none;
    std::string item_id_, text_, tool_, tool_id_;
};

void answer_response(const ModelSet& models, const std::shared_ptr<ResponseStore>& store, const Call& call) {
    WantedResponse wanted = read_response(models, *store, call);
    TextModel& model = *wanted.model;
    const bool streams = wanted.streams;
    GenerationRequest request = {wanted.prompt, wanted.options};
    const auto writer = std::make_shared<ResponseWriter>(call, std::move(wanted), *store);
    GenerationSteps steps{.on_error = [writer](const Refusal& refusal) { writer->fail(refusal); }};
    if (streams) {
        steps.on_text = [writer](std::size_t, std::string_view text) { return writer->piece(text); };
        steps.on_all = [writer, store](const std::vector<Generation>& all) { writer->end(all[0]); };
    } else {
        steps.on_text = [writer](std::size_t, std::string_view text) { return writer->read(text); };
        steps.on_all = [writer, store](const std::vector<Generation>& all) { writer->reply(all[0]); };
    }
    generate(model, call, {std::move(request)}, std::move(steps));
}

void show_response(const ResponseStore& store, const Call& call) {
    const auto kept = store.find(call.path_behind(kResponses));
    if (!kept) throw Refusal(404, "there is no such response here, or no longer");
    call.exchange().reply({.body = kept->body});
}

}  // namespace

std::vector<Route> responses_routes(const ModelSet& models, const Limits& limits) {
    const auto store = std::make_shared<ResponseStore>();
    return {{.method = "POST",
             .path = "/v1/responses",
             .body_bytes = limits.body_bytes,
             .is_work = true,
             .summary = "The answer to a text or a conversation, as OpenAI's newer API has it",
             .gives = {"application/json", "text/event-stream"},
             .answer = [&models, store](const Call& call) { answer_response(models, store, call); }},
            {.method = "GET",
             .path = kResponses,
             .is_prefix = true,
             .summary = "A response that was stored, while there is room for it",
             .answer = [store](const Call& call) { show_response(*store, call); }}};
}

}  // namespace vkformer::serve
