// SPDX-License-Identifier: MIT
#include "models/generation_config.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "core/try.hpp"
#include "graph/builders.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

constexpr std::array<std::string_view, 17> kHonoured = {"decoder_start_token_id",
                                                        "bos_token_id",
                                                        "eos_token_id",
                                                        "pad_token_id",
                                                        "max_length",
                                                        "max_new_tokens",
                                                        "num_beams",
                                                        "early_stopping",
                                                        "length_penalty",
                                                        "bad_words_ids",
                                                        "forced_bos_token_id",
                                                        "forced_eos_token_id",
                                                        "renormalize_logits",
                                                        "min_length",
                                                        "min_new_tokens",
                                                        "no_repeat_ngram_size",
                                                        "encoder_no_repeat_ngram_size"};

/// Do nothing to the result: what is returned besides, how the cache is kept, and what only sampling or an assistant reads.
constexpr std::array<std::string_view, 31> kIgnored = {"_from_model_config",
                                                       "transformers_version",
                                                       "_commit_hash",
                                                       "_name_or_path",
                                                       "use_cache",
                                                       "cache_implementation",
                                                       "cache_config",
                                                       "return_legacy_cache",
                                                       "return_dict_in_generate",
                                                       "output_attentions",
                                                       "output_hidden_states",
                                                       "output_scores",
                                                       "output_logits",
                                                       "temperature",
                                                       "top_k",
                                                       "top_p",
                                                       "min_p",
                                                       "typical_p",
                                                       "epsilon_cutoff",
                                                       "eta_cutoff",
                                                       "is_assistant",
                                                       "num_assistant_tokens",
                                                       "num_assistant_tokens_schedule",
                                                       "assistant_confidence_threshold",
                                                       "assistant_lookbehind",
                                                       "target_lookbehind",
                                                       "prefill_chunk_size",
                                                       "compile_config",
                                                       "disable_compile",
                                                       "max_matching_ngram_size",
                                                       "generation_kwargs"};

/// Numbers that do nothing within [min, max].
struct NeutralNumber {
    std::string_view name;
    double min, max;
};
constexpr std::array<NeutralNumber, 7> kNeutralNumbers = {{
    {"repetition_penalty", 1, 1},
    {"encoder_repetition_penalty", 1, 1},
    {"num_beam_groups", 1, 1},
    {"diversity_penalty", 0, 0},
    {"num_return_sequences", 1, 1},
    {"guidance_scale", 1, 1},
    {"penalty_alpha", 0, 0},
}};

constexpr std::array<std::string_view, 4> kNeutralFalse = {"do_sample", "remove_invalid_values", "low_memory",
                                                           "token_healing"};

/// Change the result whenever they are there (an empty list or object is not).
constexpr std::array<std::string_view, 12> kRefused = {
    "sequence_bias", "suppress_tokens",    "begin_suppress_tokens",    "exponential_decay_length_penalty",
    "constraints",   "force_words_ids",    "watermarking_config",      "stop_strings",
    "max_time",      "forced_decoder_ids", "prompt_lookup_num_tokens", "dola_layers"};

bool is_empty(const Config& config, std::string_view name) {
    if (const auto list = config.token_ids(name)) return list->empty();
    if (const auto object = config.object(name)) return object->names().empty();
    return false;
}

Result<void> refuse_what_is_not_done(const Config& config, GenerationSource source,
                                     std::span<const std::string_view> read_elsewhere) {
    const auto is_elsewhere = [&](std::string_view name) {
        return std::ranges::find(read_elsewhere, name) != read_elsewhere.end();
    };
    for (const auto& [name, min, max] : kNeutralNumbers) {
        VKFORMER_TRY(const double value, config.real(name, {.fallback = min}));
        if (value < min || value > max)
            return config.unsupported(name, min == max ? std::to_string(static_cast<int>(min)) : "0 and 1");
    }
    for (const std::string_view name : kNeutralFalse) {
        VKFORMER_TRY(const bool value, config.boolean(name, false));
        if (value) return config.unsupported(name, "false");
    }
    for (const std::string_view name : kRefused)
        if (!is_elsewhere(name) && config.has(name) && !is_empty(config, name)) return config.unsupported(name, "null");
    if (source == GenerationSource::model_config) return {};

    for (const std::string& name : config.names()) {
        const auto is_name = [&](const auto& known) { return std::ranges::find(known, name) != known.end(); };
        if (is_elsewhere(name)) continue;
        if (is_name(kHonoured) || is_name(kIgnored) || is_name(kNeutralFalse) || is_name(kRefused)) continue;
        if (std::ranges::find(kNeutralNumbers, name, &NeutralNumber::name) != kNeutralNumbers.end()) continue;
        return config.unsupported(name, "null (this field is not known)");
    }
    return {};
}

/// The token under `name`, −1 where there is none. Lists of one token are as good as the token.
Result<std::int32_t> one_token(const Config& config, std::string_view name) {
    VKFORMER_TRY(const auto ids, config.token_ids(name));
    if (ids.size() > 1) return config.unsupported(name, "one token");
    if (ids.empty()) return -1;
    if (ids[0] < 0) return config.unsupported(name, "a token of at least 0");
    return ids[0];
}

