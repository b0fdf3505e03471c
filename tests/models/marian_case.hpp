// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "models/model_case.hpp"
#include "models/seq2seq_loading.hpp"

namespace vkformer::tests {

/// The folders of tests/goldens/marian, by name.
inline std::vector<std::string> marian_cases() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / "marian"))
        if (entry.is_directory()) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

inline models::Seq2Seq load_marian_folder(const std::filesystem::path& folder) {
    const auto config = must(formats::Config::open(folder / "config.json"));
    return must(models::load_marian(config, must(formats::open_weights(folder))));
}
inline models::Seq2Seq load_marian(const std::string& name) {
    return load_marian_folder(goldens_dir() / "marian" / name);
}

}  // namespace vkformer::tests
