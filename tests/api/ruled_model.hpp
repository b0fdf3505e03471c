// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "support/goldens.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {

/// The golden model that speaks, with another generation_config.json.
struct RuledModel {
    explicit RuledModel(const nlohmann::json& config) {
        std::filesystem::copy(goldens_dir() / "decoder_text", path);
        std::ofstream(path / "generation_config.json") << config.dump();
    }
    TemporaryFolder folder;
    std::filesystem::path path = folder / "model";
};

}  // namespace vkformer::tests
