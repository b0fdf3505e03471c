// SPDX-License-Identifier: MIT
/// A place in a JSON file: typed access whose errors say where it is.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "vkformer/result.hpp"

namespace vkformer::text {

/// Borrows the value. `null` counts as absent. Errors are CorruptFile:
///     tokenizer.json: model.vocab[3]: expected a list
class Field {
public:
    /// `path` begins the messages: "tokenizer.json".
    Field(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

    const nlohmann::json& json() const noexcept { return *value_; }
    const std::string& path() const noexcept { return path_; }

    bool has(std::string_view name) const;
    /// The member, or nothing where this is no object or the member is absent.
    std::optional<Field> find(std::string_view name) const;
    Result<Field> at(std::string_view name) const;
    /// The elements of a list.
    Result<std::vector<Field>> elements() const;
    Result<std::vector<Field>> elements(std::string_view name) const;

    Result<std::string> text() const;
    Result<std::string> text(std::string_view name) const;
    Result<std::string> text(std::string_view name, std::string fallback) const;
    Result<bool> boolean(std::string_view name) const;
    Result<bool> boolean(std::string_view name, bool fallback) const;
    Result<double> number() const;
    /// A non-negative integer below 2^31.
    Result<std::int32_t> id() const;
    Result<std::int32_t> id(std::string_view name) const;
    Result<std::int32_t> id(std::string_view name, std::int32_t fallback) const;

    /// Refuses members that are not in `names` and not null (UnsupportedConfig): an option that we do not know may matter.
    Result<void> check_members(std::initializer_list<std::string_view> names) const;

    Error corrupt(std::string_view what) const;
    /// UnsupportedConfig.
    Error unsupported(std::string_view what) const;

private:
    const nlohmann::json* value_;
    std::string path_;
};

}  // namespace vkformer::text
