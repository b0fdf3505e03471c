// SPDX-License-Identifier: MIT
/// Golden decoders with something changed in their files.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "formats/gguf.hpp"
#include "formats/gguf_writer.hpp"
#include "formats/safetensors.hpp"
#include "models/gguf_export.hpp"
#include "models/open_model.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {

/// null takes a field out.
inline void write_config_with(const std::filesystem::path& model, const nlohmann::json& fields) {
    std::ifstream file(model / "config.json");
    nlohmann::json config = nlohmann::json::parse(file);
    config.merge_patch(fields);
    std::ofstream(model / "config.json") << config;
}

/// The golden with some fields changed.
inline Result<models::Decoder> load_golden_with(const std::string& name, const nlohmann::json& fields) {
    const TemporaryFolder folder;
    const std::filesystem::path model = folder.path() / name;
    std::filesystem::copy(goldens_dir() / "decoders" / name, model);
    write_config_with(model, fields);
    return models::load_decoder(model);
}

/// The golden with some fields changed, and other tensors in place of those of these names.
inline Result<models::Decoder> load_golden_with(const std::string& name, const nlohmann::json& fields,
                                                const formats::TensorMap& changed) {
    const TemporaryFolder folder;
    const std::filesystem::path source = goldens_dir() / "decoders" / name, model = folder.path() / name;
    std::filesystem::create_directory(model);
    std::filesystem::copy_file(source / "config.json", model / "config.json");
    write_config_with(model, fields);
    const auto file = must(formats::Safetensors::open(source / "model.safetensors"));
    std::vector<formats::NamedTensor> tensors;
    for (const auto& [tensor, data] : file.tensors()) {
        const auto found = changed.find(tensor);
        tensors.push_back({tensor, found == changed.end() ? data : found->second});
    }
    must(formats::write_safetensors(model / "model.safetensors", tensors));
    return models::load_decoder(model);
}

/// The golden with tensors under the names that `rename` gives theirs.
Result<models::Decoder> load_renamed(const std::string& name, auto&& rename) {
    const TemporaryFolder folder;
    const std::filesystem::path source = goldens_dir() / "decoders" / name, model = folder.path() / name;
    std::filesystem::create_directory(model);
    std::filesystem::copy_file(source / "config.json", model / "config.json");
    const auto file = must(formats::Safetensors::open(source / "model.safetensors"));
    std::vector<formats::NamedTensor> tensors;
    for (const auto& [tensor, data] : file.tensors()) tensors.push_back({rename(std::string(tensor)), data});
    must(formats::write_safetensors(model / "model.safetensors", tensors));
    return models::load_decoder(model);
}

/// The golden GGUF file, whose contents `change` has changed.
Result<models::Decoder> load_gguf_with(const std::string& name, auto&& change) {
    const TemporaryFolder folder;
    const auto file = must(formats::Gguf::open(goldens_dir() / "gguf_decoders" / (name + ".gguf")));
    models::GgufContents contents = must(models::requantized(file, DType::f32));
    change(contents);
    must(formats::write_gguf(folder / "changed.gguf", contents.metadata, contents.tensors));
    return models::load_decoder(folder / "changed.gguf");
}

}  // namespace vkformer::tests
