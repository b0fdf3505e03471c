// SPDX-License-Identifier: MIT
// The layouts, as the programs that write them have them: GPTQ (Frantar et al. 2022) by GPTQModel and AutoGPTQ, AWQ (Lin et al. 2023) by
// AutoAWQ's "gemm", compressed-tensors by vLLM's library of that name, FP8 by transformers' FineGrainedFP8Config.
#include "models/packed_weights.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ceil_div.hpp"
#include "core/tasks.hpp"
#include "core/try.hpp"
#include "formats/json.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr std::uint64_t kBlock = 32;  // elements of a block of the formats here

// ---- one packed matrix ----------------------------------------------------------------------------------------------

/// A matrix [out, in] of small integers with a scale, and a zero, for each group of inputs of an output.
class PackedMatrix {
public:
    std::uint64_t out = 0, in = 0;
    std::uint32_t bits = 4;
    /// The group of an input; empty: those of `group_size` neighbours each.
    std::vector<std::uint32_t> group_of;
    std::uint64_t group_size = 0, groups = 0;
    std::vector<float> scales;        ///< [groups, out]
    std::vector<std::uint8_t> zeros;  ///< [groups, out]
    bool is_half = false;             ///< the file's scales are float16

    std::uint32_t levels() const { return 1u << bits; }
    std::uint64_t group(std::uint64_t i) const { return group_of.empty() ? i / group_size : group_of[i]; }
    /// Whether no block of neighbours is of two groups.
    bool has_whole_blocks() const {
        return in % kBlock == 0 && group_of.empty() && (groups == 1 || group_size % kBlock == 0);
    }
};

/// The place in a word of the first of its eight integers, the second, …
using WordOrder = std::array<std::uint8_t, 8>;

/// How words of several integers each lie in a tensor of two dimensions.
struct WordLayout {
    bool of_outputs = false;  ///< a word has integers of neighbouring outputs, not of neighbouring inputs (or groups)
    bool goes_down = false;   ///< those of the next word are below it, not behind it
    std::uint32_t bytes = 4;  ///< of a word: 4 or 1
    WordOrder order = {0, 1, 2, 3, 4, 5, 6, 7};  ///< of eight outputs
    std::uint32_t added = 0, flipped = 0;        ///< to each word, and then its bits, before it is taken apart
};

/// A tensor of small integers. Its words may be misaligned.
class Words {
public:
    Words(const TensorData& data, std::uint32_t bits, const WordLayout& layout)
        : bytes_(data.bytes),
          columns_(data.shape[1]),
          bits_(bits),
          in_word_(8 * layout.bytes / bits),
          layout_(layout) {}

    /// Of output `o` and input, or group, `i`.
    int at(std::uint64_t o, std::uint64_t i) const {
        const std::uint64_t along = layout_.of_outputs ? o : i, across = layout_.of_outputs ? i : o;
        const std::uint64_t place = along % in_word_;
        return part(word(along / in_word_, across), layout_.of_outputs && in_word_ == 8 ? layout_.order[place] : place);
    }
    /// Of output `o` and a block's inputs, from number `first` on: a multiple of kBlock.
    std::array<int, kBlock> block(std::uint64_t o, std::uint64_t first) const {
        std::array<int, kBlock> values;
        if (layout_.of_outputs) {
            for (std::uint64_t i = 0; i < kBlock; ++i) values[i] = at(o, first + i);
            return values;
        }
        std::uint64_t i = 0;
        for (std::uint64_t w = first / in_word_; i < kBlock; ++w) {
            const std::uint32_t whole = word(w, o);
            for (std::uint32_t place = 0; place < in_word_; ++place) values[i++] = part(whole, place);
        }
        return values;
    }

private:
    std::uint32_t word(std::uint64_t along, std::uint64_t across) const {
        const std::uint64_t index = layout_.goes_down ? along * columns_ + across : across * columns_ + along;
        std::uint32_t value = 0;
        if (layout_.bytes == 4)
            std::memcpy(&value, bytes_.data() + index * 4, 4);
        else
            value = std::to_integer<std::uint32_t>(bytes_[index]);
        return (value + layout_.added) ^ layout_.flipped;
    }
    int part(std::uint32_t whole, std::uint64_t place) const {
        return static_cast<int>((whole >> (place * bits_)) & ((1u << bits_) - 1));
    }

    std::span<const std::byte> bytes_;
    std::uint64_t columns_;
    std::uint32_t bits_, in_word_;
    WordLayout layout_;
};

