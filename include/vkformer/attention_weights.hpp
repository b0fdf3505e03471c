// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vkformer {

enum class AttentionKind : std::uint8_t {
    encoder,  ///< a source token looks at source tokens
    decoder,  ///< a token being written looks at those before it
    cross,    ///< a token being written looks at source tokens
};

/// What every head of one attention layer looks at; each row sums to 1, or to less where a window cuts it (local attention).
struct AttentionWeights {
    AttentionKind kind = AttentionKind::cross;
    std::uint32_t layer = 0;  ///< counted from 0 within its kind
    std::size_t heads = 0, queries = 0, keys = 0;
    std::vector<float> values{};  ///< [heads, queries, keys]
};

}  // namespace vkformer
