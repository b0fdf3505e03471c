// SPDX-License-Identifier: MIT
/// GGUF files, versions 2 and 3: typed metadata, then tensors in ggml's types.
/// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/shape.hpp"
#include "formats/expect.hpp"
#include "formats/weights.hpp"
#include "vkformer/result.hpp"

namespace vkformer::formats {

/// The types of metadata values, with the format's numbers.
enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
std::string_view to_string(GgufType type) noexcept;

/// One metadata value as it stands in the file. The views point into it.
struct GgufValue {
    std::string_view key;
    GgufType type = GgufType::u32;
    GgufType element = GgufType::u32;     ///< of an array: the type of its elements
    std::uint64_t count = 1;              ///< of an array: how many
    std::span<const std::byte> encoded;   ///< all that follows the value's type
    std::span<const std::byte> elements;  ///< of an array: what follows its count; else as `encoded`
};

/// ggml's name for a tensor type ("Q4_K"); empty where unknown.
std::string_view ggml_type_name(std::uint32_t type) noexcept;
/// The dtype of a tensor type that vkformer computes with.
std::optional<DType> dtype_of_ggml_type(std::uint32_t type) noexcept;
/// nullopt for u8 and boolean, which the format does not have.
std::optional<std::uint32_t> ggml_type_of(DType dtype) noexcept;

/// One tensor as the file lists it. `shape` is row-major: the file's dimensions reversed, so [out, in] of a linear layer.
struct GgufTensor {
    std::string_view name;
    std::uint32_t type = 0;  ///< ggml's number
    Shape shape;
    std::span<const std::byte> bytes;
};

/// One parsed file, or the parts of a split one. The tensors point into it and keep it alive; nothing is copied.
/// Every statement of the header is checked: whoever holds a Gguf holds tensors whose bytes are there and do not overlap, and
/// values that lie in the file. A plain value, cheap to copy.
///
/// The getters are those of Config, and their errors too (CorruptFile: file, key, what was found and what was expected):
///     model.gguf: "llama.block_count" is "abc", expected a positive integer
class Gguf {
public:
    static constexpr std::uint32_t kDefaultAlignment = 32;
    static constexpr std::size_t kMaxArrayDepth = 8;
    static constexpr std::size_t kMaxTensorRank = 4;

    /// Maps the file; of a split one (NAME-00001-of-00003.gguf, any part) all parts, from the same folder.
    /// Errors: FileNotFound, CorruptFile, OutOfHostMemory.
    static Result<Gguf> open(const std::filesystem::path& path);
    /// One file that is not split. `file` must stay valid as long as `owner`, which every tensor keeps. `name` begins the
    /// messages.
    static Result<Gguf> parse(std::span<const std::byte> file, std::shared_ptr<const void> owner,
                              std::string_view name);

    std::uint32_t version() const noexcept;
    std::uint32_t alignment() const noexcept;
    /// How many files it is made of.
    std::size_t part_count() const noexcept;
    const std::string& file_name() const noexcept;
    /// In file order. The views in them are valid as long as this object or a copy of it.
    std::span<const GgufValue> values() const noexcept;
    std::span<const GgufTensor> tensors() const noexcept;
    /// The tensors of the dtypes that vkformer has, and those that it repacks (formats/gguf_repack.hpp) when they are first asked for, without
    /// the scales beside those of NVFP4, which are in their values. Those of other types are refused by Weights::get, by name and type.
    const Weights& weights() const noexcept;

    bool has(std::string_view key) const;
    /// nullptr where absent. The key has been asked for then, as by has() and the getters; copies know together what was.
    const GgufValue* find(std::string_view key) const;
    /// The values that nobody asked for, in file order; valid as values() are.
    std::vector<const GgufValue*> unasked() const;

    /// Integers of every width and sign are taken.
    Result<std::uint32_t> unsigned_integer(std::string_view key, const Expect<std::uint32_t>& expect = {}) const;
    Result<std::int64_t> integer(std::string_view key, const Expect<std::int64_t>& expect = {}) const;
    /// Integers are taken too; not NaN or infinite.
    Result<double> real(std::string_view key, const Expect<double>& expect = {}) const;
    Result<bool> boolean(std::string_view key, std::optional<bool> fallback = {}) const;
    Result<std::string> string(std::string_view key, std::optional<std::string> fallback = {}) const;
    /// A list of texts, views into the file; empty where absent.
    Result<std::vector<std::string_view>> strings(std::string_view key) const;
    /// A list of integers (or of booleans: 0 and 1), or one (`head_count` is written both ways); empty where absent.
    Result<std::vector<std::int32_t>> integers(std::string_view key) const;
    /// A list of floats, or one; empty where absent.
    Result<std::vector<float>> floats(std::string_view key) const;

    /// The error for a value that is well-formed but that the model code does not implement (UnsupportedConfig).
    Error unsupported(std::string_view key, std::string_view supported) const;
    /// The value as messages and `inspect` show it; of a long array the first `max_elements`.
    std::string shown(const GgufValue& value, std::size_t max_elements) const;

private:
    struct Contents;
    explicit Gguf(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
    Error unexpected(std::string_view key, std::string_view expected) const;

    std::shared_ptr<const Contents> contents_;
};

/// Whether the path of a model is that of a file, which is then taken for a GGUF file, and not of a folder.
bool is_file(const std::filesystem::path& path) noexcept;

}  // namespace vkformer::formats
