// SPDX-License-Identifier: MIT
#include "models/gguf_export.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/stable_order.hpp"
#include "core/try.hpp"
#include "formats/config.hpp"
#include "formats/json.hpp"
#include "models/decoder_loading.hpp"
#include "models/gguf_architecture.hpp"
#include "models/gguf_dtypes.hpp"
#include "models/gguf_vocabulary.hpp"
#include "models/open_model.hpp"
#include "models/packed_weights.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::GgufMetadata;
using formats::OutputTensor;

void set_file_type(GgufContents& contents, DType dtype) {
    contents.metadata.set("general.file_type", gguf_file_type(dtype));
    contents.metadata.set("general.quantization_version", std::uint32_t{2});
}

/// What transformers calls an architecture, and what its folders differ in.
struct Source {
    std::string_view model_type;
    const GgufArchitecture& architecture;
    std::string_view activation = "hidden_act";
    RopeDefaults rope = {};
    bool has_biases = false;  ///< llama.cpp reads them
};
constexpr std::array<Source, 11> kSources = {{
    {.model_type = "llama", .architecture = kGgufLlama, .has_biases = true},
    {.model_type = "mistral", .architecture = kGgufLlama, .has_biases = true},
    {.model_type = "qwen2", .architecture = kGgufQwen2, .has_biases = true},
    {.model_type = "qwen3", .architecture = kGgufQwen3},
    {.model_type = "smollm3", .architecture = kGgufSmolLm3, .rope = {.theta = 2e6}},
    {.model_type = "phi3", .architecture = kGgufPhi3, .rope = {.turns_part = true}},
    {.model_type = "gemma", .architecture = kGgufGemma},
    {.model_type = "gemma2", .architecture = kGgufGemma2, .activation = "hidden_activation"},
    {.model_type = "gemma3_text",
     .architecture = kGgufGemma3,
     .activation = "hidden_activation",
     .rope = {.theta = 1e6, .object = "full_attention"}},
    {.model_type = "gemma3",
     .architecture = kGgufGemma3,
     .activation = "hidden_activation",
     .rope = {.theta = 1e6, .object = "full_attention"}},
    {.model_type = "gpt2", .architecture = kGgufGpt2, .activation = "activation_function", .has_biases = true},
}};

Result<const Source*> source_of(const Config& config) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    std::string supported;
    for (const Source& source : kSources) {
        if (source.model_type == type) return &source;
        supported += (supported.empty() ? "" : ", ") + std::string(source.model_type);
    }
    return config.unsupported("model_type", supported + " (for a conversion to GGUF)");
}

/// The rope of a config, if llama.cpp turns positions so for the architecture.
Result<RopeSource> representable_rope(const Source& source, const Config& json) {
    VKFORMER_TRY(RopeSource rope, find_rope(json, source.rope));
    using Types = std::vector<std::string_view>;
    const Types types = source.architecture.name == "phi3"    ? Types{"default", "longrope", "su"}
                        : source.architecture.name == "llama" ? Types{"default", "linear", "llama3"}
                                                              : Types{"default", "linear"};
    std::string supported;
    for (const std::string_view type : types) {
        if (type == rope.type) return rope;
        supported += std::string(type) + ", ";
    }
    return rope.scaling.unsupported(rope.scaling.has("rope_type") ? "rope_type" : "type",
                                    supported.substr(0, supported.size() - 2) + " (for a conversion to GGUF)");
}

/// A model of a folder on its way into a file.
struct SourceModel {
    const Source& source;
    const Config& json;  ///< the object that holds the decoder's fields
    const RopeSource& rope;
    DecoderConfig config;
    bool ties_head;

    std::string key(std::string_view name) const {
        return std::string(source.architecture.name) + "." + std::string(name);
    }
    std::uint32_t window() const { return std::ranges::max(config.layers, {}, &DecoderConfig::Layer::window).window; }
    bool is(std::string_view name) const { return source.architecture.name == name; }
};

