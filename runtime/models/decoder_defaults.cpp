// SPDX-License-Identifier: MIT
#include "models/decoder_defaults.hpp"

#include <string>
#include <system_error>

#include "core/try.hpp"
#include "formats/config.hpp"
#include "models/generation_config.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

constexpr GenerationKind kKind = GenerationKind::language_model;

Result<std::uint32_t> read_beams(const Config& generation, GenerationSource source, bool draws) {
    VKFORMER_TRY(const auto beams,
                 generation.unsigned_integer("num_beams", {.fallback = 1, .min = 1, .max = graph::kMaxBeams}));
    if (beams == 1) return beams;
    if (draws)
        return Error{.code = ErrorCode::UnsupportedConfig,
                     .message = generation.file_name() + ": \"num_beams\" is " + std::to_string(beams) +
                                " and \"do_sample\" true, but a beam search draws nothing; ask for " +
                                std::to_string(beams) +
                                " beams to get the likeliest sequence, or for one to get one that is drawn",
                     .hint = Hint::beams};
    VKFORMER_CHECK(check_generation_fields(generation, source, kKind, {.draws = false, .searches = true}));
    return beams;
}

/// How a model draws whose makers want it to.
Result<graph::SampleOptions> read_sampling(const Config& generation, GenerationSource source) {
    VKFORMER_CHECK(check_generation_fields(generation, source, kKind, {.draws = true, .searches = false}));
    VKFORMER_TRY(const double temperature, generation.real("temperature", {.fallback = 1, .min = 0, .max = 1e4}));
    VKFORMER_TRY(const auto top_k, generation.unsigned_integer("top_k", {.fallback = 50}));
    VKFORMER_TRY(const double top_p, generation.real("top_p", {.fallback = 1, .min = 0, .max = 1}));
    VKFORMER_TRY(const double min_p, generation.real("min_p", {.fallback = 0, .min = 0, .max = 1}));
    return graph::SampleOptions{.temperature = static_cast<float>(temperature),
                                .top_k = top_k,
                                .top_p = static_cast<float>(top_p),
                                .min_p = static_cast<float>(min_p)};
}

/// max_length counts the prompt. In a config.json, 20 is what older libraries wrote for nothing said.
Result<void> read_lengths(const Config& generation, GenerationSource source, DecoderDefaults& defaults) {
    constexpr std::uint32_t kMost = 1u << 30, kUnsaid = 20;
    if (generation.has("max_new_tokens")) {
        VKFORMER_TRY(defaults.max_new_tokens, generation.unsigned_integer("max_new_tokens", {.min = 1, .max = kMost}));
    } else if (generation.has("max_length")) {
        VKFORMER_TRY(defaults.max_length, generation.unsigned_integer("max_length", {.min = 1, .max = kMost}));
        if (source == GenerationSource::model_config && defaults.max_length == kUnsaid) defaults.max_length = 0;
    }
    VKFORMER_TRY(defaults.min_new_tokens,
                 generation.unsigned_integer("min_new_tokens", {.fallback = 0, .max = 1u << 20}));
    VKFORMER_TRY(const auto min_length, generation.unsigned_integer("min_length", {.fallback = 0}));
    if (min_length > 0 && !generation.has("min_new_tokens"))
        return generation.unsupported("min_length", "0; min_new_tokens does not count the prompt");
    return {};
}

}  // namespace

Result<std::vector<std::int32_t>> load_end_tokens(const std::filesystem::path& folder, std::uint64_t vocab) {
    VKFORMER_TRY(const Config generation, Config::open_if_present(folder / "generation_config.json"));
    VKFORMER_TRY(const Config model, Config::open_if_present(folder / "config.json"));
    VKFORMER_TRY(const Config text, model.object("text_config"));  // of a model with towers beside that of texts
    std::vector<std::int32_t> ends;
    for (const Config* const source : {&generation, &model, &text}) {
        VKFORMER_TRY(ends, read_tokens(*source, "eos_token_id", vocab));
        if (!ends.empty()) break;
    }
    return ends;
}

Result<DecoderDefaults> load_decoder_defaults(const std::filesystem::path& folder, std::uint64_t vocab) {
    std::error_code ignored;
    const bool has_own = std::filesystem::exists(folder / "generation_config.json", ignored);
    const GenerationSource source = has_own ? GenerationSource::generation_config : GenerationSource::model_config;
    VKFORMER_TRY(const Config generation,
                 Config::open_if_present(folder / (has_own ? "generation_config.json" : "config.json")));
    VKFORMER_CHECK(check_generation_fields(generation, source, kKind, {.draws = false, .searches = false}));
    DecoderDefaults defaults;
    VKFORMER_TRY(defaults.end_tokens, load_end_tokens(folder, vocab));
    VKFORMER_TRY(defaults.rules, read_token_rules(generation, defaults.end_tokens, vocab));
    if (defaults.rules.forced_first >= 0 && !defaults.rules.banned_first.empty())
        return generation.unsupported("begin_suppress_tokens", "null with \"forced_bos_token_id\"");
    VKFORMER_TRY(defaults.stop_strings, read_stop_strings(generation));
    VKFORMER_CHECK(read_lengths(generation, source, defaults));
    VKFORMER_TRY(const double repetition,
                 generation.real("repetition_penalty", {.fallback = 1, .min = 1e-3, .max = 1e3}));
    defaults.repetition_penalty = static_cast<float>(repetition);
    VKFORMER_TRY(defaults.no_repeat_ngram,
                 generation.unsigned_integer("no_repeat_ngram_size", {.fallback = 0, .max = 1u << 20}));
    VKFORMER_TRY(const bool draws, generation.boolean("do_sample", false));
    defaults.beams = read_beams(generation, source, draws);
    VKFORMER_TRY(const double length_penalty,
                 generation.real("length_penalty", {.fallback = 1, .min = -100, .max = 100}));
    defaults.length_penalty = static_cast<float>(length_penalty);
    VKFORMER_TRY(defaults.early_stopping, read_early_stopping(generation));
    if (draws) defaults.sample = read_sampling(generation, source);
    return defaults;
}

}  // namespace vkformer::models
