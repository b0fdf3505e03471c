// SPDX-License-Identifier: MIT
/// Low-rank adapters (LoRA, Hu et al. 2022) of decoder-only models and encoders of texts: read from PEFT's folders and from GGUF files, and
/// put beside the weights that they add to. Nothing is merged: which of them count, and how much, is asked for with each run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/open_model.hpp"

namespace vkformer::models {

/// One adapter, as its file has it. A plain value; the tensors keep the file.
struct Adapter {
    /// Adds scale · up · down to a weight [out, in].
    struct Update {
        TensorData down, up;    ///< [rank, in] and [out, rank], of any float dtype or block format
        float scale = 1;        ///< α / rank, or α / √rank
        bool is_table = false;  ///< of a table whose rows are chosen, [in, out]: it adds scale · (up · down)ᵀ
    };

    std::string source;                                  ///< as messages call it
    bool is_file = false;                                ///< GGUF; else a folder
    std::string architecture;                            ///< of the model, where the file says it, as GGUF files do
    std::map<std::string, Update, std::less<>> updates;  ///< by the weight's name in the model's file; at least one
    /// Weights of the model that the adapter's file repeats, as PEFT does where the head is changed; by their names there.
    formats::TensorMap repeated;
};

/// A folder with adapter_config.json and adapter_model.safetensors, or a GGUF file of the type "adapter". What would change the
/// arithmetic and is not done (DoRA, biases, whole modules) is refused by name. Errors: FileNotFound, CorruptFile,
/// UnsupportedConfig, UnsupportedDtype, MissingTensor, ShapeMismatch.
Result<Adapter> open_adapter(const std::filesystem::path& path);

/// The model with the adapters beside its weights, in this order. Errors: UnsupportedConfig (an adapter of another kind of file or
/// architecture, or that changes a weight which takes none, experts' among them, or repeats one that differs from the model's; more ranks
/// than kMostAdapterColumns),
/// ShapeMismatch, UnsupportedDtype.
Result<Decoder> with_adapters(const Opened<Decoder>& opened, const Decoder& model,
                              const std::vector<Adapter>& adapters);
/// The same of an encoder of texts; tables of tokens and types take adapters too.
Result<Encoder> with_adapters(const Opened<Encoder>& opened, const Encoder& model,
                              const std::vector<Adapter>& adapters);

/// Columns that the adapters of a model have together.
inline constexpr std::uint32_t kMostAdapterColumns = 4096;

}  // namespace vkformer::models
