// SPDX-License-Identifier: MIT
/// The weights that layers of all architectures are made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor_data.hpp"
#include "vkformer/result.hpp"

namespace vkformer::models {

struct RowRange {
    std::uint64_t first, count;
};

/// Where a weight's rows stand in the model's file.
struct Origin {
    std::string tensor;            ///< by its name there; empty: not told
    std::uint64_t rows = 0;        ///< that the tensor has
    std::vector<RowRange> ranges;  ///< the weight's, one behind the other
};

/// What adapters add to a product y = weight · x: up · (s ⊙ (down · x)), where s has the scale of each column's adapter (Hu et al. 2022,
/// "LoRA", section 4.1).
struct LowRank {
    TensorData down;  ///< f32 [columns, in]; weights of one input that are multiplied together have the same
    TensorData up;    ///< f32 [out, columns]
    explicit operator bool() const noexcept { return !down.bytes.empty(); }
};

/// Adapters beside a model's weights (models/adapter.hpp): of the columns of LowRank each one's are behind those of the adapters before it.
struct AdapterSet {
    struct Columns {
        std::uint32_t rank = 0;
        float scale = 1;  ///< α / rank, or its like: what counts once
    };
    std::vector<Columns> adapters;
    std::uint32_t adapter_columns = 0;  ///< of all together, and some that are nobody's
    /// Of an encoder's tables of tokens and types: down is [rows of the table, columns], and in place of down · x stands a row of it.
    LowRank word_adapters, type_adapters;

    static constexpr float kMostAdapterScale = 1000;
    /// f32 [rows, adapter_columns], as bits, of rows that have a scale of each adapter, or none: then none counts.
    std::vector<std::int32_t> adapter_words(std::span<const std::span<const float>> rows) const;
    /// The same of so many rows with these scales, as numbers.
    std::vector<float> adapter_numbers(std::span<const float> scales, std::size_t rows) const;
    /// Errors: InvalidArgument (not a scale for each adapter, or one that is no number up to kMostAdapterScale).
    Result<void> check_adapters(std::span<const float> scales) const;
};

/// A product's weight [out, in] and bias [out]; bias.bytes is empty where there is none.
struct Projection {
    TensorData weight, bias;
    Origin origin{};
    LowRank adapters{};  ///< none where no adapter has to do with the weight
    Origin other_origin{};  ///< where the rows stand in files with other names, which adapters may have; empty: none
    explicit operator bool() const noexcept { return !weight.bytes.empty(); }
};

/// A norm's gain and bias [dim]; empty bytes where there is none, and where there is no such norm at all.
struct NormWeights {
    TensorData gain, bias;
    explicit operator bool() const noexcept { return !gain.bytes.empty(); }
};

/// Where the norms of a layer are.
enum class NormPlace : std::uint8_t {
    behind,  ///< norm(x + f(x)): Vaswani et al. 2017, BERT
    before,  ///< x + f(norm(x)): ViT, CLIP, decoders
};

/// The same bytes in memory: two tensors that are tied.
inline bool is_same(const TensorData& a, const TensorData& b) noexcept {
    return a.bytes.data() == b.bytes.data() && a.bytes.size() == b.bytes.size();
}

}  // namespace vkformer::models