/// The format that has the numbers of the matrix.
DType format_of(const PackedMatrix& matrix) {
    if (!matrix.has_whole_blocks()) return DType::f16;
    const int top = static_cast<int>(matrix.levels()) - 1;
    int least = 0, most = 0;
    for (const std::uint8_t zero : matrix.zeros) {
        least = std::min(least, -static_cast<int>(zero));
        most = std::max(most, top - static_cast<int>(zero));
    }
    constexpr float kRounding = 0x1p-11f;
    const bool fits_half =
        matrix.is_half || std::ranges::all_of(matrix.scales, [](float scale) {
            return std::abs(half_to_float(float_to_half(scale)) - scale) <= kRounding * std::abs(scale);
        });
    if (!fits_half) return DType::f16;
    if (least >= -8 && most <= 7) return DType::q4_0;
    if (matrix.bits <= 4) return DType::q4_1;
    return least >= -128 && most <= 127 ? DType::q8_0 : DType::f16;
}

void store_half(std::byte* at, float value) {
    const std::uint16_t half = float_to_half(value);
    std::memcpy(at, &half, sizeof half);
}

/// Two elements' nibbles are in a byte: number i and i + 16.
void store_nibbles(const std::array<int, kBlock>& values, std::byte* at) {
    for (std::size_t i = 0; i < kBlock / 2; ++i)
        at[i] = static_cast<std::byte>(values[i] | values[i + kBlock / 2] << 4);
}

/// One block: the integers `q` with the scale and the zero of their group.
void store_block(DType format, std::array<int, kBlock> q, float scale, int zero, std::byte* at) {
    store_half(at, scale);
    if (format == DType::q4_1) {
        store_half(at + 2, -static_cast<float>(zero) * scale);
        return store_nibbles(q, at + 4);
    }
    for (int& value : q) value -= zero;
    if (format == DType::q8_0) {
        for (std::size_t i = 0; i < kBlock; ++i) at[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(q[i]));
        return;
    }
    for (int& value : q) value += 8;
    store_nibbles(q, at + 2);
}

/// The matrix of these integers.
TensorData repacked(const PackedMatrix& matrix, const Words& integers) {
    const DType format = format_of(matrix);
    const std::uint64_t row_bytes = bytes_of(format, matrix.in);
    const auto bytes = std::make_shared<std::vector<std::byte>>(matrix.out * row_bytes);
    const auto place = [&](std::uint64_t o, std::uint64_t i) { return matrix.group(i) * matrix.out + o; };
    for (std::uint64_t o = 0; o < matrix.out; ++o) {
        std::byte* at = bytes->data() + o * row_bytes;
        if (format == DType::f16) {
            for (std::uint64_t i = 0; i < matrix.in; ++i, at += 2) {
                const int q = integers.at(o, i), zero = matrix.zeros[place(o, i)];
                store_half(at, static_cast<float>(q - zero) * matrix.scales[place(o, i)]);
            }
            continue;
        }
        for (std::uint64_t first = 0; first < matrix.in; first += kBlock, at += block_bytes(format)) {
            store_block(format, integers.block(o, first), matrix.scales[place(o, first)], matrix.zeros[place(o, first)],
                        at);
        }
    }
    return {
        .dtype = format, .shape = {matrix.out, matrix.in}, .bytes = std::span<const std::byte>(*bytes), .owner = bytes};
}

// ---- what the methods have in common --------------------------------------------------------------------------------

/// The tensors of one layer, "model.layers.0.mlp.up_proj.".
class Layer {
public:
    Layer(const Weights& weights, std::string name) : weights_(weights), name_(std::move(name)) {}

    bool has(std::string_view tensor) const { return weights_.has(name_ + std::string(tensor)); }
    /// Errors: MissingTensor, UnsupportedDtype (it holds something else), ShapeMismatch (its rank).
    Result<TensorData> tensor(std::string_view tensor, DType dtype, std::size_t rank) const {
        VKFORMER_TRY(TensorData data, weights_.get(name_ + std::string(tensor)));
        if (data.dtype != dtype) return other_dtype(tensor, data.dtype, to_string(dtype));
        if (data.shape.rank() != rank) return bad_shape(tensor, data.shape, "rank " + std::to_string(rank));
        return data;
    }
    /// Floats of any type.
    Result<TensorData> floats(std::string_view tensor) const {
        VKFORMER_TRY(TensorData data, weights_.get(name_ + std::string(tensor)));
        if (is_float(data.dtype)) return data;
        return other_dtype(tensor, data.dtype, "floats");
    }
    Result<void> expect_shape(std::string_view tensor, const TensorData& data, const Shape& shape) const {
        if (data.shape == shape) return {};
        return bad_shape(tensor, data.shape, to_string(shape));
    }
    Error bad_shape(std::string_view tensor, const Shape& shape, const std::string& expected) const {
        return error(ErrorCode::ShapeMismatch, tensor, {" has shape ", to_string(shape), ", expected ", expected});
    }
    Error other_dtype(std::string_view tensor, DType dtype, std::string_view expected) const {
        return error(ErrorCode::UnsupportedDtype, tensor, {" holds ", to_string(dtype), ", expected ", expected});
    }
    /// About one of its tensors.
    Error error(ErrorCode code, std::string_view tensor, std::initializer_list<std::string_view> words) const {
        std::string message = weights_.source() + ": " + name_;
        message += tensor;
        for (const std::string_view word : words) message += word;
        return {code, std::move(message)};
    }
    const std::string& name() const { return name_; }

private:
    const Weights& weights_;
    std::string name_;
};

