// SPDX-License-Identifier: MIT
// Softmax over stored scores (the pedagogical attention path) and over a vocabulary.
#include "cases/families.hpp"
#include "core/try.hpp"

namespace vkformer::cases {
namespace {

// maximum, subtraction, exp, sum, quotient
constexpr double kFlopsPerElement = 5;

enum class Mask : std::uint8_t { none, all, sinks };  // sinks: all but the additive one

template <Mask kMask>
Result<Case> softmax_case(const Family::Dims& shape, const Types& types) {
    const std::uint64_t heads = shape[0], queries = shape[1], keys = shape[2];
    const double elements = static_cast<double>(heads * queries * keys);
    constexpr const char* kNames[] = {"masked_softmax", "masked_softmax_masked", "masked_softmax_sinks"};
    return Case{.op = kNames[static_cast<std::size_t>(kMask)],
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = kFlopsPerElement * elements, .read = 4 * elements, .written = 4 * elements},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto scores, b.input("scores", DType::f32, {1, heads, queries, keys}, 4));
                    graph::AttentionMask mask;
                    if (kMask != Mask::none) {
                        mask = {.causal = true, .window = static_cast<std::uint32_t>(keys / 2 + 1)};
                        const auto third = static_cast<std::int32_t>(keys / 3);
                        VKFORMER_TRY(mask.starts, b.ints("starts", {1}, {third}));
                        VKFORMER_TRY(mask.key_lengths,
                                     b.ints("key_lengths", {1}, {static_cast<std::int32_t>(keys) - third / 2}));
                    }
                    if (kMask == Mask::all) {
                        VKFORMER_TRY(mask.additive, b.input("additive", DType::f32, {1, heads, queries, keys}));
                    }
                    if (kMask == Mask::sinks) {
                        VKFORMER_TRY(mask.sinks, b.input("sinks", DType::f32, {heads}));
                    }
                    VKFORMER_TRY(const auto weights, graph::masked_softmax(b.graph, scores, mask));
                    b.result(weights);
                    return {};
                }};
}

Result<Case> log_softmax_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{
        .op = "log_softmax",
        .shape = to_text(shape),
        .dtype = types.name(),
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
    families.push_back({.name = "masked_softmax",
                        .op = "masked_softmax",
                        .dims = "heads x queries x keys",
                        .types = {DType::f32},
                        .shapes = {{9, 1, 512}, {9, 512, 512}},
                        .gpu_shapes = {{32, 2048, 2048}},
                        .compiled = {{{8, 333, 333}, {DType::f32}}},
                        .make = softmax_case<Mask::none>});
    families.push_back({.name = "masked_softmax_masked",
                        .op = "masked_softmax",
                        .dims = "heads x queries x keys",
                        .types = {DType::f32},
                        .compiled = {{{32, 512, 512}, {DType::f32}}},
                        .make = softmax_case<Mask::all>});
    families.push_back({.name = "masked_softmax_sinks",
                        .op = "masked_softmax",
                        .dims = "heads x queries x keys",
                        .types = {DType::f32},
                        .compiled = {{{32, 512, 512}, {DType::f32}}},
                        .make = softmax_case<Mask::sinks>});
    families.push_back({.name = "log_softmax",
                        .op = "log_softmax",
                        .dims = "rows x vocab",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{1, 49152}, {32, 49152}},
                        .compiled = {{{512, 333}, {DType::f32, DType::f16}}},
                        .make = log_softmax_case});
}

}  // namespace vkformer::cases
