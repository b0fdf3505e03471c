// SPDX-License-Identifier: MIT
#include "formats/gguf_writer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "core/output_file.hpp"
#include "core/try.hpp"
#include "formats/finite_output.hpp"
#include "formats/json.hpp"

namespace vkformer::formats {
namespace {

template <class T>
void append(std::string& out, T number) {
    const std::size_t at = out.size();
    out.resize(at + sizeof number);
    std::memcpy(out.data() + at, &number, sizeof number);
}

void append_text(std::string& out, std::string_view text) {
    append(out, std::uint64_t{text.size()});
    out += text;
}

void append_type(std::string& out, GgufType type) { append(out, static_cast<std::uint32_t>(type)); }

template <class T>
std::string encoded_array(GgufType element, std::span<const T> values) {
    std::string out;
    append_type(out, element);
    append(out, std::uint64_t{values.size()});
    for (const T& value : values)
        if constexpr (std::is_same_v<T, std::string>)
            append_text(out, value);
        else
            append(out, value);
    return out;
}

template <class T>
std::string encoded_number(T number) {
    std::string out;
    append(out, number);
    return out;
}

std::uint64_t padding(std::uint64_t bytes, std::uint64_t alignment) {
    return (alignment - bytes % alignment) % alignment;
}

Result<void> check_names(std::span<const OutputTensor> tensors) {
    std::vector<std::string_view> names;
    for (const OutputTensor& tensor : tensors) {
        if (tensor.name.empty() || tensor.name.find('\0') != tensor.name.npos)
            return Error{ErrorCode::InvalidArgument,
                         "tensor " + quote(tensor.name) + ": is empty or contains a zero byte"};
        names.push_back(tensor.name);
    }
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
        return Error{ErrorCode::InvalidArgument, "tensor " + quote(*twice) + " is given twice"};
    return {};
}

Result<void> check_for_gguf(const OutputTensor& tensor) {
    VKFORMER_CHECK(check_output(tensor));
    const std::string of = "tensor " + quote(tensor.name) + ": ";
    if (!ggml_type_of(tensor.dtype))
        return Error{ErrorCode::UnsupportedDtype, of + "GGUF has no type for " + std::string(to_string(tensor.dtype))};
    if (tensor.source.shape.rank() > Gguf::kMaxTensorRank || tensor.source.shape.element_count() == 0)
        return Error{ErrorCode::InvalidArgument,
                     of + "GGUF has no place for the shape " + to_string(tensor.source.shape)};
    return {};
}

/// The alignment that the metadata ask for.
Result<std::uint32_t> alignment_of(const GgufMetadata& metadata) {
    const auto field = std::ranges::find(metadata.fields(), "general.alignment", &GgufMetadata::Field::key);
    if (field == metadata.fields().end()) return Gguf::kDefaultAlignment;
    std::uint32_t type = 0, alignment = 0;
    if (field->encoded.size() == sizeof type + sizeof alignment) {
        std::memcpy(&type, field->encoded.data(), sizeof type);
        std::memcpy(&alignment, field->encoded.data() + sizeof type, sizeof alignment);
    }
    if (type != static_cast<std::uint32_t>(GgufType::u32) || !std::has_single_bit(alignment))
        return Error{ErrorCode::InvalidArgument, "\"general.alignment\" is no power of two of type u32"};
    return alignment;
}

std::string header_of(const GgufMetadata& metadata, std::span<const OutputTensor> tensors, std::uint32_t alignment) {
    std::string out = "GGUF";
    append(out, std::uint32_t{3});
    append(out, std::uint64_t{tensors.size()});
    append(out, std::uint64_t{metadata.fields().size()});
    for (const auto& [key, encoded] : metadata.fields()) {
        append_text(out, key);
        out += encoded;
    }
    std::uint64_t offset = 0;
    for (const OutputTensor& tensor : tensors) {
        const Shape& shape = tensor.source.shape;
        append_text(out, tensor.name);
        append(out, static_cast<std::uint32_t>(shape.rank()));
        for (std::size_t axis = shape.rank(); axis > 0; --axis) append(out, shape[axis - 1]);
        append(out, *ggml_type_of(tensor.dtype));
        append(out, offset);
        offset += tensor.bytes() + padding(tensor.bytes(), alignment);
    }
    out.append(padding(out.size(), alignment), '\0');
    return out;
}

}  // namespace

void GgufMetadata::put(std::string_view key, GgufType type, std::string encoded) {
    std::string all;
    append_type(all, type);
    all += encoded;
    const auto found = std::ranges::find(fields_, key, &Field::key);
    if (found == fields_.end())
        fields_.push_back({std::string(key), std::move(all)});
    else
        found->encoded = std::move(all);
}

void GgufMetadata::set(std::string_view key, std::uint32_t value) { put(key, GgufType::u32, encoded_number(value)); }
void GgufMetadata::set(std::string_view key, std::int32_t value) { put(key, GgufType::i32, encoded_number(value)); }
void GgufMetadata::set(std::string_view key, float value) { put(key, GgufType::f32, encoded_number(value)); }
void GgufMetadata::set(std::string_view key, bool value) {
    put(key, GgufType::boolean, encoded_number(static_cast<std::uint8_t>(value)));
}
void GgufMetadata::set(std::string_view key, std::string_view value) {
    std::string encoded;
    append_text(encoded, value);
    put(key, GgufType::string, std::move(encoded));
}
void GgufMetadata::set(std::string_view key, std::span<const std::string> values) {
    put(key, GgufType::array, encoded_array(GgufType::string, values));
}
void GgufMetadata::set(std::string_view key, std::span<const std::int32_t> values) {
    put(key, GgufType::array, encoded_array(GgufType::i32, values));
}
void GgufMetadata::set(std::string_view key, std::span<const float> values) {
    put(key, GgufType::array, encoded_array(GgufType::f32, values));
}
void GgufMetadata::set(const GgufValue& value) {
    put(value.key, value.type, {reinterpret_cast<const char*>(value.encoded.data()), value.encoded.size()});
}

Result<void> write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                        std::span<const OutputTensor> tensors, const WriteProgress& progress) {
    VKFORMER_CHECK(check_names(tensors));
    std::uint64_t done = 0, total = 0;
    for (const OutputTensor& tensor : tensors) {
        VKFORMER_CHECK(check_for_gguf(tensor));
        total += tensor.bytes();
    }
    VKFORMER_TRY(const std::uint32_t alignment, alignment_of(metadata));
    const std::string header = header_of(metadata, tensors, alignment);
    VKFORMER_TRY(auto file, OutputFile::create(path));
    VKFORMER_CHECK(file.write(std::as_bytes(std::span(header))));
    const std::string zeros(alignment, '\0');
    for (const OutputTensor& tensor : tensors) {
        VKFORMER_CHECK(each_finite_piece(tensor, [&](std::span<const std::byte> bytes) {
            done += bytes.size();
            if (progress) progress(done, total);
            return file.write(bytes);
        }));
        VKFORMER_CHECK(file.write(std::as_bytes(std::span(zeros)).first(padding(tensor.bytes(), alignment))));
    }
    return file.commit();
}

}  // namespace vkformer::formats
