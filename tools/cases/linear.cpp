// SPDX-License-Identifier: MIT
// y = epilogue(prologue(x) · weightᵀ). Shapes: the projections of small and large models, one token at a time (decode) and many (prefill),
// and the square products that everybody quotes.
#include <algorithm>

#include "cases/families.hpp"
#include "core/block_format.hpp"
#include "core/try.hpp"

namespace vkformer::cases {
namespace {

using graph::Value;

/// What a product does besides: the node is made by hand, as the passes fuse it.
struct LinearForm {
    bool is_normed = false, is_gated = false, has_bias = false, has_residual = false;
    graph::Activation activation = graph::Activation::none;
};
constexpr LinearForm kPlainProduct{};
constexpr LinearForm kWithEpilogue{.has_bias = true, .has_residual = true, .activation = graph::Activation::gelu_tanh};
constexpr LinearForm kGatedProduct{.is_gated = true, .has_bias = true, .activation = graph::Activation::silu};
constexpr LinearForm kNormedProduct{.is_normed = true};
constexpr LinearForm kNormedGatedProduct{.is_normed = true, .is_gated = true, .activation = graph::Activation::silu};

std::string name_of(const LinearForm& form) {
    return std::string(form.is_normed ? "normed_" : "") + (form.is_gated ? "gated_" : "") + "linear" +
           (form.has_residual ? "_epilogue" : "");
}

/// The next width whose rows are whole blocks.
std::uint64_t whole_blocks(std::uint64_t in, const Types& types) {
    const bool is_unpacked = types.stored != types.x;
    const std::uint64_t block = is_unpacked ? std::max<std::uint64_t>(32, block_elements(types.stored)) : 1;
    return (in + block - 1) / block * block;
}

template <const LinearForm& kForm>
Result<Case> linear_case(const Family::Dims& shape, const Types& types) {
    const std::uint64_t rows = shape[0], in = whole_blocks(shape[1], types), out = shape[2];
    const std::uint64_t columns = kForm.is_gated ? 2 * out : out;  // of the product
    const double m = static_cast<double>(rows), k = static_cast<double>(in), n = static_cast<double>(columns);
    return Case{.op = name_of(kForm),
                .shape = to_text({rows, in, out}),
                .dtype = types.name(),
                .work = {.flops = 2 * m * n * k,
                         .read = bytes_of(types.x, m * k) + bytes_of(types.stored, n * k),
                         .written = bytes_of(types.y, m * static_cast<double>(out)),
                         .arithmetic = arithmetic_of(types.stored)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    graph::Linear op;
                    VKFORMER_TRY(op.x, b.input("x", types.x, {rows, in}));
                    VKFORMER_TRY(op.weight, b.weight("weight", types.stored, {columns, in}));
                    if (kForm.is_normed) {
                        op.prologue = {.kind = graph::Prologue::Kind::rms_norm, .eps = 1e-5f};
                        VKFORMER_TRY(op.prologue.gain, b.weight("gain", types.x, {in}));
                    }
                    if (kForm.has_bias) {
                        VKFORMER_TRY(op.epilogue.bias, b.weight("bias", types.x, {columns}));
                    }
                    op.epilogue.activation = kForm.activation;
                    if (kForm.is_gated) op.epilogue.end = graph::Epilogue::End::gate;
                    if (kForm.has_residual) {
                        VKFORMER_TRY(const Value residual, b.input("residual", types.y, {rows, out}));
                        op.epilogue = op.epilogue.plus(residual);
                    }
                    VKFORMER_TRY(op.y, b.graph.activation("linear", types.y, {rows, out}));
                    b.graph.add_node(op);
                    b.result(op.y);
                    return {};
                }};
}

/// A product for each of a batch, as of the heads of an attention.
Result<Case> batched_linear_case(const Family::Dims& shape, const Types& types) {
    const std::uint64_t batch = shape[0], rows = shape[1], in = shape[2], out = shape[3];
    const double b = static_cast<double>(batch), m = static_cast<double>(rows), k = static_cast<double>(in),
                 n = static_cast<double>(out);
    return Case{.op = "batched_linear",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 2 * b * m * n * k,
                         .read = bytes_of(types.x, b * (m + n) * k),
                         .written = bytes_of(types.y, b * m * n),
                         .arithmetic = arithmetic_of(types.x)},
                .build = [=](CaseBuilder& builder) -> Result<void> {
                    VKFORMER_TRY(const Value x, builder.input("x", types.x, {batch, rows, in}));
                    VKFORMER_TRY(const Value weight, builder.weight("weight", types.stored, {batch, out, in}));
                    VKFORMER_TRY(const Value y, graph::linear(builder.graph, x, weight, {}, types.y));
                    builder.result(y);
                    return {};
                }};
}

/// What the experts of a mixture make of rows that all k share, as their gates do, or of a row of each.
enum class ExpertRows : std::uint8_t { shared, own };

template <ExpertRows kRows>
Result<Case> expert_linear_case(const Family::Dims& shape, const Types& types) {
    const std::uint64_t rows = shape[0], k = shape[1], experts = shape[2], in = whole_blocks(shape[3], types),
                        out = shape[4];
    const std::uint64_t x_rows = kRows == ExpertRows::own ? rows * k : rows;
    const double pairs = static_cast<double>(rows * k), depth = static_cast<double>(in), n = static_cast<double>(out);
    const double touched = std::min(pairs, static_cast<double>(experts));
    return Case{.op = kRows == ExpertRows::own ? "expert_linear_own" : "expert_linear",
                .shape = to_text({rows, k, experts, in, out}),
                .dtype = types.name(),
                .work = {.flops = 2 * pairs * depth * n,
                         .read = bytes_of(types.x, static_cast<double>(x_rows) * depth) +
                                 bytes_of(types.stored, touched * n * depth),
                         .written = bytes_of(types.y, pairs * n),
                         .arithmetic = arithmetic_of(types.stored)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    const Shape x_shape = kRows == ExpertRows::own ? Shape{rows, k, in} : Shape{rows, in};
                    VKFORMER_TRY(const Value x, b.input("x", types.x, x_shape));
                    VKFORMER_TRY(const Value weight, b.weight("weight", types.stored, {experts * out, in}));
                    VKFORMER_TRY(const Value chosen,
                                 b.random_ints("experts", {rows, k}, 0, static_cast<std::int32_t>(experts) - 1));
                    VKFORMER_TRY(const Value y, graph::expert_linear(b.graph, x, weight, chosen, experts));
                    b.result(y);
                    return {};
                }};
}

constexpr Types kHalvesToFloats{DType::f16, DType::f16, DType::f32};

/// Weights and activations of both float types, and the formats that weights have.
std::vector<Types> linear_types() {
    std::vector<Types> types = weight_types();
    types.insert(types.end(), {kHalvesToFloats,
                               {DType::f32, DType::f16},
                               {DType::f16, DType::bf16},
                               {DType::f16, DType::q8_0},
                               {DType::f16, DType::q4_0, DType::f32},
                               {DType::f16, DType::q4_k},
                               {DType::f16, DType::q6_k, DType::f32},
                               {DType::f16, DType::q5_0}});
    return types;
}

/// Of each way of unpacking one or two formats, with all activations and results.
std::vector<Types> unpacked_types(std::initializer_list<DType> formats) {
    std::vector<Types> types;
    for (const DType format : formats)
        types.insert(types.end(), {format, {DType::f16, format}, {DType::f16, format, DType::f32}});
    return types;
}

}  // namespace

