// SPDX-License-Identifier: MIT
/// The decoder architectures of GGUF files, and what a file of each says by its name alone: for reading and for writing.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "models/decoder.hpp"

namespace vkformer::models {

/// Whether files of an architecture have experts, and whether the weights of a token's are made to sum up to 1.
enum class GgufExperts : std::uint8_t { none, plain, normalised };

/// Whether attention and feed-forward layers stand side by side: behind one norm, or behind a norm each where a key says so.
enum class GgufParallel : std::uint8_t { no, behind_one_norm, by_key };

struct GgufArchitecture {
    std::string_view name;
    graph::RopePairing pairing;
    bool is_gemma = false;
    bool is_gemma4 = false;
    bool is_gemma3n = false;  ///< beside is_gemma4: what layers of both have is named alike
    bool is_plain = false;  ///< layer norms, and feed-forward layers without gates
    bool learned_positions = false;
    std::uint32_t window_pattern =
        1;  ///< layers from one without a window to the next; 1: all have the window, if there is one
    std::uint32_t rope_pattern = 0;  ///< > 0: layers from one without rotary positions to the next
    double rope_theta = 1e4;         ///< where no key says it
    double window_rope_theta = 0;    ///< > 0: layers with a window turn by another theta, this one where no key says it
    bool turns_windows_only = false;  ///< where there are windows, layers without one know no positions
    bool stretches_windows = true;   ///< scaled positions are those of layers with a window, too
    bool needs_result_norms = false;  ///< norms are before both parts and behind them
    bool norms_results = false;  ///< norms are behind attention and feed-forward layers, before what they give is added
    GgufParallel parallel = GgufParallel::no;
    bool has_long_rope = false;      ///< a file with a factor for attention has LongRoPE, whatever it calls it
    bool joins_gate_and_up = false;  ///< the gate's rows come before those of ffn_up, in one tensor
    GgufExperts experts = GgufExperts::none;  ///< in layers that have a router
    bool is_lfm2 = false;  ///< short convolutions in layers that have them, a final norm with a name of its own
    /// > 0: experts are scored by sigmoids and chosen with a bias where there is one; the sum of a token's gets this much.
    float sigmoid_sum = 0;
    bool has_choice_bias = false;  ///< experts are chosen with a bias, though scored by a softmax
    bool is_qwen_hybrid = false;  ///< a delta rule in layers that have one, and gated attention
    bool delta_in_turns = false;  ///< as of graph::GatedDeltaOptions
    bool is_gpt_oss = false;      ///< experts with clamped gates, norms before both parts with names of its own
    bool has_scans = false;       ///< Mamba-2 in layers that have it
    /// A layer is a mixer or feed-forward layers, with one norm; no positions are turned, and relu² stands in place of gates.
    bool has_single_parts = false;
    bool is_granite = false;              ///< factors of embeddings, of what layers add, and of logits
    bool has_latent_attention = false;
    bool has_grouped_experts = false;     ///< DeepSeek's: the keys describe their router and groups
    bool turns_before_norms = false;      ///< as of DecoderConfig
    bool is_cohere = false;               ///< layer norms, and a factor of logits
    bool norms_second_by_first = false;   ///< the norm before the feed-forward layers is called after what it follows
    bool has_own_head = false;            ///< llama.cpp takes no table of tokens for a head that is missing
    std::uint32_t wide_scale_layers = 0;  ///< a model of so many layers scales its scores by hidden_size / heads

