// SPDX-License-Identifier: MIT
#include "formats/gguf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/decimal.hpp"
#include "core/mapped_file.hpp"
#include "core/paths.hpp"
#include "core/tasks.hpp"
#include "core/try.hpp"
#include "formats/gguf_repack.hpp"
#include "formats/json.hpp"

namespace vkformer::formats {
namespace {

using Bytes = std::span<const std::byte>;

struct TensorType {
    std::uint32_t number;
    std::string_view name;
    std::uint32_t block_elements;
    std::uint32_t block_bytes;
    std::optional<DType> dtype;
};
/// ggml's tensor types (enum ggml_type in ggml.h, sizes as the gguf package has them); the numbers that are missing were given
/// up.
constexpr std::array kTensorTypes = {
    TensorType{0, "F32", 1, 4, DType::f32},
    TensorType{1, "F16", 1, 2, DType::f16},
    TensorType{2, "Q4_0", 32, 18, DType::q4_0},
    TensorType{3, "Q4_1", 32, 20, DType::q4_1},
    TensorType{6, "Q5_0", 32, 22, DType::q5_0},
    TensorType{7, "Q5_1", 32, 24, DType::q5_1},
    TensorType{8, "Q8_0", 32, 34, DType::q8_0},
    TensorType{9, "Q8_1", 32, 40, {}},
    TensorType{10, "Q2_K", 256, 84, DType::q2_k},
    TensorType{11, "Q3_K", 256, 110, DType::q3_k},
    TensorType{12, "Q4_K", 256, 144, DType::q4_k},
    TensorType{13, "Q5_K", 256, 176, DType::q5_k},
    TensorType{14, "Q6_K", 256, 210, DType::q6_k},
    TensorType{15, "Q8_K", 256, 292, {}},
    TensorType{16, "IQ2_XXS", 256, 66, {}},
    TensorType{17, "IQ2_XS", 256, 74, {}},
    TensorType{18, "IQ3_XXS", 256, 98, {}},
    TensorType{19, "IQ1_S", 256, 50, {}},
    TensorType{20, "IQ4_NL", 32, 18, DType::iq4_nl},
    TensorType{21, "IQ3_S", 256, 110, {}},
    TensorType{22, "IQ2_S", 256, 82, {}},
    TensorType{23, "IQ4_XS", 256, 136, DType::iq4_xs},
    TensorType{24, "I8", 1, 1, DType::i8},
    TensorType{25, "I16", 1, 2, DType::i16},
    TensorType{26, "I32", 1, 4, DType::i32},
    TensorType{27, "I64", 1, 8, DType::i64},
    TensorType{28, "F64", 1, 8, DType::f64},
    TensorType{29, "IQ1_M", 256, 56, {}},
    TensorType{30, "BF16", 1, 2, DType::bf16},
    TensorType{34, "TQ1_0", 256, 54, {}},
    TensorType{35, "TQ2_0", 256, 66, {}},
    TensorType{39, "MXFP4", 32, 17, DType::mxfp4},
    TensorType{40, "NVFP4", 64, 36, {}},
    TensorType{41, "Q1_0", 128, 18, {}},
    TensorType{42, "Q2_0", 64, 18, {}},
};

const TensorType* tensor_type(std::uint32_t number) {
    const auto found = std::ranges::find(kTensorTypes, number, &TensorType::number);
    return found == kTensorTypes.end() ? nullptr : &*found;
}

constexpr std::array<std::string_view, 13> kTypeNames = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                         "bool", "string", "array", "u64", "i64", "f64"};

/// 0 for strings and arrays.
std::size_t bytes_of_type(GgufType type) {
    switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean: return 1;
    case GgufType::u16:
    case GgufType::i16: return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32: return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64: return 8;
    case GgufType::string:
    case GgufType::array: break;
    }
    return 0;
}

template <class T>
T number_at(Bytes bytes, std::size_t offset = 0) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

/// A text and its length before it; the lengths have been checked when the file was opened.
std::string_view text_at(Bytes bytes) {
    const auto length = number_at<std::uint64_t>(bytes);
    return {reinterpret_cast<const char*>(bytes.data()) + sizeof length, static_cast<std::size_t>(length)};
}

