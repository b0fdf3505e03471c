// SPDX-License-Identifier: MIT
#include "models/gguf_export.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <string_view>
#include <utility>

#include "core/try.hpp"
#include "formats/config.hpp"
#include "formats/json.hpp"
#include "models/gguf_dtypes.hpp"
#include "models/gguf_vocabulary.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::GgufMetadata;
using formats::OutputTensor;

void set_file_type(GgufContents& contents, DType dtype) {
    contents.metadata.set("general.file_type", gguf_file_type(dtype));
    contents.metadata.set("general.quantization_version", std::uint32_t{2});
}

/// What the configuration says, as far as the file needs it.
struct LlamaConfig {
    std::string architecture;  ///< llama.cpp's name
    std::uint32_t layers, width, feed_forward, heads, kv_heads, head_dim, vocab_size;
    std::uint32_t context;
    double epsilon, rope_base;
    bool tied;
    Config scaling;  ///< of the positions
    std::optional<std::uint32_t> window;
};

Result<std::string> architecture_of(const Config& config) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    if (type == "llama" || type == "mistral") return std::string("llama");
    if (type == "qwen2" || type == "qwen3") return type;
    return config.unsupported("model_type", "llama, mistral, qwen2, qwen3 (for a conversion to GGUF)");
}

Result<LlamaConfig> read_llama_config(const Config& config) {
    const formats::Expect<std::uint32_t> size{.min = 1};
    VKFORMER_TRY(auto architecture, architecture_of(config));
    VKFORMER_TRY(const std::string activation, config.string("hidden_act", "silu"));
    if (activation != "silu") return config.unsupported("hidden_act", "silu");
    VKFORMER_TRY(const auto layers, config.unsigned_integer("num_hidden_layers", size));
    VKFORMER_TRY(const auto width, config.unsigned_integer("hidden_size", size));
    VKFORMER_TRY(const auto feed_forward, config.unsigned_integer("intermediate_size", size));
    VKFORMER_TRY(const auto heads, config.unsigned_integer("num_attention_heads", size));
    VKFORMER_TRY(const auto kv_heads, config.unsigned_integer("num_key_value_heads", {.fallback = heads, .min = 1}));
    VKFORMER_TRY(const auto head_dim, config.unsigned_integer("head_dim", {.fallback = width / heads, .min = 1}));
    VKFORMER_TRY(const auto vocab_size, config.unsigned_integer("vocab_size", size));
    VKFORMER_TRY(const auto context, config.unsigned_integer("max_position_embeddings", {.fallback = 2048, .min = 1}));
    VKFORMER_TRY(const auto epsilon, config.real("rms_norm_eps", {.fallback = 1e-6, .min = 0}));
    // Newer configurations hold both in rope_parameters.
    VKFORMER_TRY(auto scaling, config.object(config.has("rope_parameters") ? "rope_parameters" : "rope_scaling"));
    VKFORMER_TRY(const auto outer_base, config.real("rope_theta", {.fallback = 10000, .min = 1}));
    VKFORMER_TRY(const auto rope_base, scaling.real("rope_theta", {.fallback = outer_base, .min = 1}));
    VKFORMER_TRY(const bool tied, config.boolean("tie_word_embeddings", false));
    VKFORMER_TRY(const bool uses_window, config.boolean("use_sliding_window", config.has("sliding_window")));
    std::optional<std::uint32_t> window;
    if (uses_window && config.has("sliding_window")) {
        VKFORMER_TRY(window, config.unsigned_integer("sliding_window", size));
    }
    if (head_dim % 2 != 0) return config.unsupported("head_dim", "even sizes");
    return LlamaConfig{std::move(architecture),
                       layers,
                       width,
                       feed_forward,
                       heads,
                       kv_heads,
                       head_dim,
                       vocab_size,
                       context,
                       epsilon,
                       rope_base,
                       tied,
                       std::move(scaling),
                       window};
}

