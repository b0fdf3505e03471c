// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "models/open_model.hpp"
#include "support/files.hpp"
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

/// What Hugging Face's greedy generate() gives for a golden decoder.
struct Greedy {
    std::vector<std::int32_t> prompt, continuation;
};
inline Greedy greedy_golden(const std::string& name) {
    const nlohmann::json golden = read_json(goldens_dir() / "decoders" / name / "greedy.json");
    return {golden["prompt"].get<std::vector<std::int32_t>>(), golden["continuation"].get<std::vector<std::int32_t>>()};
}

/// Tokens that mean nothing.
inline std::vector<std::int32_t> prompt_of(std::size_t length, std::int32_t seed = 7) {
    std::vector<std::int32_t> tokens(length);
    for (std::size_t i = 0; i < length; ++i) tokens[i] = static_cast<std::int32_t>((i * i + 5 * i) + 3) * seed % 61;
    return tokens;
}

inline models::Decoder load_decoder_case(const std::string& name) {
    return must(models::load_decoder(goldens_dir() / "decoders" / name));
}

}  // namespace vkformer::tests