/// Calls `use` with the number in its own type; strings and arrays are no numbers.
template <class Use>
void with_number(GgufType type, Bytes bytes, Use&& use) {
    switch (type) {
    case GgufType::u8: return use(number_at<std::uint8_t>(bytes));
    case GgufType::i8: return use(number_at<std::int8_t>(bytes));
    case GgufType::boolean: return use(number_at<std::uint8_t>(bytes) != 0);
    case GgufType::u16: return use(number_at<std::uint16_t>(bytes));
    case GgufType::i16: return use(number_at<std::int16_t>(bytes));
    case GgufType::u32: return use(number_at<std::uint32_t>(bytes));
    case GgufType::i32: return use(number_at<std::int32_t>(bytes));
    case GgufType::f32: return use(number_at<float>(bytes));
    case GgufType::u64: return use(number_at<std::uint64_t>(bytes));
    case GgufType::i64: return use(number_at<std::int64_t>(bytes));
    case GgufType::f64: return use(number_at<double>(bytes));
    case GgufType::string:
    case GgufType::array: break;
    }
}

/// The integer, if it is one and within T.
template <class T>
std::optional<T> integer_value(GgufType type, Bytes bytes) {
    std::optional<T> value;
    with_number(type, bytes, [&]<class N>(N number) {
        if constexpr (std::is_integral_v<N> && !std::is_same_v<N, bool>)
            if (std::in_range<T>(number)) value = static_cast<T>(number);
    });
    return value;
}

std::optional<double> real_value(GgufType type, Bytes bytes) {
    std::optional<double> value;
    with_number(type, bytes, [&]<class N>(N number) {
        if constexpr (!std::is_same_v<N, bool>) value = static_cast<double>(number);
    });
    return value;
}

/// Reads what a file states, in order; the first thing that cannot be ends it.
class Reader {
public:
    Reader(Bytes file, std::string_view name) : file_(file), name_(name) {}

    std::size_t position() const { return at_; }
    std::size_t remaining() const { return file_.size() - at_; }
    Bytes since(std::size_t begin) const { return file_.subspan(begin, at_ - begin); }

    template <class T>
    Result<T> number(std::string_view what) {
        if (remaining() < sizeof(T)) return truncated(what);
        const T value = number_at<T>(file_, at_);
        at_ += sizeof(T);
        return value;
    }

    Result<std::string_view> text(std::string_view what) {
        VKFORMER_TRY(const auto length, number<std::uint64_t>(what));
        if (length > remaining())
            return corrupt("the length " + std::to_string(length) + " of " + std::string(what) +
                           " reaches beyond the file of " + std::to_string(file_.size()) + " bytes; is it truncated?");
        const std::string_view text(reinterpret_cast<const char*>(file_.data()) + at_,
                                    static_cast<std::size_t>(length));
        at_ += text.size();
        return text;
    }

    /// The name of a key or tensor.
    Result<std::string_view> name(const std::string& what) {
        VKFORMER_TRY(const auto name, text(what));
        if (name.empty()) return corrupt(what + " is empty");
        if (name.find('\0') != name.npos) return corrupt(what + " " + quote(name) + " contains a zero byte");
        return name;
    }

    Result<GgufType> type(std::string_view of) {
        VKFORMER_TRY(const auto number, number<std::uint32_t>("the type of " + std::string(of)));
        if (number >= kTypeNames.size())
            return corrupt(std::string(of) + " has the unknown type " + std::to_string(number));
        return static_cast<GgufType>(number);
    }

    Result<GgufValue> value() {
        VKFORMER_TRY(const auto key, name("the name of a key"));
        const std::string what = "the value of " + quote(key);
        VKFORMER_TRY(const auto value_type, type(what));
        GgufValue value{.key = key, .type = value_type};
        const std::size_t begin = at_;
        std::size_t elements_begin = at_;
        if (value.type == GgufType::array) {
            VKFORMER_TRY(const auto header, array_header(what));
            std::tie(value.element, value.count) = header;
            elements_begin = at_;
            VKFORMER_CHECK(skip(value.element, value.count, what, 1));
        } else {
            VKFORMER_CHECK(skip(value.type, 1, what, 0));
        }
        value.encoded = since(begin);
        value.elements = since(elements_begin);
        return value;
    }

    Error corrupt(const std::string& what) const { return {ErrorCode::CorruptFile, std::string(name_) + ": " + what}; }
    Error truncated(std::string_view what) const {
        return corrupt("ends at byte " + std::to_string(file_.size()) + ", before " + std::string(what) +
                       "; the file is truncated");
    }

private:
    Result<std::pair<GgufType, std::uint64_t>> array_header(const std::string& what) {
        VKFORMER_TRY(const auto element, type("the array in " + what));
        VKFORMER_TRY(const auto count, number<std::uint64_t>("the length of the array in " + what));
        return std::pair(element, count);
    }