void set_llama_metadata(const LlamaConfig& config, GgufMetadata& metadata) {
    const auto key = [&](const char* name) { return config.architecture + "." + name; };
    metadata.set(key("block_count"), config.layers);
    metadata.set(key("context_length"), config.context);
    metadata.set(key("embedding_length"), config.width);
    metadata.set(key("feed_forward_length"), config.feed_forward);
    metadata.set(key("attention.head_count"), config.heads);
    metadata.set(key("attention.head_count_kv"), config.kv_heads);
    metadata.set(key("rope.freq_base"), static_cast<float>(config.rope_base));
    metadata.set(key("attention.layer_norm_rms_epsilon"), static_cast<float>(config.epsilon));
    metadata.set(key("attention.key_length"), config.head_dim);
    metadata.set(key("attention.value_length"), config.head_dim);
    metadata.set(key("vocab_size"), config.vocab_size);
    metadata.set(key("rope.dimension_count"), config.head_dim);
    if (config.window) metadata.set(key("attention.sliding_window"), *config.window);
}

/// Llama 3's scaling of long wavelengths, as what each frequency is divided by (transformers: _compute_llama3_parameters).
Result<OutputTensor> llama3_factors(const LlamaConfig& config) {
    const Config& scaling = config.scaling;
    VKFORMER_TRY(const double factor, scaling.real("factor", {.min = 1}));
    VKFORMER_TRY(const double low, scaling.real("low_freq_factor", {.min = 0.001}));
    VKFORMER_TRY(const double high, scaling.real("high_freq_factor", {.min = 0.001}));
    VKFORMER_TRY(const double context, scaling.real("original_max_position_embeddings", {.min = 1}));
    if (high <= low) return scaling.unsupported("high_freq_factor", "numbers above low_freq_factor");
    const auto factors = std::make_shared<std::vector<float>>();
    for (std::uint32_t i = 0; i < config.head_dim / 2; ++i) {
        const double wavelength = 2 * std::numbers::pi * std::pow(config.rope_base, 2.0 * i / config.head_dim);
        const double smooth = (context / wavelength - low) / (high - low);
        const double divisor = wavelength < context / high  ? 1
                               : wavelength > context / low ? factor
                                                            : 1 / ((1 - smooth) / factor + smooth);
        factors->push_back(static_cast<float>(divisor));
    }
    return OutputTensor{.name = "rope_freqs.weight",
                        .dtype = DType::f32,
                        .source = {.dtype = DType::f32,
                                   .shape = {factors->size()},
                                   .bytes = std::as_bytes(std::span(*factors)),
                                   .owner = factors}};
}

Result<void> add_rope_scaling(const LlamaConfig& config, GgufContents& contents) {
    VKFORMER_TRY(const std::string older, config.scaling.string("type", "default"));
    VKFORMER_TRY(const std::string type, config.scaling.string("rope_type", older));
    if (type == "default") return {};
    if (type == "linear") {
        VKFORMER_TRY(const double factor, config.scaling.real("factor", {.min = 1}));
        contents.metadata.set(config.architecture + ".rope.scaling.type", "linear");
        contents.metadata.set(config.architecture + ".rope.scaling.factor", static_cast<float>(factor));
        return {};
    }
    if (type != "llama3")
        return config.scaling.unsupported("rope_type", "default, linear, llama3 (for a conversion to GGUF)");
    VKFORMER_TRY(auto factors, llama3_factors(config));
    contents.tensors.push_back(std::move(factors));
    return {};
}

/// Hugging Face's names of what a layer has, and llama.cpp's.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kLayerNames = {{
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
}};

/// "model.layers.3.mlp.up_proj.weight" → "blk.3.ffn_up.weight"; nothing for names that are not of the architecture.
std::optional<std::string> gguf_name(std::string_view name) {
    if (name == "lm_head.weight") return "output.weight";
    if (name == "model.embed_tokens.weight") return "token_embd.weight";
    if (name == "model.norm.weight") return "output_norm.weight";
    constexpr std::string_view kLayers = "model.layers.";
    if (!name.starts_with(kLayers)) return std::nullopt;
    name.remove_prefix(kLayers.size());
    const std::size_t number_end = name.find('.'), kind_begin = name.rfind('.');
    if (number_end == name.npos || number_end >= kind_begin) return std::nullopt;
    const std::string_view part = name.substr(number_end + 1, kind_begin - number_end - 1);
    const auto found = std::ranges::find(kLayerNames, part, &std::pair<std::string_view, std::string_view>::first);
    if (found == kLayerNames.end()) return std::nullopt;
    return "blk." + std::string(name.substr(0, number_end + 1)) + std::string(found->second) +
           std::string(name.substr(kind_begin));
}

