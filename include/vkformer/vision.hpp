// SPDX-License-Identifier: MIT
/// Images to labels and to vectors, with a ViT, DeiT, DINOv2, DINOv3, CLIP or SigLIP model from a Hugging Face folder.
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
#include "vkformer/device_memory.hpp"
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

/// A "ViTForImageClassification", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher", "Dinov2ForImageClassification" or
/// "Dinov2WithRegistersForImageClassification" on a device (config.json, model.safetensors, preprocessor_config.json). Results are those of
/// transformers. Not thread-safe; distinct classifiers are independent of each other.
class VKFORMER_API ImageClassifier {
public:
    /// Errors: FileNotFound, CorruptFile, UnsupportedConfig (also: no classification head), MissingTensor, ShapeMismatch (of the
    /// folder); InvalidArgument (of the options); NoVulkanLoader, NoDevice, MissingFeature (of the device). Never falls back to
    /// another device.
    static Result<ImageClassifier> load(const std::filesystem::path& folder, const VisionOptions& options = {});

    /// Another one of the same model for another thread: it shares the weights, in the device's memory too, and has programs and
    /// caches of its own; either may end first. It has the same options: on_progress and should_stop are called by both, on the thread
    /// whose call it is. Not while this one is at work. Errors: DeviceLost, Vulkan, out of memory.
    Result<ImageClassifier> twin() const;

    ImageClassifier(ImageClassifier&&) noexcept;
    ImageClassifier& operator=(ImageClassifier&&) noexcept;
    ~ImageClassifier();

    using Progress = Embedder::Progress;

    /// All labels of each image, the likeliest first. Errors: InvalidArgument (an image that is not as large as it says; says which
    /// one), DeviceLost, Vulkan, out of memory.
    Result<std::vector<std::vector<ImageLabel>>> classify(std::span<const Image> images, const Progress& progress = {});

    /// What the patches of an image look at, layer by layer (kind encoder). Token 0 is the class token, of DeiT token 1 that for
    /// distillation, of DINO with registers those from 1 on; then patches from left to right and from top to bottom. Errors: as of
    /// classify.
    Result<std::vector<AttentionWeights>> attention(const Image& image);

    const std::vector<std::string>& labels() const noexcept;  ///< names; "LABEL_3" where the folder has none
    std::size_t patch_rows() const noexcept;                  ///< patches of an image from top to bottom
    std::size_t patch_columns() const noexcept;
    const std::string& device() const noexcept;
    /// What the model's files say that was passed over because nobody knows what it does: fields, keys and tensors, a sentence each. None
    /// of files that are understood to the last field; whoever wants no others refuses a model that has some.
    const std::vector<std::string>& notes() const noexcept;
    DeviceMemory memory() const;  ///< may be called from any thread

private:
    struct Impl;
    explicit ImageClassifier(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

struct ImageEmbedderOptions : VisionOptions {
    bool normalize = true;  ///< vectors of length 1
};

/// A vision model on a device: images to vectors (config.json, model.safetensors, preprocessor_config.json) and, with a CLIP or SigLIP,
/// texts to vectors of the same space (tokenizer.json). An image's vector is transformers' get_image_features() of CLIP and SigLIP, and
/// otherwise the last hidden state of the class token, behind the norm. Not thread-safe.
class VKFORMER_API ImageEmbedder {
public:
    /// Errors: as of ImageClassifier::load, for a model with or without a classification head.
    static Result<ImageEmbedder> load(const std::filesystem::path& folder, const ImageEmbedderOptions& options = {});

    /// As of ImageClassifier.
    Result<ImageEmbedder> twin() const;

    ImageEmbedder(ImageEmbedder&&) noexcept;
    ImageEmbedder& operator=(ImageEmbedder&&) noexcept;
    ~ImageEmbedder();

    using Progress = Embedder::Progress;

    /// One vector per image, in order; of length 1 unless the options say otherwise. Errors: as of ImageClassifier::classify.
    Result<std::vector<std::vector<float>>> embed_images(std::span<const Image> images, const Progress& progress = {});

    /// Whether the model is a CLIP or SigLIP. The functions of texts give UnsupportedConfig where it is not.
    bool reads_texts() const noexcept;
    /// One vector per text, likewise. Longer texts than the model takes are cut. Errors: also those of Embedder::embed.
    Result<std::vector<Embedding>> embed_texts(std::span<const std::string> texts, const Progress& progress = {});
    /// Whether embed_texts() takes this text; nothing is run. Errors: also InvalidArgument.
    Result<void> check_text(const std::string& text) const;

    /// The models' logits_per_image: of each image one number per text, cosine · logit_scale + logit_bias.
    Result<std::vector<std::vector<float>>> score(std::span<const Image> images, std::span<const std::string> texts);
    /// What they say of each image: of CLIP their softmax over the texts, the zero-shot classification of Radford et al. 2021, section
    /// 3.1; of SigLIP the sigmoid of each, whatever the other texts are (Zhai et al. 2023, section 3.2). `scores`: as score() gives them.
    std::vector<float> probabilities(std::span<const float> scores) const;

    std::size_t dimension() const noexcept;   ///< numbers in a vector
    std::size_t max_length() const noexcept;  ///< tokens of a text; 0 where none is read
    const std::string& device() const noexcept;
    /// What the model's files say that was passed over because nobody knows what it does: fields, keys and tensors, a sentence each. None
    /// of files that are understood to the last field; whoever wants no others refuses a model that has some.
    const std::vector<std::string>& notes() const noexcept;
    DeviceMemory memory() const;  ///< may be called from any thread

private:
    struct Impl;
    explicit ImageEmbedder(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

}  // namespace vkformer