Result<std::vector<float>> values_of(const TensorData& data) {
    std::vector<float> values(data.shape.element_count());
    VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, std::span(values)));
    return values;
}

/// Groups of equal size; 0, or −1 in the files: all inputs are one. Errors: ShapeMismatch.
Result<void> set_groups(const Layer& layer, std::string_view scales, std::uint64_t size, PackedMatrix& matrix) {
    matrix.group_size = size == 0 ? matrix.in : size;
    const std::uint64_t expected = ceil_div(matrix.in, matrix.group_size);
    if (matrix.groups == expected) return {};
    return layer.error(ErrorCode::ShapeMismatch, scales,
                       {" is for ", std::to_string(matrix.groups), " groups, but ", std::to_string(matrix.in),
                        " inputs in groups of ", std::to_string(matrix.group_size), " are ", std::to_string(expected)});
}

/// A matrix's dimensions as its words tell them. Errors: ShapeMismatch (too large to be one).
Result<void> check_size(const Layer& layer, std::string_view tensor, const PackedMatrix& matrix) {
    constexpr std::uint64_t kMost = 1u << 24;
    if (matrix.in > 0 && matrix.out > 0 && matrix.in <= kMost && matrix.out <= kMost) return {};
    return layer.error(ErrorCode::ShapeMismatch, tensor,
                       {" is for a matrix of ", std::to_string(matrix.out), " × ", std::to_string(matrix.in)});
}

/// What a method makes of a layer whose tensor it knows by its end: the end itself, the ends of all the tensors that it reads there, and
/// what is made of them.
struct Method {
    std::string_view mark;
    std::vector<std::string_view> read;
    std::function<Result<TensorData>(const Layer&)> matrix;
    bool (*is_packed)(const TensorData&) = [](const TensorData&) { return true; };
};

/// Every layer that has the mark, with its matrix in place of what was read.
Result<Weights> with_matrices(Weights weights, const Method& method) {
    std::vector<Layer> layers;
    const std::string end = "." + std::string(method.mark);
    for (const auto& [name, data] : weights.tensors())
        if (name.ends_with(end) && method.is_packed(data))
            layers.emplace_back(weights, name.substr(0, name.size() - method.mark.size()));
    std::vector<std::optional<Result<TensorData>>> made(layers.size());
    run_tasks(layers.size(), [&](std::size_t i) { made[i].emplace(method.matrix(layers[i])); });
    formats::TensorMap tensors = weights.tensors();
    for (std::size_t i = 0; i < layers.size(); ++i) {
        if (!*made[i]) return made[i]->error();
        if (method.mark != "weight" && layers[i].has("weight"))
            return layers[i].error(ErrorCode::CorruptFile, "weight", {" is there beside ", method.mark});
        for (const std::string_view read : method.read) tensors.erase(layers[i].name() + std::string(read));
        tensors.insert_or_assign(layers[i].name() + "weight", std::move(**made[i]));
    }
    return weights.with(std::move(tensors));
}

/// Rows and columns that have one scale; 0: all of them.
struct ScaleBlock {
    std::uint64_t rows = 0, columns = 0;
    friend bool operator==(const ScaleBlock&, const ScaleBlock&) = default;
};

// ---- fields ---------------------------------------------------------------------------------------------------------

/// Fields of one object that are read one after the other: the first error is kept, and what is read behind it means nothing.
class Fields {
public:
    explicit Fields(Result<Config> config) : config_(std::move(config)) {
        if (!config_) error_ = config_.error();
    }

