// SPDX-License-Identifier: MIT
/// vkformer classify, and embed with images, as a user runs them, on the CPU.
#include <iterator>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "support/bounds.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/temporary_folder.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

std::string picture(const std::string& name) { return (vision_folder("pictures") / name).string(); }
std::string classify(const std::string& model, const std::string& rest) {
    return "classify -d cpu -m " + vision_folder(model).string() + " " + rest;
}
std::string embed_with_clip(const std::string& rest) {
    return "embed -d cpu -q -m " + vision_folder("clip").string() + " " + rest;
}

std::string modern_folder(const std::string& model) { return (goldens_dir() / "modern_vision" / model).string(); }

bool agrees(const std::vector<float>& found, const json& expected) {
    const auto row = expected.get<std::vector<float>>();
    return found.size() == row.size() &&
           relative_error(std::span<const float>(found), std::span<const float>(row)) < 1e-5;
}

}  // namespace

TEST_CASE("classify prints the likeliest labels of each image", "[cli][vision]") {
    const json golden = read_json(vision_folder("vit") / "golden.json");
    const auto p = golden["probabilities"][0].get<std::vector<double>>();
    const auto best = static_cast<std::size_t>(std::ranges::max_element(p) - p.begin());

    const Outcome plain = run(classify("vit", "--top 2 " + picture("colour.png") + " " + picture("palette.png")));
    REQUIRE(plain.exit_code == 0);
    const auto lines = lines_of(plain.out);
    REQUIRE(lines.size() == 6);
    CHECK_THAT(lines[0], ContainsSubstring("colour.png"));
    CHECK_THAT(lines[1], ContainsSubstring("%"));
    CHECK_THAT(plain.err, ContainsSubstring("device: CPU"));

    const Outcome objects = run(classify("vit", "-q --json " + picture("colour.png")));
    REQUIRE(objects.exit_code == 0);
    const json object = json::parse(objects.out);
    CHECK(object["image"] == picture("colour.png"));
    REQUIRE(object["labels"].size() == 5);
    CHECK(std::abs(object["labels"][0]["probability"].get<double>() - p[best]) < 1e-5);
    CHECK_THAT(lines[1], ContainsSubstring(object["labels"][0]["label"].get<std::string>()));
    CHECK(objects.err.empty());
}

TEST_CASE("classify with CLIP compares images with texts", "[cli][vision]") {
    const json golden = read_json(vision_folder("clip") / "golden.json");
    const std::string labels = "--label \"" + golden["texts"][0].get<std::string>() + "\" --label \"" +
                               golden["texts"][2].get<std::string>() + "\"";
    const Outcome found = run(classify("clip", "-q --json " + labels + " " + picture("colour.png")));
    REQUIRE(found.exit_code == 0);
    const json object = json::parse(found.out);
    REQUIRE(object["labels"].size() == 2);
    const auto logits = golden["logits_per_image"][0].get<std::vector<double>>();
    const bool first_wins = logits[0] > logits[2];
    CHECK(object["labels"][0]["label"] == golden["texts"][first_wins ? 0 : 2]);
    const double probability = 1 / (1 + std::exp(-std::abs(logits[0] - logits[2])));
    CHECK(std::abs(object["labels"][0]["probability"].get<double>() - probability) < 1e-4);
}

TEST_CASE("embed takes images and texts with CLIP", "[cli][vision]") {
    const json golden = read_json(vision_folder("clip") / "golden.json");
    const std::string text = golden["texts"][0];
    const Outcome found = run(embed_with_clip("--json --image " + picture("colour.png") + " -- \"" + text + "\""));
    REQUIRE(found.exit_code == 0);
    const auto lines = lines_of(found.out);
    REQUIRE(lines.size() == 2);
    const json image = json::parse(lines[0]), words = json::parse(lines[1]);
    CHECK(image["image"] == picture("colour.png"));
    CHECK(agrees(image["embedding"].get<std::vector<float>>(), golden["image_embeds"][0]));
    CHECK(words["text"] == text);
    CHECK(agrees(words["embedding"].get<std::vector<float>>(), golden["text_embeds"][0]));

    const Outcome raw = run(embed_with_clip("--no-normalize --image " + picture("colour.png")));
    REQUIRE(raw.exit_code == 0);
    std::istringstream stream(raw.out);
    const std::vector<float> numbers{std::istream_iterator<float>(stream), {}};
    CHECK(agrees(numbers, golden["image_features"][0]));

    const TemporaryFolder folder;
    const Outcome file =
        run(embed_with_clip("-o " + (folder / "x.npy").string() + " --image " + picture("colour.png")));
    REQUIRE(file.exit_code == 0);
    CHECK_THAT(read_file(folder / "x.npy"), ContainsSubstring("'shape': (1, 10)"));
}

