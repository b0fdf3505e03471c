// SPDX-License-Identifier: MIT
#include "formats/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/mapped_file.hpp"
#include "core/output_file.hpp"
#include "core/stable_order.hpp"
#include "core/try.hpp"
#include "formats/finite_output.hpp"
#include "formats/json.hpp"

namespace vkformer::formats {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

struct DTypeName {
    DType dtype;
    std::string_view name;
};
/// In the order in which the reference implementation lays tensors out: larger alignment first.
constexpr std::array kDTypeNames = {
    DTypeName{DType::i64, "I64"}, DTypeName{DType::f64, "F64"},         DTypeName{DType::f32, "F32"},
    DTypeName{DType::i32, "I32"}, DTypeName{DType::bf16, "BF16"},       DTypeName{DType::f16, "F16"},
    DTypeName{DType::i16, "I16"}, DTypeName{DType::f8_e4m3, "F8_E4M3"}, DTypeName{DType::i8, "I8"},
    DTypeName{DType::u8, "U8"},   DTypeName{DType::boolean, "BOOL"},
};
/// Names that the format knows and we do not compute with.
constexpr std::array<std::string_view, 12> kOtherDTypeNames = {"U64",     "U32",     "U16",         "C64",
                                                               "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
                                                               "F6_E2M3", "F6_E3M2", "F4",          "F8_E4M3FN"};

std::optional<DType> dtype_named(std::string_view name) {
    const auto found = std::ranges::find(kDTypeNames, name, &DTypeName::name);
    if (found == kDTypeNames.end()) return std::nullopt;
    return found->dtype;
}

std::size_t layout_order(DType dtype) {
    return static_cast<std::size_t>(std::ranges::find(kDTypeNames, dtype, &DTypeName::dtype) - kDTypeNames.begin());
}

/// nullopt where it overflows.
std::optional<std::uint64_t> byte_count(DType dtype, const Shape& shape) {
    const auto count = shape.checked_element_count();
    if (!count || *count > std::numeric_limits<std::uint64_t>::max() / element_bytes(dtype)) return std::nullopt;
    return *count * element_bytes(dtype);
}

/// Reads the header as the parser's events come: nothing is kept but what a valid header holds.
class HeaderReader {
public:
    HeaderReader(std::span<const std::byte> data, const std::shared_ptr<const void>& owner)
        : data_(data), owner_(owner) {}

    bool null() { return at_ == At::Top && member_ == kMetadataKey ? finish_member() : unexpected("null"); }
    bool boolean(bool) { return unexpected("a boolean"); }
    bool number_integer(std::int64_t value) { return unexpected("the negative number " + std::to_string(value)); }
    bool number_float(double, const std::string& text) {
        return unexpected("the number " + text.substr(0, 40) + " that is no 64-bit integer");
    }
    bool binary(json::binary_t&) { return unexpected("a binary value"); }

    bool number_unsigned(std::uint64_t value) {
        if (at_ == At::Shape) {
            if (rank_ == Shape::kMaxRank)
                return fail_tensor("more than " + std::to_string(Shape::kMaxRank) + " dimensions");
            dims_[rank_++] = value;
            return true;
        }
        if (at_ == At::Offsets) {
            if (offset_count_ == 2) return fail_tensor("data_offsets has more than two numbers");
            offsets_[offset_count_++] = value;
            return true;
        }
        return unexpected("the number " + std::to_string(value));
    }

    bool string(std::string& value) {
        if (at_ == At::Metadata) return metadata.insert_or_assign(field_, std::move(value)).second;
        if (at_ != At::Tensor || field_ != "dtype") return unexpected("the text " + quote(value));
        dtype_ = dtype_named(value);
        if (dtype_) return true;
        const bool known = std::ranges::find(kOtherDTypeNames, value) != kOtherDTypeNames.end();
        code = known ? ErrorCode::UnsupportedDtype : ErrorCode::CorruptFile;
        return fail_tensor((known ? "dtype " : "unknown dtype ") + quote(value) +
                           (known ? " is not supported; convert it, for instance to F32" : ""));
    }

