// SPDX-License-Identifier: MIT
#include "serve/text_model.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/try.hpp"
#include "decoding/batch_script.hpp"
#include "graph/plan.hpp"
#include "models/open_model.hpp"

namespace vkformer::serve {
namespace {

/// So many are kept as have kKeptStepBytes together, and one that has more is alone: a step of as many rows as there can be that does all
/// that requests may ask for.
Result<std::uint64_t> most_step_bytes(const models::Decoder& decoder, decoding::BatchOptions options) {
    options.ends = {0};  // some
    const decoding::BatchStepKind kind = {
        .rows = options.guesses > 0 ? decoding::BatchOptions::kMostRows : options.rows,
        .draws = true,
        .counts = true,
        .biases = true,
        .waits = true,
        .masks = true,
        .scores = true,
        .likeliest = decoding::likeliest_for(decoding::kMostLikeliest, decoder.config().vocab_size)};
    VKFORMER_TRY(auto step, decoding::batch_step_graph(decoder, options, kind));
    return std::max(decoding::BatchOptions::kKeptStepBytes, graph::own_bytes(graph::make_plan(std::move(step.graph))));
}

}  // namespace

Result<std::unique_ptr<TextModel>> TextModel::load(std::string name, const std::filesystem::path& path,
                                                   const std::vector<Adapter>& adapters, const ModelOptions& options,
                                                   Metrics& metrics) {
    EngineOptions wanted{.generator = {.device = options.device,
                                       .precision = options.precision,
                                       .weights = options.weights,
                                       .cache = options.cache,
                                       .context = options.context,
                                       .batch = options.sequences,
                                       .adapters = adapters,
                                       .plain_shaders = options.plain_shaders,
                                       .shader_variants = options.shader_variants,
                                       .on_progress = options.on_progress,
                                       .offload = options.offload},
                         .cache_tokens = options.cache_tokens,
                         .queue = std::numeric_limits<std::uint32_t>::max(),  // Limits::requests bounds what waits
                         .prompt_lookup = options.prompt_lookup};
    auto loaded = std::make_unique<TextModel>();
    loaded->name_ = std::move(name);
    loaded->adapters_ = names_of(adapters);
    loaded->metrics_ = &metrics;
    VKFORMER_TRY(auto engine, GenerationEngine::load(path, wanted));
    if (!engine.has_tokenizer())
        return Error{ErrorCode::FileNotFound, path.string() + " has no tokenizer, and clients send texts"};
    loaded->engine_.emplace(std::move(engine));
    return loaded;
}

Result<TextModel::Cache> TextModel::cache_of(const std::filesystem::path& path, const ModelOptions& options) {
    VKFORMER_TRY(const models::Decoder decoder, models::load_decoder(path));
    const models::DecoderConfig& config = decoder.config();
    decoding::BatchOptions wanted = {.rows = options.sequences,
                                     .context = options.context,
                                     .dtype = options.precision == Precision::f16 ? DType::f16 : DType::f32,
                                     .guesses = options.prompt_lookup};
    if (options.cache_tokens > 0)
        wanted.pages = static_cast<std::uint32_t>(graph::page_count(options.cache_tokens)) + 1;
    VKFORMER_TRY(const decoding::BatchOptions batch, decoding::checked_batch_options(decoder, wanted));
    const std::uint64_t tokens = (batch.pages - 1) * graph::kPageLen;
    const std::uint64_t window_pages = batch.window_pages > 0 ? batch.window_pages : batch.pages;
    const std::uint64_t numbers =
        graph::kPageLen * (batch.pages * config.cached_numbers(false) + window_pages * config.cached_numbers(true));
    const std::uint64_t states = config.state_bytes() * batch.rows;
    const std::uint64_t bytes = options.cache == CacheStorage::q8_0
                                    ? numbers * 34 / 32
                                    : numbers * (options.precision == Precision::f16 ? 2 : 4);
    VKFORMER_TRY(const std::uint64_t most, most_step_bytes(decoder, batch));
    return Cache{bytes + states, tokens, batch.context, most};
}

Result<TextModel::Id> TextModel::submit(GenerationRequest request, GenerationEngine::OnText on_text,
                                        GenerationEngine::OnEnd on_end, GenerationEngine::OnLogProbs on_log_probs,
                                        GenerationEngine::OnPrompt on_prompt) {
    using Clock = std::chrono::steady_clock;
    const Labels labels = {{"model", name_}};
    // Of the engine's thread alone; `began` is the time of the token before.
    auto measured = [this, labels, on_text = std::move(on_text), began = Clock::now(), is_first = true](
                        std::string_view text, std::int32_t token) mutable {
        if (token >= 0) {
            const auto now = Clock::now();
            metrics_->observe(is_first ? "vkformer_first_token_seconds" : "vkformer_next_token_seconds", labels,
                              std::chrono::duration<double>(now - began).count());
            began = now;
            is_first = false;
        }
        return on_text(text, token);
    };
    auto counted = [this, labels, on_end = std::move(on_end)](Result<Generation> result) {
        if (result) {
            metrics_->add("vkformer_prompt_tokens_total", labels, result->prompt_tokens);
            metrics_->add("vkformer_cached_tokens_total", labels, result->reused_tokens);
            metrics_->add("vkformer_generated_tokens_total", labels, static_cast<double>(result->tokens.size()));
        }
        on_end(std::move(result));
    };
    return engine_->submit(std::move(request), std::move(measured), std::move(counted), std::move(on_log_probs),
                           std::move(on_prompt));
}

void TextModel::show(Metrics& metrics) const {
    const Labels labels = {{"model", name_}};
    const EngineStats stats = engine_->stats();
    metrics.set("vkformer_queue_requests", labels, stats.running + stats.waiting);
    metrics.set("vkformer_running_sequences", labels, stats.running);
    metrics.set("vkformer_cache_pages", {{"model", name_}, {"state", "all"}}, stats.pages);
    metrics.set("vkformer_cache_pages", {{"model", name_}, {"state", "used"}}, stats.used_pages);
    metrics.set("vkformer_cache_pages", {{"model", name_}, {"state", "kept"}}, stats.kept_pages);
    if (stats.window_pages > 0) {
        metrics.set("vkformer_cache_window_pages", {{"model", name_}, {"state", "all"}}, stats.window_pages);
        metrics.set("vkformer_cache_window_pages", {{"model", name_}, {"state", "used"}}, stats.used_window_pages);
        metrics.set("vkformer_cache_window_pages", {{"model", name_}, {"state", "kept"}}, stats.kept_window_pages);
    }
    metrics.set("vkformer_decode_steps_total", labels, static_cast<double>(stats.steps));
    metrics.set("vkformer_guessed_tokens_total", labels, static_cast<double>(stats.guessed_tokens));
    metrics.set("vkformer_accepted_tokens_total", labels, static_cast<double>(stats.accepted_tokens));
    metrics.set("vkformer_preempted_total", labels, static_cast<double>(stats.preempted));
}

}  // namespace vkformer::serve
