// SPDX-License-Identifier: MIT
#include "serve/messages_routes.hpp"

#include <algorithm>
#include <memory>

#include "serve/answer_reader.hpp"
#include "serve/fields.hpp"
#include "serve/generation.hpp"
#include "serve/generation_fields.hpp"
#include "serve/sse.hpp"
#include "serve/tools.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostSequences = 16;
constexpr std::int64_t kMostMessageTokens = 1 << 24;

struct WantedMessage {
    TextModel* model = nullptr;
    std::string name;  ///< as the client called it
    std::vector<std::int32_t> prompt;
    GenerateOptions options;
    Tools tools;
    bool streams = false;
};

/// The model, and the tokens of the conversation; what both routes have.
void read_conversation(const ModelSet& models, const Call& call, Fields& fields, WantedMessage& wanted) {
    AskedModel<TextModel> asked = read_model<TextModel>(fields, models, call);
    wanted.options.adapters = read_adapters(fields, asked);
    wanted.model = asked.model;
    wanted.name = std::move(asked.name);
    if (!wanted.model->engine().has_chat_template())
        fields.refuse("messages",
                      "the model has no chat template: it continues "
                      "texts, at /v1/completions");
    const Talk talk = read_turns(fields);
    wanted.tools = read_anthropic_tools(fields);
    if (const json* const thinking = fields.take("thinking"); thinking && *thinking != json{{"type", "disabled"}})
        fields.refuse("thinking", "only {\"type\": \"disabled\"} is supported");
    fields.only("mcp_servers", json::array(), "they are not supported");
    fields.pass_over({"metadata", "service_tier", "cache_control", "user_profile_id", "workspace_id"});
    wanted.prompt = make_prompt(fields, *wanted.model, talk, wanted.tools, wanted.options,
                                {.continues_last = talk.ends_with_assistant(), .variables = {}});
}

WantedMessage read_message(const ModelSet& models, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    WantedMessage wanted;
    fields.needed("max_tokens");
    wanted.options = read_sampling(fields, 1);
    wanted.options.max_tokens = static_cast<std::uint32_t>(*fields.integer("max_tokens", 1, kMostMessageTokens));
    wanted.options.stop = fields.texts("stop_sequences", kMostSequences);
    if (std::ranges::any_of(wanted.options.stop, &std::string::empty))
        fields.refuse("stop_sequences", "an empty text ends nothing");
    wanted.streams = fields.boolean("stream").value_or(false);
    read_conversation(models, call, fields, wanted);
    fields.finish();
    return wanted;
}

json stopped_by(const Generation& generation) { return generation.stop.empty() ? json() : json(generation.stop); }

std::string_view stop_reason(Finish finish, bool has_calls) {
    switch (finish) {
    case Finish::stop_string: return "stop_sequence";
    case Finish::length:
    case Finish::context: return "max_tokens";
    default: return has_calls ? "tool_use" : "end_turn";
    }
}

/// Tokens that were read anew are input; those of the cache are counted apart.
json usage_of_message(const Generation& generation) {
    return {{"input_tokens", generation.prompt_tokens - generation.reused_tokens},
            {"cache_read_input_tokens", generation.reused_tokens},
            {"cache_creation_input_tokens", 0},
            {"output_tokens", generation.tokens.size()}};
}

class MessageWriter {
public:
    MessageWriter(const Call& call, const WantedMessage& wanted)
        : call_(call),
          stream_(call),
          name_(wanted.name),
          reader_(wanted.tools, wanted.streams, "toolu_"),
          prompt_tokens_(wanted.prompt.size()),
          id_(new_id("msg_")) {}

    // All on the engine's thread.
    /// Of an answer that is not streamed; false: it is complete.
    bool read(std::string_view text) {
        reader_.push(text);
        return !reader_.is_enough();
    }
    void reply(const Generation& generation) {
        reader_.finish();
        json message = head();
        const auto& calls = reader_.calls();
        if (!reader_.content().empty() || calls.empty())
            message["content"].push_back({{"type", "text"}, {"text", reader_.content()}});
        for (const ToolCall& call : calls)
            message["content"].push_back({{"type", "tool_use"},
                                          {"id", call.id},
                                          {"name", call.name},
                                          {"input", json::parse(call.arguments, nullptr, false)}});
        message["stop_reason"] = stop_reason(generation.finish, reader_.has_whole_calls());
        message["stop_sequence"] = stopped_by(generation);
        message["usage"] = usage_of_message(generation);
        call_.reply(message);
    }

