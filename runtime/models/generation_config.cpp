// SPDX-License-Identifier: MIT
#include "models/generation_config.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <system_error>
#include <utility>

#include "core/try.hpp"
#include "graph/builders.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

/// What becomes of a field in one kind of model.
enum class Use : std::uint8_t {
    read,  ///< done
    idle,  ///< changes nothing: what is returned besides, how caches are kept, what only an assistant or the other kind reads
    refused,   ///< unless its value does nothing
    drawn,     ///< changes draws only: refused, as above, where there are such
    searched,  ///< likewise of beams
};

/// Values that do nothing: an absent field (or an empty list or object) always does.
struct Neutral {
    enum class Kind : std::uint8_t { absent, number, flag } kind = Kind::absent;
    double min = 0, max = 0;
};
constexpr Neutral number(double min, double max) { return {Neutral::Kind::number, min, max}; }
constexpr Neutral kZero = number(0, 0), kOne = number(1, 1);
constexpr Neutral kFalse = {.kind = Neutral::Kind::flag};

struct Field {
    std::string_view name;
    Use encoder_decoder, language_model;
    Neutral neutral = {};
};
constexpr double kAny = std::numeric_limits<double>::infinity();

/// All that transformers 4.57 and 5.12 know of.
constexpr Field kFields[] = {
    {"decoder_start_token_id", Use::read, Use::idle},
    {"bos_token_id", Use::read, Use::idle},
    {"eos_token_id", Use::read, Use::read},
    {"pad_token_id", Use::read, Use::idle},
    {"max_length", Use::read, Use::read},
    {"max_new_tokens", Use::read, Use::read},
    {"min_length", Use::read, Use::read},
    {"min_new_tokens", Use::read, Use::read},
    {"stop_strings", Use::read, Use::read},
    {"num_beams", Use::read, Use::read},
    {"early_stopping", Use::read, Use::read},
    {"length_penalty", Use::read, Use::read},
    {"num_beam_groups", Use::refused, Use::searched, number(0, 1)},
    {"diversity_penalty", Use::refused, Use::searched, kZero},
    {"num_return_sequences", Use::refused, Use::refused, kOne},
    {"renormalize_logits", Use::read, Use::searched, kFalse},
    {"bad_words_ids", Use::read, Use::read},
    {"sequence_bias", Use::read, Use::read},
    {"suppress_tokens", Use::read, Use::read},
    {"begin_suppress_tokens", Use::read, Use::read},
    {"forced_bos_token_id", Use::read, Use::read},
    {"forced_eos_token_id", Use::read, Use::read},
    {"forced_decoder_ids", Use::refused, Use::refused},
    {"no_repeat_ngram_size", Use::read, Use::read},
    {"encoder_no_repeat_ngram_size", Use::read, Use::refused, kZero},
    {"repetition_penalty", Use::refused, Use::read, kOne},
    {"encoder_repetition_penalty", Use::refused, Use::refused, kOne},
    {"exponential_decay_length_penalty", Use::refused, Use::refused},
    {"do_sample", Use::refused, Use::read, kFalse},
    {"temperature", Use::idle, Use::read},
    {"top_k", Use::idle, Use::read},
    {"top_p", Use::idle, Use::read},
    {"min_p", Use::idle, Use::read},
    {"top_h", Use::idle, Use::drawn},
    {"typical_p", Use::idle, Use::drawn, number(1, kAny)},
    {"epsilon_cutoff", Use::idle, Use::drawn, kZero},
    {"eta_cutoff", Use::idle, Use::drawn, kZero},
    {"penalty_alpha", Use::refused, Use::refused, kZero},
    {"guidance_scale", Use::refused, Use::refused, kOne},
    {"dola_layers", Use::refused, Use::refused},
    {"constraints", Use::refused, Use::refused},
    {"force_words_ids", Use::refused, Use::refused},
    {"watermarking_config", Use::refused, Use::refused},
    {"max_time", Use::refused, Use::refused},
    {"remove_invalid_values", Use::refused, Use::refused, kFalse},
    {"low_memory", Use::refused, Use::refused, kFalse},
    {"token_healing", Use::refused, Use::refused, kFalse},
    {"prompt_lookup_num_tokens", Use::refused, Use::refused},
    {"_from_model_config", Use::idle, Use::idle},
    {"transformers_version", Use::idle, Use::idle},
    {"_commit_hash", Use::idle, Use::idle},
    {"_name_or_path", Use::idle, Use::idle},
    {"use_cache", Use::idle, Use::idle},
    {"cache_implementation", Use::idle, Use::idle},
    {"cache_config", Use::idle, Use::idle},
    {"return_legacy_cache", Use::idle, Use::idle},
    {"return_dict_in_generate", Use::idle, Use::idle},
    {"output_attentions", Use::idle, Use::idle},
    {"output_hidden_states", Use::idle, Use::idle},
    {"output_scores", Use::idle, Use::idle},
    {"output_logits", Use::idle, Use::idle},
    {"is_assistant", Use::idle, Use::idle},
    {"num_assistant_tokens", Use::idle, Use::idle},
    {"num_assistant_tokens_schedule", Use::idle, Use::idle},
    {"assistant_confidence_threshold", Use::idle, Use::idle},
    {"assistant_early_exit", Use::idle, Use::idle},
    {"assistant_lookbehind", Use::idle, Use::idle},
    {"target_lookbehind", Use::idle, Use::idle},
    {"prefill_chunk_size", Use::idle, Use::idle},
    {"compile_config", Use::idle, Use::idle},
    {"continuous_batching_config", Use::idle, Use::idle},
    {"disable_compile", Use::idle, Use::idle},
    {"max_matching_ngram_size", Use::idle, Use::idle},
    {"generation_kwargs", Use::idle, Use::idle},
};

}  // namespace

