// SPDX-License-Identifier: MIT
/// Several objects of one model: what they share, and that nobody notices it by the results.
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "support/backends.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"
#include "vkformer/embedder.hpp"
#include "vkformer/generator.hpp"
#include "vkformer/transcriber.hpp"
#include "vkformer/translator.hpp"
#include "vkformer/vision.hpp"

namespace vkformer::tests {
namespace {

const std::filesystem::path kTwinDates = std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer";

template <class Options>
Options twin_options(const std::string& device, Options options = {}) {
    options.device = device;
    options.plain_shaders = true;
    return options;
}

/// The model and two twins give the same, one after the other and at the same time, with one copy of the weights; and the twins where the
/// model is no more.
template <class Model, class Call>
void check_twins(Model loaded, const Call& call) {
    std::optional<Model> first(std::move(loaded));
    const auto expected = call(*first);
    const std::uint64_t weights = first->memory().weights, caches = first->memory().caches;
    CHECK(weights > 0);
    std::vector<Model> twins;
    twins.push_back(must(first->twin()));
    twins.push_back(must(twins[0].twin()));
    for (Model& twin : twins) CHECK(call(twin) == expected);
    for (const Model& twin : twins) {
        CHECK(twin.memory().weights == weights);
        CHECK(twin.memory().caches == 3 * caches);
        CHECK(twin.device() == first->device());
    }
    for (int round = 0; round < 3; ++round) {
        auto one = std::async(std::launch::async, [&] { return call(twins[0]); });
        auto two = std::async(std::launch::async, [&] { return call(twins[1]); });
        const bool is_same = call(*first) == expected;
        CHECK(one.get() == expected);
        CHECK(two.get() == expected);
        CHECK(is_same);
    }
    first.reset();
    CHECK(call(twins[1]) == expected);
    CHECK(twins[0].memory().caches == 2 * caches);
    twins.pop_back();
    CHECK(call(twins[0]) == expected);
    CHECK(twins[0].memory().weights == weights);
}

}  // namespace

TEST_CASE("twins of translators share weights, with and without beams", "[api][twins]") {
    const std::string device = GENERATE(from_range(device_names()));
    const auto beams = GENERATE(1u, 4u);
    CAPTURE(device, beams);
    const std::vector<std::string> texts = {"Donnerstag, den 4. März 2021", "March 4, 2021", "le 1er mai 1968"};
    check_twins(must(Translator::load(kTwinDates, twin_options<TranslatorOptions>(device, {.beams = beams}))),
                [&](Translator& translator) {
                    std::vector<std::string> found;
                    for (const Translation& one : must(translator.translate(texts))) found.push_back(one.text);
                    return found;
                });
}

TEST_CASE("a translator's twin has its languages", "[api][twins]") {
    const std::string text = "the cat runs over the sea";
    const auto tokens_of = [&](Translator& translator, const std::string& to) {
        const PrefixedText one = {.text = text, .to = to};
        return must(translator.translate({&one, 1})).at(0).tokens;
    };
    Translator first = must(Translator::load(
        goldens_dir() / "nllb_texts",
        twin_options<TranslatorOptions>("cpu", {.beams = 1, .max_length = 14, .from = "eng_Latn", .to = "fra_Latn"})));
    Translator twin = must(first.twin());
    const auto german = tokens_of(first, "deu_Latn"), french = tokens_of(first, "");
    REQUIRE(german != french);
    CHECK(tokens_of(twin, "") == french);
    CHECK(tokens_of(twin, "deu_Latn") == german);
}

TEST_CASE("twins of generators share weights, with beams and a draft model, too", "[api][twins]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    const auto generate = [](Generator& generator) {
        const std::vector<std::string> prompts = {"Once upon a time"};
        return must(generator.generate(prompts, {.max_tokens = 12})).at(0).tokens;
    };
    const std::filesystem::path folder = goldens_dir() / "decoder_text";
    SECTION("alone") { check_twins(must(Generator::load(folder, twin_options<GeneratorOptions>(device))), generate); }
    SECTION("beams") {
        check_twins(
            must(Generator::load(folder, twin_options<GeneratorOptions>(device, {.beam_search = {.beams = 2}}))),
            generate);
    }
    SECTION("a draft model") {
        check_twins(must(Generator::load(folder, twin_options<GeneratorOptions>(device, {.draft = folder}))), generate);
    }
}

TEST_CASE("twins of encoders share weights", "[api][twins]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    SECTION("vectors") {
        check_twins(must(Embedder::load(goldens_dir() / "sentences/embedder", twin_options<EmbedderOptions>(device))),
                    [](Embedder& embedder) {
                        const std::vector<std::string> texts = {"a cat", "a dog that runs"};
                        std::vector<std::vector<float>> found;
                        for (Embedding& one : must(embedder.embed(texts))) found.push_back(std::move(one.values));
                        return found;
                    });
    }
    SECTION("scores") {
        check_twins(
            must(CrossEncoder::load(goldens_dir() / "sentences/cross_encoder", twin_options<EncoderOptions>(device))),
            [](CrossEncoder& encoder) {
                const std::vector<TextPair> pairs = {{"a cat", "a dog"}, {"a cat", "the cat"}};
                std::vector<std::vector<float>> found;
                for (PairScore& one : must(encoder.score(pairs))) found.push_back(std::move(one.scores));
                return found;
            });
    }
}

TEST_CASE("twins of what sees and hears share weights", "[api][twins]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    const std::vector<Image> images = {must(load_image(vision_folder("pictures") / "colour.png"))};
    SECTION("labels") {
        check_twins(must(ImageClassifier::load(vision_folder("vit"), twin_options<VisionOptions>(device))),
                    [&](ImageClassifier& classifier) {
                        std::vector<float> logits;
                        const auto labels = must(classifier.classify(images)).at(0);
                        for (const ImageLabel& label : labels) logits.push_back(static_cast<float>(label.logit));
                        return logits;
                    });
    }
    SECTION("vectors of images and texts") {
        check_twins(must(ImageEmbedder::load(vision_folder("clip"), twin_options<ImageEmbedderOptions>(device))),
                    [&](ImageEmbedder& embedder) {
                        const std::vector<std::string> texts = {"a red square", "a dog"};
                        return must(embedder.score(images, texts));
                    });
    }
    SECTION("speech") {
        TranscriberOptions options = twin_options<TranscriberOptions>(device);
        options.timestamps = false;
        options.temperatures = {0};
        const auto sound = Golden("speech/whisper_texts/golden.safetensors").floats("clip0");
        check_twins(must(Transcriber::load(speech_folder("whisper_texts"), options)),
                    [&](Transcriber& transcriber) { return must(transcriber.transcribe(sound)).text; });
    }
}

}  // namespace vkformer::tests