TEST_CASE("classify and embed take DINO and SigLIP", "[cli][vision][dino][siglip]") {
    const json dino = read_json(modern_folder("dino") + "/golden.json");
    const std::string use_dino = " -q -d cpu -m " + modern_folder("dino") + " ";
    const Outcome labels = run("classify --json" + use_dino + picture("colour.png"));
    REQUIRE(labels.exit_code == 0);
    const json found = json::parse(labels.out)["labels"];
    const auto p = dino["probabilities"][0].get<std::vector<double>>();
    CHECK(std::abs(found[0]["probability"].get<double>() - *std::ranges::max_element(p)) < 1e-5);
    const Outcome vector = run("embed --json --no-normalize" + use_dino + "--image " + picture("colour.png"));
    REQUIRE(vector.exit_code == 0);
    CHECK(agrees(json::parse(vector.out)["embedding"].get<std::vector<float>>(), dino["class_token"][0]));
    CHECK_THAT(run("embed -d cpu -m " + modern_folder("dino") + " --image " + picture("colour.png")).err,
               ContainsSubstring("vkformer: 20 numbers\n"));

    const json siglip = read_json(modern_folder("siglip") + "/golden.json");
    const Outcome scored = run("classify --json -q -d cpu -m " + modern_folder("siglip") + " --label \"" +
                               siglip["texts"][0].get<std::string>() + "\" --label \"" +
                               siglip["texts"][2].get<std::string>() + "\" " + picture("colour.png"));
    REQUIRE(scored.exit_code == 0);
    for (const json& label : json::parse(scored.out)["labels"]) {
        const std::size_t text = label["label"] == siglip["texts"][0] ? 0 : 2;
        CAPTURE(text);
        const double expected = siglip["probabilities"][0][text];
        CHECK(std::abs(label["probability"].get<double>() - expected) < 1e-5 * std::max(1e-1, expected));
    }
}

TEST_CASE("classify and embed say what is wrong with their input", "[cli][vision][errors]") {
    const auto refused = [](const std::string& command, const std::string& what) {
        CAPTURE(command);
        const Outcome outcome = run(command);
        CHECK(outcome.exit_code == 2);
        CHECK(outcome.out.empty());
        CHECK_THAT(outcome.err, ContainsSubstring(what));
    };
    refused(classify("vit", "nowhere.png"), "nowhere.png");
    refused(classify("vit", vision_folder("resized.json").string()), "neither a PNG nor a JPEG file");
    refused(classify("vit", "--label x " + picture("colour.png")), "labels of its own");
    refused(classify("clip", picture("colour.png")), "--label");
    refused(classify("vit", ""), "image");
    refused(embed_with_clip("--pooling mean --image " + picture("colour.png")), "no poolings");
    refused("embed -d cpu -m " + (goldens_dir() / "encoders/bert_h20").string() + " --image " + picture("colour.png"),
            "images need a vision model, a CLIP or a SigLIP");
    const std::string embed_with_dino = "embed -d cpu -m " + modern_folder("dino") + " ";
    refused(embed_with_dino + "a", "images only");
    refused(embed_with_dino + "--image " + picture("colour.png") + " -- a", "images only");
    refused(embed_with_dino + "--prompt x --image " + picture("colour.png"), "no prompts");
}

}  // namespace vkformer::tests

#endif