    constexpr graph::Activation activation() const {
        if (has_single_parts) return graph::Activation::relu_squared;
        return is_gemma || is_plain ? graph::Activation::gelu_tanh : graph::Activation::silu;
    }
    constexpr bool has_window(std::size_t layer) const {
        return window_pattern == 1 || (layer + 1) % window_pattern != 0;
    }
    constexpr bool has_rope(std::size_t layer) const {
        return !learned_positions && !has_single_parts && (rope_pattern == 0 || (layer + 1) % rope_pattern != 0);
    }
    /// The norm before the feed-forward layers is called after what it follows.
    constexpr bool norms_behind_attention() const { return is_gpt_oss || is_qwen_hybrid || norms_second_by_first; }
    constexpr bool has_layer_norms() const { return is_plain || is_cohere; }
    /// What the scores are multiplied with where no key says it.
    double attention_scale(const DecoderConfig& c) const {
        if (is_gemma4) return 1;
        if (c.latent) return 1 / std::sqrt(static_cast<double>(c.latent.query_dim()));
        const bool is_wide = c.layers.size() == wide_scale_layers;
        return 1 / std::sqrt(static_cast<double>(is_wide ? c.hidden_size / c.heads : c.head_dim));
    }
};

inline constexpr GgufArchitecture kGgufLlama = {
    .name = "llama", .pairing = graph::RopePairing::interleaved, .experts = GgufExperts::normalised};  // Mixtral's
inline constexpr GgufArchitecture kGgufSmolLm3 = {
    .name = "smollm3", .pairing = graph::RopePairing::interleaved, .rope_pattern = 4};
inline constexpr GgufArchitecture kGgufQwen2 = {.name = "qwen2", .pairing = graph::RopePairing::halves};
inline constexpr GgufArchitecture kGgufQwen3 = {.name = "qwen3", .pairing = graph::RopePairing::halves};
inline constexpr GgufArchitecture kGgufQwen2Moe = {
    .name = "qwen2moe", .pairing = graph::RopePairing::halves, .experts = GgufExperts::plain, .has_own_head = true};
inline constexpr GgufArchitecture kGgufQwen3Moe = {
    .name = "qwen3moe", .pairing = graph::RopePairing::halves, .experts = GgufExperts::normalised};
inline constexpr GgufArchitecture kGgufOlmoe = {
    .name = "olmoe", .pairing = graph::RopePairing::halves, .experts = GgufExperts::plain, .has_own_head = true};
inline constexpr GgufArchitecture kGgufGptOss = {.name = "gpt-oss",
                                                 .pairing = graph::RopePairing::halves,
                                                 .window_pattern = 2,
                                                 .experts = GgufExperts::normalised,
                                                 .is_gpt_oss = true,
                                                 .has_own_head = true};
inline constexpr GgufArchitecture kGgufLfm2 = {.name = "lfm2", .pairing = graph::RopePairing::halves, .is_lfm2 = true};
inline constexpr GgufArchitecture kGgufLfm2Moe = {.name = "lfm2moe",
                                                  .pairing = graph::RopePairing::halves,
                                                  .experts = GgufExperts::normalised,
                                                  .is_lfm2 = true,
                                                  .sigmoid_sum = 1e-6f};
inline constexpr GgufArchitecture kGgufQwen3Next = {.name = "qwen3next",
                                                    .pairing = graph::RopePairing::halves,
                                                    .experts = GgufExperts::normalised,
                                                    .is_qwen_hybrid = true};
inline constexpr GgufArchitecture kGgufQwen35 = {
    .name = "qwen35", .pairing = graph::RopePairing::halves, .is_qwen_hybrid = true, .delta_in_turns = true};
inline constexpr GgufArchitecture kGgufQwen35Moe = {.name = "qwen35moe",
                                                    .pairing = graph::RopePairing::halves,
                                                    .experts = GgufExperts::normalised,
                                                    .is_qwen_hybrid = true,
                                                    .delta_in_turns = true};
inline constexpr GgufArchitecture kGgufGranite = {
    .name = "granite", .pairing = graph::RopePairing::interleaved, .is_granite = true};
inline constexpr GgufArchitecture kGgufGraniteMoe = {.name = "granitemoe",
                                                     .pairing = graph::RopePairing::interleaved,
                                                     .experts = GgufExperts::normalised,
                                                     .is_granite = true};
inline constexpr GgufArchitecture kGgufGraniteHybrid = {.name = "granitehybrid",
                                                        .pairing = graph::RopePairing::interleaved,
                                                        .experts = GgufExperts::normalised,
                                                        .has_scans = true,
                                                        .is_granite = true};
inline constexpr GgufArchitecture kGgufNemotronH = {
    .name = "nemotron_h", .pairing = graph::RopePairing::halves, .has_scans = true, .has_single_parts = true};
inline constexpr GgufArchitecture kGgufNemotronHMoe = {.name = "nemotron_h_moe",
                                                       .pairing = graph::RopePairing::halves,
                                                       .experts = GgufExperts::normalised,
                                                       .sigmoid_sum = 1e-20f,
                                                       .has_scans = true,
                                                       .has_single_parts = true};
inline constexpr GgufArchitecture kGgufDeepseek2 = {.name = "deepseek2",
                                                    .pairing = graph::RopePairing::interleaved,
                                                    .experts = GgufExperts::plain,
                                                    .has_latent_attention = true,
                                                    .has_grouped_experts = true};
inline constexpr GgufArchitecture kGgufPhi3 = {
    .name = "phi3", .pairing = graph::RopePairing::halves, .has_long_rope = true, .joins_gate_and_up = true};
inline constexpr GgufArchitecture kGgufGemma = {
    .name = "gemma", .pairing = graph::RopePairing::halves, .is_gemma = true};
inline constexpr GgufArchitecture kGgufGemma2 = {.name = "gemma2",
                                                 .pairing = graph::RopePairing::halves,
                                                 .is_gemma = true,
                                                 .window_pattern = 2,
                                                 .wide_scale_layers = 46};  // of 27 billion weights
inline constexpr GgufArchitecture kGgufGemma3 = {.name = "gemma3",
                                                 .pairing = graph::RopePairing::halves,
                                                 .is_gemma = true,
                                                 .window_pattern = 6,
                                                 .rope_theta = 1e6,
                                                 .window_rope_theta = 1e4,
                                                 .wide_scale_layers = 62};  // of 27 billion weights
inline constexpr GgufArchitecture kGgufGemma4 = {.name = "gemma4",
                                                 .pairing = graph::RopePairing::halves,
                                                 .is_gemma = true,
                                                 .is_gemma4 = true,
                                                 .window_pattern = 6,
                                                 .rope_theta = 1e6,
                                                 .window_rope_theta = 1e4,
                                                 .experts = GgufExperts::normalised};
inline constexpr GgufArchitecture kGgufGemma3n = {.name = "gemma3n",
                                                  .pairing = graph::RopePairing::halves,
                                                  .is_gemma = true,
                                                  .is_gemma4 = true,
                                                  .is_gemma3n = true,
                                                  .window_pattern = 5,
                                                  .rope_theta = 1e6,
                                                  .window_rope_theta = 1e4};
inline constexpr GgufArchitecture kGgufGpt2 = {
    .name = "gpt2", .pairing = graph::RopePairing::halves, .is_plain = true, .learned_positions = true};
inline constexpr GgufArchitecture kGgufStarcoder2 = {
    .name = "starcoder2", .pairing = graph::RopePairing::halves, .is_plain = true};
inline constexpr GgufArchitecture kGgufPhi2 = {
    .name = "phi2", .pairing = graph::RopePairing::halves, .is_plain = true, .parallel = GgufParallel::behind_one_norm};
inline constexpr GgufArchitecture kGgufGptNeox = {
    .name = "gptneox", .pairing = graph::RopePairing::halves, .is_plain = true, .parallel = GgufParallel::by_key};
inline constexpr GgufArchitecture kGgufOlmo2 = {.name = "olmo2",
                                                .pairing = graph::RopePairing::halves,
                                                .window_pattern = 4,
                                                .stretches_windows = false,
                                                .norms_results = true,
                                                .has_own_head = true};
inline constexpr GgufArchitecture kGgufGlm4 = {
    .name = "glm4", .pairing = graph::RopePairing::interleaved, .needs_result_norms = true, .joins_gate_and_up = true};
inline constexpr GgufArchitecture kGgufGlm4Moe = {.name = "glm4moe",
                                                  .pairing = graph::RopePairing::halves,
                                                  .experts = GgufExperts::plain,
                                                  .sigmoid_sum = 1e-20f,
                                                  .has_grouped_experts = true,
                                                  .norms_second_by_first = true};
inline constexpr GgufArchitecture kGgufSeedOss = {
    .name = "seed_oss", .pairing = graph::RopePairing::halves, .norms_second_by_first = true};
inline constexpr GgufArchitecture kGgufExaone4 = {.name = "exaone4",
                                                  .pairing = graph::RopePairing::halves,
                                                  .window_pattern = 4,
                                                  .turns_windows_only = true,
                                                  .norms_results = true};
inline constexpr GgufArchitecture kGgufHunyuanDense = {
    .name = "hunyuan-dense", .pairing = graph::RopePairing::halves, .turns_before_norms = true};
inline constexpr GgufArchitecture kGgufErnie = {.name = "ernie4_5", .pairing = graph::RopePairing::interleaved};
inline constexpr GgufArchitecture kGgufErnieMoe = {.name = "ernie4_5-moe",
                                                   .pairing = graph::RopePairing::interleaved,
                                                   .experts = GgufExperts::normalised,
                                                   .has_choice_bias = true};
inline constexpr GgufArchitecture kGgufCommandR = {.name = "command-r",
                                                   .pairing = graph::RopePairing::interleaved,
                                                   .parallel = GgufParallel::behind_one_norm,
                                                   .is_cohere = true};
inline constexpr GgufArchitecture kGgufCohere2 = {.name = "cohere2",
                                                  .pairing = graph::RopePairing::interleaved,
                                                  .window_pattern = 4,
                                                  .turns_windows_only = true,
                                                  .parallel = GgufParallel::behind_one_norm,
                                                  .is_cohere = true};

}  // namespace vkformer::models
