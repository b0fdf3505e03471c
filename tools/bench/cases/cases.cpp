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

DType dtype_of(std::string_view name) { return name == "f16" ? DType::f16 : DType::f32; }

Arithmetic arithmetic_of(DType dtype) { return dtype == DType::f32 ? Arithmetic::f32 : Arithmetic::f16; }

double bytes_of(DType dtype, double elements) { return elements * static_cast<double>(element_bytes(dtype)); }

}  // namespace vkformer::bench
