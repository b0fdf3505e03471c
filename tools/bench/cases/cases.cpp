// SPDX-License-Identifier: MIT
#include "bench/cases/cases.hpp"

#include <algorithm>

#include "core/block_format.hpp"

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

std::vector<std::string_view> weight_dtypes() {
    std::vector<std::string_view> names = {"f32", "f16", "bf16"};
    for (const DType format : kBlockFormats) names.push_back(to_string(format));
    return names;
}

DType dtype_of(std::string_view name) {
    if (name == "f16") return DType::f16;
    if (name == "bf16") return DType::bf16;
    const auto* const format = std::ranges::find(kBlockFormats, name, [](DType dtype) { return to_string(dtype); });
    return format == kBlockFormats.end() ? DType::f32 : *format;
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
