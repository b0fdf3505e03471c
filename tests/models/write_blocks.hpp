// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

#include "formats/gguf_writer.hpp"
#include "models/gguf_export.hpp"
#include "support/must.hpp"

namespace vkformer::tests {

/// The folder `source` at `folder`, matrices in a block format.
inline void write_blocks(const std::filesystem::path& source, const std::filesystem::path& folder, DType dtype) {
    std::filesystem::create_directory(folder);
    for (const auto& file : std::filesystem::directory_iterator(source))
        if (file.is_regular_file() && file.path().extension() != ".safetensors")
            std::filesystem::copy_file(file.path(), folder / file.path().filename());
    const auto contents = must(models::quantized_folder(source, dtype));
    must(formats::write_gguf(folder / "model.gguf", contents.metadata, contents.tensors));
}

}  // namespace vkformer::tests
