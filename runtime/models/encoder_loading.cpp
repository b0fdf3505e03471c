// SPDX-License-Identifier: MIT
#include "models/encoder_loading.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "core/try.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

struct NamedActivation {
    std::string_view name;
    graph::Activation activation;
};
constexpr std::array<NamedActivation, 13> kActivations = {{
    {"gelu", graph::Activation::gelu_erf},
    {"gelu_python", graph::Activation::gelu_erf},
    {"gelu_new", graph::Activation::gelu_tanh},
    {"gelu_fast", graph::Activation::gelu_tanh},  // its constant has ten digits, which float32 does not see
    {"gelu_accurate", graph::Activation::gelu_tanh},
    {"gelu_pytorch_tanh", graph::Activation::gelu_tanh},
    {"gelu_python_tanh", graph::Activation::gelu_tanh},
    {"relu", graph::Activation::relu},
    {"silu", graph::Activation::silu},
    {"swish", graph::Activation::silu},
    {"tanh", graph::Activation::tanh},
    {"sigmoid", graph::Activation::sigmoid},
    {"linear", graph::Activation::none},
}};

/// Reads tensors by name and checks them.
class Reader {
public:
    Reader(const Weights& weights, std::string prefix) : weights_(weights), prefix_(std::move(prefix)) {}

    Result<TensorData> tensor(const std::string& name, const Shape& shape) const {
        VKFORMER_TRY(TensorData data, matrix(name));
        if (!(data.shape == shape))
            return Error{ErrorCode::ShapeMismatch, weights_.source() + ": " + prefix_ + name + " has shape " +
                                                       to_string(data.shape) + ", expected " + to_string(shape) +
                                                       " by the model's configuration"};
        return data;
    }

    /// Any shape.
    Result<TensorData> matrix(const std::string& name) const {
        VKFORMER_TRY(TensorData data, weights_.get(prefix_ + name));
        if (!is_float(data.dtype) && !is_quantized(data.dtype))
            return Error{ErrorCode::UnsupportedDtype, weights_.source() + ": " + prefix_ + name + " holds " +
                                                          std::string(to_string(data.dtype)) + ", expected floats"};
        return data;
    }

    Result<EncoderWeights::Projection> projection(const std::string& name, std::uint64_t out, std::uint64_t in) const {
        EncoderWeights::Projection p;
        VKFORMER_TRY(p.weight, tensor(name + ".weight", {out, in}));
        VKFORMER_TRY(p.bias, tensor(name + ".bias", {out}));
        return p;
    }

    Result<EncoderWeights::Norm> norm(const std::string& name, std::uint64_t dim) const {
        const bool is_old = weights_.find(prefix_ + name + ".gamma") && !weights_.find(prefix_ + name + ".weight");
        EncoderWeights::Norm n;
        VKFORMER_TRY(n.gain, tensor(name + (is_old ? ".gamma" : ".weight"), {dim}));
        VKFORMER_TRY(n.bias, tensor(name + (is_old ? ".beta" : ".bias"), {dim}));
        return n;
    }

private:
    const Weights& weights_;
    std::string prefix_;
};

Result<EncoderWeights::Layer> read_layer(const Reader& read, const EncoderConfig& c, const EncoderNames& names,
                                         std::uint32_t index) {
    const auto name = [&](std::string_view part) {
        return std::string(names.layer) + std::to_string(index) + "." + std::string(part);
    };
    const std::uint64_t d = c.hidden_size, inner = c.intermediate_size;
    EncoderWeights::Layer l;
    VKFORMER_TRY(l.query, read.projection(name(names.query), d, d));
    VKFORMER_TRY(l.key, read.projection(name(names.key), d, d));
    VKFORMER_TRY(l.value, read.projection(name(names.value), d, d));
    VKFORMER_TRY(l.output, read.projection(name(names.output), d, d));
    VKFORMER_TRY(l.attention_norm, read.norm(name(names.attention_norm), d));
    VKFORMER_TRY(l.up, read.projection(name(names.up), inner, d));
    VKFORMER_TRY(l.down, read.projection(name(names.down), d, inner));
    VKFORMER_TRY(l.feed_forward_norm, read.norm(name(names.feed_forward_norm), d));
    return l;
}

/// The table of positions from `first` on. Its rows need not be as many as config.json says: they are what there is.
Result<TensorData> read_positions(const Reader& read, const EncoderConfig& c, const EncoderNames& names,
                                  std::uint32_t first) {
    const std::string name(names.positions);
    const std::uint64_t rows = std::uint64_t{c.max_positions} + first;
    VKFORMER_TRY(TensorData table, read.tensor(name, {rows, c.hidden_size}));
    const std::uint64_t row_bytes = bytes_of(table.dtype, c.hidden_size);
    table.shape = {c.max_positions, c.hidden_size};
    table.bytes = table.bytes.subspan(first * row_bytes);
    return table;
}

}  // namespace