/// What a file of the architecture says by its name alone has to be so.
Result<void> check_representable(const SourceModel& model) {
    const DecoderConfig& c = model.config;
    const Config& json = model.json;
    const GgufArchitecture& a = model.source.architecture;
    const auto refused = [&](std::string_view field, const std::string& supported) {
        return json.unsupported(field, supported + " (for a conversion to GGUF)");
    };
    if (c.activation != a.activation())
        return refused(model.source.activation, a.learned_positions ? "gelu_new"
                                                : a.is_gemma        ? "gelu_pytorch_tanh"
                                                                    : "silu");
    if (std::abs(c.attention_scale / a.attention_scale(c) - 1) > 1e-6)
        return refused(a.is_gemma ? "query_pre_attn_scalar" : "scale_attn_weights",
                       a.is_gemma ? "head_dim, here " + std::to_string(c.head_dim) : "true");
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        if (c.layers[i].window != (a.has_window(i) ? model.window() : 0))
            return refused(json.has("layer_types") ? "layer_types" : "max_window_layers",
                           a.window_pattern == 1
                               ? "the same window or none for all layers"
                               : "a layer without a window every " + std::to_string(a.window_pattern) + " layers");
        if (!a.learned_positions && c.layers[i].rope.has_value() != a.has_rope(i))
            return refused(json.has("no_rope_layers") ? "no_rope_layers" : "no_rope_layer_interval",
                           "every fourth layer without positions");
    }
    if (model.is("gemma2")) {  // llama.cpp caps by 50 and 30 where a file says nothing
        if (c.attention_soft_cap == 0) return refused("attn_logit_softcapping", "a number");
        if (c.logit_soft_cap == 0) return refused("final_logit_softcapping", "a number");
    } else if (c.attention_soft_cap != 0) {
        return refused("attn_logit_softcapping", "null");
    }
    if (!model.ties_head && (model.is("gemma") || model.is("gemma2")))
        return refused("tie_word_embeddings", "a head that is the table of tokens");
    return {};
}