    bool key(std::string& name) {
        if (at_ == At::Top) {
            member_ = std::move(name);
            if (member_ == kMetadataKey ? std::exchange(has_metadata_, true) : tensors.contains(member_))
                return fail("the name " + quote(member_) + " occurs twice");
            return true;
        }
        field_ = std::move(name);
        if (at_ == At::Metadata)
            return !metadata.contains(field_) || fail("__metadata__ has the key " + quote(field_) + " twice");
        const auto field = std::ranges::find(kFields, field_);
        if (field == kFields.end()) return fail_tensor("unknown field " + quote(field_));
        if (std::exchange(has_field_[static_cast<std::size_t>(field - kFields.begin())], true))
            return fail_tensor("the field " + quote(field_) + " occurs twice");
        return true;
    }

    bool start_object(std::size_t) {
        switch (at_) {
        case At::Start: at_ = At::Top; return true;
        case At::Top:
            at_ = member_ == kMetadataKey ? At::Metadata : At::Tensor;
            dtype_.reset();
            has_field_ = {};
            rank_ = offset_count_ = 0;
            return true;
        default: return unexpected("an object");
        }
    }
    bool end_object() {
        if (at_ == At::Top) {
            at_ = At::End;
            return true;
        }
        if (at_ == At::Tensor && !finish_tensor()) return false;
        return finish_member();
    }
    bool start_array(std::size_t) {
        if (at_ != At::Tensor || field_ == "dtype") return unexpected("an array");
        at_ = field_ == "shape" ? At::Shape : At::Offsets;
        return true;
    }
    bool end_array() {
        at_ = At::Tensor;
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const json::exception& error) {
        return fail("the header is not valid JSON: " + parse_message(error.what()));
    }

    TensorMap tensors;
    Metadata metadata;
    std::string message;
    ErrorCode code = ErrorCode::CorruptFile;

private:
    enum class At { Start, Top, Tensor, Shape, Offsets, Metadata, End };
    static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

    bool finish_member() {
        at_ = At::Top;
        return true;
    }

    bool finish_tensor() {
        for (std::size_t i = 0; i < kFields.size(); ++i)
            if (!has_field_[i]) return fail_tensor("has no " + std::string(kFields[i]));
        if (offset_count_ != 2) return fail_tensor("data_offsets needs two numbers");
        const auto [begin, end] = offsets_;
        const std::string range = "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "]";
        if (begin > end) return fail_tensor(range + " are reversed");
        if (end > data_.size())
            return fail_tensor(range + " reach beyond the " + std::to_string(data_.size()) +
                               " bytes of data; the file is truncated or the header wrong");
        const Shape shape{std::span<const std::uint64_t>(dims_.data(), rank_)};
        const auto bytes = byte_count(*dtype_, shape);
        if (!bytes) return fail_tensor("shape " + to_string(shape) + " overflows 64 bits");
        if (*bytes != end - begin)
            return fail_tensor(range + " hold " + std::to_string(end - begin) + " bytes, but " + to_string(shape) +
                               " of " + std::string(to_string(*dtype_)) + " needs " + std::to_string(*bytes));
        tensors.emplace(
            member_,
            TensorData{.dtype = *dtype_, .shape = shape, .bytes = data_.subspan(begin, end - begin), .owner = owner_});
        return true;
    }

    bool unexpected(const std::string& what) {
        switch (at_) {
        case At::Start: return fail("the header is " + what + ", expected an object");
        case At::Metadata: return fail("__metadata__ " + quote(field_) + " is " + what + ", expected a text");
        case At::Top:
            if (member_ == kMetadataKey) return fail("__metadata__ is " + what + ", expected an object of texts");
            return fail_tensor("is " + what + ", expected an object");
        default: return fail_tensor(quote(field_) + " has " + what + ", which does not belong there");
        }
    }
    bool fail_tensor(const std::string& what) { return fail("tensor " + quote(member_) + ": " + what); }
    bool fail(std::string what) {
        message = std::move(what);
        return false;
    }