    Result<void> skip(GgufType type, std::uint64_t count, const std::string& what, std::size_t depth) {
        constexpr std::size_t kLengthBytes = 8, kArrayHeaderBytes = 12;
        const std::size_t least = type == GgufType::string  ? kLengthBytes
                                  : type == GgufType::array ? kArrayHeaderBytes
                                                            : bytes_of_type(type);
        if (count > remaining() / least) {
            if (depth == 0) return truncated(what);
            return corrupt(what + " is an array of " + std::to_string(count) +
                           " elements, which reaches beyond the file of " + std::to_string(file_.size()) +
                           " bytes; is it truncated?");
        }
        if (depth > Gguf::kMaxArrayDepth)
            return corrupt(what + " has arrays nested deeper than " + std::to_string(Gguf::kMaxArrayDepth) + " levels");
        if (type == GgufType::string) {
            for (std::uint64_t i = 0; i < count; ++i) VKFORMER_CHECK(text(what));
        } else if (type == GgufType::array) {
            for (std::uint64_t i = 0; i < count; ++i) {
                VKFORMER_TRY(const auto header, array_header(what));
                VKFORMER_CHECK(skip(header.first, header.second, what, depth + 1));
            }
        } else {
            at_ += static_cast<std::size_t>(count) * least;
        }
        return {};
    }

    Bytes file_;
    std::string_view name_;
    std::size_t at_ = 0;
};

/// One file, its tensors' bytes found and checked.
struct Part {
    std::string name;
    std::uint32_t version = 0;
    std::uint32_t alignment = Gguf::kDefaultAlignment;
    std::vector<GgufValue> values;
    std::vector<GgufTensor> tensors;
    std::shared_ptr<const void> owner;
};

Result<std::uint32_t> read_version(Reader& reader) {
    VKFORMER_TRY(const auto magic, reader.number<std::uint32_t>("the magic number"));
    if (magic != 0x46554747)  // "GGUF"
        return reader.corrupt(
            "does not begin with \"GGUF\": it is no GGUF file; of a Hugging Face model give the folder, not a file in "
            "it");
    VKFORMER_TRY(const auto version, reader.number<std::uint32_t>("the version"));
    if (version != 0 && (version & 0xFFFF) == 0)
        return reader.corrupt("is a big-endian GGUF file; vkformer reads little-endian ones");
    if (version < 2 || version > 3)
        return reader.corrupt("is of GGUF version " + std::to_string(version) + ", supported: 2 and 3");
    return version;
}

Result<void> read_values(Reader& reader, std::uint64_t count, Part& part) {
    constexpr std::size_t kLeastBytes = 8 + 1 + 4 + 1;  // a key's length, name and type, and a value of one byte
    if (count > reader.remaining() / kLeastBytes)
        return reader.corrupt("says that it has " + std::to_string(count) + " metadata values, more than fit into it");
    part.values.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
        VKFORMER_TRY(const auto value, reader.value());
        part.values.push_back(value);
    }
    return {};
}

/// The first of the names that occurs twice.
template <class Range, class Projection>
std::optional<std::string_view> duplicate(const Range& range, Projection name) {
    std::vector<std::string_view> names;
    names.reserve(range.size());
    for (const auto& element : range) names.push_back(element.*name);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice == names.end()) return std::nullopt;
    return *twice;
}

Result<std::uint32_t> read_alignment(const Reader& reader, std::span<const GgufValue> values) {
    const auto value = std::ranges::find(values, std::string_view("general.alignment"), &GgufValue::key);
    if (value == values.end()) return Gguf::kDefaultAlignment;
    const auto alignment = integer_value<std::uint32_t>(value->type, value->elements);
    if (!alignment || !std::has_single_bit(*alignment))
        return reader.corrupt("\"general.alignment\" is " + (alignment ? std::to_string(*alignment) : "no integer") +
                              ", expected a power of two");
    return *alignment;
}

