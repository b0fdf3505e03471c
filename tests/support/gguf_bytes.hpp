// SPDX-License-Identifier: MIT
/// GGUF files byte by byte, with every lie that a test wants to tell.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.hpp"

namespace vkformer::tests {

template <class T>
std::string raw(T number) {
    std::string bytes(sizeof number, '\0');
    std::memcpy(bytes.data(), &number, sizeof number);
    return bytes;
}

inline std::string gguf_text(std::string_view text) { return raw(std::uint64_t{text.size()}) + std::string(text); }

/// A metadata value from its type's number and its encoded bytes.
inline std::string gguf_value(std::string_view key, std::uint32_t type, const std::string& encoded) {
    return gguf_text(key) + raw(type) + encoded;
}

inline std::string gguf_value(std::string_view key, formats::GgufType type, const std::string& encoded) {
    return gguf_value(key, static_cast<std::uint32_t>(type), encoded);
}

/// An array's encoded bytes.
inline std::string gguf_array(formats::GgufType element, std::uint64_t count, const std::string& elements) {
    return raw(static_cast<std::uint32_t>(element)) + raw(count) + elements;
}

inline std::string gguf_string_array(const std::vector<std::string>& texts) {
    std::string elements;
    for (const std::string& text : texts) elements += gguf_text(text);
    return gguf_array(formats::GgufType::string, texts.size(), elements);
}

/// `dims` in the file's order: the contiguous one first.
inline std::string gguf_tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                               std::uint64_t offset) {
    std::string bytes = gguf_text(name) + raw(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) bytes += raw(dim);
    return bytes + raw(type) + raw(offset);
}

struct GgufBytes {
    std::string magic = "GGUF";
    std::uint32_t version = 3;
    std::vector<std::string> values, tensors;
    std::string data;
    std::size_t alignment = 32;

    std::string file() const {
        std::string bytes =
            magic + raw(version) + raw(std::uint64_t{tensors.size()}) + raw(std::uint64_t{values.size()});
        for (const std::string& value : values) bytes += value;
        for (const std::string& tensor : tensors) bytes += tensor;
        bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
        return bytes + data;
    }
};

}  // namespace vkformer::tests
