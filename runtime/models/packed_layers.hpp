// SPDX-License-Identifier: MIT
/// What the methods of packed weights have in common: the tensors of a layer, and the fields of a config that say how they are packed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/try.hpp"
#include "formats/config.hpp"
#include "formats/weights.hpp"
#include "models/packed_matrix.hpp"

namespace vkformer::models::packed {

using formats::Config;
using formats::Weights;

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

Result<std::vector<float>> values_of(const TensorData& data);
/// Groups of equal size; 0, or −1 in the files: all inputs are one. Errors: ShapeMismatch.
Result<void> set_groups(const Layer& layer, std::string_view scales, std::uint64_t size, PackedMatrix& matrix);
/// A matrix's dimensions as its words tell them. Errors: ShapeMismatch (too large to be one).
Result<void> check_size(const Layer& layer, std::string_view tensor, const PackedMatrix& matrix);
/// Each input's group. Those of neighbours are left to group_size. Errors: CorruptFile (there is no such group).
Result<void> read_group_indices(const Layer& layer, std::string_view tensor, PackedMatrix& matrix);

/// What a method makes of a layer whose tensor it knows by its end: the end itself, the ends of all the tensors that it reads there, and
/// what is made of them.
struct Method {
    std::string_view mark;
    std::vector<std::string_view> read;
    std::function<Result<TensorData>(const Layer&)> matrix;
    bool (*is_packed)(const TensorData&) = [](const TensorData&) { return true; };
};

/// Every layer that has the mark, with its matrix in place of what was read.
Result<Weights> with_matrices(Weights weights, const Method& method);

/// Rows and columns that have one scale; 0: all of them.
struct ScaleBlock {
    std::uint64_t rows = 0, columns = 0;
    friend bool operator==(const ScaleBlock&, const ScaleBlock&) = default;
};

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

// The methods. Errors: as of open_folder_weights.
Result<Weights> unpack_gptq(const Config& quantization, Weights weights);
Result<Weights> unpack_awq(const Config& quantization, Weights weights);
Result<Weights> unpack_fp8(const Config& quantization, Weights weights);
Result<Weights> unpack_compressed(const Config& quantization, Weights weights);

}  // namespace vkformer::models::packed
