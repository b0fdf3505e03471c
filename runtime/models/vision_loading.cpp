// SPDX-License-Identifier: MIT
#include "models/vision_loading.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/try.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

constexpr std::uint32_t kLargestSide = 1u << 14;  // pixels
constexpr std::uint64_t kMostTokens = 1u << 16;   // attention of any image takes tokens²

}  // namespace

Result<Extent> read_extent(const Config& config, std::string_view name, std::uint32_t fallback) {
    const formats::Expect<std::uint32_t> expect = {.fallback = fallback, .min = 1, .max = kLargestSide};
    const auto single = config.unsigned_integer(name, expect);
    if (single) return Extent{*single, *single};
    const auto list = config.reals(name);
    if (!list) return single.error();  // neither a number nor a list of them
    const auto is_side = [](double side) { return side >= 1 && side <= kLargestSide && side == std::floor(side); };
    if (list->size() != 2 || !is_side((*list)[0]) || !is_side((*list)[1]))
        return config.unsupported(name, "a number of pixels, or a list of two: height and width");
    return Extent{static_cast<std::uint32_t>((*list)[0]), static_cast<std::uint32_t>((*list)[1])};
}

Result<void> read_image_sizes(const Config& config, std::uint32_t image, std::uint32_t patch, VisionConfig& c) {
    VKFORMER_TRY(const Extent whole, read_extent(config, "image_size", image));
    VKFORMER_TRY(const Extent part, read_extent(config, "patch_size", patch));
    VKFORMER_TRY(c.channels, config.unsigned_integer("num_channels", {.fallback = 3, .min = 1, .max = 1024}));
    c.image_height = whole.height, c.image_width = whole.width;
    c.patch_height = part.height, c.patch_width = part.width;
    if (part.height > whole.height || part.width > whole.width)
        return config.unsupported(
            "patch_size", "at most image_size, " + std::to_string(whole.height) + " × " + std::to_string(whole.width));
    const std::uint64_t patches = std::uint64_t{c.patch_rows()} * c.patch_columns();
    if (patches + c.special_tokens > kMostTokens)
        return config.unsupported(
            "patch_size", "at most " + std::to_string(kMostTokens) + " patches, these are " + std::to_string(patches));
    return {};
}

Result<TensorData> read_patches(const WeightReader& read, const std::string& name, const VisionConfig& c) {
    VKFORMER_TRY(TensorData data, read.tensor(name, {c.hidden_size, c.channels, c.patch_height, c.patch_width}));
    data.shape = {c.hidden_size, c.patch_elements()};
    return data;
}

Result<TensorData> embed_places(const VisionConfig& c, const TensorData& positions,
                                const std::vector<TensorData>& special_tokens, const TensorData& bias) {
    VKFORMER_TRY(std::vector<float> values, floats_of(positions));
    const auto table = std::make_shared<std::vector<float>>(std::move(values));
    const std::size_t width = c.hidden_size;
    const auto add_to = [&](std::size_t token, const std::vector<float>& addend) {
        for (std::size_t i = 0; i < width; ++i) (*table)[token * width + i] += addend[i];
    };
    for (std::size_t token = 0; token < special_tokens.size(); ++token) {
        VKFORMER_TRY(const std::vector<float> special, floats_of(special_tokens[token]));
        add_to(token, special);
    }
    if (!bias.bytes.empty()) {
        VKFORMER_TRY(const std::vector<float> every, floats_of(bias));
        for (std::size_t token = special_tokens.size(); token < c.tokens(); ++token) add_to(token, every);
    }
    return TensorData{
        .dtype = DType::f32, .shape = {c.tokens(), width}, .bytes = std::as_bytes(std::span(*table)), .owner = table};
}

}  // namespace vkformer::models
