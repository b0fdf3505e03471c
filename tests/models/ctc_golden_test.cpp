// SPDX-License-Identifier: MIT
/// Wav2Vec 2.0 and HuBERT against transformers: samples in, hidden states and logits out; what is refused of their configs.
#include <array>

#include "models/changed_golden.hpp"
#include "models/ctc.hpp"
#include "models/model_case.hpp"
#include "models/open_model.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

constexpr std::array<const char*, 5> kCtcGoldens = {"wav2vec2_base", "wav2vec2_large", "wav2vec2_taps", "hubert_large",
                                                    "hubert_plain"};

models::CtcModel load_ctc(const std::string& name) {
    return std::move(*must(models::load_speech_model(goldens_dir() / "ctc" / name)).ctc);
}

/// A pass over the golden's sounds, or the last of them alone.
struct CtcPass {
    models::CtcTensors tensors;
    std::unique_ptr<graph::Program> program;

    CtcPass(graph::Backend& backend, const models::CtcModel& model, const models::CtcLayout& layout,
            const models::CtcSounds& sounds) {
        graph::Graph graph;
        tensors = must(model.add_encoder(graph, layout));
        graph.mark_output(tensors.hidden);
        graph.mark_output(tensors.logits);
        program = must(backend.compile(graph::make_plan(std::move(graph)), backend.make_store(), backend.make_store()));
        must(model.write(*program, tensors, layout, sounds));
        must(program->submit());
        must(program->wait());
    }
    std::vector<double> read(graph::Value value) const {
        std::vector<double> values(program->plan().graph.shape(value).element_count());
        must(program->read(value, std::span<double>(values)));
        return values;
    }
};

}  // namespace

TEST_CASE("Wav2Vec 2.0 and HuBERT give Hugging Face's hidden states and logits", "[models][ctc][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    for (const std::string name : kCtcGoldens) {
        if (!takes_case(backend, 2)) continue;
        CAPTURE(backend.name(), name, to_string(dtype));
        const auto model = load_ctc(name);
        const Golden golden("ctc/" + name + "/golden.safetensors");
        const auto sounds = golden.floats("input_values");
        const auto samples = static_cast<std::uint32_t>(golden.shape("input_values")[1]);
        const models::CtcLayout layout = {.batch = 2, .samples = samples, .dtype = dtype};
        const double bound = model_bound(backend, dtype);

        const std::uint32_t whole[] = {samples, samples};
        const CtcPass pass(backend, model, layout, {.samples = sounds, .lengths = whole});
        check_golden(pass.read(pass.tensors.hidden), golden, "last_hidden_state", bound);
        check_golden(pass.read(pass.tensors.logits), golden, "logits", bound);

        // Frames of the second sound that see its padding nowhere but in the norm.
        const auto mask = golden.ints("sample_mask");
        const auto length = static_cast<std::uint32_t>(std::ranges::count(std::span(mask).subspan(samples), 1));
        const std::uint32_t lengths[] = {samples, length};
        const CtcPass masked(backend, model, layout, {.samples = sounds, .lengths = lengths, .norms_padding = true});
        const auto frames = static_cast<std::size_t>(golden.ints("frames")[1]);
        REQUIRE(frames == model.config.frames_of(length));
        const std::size_t vocab = model.config.vocab_size, all = model.config.frames_of(samples);
        const auto logits = masked.read(masked.tensors.logits), expected = golden.doubles("masked_logits");
        CHECK(relative_error(std::span(logits).subspan(all * vocab, frames * vocab),
                             std::span(expected).first(frames * vocab)) < bound);

        // Where padding counts nowhere, it is as if there were none.
        const CtcPass apart(backend, model, layout, {.samples = sounds, .lengths = lengths});
        const CtcPass alone(
            backend, model, {.batch = 1, .samples = length, .dtype = dtype},
            {.samples = std::span(sounds).subspan(samples, length), .lengths = std::span(lengths).subspan(1)});
        const auto padded = apart.read(apart.tensors.logits), own = alone.read(alone.tensors.logits);
        CHECK(relative_error(std::span(padded).subspan(all * vocab, frames * vocab), std::span<const double>(own)) <
              bound);
    }
}

TEST_CASE("what is not done of CTC models is refused by name", "[models][ctc]") {
    const auto refused = [](const std::string& name, const nlohmann::json& fields, const std::string& words) {
        const TemporaryFolder folder;
        const std::filesystem::path model = folder.path() / name;
        std::filesystem::copy(goldens_dir() / "ctc" / name, model);
        write_config_with(model, fields);
        check_refused(models::load_speech_model(model), ErrorCode::UnsupportedConfig, words);
    };
    refused("wav2vec2_large", {{"add_adapter", true}}, "\"add_adapter\" is true");
    refused("wav2vec2_large", {{"adapter_attn_dim", 16}}, "\"adapter_attn_dim\" is 16");
    refused("hubert_large", {{"conv_pos_batch_norm", true}}, "\"conv_pos_batch_norm\" is true");
    refused("hubert_large", {{"feat_extract_norm", "batch"}}, "\"feat_extract_norm\" is \"batch\"");
    refused("hubert_plain", {{"conv_stride", {4, 3}}}, "\"conv_stride\"");
    refused("hubert_plain", {{"conv_kernel", {8, 0.5, 2}}}, "\"conv_kernel\"");
    refused("hubert_plain", {{"conv_stride", {1024, 1024, 1}}}, "\"conv_stride\"");
    refused("hubert_plain", {{"num_conv_pos_embedding_groups", 4}}, "\"num_conv_pos_embedding_groups\"");
    refused("hubert_plain", {{"hidden_act", "mish"}}, "\"hidden_act\"");
}

TEST_CASE("a sound that is too short for a frame has no graph", "[models][ctc]") {
    const auto model = load_ctc("wav2vec2_base");
    graph::Graph graph;
    CHECK(model.config.frames_of(29) == 0);
    check_refused(model.add_encoder(graph, {.samples = 29}), ErrorCode::InvalidArgument, "too few");
    CHECK(model.add_encoder(graph, {.samples = 30}));
}

}  // namespace vkformer::tests
