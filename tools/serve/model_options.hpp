// SPDX-License-Identifier: MIT
/// How all models of a server are loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vkformer/adapter.hpp"
#include "vkformer/generator.hpp"
#include "vkformer/precision.hpp"
#include "vkformer/result.hpp"
#include "vkformer/voice_activity.hpp"

namespace vkformer::serve {

/// Of a model's adapters by name: which count, and how much, as of GenerateOptions and Embedder::embed.
using AdapterScales = std::map<std::string, float>;

inline std::vector<std::string> names_of(const std::vector<Adapter>& adapters) {
    std::vector<std::string> names;
    for (const Adapter& adapter : adapters) names.push_back(adapter.name);
    return names;
}

struct ModelOptions {
    std::string device = "auto";
    Precision precision = Precision::f32;
    WeightStorage weights = WeightStorage::model;
    CacheStorage cache = CacheStorage::precision;
    std::uint32_t context = 0;    ///< tokens of a sequence at most; 0: the model's, at most 4096
    std::uint32_t sequences = 8;  ///< that a language model decodes together
    std::uint64_t cache_tokens = 0;
    std::uint32_t prompt_lookup = 0;  ///< as of EngineOptions
    bool plain_shaders = false;
    bool strict = false;     ///< a model is refused whose files have something that nobody knows
    bool on_demand = false;  ///< a model is loaded with its first request
    std::uint64_t memory =
        0;  ///< bytes that models loaded on demand may have together; 0: as many as their devices have
    std::map<std::string, std::string> shader_variants;
    Offload offload;            ///< of each model
    std::filesystem::path vad;  ///< as of TranscriberOptions; a request may do without
    VadOptions vad_parameters;
    /// Language and language of translation models, by the model's name, where their folders do not say: {"opus", {"en", "de"}}.
    std::map<std::string, std::pair<std::string, std::string>> languages;
    std::function<void(const std::string&)> on_progress;
    /// A sound file's bytes to samples of one channel. Errors: CorruptFile, InvalidArgument (too long).
    std::function<Result<std::vector<float>>(std::string_view bytes, std::uint32_t sample_rate)> read_sound;
};

}  // namespace vkformer::serve
