// SPDX-License-Identifier: MIT
#include "vkformer/vision.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "api/encoder_heads.hpp"
#include "api/encoder_runner.hpp"
#include "api/image_runner.hpp"
#include "core/stable_order.hpp"
#include "core/try.hpp"
#include "models/open_model.hpp"

namespace vkformer {
namespace {

std::vector<std::string> names_of(const models::VisionConfig& config) {
    std::vector<std::string> names = config.label_names;
    for (std::size_t i = names.size(); i < config.labels; ++i) names.push_back("LABEL_" + std::to_string(i));
    return names;
}

std::vector<double> probabilities_of(std::span<const float> logits, models::ProblemType problem) {
    std::vector<double> p(logits.begin(), logits.end());
    if (problem == models::ProblemType::regression) return p;
    if (problem == models::ProblemType::many_labels) {
        for (double& x : p) x = 1 / (1 + std::exp(-x));
        return p;
    }
    const double largest = *std::ranges::max_element(p);
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - largest);
    for (double& x : p) x /= sum;
    return p;
}

std::vector<ImageLabel> ranked(std::span<const float> logits, models::ProblemType problem) {
    const std::vector<double> probabilities = probabilities_of(logits, problem);
    std::vector<ImageLabel> labels;
    for (std::size_t i = 0; i < logits.size(); ++i)
        labels.push_back({.label = i, .logit = logits[i], .probability = static_cast<float>(probabilities[i])});
    sort_stably(labels, [](const ImageLabel& a, const ImageLabel& b) { return a.logit > b.logit; });
    return labels;
}

}  // namespace

// ---- classifiers ----------------------------------------------------------------------------------------------------

struct ImageClassifier::Impl {
    api::ImageRunner runner;
    std::vector<std::string> labels;
};

