// SPDX-License-Identifier: MIT
/// ImageClassifier and ImageEmbedder against transformers, picture files in, labels and vectors out.
#include "vkformer/vision.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "formats/safetensors.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

template <class Options>
Options vision_options(const std::string& device, Precision precision) {
    Options options;
    options.device = device;
    options.precision = precision;
    options.plain_shaders = true;  // nothing is measured in tests
    return options;
}

std::vector<Image> images_of(const json& golden) {
    std::vector<Image> images;
    for (const std::string name : golden["images"])
        images.push_back(must(load_image(vision_folder("pictures") / name)));
    return images;
}

double error_of(const std::vector<float>& found, const json& expected) {
    const auto row = expected.get<std::vector<double>>();
    REQUIRE(found.size() == row.size());
    return relative_error(std::span<const float>(found), std::span<const double>(row));
}

double vision_bound(Precision precision) {
    // a JPEG's pixels may differ by one step of 255 with another libjpeg-turbo: the goldens take theirs from Pillow's
    return precision == Precision::f16 ? 3e-3 : kModelBound;
}

}  // namespace

TEST_CASE("classifications are those of transformers", "[vision][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    const Precision precision = GENERATE(Precision::f32, Precision::f16);
    CAPTURE(device, precision == Precision::f16);
    const json golden = read_json(vision_folder("vit") / "golden.json");
    auto options = vision_options<VisionOptions>(device, precision);
    options.batch = 2;
    auto classifier = must(ImageClassifier::load(vision_folder("vit"), options));
    CHECK(classifier.labels()[3] == "猫");
    const auto images = images_of(golden);
    const auto found = must(classifier.classify(images));
    REQUIRE(found.size() == images.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        std::vector<float> logits(found[i].size()), probabilities(found[i].size());
        for (const ImageLabel& label : found[i]) {
            logits[label.label] = label.logit;
            probabilities[label.label] = label.probability;
        }
        CHECK(error_of(logits, golden["logits"][i]) < vision_bound(precision));
        CHECK(error_of(probabilities, golden["probabilities"][i]) < 3 * vision_bound(precision));
        for (std::size_t k = 1; k < found[i].size(); ++k) CHECK(found[i][k - 1].logit >= found[i][k].logit);
    }
}

TEST_CASE("the shipped classifier knows the shapes that a renderer draws", "[vision][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    const auto folder = std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/shape-classifier";
    const json golden = json::parse(std::ifstream(goldens_dir() / "shapes" / "golden.json"));
    auto classifier = must(ImageClassifier::load(folder, vision_options<VisionOptions>(device, Precision::f32)));
    std::vector<Image> images;
    for (const json& c : golden["cases"])
        images.push_back(must(load_image(goldens_dir() / "shapes" / (c["shape"].get<std::string>() + ".png"))));
    const auto found = must(classifier.classify(images));
    REQUIRE(found.size() == classifier.labels().size());
    std::size_t right = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const json& expected = golden["cases"][i];
        CAPTURE(expected["shape"]);
        const std::string& label = classifier.labels()[found[i].front().label];
        CHECK(label == expected["found"]);
        right += label == expected["shape"];
        std::vector<float> logits(found[i].size());
        for (const ImageLabel& scored : found[i]) logits[scored.label] = scored.logit;
        CHECK(error_of(logits, expected["logits"]) < kModelBound);
    }
    CHECK(right + 1 >= found.size());  // it is right on 98 of a hundred
}

TEST_CASE("what patches look at can be read", "[vision][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    const json golden = read_json(vision_folder("vit") / "golden.json");
    auto classifier =
        must(ImageClassifier::load(vision_folder("vit"), vision_options<VisionOptions>(device, Precision::f32)));
    const auto layers = must(classifier.attention(images_of(golden)[0]));
    REQUIRE(layers.size() == 2);
    CHECK(classifier.patch_rows() * classifier.patch_columns() + 1 == layers[1].queries);
    std::vector<double> expected;
    for (const json& head : golden["attention.1"])
        for (const json& row : head)
            for (const double weight : row) expected.push_back(weight);
    REQUIRE(layers[1].values.size() == expected.size());
    CHECK(relative_error(std::span<const float>(layers[1].values), std::span<const double>(expected)) < kModelBound);
}

TEST_CASE("CLIP's vectors and scores are those of transformers", "[vision][clip][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    const Precision precision = GENERATE(Precision::f32, Precision::f16);
    CAPTURE(device, precision == Precision::f16);
    const json golden = read_json(vision_folder("clip") / "golden.json");
    const auto images = images_of(golden);
    const auto texts = golden["texts"].get<std::vector<std::string>>();
    auto clip =
        must(ImageEmbedder::load(vision_folder("clip"), vision_options<ImageEmbedderOptions>(device, precision)));
    CHECK(clip.dimension() == 10);
    CHECK(clip.max_length() == 12);
    const auto image_vectors = must(clip.embed_images(images));
    const auto text_vectors = must(clip.embed_texts(texts));
    for (std::size_t i = 0; i < images.size(); ++i)
        CHECK(error_of(image_vectors[i], golden["image_embeds"][i]) < vision_bound(precision));
    for (std::size_t i = 0; i < texts.size(); ++i) {
        CAPTURE(texts[i]);
        CHECK(text_vectors[i].tokens == golden["tokens"][i].get<std::size_t>());
        CHECK(error_of(text_vectors[i].values, golden["text_embeds"][i]) < vision_bound(precision));
    }
    const auto scores = must(clip.score(images, texts));
    for (std::size_t i = 0; i < images.size(); ++i)
        CHECK(error_of(scores[i], golden["logits_per_image"][i]) < 3 * vision_bound(precision));
}

