// SPDX-License-Identifier: MIT
/// One small graph per op and shape that models have, so that kernels can be asked which shaders they would run, with which
/// specialization constants. Shapes matter only as far as a kernel chooses by them.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace vkformer::cli {

struct PipelineCase {
    std::string label;  ///< "linear 512 × 4096 → 4096": the op and its sizes
    Result<void> (*build)(graph::Graph& graph, DType dtype);
};

/// Every op of graph/ops.hpp is in at least one.
std::vector<PipelineCase> pipeline_cases();

}  // namespace vkformer::cli
