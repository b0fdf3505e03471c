// SPDX-License-Identifier: MIT
/// Image processors against those of transformers.
#include "images/image_processor.hpp"

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

std::filesystem::path folder() { return goldens_dir() / "vision"; }

json processor_json(const std::string& name) {
    return json::parse(std::ifstream(folder() / "processed" / (name + ".json")));
}

Result<images::ImageProcessor> processor(const json& config) {
    return images::ImageProcessor::parse(must(formats::Config::parse(config.dump(), "preprocessor_config.json")));
}

double largest_difference(const std::vector<float>& found, const std::vector<float>& expected) {
    REQUIRE(found.size() == expected.size());
    double largest = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
        largest = std::max(largest, std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i])));
    return largest;
}

}  // namespace

TEST_CASE("images are processed as transformers does it", "[images][golden]") {
    const Golden golden("vision/processed/golden.safetensors");
    for (const std::string name :
         {"clip", "clip_small_crop", "clip_no_resize", "vit", "vit_lanczos", "deit", "old_clip", "old_vit"})
        for (const std::string picture : {"colour.png", "turned6.jpg"}) {
            CAPTURE(name, picture);
            const auto p = must(processor(processor_json(name)));
            const auto found = must(p.process(must(load_image(folder() / "pictures" / picture))));
            const auto expected = golden.floats(name + "." + picture);
            // A PNG's bytes are Pillow's, so what is left is float32 rounding. A JPEG's may differ by one step of 255 with another
            // libjpeg-turbo, which normalising divides by the deviation, 0.2 or more.
            const double step = name == "vit_lanczos" ? 1.0 / 50 : 1.0 / 255 / 0.2;
            CHECK(largest_difference(found, expected) < (picture.ends_with(".png") ? 1e-5 : step + 1e-5));
        }
}

TEST_CASE("images are processed as DINO and SigLIP have it, where floats are resized too", "[images][golden]") {
    const Golden golden("modern_vision/processed/golden.safetensors");
    for (const std::string name : {"bit", "siglip", "dinov3", "dinov3_larger"})
        for (const std::string picture : {"colour.png", "turned6.jpg"}) {
            CAPTURE(name, picture);
            const json config =
                json::parse(std::ifstream(goldens_dir() / "modern_vision/processed" / (name + ".json")));
            const auto p = must(processor(config));
            const auto found = must(p.process(must(load_image(folder() / "pictures" / picture))));
            const auto expected = golden.floats(name + "." + picture);
            CHECK(largest_difference(found, expected) < (picture.ends_with(".png") ? 1e-5 : 1.0 / 255 / 0.2));
        }
}

TEST_CASE("sizes that no memory is for are refused before anything is resized", "[images][errors]") {
    json config = json::parse(std::ifstream(goldens_dir() / "modern_vision/processed/dinov3.json"));
    config["size"] = {{"height", 32768}, {"width", 32768}};
    const auto p = must(processor(config));
    const auto result = p.process({.width = 3, .height = 4, .rgb = std::vector<std::uint8_t>(36)});
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, ContainsSubstring("32768 × 32768 pixels"));
}

TEST_CASE("an image that is too long once its shorter side is resized is refused with its own size",
          "[images][errors]") {
    const bool values = GENERATE(false, true);  // whether floats are resized
    json config = values ? json::parse(std::ifstream(goldens_dir() / "modern_vision/processed/dinov3.json"))
                         : processor_json("clip");
    config["size"] = {{"shortest_edge", 224}};
    config["do_center_crop"] = false;
    const auto p = must(processor(config));
    for (const auto& [width, height] : {std::pair{1u, 1'000'000u}, {1'000'000u, 1u}, {1u, 147u}}) {
        const auto refused = p.process(
            {.width = width, .height = height, .rgb = std::vector<std::uint8_t>(std::size_t{3} * width * height)});
        check_refused(refused, ErrorCode::CorruptFile,
                      "the image has " + std::to_string(width) + " × " + std::to_string(height) + " pixels, of which");
        CHECK_THAT(refused.error().message, ContainsSubstring("has 224"));
    }
}