Result<EncoderWeights> read_encoder_weights(const Weights& weights, EncoderConfig& c, const EncoderNames& names,
                                            std::uint32_t first_position) {
    const bool is_bare =
        !weights.find(std::string(names.prefix) + std::string(names.words)) && weights.find(names.words);
    const Reader read(weights, is_bare ? "" : std::string(names.prefix));
    const std::uint64_t d = c.hidden_size;
    EncoderWeights w;
    VKFORMER_TRY(w.embedding, read.tensor(std::string(names.words), {c.vocab_size, d}));
    c.max_positions -= first_position;
    VKFORMER_TRY(w.positions, read_positions(read, c, names, first_position));
    if (c.types > 0) {
        VKFORMER_TRY(w.types, read.tensor(std::string(names.types), {c.types, d}));
    }
    VKFORMER_TRY(w.embedding_norm, read.norm(std::string(names.embedding_norm), d));
    for (std::uint32_t layer = 0; layer < c.layers; ++layer) {
        VKFORMER_TRY(auto l, read_layer(read, c, names, layer));
        w.layers.push_back(std::move(l));
    }
    if (c.labels > 0) {
        const Reader whole(weights, "");
        VKFORMER_TRY(w.head_dense, whole.projection(std::string(names.head_dense), d, d));
        VKFORMER_TRY(w.head_output, whole.projection(std::string(names.head_output), c.labels, d));
    }
    return w;
}

// ---- config ---------------------------------------------------------------------------------------------------------

Result<graph::Activation> read_encoder_activation(const Config& config, std::string_view name) {
    VKFORMER_TRY(const std::string value, config.string(name, "gelu"));
    std::string supported;
    for (const auto& known : kActivations) {
        if (known.name == value) return known.activation;
        supported += (supported.empty() ? "" : ", ") + std::string(known.name);
    }
    return config.unsupported(name, supported);
}

Result<std::uint32_t> read_labels(const Config& config) {
    VKFORMER_TRY(const auto architectures, config.strings("architectures"));
    const bool has_head = std::ranges::any_of(
        architectures, [](const std::string& name) { return name.ends_with("ForSequenceClassification"); });
    if (!has_head) return 0u;
    VKFORMER_TRY(const Config names, config.object("id2label"));
    if (const std::size_t labels = names.names().size(); labels > 0) return static_cast<std::uint32_t>(labels);
    const char* const field = config.has("_num_labels") ? "_num_labels" : "num_labels";  // old and new
    return config.unsigned_integer(field, {.fallback = 2, .min = 1, .max = 1u << 20});
}

Result<void> refuse_other_encoders(const Config& config) {
    for (const std::string_view name : {"is_decoder", "add_cross_attention", "is_encoder_decoder"}) {
        VKFORMER_TRY(const bool value, config.boolean(name, false));
        if (value) return config.unsupported(name, "false");
    }
    VKFORMER_TRY(const std::string positions, config.string("position_embedding_type", "absolute"));
    if (positions != "absolute") return config.unsupported("position_embedding_type", "absolute");
    VKFORMER_TRY(const Config pruned, config.object("pruned_heads"));
    if (!pruned.names().empty()) return config.unsupported("pruned_heads", "{}");
    if (config.has("quantization_config")) return config.unsupported("quantization_config", "null");
    return {};
}

Result<EncoderConfig> read_bert_config(const Config& config) {
    VKFORMER_CHECK(refuse_other_encoders(config));
    const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
    EncoderConfig c;
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.hidden_size, config.unsigned_integer("hidden_size", count));
    VKFORMER_TRY(c.intermediate_size, config.unsigned_integer("intermediate_size", count));
    VKFORMER_TRY(c.layers, config.unsigned_integer("num_hidden_layers", {.min = 1, .max = 4096}));
    VKFORMER_TRY(c.heads, config.unsigned_integer("num_attention_heads", count));
    VKFORMER_TRY(c.max_positions,
                 config.unsigned_integer("max_position_embeddings", {.fallback = 512, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(c.types, config.unsigned_integer("type_vocab_size", {.fallback = 2, .min = 1, .max = 1u << 10}));
    VKFORMER_TRY(const double eps, config.real("layer_norm_eps", {.fallback = 1e-12, .min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    VKFORMER_TRY(c.activation, read_encoder_activation(config, "hidden_act"));
    VKFORMER_TRY(c.labels, read_labels(config));
    VKFORMER_TRY(const auto embedding_size,
                 config.unsigned_integer("embedding_size", {.fallback = c.hidden_size, .min = 1}));
    if (embedding_size != c.hidden_size)
        return config.unsupported("embedding_size", "hidden_size = " + std::to_string(c.hidden_size));
    if (c.hidden_size % c.heads != 0)
        return config.unsupported("num_attention_heads", "a divisor of hidden_size = " + std::to_string(c.hidden_size));
    return c;
}

// ---- by type --------------------------------------------------------------------------------------------------------

namespace {

struct Architecture {
    std::string_view model_type;
    Result<Encoder> (*load)(const Config&, const Weights&);
};
constexpr std::array<Architecture, 5> kArchitectures = {{
    {"bert", &load_bert},
    {"roberta", &load_roberta},
    {"xlm-roberta", &load_roberta},
    {"camembert", &load_roberta},
    {"distilbert", &load_distilbert},
}};

}  // namespace

Result<Encoder> load_encoder(const std::filesystem::path& folder) {
    VKFORMER_TRY(const Config config, Config::open(folder / "config.json"));
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    std::string supported;
    for (const Architecture& architecture : kArchitectures) {
        if (architecture.model_type == type) {
            VKFORMER_TRY(const Weights weights, formats::open_weights(folder));
            return architecture.load(config, weights);
        }
        supported += (supported.empty() ? "" : ", ") + std::string(architecture.model_type);
    }
    return config.unsupported("model_type", supported);
}

}  // namespace vkformer::models
