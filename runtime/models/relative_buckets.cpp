// SPDX-License-Identifier: MIT
#include "models/relative_buckets.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "core/try.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

/// The bucket of a key `distance` before (positive) or behind the query. Half of them, or a quarter each way, are distances one by
/// one; the others grow with the logarithm up to max_distance. Formed in float32, like transformers' _relative_position_bucket.
std::uint32_t bucket_of(std::int64_t distance, const RelativeBuckets& all) {
    std::uint32_t buckets = all.count, first = 0;
    if (all.is_bidirectional) {
        buckets /= 2;
        if (distance > 0) first = buckets;
    } else {
        distance = std::min<std::int64_t>(distance, 0);
    }
    const auto apart = static_cast<std::uint64_t>(std::abs(distance));
    const std::uint32_t exact = buckets / 2;
    if (apart < exact) return first + static_cast<std::uint32_t>(apart);
    const float share = std::log(static_cast<float>(apart) / static_cast<float>(exact)) /
                        static_cast<float>(std::log(static_cast<double>(all.max_distance) / exact));
    const auto log_bucket = static_cast<std::uint32_t>(share * static_cast<float>(buckets - exact));
    return first + std::min(exact + log_bucket, buckets - 1);
}

}  // namespace

Result<TensorData> spell_out(const TensorData& table, const RelativeBuckets& buckets) {
    const std::uint64_t heads = table.shape[1], reach = buckets.max_distance, distances = 2 * reach + 1;
    VKFORMER_TRY(const std::vector<float> values, floats_of(table));
    std::vector<float> result(heads * distances);
    for (std::uint64_t i = 0; i < distances; ++i) {
        const auto distance = static_cast<std::int64_t>(i) - static_cast<std::int64_t>(reach);
        const std::uint32_t bucket = bucket_of(distance, buckets);
        for (std::uint64_t h = 0; h < heads; ++h) result[h * distances + i] = values[bucket * heads + h];
    }
    return float_tensor({heads, distances}, std::move(result));
}

}  // namespace vkformer::models
