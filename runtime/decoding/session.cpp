// SPDX-License-Identifier: MIT
#include "decoding/session.hpp"

#include <algorithm>
#include <bit>
#include <ranges>
#include <string>

#include "core/lack_of_memory.hpp"
#include "core/stable_order.hpp"
#include "core/try.hpp"

namespace vkformer::decoding {
namespace {

constexpr std::uint32_t kSmallestBucket = 8;

/// The next power of two, so that few programs serve all lengths.
std::uint32_t bucket_len(std::size_t longest, std::uint64_t limit) {
    std::uint64_t len = kSmallestBucket;
    while (len < longest) len *= 2;
    return static_cast<std::uint32_t>(std::min(len, limit));
}

Hypothesis whole(std::int32_t start, const Source& source, const Answer& answer) {
    Hypothesis result = {.tokens = {source.start >= 0 ? source.start : start}, .score = answer.score, .further = {}};
    result.tokens.insert(result.tokens.end(), source.prefix.begin(), source.prefix.end());
    result.tokens.insert(result.tokens.end(), answer.tokens.begin(), answer.tokens.end());
    return result;
}

}  // namespace

Result<Session> Session::create(graph::Backend& backend, const models::EncoderDecoder& model,
                                const SessionOptions& options, std::shared_ptr<graph::TensorStore> weights) {
    if (options.batch == 0) return Error{ErrorCode::InvalidArgument, "the batch must hold at least one sequence"};
    VKFORMER_CHECK(check_generation(model, options.generation));
    if (options.hypotheses == 0 || options.hypotheses > options.generation.beams)
        return Error{ErrorCode::InvalidArgument,
                     std::to_string(options.hypotheses) + " hypotheses are asked for, a search with " +
                         std::to_string(options.generation.beams) +
                         (options.generation.beams == 1 ? " beam" : " beams") + " has 1 to as many"};
    if (!weights) weights = backend.make_store();
    return Session(backend, model, options, std::move(weights));
}

Result<void> Session::check(std::span<const Source> sources) const {
    const auto limits = model_->limits();
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const Source& source = sources[i];
        const auto invalid = [&](const std::string& what) {
            return Error{ErrorCode::InvalidArgument, "source " + std::to_string(i) + " " + what};
        };
        if (source.tokens.empty()) return invalid("has no tokens");
        if (source.tokens.size() > limits.source_len)
            return invalid("has " + std::to_string(source.tokens.size()) + " tokens, the model takes at most " +
                           std::to_string(limits.source_len));
        if (!source.visible.empty() && source.visible.size() != source.tokens.size())
            return invalid("has a mask of another length than its tokens");
        for (const std::int32_t token : source.tokens)
            if (token < 0 || static_cast<std::uint64_t>(token) >= limits.source_vocab)
                return invalid("has token " + std::to_string(token) + ", the model knows 0 to " +
                               std::to_string(limits.source_vocab - 1));
        auto fits = check_start(source, options_.generation, limits.target_vocab);
        if (fits) fits = check_prefix(source.prefix, options_.generation, limits.target_vocab);
        if (!fits) {
            Error error = std::move(fits).error();
            error.message = "source " + std::to_string(i) + ": " + error.message;
            return error;
        }
    }
    return {};
}

void Session::grow(std::uint32_t batch) noexcept {
    if (batch <= options_.batch) return;
    if (!std::has_single_bit(options_.batch)) batches_.erase(options_.batch);  // which none takes any more
    options_.batch = std::bit_ceil(batch);
}

std::uint32_t Session::rows_for(std::size_t sources) const noexcept {
    if (!has_room_for_others_) return options_.batch;
    return static_cast<std::uint32_t>(std::min<std::size_t>(std::bit_ceil(sources), options_.batch));
}

Session::Batch& Session::batch_of(std::uint32_t rows) {
    const auto known = batches_.find(rows);
    if (known != batches_.end()) return known->second;
    return batches_.emplace(rows, Batch{.stores = SessionStores(*backend_, weights_), .scripts = {}}).first->second;
}

