// SPDX-License-Identifier: MIT
/// Forward passes over the token batches of goldens.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "graph/program.hpp"
#include "models/encoder_decoder.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {

/// What the goldens of whole models bound: what the README promises of float32, in double what the attributes' rounding leaves.
inline double model_bound(const graph::Backend& backend, DType dtype) {
    if (dtype == DType::f16) return 3e-3;
    return is_double(backend) ? kRoundedAttributeBound : kModelBound;
}
/// The same where the goldens' rotary angles are float32.
inline double rotary_bound(const graph::Backend& backend, DType dtype) {
    return is_double(backend) && dtype != DType::f16 ? 3e-6 : model_bound(backend, dtype);
}

inline void check_golden(const std::vector<double>& found, const Golden& golden, const std::string& name,
                         double bound) {
    const std::vector<double> expected = golden.doubles(name);
    CAPTURE(name);
    REQUIRE(found.size() == expected.size());
    CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) < bound);
}

/// Token ids with their mask, both [batch, len].
struct TokenBatch {
    std::uint32_t batch = 0, len = 0;
    std::vector<std::int32_t> tokens, mask;

    bool is_padded_on_the_right() const {
        for (std::size_t b = 0; b < batch; ++b)
            if (!std::ranges::is_sorted(std::span(mask).subspan(b * len, len), std::greater<>())) return false;
        return true;
    }
    std::vector<std::int32_t> lengths() const {
        std::vector<std::int32_t> result;
        for (std::size_t b = 0; b < batch; ++b)
            result.push_back(static_cast<std::int32_t>(std::ranges::count(std::span(mask).subspan(b * len, len), 1)));
        return result;
    }
    std::vector<float> additive() const {
        std::vector<float> result(mask.size());
        std::ranges::transform(mask, result.begin(),
                               [](std::int32_t m) { return m ? 0 : -std::numeric_limits<float>::infinity(); });
        return result;
    }
};

inline TokenBatch token_batch(const Golden& golden, const std::string& tokens, const std::string& mask) {
    const Shape shape = golden.shape(tokens);
    TokenBatch result = {.batch = static_cast<std::uint32_t>(shape[0]),
                         .len = static_cast<std::uint32_t>(shape[1]),
                         .tokens = golden.ints(tokens)};
    result.mask = mask.empty() ? std::vector<std::int32_t>(result.tokens.size(), 1) : golden.ints(mask);
    return result;
}

/// A forward pass that has run.
struct ForwardRun {
    models::ForwardGraph forward;
    std::unique_ptr<graph::Program> program;

    std::vector<double> read(graph::Value tensor) const {
        std::vector<double> values(program->plan().graph.shape(tensor).element_count());
        must(program->read(tensor, std::span<double>(values)));
        return values;
    }
};

inline void check_golden(const ForwardRun& run, graph::Value tensor, const Golden& golden, const std::string& name,
                         double bound) {
    check_golden(run.read(tensor), golden, name, bound);
}

inline ForwardRun run_forward(const models::EncoderDecoder& model, graph::Backend& backend, const TokenBatch& source,
                              const TokenBatch& target, const models::ForwardOptions& wanted) {
    models::ForwardOptions options = wanted;
    options.batch = source.batch;
    options.source_len = source.len;
    options.target_len = target.len;
    ForwardRun run = {.forward = must(model.forward(options)), .program = nullptr};
    run.program =
        must(backend.compile(graph::make_plan(run.forward.graph), backend.make_store(), backend.make_store()));
    const auto& f = run.forward;
    must(run.program->write(f.source_tokens, std::span<const std::int32_t>(source.tokens)));
    must(run.program->write(f.target_tokens, std::span<const std::int32_t>(target.tokens)));
    const auto lengths = source.lengths();
    const auto source_mask = source.additive(), target_mask = target.additive();
    if (f.source_lengths) must(run.program->write(f.source_lengths, std::span<const std::int32_t>(lengths)));
    if (f.source_mask) must(run.program->write(f.source_mask, std::span<const float>(source_mask)));
    if (f.target_mask) must(run.program->write(f.target_mask, std::span<const float>(target_mask)));
    must(run.program->submit());
    must(run.program->wait());
    return run;
}

}  // namespace vkformer::tests
