// SPDX-License-Identifier: MIT
/// Calls that their callers stop, and what the objects are worth afterwards.
#include <algorithm>

#include "support/backends.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "vkformer/devices.hpp"
#include "vkformer/embedder.hpp"
#include "vkformer/generator.hpp"
#include "vkformer/transcriber.hpp"
#include "vkformer/translator.hpp"
#include "vkformer/vision.hpp"

namespace vkformer::tests {
namespace {

/// Says stop when it is asked for the n-th time.
struct Stopper {
    int after = 0;  // 0: never
    int asked = 0;

    std::function<bool()> function() {
        return [this] { return ++asked == after; };
    }
};

template <class Options>
Options stoppable(const std::string& device, Stopper& stopper) {
    Options options;
    options.device = device;
    options.plain_shaders = true;
    options.should_stop = stopper.function();
    return options;
}

/// `call` is asked at least so often whether to go on, ends where it is told to, and gives the same as before afterwards. How often
/// it is asked differs from run to run: prompts are remembered, and decoders queue steps by the time that they take.
template <class Call>
void check_stops(Stopper& stopper, int least, const Call& call) {
    stopper = {};
    const auto whole = must(call());
    CHECK(stopper.asked >= least);
    for (const int after : {1, 2, least}) {
        CAPTURE(after);
        stopper = {.after = after};
        const auto stopped = call();
        REQUIRE_FALSE(stopped);
        CHECK(stopped.error().code == ErrorCode::Cancelled);
        CHECK(stopper.asked == after);
        stopper = {};
        CHECK(must(call()) == whole);
    }
}

}  // namespace

TEST_CASE("a translation stops where it is told to, with and without beams", "[api][stop]") {
    const std::string device = GENERATE(from_range(device_names()));
    const std::uint32_t beams = GENERATE(1u, 3u);
    if (!takes_case(device, 2)) return;
    CAPTURE(device, beams);
    Stopper stopper;
    auto options = stoppable<TranslatorOptions>(device, stopper);
    options.beams = beams;
    options.batch = 1;
    Translator translator =
        must(Translator::load(std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer", options));
    const std::vector<std::string> texts = {"March 4, 2021", "4. März 2021"};
    check_stops(stopper, 4, [&]() -> Result<std::vector<std::string>> {
        auto translations = translator.translate(texts);
        if (!translations) return translations.error();
        std::vector<std::string> found;
        for (const Translation& translation : *translations) found.push_back(translation.text);
        return found;
    });
}

TEST_CASE("a generation stops where it is told to, with and without beams", "[api][stop]") {
    const std::string device = GENERATE(from_range(device_names()));
    const std::uint32_t beams = GENERATE(1u, 2u);
    if (!takes_case(device, 2)) return;
    CAPTURE(device, beams);
    Stopper stopper;
    auto options = stoppable<GeneratorOptions>(device, stopper);
    options.beam_search.beams = beams;
    Generator generator = must(Generator::load(goldens_dir() / "decoder_text", options));
    const std::vector<std::string> prompts = {"Once upon a time", "The frog"};
    check_stops(stopper, 4, [&]() -> Result<std::vector<std::vector<std::int32_t>>> {
        auto generations = generator.generate(prompts, {.max_tokens = 40, .ignore_end = true});
        if (!generations) return generations.error();
        std::vector<std::vector<std::int32_t>> found;
        for (const Generation& generation : *generations) found.push_back(generation.tokens);
        return found;
    });
}

TEST_CASE("scores of texts stop where they are told to", "[api][stop][score]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    Stopper stopper;
    Generator generator =
        must(Generator::load(goldens_dir() / "decoder_text", stoppable<GeneratorOptions>(device, stopper)));
    std::vector<std::vector<std::int32_t>> texts(20, std::vector<std::int32_t>(90, 7));  // more than one chunk has
    check_stops(stopper, 4, [&]() -> Result<std::vector<double>> {
        const auto scores = generator.score_tokens(texts);
        if (!scores) return scores.error();
        std::vector<double> found;
        for (const TextScores& one : *scores) found.push_back(one.sum());
        return found;
    });
}

TEST_CASE("vectors of texts and of images stop where they are told to", "[api][stop]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    Stopper stopper;
    auto options = stoppable<ImageEmbedderOptions>(device, stopper);
    options.batch = 1;
    ImageEmbedder clip = must(ImageEmbedder::load(vision_folder("clip"), options));
    const Image grey = {.width = 5, .height = 4, .rgb = std::vector<std::uint8_t>(5 * 4 * 3, 128)};
    const std::vector<Image> images(3, grey);
    check_stops(stopper, 3, [&] { return clip.embed_images(images); });
    const std::vector<std::string> texts = {"a cat", "a dog", "a moon"};
    check_stops(stopper, 3, [&]() -> Result<std::vector<std::vector<float>>> {
        auto embeddings = clip.embed_texts(texts);
        if (!embeddings) return embeddings.error();
        std::vector<std::vector<float>> found;
        for (const Embedding& embedding : *embeddings) found.push_back(embedding.values);
        return found;
    });
}

TEST_CASE("a transcription stops where it is told to", "[api][stop]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    Stopper stopper;
    auto options = stoppable<TranscriberOptions>(device, stopper);
    options.timestamps = GENERATE(false, true);
    options.temperatures = {0};
    Transcriber transcriber = must(Transcriber::load(speech_folder("whisper_times_414"), options));
    const auto sound = Golden("speech/whisper_times_414/golden.safetensors").floats("timed0");
    check_stops(stopper, 4, [&]() -> Result<std::vector<std::vector<std::int32_t>>> {
        auto transcription = transcriber.transcribe(sound);
        if (!transcription) return transcription.error();
        std::vector<std::vector<std::int32_t>> found;
        for (const SpeechSegment& segment : transcription->segments) found.push_back(segment.tokens);
        return found;
    });
}

TEST_CASE("the devices that are found are those that the options of models take", "[api][devices]") {
    if (vulkan_device_indices().empty()) return;
    for (const DeviceDescription& device : must(find_devices())) {
        CHECK(device.uuid.size() == 32);
        CHECK(std::ranges::count(device.vulkan, '.') == 2);
        if (!device.unusable.empty()) continue;
        GeneratorOptions options = {.device = device.uuid, .plain_shaders = true};
        const auto generator = must(Generator::load(goldens_dir() / "decoder_text", options));
        CHECK(generator.device() == device.name + " (" + device.type + ", " + device.driver + ")");
    }
}

}  // namespace vkformer::tests
