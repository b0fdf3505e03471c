// SPDX-License-Identifier: MIT
#include "cases/families.hpp"

#include "core/block_format.hpp"

namespace vkformer::cases {

const std::vector<Family>& families() {
    static const std::vector<Family> all = [] {
        std::vector<Family> families;
        add_linear_cases(families);
        add_attention_cases(families);
        add_scores_cases(families);
        add_softmax_cases(families);
        add_norm_cases(families);
        add_elementwise_cases(families);
        add_selection_cases(families);
        add_cache_cases(families);
        add_recurrent_cases(families);
        return families;
    }();
    return all;
}

std::vector<Types> weight_types() {
    std::vector<Types> types = {DType::f32, DType::f16, DType::bf16};
    types.insert(types.end(), kBlockFormats.begin(), kBlockFormats.end());
    return types;
}

Arithmetic arithmetic_of(DType dtype) {
    if (is_quantized(dtype)) return Arithmetic::integer;
    return dtype == DType::f32 || dtype == DType::bf16 ? Arithmetic::f32 : Arithmetic::f16;
}

double bytes_of(DType dtype, double elements) {
    return elements * static_cast<double>(block_bytes(dtype)) / static_cast<double>(block_elements(dtype));
}

}  // namespace vkformer::cases
