// SPDX-License-Identifier: MIT
#include "models/marian.hpp"

#include <array>
#include <cmath>
#include <utility>

#include "core/try.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using graph::AttentionMask;
using graph::Graph;
using graph::Value;

constexpr float kLayerNormEps = 1e-5f;
constexpr std::uint64_t kMaxPositionElements = std::uint64_t{1} << 28;  // 1 GiB of float32

struct NamedActivation {
    std::string_view name;
    graph::Activation activation;
};
constexpr std::array<NamedActivation, 9> kActivations = {{
    {"relu", graph::Activation::relu},
    {"gelu", graph::Activation::gelu_erf},
    {"gelu_python", graph::Activation::gelu_erf},
    {"silu", graph::Activation::silu},
    {"swish", graph::Activation::silu},
    {"gelu_new", graph::Activation::gelu_tanh},
    {"gelu_pytorch_tanh", graph::Activation::gelu_tanh},
    {"gelu_accurate", graph::Activation::gelu_tanh},
    {"gelu_fast", graph::Activation::gelu_tanh},  // its constant has ten digits, which float32 does not see
}};

Result<graph::Activation> activation_function(const Config& config) {
    VKFORMER_TRY(const std::string name, config.string("activation_function", "gelu"));
    for (const auto& known : kActivations)
        if (known.name == name) return known.activation;
    std::string supported;
    for (const auto& known : kActivations) supported += (supported.empty() ? "" : ", ") + std::string(known.name);
    return config.unsupported("activation_function", supported);
}

struct RequiredFlag {
    std::string_view name;
    bool value;  // the only one supported, and what an absent field means
};
constexpr std::array<RequiredFlag, 6> kRequiredFlags = {{
    {"is_encoder_decoder", true},
    {"tie_encoder_decoder", false},
    {"normalize_before", false},
    {"normalize_embedding", false},
    {"add_final_layer_norm", false},
    {"static_position_embeddings", true},
}};

Result<void> refuse_other_architectures(const Config& config) {
    VKFORMER_TRY(const std::string type, config.string("model_type", "marian"));
    if (type != "marian") return config.unsupported("model_type", "marian");
    VKFORMER_TRY(const auto architectures, config.strings("architectures"));
    for (const std::string& architecture : architectures)
        if (architecture != "MarianMTModel" && architecture != "MarianModel")
            return config.unsupported("architectures", "MarianMTModel");
    for (const auto& [name, required] : kRequiredFlags) {
        VKFORMER_TRY(const bool value, config.boolean(name, required));
        if (value != required) return config.unsupported(name, required ? "true" : "false");
    }
    VKFORMER_TRY(const Config pruned, config.object("pruned_heads"));
    if (!pruned.names().empty()) return config.unsupported("pruned_heads", "{}");
    return {};
}

std::uint64_t head_dim(std::uint64_t d_model, std::uint32_t heads) { return d_model / heads; }

/// What the layers of one stack (encoder or decoder) have in common.
struct Stack {
    std::string_view name;  // "encoder", "decoder": of tensors and of nodes
    std::uint32_t layers, heads, ffn_dim;
};

Stack encoder_stack(const MarianConfig& c) {
    return {"encoder", c.encoder_layers, c.encoder_attention_heads, c.encoder_ffn_dim};
}
Stack decoder_stack(const MarianConfig& c) {
    return {"decoder", c.decoder_layers, c.decoder_attention_heads, c.decoder_ffn_dim};
}

std::string layer_prefix(std::string_view stack, std::uint32_t layer) {
    return "model." + std::string(stack) + ".layers." + std::to_string(layer) + ".";
}
std::string layer_scope(std::string_view stack, std::uint32_t layer) {
    return std::string(stack) + "." + std::to_string(layer);
}

}  // namespace

