// SPDX-License-Identifier: MIT
#include "models/marian_case.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"

namespace vkformer::tests {
namespace {

using models::SourceMask;

/// What the README promises, for whole forward passes.
double marian_bound(const graph::Backend& backend, DType dtype) {
    if (dtype == DType::f16) return 2e-3;
    return is_double(backend) ? kRoundedAttributeBound : kModelBound;
}

}  // namespace

TEST_CASE("Marian's forward pass is that of Hugging Face", "[models][marian][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE(from_range(marian_cases()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const bool keeps_weights = GENERATE(false, true);
    CAPTURE(backend.name(), name, to_string(dtype), keeps_weights);

    const models::Seq2Seq model = load_marian(name);
    const Golden golden("marian/" + name + "/golden.safetensors");
    const TokenBatch source = token_batch(golden, "input_ids", "attention_mask");
    const TokenBatch target = token_batch(golden, "decoder_input_ids", "");
    const ForwardRun run =
        run_forward(model, backend, source, target,
                    {.dtype = dtype,
                     .source_mask = source.is_padded_on_the_right() ? SourceMask::lengths : SourceMask::additive,
                     .layers = {.attention = keeps_weights}});

    const double bound = marian_bound(backend, dtype);
    check_golden(run, run.forward.logits, golden, "logits", bound);
    check_golden(run, run.forward.encoder_hidden, golden, "encoder_last_hidden_state", bound);
    for (const auto& map : run.forward.attention) {
        if (map.layer != 0) continue;
        const char* stack = map.kind == AttentionKind::encoder   ? "encoder_attentions.0"
                            : map.kind == AttentionKind::decoder ? "decoder_attentions.0"
                                                                 : "cross_attentions.0";
        check_golden(run, map.weights, golden, stack, bound);
    }
}

TEST_CASE("lengths and an additive mask say the same", "[models][marian]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Seq2Seq model = load_marian("relu_d30_h5_h3");
    const Golden golden("marian/relu_d30_h5_h3/golden.safetensors");
    const TokenBatch source = token_batch(golden, "input_ids", "attention_mask");
    const TokenBatch target = token_batch(golden, "decoder_input_ids", "");
    REQUIRE(source.is_padded_on_the_right());
    const ForwardRun by_length = run_forward(model, backend, source, target, {.source_mask = SourceMask::lengths});
    const ForwardRun by_mask =
        run_forward(model, backend, source, target, {.source_mask = SourceMask::additive, .target_mask = true});
    const auto a = by_length.read(by_length.forward.logits), b = by_mask.read(by_mask.forward.logits);
    CHECK(relative_error(std::span<const double>(a), std::span<const double>(b)) < kModelBound);
}

TEST_CASE("neither padding nor batching changes a sequence's logits", "[models][marian]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Seq2Seq model = load_marian("swish_d64_h4_opus");
    const Golden golden("marian/swish_d64_h4_opus/golden.safetensors");
    const TokenBatch source = token_batch(golden, "input_ids", "attention_mask");
    const TokenBatch target = token_batch(golden, "decoder_input_ids", "");
    const ForwardRun together = run_forward(model, backend, source, target, {.source_mask = SourceMask::lengths});
    const std::vector<double> all = together.read(together.forward.logits);
    const std::size_t per_sequence = all.size() / source.batch;
    const std::vector<std::int32_t> lengths = source.lengths();
    for (std::uint32_t b = 0; b < source.batch; ++b) {
        const auto length = static_cast<std::uint32_t>(lengths[b]);
        const auto slice = [](const std::vector<std::int32_t>& v, std::size_t first, std::size_t count) {
            return std::vector(v.begin() + static_cast<std::ptrdiff_t>(first),
                               v.begin() + static_cast<std::ptrdiff_t>(first + count));
        };
        const TokenBatch alone = {.batch = 1,
                                  .len = length,
                                  .tokens = slice(source.tokens, b * source.len, length),
                                  .mask = std::vector<std::int32_t>(length, 1)};
        const TokenBatch its_target = {.batch = 1,
                                       .len = target.len,
                                       .tokens = slice(target.tokens, b * target.len, target.len),
                                       .mask = std::vector<std::int32_t>(target.len, 1)};
        const ForwardRun run = run_forward(model, backend, alone, its_target, {});
        const std::vector<double> found = run.read(run.forward.logits);
        CAPTURE(b);
        CHECK(relative_error(std::span<const double>(found),
                             std::span<const double>(all).subspan(b * per_sequence, per_sequence)) < kModelBound);
    }
}

TEST_CASE("a later target token changes no earlier logits", "[models][marian]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Seq2Seq model = load_marian("relu_d30_h5_h3");
    const Golden golden("marian/relu_d30_h5_h3/golden.safetensors");
    const TokenBatch source = token_batch(golden, "input_ids", "attention_mask");
    TokenBatch target = token_batch(golden, "decoder_input_ids", "");
    const ForwardRun before = run_forward(model, backend, source, target, {});
    for (std::uint32_t b = 0; b < target.batch; ++b) target.tokens[(b + 1) * target.len - 1] ^= 1;
    const ForwardRun after = run_forward(model, backend, source, target, {});
    const auto a = before.read(before.forward.logits), b = after.read(after.forward.logits);
    const std::size_t vocab = model.limits().target_vocab;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const bool is_last = i / vocab % target.len == target.len - 1;
        if (!is_last) REQUIRE(a[i] == b[i]);
    }
    CHECK(a != b);
}

}  // namespace vkformer::tests
