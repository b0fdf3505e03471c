// SPDX-License-Identifier: MIT
/// Low-rank adapters that are loaded beside a model's weights.
#pragma once

#include <filesystem>
#include <string>

namespace vkformer {

/// A low-rank adapter (LoRA, Hu et al. 2022): a folder of PEFT's (adapter_config.json, adapter_model.safetensors) for a model in a folder, a
/// GGUF file for one in a GGUF file.
struct Adapter {
    std::string name{};  ///< by which each call asks for it
    std::filesystem::path path{};
};

}  // namespace vkformer
