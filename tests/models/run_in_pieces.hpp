// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "graph/program.hpp"
#include "models/decoder.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {

/// The tokens of a golden, run through the model in pieces of these lengths.
struct PiecewiseRun {
    std::vector<double> logits, hidden;  // [batch, len, …]
};

/// `ids` are [batch, len]; `adapters`: of each row the scales of the model's, or none at all.
inline PiecewiseRun run_in_pieces(const models::Decoder& model, graph::Backend& backend,
                                  const std::vector<std::int32_t>& ids, std::uint32_t batch, DType dtype,
                                  const std::vector<std::uint32_t>& pieces,
                                  models::WeightFormat stored = models::WeightFormat::as_computed,
                                  const std::vector<std::vector<float>>& adapters = {}) {
    const auto len = static_cast<std::uint32_t>(ids.size()) / batch;
    const std::size_t vocab = model.config().vocab_size, width = model.config().hidden_size;
    PiecewiseRun run = {.logits = std::vector<double>(batch * len * vocab),
                        .hidden = std::vector<double>(batch * len * width)};
    const auto weights = backend.make_store(), states = backend.make_store();

    std::uint32_t done = 0;
    for (const std::uint32_t piece : pieces) {
        graph::Graph g;
        const graph::Value tokens = must(g.input("tokens", DType::i32, {batch, piece}));
        const graph::Value starts = must(g.input("starts", DType::i32, {batch}));
        models::DecoderLayout layout = {
            .rows = batch, .len = piece, .capacity = len, .dtype = dtype, .weights = stored};
        if (!adapters.empty())
            layout.adapter_scales = must(g.input("adapters", DType::f32, {batch, model.weights().adapter_columns}));
        const auto pass = must(model.add_pass(g, layout, tokens, starts, models::Logits::all));
        g.mark_output(pass.hidden);
        g.mark_output(pass.logits);
        const auto program = must(backend.compile(graph::make_plan(std::move(g)), weights, states));
        std::vector<std::int32_t> part;
        for (std::uint32_t b = 0; b < batch; ++b)
            part.insert(part.end(), ids.begin() + b * len + done, ids.begin() + b * len + done + piece);
        const std::vector<std::int32_t> at(batch, static_cast<std::int32_t>(done));
        must(program->write(tokens, std::span<const std::int32_t>(part)));
        must(program->write(starts, std::span<const std::int32_t>(at)));
        if (layout.adapter_scales) {
            std::vector<float> scales;
            const std::vector<std::span<const float>> rows(adapters.begin(), adapters.end());
            for (const std::int32_t word : model.adapter_words(rows)) scales.push_back(std::bit_cast<float>(word));
            must(program->write(layout.adapter_scales, std::span<const float>(scales)));
        }
        must(program->submit());
        must(program->wait());
        const auto copy_out = [&](graph::Value tensor, std::size_t columns, std::vector<double>& to) {
            std::vector<double> values(batch * piece * columns);
            must(program->read(tensor, std::span<double>(values)));
            for (std::uint32_t b = 0; b < batch; ++b)
                std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(b * piece * columns), piece * columns,
                            to.begin() + static_cast<std::ptrdiff_t>((b * len + done) * columns));
        };
        copy_out(pass.logits, vocab, run.logits);
        copy_out(pass.hidden, width, run.hidden);
        done += piece;
    }
    REQUIRE(done == len);
    return run;
}

inline PiecewiseRun run_in_pieces(const models::Decoder& model, graph::Backend& backend, const Golden& golden,
                                  DType dtype, const std::vector<std::uint32_t>& pieces) {
    return run_in_pieces(model, backend, golden.ints("input_ids"),
                         static_cast<std::uint32_t>(golden.shape("input_ids")[0]), dtype, pieces);
}

}  // namespace vkformer::tests
