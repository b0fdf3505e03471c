// SPDX-License-Identifier: MIT
/// Conversations with tools: what requests of three APIs say of them, as a model's chat template reads it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "serve/fields.hpp"
#include "serve/text_model.hpp"
#include "serve/tool_calls.hpp"

namespace vkformer::serve {

/// A conversation that is being read. Members are in the order in which requests have them: models are trained on that.
class Talk {
public:
    void say(std::string role, std::string content, std::string_view name = {});
    /// A call of the assistant, in its last message if that is the latest one. `arguments`: a JSON object as text, or in it.
    /// False: it is none.
    bool call(std::string_view id, std::string_view name, const nlohmann::ordered_json& arguments);
    /// What came of a call. `name`: of the tool; empty: that of the call with this id, if there is one.
    void result(std::string_view id, std::string content, std::string_view name = {});

    void append(const Talk& talk);

    bool ends_with_assistant() const noexcept { return !turns_.empty() && turns_.back().role == "assistant"; }
    bool ends_with_calls() const noexcept { return !turns_.empty() && turns_.back().further.contains("tool_calls"); }
    std::vector<Message> messages() const;
    std::size_t bytes() const;  ///< about

private:
    struct Turn {
        std::string role, content;
        nlohmann::ordered_json further = nlohmann::ordered_json::object();
    };
    std::vector<Turn> turns_;
    std::map<std::string, std::string, std::less<>> names_;  // of calls
};

/// The tools of a request.
struct Tools {
    /// A list in the shape of OpenAI's chat; empty: there are none, or none may be called.
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    std::set<std::string> names;   ///< that may be called
    std::set<std::string> strict;  ///< of them, whose arguments have to fit their schemas
    CallFormat format = CallFormat::none;
    bool are_named = false;     ///< as of names_calls()
    bool one_call = false;      ///< at most
    bool must_call = false;     ///< the answer is nothing but calls
    std::string answer_prefix;  ///< the prompt ends with it: what the calls begin with

    explicit operator bool() const noexcept { return !list.empty(); }
    /// Adds one. Throws Refusal (400): a name that is none, or that another one has.
    void add(const Fields& fields, const std::string& name, const nlohmann::ordered_json* description,
             const nlohmann::ordered_json* parameters);
};

/// OpenAI's "tools", "tool_choice" and "parallel_tool_calls": of the chat, or with `is_flat` of the responses.
Tools read_tools(Fields& fields, bool is_flat);
/// Anthropic's "tools" and "tool_choice".
Tools read_anthropic_tools(Fields& fields);

/// OpenAI's "messages".
Talk read_messages(Fields& fields);
/// Anthropic's "system" and "messages".
Talk read_turns(Fields& fields);
/// "instructions" and "input" of OpenAI's responses.
void read_input(Fields& fields, Talk& talk);

/// How the prompt is to be made of a conversation.
struct PromptOptions {
    bool continues_last = false;
    nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< of the template
};
/// The tokens of the conversation, as the model's template has it; says in `tools` how its calls look, and in `generation` what its answer has
/// to be for them. Throws Refusal (400): there is no template, it refuses the conversation, has no place for tools, or writes calls in a
/// way that is not known; calls and another form of the answer are asked for together.
std::vector<std::int32_t> make_prompt(const Fields& fields, const TextModel& model, const Talk& talk, Tools& tools,
                                      GenerateOptions& generation, const PromptOptions& options = {});

}  // namespace vkformer::serve
