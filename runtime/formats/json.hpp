// SPDX-License-Identifier: MIT
/// JSON from outside: bounded depth, no duplicate keys, no exceptions.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "vkformer/result.hpp"

namespace vkformer::formats {

inline constexpr std::size_t kMaxJsonDepth = 64;

/// The names of each object's members as the text has them, by the address of its nlohmann::json::object_t, which sorts them.
using MemberOrder = std::map<const void*, std::vector<std::string>>;

/// The value that `text` spells. `file_name` begins every message. `order`, where given, is added to.
/// Errors: CorruptFile (not JSON, nested deeper than kMaxJsonDepth, the same key twice in one object), OutOfHostMemory.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view file_name, MemberOrder* order = nullptr);

/// The same with members in the text's order. Time is in proportion to the text.
Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view file_name);

/// The same of what Python's json module writes, whose Infinity, -Infinity and NaN are no JSON: they become what transformers 5 writes,
/// {"__float__": "Infinity"}.
Result<nlohmann::json> parse_python_json(std::string_view text, std::string_view file_name);

/// parse_json and parse_python_json of a whole file. Errors: FileNotFound besides.
Result<nlohmann::json> read_json(const std::filesystem::path& path);
Result<nlohmann::json> read_python_json(const std::filesystem::path& path);

/// A name out of a file as messages show it: in double quotes, control characters as \xNN, long names cut.
std::string quote(std::string_view name);

/// The parser's own message without its prefix, cut to a readable length.
std::string parse_message(std::string_view what);

}  // namespace vkformer::formats
