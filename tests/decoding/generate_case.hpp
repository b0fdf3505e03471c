// SPDX-License-Identifier: MIT
/// What transformers' generate() was given and what it returned: the generate.json of tests/goldens.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "decoding/session.hpp"
#include "models/generation_config.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/must.hpp"

namespace vkformer::tests {

using nlohmann::json;

/// One call of generate(): what it was given and what it returned.
struct Entry {
    models::GenerationConfig generation;
    std::vector<std::vector<std::int32_t>> tokens, sequences;
    std::vector<std::vector<std::uint8_t>> masks;
    std::vector<double> scores;
    double robust_to = 0;
    bool is_padded_on_the_right = true;
};

inline Entry read_entry(const json& entry, const json& folder_config, std::uint64_t max_positions,
                        std::uint64_t vocab) {
    Entry result;
    json config = folder_config;
    config.update(entry["options"]);
    result.generation =
        must(models::parse_generation_config(must(formats::Config::parse(config.dump(), "generation_config.json")),
                                             models::GenerationSource::generation_config, max_positions, vocab));
    result.tokens = entry["input_ids"].get<std::vector<std::vector<std::int32_t>>>();
    result.sequences = entry["sequences"].get<std::vector<std::vector<std::int32_t>>>();
    result.masks = entry["attention_mask"].get<std::vector<std::vector<std::uint8_t>>>();
    if (entry.contains("sequences_scores")) result.scores = entry["sequences_scores"].get<std::vector<double>>();
    result.robust_to = entry["robust_to"].get<double>();
    for (const auto& mask : result.masks)
        result.is_padded_on_the_right = result.is_padded_on_the_right && std::ranges::is_sorted(mask, std::greater<>());
    return result;
}

/// The sources without their padding, or with their masks where padding is elsewhere.
inline std::vector<decoding::Source> sources_of(const Entry& entry) {
    std::vector<decoding::Source> sources;
    for (std::size_t b = 0; b < entry.tokens.size(); ++b) {
        const std::span<const std::int32_t> tokens = entry.tokens[b];
        if (entry.is_padded_on_the_right)
            sources.push_back(
                {.tokens = tokens.first(static_cast<std::size_t>(std::ranges::count(entry.masks[b], 1)))});
        else
            sources.push_back({.tokens = tokens, .visible = entry.masks[b]});
    }
    return sources;
}

/// As generate() returns it: filled up to the width of the batch.
inline std::vector<std::int32_t> padded(std::vector<std::int32_t> tokens, std::size_t width,
                                        const models::GenerationConfig& g) {
    const bool beam_fill = g.beams > 1 && g.pad == 0;  // its beam search takes a pad of 0 for none
    REQUIRE(tokens.size() <= width);
    tokens.resize(width, beam_fill ? g.eos : g.pad);
    return tokens;
}

inline void check(const Entry& entry, const std::vector<decoding::Hypothesis>& found, bool with_scores) {
    REQUIRE(found.size() == entry.sequences.size());
    for (std::size_t b = 0; b < found.size(); ++b) {
        CAPTURE(b);
        CHECK(padded(found[b].tokens, entry.sequences[b].size(), entry.generation) == entry.sequences[b]);
        REQUIRE(found[b].score.has_value() == (entry.generation.beams > 1));
        if (with_scores && found[b].score && !entry.scores.empty())
            CHECK(*found[b].score == Approx(entry.scores[b]).epsilon(1e-4).margin(1e-4));
    }
}

}  // namespace vkformer::tests