    bool has(std::string_view name) const { return config_ && config_->has(name); }
    /// The first name that there is; all have been asked for then. Without any, the first.
    std::string_view first_of(std::initializer_list<std::string_view> names) const {
        std::string_view found;
        for (const std::string_view name : names)
            if (has(name) && found.empty()) found = name;
        return found.empty() ? *names.begin() : found;
    }
    std::int64_t integer(std::string_view name, const formats::Expect<std::int64_t>& expect) {
        return taken(config_ ? config_->integer(name, expect) : Result<std::int64_t>(0));
    }
    bool boolean(std::string_view name, bool fallback) {
        return taken(config_ ? config_->boolean(name, fallback) : Result<bool>(fallback));
    }
    /// One of the words in `supported`, which stand there with ", " between them.
    std::string word(std::string_view name, const char* fallback, std::string_view supported) {
        std::string value = taken(config_ ? config_->string(name, fallback) : Result<std::string>(std::string()));
        std::string_view left = supported;
        while (!left.empty()) {
            const std::size_t end = std::min(left.find(", "), left.size());
            if (left.substr(0, end) == value) return value;
            left.remove_prefix(std::min(end + 2, left.size()));
        }
        expect(false, name, supported);
        return value;
    }
    /// The sides of a block; none where absent.
    ScaleBlock block(std::string_view name) {
        const auto sizes =
            taken(config_ ? config_->token_ids(name) : Result<std::vector<std::int32_t>>(std::vector<std::int32_t>()));
        if (sizes.empty()) return {};
        const bool is_pair = sizes.size() == 2 && sizes[0] > 0 && sizes[1] > 0;
        expect(is_pair, name, "two numbers above 0");
        return is_pair ? ScaleBlock{static_cast<std::uint64_t>(sizes[0]), static_cast<std::uint64_t>(sizes[1])}
                       : ScaleBlock{};
    }
    /// 0 for −1, which stands for all inputs.
    std::uint64_t group_size(std::string_view name, std::int64_t fallback) {
        const std::int64_t size = integer(name, {.fallback = fallback, .min = -1, .max = 1 << 24});
        expect(size != 0, name, "-1 or a number above 0");
        return static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0));
    }
    void expect(bool holds, std::string_view name, std::string_view supported) {
        if (!holds && !error_) error_ = config_->unsupported(name, supported);
    }
    void expect_empty(std::string_view name) {
        const Result<Config> object = object_of(name);
        if (object)
            expect(object->is_empty(), name, "{}");
        else if (!error_)
            error_ = object.error();
    }
    Fields object(std::string_view name) const { return Fields(object_of(name)); }
    std::vector<std::string> names() const { return config_ ? config_->names() : std::vector<std::string>(); }
    Result<void> done() const {
        if (error_) return *error_;
        return {};
    }

private:
    Result<Config> object_of(std::string_view name) const { return config_ ? config_->object(name) : config_; }
    template <class T>
    T taken(Result<T> value) {
        if (value) return *std::move(value);
        if (!error_) error_ = value.error();
        return T();
    }

    Result<Config> config_;
    std::optional<Error> error_;
};

// ---- GPTQ and AWQ ---------------------------------------------------------------------------------------------------

/// The scales [groups, out] and the zeros.
Result<void> read_scales(const Layer& layer, const WordLayout& layout, PackedMatrix& matrix) {
    constexpr std::string_view zeros = "qzeros";
    VKFORMER_TRY(const TensorData scales, layer.floats("scales"));
    VKFORMER_TRY(const TensorData packed, layer.tensor(zeros, DType::i32, 2));
    if (scales.shape.rank() != 2 || scales.shape[1] != matrix.out || scales.shape[0] == 0)
        return layer.bad_shape("scales", scales.shape, "[groups, " + std::to_string(matrix.out) + "]");
    matrix.groups = scales.shape[0];
    matrix.is_half = scales.dtype == DType::f16;
    VKFORMER_CHECK(
        layer.expect_shape(zeros, packed, {matrix.groups, ceil_div(matrix.out * matrix.bits, std::uint64_t{32})}));
    VKFORMER_TRY(matrix.scales, values_of(scales));
    matrix.zeros.resize(matrix.groups * matrix.out);
    const Words words(packed, matrix.bits, layout);
    for (std::uint64_t g = 0; g < matrix.groups; ++g)
        for (std::uint64_t o = 0; o < matrix.out; ++o)
            matrix.zeros[g * matrix.out + o] = static_cast<std::uint8_t>(words.at(o, g));
    return {};
}