void add_linear_cases(std::vector<Family>& families) {
    const auto one_row = unpacked_types({DType::q8_0, DType::q4_0, DType::q4_k, DType::q5_k, DType::q6_k, DType::bf16});
    const auto many_rows = unpacked_types({DType::q8_0, DType::q4_0, DType::q4_k, DType::q6_k});
    const auto narrow = unpacked_types({DType::q8_0});
    const std::vector<Types> floats = {DType::f32, DType::f16, kHalvesToFloats};
    families.push_back(
        {.name = "linear",
         .op = "linear",
         .dims = "rows x in x out",
         .types = linear_types(),
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
         .compiled = {{{8, 4096, 4096}, floats},
                      {{512, 4096, 4096}, floats},
                      {{512, 333, 333}, floats},  // elements one by one
                      {{1, 4096, 32000}, floats},
                      {{1, 4096, 512}, floats},  // so few tiles that the depth may be cut into parts
                      {{16, 4096, 512}, {kHalvesToFloats}},
                      {{1, 1024, 1024}, one_row},
                      {{512, 1024, 1024}, many_rows},
                      {{8, 1024, 1024}, many_rows},
                      {{1, 4096, 512}, narrow},
                      {{16, 4096, 512}, narrow}},
         .make = linear_case<kPlainProduct>});
    const std::vector<Types> plain = {DType::f32, DType::f16};
    families.push_back({.name = "linear_epilogue",
                        .op = "linear",
                        .dims = "rows x in x out",
                        .types = linear_types(),
                        .compiled = {{{1, 4096, 4096}, plain}, {{512, 4096, 4096}, plain}},
                        .make = linear_case<kWithEpilogue>});
    families.push_back({.name = "gated_linear",
                        .op = "linear",
                        .dims = "rows x in x out",
                        .types = linear_types(),
                        .compiled = {{{512, 4096, 2048}, plain}, {{512, 1024, 512}, narrow}},
                        .make = linear_case<kGatedProduct>});
    families.push_back({.name = "normed_linear",
                        .op = "linear",
                        .dims = "rows x in x out",
                        .types = linear_types(),
                        .compiled = {{{1, 4096, 4096}, plain}},
                        .make = linear_case<kNormedProduct>});
    families.push_back(
        {.name = "normed_gated_linear",
         .op = "linear",
         .dims = "rows x in x out",
         .types = linear_types(),
         .compiled = {{{1, 4096, 2048}, plain},
                      {{4, 4096, 2048}, plain},
                      {{1, 1024, 512},
                       {DType::q8_0, {DType::f16, DType::q8_0}, DType::q4_0, {DType::f16, DType::q4_0}}}},
         .make = linear_case<kNormedGatedProduct>});
    std::vector<Types> expert_types = weight_types();
    expert_types.insert(expert_types.end(), {{DType::f32, DType::f16},
                                             {DType::f16, DType::bf16},
                                             {DType::f16, DType::q8_0},
                                             {DType::f16, DType::q4_k},
                                             {DType::f16, DType::q5_0}});
    const std::vector<Types> packed = {
        DType::q4_0, DType::q4_k, DType::q6_k, {DType::f16, DType::q8_0}, {DType::f16, DType::q4_k}};
    families.push_back({.name = "expert_linear",
                        .op = "expert_linear",
                        .dims = "rows x k x experts x in x out",
                        .types = expert_types,
                        .shapes = {{1, 4, 32, 512, 512}, {512, 4, 32, 512, 512}},
                        .gpu_shapes = {{1, 8, 64, 2048, 768}, {512, 8, 64, 2048, 768}},
                        .compiled = {{{1, 4, 32, 333, 512}, plain},  // elements one by one
                                     {{1, 4, 32, 512, 512}, packed},
                                     {{512, 4, 32, 512, 512}, packed}},
                        .make = expert_linear_case<ExpertRows::shared>});
    families.push_back({.name = "expert_linear_own",
                        .op = "expert_linear",
                        .dims = "rows x k x experts x in x out",
                        .types = expert_types,
                        .make = expert_linear_case<ExpertRows::own>});
    families.push_back({.name = "batched_linear",
                        .op = "linear",
                        .dims = "batch x rows x in x out",
                        .types = {DType::f32, DType::f16, kHalvesToFloats},
                        .shapes = {{9, 1, 64, 512}, {9, 512, 64, 512}, {8, 64, 256, 256}},
                        .gpu_shapes = {{32, 1, 128, 4096}, {32, 2048, 128, 2048}, {64, 512, 1024, 1024}},
                        .make = batched_linear_case});
}

}  // namespace vkformer::cases
