// SPDX-License-Identifier: MIT
#include "models/speech_config.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <system_error>

#include "core/try.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

constexpr std::uint32_t kMostMedianWidth = 1023;
constexpr std::int32_t kHeard = -1;  // in a prefix: the language that the model hears

/// Read here, or of no use here.
constexpr std::array<std::string_view, 16> kOwnFields = {"forced_decoder_ids",
                                                         "lang_to_id",
                                                         "task_to_id",
                                                         "language",
                                                         "task",
                                                         "is_multilingual",
                                                         "return_timestamps",
                                                         "no_timestamps_token_id",
                                                         "alignment_heads",
                                                         "max_initial_timestamp_index",
                                                         "prev_sot_token_id",
                                                         "median_filter_width",
                                                         "no_speech_threshold",
                                                         "logprob_threshold",
                                                         "compression_ratio_threshold",
                                                         "condition_on_prev_tokens"};

Result<Config> open_config(const std::filesystem::path& folder, GenerationSource& source) {
    std::error_code ignored;
    const auto path = folder / "generation_config.json";
    const bool is_there = std::filesystem::exists(path, ignored);
    source = is_there ? GenerationSource::generation_config : GenerationSource::model_config;
    return Config::open(is_there ? path : folder / "config.json");
}

/// "de" of "<|de|>".
std::string plain_name(std::string_view name) {
    if (name.starts_with("<|") && name.ends_with("|>") && name.size() > 4) name = name.substr(2, name.size() - 4);
    std::string lower(name);
    std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    return lower;
}

/// The object `field` of names to tokens.
Result<std::map<std::string, std::int32_t>> tokens_by_name(const Config& config, std::string_view field) {
    std::map<std::string, std::int32_t> tokens;
    VKFORMER_TRY(const Config object, config.object(field));
    for (const std::string& name : object.names()) {
        constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
        VKFORMER_TRY(const std::int64_t token, object.integer(name, {.min = 0, .max = kMost}));
        tokens[plain_name(name)] = static_cast<std::int32_t>(token);
    }
    return tokens;
}

/// What `name` stands for. Errors: InvalidArgument (says what there is).
Result<std::int32_t> find_token(const std::map<std::string, std::int32_t>& tokens, const std::string& what,
                                const std::string& name) {
    const auto found = tokens.find(plain_name(name));
    if (found != tokens.end()) return found->second;
    if (tokens.empty())
        return Error{ErrorCode::InvalidArgument, "the model has one language: there is no " + what + " to choose"};
    std::string known;
    for (const auto& [known_name, token] : tokens) known += (known.empty() ? "" : ", ") + known_name;
    return Error{ErrorCode::InvalidArgument, "the model knows no " + what + " \"" + name + "\", but " + known};
}

/// forced_decoder_ids, from position 1 on; a null in front stands for the language.
Result<std::vector<std::int32_t>> forced_prefix(const Config& config) {
    VKFORMER_TRY(const auto pairs, config.token_id_lists("forced_decoder_ids"));
    std::vector<std::int32_t> prefix;
    for (const auto& pair : pairs) {
        if (pair.size() != 2 || pair[0] != static_cast<std::int32_t>(prefix.size()) + 1 ||
            pair[1] < (prefix.empty() ? kHeard : 0))
            return config.unsupported("forced_decoder_ids", "pairs of a position, 1, 2, 3, …, and a token");
        prefix.push_back(pair[1]);
    }
    return prefix;
}

/// WhisperGenerationMixin._retrieve_init_tokens, but for the start token.
Result<std::vector<std::int32_t>> read_prefix(const Config& config, const SpeechConfig& speech,
                                              const SpeechChoice& choice) {
    VKFORMER_TRY(const std::string own_language, config.string("language", ""));
    VKFORMER_TRY(const std::string own_task, config.string("task", ""));
    VKFORMER_TRY(const auto tasks, tokens_by_name(config, "task_to_id"));
    const std::string& language = choice.language.empty() ? own_language : choice.language;
    const std::string& task = choice.task.empty() ? own_task : choice.task;

    std::vector<std::int32_t> prefix;
    if (language.empty() && task.empty()) {
        VKFORMER_TRY(prefix, forced_prefix(config));
    }
    if (prefix.empty() && (!language.empty() || !speech.languages.empty())) prefix.push_back(kHeard);
    if (!language.empty()) {
        VKFORMER_TRY(prefix[0], find_token(speech.languages, "language", language));
    }
    if (!task.empty()) {
        VKFORMER_TRY(const std::int32_t token, find_token(tasks, "task", task));
        prefix.push_back(token);
    } else if (!language.empty() && tasks.contains("transcribe")) {
        prefix.push_back(tasks.at("transcribe"));
    }
    const std::int32_t no_timestamps = speech.first_timestamp - 1;
    const bool has_it = !prefix.empty() && prefix.back() == no_timestamps;
    if (choice.timestamps && has_it) prefix.pop_back();
    if (!choice.timestamps && !has_it && speech.first_timestamp > 0) prefix.push_back(no_timestamps);
    if (speech.languages.empty()) std::erase(prefix, kHeard);
    return prefix;
}

