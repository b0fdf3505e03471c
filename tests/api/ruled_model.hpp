// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "support/goldens.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {

/// A golden model, the one that speaks where none is named, with another generation_config.json.
struct RuledModel {
    explicit RuledModel(const nlohmann::json& config, const std::string& golden = "decoder_text") {
        std::filesystem::copy(goldens_dir() / golden, path);
        std::ofstream(path / "generation_config.json") << config.dump();
    }
    TemporaryFolder folder;
    std::filesystem::path path = folder / "model";
};

}  // namespace vkformer::tests
