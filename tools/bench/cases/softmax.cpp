// SPDX-License-Identifier: MIT
// Softmax over stored scores (the pedagogical attention path) and over a vocabulary.
#include "bench/cases/cases.hpp"
#include "core/try.hpp"

namespace vkformer::bench {
namespace {

// maximum, subtraction, exp, sum, quotient
constexpr double kFlopsPerElement = 5;

Result<Case> softmax_case(const Family::Dims& shape, std::string_view dtype) {
    const double elements = static_cast<double>(shape[0] * shape[1] * shape[2]);
    return Case{
        .op = "masked_softmax",
        .shape = to_text(shape),
        .dtype = std::string(dtype),
        .work = {.flops = kFlopsPerElement * elements, .read = 4 * elements, .written = 4 * elements},
        .build = [shape](CaseBuilder& b) -> Result<void> {
            VKFORMER_TRY(const auto scores, b.input("scores", DType::f32, {1, shape[0], shape[1], shape[2]}, 4));
            VKFORMER_TRY(const auto weights, graph::masked_softmax(b.graph, scores));
            b.result(weights);
            return {};
        }};
}

Result<Case> log_softmax_case(const Family::Dims& shape, std::string_view dtype_name) {
    const DType dtype = dtype_of(dtype_name);
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{
        .op = "log_softmax",
        .shape = to_text(shape),
        .dtype = std::string(dtype_name),
        .work = {.flops = kFlopsPerElement * elements, .read = bytes_of(dtype, elements), .written = 4 * elements},
        .build = [=](CaseBuilder& b) -> Result<void> {
            VKFORMER_TRY(const auto x, b.input("x", dtype, {shape[0], shape[1]}, 4));
            VKFORMER_TRY(const auto y, graph::log_softmax(b.graph, x));
            b.result(y);
            return {};
        }};
}

}  // namespace

void add_softmax_cases(std::vector<Family>& families) {
    families.push_back({.op = "masked_softmax",
                        .dims = "heads x queries x keys",
                        .dtypes = {"f32"},
                        .shapes = {{9, 1, 512}, {9, 512, 512}},
                        .gpu_shapes = {{32, 2048, 2048}},
                        .make = softmax_case});
    families.push_back({.op = "log_softmax",
                        .dims = "rows x vocab",
                        .dtypes = {"f32", "f16"},
                        .shapes = {{1, 49152}, {32, 49152}},
                        .gpu_shapes = {},
                        .make = log_softmax_case});
}

}  // namespace vkformer::bench