/// A tensor and where its bytes begin, counted from the first tensor's.
struct Listed {
    GgufTensor tensor;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

/// nullopt where it overflows or is no whole number of blocks.
std::optional<std::uint64_t> tensor_bytes(const TensorType& type, const Shape& shape) {
    const auto count = shape.checked_element_count();
    const std::uint64_t row = shape.rank() == 0 ? 1 : shape.back();
    if (!count || row % type.block_elements != 0) return std::nullopt;
    const std::uint64_t blocks = *count / type.block_elements;
    if (blocks > std::numeric_limits<std::uint64_t>::max() / type.block_bytes) return std::nullopt;
    return blocks * type.block_bytes;
}

Result<Shape> read_shape(Reader& reader, const std::string& of) {
    VKFORMER_TRY(const auto rank, reader.number<std::uint32_t>("the number of dimensions of " + of));
    if (rank > Gguf::kMaxTensorRank)
        return reader.corrupt(of + " has " + std::to_string(rank) + " dimensions, at most " +
                              std::to_string(Gguf::kMaxTensorRank) + " are possible");
    std::array<std::uint64_t, Gguf::kMaxTensorRank> dims{};
    for (std::size_t i = 0; i < rank; ++i) {
        VKFORMER_TRY(dims[rank - 1 - i], reader.number<std::uint64_t>("the shape of " + of));
    }
    const Shape shape{std::span<const std::uint64_t>(dims.data(), rank)};
    const auto count = shape.checked_element_count();
    if (!count || *count > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return reader.corrupt(of + " has the shape " + to_string(shape) + ", whose size overflows 64 bits");
    if (*count == 0) return reader.corrupt(of + " has the shape " + to_string(shape) + " with a dimension of 0");
    return shape;
}

Result<Listed> read_listed(Reader& reader) {
    VKFORMER_TRY(const auto name, reader.name("the name of a tensor"));
    const std::string of = "tensor " + quote(name);
    VKFORMER_TRY(const auto shape, read_shape(reader, of));
    VKFORMER_TRY(const auto number, reader.number<std::uint32_t>("the type of " + of));
    VKFORMER_TRY(const auto offset, reader.number<std::uint64_t>("the offset of " + of));
    const TensorType* type = tensor_type(number);
    if (!type) return reader.corrupt(of + " has the unknown type " + std::to_string(number));
    const auto bytes = tensor_bytes(*type, shape);
    if (!bytes)
        return reader.corrupt(of + ": " + to_string(shape) + " of " + std::string(type->name) +
                              " is no whole number of blocks of " + std::to_string(type->block_elements) +
                              " elements in every row, or overflows 64 bits");
    return Listed{{.name = name, .type = number, .shape = shape, .bytes = {}}, offset, *bytes};
}

/// Finds the bytes of every tensor in `data`, which begins at the first.
Result<void> place(const Reader& reader, Bytes data, std::span<Listed> listed, Part& part) {
    for (Listed& item : listed) {
        const std::string of = "tensor " + quote(item.tensor.name);
        if (item.offset % part.alignment != 0)
            return reader.corrupt(of + " begins at " + std::to_string(item.offset) +
                                  ", which is no multiple of the alignment " + std::to_string(part.alignment));
        if (item.offset > data.size() || item.bytes > data.size() - item.offset)
            return reader.corrupt(of + " has " + std::to_string(item.bytes) + " bytes from " +
                                  std::to_string(item.offset) + " on, which reach beyond the " +
                                  std::to_string(data.size()) +
                                  " bytes of data; the file is truncated or its header wrong");
        item.tensor.bytes = data.subspan(static_cast<std::size_t>(item.offset), static_cast<std::size_t>(item.bytes));
        part.tensors.push_back(item.tensor);
    }
    std::ranges::sort(listed, {}, &Listed::offset);
    for (std::size_t i = 1; i < listed.size(); ++i)
        if (listed[i].offset < listed[i - 1].offset + listed[i - 1].bytes)
            return reader.corrupt("tensor " + quote(listed[i].tensor.name) + " overlaps tensor " +
                                  quote(listed[i - 1].tensor.name));
    return {};
}

Result<void> read_tensors(Reader& reader, Bytes file, std::uint64_t count, Part& part) {
    constexpr std::size_t kLeastBytes = 8 + 1 + 4 + 4 + 8;  // a name's length and name, rank, type, offset
    if (count > reader.remaining() / kLeastBytes)
        return reader.corrupt("says that it has " + std::to_string(count) + " tensors, more than fit into it");
    std::vector<Listed> listed;
    listed.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
        VKFORMER_TRY(const auto item, read_listed(reader));
        listed.push_back(item);
    }
    const std::size_t mask = part.alignment - std::size_t{1};
    const std::size_t data_begin = (reader.position() + mask) & ~mask;
    part.tensors.reserve(listed.size());
    VKFORMER_CHECK(place(reader, file.subspan(std::min(data_begin, file.size())), listed, part));
    if (const auto twice = duplicate(part.tensors, &GgufTensor::name))
        return reader.corrupt("the tensor " + quote(*twice) + " occurs twice");
    return {};
}

Result<Part> read_part(Bytes file, std::shared_ptr<const void> owner, std::string_view name) {
    Part part;
    part.name = name;
    part.owner = std::move(owner);
    Reader reader(file, part.name);
    try {
        VKFORMER_TRY(part.version, read_version(reader));
        VKFORMER_TRY(const auto tensor_count, reader.number<std::uint64_t>("the number of tensors"));
        VKFORMER_TRY(const auto value_count, reader.number<std::uint64_t>("the number of metadata values"));
        VKFORMER_CHECK(read_values(reader, value_count, part));
        if (const auto twice = duplicate(part.values, &GgufValue::key))
            return reader.corrupt("the key " + quote(*twice) + " occurs twice");
        VKFORMER_TRY(part.alignment, read_alignment(reader, part.values));
        VKFORMER_CHECK(read_tensors(reader, file, tensor_count, part));
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfHostMemory, part.name + ": out of memory while reading the header"};
    }
    return part;
}

