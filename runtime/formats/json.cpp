// SPDX-License-Identifier: MIT
#include "formats/json.hpp"

#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/mapped_file.hpp"
#include "core/try.hpp"

namespace vkformer::formats {
namespace {

using nlohmann::json;

/// Builds the value from the parser's events; stops at the first rule broken.
class Builder {
public:
    explicit Builder(MemberOrder* order) : order_(order) {}
    bool null() { return add(nullptr); }
    bool boolean(bool value) { return add(value); }
    bool number_integer(std::int64_t value) { return add(value); }
    bool number_unsigned(std::uint64_t value) { return add(value); }
    bool number_float(double value, const std::string&) { return add(value); }
    bool string(std::string& value) { return add(std::move(value)); }
    bool binary(json::binary_t&) { return fail("binary value"); }
    bool start_object(std::size_t) { return open(json::object()); }
    bool start_array(std::size_t) { return open(json::array()); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool key(std::string& name) {
        auto& object = open_.back()->get_ref<json::object_t&>();
        auto [member, is_new] = object.try_emplace(name);
        if (!is_new) return fail("the key " + quote(name) + " occurs twice in one object");
        if (order_) (*order_)[&object].push_back(name);
        member_ = &member->second;
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const json::exception& error) {
        return fail(parse_message(error.what()));
    }

    json take() { return std::move(root_); }
    const std::string& message() const { return message_; }

private:
    json* place(json value) {
        if (open_.empty()) {
            root_ = std::move(value);
            return &root_;
        }
        if (open_.back()->is_array()) return &open_.back()->get_ref<json::array_t&>().emplace_back(std::move(value));
        *member_ = std::move(value);
        return member_;
    }
    bool add(json value) {
        place(std::move(value));
        return true;
    }
    bool open(json value) {
        if (open_.size() == kMaxJsonDepth)
            return fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
        open_.push_back(place(std::move(value)));
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }
    bool fail(std::string message) {
        message_ = std::move(message);
        return false;
    }

    MemberOrder* order_;
    json root_;
    std::vector<json*> open_;  // stable: only the innermost container grows
    json* member_ = nullptr;   // the value slot of the key read last
    std::string message_;
};

using nlohmann::ordered_json;

/// Members are put behind each other as they are: ordered_json looks through all those before for a second one of the name.
ordered_json ordered(const json& value, const MemberOrder& order) {
    if (value.is_array()) {
        ordered_json list = ordered_json::array();
        for (const json& item : value) list.push_back(ordered(item, order));
        return list;
    }
    if (!value.is_object()) return value;
    ordered_json object = ordered_json::object();
    const auto names = order.find(value.get_ptr<const json::object_t*>());
    if (names == order.end()) return object;
    auto& members = object.get_ref<ordered_json::object_t&>();
    for (const std::string& name : names->second) members.emplace_back(name, ordered(value.at(name), order));
    return object;
}

std::string with_named_numbers(std::string_view text) {
    constexpr std::string_view kNames[] = {"-Infinity", "Infinity", "NaN"};
    if (text.find("Infinity") == text.npos && text.find("NaN") == text.npos) return std::string(text);
    std::string result;
    bool is_quoted = false;
    while (!text.empty()) {
        std::size_t length = 1;
        if (is_quoted && text.front() == '\\')
            length = std::min<std::size_t>(2, text.size());
        else if (text.front() == '"')
            is_quoted = !is_quoted;
        const auto name = std::ranges::find_if(kNames, [&](std::string_view n) { return text.starts_with(n); });
        if (!is_quoted && name != std::end(kNames)) {
            result += "{\"__float__\": \"" + std::string(*name) + "\"}";
            length = name->size();
        } else {
            result += text.substr(0, length);
        }
        text.remove_prefix(length);
    }
    return result;
}

}  // namespace

Result<json> parse_json(std::string_view text, std::string_view file_name, MemberOrder* order) {
    // The parser would take a zero byte for the end of its input.
    if (text.find('\0') != text.npos)
        return Error{ErrorCode::CorruptFile, std::string(file_name) + ": parse error: the text contains a zero byte"};
    try {
        Builder builder(order);
        if (!json::sax_parse(text.begin(), text.end(), &builder))
            return Error{ErrorCode::CorruptFile, std::string(file_name) + ": " + builder.message()};
        return builder.take();
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfHostMemory, std::string(file_name) + ": out of memory while parsing"};
    } catch (const json::exception& error) {
        return Error{ErrorCode::CorruptFile, std::string(file_name) + ": " + parse_message(error.what())};
    }
}

Result<ordered_json> parse_ordered_json(std::string_view text, std::string_view file_name) {
    MemberOrder order;
    VKFORMER_TRY(const json value, parse_json(text, file_name, &order));
    try {
        return ordered(value, order);
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfHostMemory, std::string(file_name) + ": out of memory while parsing"};
    }
}

Result<json> parse_python_json(std::string_view text, std::string_view file_name) {
    return parse_json(with_named_numbers(text), file_name);
}

namespace {

Result<json> read_by(Result<json> (*parse)(std::string_view, std::string_view), const std::filesystem::path& path) {
    VKFORMER_TRY(const auto file, MappedFile::open(path));
    const auto bytes = file->bytes();
    return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.filename().string());
}

}  // namespace

Result<json> read_json(const std::filesystem::path& path) {
    return read_by([](std::string_view text, std::string_view name) { return parse_json(text, name); }, path);
}

Result<json> read_python_json(const std::filesystem::path& path) { return read_by(parse_python_json, path); }

std::string quote(std::string_view name) {
    constexpr std::size_t kMaxShown = 100;
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text = "\"";
    for (const char c : name.substr(0, kMaxShown)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7F) {
            text += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
        } else {
            text += c;
        }
    }
    if (name.size() > kMaxShown) text += "…";
    return text + "\"";
}

std::string parse_message(std::string_view what) {
    if (const auto end = what.find("] "); what.starts_with('[') && end != what.npos) what.remove_prefix(end + 2);
    constexpr std::size_t kMaxShown = 300;
    if (what.size() <= kMaxShown) return std::string(what);
    return std::string(what.substr(0, kMaxShown)) + "…";
}

}  // namespace vkformer::formats