    std::span<const std::byte> data_;
    const std::shared_ptr<const void>& owner_;
    At at_ = At::Start;
    std::string member_;  // the tensor, or __metadata__
    std::string field_;   // the key inside it
    bool has_metadata_ = false;
    std::optional<DType> dtype_;
    std::array<bool, kFields.size()> has_field_{};
    std::array<std::uint64_t, Shape::kMaxRank> dims_{};
    std::array<std::uint64_t, 2> offsets_{};
    std::size_t rank_ = 0;
    std::size_t offset_count_ = 0;
};

/// The tensors must fill the data without holes and overlaps. Returns what is wrong, or nothing.
std::string coverage_mistake(const TensorMap& tensors, std::span<const std::byte> data) {
    struct Extent {
        std::size_t begin;
        std::size_t end;
        const std::string* name;
    };
    std::vector<Extent> extents;
    extents.reserve(tensors.size());
    for (const auto& [name, tensor] : tensors) {
        const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data.data());
        extents.push_back({begin, begin + tensor.bytes.size(), &name});
    }
    sort_stably(extents, [](const Extent& a, const Extent& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    std::size_t covered = 0;
    for (const auto& [begin, end, name] : extents) {
        if (begin < covered) return "tensor " + quote(*name) + " overlaps the tensor before it";
        if (begin > covered)
            return "bytes " + std::to_string(covered) + " to " + std::to_string(begin) +
                   " of the data belong to no tensor";
        covered = end;
    }
    if (covered != data.size())
        return "the last " + std::to_string(data.size() - covered) + " bytes of the data belong to no tensor";
    return {};
}

/// The header's text for tensors in file order, padded with spaces so that the data begins at a multiple of 8.
std::string header_text(std::span<const OutputTensor* const> tensors, const Metadata& metadata) {
    std::string text = "{";
    if (!metadata.empty()) text += "\"" + std::string(kMetadataKey) + "\":" + json(metadata).dump() + ",";
    std::uint64_t offset = 0;
    for (const OutputTensor* tensor : tensors) {
        const std::uint64_t end = offset + tensor->bytes();
        const Shape& shape = tensor->source.shape;
        text += json(tensor->name).dump() + ":{\"dtype\":\"" +
                std::string(kDTypeNames[layout_order(tensor->dtype)].name) + "\",\"shape\":[";
        for (std::size_t i = 0; i < shape.rank(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
        text += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(end) + "]},";
        offset = end;
    }
    if (text.back() == ',') text.pop_back();
    text += "}";
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
}

Result<void> check_for_writing(std::span<const OutputTensor* const> tensors) {
    for (const OutputTensor* tensor : tensors) {
        if (tensor->name == kMetadataKey)
            return Error{ErrorCode::InvalidArgument, "__metadata__ cannot be a tensor's name"};
        if (layout_order(tensor->dtype) == kDTypeNames.size())
            return Error{ErrorCode::UnsupportedDtype, "tensor " + quote(tensor->name) + ": safetensors have no dtype " +
                                                          std::string(to_string(tensor->dtype))};
        VKFORMER_CHECK(check_output(*tensor));
    }
    std::vector<std::string_view> names;
    for (const OutputTensor* tensor : tensors) names.push_back(tensor->name);
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
        return Error{ErrorCode::InvalidArgument, "tensor " + quote(*twice) + " is given twice"};
    return {};
}

}  // namespace

Result<Safetensors> Safetensors::open(const std::filesystem::path& path) {
    VKFORMER_TRY(const auto file, MappedFile::open(path));
    return parse(file->bytes(), file, path.filename().string());
}

Result<Safetensors> Safetensors::parse(std::span<const std::byte> file, std::shared_ptr<const void> owner,
                                       std::string_view name) {
    const auto corrupt = [&](const std::string& what) {
        return Error{ErrorCode::CorruptFile, std::string(name) + ": " + what};
    };
    if (file.size() < kLengthBytes)
        return corrupt("has " + std::to_string(file.size()) + " bytes, too few for a safetensors file");
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), kLengthBytes);
    if (header_bytes > kMaxHeaderBytes)
        return corrupt("the header length " + std::to_string(header_bytes) + " is above the limit of " +
                       std::to_string(kMaxHeaderBytes) + "; is this a safetensors file?");
    if (header_bytes > file.size() - kLengthBytes)
        return corrupt("the header length " + std::to_string(header_bytes) + " reaches beyond the file of " +
                       std::to_string(file.size()) + " bytes; the file is truncated");
    const std::string_view header(reinterpret_cast<const char*>(file.data()) + kLengthBytes, header_bytes);
    if (!header.starts_with('{')) return corrupt("the header does not begin with '{'; is this a safetensors file?");
    // The parser would take a zero byte for the end of its input.
    if (header.find('\0') != header.npos) return corrupt("the header is not valid JSON: it contains a zero byte");

    const auto data = file.subspan(kLengthBytes + header_bytes);
    try {
        HeaderReader reader(data, owner);
        if (!json::sax_parse(header.begin(), header.end(), &reader)) {
            Error error = corrupt(reader.message);
            error.code = reader.code;
            return error;
        }
        if (const std::string mistake = coverage_mistake(reader.tensors, data); !mistake.empty())
            return corrupt(mistake);
        return Safetensors(std::move(reader.tensors), std::move(reader.metadata));
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfHostMemory, std::string(name) + ": out of memory while reading the header"};
    }
}