Result<std::vector<std::int32_t>> banned_tokens(const Config& config, std::int32_t eos) {
    VKFORMER_TRY(const auto words, config.token_id_lists("bad_words_ids"));
    std::vector<std::int32_t> banned;
    for (const auto& word : words) {
        if (word.size() != 1 || word[0] < 0) return config.unsupported("bad_words_ids", "lists of one token");
        if (word[0] != eos) banned.push_back(word[0]);  // generate() drops a ban of the end token
    }
    return banned;
}

/// `max_length` counts the start token. 20 is the library's default and means 20 new tokens.
Result<std::uint32_t> max_steps(const Config& config, std::uint64_t max_positions) {
    constexpr std::uint32_t kDefaultMaxLength = 20;
    if (config.has("max_new_tokens")) return config.unsigned_integer("max_new_tokens", {.min = 1, .max = 1u << 20});
    VKFORMER_TRY(const auto max_length,
                 config.unsigned_integer("max_length", {.fallback = kDefaultMaxLength, .min = 2, .max = 1u << 20}));
    if (max_length != kDefaultMaxLength) return max_length - 1;
    return static_cast<std::uint32_t>(
        std::max<std::uint64_t>(std::min<std::uint64_t>(max_length + 1, max_positions), 2) - 1);
}

/// `min_length` counts the start token; min_new_tokens goes before it.
Result<std::uint32_t> min_steps(const Config& config) {
    VKFORMER_TRY(const auto min_length, config.unsigned_integer("min_length", {.fallback = 0, .max = 1u << 20}));
    const std::uint32_t steps = min_length > 0 ? min_length - 1 : 0;
    return config.unsigned_integer("min_new_tokens", {.fallback = steps, .max = 1u << 20});
}

}  // namespace

Result<graph::EarlyStopping> read_early_stopping(const Config& config) {
    using graph::EarlyStopping;
    if (const auto value = config.boolean("early_stopping", false))
        return *value ? EarlyStopping::always : EarlyStopping::heuristic;
    if (const auto value = config.string("early_stopping"); value && *value == "never") return EarlyStopping::never;
    return config.unsupported("early_stopping", "true, false, \"never\"");
}

Result<GenerationConfig> parse_generation_config(const Config& config, GenerationSource source,
                                                 std::uint64_t max_positions,
                                                 std::span<const std::string_view> read_elsewhere) {
    VKFORMER_CHECK(refuse_what_is_not_done(config, source, read_elsewhere));
    GenerationConfig generation;
    VKFORMER_TRY(generation.decoder_start, one_token(config, "decoder_start_token_id"));
    if (generation.decoder_start < 0) {
        VKFORMER_TRY(generation.decoder_start, one_token(config, "bos_token_id"));
    }
    if (generation.decoder_start < 0)
        return config.unsupported("decoder_start_token_id", "a token (there is no bos_token_id either)");
    VKFORMER_TRY(generation.eos, one_token(config, "eos_token_id"));
    VKFORMER_TRY(generation.pad, one_token(config, "pad_token_id"));
    if (generation.pad < 0) generation.pad = generation.eos;
    VKFORMER_TRY(generation.beams,
                 config.unsigned_integer("num_beams", {.fallback = 1, .min = 1, .max = graph::kMaxBeams}));
    VKFORMER_TRY(generation.max_steps, max_steps(config, max_positions));
    VKFORMER_TRY(generation.length_penalty, config.real("length_penalty", {.fallback = 1, .min = -100, .max = 100}));
    VKFORMER_TRY(generation.early_stopping, read_early_stopping(config));
    VKFORMER_TRY(generation.banned, banned_tokens(config, generation.eos));
    VKFORMER_TRY(generation.forced_first, one_token(config, "forced_bos_token_id"));
    VKFORMER_TRY(generation.forced_last, one_token(config, "forced_eos_token_id"));
    VKFORMER_TRY(generation.min_steps, min_steps(config));
    VKFORMER_TRY(generation.no_repeat_ngram,
                 config.unsigned_integer("no_repeat_ngram_size", {.fallback = 0, .max = 1u << 20}));
    VKFORMER_TRY(generation.source_no_repeat_ngram,
                 config.unsigned_integer("encoder_no_repeat_ngram_size", {.fallback = 0, .max = 1u << 20}));
    VKFORMER_TRY(generation.renormalize, config.boolean("renormalize_logits", false));
    return generation;
}

Result<GenerationConfig> load_generation_config(const std::filesystem::path& folder, std::uint64_t max_positions) {
    std::error_code ignored;
    const auto path = folder / "generation_config.json";
    if (std::filesystem::exists(path, ignored)) {
        VKFORMER_TRY(const Config config, Config::open(path));
        return parse_generation_config(config, GenerationSource::generation_config, max_positions);
    }
    VKFORMER_TRY(const Config config, Config::open(folder / "config.json"));
    return parse_generation_config(config, GenerationSource::model_config, max_positions);
}

}  // namespace vkformer::models
