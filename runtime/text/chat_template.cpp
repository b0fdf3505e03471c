// SPDX-License-Identifier: MIT
#include "text/chat_template.hpp"

#include <array>
#include <chrono>
#include <limits>
#include <new>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/mapped_file.hpp"
#include "core/platform/system.hpp"
#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/jinja/interpreter.hpp"
#include "text/jinja/parser.hpp"
#include "text/json_field.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {

using namespace jinja;

struct ChatTemplate::Parsed {
    std::string name, source;
    Body body;
    std::vector<std::pair<std::string, std::string>> tokens;
};

namespace {

constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;

Error located(const Failure& failure, const std::string& name, std::size_t line) {
    return {failure.code, name + ": line " + std::to_string(line) + ": " + failure.message};
}

/// The members of an object, in the text's order.
template <class Tell>
void for_each_member(const nlohmann::json& object, const formats::MemberOrder& order, const Tell& tell) {
    const auto names = order.find(object.get_ptr<const nlohmann::json::object_t*>());
    if (names == order.end()) return;
    for (const std::string& name : names->second) tell(name, *object.find(name));
}

Value from_json(const nlohmann::json& json, const formats::MemberOrder& order, Budget& budget) {
    const Budget::Depth depth(budget);
    if (json.is_string()) return json.get<std::string>();
    if (json.is_boolean()) return json.get<bool>();
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
        fail("a variable is a number beyond 64 bits");
    if (json.is_number_integer()) return json.get<std::int64_t>();
    if (json.is_number_float()) return json.get<double>();
    if (json.is_array()) {
        std::vector<Value> items;
        for (const auto& item : json) items.push_back(from_json(item, order, budget));
        return Value::list(std::move(items), budget);
    }
    if (json.is_object()) {
        std::vector<std::pair<Value, Value>> items;
        for_each_member(json, order, [&](const std::string& key, const nlohmann::json& item) {
            items.emplace_back(key, from_json(item, order, budget));
        });
        return Value::dict(std::move(items), budget);
    }
    return None();
}

Value function(const char* name, std::function<Value(const Arguments&)> body) {
    return std::make_shared<const Callable>(Callable{name, std::move(body)});
}

Value make_namespace(const Arguments& arguments, Budget& budget) {
    auto space = std::make_shared<Namespace>();
    for (const Value& value : arguments.positional) {
        if (!value.dict()) fail(std::string("a namespace is made of names and values, not of a ") + value.type_name());
        budget.step(2 * value.dict()->items.size());
        for (const auto& [key, item] : value.dict()->items) space->items.emplace_back(to_text(key, budget), item);
    }
    for (const auto& [name, value] : arguments.named) {
        budget.step(2);
        Value::list({value}, budget);  // what a list cannot hold, a namespace cannot either
        space->items.emplace_back(name, value);
    }
    return space;
}

Value range(const Arguments& arguments, Budget& budget) {
    constexpr std::int64_t kMaxElements = 100'000;  // as in Jinja's sandbox
    const auto number = [&](std::size_t i) {
        const auto whole = arguments.positional[i].integer();
        if (!whole) fail(std::string("range: a ") + arguments.positional[i].type_name() + " is no whole number");
        return *whole;
    };
    const std::size_t count = arguments.positional.size();
    if (count < 1 || count > 3 || !arguments.named.empty()) fail("range takes one to three numbers");
    const std::int64_t begin = count > 1 ? number(0) : 0, end = number(count > 1 ? 1 : 0),
                       step = count > 2 ? number(2) : 1;
    if (step == 0) fail("range: the step is zero");
    std::vector<Value> numbers;
    for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
        if (std::ssize(numbers) >= kMaxElements)
            fail("a range of more than " + std::to_string(kMaxElements) + " numbers");
        numbers.emplace_back(i);
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return Value::list(std::move(numbers), budget);
}

std::tm local_time() {
    return platform::local_time(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
}

/// What strftime() makes of a conversion in the C locale: the application's own would turn a model's "Monday" into "Montag".
std::string time_part(char conversion, const std::tm& now) {
    static constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                              "Thursday", "Friday", "Saturday"};
    static constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                                 "May",       "June",     "July",     "August",
                                                                 "September", "October",  "November", "December"};
    const auto named = [](const auto& names, int index, std::size_t letters) {
        const bool is_one = index >= 0 && static_cast<std::size_t>(index) < names.size();
        return std::string(is_one ? names[static_cast<std::size_t>(index)].substr(0, letters) : "?");
    };
    const auto padded = [](int number) { return (number < 10 ? " " : "") + std::to_string(number); };
    constexpr std::size_t kShort = 3;
    switch (conversion) {
    case 'a': return named(kDays, now.tm_wday, kShort);
    case 'A': return named(kDays, now.tm_wday, std::string::npos);
    case 'b':
    case 'h': return named(kMonths, now.tm_mon, kShort);
    case 'B': return named(kMonths, now.tm_mon, std::string::npos);
    case 'p': return now.tm_hour < 12 ? "AM" : "PM";
    case 'P': return now.tm_hour < 12 ? "am" : "pm";
    case 'e': return padded(now.tm_mday);
    case 'k': return padded(now.tm_hour);
    case 'l': return padded((now.tm_hour + 11) % 12 + 1);
    case 'u': return std::to_string(now.tm_wday == 0 ? 7 : now.tm_wday);
    case 'n': return "\n";
    case 't': return "\t";
    case 'f': return "000000";  // of a second, which nobody tells here
    case 'z':
    case 'Z': return "";  // as of Python's time without a zone
    case '%': return "%";
    default: break;
    }
    if (std::string_view("CdgGHIjmMsSUVwWyY").find(conversion) == std::string_view::npos) return {'%', conversion};
    const std::array<char, 3> format = {'%', conversion, 0};
    std::array<char, 64> buffer{};
    return {buffer.data(), std::strftime(buffer.data(), buffer.size(), format.data(), &now)};
}

