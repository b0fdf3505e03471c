// SPDX-License-Identifier: MIT
/// What the loading functions of the decoder architectures share: typed access to their tensors, and the fields that most of
/// their config.json have in common.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/config.hpp"
#include "formats/gguf.hpp"
#include "formats/weights.hpp"
#include "models/decoder.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {

struct GgufArchitecture;

struct DecoderParts {
    DecoderConfig config;
    DecoderWeights weights;
};

// One loading function per architecture: the fields of config.json that change the arithmetic are honoured or refused by name,
// every weight is there with the shape that the config gives it. Errors: CorruptFile, UnsupportedConfig, UnsupportedDtype,
// MissingTensor, ShapeMismatch.
Result<DecoderParts> load_llama(
    const formats::Config& config,
    const formats::Weights& weights);  // Llama, Mistral, SmolLM 2, 3, Seed-OSS, Hunyuan, ERNIE 4.5
Result<DecoderParts> load_qwen(const formats::Config& config, const formats::Weights& weights);  // Qwen 2, 2.5, 3
Result<DecoderParts> load_gemma(const formats::Config& config,
                                const formats::Weights& weights);  // Gemma 1, 2, 3 (text)
Result<DecoderParts> load_gemma4(const formats::Config& config, const formats::Weights& weights);  // its text part
Result<DecoderParts> load_gemma3n(const formats::Config& config, const formats::Weights& weights);  // its text part
Result<DecoderParts> load_phi3(const formats::Config& config, const formats::Weights& weights);
Result<DecoderParts> load_gpt2(const formats::Config& config, const formats::Weights& weights);
Result<DecoderParts> load_gpt_neox(const formats::Config& config, const formats::Weights& weights);  // GPT-NeoX, Pythia
Result<DecoderParts> load_gptj(const formats::Config& config, const formats::Weights& weights);
Result<DecoderParts> load_phi(const formats::Config& config, const formats::Weights& weights);  // Phi-1, 1.5, 2
Result<DecoderParts> load_opt(const formats::Config& config, const formats::Weights& weights);
Result<DecoderParts> load_starcoder2(const formats::Config& config, const formats::Weights& weights);
Result<DecoderParts> load_olmo(const formats::Config& config,
                               const formats::Weights& weights);  // OLMo 2 and 3, EXAONE 4
Result<DecoderParts> load_mixtral(const formats::Config& config,
                                  const formats::Weights& weights);  // Mixtral, Phi-3.5-MoE
Result<DecoderParts> load_qwen_moe(const formats::Config& config, const formats::Weights& weights);  // Qwen 2 and 3
Result<DecoderParts> load_olmoe(const formats::Config& config, const formats::Weights& weights);
Result<DecoderParts> load_gpt_oss(const formats::Config& config, const formats::Weights& weights);
Result<DecoderParts> load_granite(
    const formats::Config& config,
    const formats::Weights& weights);  // Granite 3 and 4, mixtures of experts, hybrids; Bamba
Result<DecoderParts> load_nemotron_h(const formats::Config& config,
                                     const formats::Weights& weights);  // Nemotron-H, Nemotron Nano 2 and 3
Result<DecoderParts> load_lfm2(const formats::Config& config, const formats::Weights& weights);  // LFM2 and LFM2-MoE
Result<DecoderParts> load_qwen_hybrid(const formats::Config& config,
                                      const formats::Weights& weights);  // Qwen3-Next, and Qwen 3.5 (text)
Result<DecoderParts> load_deepseek(const formats::Config& config,
                                   const formats::Weights& weights);  // DeepSeek-V2, V2-Lite, V3, R1
Result<DecoderParts> load_glm(const formats::Config& config, const formats::Weights& weights);  // GLM-4, 4.5 and 4.6
Result<DecoderParts> load_ernie_moe(const formats::Config& config, const formats::Weights& weights);  // ERNIE 4.5
Result<DecoderParts> load_cohere(const formats::Config& config,
                                 const formats::Weights& weights);  // Command R, R7B, A; Aya

// Heads that guess, beside a model's own layers (HandoverWeights): a decoder of their one layer, with the model's tables where the files
// have no others. Errors: those of the functions above, and UnsupportedConfig (there is no such head).
Result<DecoderParts> load_deepseek_head(const formats::Config& config, const formats::Weights& weights,
                                        const DecoderWeights& model);
