// SPDX-License-Identifier: MIT
#include "serve/messages_routes.hpp"

#include <algorithm>
#include <memory>

#include "serve/fields.hpp"
#include "serve/generation.hpp"
#include "serve/generation_fields.hpp"
#include "serve/sse.hpp"

namespace vkformer::serve {
namespace {

using nlohmann::json;

constexpr std::size_t kMostSequences = 16;
constexpr std::int64_t kMostMessageTokens = 1 << 24;

struct WantedMessage {
    TextModel* model = nullptr;
    std::vector<std::int32_t> prompt;
    GenerateOptions options;
    bool streams = false;
};

std::vector<Message> read_turns(Fields& fields) {
    std::vector<Message> messages;
    if (fields.has("system")) messages.push_back({"system", read_content(fields, "system", {"text"})});
    const json& given = fields.needed("messages");
    if (!given.is_array() || given.empty()) fields.refuse("messages", "it is no list of messages");
    for (std::size_t i = 0; i < given.size(); ++i) {
        Fields message(given[i], "messages[" + std::to_string(i) + "]");
        const std::string role = message.needed_text("role");
        if (role != "user" && role != "assistant") message.refuse("role", "it is neither \"user\" nor \"assistant\"");
        messages.push_back({role, read_content(message, "content", {"text"})});
        message.finish();
    }
    if (messages.back().role != "user")
        fields.refuse("messages",
                      "the last one is not the user's: an answer that "
                      "has begun is not continued");
    return messages;
}

/// The model, and the tokens of the conversation; what both routes have.
void read_conversation(const ModelSet& models, Fields& fields, WantedMessage& wanted) {
    wanted.model = &models.get<TextModel>(fields.text("model"));
    if (!wanted.model->engine().has_chat_template())
        fields.refuse("messages",
                      "the model has no chat template: it continues "
                      "texts, at /v1/completions");
    const std::vector<Message> messages = read_turns(fields);
    fields.only("tools", json::array(), "tools are not supported");
    if (const json* const choice = fields.take("tool_choice");
        choice && *choice != json{{"type", "none"}} && *choice != json{{"type", "auto"}})
        fields.refuse("tool_choice", "tools are not supported");
    if (const json* const thinking = fields.take("thinking"); thinking && *thinking != json{{"type", "disabled"}})
        fields.refuse("thinking", "only {\"type\": \"disabled\"} is supported");
    fields.only("mcp_servers", json::array(), "they are not supported");
    fields.pass_over({"metadata", "service_tier", "cache_control", "user_profile_id", "workspace_id"});
    auto tokens = wanted.model->engine().tokenize_chat(messages);
    if (!tokens) throw told(tokens.error());
    wanted.prompt = *std::move(tokens);
}

WantedMessage read_message(const ModelSet& models, const json& body) {
    Fields fields(body);
    WantedMessage wanted;
    read_conversation(models, fields, wanted);
    fields.needed("max_tokens");
    wanted.options = read_sampling(fields, 1);
    wanted.options.max_tokens = static_cast<std::uint32_t>(*fields.integer("max_tokens", 1, kMostMessageTokens));
    wanted.options.stop = fields.texts("stop_sequences", kMostSequences);
    if (std::ranges::any_of(wanted.options.stop, &std::string::empty))
        fields.refuse("stop_sequences", "an empty text ends nothing");
    wanted.streams = fields.boolean("stream").value_or(false);
    fields.finish();
    return wanted;
}

/// Which of the texts that end a generation did, for the generation does not
/// say: the first in what the tokens spell.
json stopped_by(const TextModel& model, const std::vector<std::string>& stops, const Generation& generation) {
    if (generation.finish != Finish::stop_string) return nullptr;
    const auto text = model.engine().detokenize(generation.tokens);
    if (!text) return nullptr;
    std::size_t first = std::string::npos;
    json found;
    for (const std::string& stop : stops)
        if (const std::size_t at = text->find(stop); at < first) {
            first = at;
            found = stop;
        }
    return found;
}

std::string_view stop_reason(Finish finish) {
    switch (finish) {
    case Finish::stop_string: return "stop_sequence";
    case Finish::length:
    case Finish::context: return "max_tokens";
    default: return "end_turn";
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
          model_(*wanted.model),
          stops_(wanted.options.stop),
          prompt_tokens_(wanted.prompt.size()),
          id_(new_id("msg_")) {}

    void reply(const Generation& generation) {
        json message = head();
        message["content"] = json::array({{{"type", "text"}, {"text", generation.text}}});
        message["stop_reason"] = stop_reason(generation.finish);
        message["stop_sequence"] = stopped_by(model_, stops_, generation);
        message["usage"] = usage_of_message(generation);
        call_.reply(message);
    }

    // On the engine's thread.
    bool piece(std::string_view text) {
        begin();
        if (text.empty()) return stream_.write("");
        return stream_.write(
            event({{"type", "content_block_delta"}, {"index", 0}, {"delta", {{"type", "text_delta"}, {"text", text}}}},
                  "content_block_delta"));
    }
    void end(const Generation& generation) {
        begin();
        const json delta = {{"stop_reason", stop_reason(generation.finish)},
                            {"stop_sequence", stopped_by(model_, stops_, generation)}};
        stream_.end(event({{"type", "content_block_stop"}, {"index", 0}}, "content_block_stop") +
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
                {"model", model_.name()},
                {"content", json::array()},
                {"stop_reason", nullptr},
                {"stop_sequence", nullptr},
                {"usage", {{"input_tokens", prompt_tokens_}, {"output_tokens", 0}}}};
    }
    void begin() {
        if (std::exchange(has_begun_, true)) return;
        stream_.write(
            event({{"type", "message_start"}, {"message", head()}}, "message_start") +
            event({{"type", "content_block_start"}, {"index", 0}, {"content_block", {{"type", "text"}, {"text", ""}}}},
                  "content_block_start"));
    }

    Call call_;
    EventStream stream_;
    const TextModel& model_;
    std::vector<std::string> stops_;
    std::size_t prompt_tokens_;
    std::string id_;
    bool has_begun_ = false;
};

void answer_message(const ModelSet& models, const Call& call) {
    const WantedMessage wanted = read_message(models, parse_body(call.request()));
    const auto writer = std::make_shared<MessageWriter>(call, wanted);
    GenerationSteps steps{.on_error = [writer](const Refusal& refusal) { writer->fail(refusal); }};
    if (wanted.streams) {
        steps.on_text = [writer](std::size_t, std::string_view text) { return writer->piece(text); };
        steps.on_all = [writer](const std::vector<Generation>& all) { writer->end(all[0]); };
    } else {
        steps.on_all = [writer](const std::vector<Generation>& all) { writer->reply(all[0]); };
    }
    generate(*wanted.model, call, {{wanted.prompt, wanted.options}}, std::move(steps));
}

void count_tokens(const ModelSet& models, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    WantedMessage wanted;
    read_conversation(models, fields, wanted);
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
