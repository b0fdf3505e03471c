// SPDX-License-Identifier: MIT
#include "images/image_processor.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/try.hpp"
#include "images/image.hpp"

namespace vkformer::images {
namespace {

using formats::Config;

constexpr std::array<float, 3> kClipMean = {0.48145466f, 0.4578275f, 0.40821073f};
constexpr std::array<float, 3> kClipDeviation = {0.26862954f, 0.26130258f, 0.27577711f};
constexpr std::array<float, 3> kImageNetMean = {0.485f, 0.456f, 0.406f};
constexpr std::array<float, 3> kImageNetDeviation = {0.229f, 0.224f, 0.225f};
constexpr std::array<float, 3> kHalf = {0.5f, 0.5f, 0.5f};

/// A processor of transformers and what it does where its file says nothing.
struct Family {
    std::string_view name;
    TargetSize size;
    bool size_is_shortest;  ///< a size that is one number is that of the shorter side
    Resample filter;
    bool crops;
    std::array<float, 3> mean, deviation;
    bool resizes_values = false;  ///< scaled to 0 to 1 before they are resized, so that nothing is rounded to bytes
};
constexpr std::array<Family, 6> kFamilies = {{
    {"CLIP", {.shortest = 224}, true, Resample::bicubic, true, kClipMean, kClipDeviation},
    {"ViT", {.height = 224, .width = 224}, false, Resample::bilinear, false, kHalf, kHalf},
    {"DeiT", {.height = 256, .width = 256}, false, Resample::bicubic, true, kImageNetMean, kImageNetDeviation},
    {"Bit", {.shortest = 224}, true, Resample::bicubic, true, kClipMean, kClipDeviation},
    {"DINOv3ViT",
     {.height = 224, .width = 224},
     false,
     Resample::bilinear,
     false,
     kImageNetMean,
     kImageNetDeviation,
     true},
    {"Siglip", {.height = 224, .width = 224}, false, Resample::bicubic, false, kHalf, kHalf},
}};

/// By image_processor_type: "CLIPImageProcessor", "CLIPImageProcessorFast", of old feature_extractor_type: "CLIPFeatureExtractor".
Result<const Family*> find_family(const Config& config) {
    const char* const field = config.has("image_processor_type") ? "image_processor_type" : "feature_extractor_type";
    const Result<std::string> named = config.string(field);
    if (!named) return named.error();
    const std::string_view type = *named;
    std::string supported;
    for (const Family& family : kFamilies) {
        if (!type.starts_with(family.name)) continue;
        const std::string_view rest = type.substr(family.name.size());
        if (rest == "ImageProcessor" || rest == "ImageProcessorFast" || rest == "FeatureExtractor") return &family;
    }
    for (const Family& family : kFamilies)
        supported += (supported.empty() ? "" : ", ") + std::string(family.name) + "ImageProcessor";
    return config.unsupported(field, supported);
}

constexpr formats::Expect<std::uint32_t> kSide = {.min = 1, .max = kLargestSide};

/// A size as an object {"height", "width"} or {"shortest_edge"}, or as one number.
Result<TargetSize> read_size(const Config& config, std::string_view name, TargetSize fallback, bool is_shortest) {
    if (!config.has(name)) return fallback;
    if (const auto side = config.unsigned_integer(name, kSide))
        return is_shortest ? TargetSize{.shortest = *side} : TargetSize{.height = *side, .width = *side};
    const auto object = config.object(name);
    if (!object) return config.unsupported(name, "a number, or an object with height and width or with shortest_edge");
    TargetSize size;
    if (object->has("height") && object->has("width") && object->names().size() == 2) {
        VKFORMER_TRY(size.height, object->unsigned_integer("height", kSide));
        VKFORMER_TRY(size.width, object->unsigned_integer("width", kSide));
        return size;
    }
    if (object->has("shortest_edge") && object->names().size() == 1) {
        VKFORMER_TRY(size.shortest, object->unsigned_integer("shortest_edge", kSide));
        return size;
    }
    return config.unsupported(name, "height and width, or shortest_edge");
}

/// Beyond these a processor's numbers are damaged: pixels are 0 to 255, or a fraction of that.
constexpr double kLeastFactor = 1e-6, kLargestMean = 1e3, kLeastDeviation = 1e-3, kLargestDeviation = 1e3;
/// The largest normalised pixel. Models are made for a few; beyond some ten thousands float16 has infinities.
constexpr float kLargestValue = 1e3f;

Result<std::array<float, 3>> read_channels(const Config& config, std::string_view name,
                                           const std::array<float, 3>& fallback, double least, double largest) {
    VKFORMER_TRY(const auto values, config.reals(name));
    if (values.empty()) return fallback;
    if (values.size() != 3) return config.unsupported(name, "three numbers, for red, green and blue");
    for (const double value : values)
        if (value < least || value > largest)
            return config.unsupported(name, "numbers from " + formats::shown(least) + " to " + formats::shown(largest));
    std::array<float, 3> channels{};
    std::ranges::transform(values, channels.begin(), [](double value) { return static_cast<float>(value); });
    return channels;
}

/// `long_side · shortest / short_side`, cut off as transformers does.
std::uint32_t longer_side(std::uint32_t shortest, std::uint32_t long_side, std::uint32_t short_side) {
    const auto product = static_cast<double>(std::uint64_t{shortest} * long_side);
    return static_cast<std::uint32_t>(std::min(product / short_side, double{kLargestSide} + 1));
}

TargetSize size_for(const TargetSize& target, const Image& image) {
    if (target.shortest == 0) return target;
    if (image.width <= image.height)
        return {.height = longer_side(target.shortest, image.height, image.width), .width = target.shortest};
    return {.height = target.shortest, .width = longer_side(target.shortest, image.width, image.height)};
}

/// Errors: CorruptFile, with the size of the image itself: what a shortest side makes of it was in no file.
Result<TargetSize> checked_size(const TargetSize& target, const Image& image) {
    const TargetSize size = size_for(target, image);
    if (target.shortest == 0 || check_size(size.width, size.height)) return size;
    return Error{ErrorCode::CorruptFile, "the image has " + std::to_string(image.width) + " × " +
                                             std::to_string(image.height) +
                                             " pixels, of which the longer side is too long once the shorter one has " +
                                             std::to_string(target.shortest)};
}

/// Where a window of `wanted` starts in a line of `present`, both in pixels: to the left of it where it is larger.
std::int64_t crop_start(std::uint32_t present, std::uint32_t wanted) {
    const std::int64_t spare = std::int64_t{present} - wanted;
    return spare >= 0 ? spare / 2 : -((-spare + 1) / 2);
}

}  // namespace

// Transformers pads with ceil(missing / 2) in front and then cuts from floor((present − wanted) / 2) + that: from 0.
Result<Image> center_crop(const Image& image, std::uint32_t width, std::uint32_t height) {
    VKFORMER_TRY(Image result, make_image(width, height));
    const std::int64_t left = crop_start(image.width, width), top = crop_start(image.height, height);
    const std::int64_t first = std::max<std::int64_t>(left, 0);
    const std::int64_t end = std::min<std::int64_t>(left + width, image.width);
    for (std::int64_t y = 0; y < height; ++y) {
        const std::int64_t from = top + y;
        if (from < 0 || from >= image.height) continue;
        const auto line = image.rgb.begin() + (from * image.width) * 3;
        std::copy(line + first * 3, line + end * 3, result.rgb.begin() + (y * width + first - left) * 3);
    }
    return result;
}

Result<ImageProcessor> ImageProcessor::open(const std::filesystem::path& folder) {
    VKFORMER_TRY(const Config config, Config::open(folder / "preprocessor_config.json"));
    return parse(config);
}

Result<ImageProcessor> ImageProcessor::parse(const Config& config) {
    VKFORMER_TRY(const Family* const family, find_family(config));
    ImageProcessor p;
    VKFORMER_TRY(const bool resizes, config.boolean("do_resize", true));
    if (resizes) {
        VKFORMER_TRY(p.resize_, read_size(config, "size", family->size, family->size_is_shortest));
    }
    VKFORMER_TRY(const auto number, config.unsigned_integer("resample", {.fallback = 99}));
    const auto filter = number == 99 ? family->filter : resample_of(number);
    if (!filter) return config.unsupported("resample", "1 (Lanczos), 2 (bilinear), 3 (bicubic), 4 (box)");
    p.filter_ = *filter;
    p.resizes_values_ = family->resizes_values;
    VKFORMER_TRY(const bool crops, config.boolean("do_center_crop", family->crops));
    if (crops && !family->crops) return config.unsupported("do_center_crop", "false for this processor");
    if (crops) {
        VKFORMER_TRY(p.crop_, read_size(config, "crop_size", {.height = 224, .width = 224}, false));
        if (p.crop_->shortest != 0) return config.unsupported("crop_size", "height and width");
    }
    VKFORMER_TRY(const bool rescales, config.boolean("do_rescale", true));
    if (rescales) {
        VKFORMER_TRY(p.rescale_, config.real("rescale_factor", {.fallback = 1 / 255.0, .min = kLeastFactor, .max = 1}));
    }
    VKFORMER_TRY(const bool normalizes, config.boolean("do_normalize", true));
    if (normalizes) {
        Normalization n;
        VKFORMER_TRY(n.mean, read_channels(config, "image_mean", family->mean, -kLargestMean, kLargestMean));
        VKFORMER_TRY(n.deviation,
                     read_channels(config, "image_std", family->deviation, kLeastDeviation, kLargestDeviation));
        p.normalize_ = n;
        for (const std::uint8_t byte : std::array<std::uint8_t, 2>{0, 255})
            for (std::size_t channel = 0; channel < 3; ++channel)
                if (std::abs(p.value_of(byte, channel)) > kLargestValue)
                    return config.unsupported("image_std", "numbers that leave no pixel above 1000 behind the mean");
    }
    VKFORMER_TRY(const bool pads, config.boolean("do_pad", false));
    if (pads) return config.unsupported("do_pad", "false");
    return p;
}

std::optional<TargetSize> ImageProcessor::output_size() const noexcept {
    if (crop_) return crop_;
    return resize_ && resize_->shortest == 0 ? resize_ : std::nullopt;
}

TargetSize ImageProcessor::size_of(const Image& image) const noexcept {
    if (crop_) return *crop_;
    return resize_ ? size_for(*resize_, image) : TargetSize{.height = image.height, .width = image.width};
}

Result<std::vector<float>> ImageProcessor::process(const Image& image) const {
    if (image.width == 0 || image.height == 0 || image.rgb.size() != std::uint64_t{image.width} * image.height * 3)
        return Error{ErrorCode::InvalidArgument, "an image of " + std::to_string(image.width) + " × " +
                                                     std::to_string(image.height) + " pixels cannot have " +
                                                     std::to_string(image.rgb.size()) + " bytes"};
    if (resize_ && resizes_values_) {
        VKFORMER_TRY(const TargetSize size, checked_size(*resize_, image));
        VKFORMER_TRY(const auto resized, resize_values(image, size.width, size.height, filter_));
        return planes_of(resized);
    }
    Image resized;
    const Image* source = &image;
    if (resize_) {
        VKFORMER_TRY(const TargetSize size, checked_size(*resize_, image));
        VKFORMER_TRY(resized, resize(image, size.width, size.height, filter_));
        source = &resized;
    }
    Image cropped;
    if (crop_) {
        VKFORMER_TRY(cropped, center_crop(*source, crop_->width, crop_->height));
        source = &cropped;
    }
    return planes_of(source->rgb);
}

std::vector<float> ImageProcessor::planes_of(const auto& values) const {
    const std::size_t plane = values.size() / 3;
    std::vector<float> planes(values.size());
    for (std::size_t i = 0; i < plane; ++i)
        for (std::size_t c = 0; c < 3; ++c) planes[c * plane + i] = value_of(values[i * 3 + c], c);
    return planes;
}

float ImageProcessor::value_of(float byte, std::size_t channel) const noexcept {
    const float value = rescale_ ? static_cast<float>(static_cast<double>(byte) * *rescale_) : byte;
    return normalize_ ? (value - normalize_->mean[channel]) / normalize_->deviation[channel] : value;
}

}  // namespace vkformer::images
