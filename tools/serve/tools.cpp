// SPDX-License-Identifier: MIT
#include "serve/tools.hpp"

#include <algorithm>
#include <utility>

#include "formats/json.hpp"
#include "serve/call_constraints.hpp"
#include "serve/generation_fields.hpp"
#include "serve/refusal.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostTools = 128, kMostToolName = 64;

std::string place(std::string_view list, std::size_t i) { return std::string(list) + "[" + std::to_string(i) + "]"; }

/// The text of content that may be left out.
std::string optional_content(Fields& fields, std::string_view name, std::initializer_list<std::string_view> types) {
    return fields.has(name) ? read_content(fields, name, types) : std::string();
}

/// The object; what is no such thing is discarded.
json object_of(const json& given) {
    if (!given.is_string()) return given.is_object() ? given : json(json::value_t::discarded);
    const auto& text = given.get_ref<const std::string&>();
    auto parsed = formats::parse_ordered_json(text, "arguments");
    const bool is_taken = parsed && parsed->is_object() && !has_large_object(*parsed);
    return is_taken ? *std::move(parsed) : json(json::value_t::discarded);
}

void add_call(const Fields& fields, std::string_view field, Talk& talk, std::string_view id, std::string_view name,
              const json& arguments) {
    if (!talk.call(id, name, arguments))
        fields.refuse(field, "it is no JSON object of at most " + std::to_string(kMostMembers) + " members");
}

}  // namespace

// ---- conversations --------------------------------------------------------------------------------------------------

void Talk::say(std::string role, std::string content, std::string_view name) {
    turns_.push_back({.role = std::move(role), .content = std::move(content)});
    if (!name.empty()) turns_.back().further["name"] = name;
}

bool Talk::call(std::string_view id, std::string_view name, const json& arguments) {
    json object = object_of(arguments);
    if (object.is_discarded()) return false;
    if (!ends_with_assistant()) say("assistant", "");
    names_.insert_or_assign(std::string(id), std::string(name));
    turns_.back().further["tool_calls"].push_back(
        {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(object)}}}});
    return true;
}

void Talk::result(std::string_view id, std::string content, std::string_view name) {
    const auto called = names_.find(id);
    say("tool", std::move(content), name.empty() && called != names_.end() ? called->second : name);
    turns_.back().further["tool_call_id"] = id;
}

void Talk::append(const Talk& talk) {
    turns_.insert(turns_.end(), talk.turns_.begin(), talk.turns_.end());
    for (const auto& [id, name] : talk.names_) names_.insert_or_assign(id, name);
}

std::size_t Talk::bytes() const {
    std::size_t bytes = 0;
    for (const Message& message : messages())
        bytes += sizeof(Turn) + message.content.size() + 4 * message.further.size();
    return bytes;
}

std::vector<Message> Talk::messages() const {
    std::vector<Message> messages;
    for (const Turn& turn : turns_)
        messages.push_back({turn.role, turn.content, turn.further.empty() ? std::string() : turn.further.dump()});
    return messages;
}

namespace {

void read_calls(Fields& message, Talk& talk) {
    const json* const calls = message.take("tool_calls");
    if (!calls) return;
    const std::string list = message.name_of("tool_calls");
    if (!calls->is_array()) message.refuse("tool_calls", "it is no list of calls");
    for (std::size_t i = 0; i < calls->size(); ++i) {
        Fields call((*calls)[i], place(list, i));
        call.only("type", "function", "only functions are called");
        const std::string id = call.needed_text("id");
        Fields function(call.needed("function"), call.name_of("function"));
        const std::string name = function.needed_text("name");
        add_call(function, "arguments", talk, id, name, function.needed_text("arguments"));
        function.finish();
        call.pass_over({"index"});
        call.finish();
    }
}

}  // namespace

Talk read_messages(Fields& fields) {
    const json& given = fields.needed("messages");
    if (!given.is_array() || given.empty()) fields.refuse("messages", "it is no list of messages");
    Talk talk;
    for (std::size_t i = 0; i < given.size(); ++i) {
        Fields message(given[i], place("messages", i));
        std::string role = message.needed_text("role");
        const std::string name = message.text("name").value_or("");
        if (role == "developer") role = "system";  // the name that OpenAI's newer models have for it
        if (role == "tool") {
            const std::string id = message.needed_text("tool_call_id");
            talk.result(id, read_content(message, "content", {"text"}), name);
        } else if (role == "assistant") {
            const bool has_calls = message.has("tool_calls");
            talk.say(
                role,
                has_calls ? optional_content(message, "content", {"text"}) : read_content(message, "content", {"text"}),
                name);
            read_calls(message, talk);
        } else if (role == "system" || role == "user") {
            talk.say(role, read_content(message, "content", {"text"}), name);
        } else {
            message.refuse("role", "it is none of system, developer, user, assistant, tool");
        }
        message.only("annotations", json::array(), "they are not read");
        message.only("refusal", nullptr, "it is not read");
        message.finish();
    }
    return talk;
}