TEST_CASE("CLIP's vectors come as the projection gives them if asked for", "[vision][clip][golden]") {
    const json golden = read_json(vision_folder("clip") / "golden.json");
    auto options = vision_options<ImageEmbedderOptions>("cpu", Precision::f32);
    options.normalize = false;
    auto clip = must(ImageEmbedder::load(vision_folder("clip"), options));
    const auto vectors = must(clip.embed_images(images_of(golden)));
    CHECK(error_of(vectors[0], golden["image_features"][0]) < kModelBound);
    // what follows the first end token of a text does not count
    const auto twice = must(clip.embed_texts(std::vector<std::string>{"a cat", "a cat<|endoftext|> on a dog"}));
    CHECK(twice[1].tokens == twice[0].tokens);
    CHECK(relative_error(std::span<const float>(twice[1].values), std::span<const float>(twice[0].values)) < 1e-6);
}

TEST_CASE("DINO's labels, vectors and attention are those of transformers, whatever size its positions are for",
          "[vision][dino][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    const Precision precision = GENERATE(Precision::f32, Precision::f16);
    CAPTURE(device, precision == Precision::f16);
    const auto folder = goldens_dir() / "modern_vision/dino";
    const json golden = read_json(folder / "golden.json");
    const auto images = images_of(golden);
    auto classifier = must(ImageClassifier::load(folder, vision_options<VisionOptions>(device, precision)));
    CHECK(classifier.patch_rows() == 4);  // of 16 pixels; the file's positions are for 28
    const auto found = must(classifier.classify(images));
    for (std::size_t i = 0; i < found.size(); ++i) {
        std::vector<float> logits(found[i].size()), probabilities(found[i].size());
        for (const ImageLabel& label : found[i]) {
            logits[label.label] = label.logit;
            probabilities[label.label] = label.probability;
        }
        CHECK(error_of(logits, golden["logits"][i]) < vision_bound(precision));
        CHECK(error_of(probabilities, golden["probabilities"][i]) < 3 * vision_bound(precision));
    }
    const auto layers = must(classifier.attention(images[0]));
    std::vector<double> expected;
    for (const json& head : golden["attention.1"])
        for (const json& row : head)
            for (const double weight : row) expected.push_back(weight);
    REQUIRE(layers.at(1).values.size() == expected.size());
    CHECK(relative_error(std::span<const float>(layers[1].values), std::span<const double>(expected)) <
          vision_bound(precision));

    auto options = vision_options<ImageEmbedderOptions>(device, precision);
    options.normalize = false;
    auto embedder = must(ImageEmbedder::load(folder, options));
    CHECK_FALSE(embedder.reads_texts());
    CHECK(embedder.max_length() == 0);
    CHECK(embedder.dimension() == 20);
    const auto vectors = must(embedder.embed_images(images));
    for (std::size_t i = 0; i < images.size(); ++i)
        CHECK(error_of(vectors[i], golden["class_token"][i]) < vision_bound(precision));
    const std::vector<std::string> texts = {"a cat"};
    const auto none = embedder.embed_texts(texts);
    REQUIRE_FALSE(none);
    CHECK(none.error().code == ErrorCode::UnsupportedConfig);
    CHECK_THAT(none.error().message, ContainsSubstring("sees images only"));
    CHECK_FALSE(embedder.score(images, texts));
    CHECK_FALSE(embedder.check_text("a cat"));
}

TEST_CASE("SigLIP's vectors, scores and probabilities are those of transformers", "[vision][siglip][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    const Precision precision = GENERATE(Precision::f32, Precision::f16);
    CAPTURE(device, precision == Precision::f16);
    const auto folder = goldens_dir() / "modern_vision/siglip";
    const json golden = read_json(folder / "golden.json");
    const auto images = images_of(golden);
    const auto texts = golden["texts"].get<std::vector<std::string>>();
    auto siglip = must(ImageEmbedder::load(folder, vision_options<ImageEmbedderOptions>(device, precision)));
    CHECK(siglip.reads_texts());
    const auto text_vectors = must(siglip.embed_texts(texts));
    for (std::size_t i = 0; i < texts.size(); ++i) {
        CAPTURE(texts[i]);
        const auto ids = golden["input_ids"][i].get<std::vector<std::int32_t>>();
        // the end token pads, too: all but one of those at the end are padding
        const auto last = std::find_if(ids.rbegin(), ids.rend(), [](std::int32_t id) { return id != 1; });
        CHECK(text_vectors[i].tokens == std::min<std::size_t>(ids.size(), ids.rend() - last + 1));
        CHECK(error_of(text_vectors[i].values, golden["text_embeds"][i]) < vision_bound(precision));
    }
    CHECK(text_vectors[4].cut > 0);
    const auto scores = must(siglip.score(images, texts));
    for (std::size_t i = 0; i < images.size(); ++i) {
        CHECK(error_of(scores[i], golden["logits_per_image"][i]) < 3 * vision_bound(precision));
        CHECK(error_of(siglip.probabilities(scores[i]), golden["probabilities"][i]) < 10 * vision_bound(precision));
    }
}