Result<Part> open_part(const std::filesystem::path& path) {
    VKFORMER_TRY(const auto file, MappedFile::open(path));
    return read_part(file->bytes(), file, path.filename().string());
}

Result<std::uint32_t> split_value(const Part& part, std::string_view key) {
    const auto value = std::ranges::find(part.values, key, &GgufValue::key);
    if (value == part.values.end()) return 0u;
    const auto number = integer_value<std::uint32_t>(value->type, value->elements);
    if (!number) return Error{ErrorCode::CorruptFile, part.name + ": " + quote(key) + " is no non-negative integer"};
    return *number;
}

/// "NAME-00002-of-00003.gguf": how the parts of a split file are called, counted from 1.
std::string part_name(std::string_view stem, std::uint32_t index, std::uint32_t count) {
    const auto digits = [](std::uint32_t number) {
        const std::string text = std::to_string(number);
        return text.size() < 5 ? std::string(5 - text.size(), '0') + text : text;
    };
    return std::string(stem) + "-" + digits(index + 1) + "-of-" + digits(count) + ".gguf";
}

constexpr std::uint32_t kMaxParts = 65535;  // split.count is 16 bits wide

/// The parts of the split file that `found` belongs to, in order.
Result<std::vector<Part>> open_parts(const std::filesystem::path& path, Part found, std::uint32_t count) {
    const auto corrupt = [&](const std::string& what) {
        return Error{ErrorCode::CorruptFile, path.filename().string() + ": " + what};
    };
    if (count > kMaxParts) return corrupt("says that it is split into " + std::to_string(count) + " files");
    VKFORMER_TRY(const auto index, split_value(found, "split.no"));
    if (index >= count)
        return corrupt("says that it is part " + std::to_string(index) + " of " + std::to_string(count) +
                       ", counted from 0");
    const std::string ending = part_name("", index, count);
    const std::string name = path.filename().string();
    if (!name.ends_with(ending))
        return corrupt("is a part of a split file, and its name does not end in " + quote(ending) +
                       ", by which the others are found");
    const std::string_view stem = std::string_view(name).substr(0, name.size() - ending.size());
    std::vector<Part> parts;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (i == index) {
            parts.push_back(std::move(found));
            continue;
        }
        VKFORMER_TRY(auto part, open_part(path.parent_path() / utf8_path(part_name(stem, i, count))));
        VKFORMER_TRY(const auto part_index, split_value(part, "split.no"));
        VKFORMER_TRY(const auto part_count, split_value(part, "split.count"));
        if (part_index != i || part_count != count)
            return corrupt(part.name + " says that it is part " + std::to_string(part_index) + " of " +
                           std::to_string(part_count) + ", counted from 0");
        parts.push_back(std::move(part));
    }
    return parts;
}

/// The tensors of all parts must be those that the first one promises.
Result<void> check_tensors_of_parts(std::span<const Part> parts, std::span<const GgufTensor> tensors) {
    VKFORMER_TRY(const auto promised, split_value(parts[0], "split.tensors.count"));
    if (promised != tensors.size())
        return Error{ErrorCode::CorruptFile, parts[0].name + ": \"split.tensors.count\" is " +
                                                 std::to_string(promised) + ", but the parts have " +
                                                 std::to_string(tensors.size()) + " tensors"};
    if (const auto twice = duplicate(tensors, &GgufTensor::name))
        return Error{ErrorCode::CorruptFile, parts[0].name + ": the tensor " + quote(*twice) + " is in two parts"};
    return {};
}

}  // namespace

