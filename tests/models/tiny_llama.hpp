// SPDX-License-Identifier: MIT
/// A model folder with random weights, of any head size: what the goldens, whose heads are small, do not show.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "formats/safetensors.hpp"
#include "support/must.hpp"

namespace vkformer::tests {

struct TinyLlama {
    std::uint32_t heads = 4, kv_heads = 2, head_dim = 32, hidden = 48, inner = 64, layers = 2, vocab = 61;
    std::uint32_t positions = 128;
    std::uint32_t window = 0;  ///< > 0: a Mistral whose layers see so many tokens
    bool every_layer = true;   ///< with a window: they all do; else the second does, the fourth …
};

/// config.json and model.safetensors in `folder`, which exists.
inline void write_tiny_llama(const std::filesystem::path& folder, const TinyLlama& m) {
    nlohmann::json config{{"architectures", {"LlamaForCausalLM"}},
                          {"model_type", "llama"},
                          {"hidden_act", "silu"},
                          {"hidden_size", m.hidden},
                          {"intermediate_size", m.inner},
                          {"head_dim", m.head_dim},
                          {"num_attention_heads", m.heads},
                          {"num_key_value_heads", m.kv_heads},
                          {"num_hidden_layers", m.layers},
                          {"max_position_embeddings", m.positions},
                          {"rms_norm_eps", 1e-6},
                          {"rope_theta", 10000.0},
                          {"tie_word_embeddings", true},
                          {"vocab_size", m.vocab}};
    if (m.window > 0) {
        config.update({{"architectures", {"MistralForCausalLM"}}, {"model_type", "mistral"}});
        config["sliding_window"] = m.window;
        for (std::uint32_t i = 0; i < m.layers; ++i)
            config["layer_types"].push_back(m.every_layer || i % 2 == 1 ? "sliding_attention" : "full_attention");
    }
    std::ofstream(folder / "config.json") << config;
    std::mt19937 random(20);
    std::vector<formats::NamedTensor> tensors;
    const auto add = [&](const std::string& name, Shape shape, float mean, float deviation) {
        std::normal_distribution<float> distribution(mean, deviation);
        const auto values = std::make_shared<std::vector<float>>(shape.element_count());
        for (float& value : *values) value = distribution(random);
        tensors.push_back(
            {name, {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*values)), .owner = values}});
    };
    const auto matrix = [&](const std::string& name, std::uint64_t out, std::uint64_t in) {
        add(name + ".weight", {out, in}, 0, 1.5f / std::sqrt(static_cast<float>(in)));
    };
    add("model.embed_tokens.weight", {m.vocab, m.hidden}, 0, 1);
    add("model.norm.weight", {m.hidden}, 1, 0.1f);
    for (std::uint32_t i = 0; i < m.layers; ++i) {
        const std::string layer = "model.layers." + std::to_string(i) + ".";
        add(layer + "input_layernorm.weight", {m.hidden}, 1, 0.1f);
        add(layer + "post_attention_layernorm.weight", {m.hidden}, 1, 0.1f);
        matrix(layer + "self_attn.q_proj", m.heads * m.head_dim, m.hidden);
        matrix(layer + "self_attn.k_proj", m.kv_heads * m.head_dim, m.hidden);
        matrix(layer + "self_attn.v_proj", m.kv_heads * m.head_dim, m.hidden);
        matrix(layer + "self_attn.o_proj", m.hidden, m.heads * m.head_dim);
        matrix(layer + "mlp.gate_proj", m.inner, m.hidden);
        matrix(layer + "mlp.up_proj", m.inner, m.hidden);
        matrix(layer + "mlp.down_proj", m.hidden, m.inner);
    }
    must(formats::write_safetensors(folder / "model.safetensors", tensors));
}

}  // namespace vkformer::tests
