// SPDX-License-Identifier: MIT
// Fewer sources or windows than a batch holds: they take fewer rows, and nothing that is found changes.
#include <vector>

#include "decoding/generate_case.hpp"
#include "decoding/session.hpp"
#include "models/marian_case.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "vkformer/transcriber.hpp"
#include "vkformer/translator.hpp"

namespace vkformer::tests {
namespace {

/// What a session's first call has of the device for its caches.
std::uint64_t cache_bytes(graph::Backend& backend, const models::EncoderDecoder& model,
                          const models::GenerationConfig& generation, std::uint32_t batch,
                          std::span<const decoding::Source> sources) {
    const std::uint64_t before = backend.memory().caches;
    auto session = must(decoding::Session::create(backend, model, {.generation = generation, .batch = batch}));
    must(session.generate(sources));
    return backend.memory().caches - before;
}

}  // namespace

TEST_CASE("a session takes as many rows as sources need", "[decoding]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto folder = goldens_dir() / "marian" / "swish_d64_h4_opus";
    const models::Seq2Seq model = load_marian("swish_d64_h4_opus");
    const Entry entry =
        read_entry(read_json(folder / "generate.json").back(), read_json(folder / "generation_config.json"),
                   model.limits().target_len, model.limits().target_vocab);
    CAPTURE(backend.name(), entry.generation.beams);
    std::vector<decoding::Source> sources;
    for (std::size_t i = 0; i < 6; ++i) sources.push_back(sources_of(entry)[i % entry.tokens.size()]);
    const auto bytes = [&](std::uint32_t batch, std::size_t count) {
        return cache_bytes(backend, model, entry.generation, batch, std::span(sources).first(count));
    };
    CHECK(bytes(6, 1) == bytes(1, 1));
    CHECK(bytes(6, 2) == bytes(2, 2));
    CHECK(bytes(6, 3) == bytes(4, 4));
    CHECK(bytes(6, 5) == bytes(6, 6));
    CHECK(bytes(6, 1) < bytes(6, 6));

    // One session, in every order of sizes, with a rest of one.
    auto session = must(decoding::Session::create(backend, model, {.generation = entry.generation, .batch = 5}));
    const auto all = must(session.generate(sources));
    for (const std::size_t count : {1, 3, 5, 2, 1, 6}) {
        const auto found = must(session.generate(std::span(sources).first(count)));
        REQUIRE(found.size() == count);
        for (std::size_t i = 0; i < count; ++i) CHECK(found[i].tokens == all[i].tokens);
    }
}

TEST_CASE("a translator's memory follows what its calls had", "[decoding][api]") {
    const auto caches_after = [](std::uint32_t batch, std::vector<std::size_t> calls) {
        TranslatorOptions options;
        options.device = "cpu";
        options.batch = batch;
        Translator translator = must(Translator::load(std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer", options));
        std::vector<std::string> first;
        for (const std::size_t count : calls) {
            const std::vector<std::string> texts(count, "1 May 2024");
            for (const Translation& made : must(translator.translate(texts))) first.push_back(made.text);
        }
        for (const std::string& text : first) CHECK(text == first[0]);
        return translator.memory().caches;
    };
    CHECK(caches_after(0, {3}) == caches_after(3, {3}));
    CHECK(caches_after(0, {1, 3}) == caches_after(3, {3}));  // what one text had is given back
    CHECK(caches_after(8, {1}) == caches_after(1, {1}));
    CHECK(caches_after(8, {8, 1}) == caches_after(8, {8}) + caches_after(1, {1}));
}

TEST_CASE("a transcriber takes as many rows as there are windows", "[decoding][api][speech]") {
    const auto folder = speech_folder("whisper_times_414");
    const auto clip = Golden("speech/whisper_times_414/golden.safetensors").floats("timed0");
    // A window ends in its last fifth.
    const auto longest = read_json(folder / "preprocessor_config.json")["n_samples"].get<std::size_t>();
    const auto sound_of = [&](std::size_t windows) {
        std::vector<float> sound(longest * windows - longest / 2);
        for (std::size_t i = 0; i < sound.size(); ++i) sound[i] = clip[i % std::min(clip.size(), longest)];
        return sound;
    };
    const auto transcriber_of = [&](std::uint32_t batch) {
        TranscriberOptions options;
        options.device = "cpu";
        options.timestamps = false;
        options.temperatures = {0};  // what is drawn differs between rows
        options.batch = batch;
        return must(Transcriber::load(folder, options));
    };
    const auto caches_after = [&](std::uint32_t batch, std::vector<std::size_t> calls) {
        Transcriber transcriber = transcriber_of(batch), alone = transcriber_of(1);
        for (const std::size_t windows : calls) {
            const auto found = must(transcriber.transcribe(sound_of(windows))),
                       expected = must(alone.transcribe(sound_of(windows)));
            REQUIRE(found.segments.size() == windows);
            for (std::size_t i = 0; i < windows; ++i) CHECK(found.segments[i].tokens == expected.segments[i].tokens);
        }
        return transcriber.memory().caches;
    };
    CHECK(caches_after(4, {1}) == caches_after(1, {1}));
    CHECK(caches_after(0, {1, 3}) == caches_after(0, {3}));
    CHECK(caches_after(4, {3, 1}) == caches_after(4, {3}) + caches_after(1, {1}));
}

}  // namespace vkformer::tests
