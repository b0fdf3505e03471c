// SPDX-License-Identifier: MIT
// What a generation costs in calls of the backend: nothing is submitted, written or read that need not be.
#include <algorithm>
#include <map>

#include "core/try.hpp"
#include "decoding/beam_session.hpp"
#include "decoding/decoder_session.hpp"
#include "decoding/encoder_session.hpp"
#include "decoding/image_session.hpp"
#include "decoding/session.hpp"
#include "decoding/speech_session.hpp"
#include "graph/builders.hpp"
#include "models/decoder_case.hpp"
#include "models/open_model.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/fusions.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

struct Calls {
    std::uint32_t submits = 0, runs = 0, reads = 0, writes = 0;
};

/// Counts the calls of a program, by whether it has a state of that name.
class CountingProgram final : public graph::Program {
public:
    CountingProgram(std::unique_ptr<graph::Program> program, Calls& calls)
        : program_(std::move(program)), calls_(calls) {}
    Result<void> write(graph::Value tensor, std::span<const float> values) override {
        ++calls_.writes;
        return program_->write(tensor, values);
    }
    Result<void> write(graph::Value tensor, std::span<const std::int32_t> values) override {
        ++calls_.writes;
        return program_->write(tensor, values);
    }
    Result<void> read(graph::Value tensor, std::span<float> values) override {
        ++calls_.reads;
        return program_->read(tensor, values);
    }
    Result<void> read(graph::Value tensor, std::span<double> values) override {
        ++calls_.reads;
        return program_->read(tensor, values);
    }
    Result<void> read(graph::Value tensor, std::span<std::int32_t> values) override {
        ++calls_.reads;
        return program_->read(tensor, values);
    }
    Result<void> submit(std::uint32_t times) override {
        ++calls_.submits;
        calls_.runs += times;
        return program_->submit(times);
    }
    Result<void> wait() override { return program_->wait(); }
    const graph::Plan& plan() const noexcept override { return program_->plan(); }

private:
    std::unique_ptr<graph::Program> program_;
    Calls& calls_;
};

class CountingBackend final : public graph::Backend {
public:
    explicit CountingBackend(graph::Backend& backend) : backend_(backend) {}
    std::string name() const override { return backend_.name(); }
    std::shared_ptr<graph::TensorStore> make_store() override { return backend_.make_store(); }
    Result<std::unique_ptr<graph::Program>> compile(graph::Plan plan, std::shared_ptr<graph::TensorStore> weights,
                                                    std::shared_ptr<graph::TensorStore> states) override {
        extras |= extras_in(plan.graph);
        const auto is_step = std::ranges::any_of(plan.graph.tensors(), [](const graph::Tensor& tensor) {
            return tensor.name == "history" || tensor.name == "token_history";
        });
        VKFORMER_TRY(auto program, backend_.compile(std::move(plan), std::move(weights), std::move(states)));
        return std::unique_ptr<graph::Program>(
            std::make_unique<CountingProgram>(std::move(program), is_step ? steps : others));
    }
    const graph::FusionRules& fusions() const noexcept override { return *rules; }
    Calls steps, others;
    std::uint32_t extras = 0;  ///< what nodes had besides their ops
    const graph::FusionRules* rules = &graph::stepwise_fusions();

private:
    graph::Backend& backend_;
};

std::vector<std::int32_t> script_prompt(std::size_t length) {
    std::vector<std::int32_t> tokens(length);
    for (std::size_t i = 0; i < length; ++i) tokens[i] = static_cast<std::int32_t>((i * i + 3) % 61);
    return tokens;
}

}  // namespace

TEST_CASE("a language model's tokens take one read per submit, and no write between them", "[decoding][decoder]") {
    CountingBackend backend(*test_backends().front());
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    auto session = must(decoding::DecoderSession::create(backend, model, {.context = 64, .chunk = 16}));
    const decoding::Request request = {.prompt = script_prompt(21), .max_tokens = 12};
    must(session.run({&request, 1}));
    CHECK(backend.others.submits == 2);  // 16 tokens and 4; the last is the first step's
    CHECK(backend.others.writes == 4);
    CHECK(backend.steps.runs == 12);
    CHECK(backend.steps.reads == backend.steps.submits);
    CHECK(backend.steps.writes == 3);  // token, position; once that nothing is finished
    backend.steps = backend.others = {};
    must(session.run({&request, 1}));  // all of the prompt is there
    CHECK(backend.others.submits == 0);
    CHECK(backend.steps.writes == 2);
}