Result<DecoderParts> load_glm_head(const formats::Config& config, const formats::Weights& weights,
                                   const DecoderWeights& model);
Result<DecoderParts> load_qwen_head(const formats::Config& config, const formats::Weights& weights,
                                    const DecoderWeights& model);
Result<DecoderParts> load_gguf_head(const formats::Gguf& file, const GgufArchitecture& architecture,
                                    const DecoderWeights& model);

/// Heeds `is_causal` of a config, of whatever architecture: with false, tokens see what follows them too, and a window reaches as far to
/// either side, its ends included. Errors: CorruptFile.
Result<void> read_causality(const formats::Config& config, DecoderConfig& decoder);
/// The same of a GGUF file's `<architecture>.attention.causal`. Errors: also UnsupportedConfig (there are windows).
Result<void> read_causality(const formats::Gguf& file, const GgufArchitecture& architecture, DecoderConfig& decoder);

/// What a loading function gave, if a language model can come of it. Errors: UnsupportedConfig (tokens see what follows them),
/// MissingTensor (there is no lm_head).
Result<DecoderParts> language_model(const formats::Config& config, const formats::Weights& weights, DecoderParts parts);

/// Errors: UnsupportedConfig (no layer has attention, whose caches sessions keep their place by).
Result<void> check_attention(const std::string& file_name, const DecoderConfig& config);

/// A GGUF file of this architecture. Errors likewise.
Result<DecoderParts> load_gguf_decoder(const formats::Gguf& file, const GgufArchitecture& architecture);

/// What an architecture makes up where a config says nothing.
struct SizeDefaults {
    std::uint32_t positions = 2048;
    std::uint32_t head_dim = 0;                           ///< 0: hidden_size / num_attention_heads
    std::uint32_t kv_heads = 0;                           ///< 0: num_attention_heads
    std::optional<std::uint32_t> intermediate_size = {};  ///< none: it has to be said; 0: the caller reads it
    std::optional<std::uint32_t> layers = {};             ///< likewise
    double norm_eps = 1e-6;
};
/// The sizes under their usual names: vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
/// num_key_value_heads, head_dim, max_position_embeddings, rms_norm_eps. Layers see everything.
Result<DecoderConfig> read_sizes(const formats::Config& config, const SizeDefaults& defaults = {});

/// What an architecture makes of a config's rotary positions.
struct RopeDefaults {
    double theta = 10000;                        ///< where the config says none
    std::string_view theta_name = "rope_theta";  ///< of the config; in an object it is rope_theta
    std::string_view object = {};  ///< of rope_parameters that is this rope, "full_attention"; empty: all of it
    bool turns_part = false;       ///< heeds partial_rotary_factor; others turn whole heads, as transformers 5 does
    double turned_part = 1;        ///< of a head, where the config says none
    bool is_scaled_by_rope_scaling = true;  ///< rope_scaling is about this rope
    const char* type = "default";           ///< where the config says none
};

/// rope_theta with rope_scaling, or rope_parameters, as transformers 4.57 and 5 write them: default, linear, llama3, yarn,
/// proportional (the first partial_rotary_factor of a head's frequencies, and zeros behind them) and longrope (max_positions shrinks to the
/// original context, extended_positions and extended_ropes are what lies beyond). Where both are there, rope_scaling holds, as in
/// transformers 5; errors in either are errors, and so is a rope_theta that would be lost.
Result<Rope> read_rope(const formats::Config& config, DecoderConfig& decoder, const RopeDefaults& defaults = {});

/// Where a config says how positions turn, by the rules of read_rope.
struct RopeSource {
    formats::Config scaling;  ///< rope_parameters, the object of it, or rope_scaling; it may have no field
    std::string type;         ///< "default" where it says none
    double theta;
};
Result<RopeSource> find_rope(const formats::Config& config, const RopeDefaults& defaults = {});

/// Position interpolation (Chen et al. 2023): positions are divided by the factor.
void stretch_linear(Rope& rope, double factor);