/// What a conversion is made of; nothing: it is made of none. Windows' strftime() does not know half of them.
std::string_view time_parts(char conversion) {
    switch (conversion) {
    case 'c': return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x': return "%m/%d/%y";
    case 'F': return "%Y-%m-%d";
    case 'R': return "%H:%M";
    case 'r': return "%I:%M:%S %p";
    case 'T':
    case 'X': return "%H:%M:%S";
    default: return "";
    }
}

std::string time_text(std::string_view format, const std::tm& now) {
    std::string text;
    while (!format.empty()) {
        if (format.front() != '%' || format.size() == 1) {
            text += format.front();
            format.remove_prefix(1);
            continue;
        }
        const bool is_modified =
            (format[1] == 'E' || format[1] == 'O') && format.size() > 2;  // a locale's other digits
        const bool is_bare = format[1] == '-' && format.size() > 2;       // without zeros in front
        const char conversion = format[is_modified || is_bare ? 2 : 1];
        format.remove_prefix(is_modified || is_bare ? 3 : 2);
        const std::string_view parts = time_parts(conversion);
        std::string part = parts.empty() ? time_part(conversion, now) : time_text(parts, now);
        if (is_bare)
            part.erase(0, std::min(part.find_first_not_of("0 "), part.size() - std::min<std::size_t>(1, part.size())));
        text += part;
    }
    return text;
}

Value formatted_time(const Arguments& arguments, const std::tm& now, Budget& budget) {
    const auto bound = arguments.bind("strftime_now", {"format"}, 1);
    if (!bound[0]->text()) fail("strftime_now: the format is no string");
    if (bound[0]->text()->empty()) return "";
    budget.step(4 * bound[0]->text()->size());
    budget.bytes(16 * bound[0]->text()->size());
    return time_text(*bound[0]->text(), now);
}

Scope globals(const RenderOptions& options, Budget& budget) {
    Scope scope;
    scope.names["raise_exception"] = function("raise_exception", [&budget](const Arguments& arguments) -> Value {
        const auto bound = arguments.bind("raise_exception", {"message"}, 1);
        fail("the template refuses the conversation: " + to_text(*bound[0], budget));
    });
    scope.names["strftime_now"] =
        function("strftime_now", [now = options.now ? *options.now : local_time(), &budget](
                                     const Arguments& arguments) { return formatted_time(arguments, now, budget); });
    scope.names["namespace"] =
        function("namespace", [&budget](const Arguments& arguments) { return make_namespace(arguments, budget); });
    scope.names["range"] =
        function("range", [&budget](const Arguments& arguments) { return range(arguments, budget); });
    scope.names["dict"] = function("dict", [&budget](const Arguments& arguments) {
        std::vector<std::pair<Value, Value>> items;
        for (const Value& value : arguments.positional) {
            if (!value.dict()) refuse(std::string("dict() of a ") + value.type_name());
            items.insert(items.end(), value.dict()->items.begin(), value.dict()->items.end());
        }
        for (const auto& [name, value] : arguments.named) items.emplace_back(name, value);
        return Value::dict(std::move(items), budget);
    });
    return scope;
}

/// Tells the members of a JSON object; an empty text has none.
void read_object(std::string_view text, const char* what, Budget& budget,
                 const std::function<void(const std::string& name, Value value)>& tell) {
    if (text.empty()) return;
    formats::MemberOrder order;
    const auto json = formats::parse_json(text, what, &order);
    if (!json) fail(json.error().message);
    if (!json->is_object()) fail(std::string(what) + " are no JSON object");
    for_each_member(*json, order, [&](const std::string& name, const nlohmann::json& value) {
        tell(name, from_json(value, order, budget));
    });
}

