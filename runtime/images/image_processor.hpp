// SPDX-License-Identifier: MIT
/// What is done to a picture before a model sees it, as preprocessor_config.json says it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "formats/config.hpp"
#include "images/resample.hpp"

namespace vkformer::images {

/// Pixels; a `shortest` and no more: the shorter side becomes that, the other keeps the shape.
struct TargetSize {
    std::uint32_t height = 0, width = 0;
    std::uint32_t shortest = 0;
};

/// The steps of Hugging Face's image processors of CLIP, SigLIP, ViT, DeiT, DINOv2 (BitImageProcessor) and DINOv3, in their order. A plain
/// value.
class ImageProcessor {
public:
    /// The file of a folder. Its old spellings count too (feature_extractor_type, a size that is one number). Errors: FileNotFound,
    /// CorruptFile, UnsupportedConfig (a processor or a field that would change the pixels and is not implemented, by name).
    static Result<ImageProcessor> open(const std::filesystem::path& folder);
    static Result<ImageProcessor> parse(const formats::Config& config);

    /// f32 [3, height, width]. Errors: InvalidArgument (a picture that is not as large as it says), and CorruptFile beyond the limits
    /// of make_image.
    Result<std::vector<float>> process(const Image& image) const;

    /// The size of what process gives; none where it depends on the picture.
    std::optional<TargetSize> output_size() const noexcept;
    /// The size of what process gives of this picture.
    TargetSize size_of(const Image& image) const noexcept;

    /// What becomes of each channel: (value − mean) / deviation; values are 0 to 1.
    struct Normalization {
        std::array<float, 3> mean{}, deviation{};
    };
    /// None: the values stay.
    const std::optional<Normalization>& normalization() const noexcept { return normalize_; }

private:
    float value_of(float byte, std::size_t channel) const noexcept;
    /// The values of line by line, three for each pixel, as planes. Each step rounds to float32, as transformers does.
    std::vector<float> planes_of(const auto& values) const;

    std::optional<TargetSize> resize_;
    bool resizes_values_ = false;  ///< without rounding to bytes
    Resample filter_ = Resample::bilinear;
    std::optional<TargetSize> crop_;
    std::optional<double> rescale_;
    std::optional<Normalization> normalize_;
};

/// The part of that size in the middle; what lies outside of the image is black.
Result<Image> center_crop(const Image& image, std::uint32_t width, std::uint32_t height);

}  // namespace vkformer::images