TEST_CASE("the fast processors of transformers differ by steps of 255 only", "[images][golden]") {
    const Golden golden("vision/processed/golden.safetensors");
    const auto p = must(processor(processor_json("clip")));
    const auto found = must(p.process(must(load_image(folder() / "pictures/colour.png"))));
    // PyTorch rounds once, Pillow twice, to bytes
    CHECK(largest_difference(found, golden.floats("fast.colour.png")) < 2.01 / 255 / 0.26);
}

TEST_CASE("processors that would do something else are refused by name", "[images][errors]") {
    const auto refused = [](const std::string& name, const std::string& field, const json& value,
                            ErrorCode code = ErrorCode::UnsupportedConfig) {
        CAPTURE(name, field);
        json config = processor_json(name);
        config[field] = value;
        const auto result = processor(config);
        REQUIRE_FALSE(result);
        CHECK(result.error().code == code);
        CHECK_THAT(result.error().message, ContainsSubstring("\"" + field + "\""));
    };
    refused("clip", "image_processor_type", "ConvNextImageProcessor");
    refused("clip", "resample", 0);
    refused("clip", "size", {{"shortest_edge", 20}, {"longest_edge", 40}});
    refused("clip", "size", {{"height", 20}});
    refused("clip", "size", "large");
    refused("clip", "size", 0);
    refused("clip", "crop_size", {{"shortest_edge", 20}});
    refused("clip", "image_mean", {0.5, 0.5});
    refused("clip", "do_pad", true);
    refused("vit", "do_center_crop", true);
    refused("clip", "do_resize", "yes", ErrorCode::CorruptFile);
    refused("clip", "rescale_factor", "x", ErrorCode::CorruptFile);
    refused("clip", "rescale_factor", 0, ErrorCode::CorruptFile);
    refused("clip", "rescale_factor", -1, ErrorCode::CorruptFile);
    refused("clip", "rescale_factor", 1e300, ErrorCode::CorruptFile);
    for (const double deviation : {0.0, 1e-300, -0.5, 1e30}) refused("clip", "image_std", {0.5, deviation, 0.5});
    for (const double mean : {1e308, -1e9}) refused("clip", "image_mean", {mean, 0, 0});
}

TEST_CASE("a processor's error shows what it found, and no pixel becomes absurd by two numbers that are none alone",
          "[images][errors]") {
    json config = processor_json("clip");
    config["image_std"] = {0, 0, 0};
    auto result = processor(config);
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, ContainsSubstring("\"image_std\" is [0,0,0], supported: numbers from 0.001"));
    config["image_std"] = {0.002, 0.5, 0.5};
    config["image_mean"] = {-900, 0, 0};
    result = processor(config);
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, ContainsSubstring("\"image_std\" is [0.002,0.5,0.5]"));
    config["image_std"] = {0.5, 0.001, 0.5};
    config["image_mean"] = {0, 1.0005, 0};  // white becomes −0.5, black −1000.5
    result = processor(config);
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, ContainsSubstring("\"image_std\" is [0.5,0.001,0.5]"));
}

TEST_CASE("the size of what comes out is known where it does not depend on the picture", "[images]") {
    CHECK(must(processor(processor_json("clip_small_crop"))).output_size()->width == 13);
    CHECK(must(processor(processor_json("vit"))).output_size()->height == 12);
    json config = processor_json("clip");
    config["do_center_crop"] = false;
    CHECK_FALSE(must(processor(config)).output_size());
}

TEST_CASE("an image that is not as large as it says is refused", "[images][errors]") {
    const auto p = must(processor(processor_json("vit")));
    const auto result = p.process({.width = 3, .height = 4, .rgb = std::vector<std::uint8_t>(35)});
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, ContainsSubstring("3 × 4 pixels cannot have 35 bytes"));
    CHECK_FALSE(p.process({}));
}

}  // namespace vkformer::tests
