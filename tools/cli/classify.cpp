// SPDX-License-Identifier: MIT
/// vkformer classify: images in, the likeliest labels out: those of a classifier, or texts that CLIP or SigLIP compares them with.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "encoder_options.hpp"
#include "models/open_model.hpp"
#include "pictures.hpp"
#include "vectors.hpp"
#include "vkformer/vision.hpp"

namespace vkformer::cli {
namespace {

struct ClassifyCommand {
    EncoderCommand encoder;
    std::vector<std::string> images, labels;
    std::uint32_t top = 5;
    bool json = false;
};

/// One label of one image, as it is printed.
struct Verdict {
    std::string label;
    float score = 0, probability = 0;
};

std::string as_text(const std::string& path, std::span<const Verdict> verdicts) {
    std::string text = path + "\n";
    for (const Verdict& verdict : verdicts) {
        char number[32];
        std::snprintf(number, sizeof number, "  %8.4f %%  ", 100 * static_cast<double>(verdict.probability));
        text += number + on_one_line(verdict.label) + "\n";
    }
    return text;
}

std::string as_json(const std::string& path, std::span<const Verdict> verdicts) {
    nlohmann::json labels = nlohmann::json::array();
    for (const Verdict& verdict : verdicts)
        labels.push_back({{"label", verdict.label}, {"score", verdict.score}, {"probability", verdict.probability}});
    return to_line({{"image", path}, {"labels", std::move(labels)}}) + "\n";
}

/// Takes images as many at a time as run together, so that the rest need not be in memory.
Result<int> print_verdicts(
    const ClassifyCommand& command,
    const std::function<Result<std::vector<std::vector<Verdict>>>(std::span<const Image>)>& judge) {
    const std::span<const std::string> paths = command.images;
    for (std::size_t first = 0; first < paths.size(); first += command.encoder.batch) {
        const auto some = paths.subspan(first, std::min<std::size_t>(command.encoder.batch, paths.size() - first));
        VKFORMER_TRY(const auto images, load_images(some));
        VKFORMER_TRY(const auto verdicts, judge(images));
        for (std::size_t i = 0; i < some.size(); ++i) {
            const auto shown = std::span(verdicts[i]).first(std::min<std::size_t>(command.top, verdicts[i].size()));
            VKFORMER_CHECK(print(command.json ? as_json(some[i], shown) : as_text(some[i], shown)));
        }
    }
    return kOk;
}

void show_device(const ClassifyCommand& command, const std::string& device) {
    if (!command.encoder.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", device.c_str());
}

Result<int> run_classifier(const ClassifyCommand& command, const std::filesystem::path& folder,
                           const VisionOptions& options) {
    if (!command.labels.empty())
        return Error{ErrorCode::InvalidArgument,
                     "the model has labels of its own; --label is for CLIP and SigLIP models"};
    VKFORMER_TRY(ImageClassifier classifier, ImageClassifier::load(folder, options));
    VKFORMER_CHECK(command.encoder.device.heed(classifier.notes()));
    show_device(command, classifier.device());
    return print_verdicts(command, [&](std::span<const Image> images) -> Result<std::vector<std::vector<Verdict>>> {
        VKFORMER_TRY(const auto found, classifier.classify(images));
        std::vector<std::vector<Verdict>> verdicts;
        for (const auto& labels : found) {
            auto& row = verdicts.emplace_back();
            for (const ImageLabel& label : labels)
                row.push_back({classifier.labels()[label.label], label.logit, label.probability});
        }
        return verdicts;
    });
}

/// The likeliest first.
std::vector<Verdict> ranked(const std::vector<std::string>& labels, std::span<const float> scores,
                            std::span<const float> probabilities) {
    std::vector<Verdict> verdicts;
    for (std::size_t i = 0; i < scores.size(); ++i) verdicts.push_back({labels[i], scores[i], probabilities[i]});
    std::ranges::stable_sort(verdicts, std::greater<>(), &Verdict::score);
    return verdicts;
}

Result<int> run_clip(const ClassifyCommand& command, const std::filesystem::path& folder,
                     const VisionOptions& options) {
    if (command.labels.empty())
        return Error{ErrorCode::InvalidArgument,
                     "CLIP and SigLIP models have no labels of their own; say --label \"a photo of a cat\" --label …"};
    ImageEmbedderOptions clip;
    static_cast<VisionOptions&>(clip) = options;
    VKFORMER_TRY(ImageEmbedder encoder, ImageEmbedder::load(folder, clip));
    VKFORMER_CHECK(command.encoder.device.heed(encoder.notes()));
    show_device(command, encoder.device());
    return print_verdicts(command, [&](std::span<const Image> images) -> Result<std::vector<std::vector<Verdict>>> {
        VKFORMER_TRY(const auto scores, encoder.score(images, command.labels));
        std::vector<std::vector<Verdict>> verdicts;
        for (const auto& row : scores) verdicts.push_back(ranked(command.labels, row, encoder.probabilities(row)));
        return verdicts;
    });
}

Result<int> run(const ClassifyCommand& command) {
    VisionOptions options;
    VKFORMER_TRY(const auto folder, command.encoder.apply(options));
    constexpr std::array kKinds = {models::ModelKind::vision, models::ModelKind::clip};
    VKFORMER_TRY(const auto opened, models::open_model(folder, kKinds));
    return models::kind_of(opened) == models::ModelKind::clip ? run_clip(command, folder, options)
                                                              : run_classifier(command, folder, options);
}

}  // namespace

void add_classify(CLI::App& app, Action& action) {
    auto options = std::make_shared<ClassifyCommand>();
    CLI::App& command = *app.add_subcommand("classify", "Say what is in an image");
    command.add_option("image", options->images, "PNG or JPEG files")->required();
    options->encoder.add(command);
    command
        .add_option("--label", options->labels,
                    "A text that the images are compared with, for CLIP and SigLIP models; several: again")
        ->allow_extra_args(false)
        ->type_name("TEXT");
    command.add_option("--top", options->top, "Print only so many labels of each image")
        ->check(CLI::Range(1u, 1u << 30))
        ->capture_default_str();
    command.add_flag("--json", options->json, "One JSON object per line: image, labels with label, score, probability");
    command.footer(
        "The model is a ViT, DeiT or DINOv2 with a classification head, or a CLIP or SigLIP, whose labels are texts "
        "of\n"
        "your own. The probabilities of CLIP's labels are together 1, those of SigLIP's each stand alone.\n"
        "Examples:\n"
        "  vkformer classify --model vit-base-patch16-224 cat.jpg dog.png\n"
        "  vkformer classify --model clip-vit-base-patch32 cat.jpg --label \"a photo of a cat\" --label \"a photo of a "
        "dog\"");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