ImageClassifier::ImageClassifier(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
ImageClassifier::ImageClassifier(ImageClassifier&&) noexcept = default;
ImageClassifier& ImageClassifier::operator=(ImageClassifier&&) noexcept = default;
ImageClassifier::~ImageClassifier() = default;

const std::vector<std::string>& ImageClassifier::labels() const noexcept { return impl_->labels; }
std::size_t ImageClassifier::patch_rows() const noexcept { return impl_->runner.encoder().config().patch_rows(); }
std::size_t ImageClassifier::patch_columns() const noexcept { return impl_->runner.encoder().config().patch_columns(); }
const std::string& ImageClassifier::device() const noexcept { return impl_->runner.device()->description; }
const std::vector<std::string>& ImageClassifier::notes() const noexcept { return impl_->runner.encoder().notes; }
DeviceMemory ImageClassifier::memory() const { return impl_->runner.device()->backend->memory(); }

Result<ImageClassifier> ImageClassifier::load(const std::filesystem::path& folder, const VisionOptions& options) {
    VKFORMER_TRY(auto encoder, models::load_vision_encoder(folder));
    if (encoder.config().labels == 0)
        return Error{ErrorCode::UnsupportedConfig, folder.string() +
                                                       ": the model has no classification head (its \"architectures\" "
                                                       "name no \"…ForImageClassification\"), and gives vectors alone"};
    std::vector<std::string> labels = names_of(encoder.config());
    auto head = api::label_head(encoder);
    VKFORMER_TRY(auto runner, api::ImageRunner::load(folder, std::move(encoder), std::move(head), options));
    return ImageClassifier(std::make_unique<Impl>(Impl{.runner = std::move(runner), .labels = std::move(labels)}));
}

Result<ImageClassifier> ImageClassifier::twin() const {
    VKFORMER_TRY(auto device, api::twin_of(impl_->runner.device()));
    return ImageClassifier(
        std::make_unique<Impl>(Impl{.runner = impl_->runner.twin(std::move(device)), .labels = impl_->labels}));
}

Result<std::vector<std::vector<ImageLabel>>> ImageClassifier::classify(std::span<const Image> images,
                                                                       const Progress& progress) {
    VKFORMER_TRY(const auto results, impl_->runner.run(images, progress));
    std::vector<std::vector<ImageLabel>> labels;
    for (const decoding::ImageResult& result : results)
        labels.push_back(ranked(result.values, impl_->runner.encoder().config().problem));
    return labels;
}

Result<std::vector<AttentionWeights>> ImageClassifier::attention(const Image& image) {
    VKFORMER_TRY(auto result, impl_->runner.run_with_attention(image));
    const models::VisionConfig& config = impl_->runner.encoder().config();
    std::vector<AttentionWeights> layers;
    for (std::size_t i = 0; i < result.attention.size(); ++i)
        layers.push_back({.kind = AttentionKind::encoder,
                          .layer = static_cast<std::uint32_t>(i),
                          .heads = config.heads,
                          .queries = config.tokens(),
                          .keys = config.tokens(),
                          .values = std::move(result.attention[i])});
    return layers;
}

// ---- vectors --------------------------------------------------------------------------------------------------------

struct ImageEmbedder::Impl {
    api::ImageRunner images;
    std::optional<api::EncoderRunner> texts;  ///< of CLIP and SigLIP, and so what follows
    double logit_scale = 1, logit_bias = 0;
    models::ProblemType problem = models::ProblemType::one_label;
    std::vector<std::string> notes;
};

ImageEmbedder::ImageEmbedder(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
ImageEmbedder::ImageEmbedder(ImageEmbedder&&) noexcept = default;
ImageEmbedder& ImageEmbedder::operator=(ImageEmbedder&&) noexcept = default;
ImageEmbedder::~ImageEmbedder() = default;

bool ImageEmbedder::reads_texts() const noexcept { return impl_->texts.has_value(); }
std::size_t ImageEmbedder::dimension() const noexcept { return impl_->images.encoder().dimension(); }
std::size_t ImageEmbedder::max_length() const noexcept { return impl_->texts ? impl_->texts->max_length() : 0; }
const std::string& ImageEmbedder::device() const noexcept { return impl_->images.device()->description; }
const std::vector<std::string>& ImageEmbedder::notes() const noexcept { return impl_->notes; }
DeviceMemory ImageEmbedder::memory() const { return impl_->images.device()->backend->memory(); }

namespace {

Error reads_no_texts() {
    return Error{ErrorCode::UnsupportedConfig,
                 "the model sees images only: it has no vectors of texts, as CLIP and SigLIP have"};
}

}  // namespace

Result<ImageEmbedder> ImageEmbedder::load(const std::filesystem::path& folder, const ImageEmbedderOptions& options) {
    VKFORMER_TRY(const auto opened,
                 models::open_model(folder, std::array{models::ModelKind::vision, models::ModelKind::clip}));
    const auto load_images = [&](const models::VisionEncoder& encoder) {
        return api::ImageRunner::load(folder, encoder, api::image_vector_head(encoder, options.normalize), options);
    };
    if (const auto* const vision = std::get_if<models::Opened<models::VisionEncoder>>(&opened)) {
        VKFORMER_TRY(const auto encoder, vision->load());
        VKFORMER_TRY(auto images, load_images(encoder));
        return ImageEmbedder(
            std::make_unique<Impl>(Impl{.images = std::move(images), .texts = {}, .notes = encoder.notes}));
    }
    VKFORMER_TRY(const auto clip, std::get<models::Opened<models::Clip>>(opened).load());
    VKFORMER_TRY(auto images, load_images(clip.vision));
    VKFORMER_TRY(auto texts, api::EncoderRunner::load(folder, clip.text, api::clip_text_head(clip, options.normalize),
                                                      0, options, images.device()));
    if (clip.pads_texts) VKFORMER_CHECK(texts.pad_texts(folder));
    return ImageEmbedder(std::make_unique<Impl>(
        Impl{.images = std::move(images),
             .texts = std::move(texts),
             .logit_scale = clip.logit_scale,
             .logit_bias = clip.logit_bias,
             .problem = clip.is_sigmoid ? models::ProblemType::many_labels : models::ProblemType::one_label,
             .notes = clip.notes}));
}

Result<ImageEmbedder> ImageEmbedder::twin() const {
    VKFORMER_TRY(auto device, api::twin_of(impl_->images.device()));
    auto images = impl_->images.twin(device);
    std::optional<api::EncoderRunner> texts;
    if (impl_->texts) texts = impl_->texts->twin(std::move(device));
    return ImageEmbedder(std::make_unique<Impl>(Impl{.images = std::move(images),
                                                     .texts = std::move(texts),
                                                     .logit_scale = impl_->logit_scale,
                                                     .logit_bias = impl_->logit_bias,
                                                     .problem = impl_->problem,
                                                     .notes = impl_->notes}));
}

Result<std::vector<std::vector<float>>> ImageEmbedder::embed_images(std::span<const Image> images,
                                                                    const Progress& progress) {
    VKFORMER_TRY(auto results, impl_->images.run(images, progress));
    std::vector<std::vector<float>> vectors;
    for (decoding::ImageResult& result : results) vectors.push_back(std::move(result.values));
    return vectors;
}

Result<std::vector<Embedding>> ImageEmbedder::embed_texts(std::span<const std::string> texts,
                                                          const Progress& progress) {
    if (!impl_->texts) return reads_no_texts();
    std::vector<api::EncoderInput> inputs;
    for (const std::string& text : texts) inputs.push_back({.first = text});
    VKFORMER_TRY(auto outputs, impl_->texts->run(inputs, "text", progress));
    std::vector<Embedding> embeddings;
    for (api::EncoderOutput& output : outputs)
        embeddings.push_back({.values = std::move(output.values), .tokens = output.tokens, .cut = output.cut});
    return embeddings;
}

Result<void> ImageEmbedder::check_text(const std::string& text) const {
    if (!impl_->texts) return reads_no_texts();
    return impl_->texts->check({.first = text});
}

namespace {

/// The cosine of the angle between them, whatever their lengths.
double cosine(std::span<const float> a, std::span<const float> b) {
    double dot = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        dot += static_cast<double>(a[i]) * b[i];
        aa += static_cast<double>(a[i]) * a[i];
        bb += static_cast<double>(b[i]) * b[i];
    }
    return dot / std::sqrt(aa * bb);
}

}  // namespace

Result<std::vector<std::vector<float>>> ImageEmbedder::score(std::span<const Image> images,
                                                             std::span<const std::string> texts) {
    VKFORMER_TRY(const auto text_vectors, embed_texts(texts));
    VKFORMER_TRY(const auto image_vectors, embed_images(images));
    std::vector<std::vector<float>> scores;
    for (const auto& image : image_vectors) {
        auto& row = scores.emplace_back();
        for (const Embedding& text : text_vectors)
            row.push_back(static_cast<float>(cosine(image, text.values) * impl_->logit_scale + impl_->logit_bias));
    }
    return scores;
}

std::vector<float> ImageEmbedder::probabilities(std::span<const float> scores) const {
    if (scores.empty()) return {};
    const auto p = probabilities_of(scores, impl_->problem);
    return {p.begin(), p.end()};
}

}  // namespace vkformer