Value conversation(std::span<const ChatMessage> messages, Budget& budget) {
    std::vector<Value> list;
    for (const ChatMessage& message : messages) {
        if (!is_utf8(message.role) || !is_utf8(message.content)) fail("a message is not UTF-8");
        std::vector<std::pair<Value, Value>> items = {{"role", message.role}, {"content", message.content}};
        read_object(message.further, "a message's members", budget, [&](const std::string& name, Value value) {
            if (name != "role" && name != "content") items.emplace_back(name, std::move(value));
        });
        list.push_back(Value::dict(std::move(items), budget));
    }
    return Value::list(std::move(list), budget);
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<Parsed> parsed) : parsed_(std::move(parsed)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string name) {
    if (!is_utf8(source)) return Error{ErrorCode::CorruptFile, name + ": the chat template is not UTF-8"};
    if (source.size() > kMaxTemplateBytes)
        return Error{ErrorCode::CorruptFile, name + ": a chat template of more than a mebibyte"};
    std::size_t line = 1;
    try {
        auto parsed = std::make_unique<Parsed>();
        parsed->name = name;
        parsed->source = source;
        parsed->body = jinja::parse(source, line);
        return ChatTemplate(std::move(parsed));
    } catch (const Failure& failure) {
        return located(failure, name, line);
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfHostMemory, name + ": out of memory while reading the chat template"};
    }
}

std::string_view ChatTemplate::source() const noexcept { return parsed_->source; }

void ChatTemplate::set_token(std::string role, std::string token) {
    parsed_->tokens.emplace_back(std::move(role), std::move(token));
}

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages, const RenderOptions& options) const {
    std::size_t line = 1;
    try {
        Budget budget;
        Scope scope = globals(options, budget);
        scope.names["messages"] = conversation(messages, budget);
        scope.names["tools"] = None();
        scope.names["documents"] = None();
        scope.names["add_generation_prompt"] = options.add_generation_prompt;
        for (const auto& [role, token] : parsed_->tokens) scope.names[role] = token;
        if (!options.bos_token.empty()) scope.names["bos_token"] = options.bos_token;
        if (!options.eos_token.empty()) scope.names["eos_token"] = options.eos_token;
        read_object(options.variables, "the variables", budget,
                    [&](const std::string& name, Value value) { scope.names[name] = std::move(value); });
        return Interpreter(scope, budget, line).run(parsed_->body);
    } catch (const Failure& failure) {
        return located(failure, parsed_->name, line);
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfHostMemory, parsed_->name + ": out of memory while writing the conversation"};
    }
}

namespace {

Result<std::optional<std::string>> read_if_there(const std::filesystem::path& path) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return std::optional<std::string>();
    VKFORMER_TRY(const auto file, MappedFile::open(path));
    const auto bytes = file->bytes();
    return std::optional(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

/// One of [{"name": …, "template": …}, …].
Result<std::string> named_template(const Field& list, std::string_view variant) {
    VKFORMER_TRY(const auto entries, list.elements());
    std::string names;
    for (const Field& entry : entries) {
        VKFORMER_TRY(const std::string name, entry.text("name"));
        if (name == variant) return entry.text("template");
        names += (names.empty() ? "" : ", ") + formats::quote(name);
    }
    return Error{ErrorCode::InvalidArgument,
                 list.path() + ": has no template " + formats::quote(variant) + ", only " + names};
}

Result<void> set_tokens(const Field& config, ChatTemplate& chat) {
    for (const char* role :
         {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
        const auto field = config.find(role);
        if (!field || field->json() == false) continue;
        VKFORMER_TRY(std::string token, field->json().is_object() ? field->text("content") : field->text());
        chat.set_token(role, std::move(token));
    }
    return {};
}

}  // namespace

Result<ChatTemplate> load_chat_template(const std::filesystem::path& folder, std::string_view variant) try {
    constexpr const char* kConfig = "tokenizer_config.json";
    std::error_code ignored;
    const bool has_config = std::filesystem::exists(folder / kConfig, ignored);
    nlohmann::json json = nlohmann::json::object();
    if (has_config) {
        VKFORMER_TRY(json, formats::read_json(folder / kConfig));
    }
    const Field config(json, kConfig);
    VKFORMER_TRY(auto source, read_if_there(folder / "chat_template.jinja"));
    std::string name = "chat_template.jinja";
    if (const auto field = config.find("chat_template"); !source && field) {
        name = "tokenizer_config.json: chat_template";
        VKFORMER_TRY(source, field->json().is_array() ? named_template(*field, variant) : field->text());
    }
    if (!source)
        return Error{
            ErrorCode::FileNotFound,
            folder.string() + " has no chat template: neither chat_template.jinja nor \"chat_template\" in " +
                "tokenizer_config.json. Is this a base model, not tuned for conversations? It continues a plain " +
                "text; or put the template of the tuned model beside it as chat_template.jinja"};
    VKFORMER_TRY(ChatTemplate chat, ChatTemplate::parse(*source, name));
    VKFORMER_CHECK(set_tokens(config, chat));
    return chat;
} catch (const std::bad_alloc&) {
    return Error{ErrorCode::OutOfHostMemory, folder.string() + ": out of memory while reading the chat template"};
}

}  // namespace vkformer::text