namespace {

/// A list of a user's or the assistant's blocks: results come before what is said.
void read_blocks(Fields& message, const std::string& role, const json& blocks, Talk& talk) {
    const std::string list = message.name_of("content");
    std::string said;
    std::vector<std::size_t> calls;
    bool has_results = false;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        Fields block(blocks[i], place(list, i));
        const std::string type = block.needed_text("type");
        block.pass_over({"cache_control"});
        if (type == "text") {
            said += block.needed_text("text");
            block.only("citations", json::array(), "they are not read");
        } else if (type == "tool_use" && role == "assistant") {
            calls.push_back(i);
            continue;
        } else if (type == "tool_result" && role == "user") {
            const std::string id = block.needed_text("tool_use_id");
            std::string content = optional_content(block, "content", {"text"});
            if (block.boolean("is_error").value_or(false)) content = "Error: " + content;
            talk.result(id, std::move(content));
            has_results = true;
        } else {
            block.refuse("type",
                         "only parts of text, the assistant's \"tool_use\" and the user's \"tool_result\" are read");
        }
        block.finish();
    }
    if (!has_results || !said.empty()) talk.say(role, std::move(said));
    for (const std::size_t i : calls) {
        Fields block(blocks[i], place(list, i));
        block.pass_over({"type", "cache_control"});
        const std::string id = block.needed_text("id"), name = block.needed_text("name");
        add_call(block, "input", talk, id, name, block.needed("input"));
        block.finish();
    }
}

}  // namespace

Talk read_turns(Fields& fields) {
    Talk talk;
    if (fields.has("system")) talk.say("system", read_content(fields, "system", {"text"}));
    const json& given = fields.needed("messages");
    if (!given.is_array() || given.empty()) fields.refuse("messages", "it is no list of messages");
    for (std::size_t i = 0; i < given.size(); ++i) {
        Fields message(given[i], place("messages", i));
        const std::string role = message.needed_text("role");
        if (role != "user" && role != "assistant") message.refuse("role", "it is neither \"user\" nor \"assistant\"");
        const json& content = message.needed("content");
        if (content.is_array())
            read_blocks(message, role, content, talk);
        else
            talk.say(role, read_content(message, "content", {"text"}));
        message.finish();
    }
    return talk;
}

void read_input(Fields& fields, Talk& talk) {
    const json& input = fields.needed("input");
    if (input.is_string()) return talk.say("user", input.get<std::string>());
    if (!input.is_array() || input.empty()) fields.refuse("input", "it is neither a text nor a list of messages");
    for (std::size_t i = 0; i < input.size(); ++i) {
        Fields item(input[i], place("input", i));
        const std::string type = item.text("type").value_or("message");
        item.pass_over({"id", "status"});
        if (type == "function_call") {
            const std::string id = item.needed_text("call_id"), name = item.needed_text("name");
            add_call(item, "arguments", talk, id, name, item.needed_text("arguments"));
        } else if (type == "function_call_output") {
            const std::string id = item.needed_text("call_id");
            talk.result(id, read_content(item, "output", {"input_text"}));
        } else if (type == "message") {
            std::string role = item.needed_text("role");
            if (role == "developer") role = "system";
            if (role != "system" && role != "user" && role != "assistant")
                item.refuse("role", "it is none of system, developer, user, assistant");
            talk.say(role, read_content(item, "content", {"input_text", "output_text"}));
        } else {
            item.refuse("type", "only messages, calls of functions and their outputs are read");
        }
        item.finish();
    }
}

// ---- tools ----------------------------------------------------------------------------------------------------------

void Tools::add(const Fields& fields, const std::string& name, const json* description, const json* parameters) {
    const bool is_name = !name.empty() && name.size() <= kMostToolName && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
               c == '.';
    });
    if (!is_name)
        fields.refuse("name",
                      "it is no name of 1 to " + std::to_string(kMostToolName) + " letters, digits, _, - and .");
    if (!names.insert(name).second) fields.refuse("name", "another tool has it");
    json function = {{"name", name}};
    if (description) function["description"] = *description;
    if (parameters)
        function["parameters"] = *parameters;
    else
        function["parameters"] = {{"type", "object"}, {"properties", json::object()}};
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
}

namespace {

const json* tool_list(Fields& fields) {
    const json* const given = fields.take("tools");
    if (given && (!given->is_array() || given->size() > kMostTools))
        fields.refuse("tools", "it is no list of at most " + std::to_string(kMostTools) + " tools");
    return given;
}

void read_function(Fields& function, std::string_view schema, Tools& tools) {
    const std::string name = function.needed_text("name");
    function.text("description");
    const json* const parameters = function.take(schema);
    if (parameters && !parameters->is_object()) function.refuse(schema, "it is no JSON object");
    const bool is_strict = function.boolean("strict").value_or(false);
    function.finish();
    tools.add(function, name, function.take("description"), parameters);
    if (is_strict) tools.strict.insert(name);
}

/// No tool may be called: then the model is told of none.
void forbid(Tools& tools) {
    tools.list.clear();
    tools.names.clear();
    tools.strict.clear();
}

/// One tool has to be called, and that one where it is named.
void demand(const Fields& fields, Tools& tools, const std::optional<std::string>& name = {}) {
    if (!tools) fields.refuse("tool_choice", "there are no tools");
    if (name && !tools.names.contains(*name)) fields.refuse("tool_choice", "no tool has that name");
    tools.must_call = true;
    if (name) tools.names = {*name};
}

}  // namespace

