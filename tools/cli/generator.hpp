// SPDX-License-Identifier: MIT
/// What generate and chat share.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli.hpp"
#include "vkformer/generator.hpp"

namespace vkformer::cli {

struct GeneratorCommand {
    DeviceOptions device;
    std::string shipped;  ///< what is taken without --model, as find_shipped() knows it; empty: --model has to be said
    std::string model;
    WeightsOption weights;
    CacheOption cache;
    std::uint32_t max_tokens = 0, context = 0, batch = 1;
    std::optional<std::uint32_t> min_tokens;
    std::uint32_t prompt_lookup = 0;
    std::string draft;  ///< empty: no draft model
    bool multi_token = false;
    std::optional<std::uint32_t> draft_tokens;
    std::uint64_t seed = 0;
    float temperature = 0, top_p = 1, min_p = 0;
    std::uint32_t top_k = 0;
    float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
    std::uint32_t no_repeat_ngram = 0;
    std::vector<std::string> logit_bias;  ///< "15043=-2.5"
    std::uint32_t beams = 0;              ///< 0: not given
    std::optional<float> length_penalty;
    std::string early_stopping;  ///< empty: not given
    std::vector<std::string> stop;
    bool ignore_end = false;
    LoraOption lora;
    std::string json_schema, regex;  ///< empty: not given
    std::vector<std::string> choice;
    bool json_object = false;

    void add(CLI::App& command);
    /// Errors: InvalidArgument (a bias that is not TOKEN=NUMBER, a constraint that is wrong or not supported), FileNotFound (the schema's).
    Result<GenerateOptions> generate_options() const;

private:
    Result<std::optional<Constraint>> constraint() const;

    CLI::App* parsed_ = nullptr;  // knows which of the sampling options were given
};

/// Loads the model, with progress on standard error. Errors: those of Generator::load.
Result<Generator> load_generator(const GeneratorCommand& command);

/// Tokens and tokens per second on standard error, and how many guesses were right, of a draft model also where it made none.
void show_timings(const Generator& generator, std::span<const Generation> generations, bool has_draft);

}  // namespace vkformer::cli
