// SPDX-License-Identifier: MIT
/// Typed access to the tensors of a model's file, and to what its config calls an activation: for the loading functions of all
/// architectures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/config.hpp"
#include "formats/weights.hpp"
#include "graph/ops.hpp"
#include "models/layer_weights.hpp"

namespace vkformer::models {

/// What becomes of a bias that the file has and nobody asks for.
enum class UnreadBiases : std::uint8_t { passed_over, refused };

/// Reads tensors by name and checks them, values too. Errors: MissingTensor, ShapeMismatch, UnsupportedDtype, CorruptFile (a value
/// that is infinite or no number). Whoever has a name as a literal hands that over: a string made of it at each call is much code.
class WeightReader {
public:
    /// `prefix` precedes every name; "model." and the like. Borrows the weights.
    WeightReader(const formats::Weights& weights, std::string prefix,
                 UnreadBiases unread_biases = UnreadBiases::passed_over)
        : weights_(weights), prefix_(std::move(prefix)), unread_biases_(unread_biases) {}

    bool has(const std::string& name) const;
    /// Of the tensor's shape; 0 where there is no such tensor.
    std::size_t rank(const std::string& name) const;
    /// The file, as errors name it.
    const std::string& source() const { return weights_.source(); }
    Result<TensorData> tensor(const std::string& name, const Shape& shape) const;
    Result<TensorData> tensor(const char* name, const Shape& shape) const;
    /// A tensor of unsigned bytes. Errors: MissingTensor, ShapeMismatch, UnsupportedDtype.
    Result<TensorData> bytes(const std::string& name, const Shape& shape) const;
    /// A tensor that may be another one, as the head may be the table of tokens. What the file has under the name is used, whatever
    /// its config says of ties: that is what transformers 5 does, which writes tie_word_embeddings beside heads that differ. Where
    /// it has nothing there, or the same bytes as `other` (of one dtype; looked at as fast as memory is), this is `other` itself, so
    /// that both are one tensor on the device. Errors: tensor's; MissingTensor (nothing there, and not `is_tied`).
    Result<TensorData> tied_tensor(const std::string& name, const Shape& shape, const TensorData& other,
                                   bool is_tied) const;
    /// All rows of name + ".weight".
    Origin origin(const std::string& name, std::uint64_t rows) const;
    /// name + ".weight" [out, in] and, if asked for, name + ".bias" [out]. Errors: also UnsupportedConfig, for UnreadBiases::refused.
    Result<Projection> projection(const std::string& name, std::uint64_t out, std::uint64_t in, bool has_bias) const;
    Result<Projection> projection(const char* name, std::uint64_t out, std::uint64_t in, bool has_bias) const;
    /// [dim] if it is there by the config (`wanted`), else nothing. Errors as projection's.
    Result<TensorData> bias(const std::string& name, std::uint64_t dim, bool wanted) const;
    /// name + ".weight" [dim] and, if asked for, name + ".bias" [dim]; in old files ".gamma" and ".beta".
    Result<NormWeights> norm(const std::string& name, std::uint64_t dim, bool has_bias = false) const;
    Result<NormWeights> norm(const char* name, std::uint64_t dim, bool has_bias = false) const;

private:
    /// A tensor as errors name it.
    std::string place(const std::string& name) const;
    /// Of whatever dtype.
    Result<TensorData> of_shape(const std::string& name, const Shape& shape) const;
    Result<void> check_unread(const std::string& bias) const;

    const formats::Weights& weights_;
    std::string prefix_;
    UnreadBiases unread_biases_;
};

/// Rows first … first + count − 1 of a matrix, without a copy.
TensorData rows_of(const TensorData& matrix, std::uint64_t first, std::uint64_t count);
/// The same rows of weight and bias, with where they stand. Not of one that adapters add to.
Projection rows_of(const Projection& projection, std::uint64_t first, std::uint64_t count);

/// Ranges of rows of a matrix, one behind the other, copied.
TensorData gathered_rows(const TensorData& matrix, const std::vector<RowRange>& ranges);
Projection gathered_rows(const Projection& projection, const std::vector<RowRange>& ranges);

/// A tensor of float32 that is no file's. Requires as many values as the shape has elements.
TensorData float_tensor(const Shape& shape, std::vector<float> values);

/// The elements as float32. Errors: UnsupportedDtype.
Result<std::vector<float>> floats_of(const TensorData& data);

/// [rows, cols] → [cols, rows], as float32.
Result<TensorData> transposed(const TensorData& matrix);

/// The prefix of the tensors' names: some files have the bare model's, without "model." or "transformer.". `probe` is a tensor
/// that every file has.
std::string find_prefix(const formats::Weights& weights, const std::string& usual, const std::string& probe);

/// The activation under `name`, by transformers' names: silu, gelu, gelu_pytorch_tanh, quick_gelu, …
Result<graph::Activation> read_activation(const formats::Config& config, std::string_view name, std::string fallback);

}  // namespace vkformer::models
