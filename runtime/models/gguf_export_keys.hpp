// SPDX-License-Identifier: MIT
// A folder of the Hugging Face layout on its way into a GGUF file: which architecture it becomes, and what its keys say.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/config.hpp"
#include "formats/gguf_writer.hpp"
#include "models/decoder_loading.hpp"
#include "models/gguf_architecture.hpp"
#include "models/gguf_export.hpp"
#include "vkformer/result.hpp"

namespace vkformer::models {

/// What transformers calls an architecture, and what its folders differ in.
struct GgufSource {
    std::string_view model_type;
    const GgufArchitecture& architecture;
    std::string_view activation = "hidden_act";
    RopeDefaults rope = {};
    bool has_biases = false;  ///< llama.cpp reads those of attention and of feed-forward layers
};

/// Errors: UnsupportedConfig (a model_type that is not converted), CorruptFile.
Result<const GgufSource*> gguf_source_of(const formats::Config& config);
/// Files of some types of models are of one architecture or another.
const GgufArchitecture& gguf_architecture_of(const GgufSource& source, const DecoderConfig& config);
/// The rope of a config, if llama.cpp turns positions so for the architecture. Errors: UnsupportedConfig, CorruptFile.
Result<RopeSource> representable_rope(const GgufSource& source, const formats::Config& json);

/// A model of a folder on its way into a file.
struct GgufSourceModel {
    const GgufSource& source;
    const GgufArchitecture& architecture;
    const formats::Config& json;  ///< the object that holds the decoder's fields
    const RopeSource& rope;
    const Decoder& decoder;
    const DecoderConfig& config = decoder.config();

    std::string key(std::string_view name) const { return std::string(architecture.name) + "." + std::string(name); }
    std::uint32_t window() const { return std::ranges::max(config.layers, {}, &DecoderConfig::Layer::window).window; }
    bool is(std::string_view name) const { return architecture.name == name; }
    bool ties_head() const { return is_same(decoder.weights().lm_head.weight, decoder.weights().embedding); }
    bool attends(std::size_t layer) const { return config.layers[layer].mixer == DecoderConfig::Mixer::attention; }
    /// Layers from one with attention to the next, of a hybrid whose others have a delta rule.
    std::uint32_t attention_interval() const {
        std::uint32_t layer = 0;
        while (!attends(layer)) ++layer;  // there is one
        return layer + 1;
    }
};

/// What a file of the architecture says by its name alone has to be so. Errors: UnsupportedConfig, by the folder's field.
Result<void> check_representable(const GgufSourceModel& model);
/// The keys of all but the rope. Errors: those of Config.
Result<void> set_metadata(const GgufSourceModel& model, formats::GgufMetadata& metadata);
/// The rope's keys, and tensors of its frequencies where it is scaled by those. Errors likewise, UnsupportedConfig.
Result<void> add_ropes(const GgufSourceModel& model, GgufContents& contents);

}  // namespace vkformer::models