namespace {

/// The tensor in what holds its values, made by all processors. `scales`: of the whole, or of each matrix of a stack.
TensorData repacked_tensor(const GgufTensor& tensor, std::span<const float> scales) {
    constexpr std::uint64_t kChunk = 1 << 18;  // elements
    const DType dtype = *repacked_dtype(tensor.type);
    const TensorType& type = *tensor_type(tensor.type);
    const std::uint64_t count = tensor.shape.element_count(), matrix = count / scales.size();
    const std::uint64_t chunks = (matrix + kChunk - 1) / kChunk;
    const auto bytes = std::make_shared<std::vector<std::byte>>(bytes_of(dtype, count));
    run_tasks(chunks * scales.size(), [&](std::size_t i) {
        const std::uint64_t begin = i % chunks * kChunk, n = std::min(kChunk, matrix - begin);
        const std::uint64_t first = i / chunks * matrix + begin;
        repack(tensor.type,
               tensor.bytes.subspan(first / type.block_elements * type.block_bytes,
                                    n / type.block_elements * type.block_bytes),
               scales[i / chunks], std::span(*bytes).subspan(bytes_of(dtype, first), bytes_of(dtype, n)));
    });
    return {.dtype = dtype, .shape = tensor.shape, .bytes = *bytes, .owner = bytes};
}

/// Takes out of `tensors` what belongs to `matrix`, of NVFP4, and is no tensor of the model: NAME.scale beside NAME.weight, which its values
/// are multiplied by, one number or, of a stack, one for each matrix; and NAME.input_scale, by which activations would be rounded. Empty
/// where the scales are something else.
std::vector<float> take_scales(const GgufTensor& matrix, TensorMap& tensors) {
    std::vector<float> scales = {1};
    if (!matrix.name.ends_with(".weight")) return scales;
    std::string name(matrix.name.substr(0, matrix.name.size() - std::string_view("weight").size()));
    const auto found = tensors.find(name + "scale");
    if (found != tensors.end()) {
        const TensorData& data = found->second;
        const std::uint64_t count = data.shape.element_count();
        const bool fits = count == 1 || (matrix.shape.rank() == 3 && count == matrix.shape[0]);
        scales.resize(fits && data.dtype == DType::f32 ? static_cast<std::size_t>(count) : 0);
        std::memcpy(scales.data(), data.bytes.data(), scales.size() * sizeof(float));
        tensors.erase(found);
    }
    tensors.erase(name += "input_scale");
    return scales;
}

}  // namespace

struct Gguf::Contents {
    std::vector<Part> parts;
    std::vector<GgufTensor> tensors;  // of all parts
    std::map<std::string_view, const GgufValue*> by_key;
    Weights weights{"", {}};
    mutable AskedNames asked;

    static std::shared_ptr<const Contents> of(std::vector<Part> parts) {
        const auto contents = std::make_shared<Contents>();
        contents->parts = std::move(parts);
        TensorMap supported;
        RefusedTensors refused;
        const auto late = std::make_shared<LateTensors>();
        for (const Part& part : contents->parts)
            for (const GgufTensor& tensor : part.tensors) {
                contents->tensors.push_back(tensor);
                if (const auto dtype = dtype_of_ggml_type(tensor.type))
                    supported.emplace(
                        tensor.name,
                        TensorData{.dtype = *dtype, .shape = tensor.shape, .bytes = tensor.bytes, .owner = part.owner});
                else if (!repacked_dtype(tensor.type))
                    refused.emplace(tensor.name, ggml_type_name(tensor.type));
            }
        for (const Part& part : contents->parts)  // again: scales may lie behind their matrices, or in another part
            for (const GgufTensor& tensor : part.tensors) {
                if (!repacked_dtype(tensor.type)) continue;
                std::vector<float> scales = {1};
                if (tensor.type == kNvfp4) scales = take_scales(tensor, supported);
                if (scales.empty())
                    refused.emplace(tensor.name, "NVFP4 with scales that are not one number or one a matrix");
                else
                    late->add(std::string(tensor.name), [tensor, scales = std::move(scales), owner = part.owner] {
                        return repacked_tensor(tensor, scales);
                    });
            }
        for (const GgufValue& value : contents->parts[0].values) contents->by_key.emplace(value.key, &value);
        contents->weights = Weights(contents->parts[0].name, std::move(supported), std::move(refused), late);
        return contents;
    }
};

std::string_view to_string(GgufType type) noexcept { return kTypeNames[static_cast<std::size_t>(type)]; }

std::string_view ggml_type_name(std::uint32_t type) noexcept {
    const TensorType* found = tensor_type(type);
    return found ? found->name : std::string_view();
}

std::optional<DType> dtype_of_ggml_type(std::uint32_t type) noexcept {
    const TensorType* found = tensor_type(type);
    return found ? found->dtype : std::nullopt;
}

std::optional<std::uint32_t> ggml_type_of(DType dtype) noexcept {
    const auto found = std::ranges::find(kTensorTypes, std::optional(dtype), &TensorType::dtype);
    if (found == kTensorTypes.end()) return std::nullopt;
    return found->number;
}