EncoderDecoderScript& Session::script(std::uint32_t rows, std::uint32_t source_len, bool masked) {
    const models::DecodeLayout layout = {.batch = rows,
                                         .beams = options_.generation.beams,
                                         .source_len = source_len,
                                         .max_steps = options_.generation.max_steps,
                                         .dtype = options_.dtype,
                                         .weights = options_.weights,
                                         .masked_source = masked};
    auto& scripts = batch_of(rows).scripts;
    return scripts.try_emplace({source_len, masked}, *model_, layout, options_.generation).first->second;
}

/// So that what fits today does so tomorrow, whatever comes first.
Result<void> Session::make_whole_batch(std::uint32_t source_len, bool masked) {
    if (batches_.contains(options_.batch)) return {};
    EncoderDecoderScript& whole = script(options_.batch, source_len, masked);
    whole.plan_for(backend_->fusions());
    auto made = [&]() -> Result<void> {
        VKFORMER_TRY(const std::vector<Part*> parts, whole.parts());
        for (Part* const part : parts) VKFORMER_CHECK(compile(*part, *backend_, batch_of(options_.batch).stores));
        return {};
    }();
    if (!made) batches_.erase(options_.batch);
    return made;
}

Result<const EncoderDecoderScript*> Session::run(std::span<const Source> sources, std::uint32_t source_len,
                                                 bool masked) {
    for (std::uint32_t rows = rows_for(sources.size());; rows = options_.batch) {
        if (rows < options_.batch) VKFORMER_CHECK(make_whole_batch(source_len, masked));
        EncoderDecoderScript& made = script(rows, source_len, masked);
        made.begin(sources, options_.generation.max_steps);
        StepQueue queue(StepQueue::Growth::doubling, *backend_);
        auto ran = run_script(made, *backend_, batch_of(rows).stores, queue);
        if (ran) return &made;
        const ErrorCode code = ran.error().code;
        // A part whose compilation failed has lost its plan.
        if (code != ErrorCode::Cancelled) batch_of(rows).scripts.erase({source_len, masked});
        if (rows == options_.batch || !is_lack_of_memory(code)) return std::move(ran).failure();
        batches_.erase(rows);
        has_room_for_others_ = false;
    }
}

Result<std::vector<Hypothesis>> Session::generate(std::span<const Source> sources, const Progress& progress) {
    VKFORMER_CHECK(check(sources));
    const auto start_of = [&](std::size_t i) {
        return target_start(sources[i], options_.generation, options_.generation.max_steps);
    };
    const auto order = stable_order(sources.size(), [&](std::size_t a, std::size_t b) {
        return std::pair(start_of(a), sources[a].tokens.size()) < std::pair(start_of(b), sources[b].tokens.size());
    });

    std::vector<Hypothesis> results(sources.size());
    for (std::size_t first = 0, count = 0; first < order.size(); first += count) {
        const TargetStart start = start_of(order[first]);
        for (count = 1; count < options_.batch && first + count < order.size(); ++count)
            if (start_of(order[first + count]) != start) break;
        const auto chosen = std::span(order).subspan(first, count);
        const std::size_t longest = sources[chosen.back()].tokens.size();
        const bool masked = std::ranges::any_of(chosen, [&](std::size_t i) { return !sources[i].visible.empty(); });
        std::vector<Source> batch;
        for (const std::size_t i : chosen) batch.push_back(sources[i]);
        VKFORMER_TRY(const EncoderDecoderScript* const made,
                     run(batch, bucket_len(longest, model_->limits().source_len), masked));
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            const Answer& answer = made->answers()[i];
            const std::int32_t decoder_start = options_.generation.decoder_start;
            Hypothesis& result = results[chosen[i]];
            result = whole(decoder_start, batch[i], answer);
            for (const Answer& next : answer.further | std::views::take(options_.hypotheses - 1))
                result.further.push_back(whole(decoder_start, batch[i], next));
        }
        if (progress) progress(first + chosen.size(), order.size());
    }
    return results;
}

}  // namespace vkformer::decoding