/// YaRN (Peng et al. 2023, section 3.2): waves that turn at most `slow` times within the original context are stretched, those
/// that turn `fast` times or more are not, those between partly. Sets the scale of eq. 15 too.
struct Yarn {
    double theta, factor, context;
    double fast = 32, slow = 1;
    bool truncates = true;  ///< the borders are whole dimensions
};
void stretch_yarn(Rope& rope, const Yarn& yarn);

/// YaRN's scale of queries and keys: 1 + 0.1 · weight · ln(factor), and 1 where nothing is stretched. DeepSeek has weights of its own for
/// what is turned and for all of a head.
double yarn_scale(double factor, double weight);

/// Which layers have experts, of those that have some by read_expert_counts: decoder_sparse_step and mlp_only_layers.
Result<void> read_dense_layers(const formats::Config& config, DecoderConfig& decoder);

/// How many experts there are and a token has, `count` and `per_token` where the config says nothing; all layers have them. transformers 5
/// writes one of two names, whichever the family's own is.
Result<void> read_expert_counts(const formats::Config& config, std::uint32_t count, std::uint32_t per_token,
                                DecoderConfig& decoder);

/// What embeddings, what layers add to what they see, and logits are multiplied with.
struct Multipliers {
    double embedding = 1, residual = 1, logits = 1;
};
/// Layers x + r · f(norm(x)) see x through their RMS norms alone, so x / r takes the place of x: norm(x) with eps is norm(x / r) with
/// eps / r². Requires norm_eps as read, and no other norms than those of x.
void set_multipliers(DecoderConfig& config, const Multipliers& multipliers);

/// The limits of a selective scan's steps under `field`; none where it is absent.
Result<void> read_step_limits(const formats::Config& config, std::string_view field, DecoderConfig& decoder);

/// norm_topk_prob and routed_scaling_factor, with which the weights of a token's experts sum up to 1 where nothing is said.
Result<void> read_expert_weights(const formats::Config& config, DecoderConfig& decoder);

/// A router of sigmoids, whose sum gets `least_sum` where weights are divided by it.
void set_sigmoid_routing(DecoderConfig& config, float least_sum);

/// The gates of gpt-oss's experts: x · sigmoid(1.702 x), kept below 7.
void set_clamped_gates(DecoderConfig& config);

/// Which layers are `other` by layer_types, and not "full_attention"; none where there is no such list.
/// Errors: also where the list is not as long as there are layers.
Result<std::vector<bool>> read_layer_types(const formats::Config& config, std::size_t layers, std::string_view other);

/// Sliding windows by layer_types ("full_attention", "sliding_attention"); none where there is no such list.
/// Errors: also where the list is not as long as there are layers.
Result<std::vector<bool>> read_sliding_layers(const formats::Config& config, std::size_t layers);
/// The same; where there is no such list all layers but each so-and-so-many-th have a window, by sliding_window_pattern or `usual`.
Result<std::vector<bool>> read_sliding_layers(const formats::Config& config, std::size_t layers, std::uint32_t usual);

/// Whether the field is there and null: where a missing one stands for a default of transformers', null says that there is nothing.
bool is_null(const formats::Config& config, std::string_view name);

/// sliding_window, where it is missing `fallback`. Errors: also a null beside a layer that slides.
Result<std::uint32_t> read_window(const formats::Config& config, const std::vector<bool>& slides,
                                  std::uint32_t fallback = 4096);

/// Under which names a layer has its experts: block + "gate", block + "experts.0." + gate and so on or, as transformers 5 has them in memory,
/// block "mlp." and all experts' in one tensor, "experts.gate_up_proj".
struct ExpertNames {
    std::string_view block = "mlp.", gate = "gate_proj", up = "up_proj", down = "down_proj";
    std::string_view choice_bias = {};  ///< empty: there is none; in a tensor of one row, too
    std::string_view router = "gate.weight";
};

/// The experts of a layer, "layers.0.", and their router. Errors: those of WeightReader.
Result<ExpertWeights> read_experts(const WeightReader& read, const DecoderConfig& config, const ExpertNames& names,
                                   const std::string& layer);

