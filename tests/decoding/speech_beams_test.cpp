// SPDX-License-Identifier: MIT
/// What each token of a search over sound is worth, against a forward pass of Hugging Face's over the text that it found.
#include <cmath>

#include <nlohmann/json.hpp>

#include "audio/mel.hpp"
#include "decoding/speech_session.hpp"
#include "models/open_model.hpp"
#include "models/seq2seq_loading.hpp"
#include "models/speech_config.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {

TEST_CASE("tokens of a search over sound are worth what a pass over them says", "[decoding][speech][beam][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("whisper_d20_untied", "whisper_texts", "whisper_times_414");
    CAPTURE(backend.name(), name);
    const auto folder = speech_folder(name);
    const auto loaded = must(models::load_speech_model(folder));
    const auto limits = loaded.model->limits();
    const Golden golden("speech/" + name + "/golden.safetensors");
    const auto spectrograms = golden.floats("input_features");
    const Shape shape = golden.shape("input_features");
    const auto entries = read_json(folder / "beams.json")["windows"];
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const auto& entry = entries[i];
        if (entry["log_probs"].is_null() || !takes_case(backend, 2)) continue;
        CAPTURE(entry["clip"].dump(), entry["options"].dump());
        decoding::SpeechSessionOptions options;
        options.beams = entry["options"]["num_beams"];
        options.rules.generation =
            must(models::load_speech_config(folder, limits.target_len, limits.target_vocab, {.timestamps = false}))
                .generation;
        options.rules.generation.length_penalty = entry["options"].value("length_penalty", 1.0);
        if (entry["options"].contains("early_stopping"))
            options.rules.generation.early_stopping = graph::EarlyStopping::always;
        auto session = must(decoding::SpeechSession::create(backend, *loaded.model, options));

        const auto clip = static_cast<std::size_t>(entry["clip"].get<std::string>().back() - '0');
        const std::size_t size = shape[1] * shape[2];
        const std::vector<float> windows[] = {
            audio::windows_of(std::span(spectrograms).subspan(clip * size, size), shape[2])};
        must(session.hear(windows));
        const auto tokens = entry["tokens"].get<std::vector<std::int32_t>>();
        const auto expected = entry["log_probs"].get<std::vector<double>>();
        const auto given = tokens.end() - static_cast<std::ptrdiff_t>(expected.size());
        decoding::SpeechRequest request;
        request.given.assign(tokens.begin(), given);
        request.max_length = static_cast<std::uint32_t>(request.given.size()) + 24;
        const auto found = must(session.write_down(request)).at(0);
        CHECK(found.tokens == std::vector(given, tokens.end()));
        REQUIRE(found.log_probs.size() == expected.size());
        for (std::size_t t = 0; t < expected.size(); ++t) {
            CAPTURE(t);
            CHECK(std::abs(found.log_probs[t] - expected[t]) < 1e-4);
        }
    }
}

}  // namespace vkformer::tests
