// SPDX-License-Identifier: MIT
#include "formats/config.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"

namespace vkformer::formats {
namespace {

using nlohmann::json;

/// A value from the file as messages show it.
std::string value_text(const json& value) {
    constexpr std::size_t kMaxShown = 100;
    if (const auto* text = value.get_ptr<const std::string*>()) return quote(*text);
    if (value.is_structured() && value.size() > 20)
        return (value.is_array() ? "a list of " : "an object of ") + std::to_string(value.size());
    std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "…";
    return text;
}

/// The integer, if it is one and within T.
template <class T>
std::optional<T> integer_value(const json& value) {
    if (value.is_number_unsigned()) {
        const auto number = value.get<std::uint64_t>();
        if (std::in_range<T>(number)) return static_cast<T>(number);
    } else if (value.is_number_integer()) {
        const auto number = value.get<std::int64_t>();
        if (std::in_range<T>(number)) return static_cast<T>(number);
    }
    return std::nullopt;
}

/// `null_value`: what stands for null, which is no integer otherwise.
std::optional<std::vector<std::int32_t>> integer_list(const json& value, std::optional<std::int32_t> null_value = {}) {
    if (!value.is_array()) return std::nullopt;
    std::vector<std::int32_t> list;
    for (const json& element : value) {
        const auto number = element.is_null() ? null_value : integer_value<std::int32_t>(element);
        if (!number) return std::nullopt;
        list.push_back(*number);
    }
    return list;
}

/// A number, or one of those that have a name.
std::optional<double> number_of(const json& value) {
    if (value.is_number()) return value.get<double>();
    if (!value.is_object() || value.size() != 1 || !value.contains("__float__")) return std::nullopt;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const json& name = value["__float__"];
    if (name == "Infinity") return kInfinity;
    if (name == "-Infinity") return -kInfinity;
    return std::nullopt;
}

Result<std::shared_ptr<const json>> object_of(Result<json> parsed, const std::string& file_name) {
    if (!parsed) return std::move(parsed).error();
    if (!parsed->is_object())
        return Error{ErrorCode::CorruptFile, file_name + ": is " + value_text(*parsed) + ", expected an object"};
    return std::shared_ptr<const json>(std::make_shared<json>(std::move(*parsed)));
}

}  // namespace

Config::Config(std::shared_ptr<const json> object, std::string file_name, std::shared_ptr<AskedNames> asked,
               std::string path)
    : object_(std::move(object)), file_name_(std::move(file_name)), asked_(std::move(asked)), path_(std::move(path)) {}

namespace {

/// A model's folder that is none.
std::optional<Error> missing_model(const std::filesystem::path& path) {
    std::error_code ignored;
    if (path.filename() != "config.json" || std::filesystem::exists(path, ignored)) return std::nullopt;
    const std::filesystem::path folder = path.parent_path();
    std::string found = "is empty";
    if (!folder.empty())
        found = "\"" + folder.string() + "\" " +
                (std::filesystem::exists(folder, ignored) ? "has no config.json" : "does not exist");
    return Error{
        ErrorCode::FileNotFound,
        "the model's path " + found +
            "; give the path of a Hugging Face folder (with config.json and weights) or of a GGUF file; nothing is "
            "downloaded"};
}

}  // namespace

Result<Config> Config::open(const std::filesystem::path& path) {
    if (const auto missing = missing_model(path)) return *missing;
    const std::string file_name = path.filename().string();
    VKFORMER_TRY(auto object, object_of(read_python_json(path), file_name));
    return Config(std::move(object), file_name, std::make_shared<AskedNames>(), "");
}

Result<Config> Config::open_if_present(const std::filesystem::path& path) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return open(path);
    return parse("{}", path.filename().string());
}

Result<Config> Config::parse(std::string_view text, std::string_view file_name) {
    const std::string name(file_name);
    VKFORMER_TRY(auto object, object_of(parse_python_json(text, name), name));
    return Config(std::move(object), name, std::make_shared<AskedNames>(), "");
}

