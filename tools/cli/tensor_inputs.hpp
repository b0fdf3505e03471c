// SPDX-License-Identifier: MIT
/// The tensors that a forward pass is given, by Hugging Face's names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/safetensors.hpp"
#include "vkformer/result.hpp"

namespace vkformer::cli {

/// A [batch, len] tensor of integers.
struct IntegerMatrix {
    std::uint32_t batch = 0, len = 0;
    std::vector<std::int32_t> values;

    std::span<const std::int32_t> row(std::size_t b) const { return std::span(values).subspan(b * len, len); }

    // Of a mask of ones and zeros:
    bool all_ones() const;
    /// Ones, then zeros, in every row.
    bool is_padded_behind() const;
    /// The ones of each row.
    std::vector<std::int32_t> lengths() const;
    /// 0 for a one, −∞ for a zero.
    std::vector<float> additive() const;
};

/// [batch, …] of a file, as float32.
struct Floats {
    std::uint32_t batch = 0;
    std::vector<float> values;
};

/// Errors of all: MissingTensor, InvalidArgument (a dtype, or values out of their range), ShapeMismatch; they name the tensor.
class TensorInputs {
public:
    explicit TensorInputs(formats::Safetensors file) : file_(std::move(file)) {}

    const TensorData* find(const std::string& name) const { return file_.find(name); }

    /// Integers from 0 to vocab − 1, at most max_len in a row. `what` they are is for errors.
    Result<IntegerMatrix> tokens(const std::string& name, std::uint64_t vocab, std::uint64_t max_len,
                                 const std::string& what = "token") const;
    /// A mask of ones and zeros of the shape of `like`; ones where the file has none.
    Result<IntegerMatrix> mask(const std::string& name, const IntegerMatrix& like) const;
    /// "attention_mask" of sequences whose padding lies behind them.
    Result<IntegerMatrix> right_padding(const IntegerMatrix& tokens) const;
    /// Any number of tensors of a shape.
    Result<Floats> floats(const std::string& name, const Shape& of_one) const;
    /// That the file has no other tensors.
    Result<void> check_names(std::initializer_list<std::string_view> taken) const;

private:
    formats::Safetensors file_;
};

}  // namespace vkformer::cli
