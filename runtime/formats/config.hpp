// SPDX-License-Identifier: MIT
/// Hugging Face `config.json` and `generation_config.json`, read by typed getters that check.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "formats/asked_names.hpp"
#include "formats/expect.hpp"
#include "vkformer/result.hpp"

namespace vkformer::formats {

/// One JSON object. `null` counts as absent everywhere, as Hugging Face writes it. A plain value, cheap to copy.
/// The getters' errors are CorruptFile, and name file, field, what was found and what was expected:
///     config.json: "d_model" is "abc", expected a positive integer
class Config {
public:
    /// Errors: FileNotFound, CorruptFile (not a JSON object, a key twice).
    static Result<Config> open(const std::filesystem::path& path);
    /// As open, but a file that does not exist is an object without fields.
    static Result<Config> open_if_present(const std::filesystem::path& path);
    /// `file_name` begins the messages.
    static Result<Config> parse(std::string_view text, std::string_view file_name);

    bool has(std::string_view name) const;
    /// It has no fields but nulls.
    bool is_empty() const;
    /// The fields that are not null, sorted: for model code that refuses what it does not know. All of them have been asked for then.
    std::vector<std::string> names() const;
    /// Those of names() that are not in `known`.
    std::vector<std::string> unknown_names(std::span<const std::string_view> known) const;

    Result<std::uint32_t> unsigned_integer(std::string_view name, const Expect<std::uint32_t>& expect = {}) const;
    Result<std::int64_t> integer(std::string_view name, const Expect<std::int64_t>& expect = {}) const;
    /// Integers are taken too.
    Result<double> real(std::string_view name, const Expect<double>& expect = {}) const;
    Result<bool> boolean(std::string_view name, std::optional<bool> fallback = {}) const;
    Result<std::string> string(std::string_view name, std::optional<std::string> fallback = {}) const;
    /// A list of texts; empty where absent.
    Result<std::vector<std::string>> strings(std::string_view name) const;
    /// A list of numbers; empty where absent.
    Result<std::vector<double>> reals(std::string_view name) const;
    /// The least and the largest of some numbers, which may be infinite; none where absent.
    Result<std::optional<std::pair<double, double>>> range(std::string_view name) const;
    /// A list of token ids, or one (`eos_token_id` is written both ways); empty where absent.
    Result<std::vector<std::int32_t>> token_ids(std::string_view name) const;
    /// A list of lists (`bad_words_ids`, `forced_decoder_ids`), −1 for a null in them; empty where absent.
    Result<std::vector<std::vector<std::int32_t>>> token_id_lists(std::string_view name) const;
    /// A list of pairs, each a list of token ids and a number (`sequence_bias`); empty where absent.
    Result<std::vector<std::pair<std::vector<std::int32_t>, double>>> biased_token_ids(std::string_view name) const;
    /// A nested object; one without fields where absent.
    Result<Config> object(std::string_view name) const;

    /// The error for a value that is well-formed but that the model code does not implement (UnsupportedConfig):
    ///     config.json: "activation_function" is "mish", supported: relu, gelu, swish
    Error unsupported(std::string_view name, std::string_view supported) const;

    const std::string& file_name() const noexcept { return file_name_; }

    // Copies and nested objects know together what was asked for: by has(), by a getter, or by the opening of an object for its fields.
    /// Whether the field was, present or not; of a nested object's "rope_parameters.factor".
    bool was_asked(std::string_view path) const { return asked_->has(path_ + std::string(path)); }
    /// The fields that are not null and that nobody asked for, sorted; of nested objects that were opened theirs, "rope_parameters.factor".
    std::vector<std::string> unasked() const;
    /// A field's value as messages show it; empty where absent.
    std::string shown(std::string_view path) const;

private:
    Config(std::shared_ptr<const nlohmann::json> object, std::string file_name, std::shared_ptr<AskedNames> asked,
           std::string path);

    const nlohmann::json* find(std::string_view name) const;
    Error unexpected(std::string_view name, std::string_view expected) const;

    std::shared_ptr<const nlohmann::json> object_;
    std::string file_name_;
    std::shared_ptr<AskedNames> asked_;
    std::string path_;  ///< of a nested object: what precedes its fields' names among those that were asked for
};

}  // namespace vkformer::formats