/// llama.cpp's Llama rotates neighbouring elements of a head, Hugging Face's elements half a head apart: row 2 i + j of a head
/// is row j · head_dim / 2 + i there.
std::vector<std::uint64_t> interleaved_rows(std::uint32_t heads, std::uint32_t head_dim) {
    std::vector<std::uint64_t> rows;
    rows.reserve(std::size_t{heads} * head_dim);
    for (std::uint64_t head = 0; head < heads; ++head)
        for (std::uint64_t i = 0; i < head_dim; ++i) rows.push_back(head * head_dim + i % 2 * (head_dim / 2) + i / 2);
    return rows;
}

/// Where llama.cpp's converter puts a tensor: the table, the output, then the layers by number.
std::uint64_t layer_order(std::string_view name) {
    if (!name.starts_with("blk."))
        return name == "rope_freqs.weight" || name.starts_with("token_embd") ? 0 : UINT64_MAX;
    return 1 + std::strtoull(std::string(name.substr(4)).c_str(), nullptr, 10);
}

Result<void> add_llama_tensors(const formats::Weights& weights, const LlamaConfig& config, GgufContents& contents) {
    for (const auto& [name, data] : weights.tensors()) {
        if (name.ends_with("rotary_emb.inv_freq") || (config.tied && name == "lm_head.weight")) continue;
        const auto new_name = gguf_name(name);
        if (!new_name)
            return Error{ErrorCode::UnsupportedConfig, weights.source() + ": the tensor " + formats::quote(name) +
                                                           " has no place in a GGUF file of the architecture " +
                                                           config.architecture};
        OutputTensor tensor{.name = *new_name, .dtype = data.dtype, .source = data};
        const bool is_query = new_name->find(".attn_q.") != new_name->npos;
        if (config.architecture == "llama" && (is_query || new_name->find(".attn_k.") != new_name->npos))
            tensor.row_order = interleaved_rows(is_query ? config.heads : config.kv_heads, config.head_dim);
        contents.tensors.push_back(std::move(tensor));
    }
    std::ranges::stable_sort(contents.tensors, {}, [](const OutputTensor& tensor) { return layer_order(tensor.name); });
    return {};
}

}  // namespace

Result<GgufContents> requantized(const formats::Gguf& file, DType dtype) {
    GgufContents contents;
    for (const formats::GgufValue& value : file.values())
        if (!value.key.starts_with("split.")) contents.metadata.set(value);
    set_file_type(contents, dtype);
    for (const formats::GgufTensor& tensor : file.tensors()) {
        VKFORMER_TRY(auto source, file.weights().get(tensor.name));
        contents.tensors.push_back(
            {.name = std::string(tensor.name), .dtype = source.dtype, .source = std::move(source)});
    }
    choose_gguf_dtypes(contents.tensors, dtype, contents.notes);
    return contents;
}

Result<GgufContents> exported_to_gguf(const std::filesystem::path& folder, DType dtype) {
    VKFORMER_TRY(const auto json, Config::open(folder / "config.json"));
    VKFORMER_TRY(const auto config, read_llama_config(json));
    VKFORMER_TRY(const auto weights, formats::open_weights(folder));
    GgufContents contents;
    contents.metadata.set("general.architecture", config.architecture);
    contents.metadata.set("general.type", "model");
    contents.metadata.set("general.name", std::filesystem::absolute(folder).lexically_normal().filename().string());
    set_file_type(contents, dtype);
    set_llama_metadata(config, contents.metadata);
    VKFORMER_CHECK(add_rope_scaling(config, contents));
    VKFORMER_CHECK(add_llama_tensors(weights, config, contents));
    VKFORMER_CHECK(add_gguf_vocabulary(folder, json, config.vocab_size, contents));
    if (config.window)
        contents.notes.push_back("the attention window of " + std::to_string(*config.window) +
                                 " is written down, but llama.cpp does not heed it for this architecture");
    choose_gguf_dtypes(contents.tensors, dtype, contents.notes);
    return contents;
}

}  // namespace vkformer::models