/// Pairs of a layer and a head.
Result<std::vector<AlignmentHead>> read_alignment_heads(const Config& config) {
    VKFORMER_TRY(const auto pairs, config.token_id_lists("alignment_heads"));
    std::vector<AlignmentHead> heads;
    for (const auto& pair : pairs) {
        if (pair.size() != 2 || std::ranges::min(pair) < 0)
            return config.unsupported("alignment_heads", "pairs of a layer and a head");
        heads.push_back({static_cast<std::uint32_t>(pair[0]), static_cast<std::uint32_t>(pair[1])});
    }
    return heads;
}

Result<std::uint32_t> read_median_filter_width(const std::filesystem::path& folder) {
    VKFORMER_TRY(const Config config, Config::open_if_present(folder / "config.json"));
    return config.unsigned_integer("median_filter_width", {.fallback = 7, .max = 1u << 20});
}

/// max_length counts what the decoder is given; max_new_tokens and the library's default do not, which older ones wrote into config.json.
Result<void> read_lengths(const Config& config, GenerationSource source, SpeechConfig& speech) {
    constexpr std::uint32_t kDefaultMaxLength = 20;
    if (config.has("max_new_tokens")) {
        VKFORMER_TRY(speech.max_new_tokens, config.unsigned_integer("max_new_tokens", {.min = 1, .max = 1u << 20}));
        return {};
    }
    VKFORMER_TRY(const std::uint32_t max_length,
                 config.unsigned_integer("max_length", {.fallback = kDefaultMaxLength, .min = 2, .max = 1u << 20}));
    const bool is_said = source == GenerationSource::generation_config && config.has("max_length");
    (max_length == kDefaultMaxLength && !is_said ? speech.max_new_tokens : speech.max_length) = max_length;
    return {};
}

Result<std::optional<double>> threshold(const Config& config, std::string_view name) {
    if (!config.has(name)) return std::optional<double>();
    VKFORMER_TRY(const double value, config.real(name));
    return std::optional<double>(value);
}

/// What only models with one start of text and one end would know how to do.
Result<void> refuse_what_is_not_done(const Config& config, const GenerationConfig& generation) {
    if (generation.rules.forced_first >= 0)
        return config.unsupported("forced_bos_token_id", "null with a model that hears");
    if (generation.rules.forced_last >= 0)
        return config.unsupported("forced_eos_token_id", "null with a model that hears");
    if (generation.min_steps > 0)
        return config.unsupported(config.has("min_new_tokens") ? "min_new_tokens" : "min_length",
                                  "0 with a model that hears");
    if (!generation.stop_strings.empty()) return config.unsupported("stop_strings", "null with a model that hears");
    if (generation.source_no_repeat_ngram > 0)
        return config.unsupported("encoder_no_repeat_ngram_size", "0 with a model that hears");
    return {};
}

/// The tokens of times, and those that go with them.
Result<void> read_timestamps(const Config& config, const SpeechChoice& choice, SpeechConfig& speech) {
    constexpr std::uint32_t kMost = 1u << 24;
    if (!config.has("no_timestamps_token_id")) {
        if (!choice.timestamps) return {};
        return Error{ErrorCode::UnsupportedConfig,
                     config.file_name() +
                         ": no_timestamps_token_id is missing, so that the tokens of times are not "
                         "known; ask for text without timestamps"};
    }
    VKFORMER_TRY(const std::uint32_t token, config.unsigned_integer("no_timestamps_token_id", {.max = kMost}));
    speech.first_timestamp = static_cast<std::int32_t>(token) + 1;
    speech.no_speech = static_cast<std::int32_t>(token) - 1;
    if (config.has("max_initial_timestamp_index")) {
        VKFORMER_TRY(const std::uint32_t latest,
                     config.unsigned_integer("max_initial_timestamp_index", {.max = kMost}));
        speech.latest_initial = static_cast<std::int32_t>(latest);
    }
    return {};
}

}  // namespace