std::vector<std::string_view> Safetensors::names() const {
    std::vector<std::string_view> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
}

const TensorData* Safetensors::find(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
}

namespace {

Result<void> write_tensors(const std::filesystem::path& path, std::span<const OutputTensor> tensors,
                           const Metadata& metadata, const WriteProgress& progress, decltype(each_piece)& pieces) {
    std::vector<const OutputTensor*> ordered;
    for (const OutputTensor& tensor : tensors) ordered.push_back(&tensor);
    VKFORMER_CHECK(check_for_writing(ordered));
    std::ranges::sort(ordered, [](const OutputTensor* a, const OutputTensor* b) {
        const std::size_t order_a = layout_order(a->dtype), order_b = layout_order(b->dtype);
        return order_a != order_b ? order_a < order_b : a->name < b->name;
    });
    std::string header;
    try {
        header = header_text(ordered, metadata);
    } catch (const json::exception& error) {
        return Error{ErrorCode::InvalidArgument, "cannot write " + path.string() +
                                                     ": a name or metadata text is not UTF-8 (" +
                                                     parse_message(error.what()) + ")"};
    }
    VKFORMER_TRY(auto file, OutputFile::create(path));
    const std::uint64_t header_bytes = header.size();
    VKFORMER_CHECK(file.write(std::as_bytes(std::span(&header_bytes, 1))));
    VKFORMER_CHECK(file.write(std::as_bytes(std::span(header))));
    std::uint64_t done = 0, total = 0;
    for (const OutputTensor* tensor : ordered) total += tensor->bytes();
    for (const OutputTensor* tensor : ordered)
        VKFORMER_CHECK(pieces(*tensor, [&](std::span<const std::byte> bytes) {
            done += bytes.size();
            if (progress) progress(done, total);
            return file.write(bytes);
        }));
    return file.commit();
}

}  // namespace

Result<void> write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                               const Metadata& metadata) {
    std::vector<OutputTensor> output;
    output.reserve(tensors.size());
    for (const auto& [name, data] : tensors) output.push_back({.name = name, .dtype = data.dtype, .source = data});
    return write_tensors(path, output, metadata, {}, each_piece);  // what a model has computed may be infinite
}

Result<void> write_safetensors(const std::filesystem::path& path, std::span<const OutputTensor> tensors,
                               const Metadata& metadata, const WriteProgress& progress) {
    return write_tensors(path, tensors, metadata, progress, each_finite_piece);
}

}  // namespace vkformer::formats