/// Each input's group. Those of neighbours are left to group_size. Errors: CorruptFile (there is no such group).
Result<void> read_group_indices(const Layer& layer, std::string_view tensor, PackedMatrix& matrix) {
    VKFORMER_TRY(const TensorData data, layer.tensor(tensor, DType::i32, 1));
    VKFORMER_CHECK(layer.expect_shape(tensor, data, {matrix.in}));
    std::vector<std::int32_t> indices(matrix.in);
    VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, std::span(indices)));
    bool is_plain = true;
    for (std::uint64_t i = 0; i < matrix.in; ++i) {
        if (indices[i] < 0 || static_cast<std::uint64_t>(indices[i]) >= matrix.groups)
            return layer.error(
                ErrorCode::CorruptFile, tensor,
                {" has group ", std::to_string(indices[i]), ", there are ", std::to_string(matrix.groups)});
        is_plain = is_plain && static_cast<std::uint64_t>(indices[i]) == i / matrix.group_size;
    }
    if (!is_plain) matrix.group_of.assign(indices.begin(), indices.end());
    return {};
}

/// What GPTQModel writes of both methods.
void read_packing(Fields& fields) {
    fields.word("pack_dtype", "int32", "int32, torch.int32");
    fields.expect_empty("dynamic");
}

Result<Weights> unpack_gptq(const Config& quantization, Weights weights) {
    Fields fields{quantization};
    const auto bits = static_cast<std::uint32_t>(fields.integer("bits", {.min = 1, .max = 16}));
    fields.expect(bits == 2 || bits == 4 || bits == 8, "bits", "2, 4, 8");
    const std::uint64_t group_size = fields.group_size("group_size", 128);
    // In the first version words of zeros are smaller by 1 in each of them, with borrows where a zero is 0.
    const std::string_view format = fields.first_of({"checkpoint_format", "format"});
    const bool is_first = fields.word(format, "gptq", "gptq, gptq_v2") == "gptq";
    fields.expect(!fields.boolean("is_marlin_format", false), "is_marlin_format", "false");
    const bool has_order = fields.boolean("desc_act", false);
    read_packing(fields);
    VKFORMER_CHECK(fields.done());
    const std::uint32_t ones = 0xFFFFFFFFu / ((1u << bits) - 1);  // 0x11111111 of 4 bits
    const WordLayout zeros = {.of_outputs = true, .added = is_first ? ones : 0};
    const auto matrix = [=](const Layer& layer) -> Result<TensorData> {
        VKFORMER_TRY(const TensorData packed, layer.tensor("qweight", DType::i32, 2));
        PackedMatrix made{.out = packed.shape[1], .in = packed.shape[0] * 32 / bits, .bits = bits};
        VKFORMER_CHECK(check_size(layer, "qweight", made));
        VKFORMER_CHECK(read_scales(layer, zeros, made));
        if (has_order || layer.has("g_idx")) {
            made.group_size = group_size == 0 ? made.in : group_size;
            VKFORMER_CHECK(read_group_indices(layer, "g_idx", made));
        }
        if (made.group_of.empty()) VKFORMER_CHECK(set_groups(layer, "scales", group_size, made));
        return repacked(made, Words(packed, made.bits, {.goes_down = true}));
    };
    return with_matrices(std::move(weights),
                         {.mark = "qweight", .read = {"qweight", "qzeros", "scales", "g_idx"}, .matrix = matrix});
}

Result<Weights> unpack_awq(const Config& quantization, Weights weights) {
    constexpr WordLayout kLayout = {.of_outputs = true, .order = {0, 4, 1, 5, 2, 6, 3, 7}};
    Fields fields{quantization};
    const char* const bits = fields.has("w_bit") ? "w_bit" : "bits";
    fields.expect(fields.integer(bits, {.min = 1, .max = 16}) == 4, bits, "4");
    const std::uint64_t group_size = fields.group_size(fields.has("q_group_size") ? "q_group_size" : "group_size", 128);
    fields.word(fields.first_of({"version", "format", "checkpoint_format"}), "gemm", "gemm, GEMM");
    fields.expect(!fields.boolean("desc_act", false), "desc_act", "false");
    read_packing(fields);
    VKFORMER_CHECK(fields.done());
    const auto matrix = [=](const Layer& layer) -> Result<TensorData> {
        VKFORMER_TRY(const TensorData packed, layer.tensor("qweight", DType::i32, 2));
        PackedMatrix made{.out = packed.shape[1] * 8, .in = packed.shape[0], .bits = 4};
        VKFORMER_CHECK(check_size(layer, "qweight", made));
        VKFORMER_CHECK(read_scales(layer, kLayout, made));
        VKFORMER_CHECK(set_groups(layer, "scales", group_size, made));
        return repacked(made, Words(packed, made.bits, kLayout));
    };
    return with_matrices(std::move(weights),
                         {.mark = "qweight", .read = {"qweight", "qzeros", "scales"}, .matrix = matrix});
}

