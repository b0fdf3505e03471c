// SPDX-License-Identifier: MIT
#include "models/decoder_defaults.hpp"

#include <string>

#include "core/try.hpp"
#include "formats/config.hpp"
#include "models/generation_config.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

Result<std::uint32_t> read_beams(const Config& generation, bool draws) {
    VKFORMER_TRY(const auto beams,
                 generation.unsigned_integer("num_beams", {.fallback = 1, .min = 1, .max = graph::kMaxBeams}));
    if (beams == 1) return beams;
    if (draws)
        return Error{ErrorCode::UnsupportedConfig,
                     generation.file_name() + ": \"num_beams\" is " + std::to_string(beams) +
                         " and \"do_sample\" true, but a beam search draws nothing; say --beams " +
                         std::to_string(beams) + " for the likeliest sequence, or --beams 1 for one that is drawn"};
    VKFORMER_TRY(const auto groups, generation.unsigned_integer("num_beam_groups", {.fallback = 1}));
    if (groups > 1) return generation.unsupported("num_beam_groups", "1; say --beams for a search without groups");
    VKFORMER_TRY(const bool renormalizes, generation.boolean("renormalize_logits", false));
    if (renormalizes) return generation.unsupported("renormalize_logits", "false with num_beams; say --beams");
    return beams;
}

}  // namespace

Result<DecoderDefaults> load_decoder_defaults(const std::filesystem::path& folder) {
    VKFORMER_TRY(const Config generation, Config::open_if_present(folder / "generation_config.json"));
    VKFORMER_TRY(const Config model, Config::open_if_present(folder / "config.json"));
    DecoderDefaults defaults;
    VKFORMER_TRY(defaults.end_tokens, generation.token_ids("eos_token_id"));
    if (defaults.end_tokens.empty()) {
        VKFORMER_TRY(defaults.end_tokens, model.token_ids("eos_token_id"));
    }
    VKFORMER_TRY(const double repetition,
                 generation.real("repetition_penalty", {.fallback = 1, .min = 1e-3, .max = 1e3}));
    defaults.repetition_penalty = static_cast<float>(repetition);
    VKFORMER_TRY(defaults.no_repeat_ngram,
                 generation.unsigned_integer("no_repeat_ngram_size", {.fallback = 0, .max = 1u << 20}));
    VKFORMER_TRY(defaults.min_new_tokens,
                 generation.unsigned_integer("min_new_tokens", {.fallback = 0, .max = 1u << 20}));
    VKFORMER_TRY(const auto min_length, generation.unsigned_integer("min_length", {.fallback = 0}));
    if (min_length > 0 && !generation.has("min_new_tokens"))
        return generation.unsupported("min_length", "0; min_new_tokens does not count the prompt");
    VKFORMER_TRY(const bool draws, generation.boolean("do_sample", false));
    defaults.beams = read_beams(generation, draws);
    VKFORMER_TRY(const double length_penalty,
                 generation.real("length_penalty", {.fallback = 1, .min = -100, .max = 100}));
    defaults.length_penalty = static_cast<float>(length_penalty);
    VKFORMER_TRY(defaults.early_stopping, read_early_stopping(generation));
    if (!draws) return defaults;
    VKFORMER_TRY(const double temperature, generation.real("temperature", {.fallback = 1, .min = 0, .max = 1e4}));
    VKFORMER_TRY(const auto top_k, generation.unsigned_integer("top_k", {.fallback = 50}));
    VKFORMER_TRY(const double top_p, generation.real("top_p", {.fallback = 1, .min = 0, .max = 1}));
    VKFORMER_TRY(const double min_p, generation.real("min_p", {.fallback = 0, .min = 0, .max = 1}));
    defaults.sample = {.temperature = static_cast<float>(temperature),
                       .top_k = top_k,
                       .top_p = static_cast<float>(top_p),
                       .min_p = static_cast<float>(min_p)};
    return defaults;
}

}  // namespace vkformer::models