const json* Config::find(std::string_view name) const {
    asked_->add(path_ + std::string(name));
    const auto& object = object_->get_ref<const json::object_t&>();
    const auto found = object.find(std::string(name));
    return found == object.end() || found->second.is_null() ? nullptr : &found->second;
}

bool Config::has(std::string_view name) const { return find(name) != nullptr; }

std::vector<std::string> Config::names() const { return unknown_names({}); }

std::vector<std::string> Config::unknown_names(std::span<const std::string_view> known) const {
    std::vector<std::string> names;
    for (const auto& [name, value] : object_->get_ref<const json::object_t&>()) {
        asked_->add(path_ + name);
        if (!value.is_null() && std::ranges::find(known, std::string_view(name)) == known.end()) names.push_back(name);
    }
    return names;
}

bool Config::is_empty() const {
    return std::ranges::all_of(object_->get_ref<const json::object_t&>(),
                               [](const auto& member) { return member.second.is_null(); });
}

namespace {

/// An object whose fields are asked for one by one is among the names with this behind its own.
constexpr char kOpened = '.';

void add_unasked(const json& object, const std::string& path, const AskedNames& asked, std::size_t skipped,
                 std::vector<std::string>& names) {
    for (const auto& [name, value] : object.get_ref<const json::object_t&>()) {
        const std::string own = path + name;
        if (value.is_null()) continue;
        if (!asked.has(own))
            names.push_back(own.substr(skipped));
        else if (value.is_object() && asked.has(own + kOpened))
            add_unasked(value, own + kOpened, asked, skipped, names);
    }
}

}  // namespace

std::vector<std::string> Config::unasked() const {
    std::vector<std::string> names;
    add_unasked(*object_, path_, *asked_, path_.size(), names);
    return names;
}

std::string Config::shown(std::string_view path) const {
    const json* value = object_.get();
    while (!path.empty()) {
        const auto& object = value->get_ref<const json::object_t&>();
        const std::size_t length = std::min(path.find(kOpened), path.size());
        auto found = object.find(std::string(path));  // a name may have a dot of its own
        if (found == object.end()) found = object.find(std::string(path.substr(0, length)));
        if (found == object.end()) return "";
        value = &found->second;
        if (found->first.size() == path.size() || !value->is_object()) break;
        path.remove_prefix(std::min(length + 1, path.size()));
    }
    return value_text(*value);
}

Error Config::unexpected(std::string_view name, std::string_view expected) const {
    const json* value = find(name);
    return {ErrorCode::CorruptFile, file_name_ + ": " + quote(name) + " is " +
                                        (value ? value_text(*value) : "missing") + ", expected " +
                                        std::string(expected)};
}

Error Config::unsupported(std::string_view name, std::string_view supported) const {
    const json* value = find(name);
    return {ErrorCode::UnsupportedConfig, file_name_ + ": " + quote(name) + " is " +
                                              (value ? value_text(*value) : "missing") +
                                              ", supported: " + std::string(supported)};
}

Result<std::uint32_t> Config::unsigned_integer(std::string_view name, const Expect<std::uint32_t>& expect) const {
    const json* value = find(name);
    if (!value && expect.fallback) return *expect.fallback;
    const auto number = value ? integer_value<std::uint32_t>(*value) : std::nullopt;
    if (!number || !expect.holds(*number)) return unexpected(name, description("integer", expect));
    return *number;
}

Result<std::int64_t> Config::integer(std::string_view name, const Expect<std::int64_t>& expect) const {
    const json* value = find(name);
    if (!value && expect.fallback) return *expect.fallback;
    const auto number = value ? integer_value<std::int64_t>(*value) : std::nullopt;
    if (!number || !expect.holds(*number)) return unexpected(name, description("integer", expect));
    return *number;
}

Result<double> Config::real(std::string_view name, const Expect<double>& expect) const {
    const json* value = find(name);
    if (!value && expect.fallback) return *expect.fallback;
    if (!value || !value->is_number()) return unexpected(name, description("number", expect));
    const auto number = value->get<double>();
    if (!std::isfinite(number) || !expect.holds(number)) return unexpected(name, description("number", expect));
    return number;
}