TEST_CASE("pictures that a processor leaves in another shape are refused", "[vision][errors]") {
    TemporaryFolder folder;
    for (const char* const name : {"config.json", "model.safetensors"})
        std::filesystem::copy_file(vision_folder("vit") / name, folder / name);
    std::ofstream(folder / "preprocessor_config.json")
        << R"({"image_processor_type": "ViTImageProcessor", "do_resize": false})";
    auto classifier = must(ImageClassifier::load(folder.path(), vision_options<VisionOptions>("cpu", Precision::f32)));
    const auto picture = [](std::uint32_t width, std::uint32_t height) {
        return Image{
            .width = width, .height = height, .rgb = std::vector<std::uint8_t>(std::size_t{width} * height * 3)};
    };
    CHECK(classifier.classify(std::vector<Image>{picture(16, 16)}));
    const auto result = classifier.classify(std::vector<Image>{picture(16, 16), picture(32, 8)});  // as many pixels
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::InvalidArgument);
    CHECK_THAT(
        result.error().message,
        ContainsSubstring("image 2: preprocessor_config.json makes 8 × 32 pixels of it, the model takes 16 × 16"));
}

TEST_CASE("a CLIP's probabilities are together 1", "[vision][clip]") {
    const auto clip =
        must(ImageEmbedder::load(vision_folder("clip"), vision_options<ImageEmbedderOptions>("cpu", Precision::f32)));
    const auto found = clip.probabilities(std::vector<float>{1, 3, 2});
    CHECK(std::abs(found[0] + found[1] + found[2] - 1) < 1e-6f);
    CHECK(std::abs(found[1] / found[2] - std::exp(1.0f)) < 1e-5f);
    CHECK(clip.probabilities({}).empty());
}

TEST_CASE("folders and images that do not fit are refused", "[vision][errors]") {
    const auto options = vision_options<VisionOptions>("cpu", Precision::f32);
    const auto refused = [&](const std::filesystem::path& folder, ErrorCode code, const std::string& what) {
        const auto result = ImageClassifier::load(folder, options);
        REQUIRE_FALSE(result);
        CHECK(result.error().code == code);
        CHECK_THAT(result.error().message, ContainsSubstring(what));
    };
    refused(vision_folder("models/vit_h20"), ErrorCode::UnsupportedConfig, "no classification head");
    refused(vision_folder("models/deit_labels"), ErrorCode::FileNotFound, "preprocessor_config.json");
    refused(vision_folder("clip"), ErrorCode::UnsupportedConfig,
            "supported: vision models (vit, deit, dinov2, dinov2_with_registers, dinov3_vit); this one is a CLIP or "
            "SigLIP");

    TemporaryFolder folder;
    for (const char* const name : {"config.json", "model.safetensors"})
        std::filesystem::copy_file(vision_folder("vit") / name, folder / name);
    std::ofstream(folder / "preprocessor_config.json")
        << R"({"image_processor_type": "ViTImageProcessor", "size": {"height": 17, "width": 16}})";
    refused(folder.path(), ErrorCode::ShapeMismatch, "the model takes images of 16 × 16 pixels, not 17 × 16");

    // A model of one channel: pictures have three.
    auto config = read_json(folder / "config.json");
    config["num_channels"] = 1;
    std::ofstream(folder / "config.json") << config;
    const auto file = must(formats::Safetensors::open(vision_folder("vit") / "model.safetensors"));
    std::vector<formats::NamedTensor> tensors;
    for (const auto& [name, data] : file.tensors()) {
        tensors.push_back({name, data});
        if (!name.ends_with("patch_embeddings.projection.weight")) continue;
        tensors.back().data.shape = {20, 1, 4, 4};
        tensors.back().data.bytes = data.bytes.first(data.bytes.size() / 3);
    }
    std::filesystem::remove(folder / "model.safetensors");
    must(formats::write_safetensors(folder / "model.safetensors", tensors));
    refused(folder.path(), ErrorCode::UnsupportedConfig,
            "the model takes images of 1 channels; pictures are read with three");

    auto classifier = must(ImageClassifier::load(vision_folder("vit"), options));
    const std::vector<Image> images = {Image{.width = 1, .height = 1, .rgb = {1, 2, 3}},
                                       Image{.width = 2, .height = 1}};
    const auto result = classifier.classify(images);
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, ContainsSubstring("image 2: an image of 2 × 1 pixels cannot have 0 bytes"));
}

}  // namespace vkformer::tests
