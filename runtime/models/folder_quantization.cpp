// SPDX-License-Identifier: MIT
#include <string>
#include <utility>
#include <variant>

#include "core/try.hpp"
#include "formats/config.hpp"
#include "formats/weights.hpp"
#include "models/gguf_dtypes.hpp"
#include "models/gguf_export.hpp"
#include "models/open_model.hpp"

namespace vkformer::models {
namespace {

/// That the folder is a model whose graphs read matrices in blocks, and all of it is there.
Result<void> check_quantizable(const std::filesystem::path& folder) {
    VKFORMER_TRY(const OpenedModel opened, open_model(folder));
    if (const auto* const decoder = std::get_if<Opened<Decoder>>(&opened))
        return Error{ErrorCode::UnsupportedConfig,
                     decoder->path.string() + " is a language model: name a .gguf file to write"};
    return std::visit(
        [&](const auto& model) -> Result<void> {
            if (const auto* const config = std::get_if<formats::Config>(&model.head)) {
                VKFORMER_TRY(const std::string type, config->string("model_type", ""));
                if (type == "recurrent_seq2seq")
                    return config->unsupported("model_type", "that of a Transformer (for block formats)");
            }
            VKFORMER_TRY(const auto loaded, model.load());
            (void)loaded;
            return {};
        },
        opened);
}

}  // namespace

Result<GgufContents> quantized_folder(const std::filesystem::path& folder, DType dtype) {
    VKFORMER_CHECK(check_quantizable(folder));
    VKFORMER_TRY(const auto weights, formats::open_weights(folder));
    GgufContents contents;
    contents.metadata.set("general.architecture", formats::kBlockArchitecture);
    contents.metadata.set("general.description",
                          "The weights of the config.json beside it, by their names in safetensors");
    contents.metadata.set("general.file_type", gguf_file_type(dtype));
    contents.metadata.set("general.quantization_version", std::uint32_t{2});
    for (const auto& [name, data] : weights.tensors()) contents.tensors.push_back({.name = name, .source = data});
    choose_folder_dtypes(contents.tensors, dtype, contents.notes);
    return contents;
}

}  // namespace vkformer::models