/// The weights under Llama's names, with which options.
struct LlamaLayout {
    bool attention_bias = false;  ///< of query, key and value
    bool output_bias = false;
    bool feed_forward_bias = false;
    bool norm_bias = false;  ///< of the norms around attention and feed-forward layers, and of the final one
    bool head_bias = false;
    std::string_view dense = "mlp.", final_norm = "norm";
    /// Of attention and feed-forward layers, before each part and of its result; empty: there is none. Parallel layers with one norm
    /// call both of those before the same.
    std::string_view attention_norm = "input_layernorm", attention_post_norm = {};
    std::string_view feed_forward_norm = "post_attention_layernorm", feed_forward_post_norm = {};
    std::string_view head = "lm_head";
    bool feed_forward = true;  ///< layers that all tokens go through are read; false: the caller reads them
    bool joins_gate_and_up = false;  ///< gate_up_proj: the gate's rows come first
    bool head_norms = false;         ///< q_norm, k_norm
    bool wide_norms = false;         ///< the same, of all heads together
    bool own_head_gains = false;     ///< the same, [heads, head_dim]
    std::string_view query_norm = "q_norm", key_norm = "k_norm";
    bool tied = false;         ///< lm_head is the embedding where the file has none; else it is then absent
    std::string head_prefix;   ///< of the head
    ExpertNames experts;       ///< of the layers that have them
    std::string_view shared_expert = "shared_expert.";  ///< behind `dense`, the one of all tokens
    bool weighs_shared = true;                          ///< by "mlp.shared_expert_gate"
    /// In place of these names; `layer` is "layers.0.".
    Result<ExpertWeights> (*read_experts)(const WeightReader& read, const DecoderConfig& config,
                                          const std::string& layer) = nullptr;
    bool sinks = false;                                      ///< of attention
    bool convolution_bias = false, projection_bias = false;  ///< of layers with a state
    /// In place of query, key, value, their norms and output; `layer` is "layers.0.".
    Result<void> (*read_mixer)(const WeightReader& read, const DecoderConfig& config, const LlamaLayout& layout,
                               const std::string& layer, std::size_t index, DecoderWeights::Layer& weights) = nullptr;
};

/// With a norm behind attention and behind the feed-forward layers, too, by Gemma 2's names where the layout has none.
LlamaLayout with_gemma_norms(LlamaLayout layout);

/// What a family with DeepSeek's mixture of experts makes up where its config says nothing; 0: it has to say it.
struct GroupedMixture {
    std::uint32_t count, per_token, intermediate_size, shared, dense, groups, kept_groups;
    double scale;
    bool by_sigmoid;  ///< V3's router, which always chooses from groups; else V2's
};
/// The experts, which layers have them, and their router.
Result<void> read_grouped_mixture(const formats::Config& config, const GroupedMixture& usual, DecoderConfig& decoder);

/// Latent attention of these sizes, with those of the config's heads that follow from it and the usual scale.
void set_latent_sizes(const DecoderConfig::LatentAttention& latent, DecoderConfig& config);
/// What a layer with latent attention calls its tensors.
struct LatentNames {
    std::string_view query, query_down, query_norm, query_up;  ///< the first, or the others
    std::string_view down,
        latent_norm;  ///< the rows of the latent vector and then of the rotated key, and the former's norm
    /// Of each head the rows of its keys and then those of its values; or, where there is a tensor of that name, both apart, the keys' turned.
    std::string_view up, key_up = {}, value_up = {};
    std::string_view output;
};
/// The names, but for those of up, key_up and value_up, are projections' and norms'. Errors: those of WeightReader.
Result<void> read_latent_weights(const WeightReader& read, const DecoderConfig& config, const LatentNames& names,
                                 const std::string& layer, const LlamaLayout& layout, DecoderWeights::Layer& weights);
/// Whether such groups can be made of the experts, and have those of a token.
bool has_room(const graph::RouteGroups& groups, const DecoderConfig::Experts& experts);
/// The taps of a convolution of single channels, [width, taps], which is stored as [width, 1, taps]. Errors: those of WeightReader.
Result<TensorData> read_taps(const WeightReader& read, const std::string& name, std::uint64_t width,
                             std::uint64_t taps);
/// Rows in groups of `sizes`, of which each part's are put together, copied: part i has those of the i-th size of every group. The rows are
/// groups · the sum of the sizes.
std::vector<Projection> ungrouped(const Projection& rows, std::uint64_t groups,
                                  const std::vector<std::uint64_t>& sizes);