    bool piece(std::string_view text) {
        begin();
        return stream_.write(events_of(reader_.push(text))) && !reader_.is_enough();
    }
    void end(const Generation& generation) {
        begin();
        std::string events = events_of(reader_.finish());
        if (open_ == Open::none && blocks_ == 0) events += open_block({{"type", "text"}, {"text", ""}});
        events += close_block();
        const json delta = {{"stop_reason", stop_reason(generation.finish, reader_.has_whole_calls())},
                            {"stop_sequence", stopped_by(generation)}};
        stream_.end(events +
                    event({{"type", "message_delta"}, {"delta", delta}, {"usage", usage_of_message(generation)}},
                          "message_delta") +
                    event({{"type", "message_stop"}}, "message_stop"));
    }
    void fail(const Refusal& refusal) { stream_.fail(refusal, "error"); }

private:
    json head() const {
        return {{"id", id_},
                {"type", "message"},
                {"role", "assistant"},
                {"model", name_},
                {"content", json::array()},
                {"stop_reason", nullptr},
                {"stop_sequence", nullptr},
                {"usage", {{"input_tokens", prompt_tokens_}, {"output_tokens", 0}}}};
    }
    void begin() {
        if (std::exchange(has_begun_, true)) return;
        stream_.write(event({{"type", "message_start"}, {"message", head()}}, "message_start"));
    }
    std::string open_block(json block) {
        open_ = block["type"] == "text" ? Open::text : Open::call;
        return event({{"type", "content_block_start"}, {"index", blocks_}, {"content_block", std::move(block)}},
                     "content_block_start");
    }
    std::string close_block() {
        if (std::exchange(open_, Open::none) == Open::none) return {};
        return event({{"type", "content_block_stop"}, {"index", blocks_++}}, "content_block_stop");
    }
    std::string block_delta(json delta) const {
        return event({{"type", "content_block_delta"}, {"index", blocks_}, {"delta", std::move(delta)}},
                     "content_block_delta");
    }
    std::string events_of(const std::vector<AnswerPart>& parts) {
        std::string events;
        for (const AnswerPart& part : parts) {
            switch (part.kind) {
            case AnswerPart::Kind::content:
                if (open_ != Open::text) {
                    events += close_block();
                    events += open_block({{"type", "text"}, {"text", ""}});
                }
                events += block_delta({{"type", "text_delta"}, {"text", part.text}});
                break;
            case AnswerPart::Kind::call:
                events += close_block();
                events += open_block({{"type", "tool_use"},
                                      {"id", reader_.calls()[part.call].id},
                                      {"name", part.text},
                                      {"input", json::object()}});
                break;
            case AnswerPart::Kind::arguments:
                events += block_delta({{"type", "input_json_delta"}, {"partial_json", part.text}});
                break;
            case AnswerPart::Kind::call_end: events += close_block(); break;
            }
        }
        return events;
    }

    enum class Open : std::uint8_t { none, text, call };
    Call call_;
    EventStream stream_;
    const std::string name_;
    AnswerReader reader_;
    std::size_t prompt_tokens_;
    std::string id_;
    bool has_begun_ = false;
    Open open_ = Open::none;
    std::size_t blocks_ = 0;
};

void answer_message(const ModelSet& models, const Call& call) {
    const WantedMessage wanted = read_message(models, call);
    const auto writer = std::make_shared<MessageWriter>(call, wanted);
    GenerationSteps steps{.on_error = [writer](const Refusal& refusal) { writer->fail(refusal); }};
    if (wanted.streams) {
        steps.on_text = [writer](std::size_t, std::string_view text) { return writer->piece(text); };
        steps.on_all = [writer](const std::vector<Generation>& all) { writer->end(all[0]); };
    } else {
        steps.on_text = [writer](std::size_t, std::string_view text) { return writer->read(text); };
        steps.on_all = [writer](const std::vector<Generation>& all) { writer->reply(all[0]); };
    }
    generate(*wanted.model, call, {{wanted.prompt, wanted.options}}, std::move(steps));
}

void count_tokens(const ModelSet& models, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    WantedMessage wanted;
    read_conversation(models, call, fields, wanted);
    fields.finish();
    call.reply({{"input_tokens", wanted.prompt.size()}});
}

}  // namespace

std::vector<Route> messages_routes(const ModelSet& models, const Limits& limits) {
    return {{.method = "POST",
             .path = "/v1/messages",
             .family = Family::anthropic,
             .body_bytes = limits.body_bytes,
             .is_work = true,
             .summary = "The answer to a conversation, as Anthropic's API has it",
             .gives = {"application/json", "text/event-stream"},
             .answer = [&models](const Call& call) { answer_message(models, call); }},
            {.method = "POST",
             .path = "/v1/messages/count_tokens",
             .family = Family::anthropic,
             .body_bytes = limits.body_bytes,
             .summary = "How many tokens a conversation has",
             .answer = [&models](const Call& call) { count_tokens(models, call); }}};
}

}  // namespace vkformer::serve
