// SPDX-License-Identifier: MIT
/// The families of cases, one file per kind of op.
#pragma once

#include "cases/case.hpp"

namespace vkformer::cases {

void add_linear_cases(std::vector<Family>& families);
void add_attention_cases(std::vector<Family>& families);
void add_scores_cases(std::vector<Family>& families);
void add_softmax_cases(std::vector<Family>& families);
void add_norm_cases(std::vector<Family>& families);
void add_elementwise_cases(std::vector<Family>& families);
void add_selection_cases(std::vector<Family>& families);
void add_cache_cases(std::vector<Family>& families);
void add_recurrent_cases(std::vector<Family>& families);

/// Where caches have the positions of a sequence: side by side, or in pages (graph/pages.hpp).
enum class CacheLayout : std::uint8_t { rows, pages };

/// A table of the pages of `rows` sequences that have `positions` each, which are mixed up: neighbours in a sequence are not in memory.
/// There are rows · page_count(positions) pages.
Result<graph::Value> add_page_table(CaseBuilder& builder, std::uint64_t rows, std::uint64_t positions);

/// What weights may be stored as.
std::vector<Types> weight_types();
Arithmetic arithmetic_of(DType dtype);
double bytes_of(DType dtype, double elements);

}  // namespace vkformer::cases
