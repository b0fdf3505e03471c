// SPDX-License-Identifier: MIT
// What goes over activations element by element, and rows fetched from a table.
#include <algorithm>

#include "cases/families.hpp"
#include "core/try.hpp"

namespace vkformer::cases {
namespace {

Result<Case> activate_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{.op = "activate",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 4 * elements,  // SiLU: negation, exp, sum, quotient
                         .read = bytes_of(dtype, elements),
                         .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", dtype, {shape[0], shape[1]}, 4));
                    VKFORMER_TRY(const auto y, graph::activate(b.graph, x, graph::Activation::silu));
                    b.result(y);
                    return {};
                }};
}

Result<Case> soft_cap_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{.op = "soft_cap",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 3 * elements,  // quotient, tanh, product
                         .read = bytes_of(dtype, elements),
                         .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", dtype, {shape[0], shape[1]}, 40));
                    VKFORMER_TRY(const auto y, graph::soft_cap(b.graph, x, 30));
                    b.result(y);
                    return {};
                }};
}

Result<Case> add_case(const Family::Dims& shape, const Types& types, float scale) {
    const DType dtype = types.x;
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{.op = scale == 1 ? "add" : "scaled_add",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = (scale == 1 ? 1 : 2) * elements,
                         .read = bytes_of(dtype, 2 * elements),
                         .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& builder) -> Result<void> {
                    VKFORMER_TRY(const auto a, builder.input("a", dtype, {shape[0], shape[1]}));
                    VKFORMER_TRY(const auto b, builder.input("b", dtype, {shape[0], shape[1]}));
                    VKFORMER_TRY(const auto y, graph::add(builder.graph, a, b, scale));
                    builder.result(y);
                    return {};
                }};
}

Result<Case> embedding_case(const Family::Dims& shape, const Types& types) {
    const DType stored = types.stored;
    const std::uint64_t tokens = shape[0], vocab = shape[1];
    const std::uint64_t block = is_weight_only(stored) ? std::max<std::uint64_t>(32, block_elements(stored)) : 1;
    const std::uint64_t dim = (shape[2] + block - 1) / block * block;  // whole blocks
    const double elements = static_cast<double>(tokens * dim);
    return Case{.op = "embedding",
                .shape = to_text({tokens, vocab, dim}),
                .dtype = types.name(),
                .work = {.flops = elements,
                         .read = bytes_of(stored, elements) + 4 * static_cast<double>(tokens),
                         .written = bytes_of(types.y, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto ids,
                                 b.random_ints("tokens", {tokens}, 0, static_cast<std::int32_t>(vocab) - 1));
                    VKFORMER_TRY(const auto table, b.weight("table", stored, {vocab, dim}));
                    VKFORMER_TRY(const auto y, graph::embedding(b.graph, ids, table, 32, types.y));
                    b.result(y);
                    return {};
                }};
}

Result<Case> positions_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const std::uint64_t rows = shape[0], dim = shape[1];
    const double elements = static_cast<double>(rows * dim);
    return Case{.op = "positional_embedding",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = elements,
                         .read = bytes_of(dtype, elements) + 4 * elements,
                         .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", dtype, {1, rows, dim}));
                    VKFORMER_TRY(const auto table, b.weight("table", DType::f32, {rows, dim}));
                    VKFORMER_TRY(const auto starts, b.ints("starts", {1}, {0}));
                    VKFORMER_TRY(const auto y, graph::positional_embedding(b.graph, x, table, starts));
                    b.result(y);
                    return {};
                }};
}

Result<Case> pool_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const std::uint64_t batch = shape[0], len = shape[1], dim = shape[2];
    const double elements = static_cast<double>(batch * len * dim);
    return Case{
        .op = "pool",
        .shape = to_text(shape),
        .dtype = types.name(),
        .work = {.flops = elements, .read = bytes_of(dtype, elements), .written = 4 * static_cast<double>(batch * dim)},
        .build = [=](CaseBuilder& b) -> Result<void> {
            VKFORMER_TRY(const auto x, b.input("x", dtype, {batch, len, dim}));
            VKFORMER_TRY(const auto y, graph::pool(b.graph, x, {}, graph::Pooling::mean));
            b.result(y);
            return {};
        }};
}

