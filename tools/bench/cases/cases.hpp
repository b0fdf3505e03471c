// SPDX-License-Identifier: MIT
/// The families of tools/bench/cases, one file per kind of op.
#pragma once

#include "bench/case.hpp"

namespace vkformer::bench {

void add_linear_cases(std::vector<Family>& families);
void add_attention_cases(std::vector<Family>& families);
void add_scores_cases(std::vector<Family>& families);
void add_softmax_cases(std::vector<Family>& families);
void add_norm_cases(std::vector<Family>& families);
void add_elementwise_cases(std::vector<Family>& families);
void add_selection_cases(std::vector<Family>& families);
void add_cache_cases(std::vector<Family>& families);
void add_recurrent_cases(std::vector<Family>& families);

/// What weights may be stored as.
std::vector<std::string_view> weight_dtypes();
/// One of a family's dtypes by its name.
DType dtype_of(std::string_view name);
/// What is computed in where weights or caches are stored as `stored`: f32 with those that nothing is computed in.
DType activations_of(DType stored);
Arithmetic arithmetic_of(DType dtype);
double bytes_of(DType dtype, double elements);

}  // namespace vkformer::bench