Result<Gguf> Gguf::open(const std::filesystem::path& path) {
    VKFORMER_TRY(auto part, open_part(path));
    VKFORMER_TRY(const auto count, split_value(part, "split.count"));
    std::vector<Part> parts;
    if (count <= 1) {
        parts.push_back(std::move(part));
        return Gguf(Contents::of(std::move(parts)));
    }
    VKFORMER_TRY(parts, open_parts(path, std::move(part), count));
    auto contents = Contents::of(std::move(parts));
    VKFORMER_CHECK(check_tensors_of_parts(contents->parts, contents->tensors));
    return Gguf(std::move(contents));
}

Result<Gguf> Gguf::parse(Bytes file, std::shared_ptr<const void> owner, std::string_view name) {
    VKFORMER_TRY(auto part, read_part(file, std::move(owner), name));
    VKFORMER_TRY(const auto count, split_value(part, "split.count"));
    if (count > 1) return Error{ErrorCode::CorruptFile, part.name + ": is one part of a split file"};
    std::vector<Part> parts;
    parts.push_back(std::move(part));
    return Gguf(Contents::of(std::move(parts)));
}

std::uint32_t Gguf::version() const noexcept { return contents_->parts[0].version; }
std::uint32_t Gguf::alignment() const noexcept { return contents_->parts[0].alignment; }
std::size_t Gguf::part_count() const noexcept { return contents_->parts.size(); }
const std::string& Gguf::file_name() const noexcept { return contents_->parts[0].name; }
std::span<const GgufValue> Gguf::values() const noexcept { return contents_->parts[0].values; }
std::span<const GgufTensor> Gguf::tensors() const noexcept { return contents_->tensors; }
const Weights& Gguf::weights() const noexcept { return contents_->weights; }

const GgufValue* Gguf::find(std::string_view key) const {
    contents_->asked.add(key);
    const auto found = contents_->by_key.find(key);
    return found == contents_->by_key.end() ? nullptr : found->second;
}

std::vector<const GgufValue*> Gguf::unasked() const {
    std::vector<const GgufValue*> unasked;
    for (const GgufValue& value : values())
        if (!contents_->asked.has(value.key)) unasked.push_back(&value);
    return unasked;
}

bool Gguf::has(std::string_view key) const { return find(key) != nullptr; }

namespace {

/// Calls `use(bytes)` for each element from its first byte on, until it returns false. Not for arrays of arrays.
template <class Use>
void each_element(const GgufValue& value, Use&& use) {
    const GgufType type = value.type == GgufType::array ? value.element : value.type;
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < value.count; ++i) {
        const Bytes bytes = value.elements.subspan(at);
        if (!use(type, bytes)) return;
        at += type == GgufType::string ? sizeof(std::uint64_t) + text_at(bytes).size() : bytes_of_type(type);
    }
}

bool is_nested(const GgufValue& value) { return value.type == GgufType::array && value.element == GgufType::array; }

/// The shortest digits that give the same float.
std::string shown_float(float value) {
    if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    const ShortestDecimal decimal = ShortestDecimal::of(value);
    const std::string plain = decimal.plain(), scientific = decimal.scientific();
    return scientific.size() < plain.size() ? scientific : plain;
}

std::string shown_element(GgufType type, Bytes bytes) {
    if (type == GgufType::string) return quote(text_at(bytes));
    std::string text;
    with_number(type, bytes, [&]<class N>(N number) {
        if constexpr (std::is_same_v<N, bool>)
            text = number ? "true" : "false";
        else if constexpr (std::is_same_v<N, float>)
            text = std::isfinite(number) ? shown_float(number) : std::to_string(number);
        else if constexpr (std::is_floating_point_v<N>)
            text = std::isfinite(number) ? formats::shown(number) : std::to_string(number);
        else
            text = std::to_string(number);
    });
    return text;
}

std::string shown_value(const GgufValue& value, std::size_t max_elements) {
    if (is_nested(value)) return "an array of " + std::to_string(value.count) + " arrays";
    if (value.type != GgufType::array) return shown_element(value.type, value.elements);
    std::string text = "[";
    std::size_t listed = 0;
    each_element(value, [&](GgufType type, Bytes bytes) {
        if (listed == max_elements) return false;
        text += (listed++ ? ", " : "") + shown_element(type, bytes);
        return true;
    });
    if (listed < value.count) text += ", … (" + std::to_string(value.count) + " elements)";
    return text + "]";
}

constexpr std::size_t kShownInMessages = 4;

}  // namespace

std::string Gguf::shown(const GgufValue& value, std::size_t max_elements) const {
    return shown_value(value, max_elements);
}

