// SPDX-License-Identifier: MIT
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "core/try.hpp"
#include "formats/config.hpp"
#include "formats/gguf.hpp"
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
            std::error_code ignored;
            if (!std::filesystem::equivalent(model.files, folder, ignored))
                return Error{ErrorCode::UnsupportedConfig, "the weights are in " + model.files.string() +
                                                               ": convert that folder, and copy the others beside it"};
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
    for (const auto& [name, data] : weights.tensors()) {
        if (formats::ggml_type_of(data.dtype) && data.shape.rank() <= formats::Gguf::kMaxTensorRank)
            contents.tensors.push_back({.name = name, .source = data});
        else
            contents.notes.push_back(name + " is left out: GGUF files have no such tensors");
    }
    choose_folder_dtypes(contents.tensors, dtype, contents.notes);
    return contents;
}

}  // namespace vkformer::models