Result<Case> patchify_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const std::uint64_t batch = shape[0], size = shape[1], patch = shape[2];
    constexpr std::uint64_t kChannels = 3;
    const double elements = static_cast<double>(batch * kChannels * size * size);
    return Case{.op = "patchify",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 0, .read = 4 * elements, .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto pixels, b.input("pixels", DType::f32, {batch, kChannels, size, size}));
                    const auto side = static_cast<std::uint32_t>(patch);
                    VKFORMER_TRY(
                        const auto y,
                        graph::patchify(b.graph, pixels, {.patch_height = side, .patch_width = side, .result = dtype}));
                    b.result(y);
                    return {};
                }};
}

Result<Case> concat_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const std::uint64_t rows = shape[0], left = shape[1], right = shape[2];
    const double bytes = bytes_of(dtype, static_cast<double>(rows * (left + right)));
    return Case{.op = "concat",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 0, .read = bytes, .written = bytes},
                .build = [=](CaseBuilder& builder) -> Result<void> {
                    VKFORMER_TRY(const auto a, builder.input("a", dtype, {rows, left}));
                    VKFORMER_TRY(const auto b, builder.input("b", dtype, {rows, right}));
                    VKFORMER_TRY(const auto y, graph::concat(builder.graph, a, b));
                    builder.result(y);
                    return {};
                }};
}

enum class Gate : std::uint8_t { of_two_tensors, of_halves, of_clamped_halves };

constexpr std::string_view name_of(Gate gate) {
    switch (gate) {
    case Gate::of_two_tensors: break;
    case Gate::of_halves: return "gated_activation_halves";
    case Gate::of_clamped_halves: return "gated_activation_clamped";
    }
    return "gated_activation";
}

template <Gate kGate>
Result<Case> gated_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const std::uint64_t rows = shape[0], width = shape[1];
    const double elements = static_cast<double>(rows * width);
    return Case{.op = std::string(name_of(kGate)),
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 5 * elements,  // SiLU as in activate, and the product
                         .read = bytes_of(dtype, 2 * elements),
                         .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    const bool has_halves = kGate != Gate::of_two_tensors;
                    VKFORMER_TRY(const auto gate, b.input("gate", dtype, {rows, has_halves ? 2 * width : width}, 4));
                    graph::Value up;
                    if (!has_halves) {
                        VKFORMER_TRY(up, b.input("up", dtype, {rows, width}));
                    }
                    const graph::GateClamp clamp{.limit = kGate == Gate::of_clamped_halves ? 2.0f : 0, .up_shift = 1};
                    VKFORMER_TRY(const auto y,
                                 graph::gated_activation(b.graph, gate, up, graph::Activation::silu, clamp));
                    b.result(y);
                    return {};
                }};
}

/// The table's rows are not of rope_table: any numbers cost the same.
Result<Case> rope_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const std::uint64_t len = shape[0], heads = shape[1], dim = shape[2];
    if (dim % 2 != 0) return Error{ErrorCode::InvalidArgument, "rope: an odd head_dim"};
    const double elements = static_cast<double>(len * heads * dim);
    return Case{.op = "rope",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 3 * elements,  // two products and a sum
                         .read = bytes_of(dtype, elements) + 4 * static_cast<double>(len * dim),
                         .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", dtype, {1, len, heads, dim}));
                    VKFORMER_TRY(const auto table, b.weight("table", DType::f32, {len, dim}));
                    VKFORMER_TRY(const auto starts, b.ints("starts", {1}, {0}));
                    VKFORMER_TRY(const auto y, graph::rope(b.graph, x, table, starts, graph::RopePairing::halves));
                    b.result(y);
                    return {};
                }};
}

}  // namespace