// ---- FP8 ------------------------------------------------------------------------------------------------------------

constexpr float kBeyondHalf = 65520.0f;  // rounded to float16 this is infinite

/// A matrix of FP8 with one scale, one for each output [out] or [out, 1], or one for each block.
Result<TensorData> scaled_fp8(const Layer& layer, std::string_view scale_name, ScaleBlock block) {
    VKFORMER_TRY(const TensorData data, layer.tensor("weight", DType::f8_e4m3, 2));
    VKFORMER_TRY(const TensorData scale, layer.floats(scale_name));
    VKFORMER_TRY(const auto scales, values_of(scale));
    const std::uint64_t out = data.shape[0], in = data.shape[1];
    const bool is_blocked = block.rows > 0;
    if (!is_blocked) block = {.rows = scales.size() == out ? 1 : out, .columns = in};
    if (out == 0 || in == 0) return layer.bad_shape("weight", data.shape, "a matrix");
    const std::uint64_t rows = ceil_div(out, block.rows), columns = ceil_div(in, block.columns);
    const Shape& shape = scale.shape;
    const bool fits = is_blocked ? shape == Shape{rows, columns}
                                 : scales.size() == rows && (shape.rank() < 2 || shape[0] == scales.size());
    if (!fits) return layer.bad_shape(scale_name, shape, to_string(Shape{rows, columns}));
    const auto bytes = std::make_shared<std::vector<std::byte>>(out * in * 2);
    std::vector<float> row(in);
    for (std::uint64_t o = 0; o < out; ++o) {
        VKFORMER_CHECK(convert(data.dtype, data.bytes, static_cast<std::size_t>(o * in), std::span(row)));
        bool fits_half = true;
        for (std::uint64_t i = 0; i < in; ++i) {
            const float value = row[i] * scales[o / block.rows * columns + i / block.columns];
            fits_half = fits_half && !(std::abs(value) >= kBeyondHalf);
            store_half(bytes->data() + (o * in + i) * 2, value);
        }
        if (!fits_half)
            return layer.error(ErrorCode::UnsupportedConfig, scale_name,
                               {": a weight of output ", std::to_string(o),
                                " is beyond 65504, and FP8 is unpacked to float16"});
    }
    return TensorData{
        .dtype = DType::f16, .shape = {out, in}, .bytes = std::span<const std::byte>(*bytes), .owner = bytes};
}

bool is_fp8(const TensorData& data) { return data.dtype == DType::f8_e4m3; }

/// What activations and caches would be rounded by, which they are not here.
constexpr std::array<std::string_view, 10> kActivationScales = {
    ".input_scale", ".output_scale", ".activation_scale", ".input_zero_point", ".output_zero_point",
    ".q_scale",     ".k_scale",      ".v_scale",          ".k_zero_point",     ".v_zero_point"};

Weights without_activation_scales(Weights weights) {
    formats::TensorMap tensors = weights.tensors();
    std::erase_if(tensors, [](const auto& entry) {
        return std::ranges::any_of(kActivationScales, [&](std::string_view end) { return entry.first.ends_with(end); });
    });
    return weights.with(std::move(tensors));
}

Result<Weights> unpack_fp8(const Config& quantization, Weights weights) {
    Fields fields{quantization};
    fields.word("fmt", "e4m3", "e4m3");
    fields.word("activation_scheme", "dynamic", "dynamic, static");
    const ScaleBlock block = fields.block("weight_block_size");
    VKFORMER_CHECK(fields.done());
    const bool is_inverse = std::ranges::any_of(
        weights.tensors(), [](const auto& entry) { return entry.first.ends_with(".weight_scale_inv"); });
    const char* const scale = is_inverse ? "weight_scale_inv" : "weight_scale";
    const auto matrix = [=](const Layer& layer) { return scaled_fp8(layer, scale, block); };
    return with_matrices(without_activation_scales(std::move(weights)),
                         {.mark = "weight", .read = {scale}, .matrix = matrix, .is_packed = is_fp8});
}

// ---- compressed-tensors ---------------------------------------------------------------------------------------------

struct CompressedFields {
    std::uint32_t bits = 8;
    std::uint64_t group_size = 0;  ///< 0: all inputs of an output, or the whole matrix, have one scale
    ScaleBlock block;
    bool is_symmetric = true;
    friend bool operator==(const CompressedFields&, const CompressedFields&) = default;
};