std::uint32_t SpeechConfig::length_for(std::size_t given, std::size_t before) const noexcept {
    const std::uint64_t wanted =
        max_new_tokens > 0 ? given + std::uint64_t{max_new_tokens} : before + std::uint64_t{max_length};
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, generation.max_steps));
}

Result<SpeechConfig> load_speech_config(const std::filesystem::path& folder, std::uint64_t max_positions,
                                        std::uint64_t vocab, const SpeechChoice& choice) {
    GenerationSource source = {};
    VKFORMER_TRY(const Config config, open_config(folder, source));
    SpeechConfig speech;
    VKFORMER_TRY(speech.generation, parse_generation_config(config, source, max_positions, vocab, kOwnFields));
    VKFORMER_CHECK(refuse_what_is_not_done(config, speech.generation));
    VKFORMER_TRY(const auto suppressed, config.token_ids("suppress_tokens"));
    VKFORMER_TRY(speech.languages, tokens_by_name(config, "lang_to_id"));
    VKFORMER_TRY(const bool has_languages, config.boolean("is_multilingual", !speech.languages.empty()));
    if (!has_languages) {
        if (!choice.language.empty() || !choice.task.empty())
            return Error{ErrorCode::InvalidArgument,
                         "the model has one language: there is neither a language nor a task to choose"};
        speech.languages.clear();
    }
    VKFORMER_CHECK(read_timestamps(config, choice, speech));
    VKFORMER_TRY(speech.prefix, read_prefix(config, speech, choice));
    VKFORMER_CHECK(read_lengths(config, source, speech));
    speech.generation.max_steps = static_cast<std::uint32_t>(max_positions);
    const std::size_t given = speech.prefix.size() + 1;
    if (given >= speech.length_for(given))
        return config.unsupported("max_length",
                                  "more than the " + std::to_string(given) + " tokens that the decoder is given");

    // Without the field, transformers takes the second to last of the suppressed tokens, which is where it stands.
    if (suppressed.size() >= 2) speech.previous = suppressed[suppressed.size() - 2];
    if (config.has("prev_sot_token_id")) {
        VKFORMER_TRY(const std::uint32_t token, config.unsigned_integer("prev_sot_token_id", {.max = 1u << 24}));
        speech.previous = static_cast<std::int32_t>(token);
    }
    VKFORMER_TRY(speech.log_prob_threshold, threshold(config, "logprob_threshold"));
    VKFORMER_TRY(speech.no_speech_threshold, threshold(config, "no_speech_threshold"));
    VKFORMER_TRY(speech.compression_ratio_threshold, threshold(config, "compression_ratio_threshold"));
    VKFORMER_TRY(speech.alignment_heads, read_alignment_heads(config));
    VKFORMER_TRY(speech.median_filter_width, read_median_filter_width(folder));
    if (config.has("condition_on_prev_tokens")) {
        VKFORMER_TRY(speech.conditions_on_previous, config.boolean("condition_on_prev_tokens"));
    }
    return speech;
}

Result<void> check_alignment(const SpeechConfig& speech, std::uint64_t layers, std::uint64_t heads) {
    const auto refusal = [](const std::string& what) {
        return Error{ErrorCode::InvalidArgument,
                     what + ", so that nothing says when words were said; ask for no times of words"};
    };
    const std::vector<AlignmentHead>& known = speech.alignment_heads;
    const std::string field = "generation_config.json: \"alignment_heads\" ";
    if (known.empty()) return refusal(field + "is missing");
    for (auto head = known.begin(); head != known.end(); ++head) {
        const std::string name = std::to_string(head->head) + " of layer " + std::to_string(head->layer);
        if (head->layer >= layers || head->head >= heads)
            return refusal(field + "has head " + name + ", which the decoder has not");
        if (std::find(known.begin(), head, *head) != head) return refusal(field + "has head " + name + " twice");
    }
    if (speech.median_filter_width % 2 == 0 || speech.median_filter_width > kMostMedianWidth)
        return refusal("config.json: \"median_filter_width\" is no odd number up to " +
                       std::to_string(kMostMedianWidth));
    return {};
}

}  // namespace vkformer::models