void add_elementwise_cases(std::vector<Family>& families) {
    families.push_back({.name = "activate",
                        .op = "activate",
                        .dims = "rows x width",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{1, 1536}, {512, 1536}},
                        .gpu_shapes = {{4096, 14336}},
                        .make = activate_case});
    families.push_back({.name = "soft_cap",
                        .op = "soft_cap",
                        .dims = "rows x width",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{1, 256000}},
                        .gpu_shapes = {{512, 256000}},
                        .make = soft_cap_case});
    families.push_back(
        {.name = "add",
         .op = "add",
         .dims = "rows x width",
         .types = {DType::f32, DType::f16},
         .shapes = {{1, 576}, {512, 576}},
         .gpu_shapes = {{4096, 4096}},
         .make = [](const Family::Dims& shape, const Types& types) { return add_case(shape, types, 1); }});
    families.push_back(
        {.name = "scaled_add",
         .op = "add",
         .dims = "rows x width",
         .types = {DType::f32, DType::f16},
         .shapes = {{512, 576}},
         .gpu_shapes = {{4096, 4096}},
         .make = [](const Family::Dims& shape, const Types& types) { return add_case(shape, types, 0.6f); }});
    std::vector<Types> tables = weight_types();
    tables.insert(tables.end(), {{DType::f16, DType::f16, DType::f32},
                                 {DType::f32, DType::f32, DType::f16},
                                 {DType::f16, DType::bf16},
                                 {DType::f16, DType::q8_0},
                                 {DType::f16, DType::q4_k},
                                 {DType::f16, DType::q6_k}});
    families.push_back({.name = "embedding",
                        .op = "embedding",
                        .dims = "tokens x vocab x dim",
                        .types = tables,
                        .shapes = {{1, 16384, 576}, {512, 16384, 576}},
                        .compiled = {{{512, 1024, 1024}, tables}},
                        .make = embedding_case});
    families.push_back({.name = "positional_embedding",
                        .op = "positional_embedding",
                        .dims = "rows x dim",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{512, 576}},
                        .make = positions_case});
    families.push_back({.name = "pool",
                        .op = "pool",
                        .dims = "batch x len x dim",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{32, 128, 384}},
                        .gpu_shapes = {{64, 512, 1024}},
                        .make = pool_case});
    families.push_back({.name = "patchify",
                        .op = "patchify",
                        .dims = "batch x size x patch",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{1, 224, 16}},
                        .gpu_shapes = {{64, 224, 16}},
                        .make = patchify_case});
    families.push_back({.name = "concat",
                        .op = "concat",
                        .dims = "rows x left x right",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{512, 512, 512}},
                        .make = concat_case});
    families.push_back({.name = "gated_activation",
                        .op = "gated_activation",
                        .dims = "rows x width",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{1, 1536}, {512, 1536}},
                        .gpu_shapes = {{4096, 14336}},
                        .compiled = {{{512, 333}, {DType::f32, DType::f16}}},
                        .make = gated_case<Gate::of_two_tensors>});
    families.push_back({.name = "gated_activation_halves",
                        .op = "gated_activation",
                        .dims = "rows x width",
                        .types = {DType::f32, DType::f16},
                        .make = gated_case<Gate::of_halves>});
    families.push_back({.name = name_of(Gate::of_clamped_halves),
                        .op = "gated_activation",
                        .dims = "rows x width",
                        .types = {DType::f32, DType::f16},
                        .make = gated_case<Gate::of_clamped_halves>});
    families.push_back({.name = "rope",
                        .op = "rope",
                        .dims = "len x heads x head_dim",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{1, 9, 64}, {512, 9, 64}},
                        .gpu_shapes = {{4096, 32, 128}},
                        .make = rope_case});
}

}  // namespace vkformer::cases
