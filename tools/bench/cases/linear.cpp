// SPDX-License-Identifier: MIT
// y = x · weightᵀ. What only weights are stored as (bf16 and the block formats) meets x and y in float32. Shapes: the projections of small and large models, one token at a time (decode) and many (prefill), and the
// square products that everybody quotes.
#include "bench/cases/cases.hpp"
#include "core/try.hpp"

namespace vkformer::bench {
namespace {

Result<Case> linear_case(const Family::Dims& shape, std::string_view dtype_name) {
    const DType stored = dtype_of(dtype_name);
    const DType dtype = is_weight_only(stored) ? DType::f32 : stored;  // of x and y
    const std::uint64_t rows = shape[0], in = shape[1], out = shape[2];
    const double m = static_cast<double>(rows), k = static_cast<double>(in), n = static_cast<double>(out);
    return Case{.op = "linear",
                .shape = to_text(shape),
                .dtype = std::string(dtype_name),
                .work = {.flops = 2 * m * n * k,
                         .read = bytes_of(dtype, m * k) + bytes_of(stored, n * k),
                         .written = bytes_of(dtype, m * n),
                         .arithmetic = arithmetic_of(stored)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", dtype, {rows, in}));
                    VKFORMER_TRY(const auto weight, b.weight("weight", stored, {out, in}));
                    VKFORMER_TRY(const auto y, graph::linear(b.graph, x, weight));
                    b.result(y);
                    return {};
                }};
}

/// A product for each of a batch, as of the heads of an attention.
Result<Case> batched_linear_case(const Family::Dims& shape, std::string_view dtype_name) {
    const DType dtype = dtype_of(dtype_name);
    const std::uint64_t batch = shape[0], rows = shape[1], in = shape[2], out = shape[3];
    const double b = static_cast<double>(batch), m = static_cast<double>(rows), k = static_cast<double>(in),
                 n = static_cast<double>(out);
    return Case{.op = "batched_linear",
                .shape = to_text(shape),
                .dtype = std::string(dtype_name),
                .work = {.flops = 2 * b * m * n * k,
                         .read = bytes_of(dtype, b * (m + n) * k),
                         .written = bytes_of(dtype, b * m * n),
                         .arithmetic = arithmetic_of(dtype)},
                .build = [=](CaseBuilder& builder) -> Result<void> {
                    VKFORMER_TRY(const auto x, builder.input("x", dtype, {batch, rows, in}));
                    VKFORMER_TRY(const auto weight, builder.weight("weight", dtype, {batch, out, in}));
                    VKFORMER_TRY(const auto y, graph::linear(builder.graph, x, weight));
                    builder.result(y);
                    return {};
                }};
}

}  // namespace

void add_linear_cases(std::vector<Family>& families) {
    families.push_back(
        {.op = "linear",
         .dims = "rows x in x out",
         .dtypes = weight_dtypes(),
         .shapes = {{1, 576, 576},
                    {1, 576, 1536},
                    {1, 576, 49152},
                    {1, 4096, 4096},
                    {4, 576, 1536},
                    {64, 576, 1536},
                    {512, 576, 576},
                    {512, 1536, 576},
                    {1024, 1024, 1024}},
         .gpu_shapes = {{1, 14336, 512}, {16, 4096, 512}, {1, 4096, 14336}, {512, 4096, 14336}, {4096, 4096, 4096}},
         .make = linear_case});
    families.push_back({.op = "batched_linear",
                        .dims = "batch x rows x in x out",
                        .dtypes = {"f32", "f16"},
                        .shapes = {{9, 1, 64, 512}, {9, 512, 64, 512}, {8, 64, 256, 256}},
                        .gpu_shapes = {{32, 1, 128, 4096}, {32, 2048, 128, 2048}, {64, 512, 1024, 1024}},
                        .make = batched_linear_case});
}

}  // namespace vkformer::bench
