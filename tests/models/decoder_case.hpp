// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "models/open_model.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {

/// The folders of tests/goldens/decoders, by name.
inline std::vector<std::string> decoder_cases() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / "decoders"))
        if (entry.is_directory()) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

inline models::Decoder load_decoder_case(const std::string& name) {
    return must(models::load_decoder(goldens_dir() / "decoders" / name));
}

}  // namespace vkformer::tests