/// A projection whose rows are, for each head, those of its query and then those of its gate, taken apart.
void set_gated_query(const Projection& both, const DecoderConfig& config, DecoderWeights::Layer& layer);
/// StateWeights::rates: the logarithms of the heads' rates, kept where their exponentials are numbers, and the rows behind them: the
/// biases of the steps and, of a selective scan, what is passed by the state. Errors: UnsupportedDtype.
Result<TensorData> rates_of(const TensorData& log_rates, std::initializer_list<const TensorData*> others);
/// The input of a selective scan's layer, rows [gate | x, B, C | step], taken apart.
void set_scan_inputs(const Projection& all, const DecoderConfig& config, DecoderWeights::Layer& layer);
/// The layer of a selective scan under Mamba-2's names, "in_proj", "conv1d", "A_log", … behind `name`, its gains in
/// config.scan.norm_groups rows. Errors: those of WeightReader.
Result<void> read_scan_layer(const WeightReader& read, const DecoderConfig& config, const std::string& name,
                             const LlamaLayout& layout, DecoderWeights::Layer& layer);
/// Gains of a selective scan's result, a row for each of the parts that are normed by themselves, where there are several.
TensorData scan_gains(TensorData gains, const DecoderConfig& config);
/// "q_proj", "k_proj", "v_proj" and "o_proj" behind `name`. Errors likewise.
Result<void> read_attention_layer(const WeightReader& read, const DecoderConfig& config, const std::string& name,
                                  const LlamaLayout& layout, DecoderWeights::Layer& layer);
/// Rows first … first + count − 1 of matrix `index` of a stack [matrices, rows, cols], without a copy.
TensorData rows_of_matrix(const TensorData& stack, std::uint64_t index, std::uint64_t first, std::uint64_t count);
/// All matrices of such a stack.
std::vector<TensorData> matrices_of(const TensorData& stack);
/// Matrices of one shape as a stack has them: where each is no whole number of words, and so no part of a weight (graph::fills_words), one
/// behind the other in memory, copied.
std::vector<TensorData> stacked(std::vector<TensorData> matrices);

/// A stack of layers as Gemma 2's, whose fields are `config`'s own. Errors: those of the loading functions.
Result<DecoderParts> load_gemma2_stack(const formats::Config& config, const formats::Weights& weights,
                                       const std::string& prefix, LlamaLayout layout);

Result<DecoderWeights> read_llama_weights(const formats::Weights& weights, const DecoderConfig& config,
                                          const LlamaLayout& layout, const std::string& prefix);

/// One layer, "layers.0.", which is that of the config at `index`. Errors: those of WeightReader.
Result<DecoderWeights::Layer> read_llama_layer(const WeightReader& read, const DecoderConfig& config,
                                               const LlamaLayout& layout, const std::string& layer, std::size_t index);

/// What a head that guesses calls its tensors; those of its layer, "layers.61.", are called as other layers'.
struct HeadNames {
    std::string layer, token_norm, hidden_norm, projection, final_norm;
    std::string table = {}, head = {};  ///< where files may have their own; empty: they have none
};
/// Whether the files have some of it.
bool has_head(const WeightReader& read, const HeadNames& names);
/// What is said where they have none.
Error no_head(const std::string& file_name);
/// `config`: with the head's layer alone. Errors: those of WeightReader.
Result<DecoderWeights> read_head(const WeightReader& read, const DecoderConfig& config, const LlamaLayout& layout,
                                 const HeadNames& names, const DecoderWeights& model);
/// One whose layer has the number behind the model's own, by DeepSeek-V3's names. `config` has them all, and then that one alone.
Result<DecoderWeights> read_next_layer_head(const formats::Config& json, const WeightReader& read,
                                            const LlamaLayout& layout, const DecoderWeights& model,
                                            DecoderConfig& config);
/// What the head has of the tables, and before its layer. Errors likewise.
Result<void> read_handover(const WeightReader& read, const DecoderConfig& config, const HeadNames& names,
                           const DecoderWeights& model, DecoderWeights& weights);

}  // namespace vkformer::models