Error Gguf::unexpected(std::string_view key, std::string_view expected) const {
    const GgufValue* value = find(key);
    return {ErrorCode::CorruptFile, file_name() + ": " + quote(key) + " is " +
                                        (value ? shown_value(*value, kShownInMessages) : "missing") + ", expected " +
                                        std::string(expected)};
}

Error Gguf::unsupported(std::string_view key, std::string_view supported) const {
    const GgufValue* value = find(key);
    return {ErrorCode::UnsupportedConfig, file_name() + ": " + quote(key) + " is " +
                                              (value ? shown_value(*value, kShownInMessages) : "missing") +
                                              ", supported: " + std::string(supported)};
}

Result<std::uint32_t> Gguf::unsigned_integer(std::string_view key, const Expect<std::uint32_t>& expect) const {
    const GgufValue* value = find(key);
    if (!value && expect.fallback) return *expect.fallback;
    const auto number = value ? integer_value<std::uint32_t>(value->type, value->elements) : std::nullopt;
    if (!number || !expect.holds(*number)) return unexpected(key, description("integer", expect));
    return *number;
}

Result<std::int64_t> Gguf::integer(std::string_view key, const Expect<std::int64_t>& expect) const {
    const GgufValue* value = find(key);
    if (!value && expect.fallback) return *expect.fallback;
    const auto number = value ? integer_value<std::int64_t>(value->type, value->elements) : std::nullopt;
    if (!number || !expect.holds(*number)) return unexpected(key, description("integer", expect));
    return *number;
}

Result<double> Gguf::real(std::string_view key, const Expect<double>& expect) const {
    const GgufValue* value = find(key);
    if (!value && expect.fallback) return *expect.fallback;
    const auto number = value ? real_value(value->type, value->elements) : std::nullopt;
    if (!number || !std::isfinite(*number) || !expect.holds(*number))
        return unexpected(key, description("number", expect));
    return *number;
}

Result<bool> Gguf::boolean(std::string_view key, std::optional<bool> fallback) const {
    const GgufValue* value = find(key);
    if (!value && fallback) return *fallback;
    if (!value || value->type != GgufType::boolean) return unexpected(key, "true or false");
    return number_at<std::uint8_t>(value->elements) != 0;
}

Result<std::string> Gguf::string(std::string_view key, std::optional<std::string> fallback) const {
    const GgufValue* value = find(key);
    if (!value && fallback) return *std::move(fallback);
    if (!value || value->type != GgufType::string) return unexpected(key, "a text");
    return std::string(text_at(value->elements));
}

Result<std::vector<std::string_view>> Gguf::strings(std::string_view key) const {
    std::vector<std::string_view> texts;
    const GgufValue* value = find(key);
    if (!value) return texts;
    if (value->type != GgufType::array || value->element != GgufType::string) return unexpected(key, "a list of texts");
    texts.reserve(static_cast<std::size_t>(value->count));
    each_element(*value, [&](GgufType, Bytes bytes) {
        texts.push_back(text_at(bytes));
        return true;
    });
    return texts;
}

Result<std::vector<std::int32_t>> Gguf::integers(std::string_view key) const {
    std::vector<std::int32_t> numbers;
    const GgufValue* value = find(key);
    if (!value) return numbers;
    bool all_integers = !is_nested(*value);
    if (all_integers && value->type != GgufType::string && value->element != GgufType::string)
        numbers.reserve(static_cast<std::size_t>(value->count));
    if (all_integers)
        each_element(*value, [&](GgufType type, Bytes bytes) {
            auto number = integer_value<std::int32_t>(type, bytes);
            if (type == GgufType::boolean) number = number_at<std::uint8_t>(bytes) != 0;
            all_integers = number.has_value();
            if (all_integers) numbers.push_back(*number);
            return all_integers;
        });
    if (!all_integers) return unexpected(key, "an integer or a list of integers (of 32 bits)");
    return numbers;
}

Result<std::vector<float>> Gguf::floats(std::string_view key) const {
    std::vector<float> numbers;
    const GgufValue* value = find(key);
    if (!value) return numbers;
    bool all_numbers = !is_nested(*value);
    if (all_numbers)
        each_element(*value, [&](GgufType type, Bytes bytes) {
            const auto number = real_value(type, bytes);
            all_numbers = number.has_value();
            if (all_numbers) numbers.push_back(static_cast<float>(*number));
            return all_numbers;
        });
    if (!all_numbers) return unexpected(key, "a number or a list of numbers");
    return numbers;
}

bool is_file(const std::filesystem::path& path) noexcept {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored);
}

}  // namespace vkformer::formats
