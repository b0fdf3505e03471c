// SPDX-License-Identifier: MIT
#include "models/decoder_case.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"

using namespace vkformer;
using namespace vkformer::tests;
using graph::Value;

namespace {

double bound_of(const graph::Backend& backend, DType dtype) {
    if (dtype == DType::f16) return 3e-3;
    return is_double(backend) ? 3e-6 : kModelBound;  // the goldens' angles are float32
}

/// The tokens of a golden, run through the model in pieces of these lengths.
struct PiecewiseRun {
    std::vector<double> logits, hidden;  // [batch, len, …]
};

PiecewiseRun run_in_pieces(const models::Decoder& model, graph::Backend& backend, const Golden& golden, DType dtype,
                           const std::vector<std::uint32_t>& pieces) {
    const Shape shape = golden.shape("input_ids");
    const auto batch = static_cast<std::uint32_t>(shape[0]), len = static_cast<std::uint32_t>(shape[1]);
    const std::vector<std::int32_t> ids = golden.ints("input_ids");
    const std::size_t vocab = model.config().vocab_size, width = model.config().hidden_size;
    PiecewiseRun run = {.logits = std::vector<double>(batch * len * vocab),
                        .hidden = std::vector<double>(batch * len * width)};
    const auto weights = backend.make_store(), states = backend.make_store();

    std::uint32_t done = 0;
    for (const std::uint32_t piece : pieces) {
        graph::Graph g;
        const Value tokens = must(g.input("tokens", DType::i32, {batch, piece}));
        const Value starts = must(g.input("starts", DType::i32, {batch}));
        const auto pass = must(model.add_pass(g, {.rows = batch, .len = piece, .capacity = len, .dtype = dtype}, tokens,
                                              starts, models::Logits::all));
        g.mark_output(pass.hidden);
        g.mark_output(pass.logits);
        const auto program = must(backend.compile(graph::make_plan(std::move(g)), weights, states));
        std::vector<std::int32_t> part;
        for (std::uint32_t b = 0; b < batch; ++b)
            part.insert(part.end(), ids.begin() + b * len + done, ids.begin() + b * len + done + piece);
        const std::vector<std::int32_t> at(batch, static_cast<std::int32_t>(done));
        must(program->write(tokens, std::span<const std::int32_t>(part)));
        must(program->write(starts, std::span<const std::int32_t>(at)));
        must(program->submit());
        must(program->wait());
        const auto copy_out = [&](Value tensor, std::size_t columns, std::vector<double>& to) {
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

void check_golden(const std::vector<double>& found, const Golden& golden, const std::string& name, double bound) {
    const std::vector<double> expected = golden.doubles(name);
    CAPTURE(name);
    REQUIRE(found.size() == expected.size());
    CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) < bound);
}

}  // namespace

TEST_CASE("a decoder's forward pass is that of Hugging Face, in one go, in chunks and token by token",
          "[models][decoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE(from_range(decoder_cases()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), name, to_string(dtype));

    const models::Decoder model = load_decoder_case(name);
    const Golden golden("decoders/" + name + "/golden.safetensors");
    const auto len = static_cast<std::uint32_t>(golden.shape("input_ids")[1]);
    const double bound = bound_of(backend, dtype);
    for (const auto& pieces : {std::vector{len}, std::vector{3u, 1u, len - 4}, std::vector(len, 1u)}) {
        CAPTURE(pieces);
        const PiecewiseRun run = run_in_pieces(model, backend, golden, dtype, pieces);
        check_golden(run.logits, golden, "logits", bound);
        check_golden(run.hidden, golden, "last_hidden_state", bound);
        if (dtype == DType::f16) break;  // the caches' rounding is in all of them
    }
}
