// SPDX-License-Identifier: MIT
/// Low-rank adapters of golden decoders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cpu/backend.hpp"
#include "formats/safetensors.hpp"
#include "models/adapter.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {

inline std::filesystem::path adapter_folder(const std::string& name) { return goldens_dir() / "adapters" / name; }

/// A golden decoder with these adapters beside it.
inline Result<models::Decoder> with_adapters(const std::filesystem::path& model,
                                             const std::vector<std::filesystem::path>& paths) {
    const auto opened = must(models::open_decoder(model));
    std::vector<models::Adapter> adapters;
    for (const auto& path : paths) {
        auto adapter = models::open_adapter(path);
        if (!adapter) return std::move(adapter).error();
        adapters.push_back(*std::move(adapter));
    }
    return models::with_adapters(opened, must(opened.load()), adapters);
}

/// The same of an encoder of texts.
inline Result<models::Encoder> with_encoder_adapters(const std::filesystem::path& model,
                                                     const std::vector<std::filesystem::path>& paths) {
    const auto opened = must(models::open_encoder(model));
    std::vector<models::Adapter> adapters;
    for (const auto& path : paths) adapters.push_back(must(models::open_adapter(path)));
    return models::with_adapters(opened, must(opened.load()), adapters);
}

/// A backend of the tests that keeps the activations as they are.
inline graph::Backend& exact_backend(graph::Backend* backend) {
    static const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    return backend == test_backends()[0] ? *floats_on_cpu : *backend;
}

inline std::filesystem::path base_folder(const std::string& model) { return goldens_dir() / "decoders" / model; }
inline std::filesystem::path base_file(const std::string& model) {
    return goldens_dir() / "gguf_decoders" / (model + ".gguf");
}

inline models::Decoder two_adapters() {
    return must(with_adapters(base_folder("llama_gqa_odd"),
                              {adapter_folder("llama_gqa_odd"), adapter_folder("llama_gqa_odd_second")}));
}

inline TensorData random_matrix(std::uint64_t rows, std::uint64_t columns, std::mt19937& random) {
    std::normal_distribution<float> distribution(0, 0.3f);
    const auto values = std::make_shared<std::vector<float>>(rows * columns);
    for (float& value : *values) value = distribution(random);
    return {.dtype = DType::f32, .shape = {rows, columns}, .bytes = std::as_bytes(std::span(*values)), .owner = values};
}

/// The names of an update's halves in PEFT's files.
inline std::string peft_name(const std::string& module, char half) {
    return "base_model.model." + module + ".lora_" + half + ".weight";
}

/// A module that an adapter changes, and its weight's shape.
struct AdaptedModule {
    std::string name;
    std::uint64_t out, in;
};

/// A random adapter as PEFT writes it, in `folder`, which is made. `fields`: of adapter_config.json, over the usual ones.
inline void write_adapter(const std::filesystem::path& folder, const std::vector<AdaptedModule>& modules,
                          std::uint64_t rank = 4, std::uint32_t seed = 1, const nlohmann::json& fields = {}) {
    std::filesystem::create_directory(folder);
    nlohmann::json config = {{"peft_type", "LORA"}, {"r", rank}, {"lora_alpha", 2 * rank}, {"bias", "none"}};
    if (!fields.is_null()) config.merge_patch(fields);
    std::ofstream(folder / "adapter_config.json") << config;
    std::mt19937 random(seed);
    std::vector<formats::NamedTensor> tensors;
    for (const AdaptedModule& module : modules) {
        tensors.push_back({peft_name(module.name, 'A'), random_matrix(rank, module.in, random)});
        tensors.push_back({peft_name(module.name, 'B'), random_matrix(module.out, rank, random)});
    }
    must(formats::write_safetensors(folder / "adapter_model.safetensors", tensors));
}

/// Some that tests/goldens/decoder_text has.
inline std::vector<AdaptedModule> modules_of_decoder_text() {
    return {{"model.layers.0.self_attn.q_proj", 32, 32},
            {"model.layers.0.mlp.up_proj", 40, 32},
            {"model.layers.1.self_attn.v_proj", 16, 32},
            {"model.layers.1.mlp.down_proj", 32, 40}};
}

}  // namespace vkformer::tests
