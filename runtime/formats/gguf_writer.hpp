// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.hpp"
#include "formats/output_tensor.hpp"
#include "vkformer/result.hpp"

namespace vkformer::formats {

/// The metadata of a file to be, in the order in which it is written. Keys that are set again keep their place.
class GgufMetadata {
public:
    void set(std::string_view key, std::uint32_t value);
    void set(std::string_view key, std::int32_t value);
    void set(std::string_view key, float value);
    void set(std::string_view key, bool value);
    void set(std::string_view key, std::string_view value);
    void set(std::string_view key, const char* value) { set(key, std::string_view(value)); }
    void set(std::string_view key, std::span<const std::string> values);
    void set(std::string_view key, std::span<const std::int32_t> values);
    void set(std::string_view key, std::span<const float> values);
    /// As it stands in another file.
    void set(const GgufValue& value);

    struct Field {
        std::string key;
        std::string encoded;  ///< the type's number and the value
    };
    std::span<const Field> fields() const noexcept { return fields_; }

private:
    void put(std::string_view key, GgufType type, std::string encoded);

    std::vector<Field> fields_;
};

/// Writes a GGUF file of version 3, laid out as the gguf package and llama.cpp do, byte for byte; tensors in the order given.
/// A temporary file beside it takes the name at the end. Errors: InvalidArgument (a name twice or with a zero byte, no such
/// tensor type, more than four dimensions, and those of check_output), UnsupportedDtype, FileNotFound (cannot create or write).
Result<void> write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                        std::span<const OutputTensor> tensors, const WriteProgress& progress = {});

}  // namespace vkformer::formats