Result<bool> Config::boolean(std::string_view name, std::optional<bool> fallback) const {
    const json* value = find(name);
    if (!value && fallback) return *fallback;
    if (!value || !value->is_boolean()) return unexpected(name, "true or false");
    return value->get<bool>();
}

Result<std::string> Config::string(std::string_view name, std::optional<std::string> fallback) const {
    const json* value = find(name);
    if (!value && fallback) return *std::move(fallback);
    if (!value || !value->is_string()) return unexpected(name, "a text");
    return value->get<std::string>();
}

Result<std::vector<std::string>> Config::strings(std::string_view name) const {
    std::vector<std::string> texts;
    const json* value = find(name);
    if (!value) return texts;
    if (!value->is_array()) return unexpected(name, "a list of texts");
    for (const json& element : *value) {
        if (!element.is_string()) return unexpected(name, "a list of texts");
        texts.push_back(element.get<std::string>());
    }
    return texts;
}

Result<std::vector<double>> Config::reals(std::string_view name) const {
    std::vector<double> numbers;
    const json* value = find(name);
    if (!value) return numbers;
    if (!value->is_array()) return unexpected(name, "a list of numbers");
    for (const json& element : *value) {
        if (!element.is_number() || !std::isfinite(element.get<double>())) return unexpected(name, "a list of numbers");
        numbers.push_back(element.get<double>());
    }
    return numbers;
}

Result<std::optional<std::pair<double, double>>> Config::range(std::string_view name) const {
    const json* value = find(name);
    if (!value) return std::optional<std::pair<double, double>>();
    const auto bad = [&] { return unexpected(name, "a list of two numbers, the smaller one first"); };
    if (!value->is_array() || value->size() != 2) return bad();
    const auto least = number_of((*value)[0]), most = number_of((*value)[1]);
    if (!least || !most || !(*least <= *most)) return bad();
    return std::optional(std::pair(*least, *most));
}

Result<std::vector<std::int32_t>> Config::token_ids(std::string_view name) const {
    const json* value = find(name);
    if (!value) return std::vector<std::int32_t>();
    if (const auto number = integer_value<std::int32_t>(*value)) return std::vector{*number};
    if (auto list = integer_list(*value)) return *std::move(list);
    return unexpected(name, "an integer or a list of integers");
}

Result<std::vector<std::vector<std::int32_t>>> Config::token_id_lists(std::string_view name) const {
    std::vector<std::vector<std::int32_t>> lists;
    const json* value = find(name);
    if (!value) return lists;
    if (!value->is_array()) return unexpected(name, "a list of lists of integers");
    for (const json& element : *value) {
        auto list = integer_list(element, -1);
        if (!list) return unexpected(name, "a list of lists of integers");
        lists.push_back(*std::move(list));
    }
    return lists;
}

Result<std::vector<std::pair<std::vector<std::int32_t>, double>>> Config::biased_token_ids(
    std::string_view name) const {
    std::vector<std::pair<std::vector<std::int32_t>, double>> pairs;
    const json* value = find(name);
    if (!value) return pairs;
    const auto bad = [&] { return unexpected(name, "a list of pairs of a list of integers and a number"); };
    if (!value->is_array()) return bad();
    for (const json& element : *value) {
        if (!element.is_array() || element.size() != 2 || !element[1].is_number()) return bad();
        auto tokens = integer_list(element[0]);
        if (!tokens) return bad();
        pairs.emplace_back(*std::move(tokens), element[1].get<double>());
    }
    return pairs;
}

Result<Config> Config::object(std::string_view name) const {
    const json* value = find(name);
    if (value && !value->is_object()) return unexpected(name, "an object");
    std::string path = path_ + std::string(name) + kOpened;
    asked_->add(path);
    return Config(value ? std::shared_ptr<const json>(object_, value) : std::make_shared<const json>(json::object()),
                  file_name_ + ": " + quote(name), asked_, std::move(path));
}

}  // namespace vkformer::formats