bool is_generation_field(std::string_view name) { return std::ranges::count(kFields, name, &Field::name) > 0; }

bool changes_language_models(std::string_view name) {
    const auto* const field = std::ranges::find(kFields, name, &Field::name);
    return field != std::end(kFields) && field->language_model != Use::idle && name != "eos_token_id";
}

namespace {

bool is_empty(const Config& config, std::string_view name) {
    if (const auto list = config.token_ids(name)) return list->empty();
    if (const auto object = config.object(name)) return object->is_empty();
    return false;
}

/// The error of a field, and how the user of a language model goes on without it.
Error refused(const Config& config, std::string_view name, std::string supported, Use use, GenerationKind kind) {
    Hint hint = Hint::none;
    if (kind == GenerationKind::language_model && use == Use::drawn) {
        supported += "; the caller's own rules for drawing take its place";
        hint = Hint::sampling;
    } else if (kind == GenerationKind::language_model && use == Use::searched) {
        supported += "; a search that the caller asks for goes without it";
        hint = Hint::beams;
    } else if (kind == GenerationKind::language_model) {
        supported += "; no option overrides it, take it out of the file to go without";
    }
    Error error = config.unsupported(name, supported);
    error.hint = hint;
    return error;
}

Result<void> check_field(const Config& config, const Field& field, Use use, GenerationKind kind) {
    const auto unsupported = [&](const std::string& supported) {
        return refused(config, field.name, supported, use, kind);
    };
    switch (field.neutral.kind) {
    case Neutral::Kind::absent:
        if (!is_empty(config, field.name)) return unsupported("null");
        return {};
    case Neutral::Kind::flag: {
        VKFORMER_TRY(const bool value, config.boolean(field.name, false));
        if (value) return unsupported("false");
        return {};
    }
    case Neutral::Kind::number: {
        const auto [min, max] = std::pair{field.neutral.min, field.neutral.max};
        VKFORMER_TRY(const double value, config.real(field.name, {.fallback = min}));
        if (value >= min && value <= max) return {};
        const std::string least = std::to_string(static_cast<int>(min));
        return unsupported(min == max ? least : std::isinf(max) ? "at least " + least : "0 and 1");
    }
    }
    return {};
}

Error outside(const Config& config, std::string_view name, std::uint64_t vocab) {
    return config.unsupported(name, "tokens of the model, 0 to " + std::to_string(vocab - 1));
}

bool is_token(std::int32_t token, std::uint64_t vocab) {
    return token >= 0 && static_cast<std::uint64_t>(token) < vocab;
}

/// The token under `name`, −1 where there is none. Lists of one token are as good as the token.
Result<std::int32_t> one_token(const Config& config, std::string_view name, std::uint64_t vocab) {
    VKFORMER_TRY(const auto ids, read_tokens(config, name, vocab));
    if (ids.size() > 1) return config.unsupported(name, "one token");
    return ids.empty() ? -1 : ids[0];
}

/// bad_words_ids: those of one token, but for `ends`, and those of several.
Result<void> read_bad_words(const Config& config, std::span<const std::int32_t> ends, std::uint64_t vocab,
                            TokenRules& rules) {
    VKFORMER_TRY(const auto words, config.token_id_lists("bad_words_ids"));
    for (const auto& word : words) {
        if (word.empty()) return config.unsupported("bad_words_ids", "lists of one token or more");
        for (const std::int32_t token : word)
            if (!is_token(token, vocab)) return outside(config, "bad_words_ids", vocab);
        if (word.size() > 1)
            rules.banned_words.push_back(word);
        else if (std::ranges::find(ends, word[0]) == ends.end())  // generate() drops a ban of an end token
            rules.banned.push_back(word[0]);
    }
    return {};
}

/// sequence_bias: of two for the same tokens the later one holds, where the first stood, as in the reference's dictionary.
Result<void> read_biases(const Config& config, std::uint64_t vocab, TokenRules& rules) {
    VKFORMER_TRY(const auto biases, config.biased_token_ids("sequence_bias"));
    std::map<std::vector<std::int32_t>, std::size_t> places;
    for (const auto& [tokens, bias] : biases) {
        if (tokens.empty()) return config.unsupported("sequence_bias", "lists of one token or more with a number");
        for (const std::int32_t token : tokens)
            if (!is_token(token, vocab)) return outside(config, "sequence_bias", vocab);
        const auto [place, is_new] = places.try_emplace(tokens, rules.biases.size());
        if (is_new) rules.biases.push_back({.tokens = tokens});
        rules.biases[place->second].bias = static_cast<float>(bias);
    }
    return {};
}

/// `max_length` counts the start token. Without it there are 20 new tokens; in a config.json 20 is what older libraries wrote then.
Result<std::uint32_t> max_steps(const Config& config, GenerationSource source, std::uint64_t max_positions) {
    constexpr std::uint32_t kDefaultMaxLength = 20;
    if (config.has("max_new_tokens")) return config.unsigned_integer("max_new_tokens", {.min = 1, .max = 1u << 20});
    VKFORMER_TRY(const auto max_length,
                 config.unsigned_integer("max_length", {.fallback = kDefaultMaxLength, .min = 2, .max = 1u << 20}));
    if (max_length != kDefaultMaxLength || (source == GenerationSource::generation_config && config.has("max_length")))
        return max_length - 1;
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

bool TokenRules::looks_back() const noexcept {
    return !banned_words.empty() ||
           std::ranges::any_of(biases, [](const graph::SequenceBias& phrase) { return phrase.tokens.size() > 1; });
}

void TokenRules::drop_bias(std::int32_t token) {
    std::erase_if(biases, [token](const auto& phrase) { return phrase.tokens == std::vector{token}; });
}

Result<graph::EarlyStopping> read_early_stopping(const Config& config) {
    using graph::EarlyStopping;
    if (const auto value = config.boolean("early_stopping", false))
        return *value ? EarlyStopping::always : EarlyStopping::heuristic;
    if (const auto value = config.string("early_stopping"); value && *value == "never") return EarlyStopping::never;
    return config.unsupported("early_stopping", "true, false, \"never\"");
}

Result<void> check_generation_fields(const Config& config, GenerationSource source, GenerationKind kind,
                                     GenerationUse use, std::span<const std::string_view> read_elsewhere) {
    const auto is_elsewhere = [&](std::string_view name) {
        return std::ranges::find(read_elsewhere, name) != read_elsewhere.end();
    };
    for (const std::string& name : config.names()) {
        if (is_elsewhere(name)) continue;
        const auto* const field = std::ranges::find(kFields, name, &Field::name);
        if (field == std::end(kFields)) {
            if (source == GenerationSource::model_config) continue;
            return refused(config, name, "null (this field is not known)", Use::refused, kind);
        }
        const Use role = kind == GenerationKind::language_model ? field->language_model : field->encoder_decoder;
        if (role == Use::read || role == Use::idle) continue;
        if ((role == Use::drawn && !use.draws) || (role == Use::searched && !use.searches)) continue;
        VKFORMER_CHECK(check_field(config, *field, role, kind));
    }
    return {};
}

Result<std::vector<std::int32_t>> read_tokens(const Config& config, std::string_view name, std::uint64_t vocab) {
    VKFORMER_TRY(auto tokens, config.token_ids(name));
    for (const std::int32_t token : tokens)
        if (!is_token(token, vocab)) return outside(config, name, vocab);
    return tokens;
}

Result<TokenRules> read_token_rules(const Config& config, std::span<const std::int32_t> ends, std::uint64_t vocab) {
    TokenRules rules;
    VKFORMER_TRY(rules.banned, read_tokens(config, "suppress_tokens", vocab));
    VKFORMER_TRY(rules.banned_first, read_tokens(config, "begin_suppress_tokens", vocab));
    VKFORMER_TRY(rules.forced_first, one_token(config, "forced_bos_token_id", vocab));
    VKFORMER_TRY(rules.forced_last, one_token(config, "forced_eos_token_id", vocab));
    for (const auto& [name, token] :
         {std::pair{"forced_bos_token_id", rules.forced_first}, std::pair{"forced_eos_token_id", rules.forced_last}})
        if (token >= 0 && std::ranges::find(rules.banned, token) != rules.banned.end())
            return config.unsupported(name, "a token that \"suppress_tokens\" does not forbid");
    VKFORMER_CHECK(read_bad_words(config, ends, vocab, rules));
    VKFORMER_CHECK(read_biases(config, vocab, rules));
    return rules;
}

Result<std::vector<std::string>> read_stop_strings(const Config& config) {
    std::vector<std::string> texts;
    if (auto one = config.string("stop_strings", "")) {
        if (config.has("stop_strings")) texts.push_back(*std::move(one));
    } else {
        VKFORMER_TRY(texts, config.strings("stop_strings"));
    }
    for (const std::string& text : texts)
        if (text.empty()) return config.unsupported("stop_strings", "texts that are not empty");
    return texts;
}

Result<GenerationConfig> parse_generation_config(const Config& config, GenerationSource source,
                                                 std::uint64_t max_positions, std::uint64_t vocab,
                                                 std::span<const std::string_view> read_elsewhere) {
    VKFORMER_CHECK(check_generation_fields(config, source, GenerationKind::encoder_decoder, {}, read_elsewhere));
    GenerationConfig generation;
    VKFORMER_TRY(generation.decoder_start, one_token(config, "decoder_start_token_id", vocab));
    if (generation.decoder_start < 0) {
        VKFORMER_TRY(generation.decoder_start, one_token(config, "bos_token_id", vocab));
    }
    if (generation.decoder_start < 0)
        return config.unsupported("decoder_start_token_id", "a token (there is no bos_token_id either)");
    VKFORMER_TRY(generation.eos, one_token(config, "eos_token_id", vocab));
    VKFORMER_TRY(generation.pad, one_token(config, "pad_token_id", vocab));
    if (generation.pad < 0) generation.pad = generation.eos;
    VKFORMER_TRY(generation.beams,
                 config.unsigned_integer("num_beams", {.fallback = 1, .min = 1, .max = graph::kMaxBeams}));
    VKFORMER_TRY(generation.max_steps, max_steps(config, source, max_positions));
    VKFORMER_TRY(generation.length_penalty, config.real("length_penalty", {.fallback = 1, .min = -100, .max = 100}));
    VKFORMER_TRY(generation.early_stopping, read_early_stopping(config));
    const std::vector<std::int32_t> ends(generation.eos >= 0 ? 1 : 0, generation.eos);
    VKFORMER_TRY(generation.rules, read_token_rules(config, ends, vocab));
    VKFORMER_TRY(generation.stop_strings, read_stop_strings(config));
    VKFORMER_TRY(generation.min_steps, min_steps(config));
    VKFORMER_TRY(generation.no_repeat_ngram,
                 config.unsigned_integer("no_repeat_ngram_size", {.fallback = 0, .max = 1u << 20}));
    VKFORMER_TRY(generation.source_no_repeat_ngram,
                 config.unsigned_integer("encoder_no_repeat_ngram_size", {.fallback = 0, .max = 1u << 20}));
    VKFORMER_TRY(generation.renormalize, config.boolean("renormalize_logits", false));
    return generation;
}

Result<GenerationConfig> load_generation_config(const std::filesystem::path& folder, std::uint64_t max_positions,
                                                std::uint64_t vocab) {
    std::error_code ignored;
    const auto path = folder / "generation_config.json";
    if (std::filesystem::exists(path, ignored)) {
        VKFORMER_TRY(const Config config, Config::open(path));
        return parse_generation_config(config, GenerationSource::generation_config, max_positions, vocab);
    }
    VKFORMER_TRY(const Config config, Config::open(folder / "config.json"));
    // As in transformers, what the class of configs has by default is of no account; what a nested config has would be (T5Gemma's).
    VKFORMER_TRY(const Config decoder, config.object("decoder"));
    for (const Field& field : kFields)
        if (field.encoder_decoder == Use::read && decoder.has(field.name) && !config.has(field.name))
            return decoder.unsupported(field.name,
                                       "what is said beside \"decoder\" or in a generation_config.json, too");
    return parse_generation_config(config, GenerationSource::model_config, max_positions, vocab);
}

}  // namespace vkformer::models
