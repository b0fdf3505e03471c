// SPDX-License-Identifier: MIT
/// From a conversation to the text that a model was trained on, by the template that it carries.
#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::text {

struct ChatMessage {
    std::string role;  ///< "system", "user", "assistant", or what else the template knows
    std::string content;
    std::string further = {};  ///< a JSON object of what else the template knows of it, "tool_calls"; may be empty
};

struct RenderOptions {
    bool add_generation_prompt = true;  ///< end with what begins the assistant's next turn
    std::string_view bos_token = {};    ///< wins over the model folder's own where it is not empty
    std::string_view eos_token = {};
    /// A JSON object of further variables: {"enable_thinking": false, "tools": […]}. They win over all others.
    std::string_view variables = {};
    std::optional<std::tm> now = {};  ///< for templates that write the date; else the local time
};

/// A Jinja template as Hugging Face's transformers runs it (trimmed blocks, an immutable sandbox), in the subset that chat
/// templates use; docs/text.md lists it. Immutable; may be used from several threads.
class ChatTemplate {
public:
    /// `name` begins the messages. Errors: CorruptFile (a syntax error), UnsupportedConfig (what is not implemented, by name),
    /// each with the line, OutOfHostMemory.
    static Result<ChatTemplate> parse(std::string_view source, std::string name);

    /// Errors: InvalidArgument (the template refuses the conversation, or does not fit what it is given, or uses up too much
    /// time or memory), UnsupportedConfig, OutOfHostMemory; each with the line.
    Result<std::string> render(std::span<const ChatMessage> messages, const RenderOptions& options = {}) const;

    std::string_view source() const noexcept;

    /// A special token that the template may print under the name of its role ("bos_token").
    void set_token(std::string role, std::string token);

    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;
    ~ChatTemplate();

private:
    struct Parsed;
    explicit ChatTemplate(std::unique_ptr<Parsed> parsed);

    std::unique_ptr<Parsed> parsed_;
};

/// The template of a model folder: `chat_template.jinja`, or else `chat_template` of `tokenizer_config.json` (a text, or a list
/// of named ones, of which `variant` is taken, "default" if there is one of that name), with the special tokens that the folder
/// names. Errors: as parse; FileNotFound where the folder has no template.
Result<ChatTemplate> load_chat_template(const std::filesystem::path& folder, std::string_view variant = "default");

}  // namespace vkformer::text
