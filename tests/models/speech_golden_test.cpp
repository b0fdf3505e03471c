// SPDX-License-Identifier: MIT
/// Whisper against Hugging Face: the forward passes of tests/goldens/speech.
#include "audio/mel.hpp"
#include "models/model_case.hpp"
#include "models/open_model.hpp"
#include "models/seq2seq_loading.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

/// What the encoder reads of a batch of spectrograms.
std::vector<float> features_of(const Golden& golden) {
    const Shape shape = golden.shape("input_features");
    const auto spectrograms = golden.floats("input_features");
    std::vector<float> features;
    for (std::size_t b = 0; b < shape[0]; ++b) {
        const auto one =
            audio::windows_of(std::span(spectrograms).subspan(b * shape[1] * shape[2], shape[1] * shape[2]), shape[2]);
        features.insert(features.end(), one.begin(), one.end());
    }
    return features;
}

void check_program(graph::Program& program, graph::Value tensor, const Golden& golden, const std::string& name,
                   double bound) {
    std::vector<double> found(program.plan().graph.shape(tensor).element_count());
    must(program.read(tensor, std::span<double>(found)));
    check_golden(found, golden, name, bound);
}

}  // namespace

TEST_CASE("Whisper's forward passes are those of Hugging Face", "[models][speech][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name =
        GENERATE("speech/whisper_d30_h3_h5", "speech/whisper_d20_untied", "speech/whisper_english",
                 "speech/whisper_texts", "speech/whisper_times_423", "transformers_5/whisper_own_head");
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), name, to_string(dtype));
    const auto loaded = must(models::load_speech_model(goldens_dir() / name));
    const Golden golden(name + "/golden.safetensors");
    const Shape heard = golden.shape("input_features"), target = golden.shape("decoder_input_ids");
    CHECK(loaded.mel_bins == heard[2]);
    CHECK(loaded.model->limits().source_len == heard[1] / 2);
    const auto forward = must(loaded.model->forward({.batch = static_cast<std::uint32_t>(heard[0]),
                                                     .source_len = static_cast<std::uint32_t>(heard[1] / 2),
                                                     .target_len = static_cast<std::uint32_t>(target[1]),
                                                     .dtype = dtype}));
    const auto program =
        must(backend.compile(graph::make_plan(forward.graph), backend.make_store(), backend.make_store()));
    must(program->write(forward.source_features, std::span<const float>(features_of(golden))));
    must(program->write(forward.target_tokens, std::span<const std::int32_t>(golden.ints("decoder_input_ids"))));
    must(program->submit());
    must(program->wait());
    // The golden is float32, rounded once.
    const double bound = dtype == DType::f16 ? 3e-3 : is_double(backend) ? kRoundedAttributeBound : kModelBound;
    check_program(*program, forward.encoder_hidden, golden, "encoder_last_hidden_state", bound);
    check_program(*program, forward.decoder_hidden, golden, "decoder_last_hidden_state", bound);
    check_program(*program, forward.logits, golden, "logits", bound);
}

}  // namespace vkformer::tests