void set_metadata(const SourceModel& model, GgufMetadata& metadata) {
    const DecoderConfig& c = model.config;
    metadata.set(model.key("block_count"), static_cast<std::uint32_t>(c.layers.size()));
    metadata.set(model.key("context_length"), c.most_positions());
    metadata.set(model.key("embedding_length"), c.hidden_size);
    metadata.set(model.key("feed_forward_length"), c.intermediate_size);
    metadata.set(model.key("attention.head_count"), c.heads);
    metadata.set(model.key("attention.head_count_kv"), c.kv_heads);
    const bool is_rms = c.norm == DecoderConfig::Norm::rms;
    metadata.set(model.key(is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"), c.norm_eps);
    metadata.set(model.key("vocab_size"), c.vocab_size);
    if (!model.source.architecture.learned_positions) {
        metadata.set(model.key("attention.key_length"), c.head_dim);
        metadata.set(model.key("attention.value_length"), c.head_dim);
        metadata.set(model.key("rope.dimension_count"),
                     static_cast<std::uint32_t>(2 * c.ropes.front().frequencies.size()));
    }
    if (c.attention_soft_cap != 0) metadata.set(model.key("attn_logit_softcapping"), c.attention_soft_cap);
    if (c.logit_soft_cap != 0) metadata.set(model.key("final_logit_softcapping"), c.logit_soft_cap);
    if (model.window() > 0 || model.is("phi3")) metadata.set(model.key("attention.sliding_window"), model.window());
}

/// What each of the rope's frequencies is divided by, as a tensor.
OutputTensor divisors(const std::string& name, const Rope& rope, double theta) {
    const std::vector<double> base = graph::rope_frequencies(2 * rope.frequencies.size(), theta);
    std::vector<float> factors;
    for (std::size_t k = 0; k < base.size(); ++k) factors.push_back(static_cast<float>(base[k] / rope.frequencies[k]));
    const Shape shape = {factors.size()};
    return OutputTensor{.name = name, .dtype = DType::f32, .source = float_tensor(shape, std::move(factors))};
}

Result<void> add_ropes(const SourceModel& model, GgufContents& contents) {
    if (model.source.architecture.learned_positions) return {};
    const DecoderConfig& c = model.config;
    const RopeSource& rope = model.rope;
    contents.metadata.set(model.key("rope.freq_base"), static_cast<float>(rope.theta));
    if (model.is("gemma3")) {
        constexpr RopeDefaults kLocal = {
            .theta_name = "rope_local_base_freq", .object = "sliding_attention", .is_scaled_by_rope_scaling = false};
        VKFORMER_TRY(const RopeSource local, find_rope(model.json, kLocal));
        if (local.type != "default")
            return local.scaling.unsupported("rope_type", "default (for a conversion to GGUF)");
        contents.metadata.set(model.key("rope.freq_base_swa"), static_cast<float>(local.theta));
    }
    if (rope.type == "linear") {
        VKFORMER_TRY(const double factor, rope.scaling.real("factor", {.min = 1}));
        contents.metadata.set(model.key("rope.scaling.type"), "linear");
        contents.metadata.set(model.key("rope.scaling.factor"), static_cast<float>(factor));
    } else if (rope.type == "llama3") {
        contents.tensors.push_back(divisors("rope_freqs.weight", c.ropes.front(), rope.theta));
    } else if (rope.type != "default") {  // LongRoPE
        contents.metadata.set(model.key("rope.scaling.original_context_length"), c.max_positions);
        contents.metadata.set(model.key("rope.scaling.attn_factor"), static_cast<float>(c.ropes.front().scale));
        contents.tensors.push_back(divisors("rope_factors_short.weight", c.ropes.front(), rope.theta));
        if (!c.extended_ropes.empty())
            contents.tensors.push_back(divisors("rope_factors_long.weight", c.extended_ropes.front(), rope.theta));
    }
    return {};
}

using Renaming = std::pair<std::string_view, std::string_view>;

/// Hugging Face's names of what a layer has, and llama.cpp's.
constexpr std::array<Renaming, 21> kLayerNames = {{
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    {"ln_1", "attn_norm"},
    {"ln_2", "ffn_norm"},
}};
constexpr std::array<Renaming, 6> kWholeNames = {{
    {"embed_tokens", "token_embd"},
    {"norm", "output_norm"},
    {"lm_head", "output"},
    {"wte", "token_embd"},
    {"wpe", "position_embd"},
    {"ln_f", "output_norm"},
}};

std::optional<std::string> renamed(std::span<const Renaming> names, std::string_view part) {
    const auto found = std::ranges::find(names, part, &Renaming::first);
    if (found == names.end()) return std::nullopt;
    return std::string(found->second);
}

/// "model.layers.3.mlp.up_proj.weight" → "blk.3.ffn_up.weight"; nothing for names that are not of the architecture.
std::optional<std::string> gguf_name(std::string_view name, const SourceModel& model) {
    for (const std::string_view prefix : {"language_model.", "model.language_model.", "model.", "transformer."})
        if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    const std::size_t kind_begin = name.rfind('.');
    if (kind_begin == name.npos) return std::nullopt;
    const std::string kind(name.substr(kind_begin));
    if (kind == ".bias" && !model.source.has_biases) return std::nullopt;
    name.remove_suffix(kind.size());
    if (const auto whole = renamed(kWholeNames, name)) return *whole + kind;
    for (const std::string_view layers : {"layers.", "h."}) {
        if (!name.starts_with(layers)) continue;
        name.remove_prefix(layers.size());
        const std::size_t number_end = name.find('.');
        if (number_end == name.npos) return std::nullopt;
        const std::string_view part = name.substr(number_end + 1);
        const bool has_both_norms = model.is("gemma2") || model.is("gemma3");
        auto found = has_both_norms && part == "post_attention_layernorm" ? std::string("post_attention_norm")
                                                                          : renamed(kLayerNames, part);
        if (!found) return std::nullopt;
        return "blk." + std::string(name.substr(0, number_end + 1)) + *found + kind;
    }
    return std::nullopt;
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

/// Where llama.cpp's converter puts a tensor: the tables, the layers by number, then the output.
std::uint64_t layer_order(std::string_view name) {
    if (!name.starts_with("blk."))
        return name.starts_with("rope_f") || name.starts_with("token_embd") || name.starts_with("position_embd")
                   ? 0
                   : UINT64_MAX;
    return 1 + std::strtoull(std::string(name.substr(4)).c_str(), nullptr, 10);
}

/// Gemma's gains are stored minus one, llama.cpp's are not.
Result<TensorData> plus_one(const TensorData& gain) {
    VKFORMER_TRY(std::vector<float> values, floats_of(gain));
    for (float& value : values) value += 1;
    return float_tensor(gain.shape, std::move(values));
}

/// What a folder holds besides the decoder: buffers of older versions, and what only sees pictures.
bool is_left_out(std::string_view name) {
    return name.ends_with("rotary_emb.inv_freq") || name.ends_with(".attn.masked_bias") || name.ends_with(".attn.bias");
}
bool is_of_vision(std::string_view name) {
    return name.find("vision_tower.") != name.npos || name.find("multi_modal_projector.") != name.npos;
}

Result<void> add_tensors(const formats::Weights& weights, const SourceModel& model, GgufContents& contents) {
    bool leaves_vision_out = false;
    for (const auto& [name, data] : weights.tensors()) {
        const bool is_vision = model.source.model_type == "gemma3" && is_of_vision(name);
        leaves_vision_out |= is_vision;
        if (is_vision || is_left_out(name)) continue;
        const auto new_name = gguf_name(name, model);
        if (!new_name)
            return Error{ErrorCode::UnsupportedConfig, weights.source() + ": the tensor " + formats::quote(name) +
                                                           " has no place in a GGUF file of the architecture " +
                                                           std::string(model.source.architecture.name)};
        if (model.ties_head && *new_name == "output.weight") continue;
        OutputTensor tensor{.name = *new_name, .dtype = data.dtype, .source = data};
        const bool is_query = new_name->find(".attn_q.") != new_name->npos;
        const bool is_key = new_name->find(".attn_k.") != new_name->npos;
        if (model.source.architecture.pairing == graph::RopePairing::interleaved && (is_query || is_key))
            tensor.row_order =
                interleaved_rows(is_query ? model.config.heads : model.config.kv_heads, model.config.head_dim);
        if (model.source.architecture.is_gemma && new_name->ends_with("norm.weight")) {
            VKFORMER_TRY(tensor.source, plus_one(data));
        } else if (model.is("gpt2") && new_name->starts_with("blk.") && data.shape.rank() == 2) {
            VKFORMER_TRY(tensor.source, transposed(data));
        }
        contents.tensors.push_back(std::move(tensor));
    }
    if (leaves_vision_out)
        contents.notes.push_back("the vision tower is left out: the file is the language model alone");
    sort_stably(contents.tensors,
                [](const OutputTensor& a, const OutputTensor& b) { return layer_order(a.name) < layer_order(b.name); });
    return {};
}

/// The model as vkformer runs it, of which nothing is kept: packed weights would be in memory twice.
Result<SourceModel> open_source(const std::filesystem::path& folder, const Source& source, const Config& json,
                                const RopeSource& rope) {
    VKFORMER_TRY(const Decoder decoder, load_decoder(folder));
    const bool ties_head = is_same(decoder.weights().lm_head.weight, decoder.weights().embedding);
    return SourceModel{
        .source = source, .json = json, .rope = rope, .config = decoder.config(), .ties_head = ties_head};
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
    VKFORMER_TRY(const std::string architecture, file.string("general.architecture", ""));
    if (architecture == formats::kBlockArchitecture)
        choose_folder_dtypes(contents.tensors, dtype, contents.notes);
    else
        choose_gguf_dtypes(contents.tensors, dtype, contents.notes);
    return contents;
}

Result<GgufContents> exported_to_gguf(const std::filesystem::path& folder, DType dtype) {
    VKFORMER_TRY(const auto json, Config::open(folder / "config.json"));
    VKFORMER_TRY(const Source* const source, source_of(json));
    const bool sees = source->model_type == "gemma3";
    VKFORMER_TRY(const Config decoder_json, sees ? json.object("text_config") : Result<Config>(json));
    VKFORMER_TRY(const RopeSource rope, representable_rope(*source, decoder_json));
    VKFORMER_TRY(const auto vocab_size, decoder_json.unsigned_integer("vocab_size", {.min = 1}));
    GgufContents contents;
    contents.metadata.set("general.architecture", std::string(source->architecture.name));
    contents.metadata.set("general.type", "model");
    contents.metadata.set("general.name", std::filesystem::absolute(folder).lexically_normal().filename().string());
    set_file_type(contents, dtype);
    VKFORMER_CHECK(add_gguf_vocabulary(folder, json, vocab_size, contents));

    // The model as vkformer runs it says what the folder's fields come to, and that it is whole.
    VKFORMER_TRY(const SourceModel model, open_source(folder, *source, decoder_json, rope));
    VKFORMER_CHECK(check_representable(model));
    VKFORMER_TRY(const auto weights, open_folder_weights(json, folder));
    set_metadata(model, contents.metadata);
    VKFORMER_CHECK(add_ropes(model, contents));
    VKFORMER_CHECK(add_tensors(weights, model, contents));
    if (model.window() > 0 && model.source.architecture.window_pattern == 1)
        contents.notes.push_back("the attention window of " + std::to_string(model.window()) +
                                 " is written down, but llama.cpp does not heed it for this architecture");
    choose_gguf_dtypes(contents.tensors, dtype, contents.notes);
    return contents;
}

}  // namespace vkformer::models
