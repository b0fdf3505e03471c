// SPDX-License-Identifier: MIT
// Fewer sources or windows than a batch holds: they take fewer rows, and nothing that is found changes.
#include <vector>

#include "cpu/backend.hpp"
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

/// The CPU backend, where there is no memory for some programs: after the next `passed`, for `lacking`.
class ShortOfMemory final : public graph::Backend {
public:
    std::size_t passed = 0, lacking = 0, compiled = 0;

    std::string name() const override { return inner_->name(); }
    std::shared_ptr<graph::TensorStore> make_store() override { return inner_->make_store(); }
    const graph::FusionRules& fusions() const noexcept override { return inner_->fusions(); }
    Result<std::unique_ptr<graph::Program>> compile(graph::Plan plan, std::shared_ptr<graph::TensorStore> weights,
                                                    std::shared_ptr<graph::TensorStore> states) override {
        if (passed > 0)
            --passed;
        else if (lacking > 0) {
            --lacking;
            return Error{ErrorCode::OutOfDeviceMemory, "there is no memory left"};
        }
        ++compiled;
        return inner_->compile(std::move(plan), std::move(weights), std::move(states));
    }

private:
    std::unique_ptr<graph::Backend> inner_ = cpu::make_cpu_backend<float>();
};

}  // namespace

TEST_CASE("where there is no room for fewer rows, sources take those of the batch", "[decoding][memory]") {
    const models::Seq2Seq model = load_marian("swish_d64_h4_opus");
    const models::GenerationConfig generation = {.decoder_start = 3, .eos = 0, .pad = 3, .beams = 2, .max_steps = 9};
    const std::vector<std::int32_t> tokens = {5, 6, 7, 0};
    const decoding::Source source = {.tokens = tokens};
    ShortOfMemory backend;
    const auto session_of = [&] {
        return must(decoding::Session::create(backend, model, {.generation = generation, .batch = 4}));
    };
    auto plenty = session_of();
    const auto expected = must(plenty.generate({&source, 1}));
    REQUIRE(backend.compiled == 4);  // encoder and step, of four rows and of one

    auto session = session_of();
    backend.passed = GENERATE(2u, 3u);  // the whole batch, and an encoder
    backend.lacking = 1;
    CHECK(must(session.generate({&source, 1}))[0].tokens == expected[0].tokens);
    const std::size_t compiled = backend.compiled;
    CHECK(must(session.generate({&source, 1}))[0].tokens == expected[0].tokens);
    CHECK(backend.compiled == compiled);  // it is not tried again

    // Without room for the batch the call fails, and the next one is as good as any.
    auto later = session_of();
    backend.passed = GENERATE(0u, 1u);
    backend.lacking = 1;
    const auto failed = later.generate({&source, 1});
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code == ErrorCode::OutOfDeviceMemory);
    CHECK(must(later.generate({&source, 1}))[0].tokens == expected[0].tokens);
    const std::vector<decoding::Source> four(4, source);
    auto whole = session_of();
    backend.lacking = 1;
    REQUIRE_FALSE(whole.generate(four));
    CHECK(must(whole.generate(four))[3].tokens == expected[0].tokens);
}

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
        const std::vector<decoding::Source> alike(count, sources[0]);  // of one length, whose caches are one size
        return cache_bytes(backend, model, entry.generation, batch, alike);
    };
    // Those of the whole batch come first.
    CHECK(bytes(1, 1) > 0);
    CHECK(bytes(6, 1) == bytes(6, 6) + bytes(1, 1));
    CHECK(bytes(6, 2) == bytes(6, 6) + bytes(2, 2));
    CHECK(bytes(6, 3) == bytes(6, 6) + bytes(4, 4));
    CHECK(bytes(6, 5) == bytes(6, 6));

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
        Translator translator = must(
            Translator::load(std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer", options));
        std::vector<std::string> first;
        for (const std::size_t count : calls) {
            const std::vector<std::string> texts(count, "1 May 2024");
            for (const Translation& made : must(translator.translate(texts))) first.push_back(made.text);
        }
        for (const std::string& text : first) CHECK(text == first[0]);
        return translator.memory().caches;
    };
    CHECK(caches_after(1, {1}) > 0);
    CHECK(caches_after(0, {3}) == caches_after(3, {3}));
    CHECK(caches_after(0, {1, 3}) == caches_after(1, {1}) + caches_after(4, {4}));
    CHECK(caches_after(0, {3, 4}) == caches_after(4, {4}));  // what three texts had is given back
    CHECK(caches_after(8, {1}) == caches_after(8, {8}) + caches_after(1, {1}));
    CHECK(caches_after(8, {8, 1}) == caches_after(8, {1}));
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
    CHECK(caches_after(1, {1}) > 0);
    CHECK(caches_after(4, {1}) == caches_after(4, {4}) + caches_after(1, {1}));
    CHECK(caches_after(0, {3, 4}) == caches_after(4, {4}));
    CHECK(caches_after(0, {1, 3, 1}) == caches_after(4, {3, 1, 3}));
}

}  // namespace vkformer::tests