Tools read_tools(Fields& fields, bool is_flat) {
    Tools tools;
    const json* const given = tool_list(fields);
    for (std::size_t i = 0; given && i < given->size(); ++i) {
        Fields tool((*given)[i], place("tools", i));
        if (tool.needed_text("type") != "function")
            tool.refuse("type", "only tools of type \"function\" are supported");
        if (is_flat) {
            read_function(tool, "parameters", tools);
        } else {
            Fields function(tool.needed("function"), tool.name_of("function"));
            read_function(function, "parameters", tools);
            tool.finish();
        }
    }
    tools.one_call = !fields.boolean("parallel_tool_calls").value_or(true);
    const json* const chosen = fields.take("tool_choice");
    if (!chosen || *chosen == "auto") return tools;
    if (*chosen == "none") {
        forbid(tools);
    } else if (*chosen == "required") {
        demand(fields, tools);
    } else if (chosen->is_object()) {
        Fields choice(*chosen, "tool_choice");
        if (choice.needed_text("type") != "function") choice.refuse("type", "only \"function\" is supported");
        if (is_flat) {
            demand(fields, tools, choice.needed_text("name"));
        } else {
            Fields function(choice.needed("function"), choice.name_of("function"));
            demand(fields, tools, function.needed_text("name"));
            function.finish();
        }
        choice.finish();
    } else {
        fields.refuse("tool_choice", "it is none of none, auto, required, and no tool's name in an object");
    }
    return tools;
}

Tools read_anthropic_tools(Fields& fields) {
    Tools tools;
    const json* const given = tool_list(fields);
    for (std::size_t i = 0; given && i < given->size(); ++i) {
        Fields tool((*given)[i], place("tools", i));
        tool.only("type", "custom", "only tools of the client's own are supported");
        tool.pass_over({"cache_control"});
        tool.needed("input_schema");
        read_function(tool, "input_schema", tools);
    }
    const json* const chosen = fields.take("tool_choice");
    if (!chosen) return tools;
    Fields choice(*chosen, "tool_choice");
    const std::string type = choice.needed_text("type");
    tools.one_call = choice.boolean("disable_parallel_tool_use").value_or(false);
    if (type == "none")
        forbid(tools);
    else if (type == "any")
        demand(fields, tools);
    else if (type == "tool")
        demand(fields, tools, choice.needed_text("name"));
    else if (type != "auto")
        choice.refuse("type", "it is none of auto, none, any, tool");
    choice.finish();
    return tools;
}

// ---- prompts --------------------------------------------------------------------------------------------------------

std::vector<std::int32_t> make_prompt(const Fields& fields, const TextModel& model, const Talk& talk, Tools& tools,
                                      GenerateOptions& generation, const PromptOptions& options) {
    const GenerationEngine& engine = model.engine();
    if (options.continues_last && talk.ends_with_calls())
        fields.refuse("messages", "the last one has calls of tools, behind which no answer goes on: their results do");
    const std::vector<Message> messages = talk.messages();
    ChatOptions chat{.continues_last = options.continues_last};
    const auto tokens_of = [&](const json& variables) {
        chat.variables = variables.empty() ? std::string() : variables.dump();
        auto tokens = engine.tokenize_chat(messages, chat);
        if (!tokens) throw told(tokens.error());
        if (tokens->empty())
            fields.refuse(fields.has("input") ? "input" : "messages",
                          "what the model's chat template makes of them has no tokens");
        return *std::move(tokens);
    };
    if (!tools) return tokens_of(options.variables);
    tools.format = call_format(engine.chat_template());
    tools.are_named = tools.format == CallFormat::listed && names_calls(engine.chat_template());
    if (tools.format == CallFormat::none)
        fields.refuse("tools",
                      "the model's chat template says of no form of calls that the server knows how they look");
    generation.shows_special = true;
    if (generation.constraint)
        fields.refuse("tools",
                      "an answer that has to have another form calls none: leave them out, or say tool_choice none");
    if (tools.must_call) {
        if (options.continues_last) fields.refuse("tool_choice", "the answer has begun without a call");
        ForcedCalls forced = force_calls(fields, tools);
        generation.constraint = std::move(forced.constraint);
        chat.answer_prefix = tools.answer_prefix = std::move(forced.prefix);
    } else if (!tools.strict.empty()) {
        generation.constraint = strict_calls(fields, tools);
    }
    json variables = options.variables;
    variables["tools"] = tools.list;
    auto tokens = tokens_of(variables);
    if (tokens == tokens_of(options.variables))
        fields.refuse("tools", "the model's chat template has no place for tools");
    return tokens;
}

}  // namespace vkformer::serve
