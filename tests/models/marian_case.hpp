// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "models/marian.hpp"
#include "models/model_case.hpp"

namespace vkformer::tests {

/// The folders of tests/goldens/marian, by name.
inline std::vector<std::string> marian_cases() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / "marian"))
        if (entry.is_directory()) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

inline models::Marian load_marian(const std::string& name) {
    return must(models::Marian::load(goldens_dir() / "marian" / name));
}

}  // namespace vkformer::tests