/// Weights of one kind of layer; how its activations would be rounded is not read.
Result<CompressedFields> read_compressed_group(const Fields& group) {
    Fields weights = group.object("weights");
    CompressedFields read;
    const bool is_float = weights.word("type", "int", "int, float") == "float";
    read.bits = static_cast<std::uint32_t>(weights.integer("num_bits", {.fallback = 8, .min = 1, .max = 16}));
    weights.expect(read.bits == 8 || (read.bits == 4 && !is_float), "num_bits", is_float ? "8" : "4, 8");
    read.is_symmetric = weights.boolean("symmetric", true);
    read.group_size = weights.group_size("group_size", -1);
    read.block = weights.block("block_structure");
    const std::string strategy =
        weights.word("strategy", read.group_size > 0 ? "group" : "tensor", "tensor, channel, group, block");
    weights.expect((strategy == "block") == (read.block.rows > 0), "block_structure",
                   "two numbers with the strategy block, else null");
    if (strategy != "group") read.group_size = 0;
    weights.expect(!weights.boolean("dynamic", false), "dynamic", "false");
    VKFORMER_CHECK(weights.done());
    return read;
}

/// [out, groups] → [groups, out], with one for all outputs repeated.
Result<void> read_channel_scales(const Layer& layer, PackedMatrix& matrix) {
    VKFORMER_TRY(const TensorData scale, layer.floats("weight_scale"));
    VKFORMER_TRY(const auto values, values_of(scale));
    matrix.is_half = scale.dtype == DType::f16;
    if (values.size() == 1) {
        matrix.groups = 1;
        matrix.scales.assign(matrix.out, values[0]);
        return {};
    }
    const bool has_rows = scale.shape.rank() > 0 && scale.shape[0] == matrix.out && scale.shape.rank() <= 2;
    if (!has_rows) return layer.bad_shape("weight_scale", scale.shape, "[" + std::to_string(matrix.out) + ", groups]");
    matrix.groups = values.size() / matrix.out;
    matrix.scales.resize(values.size());
    for (std::uint64_t o = 0; o < matrix.out; ++o)
        for (std::uint64_t g = 0; g < matrix.groups; ++g)
            matrix.scales[g * matrix.out + o] = values[o * matrix.groups + g];
    return {};
}

/// Signed integers are stored with half of the levels added.
Result<void> read_channel_zeros(const Layer& layer, bool is_symmetric, PackedMatrix& matrix) {
    const std::uint32_t middle = matrix.levels() / 2;
    matrix.zeros.assign(matrix.groups * matrix.out, static_cast<std::uint8_t>(middle));
    if (is_symmetric) return {};
    constexpr std::string_view kName = "weight_zero_point";
    VKFORMER_TRY(const TensorData packed, layer.tensor(kName, DType::i32, 2));  // along the outputs
    VKFORMER_CHECK(
        layer.expect_shape(kName, packed, {ceil_div(matrix.out * matrix.bits, std::uint64_t{32}), matrix.groups}));
    const Words words(packed, matrix.bits, {.of_outputs = true, .goes_down = true});
    for (std::uint64_t g = 0; g < matrix.groups; ++g)
        for (std::uint64_t o = 0; o < matrix.out; ++o)
            matrix.zeros[g * matrix.out + o] = static_cast<std::uint8_t>(words.at(o, g));
    return {};
}

/// weight_packed: [out, in / 8] (of 4 bits), and weight_shape, which says what `in` is.
Result<TensorData> packed_integers(const Layer& layer, const CompressedFields& fields) {
    VKFORMER_TRY(const TensorData packed, layer.tensor("weight_packed", DType::i32, 2));
    VKFORMER_TRY(const TensorData shape, layer.tensor("weight_shape", DType::i64, 1));
    std::array<std::int32_t, 2> sizes{};
    VKFORMER_CHECK(layer.expect_shape("weight_shape", shape, {2}));
    const auto read = convert(shape.dtype, shape.bytes, 0, std::span<std::int32_t>(sizes));
    if (!read) return layer.error(read.error().code, "weight_shape", {": ", read.error().message});
    PackedMatrix made{.out = static_cast<std::uint64_t>(std::max(sizes[0], 0)),
                      .in = static_cast<std::uint64_t>(std::max(sizes[1], 0)),
                      .bits = fields.bits};
    VKFORMER_CHECK(check_size(layer, "weight_shape", made));
    VKFORMER_CHECK(
        layer.expect_shape("weight_packed", packed, {made.out, ceil_div(made.in * made.bits, std::uint64_t{32})}));
    VKFORMER_CHECK(read_channel_scales(layer, made));
    VKFORMER_CHECK(read_channel_zeros(layer, fields.is_symmetric, made));
    made.group_size = fields.group_size == 0 ? made.in : fields.group_size;
    if (layer.has("weight_g_idx")) VKFORMER_CHECK(read_group_indices(layer, "weight_g_idx", made));
    if (made.group_of.empty()) VKFORMER_CHECK(set_groups(layer, "weight_scale", fields.group_size, made));
    return repacked(made, Words(packed, made.bits, {}));
}

