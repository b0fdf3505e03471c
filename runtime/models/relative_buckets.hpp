// SPDX-License-Identifier: MIT
/// Biases of scores by distance, in buckets: T5 (Raffel et al. 2020, section 2.1) and MPNet (Song et al. 2020).
#pragma once

#include <cstdint>

#include "core/tensor_data.hpp"
#include "vkformer/result.hpp"

namespace vkformer::models {

struct RelativeBuckets {
    std::uint32_t count = 32;          ///< at least 4
    std::uint32_t max_distance = 128;  ///< above count / 2; from it on all distances are one bucket
    bool is_bidirectional = false;  ///< half of them are for keys after the query, which else all count as distance 0
};

/// The table of buckets, [count, heads], as a value per head and distance, which is the table of graph::relative_bias:
/// f32 [heads, 2 · max_distance + 1].
Result<TensorData> spell_out(const TensorData& table, const RelativeBuckets& buckets);

}  // namespace vkformer::models