TEST_CASE("a beam search looks at one state until it is over", "[decoding][beam]") {
    CountingBackend backend(*test_backends().front());
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    auto session = must(decoding::BeamSession::create(backend, model, {.context = 64, .chunk = 16}, {.beams = 3}));
    const decoding::Request request = {.prompt = script_prompt(21), .max_tokens = 12};
    must(session.run({&request, 1}));
    CHECK(backend.others.submits == 3);  // two parts of the prompt, and their copies to the beams
    CHECK(backend.steps.runs == 12);
    CHECK(backend.steps.reads == backend.steps.submits + 6);
    CHECK(backend.steps.writes == 10);
}

TEST_CASE("an encoder-decoder's answers take one read per submit", "[decoding][generate]") {
    CountingBackend backend(*test_backends().front());
    const auto model = must(models::load_encoder_decoder(goldens_dir() / "encoder_decoders/t5_d22_relu"));
    for (const std::uint32_t beams : {1u, 2u}) {
        CAPTURE(beams);
        backend.steps = backend.others = {};
        auto session = must(decoding::Session::create(
            backend, *model, {.generation = {.decoder_start = 0, .beams = beams, .max_steps = 11}, .batch = 2}));
        const std::vector<std::int32_t> tokens = script_prompt(5);
        const decoding::Source sources[] = {{.tokens = tokens}, {.tokens = std::span(tokens).first(3)}};
        must(session.generate(sources));
        CHECK(backend.others.submits == 1);
        CHECK(backend.steps.submits == 2);  // 4 steps and 7
        CHECK(backend.steps.runs == 11);
        CHECK(backend.steps.reads == (beams == 1 ? 2 : 2 + 6));
    }
}

TEST_CASE("sessions fuse what their backend takes, and nothing else", "[decoding][fusion]") {
    const std::vector<std::int32_t> tokens = script_prompt(5);
    const std::string kind =
        GENERATE("tokens", "beams", "encoder-decoder", "beams of an encoder-decoder", "speech", "texts", "images");
    CAPTURE(kind);
    const Without nothing(~0u);
    for (const bool takes : {true, false}) {
        CountingBackend backend(*test_backends().front());
        if (!takes) backend.rules = &nothing;
        if (kind == "tokens" || kind == "beams") {
            const models::Decoder model = load_decoder_case("llama_gqa_odd");
            const decoding::Request request = {.prompt = tokens, .max_tokens = 2};
            if (kind == "tokens")
                must(must(decoding::DecoderSession::create(backend, model, {.context = 64})).run({&request, 1}));
            else
                must(must(decoding::BeamSession::create(backend, model, {.context = 64}, {.beams = 2}))
                         .run({&request, 1}));
        } else if (kind == "speech") {
            const auto loaded = must(models::load_speech_model(goldens_dir() / "speech/whisper_times_414"));
            decoding::SpeechSessionOptions options;
            options.rules.generation = {.decoder_start = 5, .eos = 6, .pad = 6, .max_steps = 60};
            auto session = must(decoding::SpeechSession::create(backend, *loaded.model, options));
            const auto limits = loaded.model->limits();
            must(session.hear(std::vector(1, std::vector<float>(limits.source_len * limits.source_features))));
            must(session.write_down({.given = {5, 1}, .max_length = 4}));
        } else if (kind == "texts") {
            const auto encoder = must(models::load_encoder(goldens_dir() / "encoders/bert_h20"));
            const auto head = [](graph::Graph& graph, const models::EncoderTensors& tensors) {
                return graph::pool(graph, tensors.hidden, tensors.lengths, graph::Pooling::first);
            };
            const decoding::EncoderText text{.tokens = tokens};
            must(decoding::EncoderSession(backend, encoder, head, {}).run({&text, 1}));
        } else if (kind == "images") {
            const auto encoder = must(models::load_vision_encoder(goldens_dir() / "vision/models/vit_h20"));
            const auto& config = encoder.config();
            const auto head = [&](graph::Graph& graph, graph::Value hidden) {
                return encoder.add_embedding(graph, hidden);
            };
            const auto pixels = [&](std::size_t) -> Result<std::vector<float>> {
                return std::vector<float>(std::size_t{config.channels} * config.image_height * config.image_width);
            };
            must(decoding::ImageSession(backend, encoder, head, {}).run(1, pixels));
        } else {
            const auto model = must(models::load_encoder_decoder(goldens_dir() / "encoder_decoders/t5_d22_relu"));
            const std::uint32_t beams = kind == "encoder-decoder" ? 1 : 2;
            const decoding::Source source{.tokens = tokens};
            must(must(decoding::Session::create(backend, *model,
                                                {.generation = {.decoder_start = 0, .beams = beams, .max_steps = 3}}))
                     .generate({&source, 1}));
        }
        CHECK((backend.extras != 0) == takes);
    }
}

}  // namespace vkformer::tests