/// weight: bytes with signs.
Result<TensorData> byte_integers(const Layer& layer, const CompressedFields& fields) {
    VKFORMER_TRY(const TensorData data, layer.tensor("weight", DType::i8, 2));
    if (!fields.is_symmetric)
        return layer.error(ErrorCode::UnsupportedConfig, "weight", {": integers of 8 bits with zeros are not read"});
    PackedMatrix made{.out = data.shape[0], .in = data.shape[1], .bits = 8};
    VKFORMER_CHECK(check_size(layer, "weight", made));
    VKFORMER_CHECK(read_channel_scales(layer, made));
    VKFORMER_CHECK(read_channel_zeros(layer, true, made));
    VKFORMER_CHECK(set_groups(layer, "weight_scale", fields.group_size, made));
    return repacked(made, Words(data, made.bits, {.bytes = 1, .flipped = 0x80}));  // 128 more
}

Result<Weights> unpack_compressed(const Config& quantization, Weights weights) {
    Fields fields{quantization};
    fields.word("format", "dense", "dense, pack-quantized, int-quantized, float-quantized, naive-quantized");
    fields.word("quantization_status", "compressed", "compressed");
    fields.expect_empty("transform_config");
    Fields sparsity = fields.object("sparsity_config");
    sparsity.word("format", "dense", "dense");
    VKFORMER_CHECK(fields.done());
    VKFORMER_CHECK(sparsity.done());
    const Fields groups = fields.object("config_groups");
    VKFORMER_CHECK(groups.done());
    std::optional<CompressedFields> found;
    for (const std::string& name : groups.names()) {
        VKFORMER_TRY(const CompressedFields read, read_compressed_group(groups.object(name)));
        fields.expect(!found || *found == read, "config_groups", "groups whose weights are quantised alike");
        found = read;
    }
    VKFORMER_CHECK(fields.done());
    if (!found) return weights;  // nothing is quantised
    const CompressedFields read = *found;
    VKFORMER_TRY(weights,
                 with_matrices(without_activation_scales(std::move(weights)),
                               {.mark = "weight_packed",
                                .read = {"weight_packed", "weight_shape", "weight_scale", "weight_g_idx",
                                         read.is_symmetric ? "weight_scale" : "weight_zero_point"},
                                .matrix = [read](const Layer& layer) { return packed_integers(layer, read); }}));
    VKFORMER_TRY(weights, with_matrices(std::move(weights),
                                        {.mark = "weight",
                                         .read = {"weight_scale"},
                                         .matrix = [read](const Layer& layer) { return byte_integers(layer, read); },
                                         .is_packed = [](const TensorData& data) { return data.dtype == DType::i8; }}));
    return with_matrices(
        std::move(weights),
        {.mark = "weight",
         .read = {"weight_scale"},
         .matrix = [read](const Layer& layer) { return scaled_fp8(layer, "weight_scale", read.block); },
         .is_packed = is_fp8});
}

}  // namespace

Result<Weights> unpacked(const Config& config, Weights weights) {
    if (!config.has("quantization_config")) return weights;
    VKFORMER_TRY(const Config quantization, config.object("quantization_config"));
    if (quantization.is_empty()) return weights;
    VKFORMER_TRY(const std::string method, quantization.string("quant_method", ""));
    if (method == "gptq") return unpack_gptq(quantization, std::move(weights));
    if (method == "awq") return unpack_awq(quantization, std::move(weights));
    if (method == "fp8") return unpack_fp8(quantization, std::move(weights));
    if (method == "compressed-tensors") return unpack_compressed(quantization, std::move(weights));
    if (method == "mxfp4") return weights;
    return quantization.unsupported("quant_method", "awq, compressed-tensors, fp8, gptq, mxfp4 (of gpt-oss)");
}

Result<Weights> open_folder_weights(const Config& config, const std::filesystem::path& folder) {
    VKFORMER_TRY(Weights weights, formats::open_weights(folder));
    return unpacked(config, std::move(weights));
}

}  // namespace vkformer::models
