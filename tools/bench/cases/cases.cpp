// SPDX-License-Identifier: MIT
#include "bench/cases/cases.hpp"

namespace vkformer::bench {

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

DType dtype_of(std::string_view name) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_k, DType::q5_k, DType::q6_k})
        if (name == to_string(dtype)) return dtype;
    return DType::f32;
}

DType activations_of(DType stored) { return is_weight_only(stored) ? DType::f32 : stored; }

Arithmetic arithmetic_of(DType dtype) {
    if (is_quantized(dtype)) return Arithmetic::integer;
    return dtype == DType::f32 || dtype == DType::bf16 ? Arithmetic::f32 : Arithmetic::f16;
}

double bytes_of(DType dtype, double elements) {
    return elements * static_cast<double>(block_bytes(dtype)) / static_cast<double>(block_elements(dtype));
}

}  // namespace vkformer::bench