Result<MarianConfig> parse_marian_config(const Config& config) {
    VKFORMER_CHECK(refuse_other_architectures(config));
    const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
    MarianConfig c;
    VKFORMER_TRY(c.d_model, config.unsigned_integer("d_model", count));
    VKFORMER_TRY(c.encoder_layers, config.unsigned_integer("encoder_layers", count));
    VKFORMER_TRY(c.decoder_layers, config.unsigned_integer("decoder_layers", count));
    VKFORMER_TRY(c.encoder_attention_heads, config.unsigned_integer("encoder_attention_heads", count));
    VKFORMER_TRY(c.decoder_attention_heads, config.unsigned_integer("decoder_attention_heads", count));
    VKFORMER_TRY(c.encoder_ffn_dim, config.unsigned_integer("encoder_ffn_dim", count));
    VKFORMER_TRY(c.decoder_ffn_dim, config.unsigned_integer("decoder_ffn_dim", count));
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.decoder_vocab_size,
                 config.unsigned_integer("decoder_vocab_size", {.fallback = c.vocab_size, .min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.max_position_embeddings,
                 config.unsigned_integer("max_position_embeddings", {.fallback = 1024, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(c.activation_function, activation_function(config));
    VKFORMER_TRY(c.scale_embedding, config.boolean("scale_embedding", false));
    VKFORMER_TRY(c.share_encoder_decoder_embeddings, config.boolean("share_encoder_decoder_embeddings", true));
    VKFORMER_TRY(c.tie_word_embeddings, config.boolean("tie_word_embeddings", true));
    if (c.d_model % c.encoder_attention_heads != 0)
        return config.unsupported("encoder_attention_heads", "a divisor of d_model = " + std::to_string(c.d_model));
    if (c.d_model % c.decoder_attention_heads != 0)
        return config.unsupported("decoder_attention_heads", "a divisor of d_model = " + std::to_string(c.d_model));
    return c;
}

// ---- loading --------------------------------------------------------------------------------------------------------

Result<Marian> Marian::load(const std::filesystem::path& folder) {
    VKFORMER_TRY(const Config json, Config::open(folder / "config.json"));
    VKFORMER_TRY(const MarianConfig config, parse_marian_config(json));
    VKFORMER_TRY(formats::Weights weights, formats::open_weights(folder));
    return create(config, std::move(weights));
}

Result<Marian> Marian::create(const MarianConfig& config, formats::Weights weights) {
    Marian model(config, std::move(weights));
    VKFORMER_CHECK(model.check_weights());
    VKFORMER_CHECK(model.load_positions());
    return model;
}

/// The tensor's name, if it is there, holds floats and has the shape.
Result<std::string> Marian::require(const std::string& name, Shape shape) const {
    VKFORMER_TRY(const TensorData data, weights_.get(name));
    if (!(data.shape == shape))
        return Error{ErrorCode::ShapeMismatch, weights_.source() + ": " + name + " has shape " + to_string(data.shape) +
                                                   ", expected " + to_string(shape) + " by config.json"};
    if (!is_float(data.dtype))
        return Error{ErrorCode::UnsupportedDtype, weights_.source() + ": " + name + " holds " +
                                                      std::string(to_string(data.dtype)) + ", expected floats"};
    return name;
}

/// The embedding table of a stack. Shared tables are stored once, under whichever of the names the file uses. A decoder's
/// own table has decoder_vocab_size rows, or vocab_size as Hugging Face allocates it.
Result<std::string> Marian::embedding_table(const std::string& stack, std::uint64_t& vocab) const {
    const std::string own = "model." + stack + ".embed_tokens.weight", shared = "model.shared.weight";
    vocab = config_.vocab_size;
    if (config_.share_encoder_decoder_embeddings)
        return require(weights_.find(shared) || !weights_.find(own) ? shared : own, {vocab, config_.d_model});
    if (stack == "decoder" && vocab != config_.decoder_vocab_size) {
        const TensorData* table = weights_.find(own);
        if (table && table->shape == Shape{config_.decoder_vocab_size, config_.d_model})
            vocab = config_.decoder_vocab_size;
    }
    return require(own, {vocab, config_.d_model});
}

Result<void> Marian::check_weights() {
    const std::uint64_t d = config_.d_model;
    VKFORMER_TRY(source_table_, embedding_table("encoder", source_vocab_));
    std::uint64_t table_vocab = 0;
    VKFORMER_TRY(target_table_, embedding_table("decoder", table_vocab));
    lm_head_ = target_table_;
    target_vocab_ = table_vocab;
    if (!config_.tie_word_embeddings) {
        target_vocab_ = config_.share_encoder_decoder_embeddings ? config_.vocab_size : config_.decoder_vocab_size;
        VKFORMER_TRY(lm_head_, require("lm_head.weight", {target_vocab_, d}));
    }
    if (target_vocab_ > table_vocab)
        return Error{ErrorCode::ShapeMismatch, weights_.source() + ": " + target_table_ + " has " +
                                                   std::to_string(table_vocab) + " rows, fewer than the " +
                                                   std::to_string(target_vocab_) + " tokens that lm_head.weight gives"};
    if (weights_.find("final_logits_bias")) {
        VKFORMER_TRY(const std::string bias, require("final_logits_bias", {1, target_vocab_}));
        logits_bias_ = *weights_.find(bias);
        logits_bias_.shape = {target_vocab_};
    }

    const auto require_linear = [&](const std::string& name, std::uint64_t out, std::uint64_t in) -> Result<void> {
        VKFORMER_CHECK(require(name + ".weight", {out, in}));
        VKFORMER_CHECK(require(name + ".bias", {out}));
        return {};
    };
    const auto require_norm = [&](const std::string& name) -> Result<void> {
        VKFORMER_CHECK(require(name + ".weight", {d}));
        VKFORMER_CHECK(require(name + ".bias", {d}));
        return {};
    };
    for (const Stack& stack : {encoder_stack(config_), decoder_stack(config_)}) {
        for (std::uint32_t layer = 0; layer < stack.layers; ++layer) {
            const std::string prefix = layer_prefix(stack.name, layer);
            for (const std::string attention : {"self_attn", "encoder_attn"}) {
                if (attention == "encoder_attn" && stack.name == "encoder") continue;
                for (const char* projection : {".q_proj", ".k_proj", ".v_proj", ".out_proj"})
                    VKFORMER_CHECK(require_linear(prefix + attention + projection, d, d));
                VKFORMER_CHECK(require_norm(prefix + attention + "_layer_norm"));
            }
            VKFORMER_CHECK(require_linear(prefix + "fc1", stack.ffn_dim, d));
            VKFORMER_CHECK(require_linear(prefix + "fc2", d, stack.ffn_dim));
            VKFORMER_CHECK(require_norm(prefix + "final_layer_norm"));
        }
    }
    return {};
}

/// The tables of positions: stored ones win over computed ones, as in Hugging Face.
Result<void> Marian::load_positions() {
    const std::uint64_t positions = config_.max_position_embeddings, d = config_.d_model;
    if (positions * d > kMaxPositionElements)
        return Error{ErrorCode::UnsupportedConfig, "config.json: \"max_position_embeddings\" is " +
                                                       std::to_string(positions) + ", at most " +
                                                       std::to_string(kMaxPositionElements / d) + " with this d_model"};
    const auto load = [&](const std::string& name, TensorData& table) -> Result<void> {
        if (!weights_.find(name)) return {};
        VKFORMER_CHECK(require(name, {positions, d}));
        table = *weights_.find(name);
        return {};
    };
    VKFORMER_CHECK(load("model.encoder.embed_positions.weight", source_positions_));
    VKFORMER_CHECK(load("model.decoder.embed_positions.weight", target_positions_));
    if (source_positions_.bytes.empty() || target_positions_.bytes.empty()) {
        const TensorData sinusoids = graph::sinusoidal_table(positions, d, graph::SinusoidLayout::halves);
        if (source_positions_.bytes.empty()) source_positions_ = sinusoids;
        if (target_positions_.bytes.empty()) target_positions_ = sinusoids;
    }
    return {};
}

EncoderDecoder::Limits Marian::limits() const noexcept {
    return {.source_len = config_.max_position_embeddings,
            .target_len = config_.max_position_embeddings,
            .source_vocab = source_vocab_,
            .target_vocab = target_vocab_};
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

/// The pieces of the network for one graph.
class Marian::Builder {
public:
    Builder(const Marian& model, Graph& graph, DType dtype) : model_(model), graph_(graph), dtype_(dtype) {}

    std::uint64_t d_model() const { return model_.config_.d_model; }

    Result<Value> embed(const Stack& stack, Value tokens, Value starts) {
        const bool is_encoder = stack.name == "encoder";
        graph_.set_scope(std::string(stack.name));
        VKFORMER_TRY(const Value table, weight(is_encoder ? model_.source_table_ : model_.target_table_));
        const float scale = model_.config_.scale_embedding ? std::sqrt(static_cast<float>(d_model())) : 1.0f;
        VKFORMER_TRY(const Value x, graph::embedding(graph_, tokens, table, scale));
        const std::string stored = "model." + std::string(stack.name) + ".embed_positions.weight";
        VKFORMER_TRY(const Value positions,
                     graph_.weight(model_.weights_.find(stored) ? stored : "sinusoidal_positions",
                                   is_encoder ? model_.source_positions_ : model_.target_positions_, DType::f32));
        return graph::positional_embedding(graph_, x, positions, starts);
    }

    /// Scope and weight of one projection, split into heads: [batch, len, heads, head_dim].
    Result<Value> project_heads(const std::string& attention, std::string_view projection, std::uint32_t heads,
                                Value x) {
        VKFORMER_TRY(const Value y, linear(attention + "." + std::string(projection), x));
        const Shape& shape = graph_.shape(y);
        return graph_.reshape(y, {shape[0], shape[1], heads, head_dim(d_model(), heads)});
    }

    /// What follows the heads: the output projection, the residual and the norm. `like` gives the shape.
    Result<Value> finish_attention(const std::string& attention, Value heads, Value residual) {
        VKFORMER_TRY(const Value joined, graph_.reshape(heads, graph_.shape(residual)));
        VKFORMER_TRY(const Value y, linear(attention + ".out_proj", joined));
        return add_and_norm(attention + "_layer_norm", residual, y);
    }

    Result<Value> feed_forward(const Stack& stack, std::uint32_t layer, Value x) {
        const std::string prefix = layer_prefix(stack.name, layer);
        VKFORMER_TRY(const Value inner, linear(prefix + "fc1", x));
        VKFORMER_TRY(const Value active, graph::activate(graph_, inner, model_.config_.activation_function));
        VKFORMER_TRY(const Value y, linear(prefix + "fc2", active));
        return add_and_norm(prefix + "final_layer_norm", x, y);
    }

    /// softmax(query · keyᵀ / √head_dim + mask) · value. With `weights`, by the path that keeps the weights, which it returns.
    Result<Value> attend(Value query, Value key, Value value, const AttentionMask& mask, Value* weights) {
        const float scale = 1.0f / std::sqrt(static_cast<float>(graph_.shape(query).back()));
        if (!weights) return graph::attention(graph_, query, key, value, mask, scale);
        VKFORMER_TRY(const Value scores, graph::attention_scores(graph_, query, key, scale));
        VKFORMER_TRY(*weights, graph::masked_softmax(graph_, scores, mask));
        graph_.mark_output(*weights);
        return graph::weighted_sum(graph_, *weights, value);
    }

    /// x [batch, len, d_model] → logits f32 [batch · len, vocabulary].
    Result<Value> logits(Value x) {
        graph_.set_scope("lm_head");
        const std::uint64_t rows = graph_.shape(x).row_count();
        VKFORMER_TRY(const Value flat, graph_.reshape(x, {rows, d_model()}));
        VKFORMER_TRY(const Value table, weight(model_.lm_head_));
        Value bias;
        if (!model_.logits_bias_.bytes.empty()) {
            VKFORMER_TRY(bias, graph_.weight("final_logits_bias", model_.logits_bias_, dtype_));
        }
        return graph::linear(graph_, flat, table, bias, DType::f32);
    }

    Result<Value> encoder(Value tokens, const AttentionMask& mask, std::vector<ForwardGraph::AttentionMap>* maps) {
        const Stack stack = encoder_stack(model_.config_);
        VKFORMER_TRY(Value x, embed(stack, tokens, {}));
        for (std::uint32_t layer = 0; layer < stack.layers; ++layer) {
            const std::string attention = layer_prefix(stack.name, layer) + "self_attn";
            VKFORMER_TRY(const Value query, project_heads(attention, "q_proj", stack.heads, x));
            VKFORMER_TRY(const Value key, project_heads(attention, "k_proj", stack.heads, x));
            VKFORMER_TRY(const Value value, project_heads(attention, "v_proj", stack.heads, x));
            graph_.set_scope(layer_scope(stack.name, layer) + ".self_attn");
            Value weights;
            VKFORMER_TRY(const Value heads, attend(query, key, value, mask, maps ? &weights : nullptr));
            if (maps) maps->push_back({AttentionKind::encoder, layer, weights});
            VKFORMER_TRY(const Value y, finish_attention(attention, heads, x));
            VKFORMER_TRY(x, feed_forward(stack, layer, y));
        }
        return x;
    }

private:
    Result<Value> weight(const std::string& name) {
        VKFORMER_TRY(TensorData data, model_.weights_.get(name));
        return graph_.weight(name, std::move(data), dtype_);
    }

    /// "model.encoder.layers.0.fc1" as a scope: "encoder.0.fc1".
    static std::string scope_of(std::string name) {
        constexpr std::string_view kModel = "model.", kLayers = "layers.";
        if (name.starts_with(kModel)) name.erase(0, kModel.size());
        if (const auto at = name.find(kLayers); at != name.npos) name.erase(at, kLayers.size());
        return name;
    }

    Result<Value> linear(const std::string& name, Value x) {
        graph_.set_scope(scope_of(name));
        VKFORMER_TRY(const Value w, weight(name + ".weight"));
        VKFORMER_TRY(const Value bias, weight(name + ".bias"));
        return graph::linear(graph_, x, w, bias);
    }

    Result<Value> add_and_norm(const std::string& name, Value residual, Value y) {
        graph_.set_scope(scope_of(name));
        VKFORMER_TRY(const Value sum, graph::add(graph_, residual, y));
        VKFORMER_TRY(const Value gain, weight(name + ".weight"));
        VKFORMER_TRY(const Value bias, weight(name + ".bias"));
        return graph::layer_norm(graph_, sum, gain, bias, kLayerNormEps);
    }

    const Marian& model_;
    Graph& graph_;
    DType dtype_;
};

Result<ForwardGraph> Marian::forward(const ForwardOptions& options) const {
    ForwardGraph f;
    Graph& g = f.graph;
    Builder build(*this, g, options.dtype);
    VKFORMER_TRY(f.source_tokens, g.input("input_ids", DType::i32, {options.batch, options.source_len}));
    AttentionMask source_mask;
    if (options.source_mask == SourceMask::lengths) {
        VKFORMER_TRY(f.source_lengths, g.input("source_lengths", DType::i32, {options.batch}));
        source_mask.key_lengths = f.source_lengths;
    } else if (options.source_mask == SourceMask::additive) {
        VKFORMER_TRY(f.source_mask, g.input("source_mask", DType::f32, {options.batch, 1, 1, options.source_len}));
        source_mask.additive = f.source_mask;
    }
    VKFORMER_TRY(f.target_tokens, g.input("decoder_input_ids", DType::i32, {options.batch, options.target_len}));
    AttentionMask target_mask = {.causal = true};
    if (options.target_mask) {
        VKFORMER_TRY(f.target_mask, g.input("target_mask", DType::f32, {options.batch, 1, 1, options.target_len}));
        target_mask.additive = f.target_mask;
    }

    auto* maps = options.attention_weights ? &f.attention : nullptr;
    VKFORMER_TRY(f.encoder_hidden, build.encoder(f.source_tokens, source_mask, maps));
    g.mark_output(f.encoder_hidden);

    const Stack stack = decoder_stack(config_);
    VKFORMER_TRY(Value x, build.embed(stack, f.target_tokens, {}));
    for (std::uint32_t layer = 0; layer < stack.layers; ++layer) {
        const auto attention_block = [&](const std::string& name, AttentionKind kind, Value keys,
                                         const AttentionMask& mask) -> Result<Value> {
            const std::string attention = layer_prefix(stack.name, layer) + name;
            VKFORMER_TRY(const Value query, build.project_heads(attention, "q_proj", stack.heads, x));
            VKFORMER_TRY(const Value key, build.project_heads(attention, "k_proj", stack.heads, keys));
            VKFORMER_TRY(const Value value, build.project_heads(attention, "v_proj", stack.heads, keys));
            g.set_scope(layer_scope(stack.name, layer) + "." + name);
            Value weights;
            VKFORMER_TRY(const Value heads, build.attend(query, key, value, mask, maps ? &weights : nullptr));
            if (maps) maps->push_back({kind, layer, weights});
            return build.finish_attention(attention, heads, x);
        };
        VKFORMER_TRY(x, attention_block("self_attn", AttentionKind::decoder, x, target_mask));
        VKFORMER_TRY(x, attention_block("encoder_attn", AttentionKind::cross, f.encoder_hidden, source_mask));
        VKFORMER_TRY(x, build.feed_forward(stack, layer, x));
    }
    f.decoder_hidden = x;
    g.mark_output(x);
    VKFORMER_TRY(const Value logits, build.logits(x));
    g.mark_output(logits);
    VKFORMER_TRY(f.logits, g.reshape(logits, {options.batch, options.target_len, target_vocab_}));
    return f;
}

namespace {

/// The states that an encoder leaves for the decoder differ with the source length, so its number is in their names.
std::string cross_state(std::string_view what, std::uint32_t layer, const DecodeLayout& layout) {
    return "cross_" + std::string(what) + "." + std::to_string(layer) + ".source_" + std::to_string(layout.source_len);
}

Result<SourceTensors> source_states(Graph& graph, const DecodeLayout& layout) {
    SourceTensors source;
    if (layout.masked_source) {
        VKFORMER_TRY(source.mask, graph.state("source_mask.source_" + std::to_string(layout.source_len), DType::f32,
                                              {layout.batch, 1, 1, layout.source_len}));
    } else {
        VKFORMER_TRY(source.lengths, graph.state("source_lengths", DType::i32, {layout.batch}));
    }
    return source;
}

AttentionMask mask_of(const SourceTensors& source) { return {.key_lengths = source.lengths, .additive = source.mask}; }

}  // namespace

Result<SourceTensors> Marian::add_encoder(Graph& graph, const DecodeLayout& layout) const {
    Builder build(*this, graph, layout.dtype);
    VKFORMER_TRY(SourceTensors source, source_states(graph, layout));
    VKFORMER_TRY(source.tokens, graph.input("input_ids", DType::i32, {layout.batch, layout.source_len}));
    VKFORMER_TRY(const Value hidden, build.encoder(source.tokens, mask_of(source), nullptr));

    const Stack stack = decoder_stack(config_);
    const Shape heads = {layout.batch, layout.source_len, stack.heads, head_dim(config_.d_model, stack.heads)};
    for (std::uint32_t layer = 0; layer < stack.layers; ++layer) {
        const std::string attention = layer_prefix(stack.name, layer) + "encoder_attn";
        for (const auto& [what, projection] : {std::pair{"key", "k_proj"}, std::pair{"value", "v_proj"}}) {
            VKFORMER_TRY(const Value state, graph.state(cross_state(what, layer, layout), layout.dtype, heads));
            VKFORMER_TRY(const Value x, build.project_heads(attention, projection, stack.heads, hidden));
            VKFORMER_CHECK(graph::cache_append(graph, x, {}, state));
        }
    }
    return source;
}

Result<EncoderDecoder::Step> Marian::add_decoder_step(Graph& graph, const DecodeLayout& layout, Value tokens,
                                                      Value starts) const {
    Builder build(*this, graph, layout.dtype);
    Step step;
    VKFORMER_TRY(step.source, source_states(graph, layout));
    const Stack stack = decoder_stack(config_);
    const std::uint64_t dim = head_dim(config_.d_model, stack.heads);
    const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
    const std::uint64_t rows = layout.rows();

    VKFORMER_TRY(Value x, build.embed(stack, tokens, starts));
    for (std::uint32_t layer = 0; layer < stack.layers; ++layer) {
        const std::string scope = layer_scope(stack.name, layer), prefix = layer_prefix(stack.name, layer);
        const std::string self = prefix + "self_attn", cross = prefix + "encoder_attn";

        VKFORMER_TRY(const Value query, build.project_heads(self, "q_proj", stack.heads, x));
        Value caches[2];
        for (int i = 0; i < 2; ++i) {
            const std::string what = i == 0 ? "key" : "value";
            VKFORMER_TRY(const Value projected,
                         build.project_heads(self, i == 0 ? "k_proj" : "v_proj", stack.heads, x));
            VKFORMER_TRY(caches[i], graph.state("self_" + what + "." + std::to_string(layer), layout.dtype,
                                                {rows, layout.max_steps, stack.heads, dim}));
            graph.set_scope(scope + ".self_attn." + what);
            VKFORMER_CHECK(graph::cache_append(graph, projected, starts, caches[i]));
            step.caches.push_back(caches[i]);
        }
        graph.set_scope(scope + ".self_attn");
        VKFORMER_TRY(const Value own, graph::decode_attention(graph, query, caches[0], caches[1],
                                                              {.causal = true, .starts = starts}, scale));
        VKFORMER_TRY(x, build.finish_attention(self, own, x));

        const Shape source_heads = {layout.batch, layout.source_len, stack.heads, dim};
        VKFORMER_TRY(const Value key, graph.state(cross_state("key", layer, layout), layout.dtype, source_heads));
        VKFORMER_TRY(const Value value, graph.state(cross_state("value", layer, layout), layout.dtype, source_heads));
        VKFORMER_TRY(const Value row_query, build.project_heads(cross, "q_proj", stack.heads, x));
        // The beams of a sequence are queries of one batch element, so that they share its keys and values.
        VKFORMER_TRY(const Value beam_query, graph.reshape(row_query, {layout.batch, layout.beams, stack.heads, dim}));
        graph.set_scope(scope + ".encoder_attn");
        const AttentionMask mask = mask_of(step.source);
        VKFORMER_TRY(const Value seen, layout.beams == 1
                                           ? graph::decode_attention(graph, beam_query, key, value, mask, scale)
                                           : graph::attention(graph, beam_query, key, value, mask, scale));
        VKFORMER_TRY(x, build.finish_attention(cross, seen, x));
        VKFORMER_TRY(x, build.feed_forward(stack, layer, x));
    }
    VKFORMER_TRY(step.logits, build.logits(x));
    return step;
}

}  // namespace vkformer::models
