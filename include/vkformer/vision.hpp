// SPDX-License-Identifier: MIT
/// Images to labels and to vectors, with a ViT, DeiT or CLIP model from a Hugging Face folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vkformer/attention_weights.hpp"
#include "vkformer/embedder.hpp"
#include "vkformer/export.h"
#include "vkformer/image.hpp"
#include "vkformer/result.hpp"

namespace vkformer {

/// `batch` counts images too; `max_length` counts for texts only.
struct VisionOptions : EncoderOptions {};

struct ImageLabel {
    std::size_t label = 0;  ///< index into ImageClassifier::labels
    float logit = 0;        ///< as the model gives it
    float probability = 0;  ///< softmax over the labels; a sigmoid where any of them may be; the logit of a regression
};

/// A "ViTForImageClassification", "DeiTForImageClassification" or "DeiTForImageClassificationWithTeacher" on a device (config.json,
/// model.safetensors, preprocessor_config.json). Results are those of transformers. Not thread-safe; distinct classifiers are
/// independent of each other.
class VKFORMER_API ImageClassifier {
public:
    /// Errors: FileNotFound, CorruptFile, UnsupportedConfig (also: no classification head), MissingTensor, ShapeMismatch (of the
    /// folder); InvalidArgument (of the options); NoVulkanLoader, NoDevice, MissingFeature (of the device). Never falls back to
    /// another device.
    static Result<ImageClassifier> load(const std::filesystem::path& folder, const VisionOptions& options = {});

    ImageClassifier(ImageClassifier&&) noexcept;
    ImageClassifier& operator=(ImageClassifier&&) noexcept;
    ~ImageClassifier();

    using Progress = Embedder::Progress;

    /// All labels of each image, the likeliest first. Errors: InvalidArgument (an image that is not as large as it says; says which
    /// one), DeviceLost, Vulkan, out of memory.
    Result<std::vector<std::vector<ImageLabel>>> classify(std::span<const Image> images, const Progress& progress = {});

    /// What the patches of an image look at, layer by layer (kind encoder). Token 0 is the class token, of DeiT token 1 that for
    /// distillation; then patches from left to right and from top to bottom. Errors: as of classify.
    Result<std::vector<AttentionWeights>> attention(const Image& image);

    const std::vector<std::string>& labels() const noexcept;  ///< names; "LABEL_3" where the folder has none
    std::size_t patch_rows() const noexcept;                  ///< patches of an image from top to bottom
    std::size_t patch_columns() const noexcept;
    const std::string& device() const noexcept;
    /// What the model's files say that was passed over because nobody knows what it does: fields, keys and tensors, a sentence each. None
    /// of files that are understood to the last field; whoever wants no others refuses a model that has some.
    const std::vector<std::string>& notes() const noexcept;

private:
    struct Impl;
    explicit ImageClassifier(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

struct ClipOptions : VisionOptions {
    bool normalize = true;  ///< vectors of length 1
};

/// A CLIP model on a device: images and texts to vectors of one space (config.json, model.safetensors, preprocessor_config.json,
/// tokenizer.json). Results are those of transformers' CLIPModel. Not thread-safe.
class VKFORMER_API ClipEncoder {
public:
    /// Errors: as of ImageClassifier::load.
    static Result<ClipEncoder> load(const std::filesystem::path& folder, const ClipOptions& options = {});

    ClipEncoder(ClipEncoder&&) noexcept;
    ClipEncoder& operator=(ClipEncoder&&) noexcept;
    ~ClipEncoder();

    using Progress = Embedder::Progress;

    /// One vector per image, in order; of length 1 unless the options say otherwise. Errors: as of ImageClassifier::classify.
    Result<std::vector<std::vector<float>>> embed_images(std::span<const Image> images, const Progress& progress = {});
    /// One vector per text, likewise. Longer texts than the model takes are cut. Errors: as of Embedder::embed.
    Result<std::vector<Embedding>> embed_texts(std::span<const std::string> texts, const Progress& progress = {});
    /// Whether embed_texts() takes this text; nothing is run. Errors: InvalidArgument.
    Result<void> check_text(const std::string& text) const;

    /// CLIPModel's logits_per_image: of each image one number per text, cosine · logit_scale. Their softmax is the zero-shot
    /// classification of Radford et al. 2021, section 3.1.
    Result<std::vector<std::vector<float>>> score(std::span<const Image> images, std::span<const std::string> texts);

    std::size_t dimension() const noexcept;   ///< numbers in a vector
    std::size_t max_length() const noexcept;  ///< tokens of a text
    const std::string& device() const noexcept;
    /// What the model's files say that was passed over because nobody knows what it does: fields, keys and tensors, a sentence each. None
    /// of files that are understood to the last field; whoever wants no others refuses a model that has some.
    const std::vector<std::string>& notes() const noexcept;

private:
    struct Impl;
    explicit ClipEncoder(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

}  // namespace vkformer
