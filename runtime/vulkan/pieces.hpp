// SPDX-License-Identifier: MIT
/// Tensors that are larger than what a device binds or allocates at once, cut into pieces that are tensors of their own.
///
/// This stands between a plan and what is recorded of it, so that no kernel knows of it: a node that touches such a tensor becomes the same
/// op on each piece, in the variant chosen for the whole. The operands that are not cut but belong to a piece (columns of a residual, heads
/// of a query) are copied out before it, and its results copied to where they belong, which costs little beside reading the piece.
/// Weights, and activations with all that goes row by row, are cut by rows; caches by heads, then by sequences.
#pragma once

#include <array>
#include <map>
#include <variant>
#include <vector>

#include "graph/plan.hpp"
#include "vulkan/kernels/kernel.hpp"
#include "vulkan/strided_copy.hpp"

namespace vkformer::vulkan {

/// Indices first … first + count − 1 along a dimension.
struct Range {
    std::uint64_t first = 0, count = 1;
    friend bool operator==(const Range&, const Range&) = default;
};
/// The sizes of a tensor seen as one of four dimensions.
using Sizes = std::array<std::uint64_t, 4>;
using Block = std::array<Range, 4>;

struct TensorPiece {
    Block block;  ///< of the whole
    graph::Value value;
};
struct CutTensor {
    Sizes sizes{};  ///< as which it was cut
    std::vector<TensorPiece> pieces{};
};

/// A plan as a device can run it.
struct PiecedPlan {
    /// The whole plan and, behind its tensors, the pieces and what is copied to and from. Its nodes are those of the whole plan.
    graph::Plan plan;
    /// What a node becomes: its op or, of cut tensors, ops and copies one after the other.
    struct Work {
        std::variant<graph::Op, WordCopy> what;
        Piece piece{};
    };
    std::vector<std::vector<Work>> nodes{};    ///< by node of the plan
    std::map<std::uint32_t, CutTensor> cut{};  ///< by tensor id: these have no memory but that of their pieces
    /// By tensor id: where the tensors lie that only hold what is copied, in memory that means nothing between nodes.
    std::map<std::uint32_t, std::uint64_t> copied_at{};
    std::uint64_t copied_bytes = 0;
    std::uint64_t arena_block_bytes =
        0;  ///< no tensor of the arena crosses a multiple of it; 0: the arena is one block
};

/// The plan itself where all of its tensors fit. Errors: MissingFeature (a tensor that does not fit, and what cannot work on pieces of it).
Result<PiecedPlan> cut_into_pieces(const graph::Plan& plan, const Capabilities& device);

/// The largest piece that the device takes, in bytes.
std::uint64_t most_piece_bytes(const Capabilities& device) noexcept;

}  // namespace vkformer::vulkan
