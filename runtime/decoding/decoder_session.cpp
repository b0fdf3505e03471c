// SPDX-License-Identifier: MIT
#include "decoding/decoder_session.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "core/try.hpp"
#include "decoding/decoder_steps.hpp"

namespace vkformer::decoding {
namespace {

using graph::Program;
using graph::Value;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Error invalid(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

Result<void> write(Program& program, Value tensor, const std::vector<std::int32_t>& values) {
    return program.write(tensor, std::span<const std::int32_t>(values));
}

Result<std::vector<std::int32_t>> read(Program& program, Value tensor) {
    std::vector<std::int32_t> values(program.plan().graph.shape(tensor).element_count());
    VKFORMER_CHECK(program.read(tensor, std::span<std::int32_t>(values)));
    return values;
}

std::size_t common_prefix(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
    return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

std::string_view to_string(FinishReason reason) noexcept {
    switch (reason) {
    case FinishReason::none: return "none";
    case FinishReason::stop: return "stop";
    case FinishReason::caller: return "caller";
    case FinishReason::length: return "length";
    case FinishReason::context: return "context";
    }
    return "unknown";
}

Result<void> check_prompts(std::span<const Request> requests, const DecoderSessionOptions& options,
                           const models::Decoder& model) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const std::string name = "prompt " + std::to_string(i + 1);
        const auto& prompt = requests[i].prompt;
        if (prompt.empty()) return invalid(name + " has no tokens");
        if (prompt.size() > options.context)
            return invalid(name + " has " + std::to_string(prompt.size()) + " tokens, the context holds " +
                           std::to_string(options.context));
        const std::uint32_t vocab = model.config().vocab_size;
        for (const std::int32_t token : prompt)
            if (token < 0 || static_cast<std::uint32_t>(token) >= vocab)
                return invalid(name + " has token " + std::to_string(token) + ", the model knows 0 to " +
                               std::to_string(vocab - 1) + "; is the tokenizer the model's?");
    }
    return {};
}

struct DecoderSession::Step {
    DecoderStepGraph graph;
    std::unique_ptr<Program> program;
};

DecoderSession::DecoderSession(graph::Backend& backend, const models::Decoder& model,
                               const DecoderSessionOptions& options)
    : backend_(&backend),
      model_(&model),
      options_(options),
      stores_{.weights = backend.make_store(), .states = backend.make_store()},
      rows_(options.rows) {}

Result<DecoderSession> DecoderSession::create(graph::Backend& backend, const models::Decoder& model,
                                              const DecoderSessionOptions& options) {
    VKFORMER_TRY(const DecoderSessionOptions chosen, checked_options(model, options));
    return DecoderSession(backend, model, chosen);
}

Result<void> DecoderSession::set_sampling(const graph::SampleOptions& sample, const Penalties& penalties) {
    const graph::SampleOptions& now = options_.sample;
    if (sample.temperature == now.temperature && sample.top_k == now.top_k && sample.top_p == now.top_p &&
        sample.min_p == now.min_p && penalties == options_.penalties)
        return {};
    VKFORMER_CHECK(check_penalties(penalties, model_->config().vocab_size));
    if ((penalties.no_repeat_ngram > 0) != (options_.penalties.no_repeat_ngram > 0)) {
        chunks_.clear();  // those that are there keep no sequences, or some that nobody asks for
        clear();
    }
    options_.sample = sample;
    options_.penalties = penalties;
    steps_.clear();
    return {};
}

void DecoderSession::clear() noexcept {
    for (Row& row : rows_) row.cached.clear();
}

Result<DecoderSession::Step*> DecoderSession::step() {
    std::shared_ptr<Step>& known = steps_[extended_];
    if (known) return known.get();
    auto made = std::make_shared<Step>();
    VKFORMER_TRY(made->graph, step_graph(*model_, options_, extended_));
    VKFORMER_TRY(made->program,
                 backend_->compile(graph::make_plan(std::move(made->graph.graph)), stores_.weights, stores_.states));
    VKFORMER_CHECK(write_biases(*made->program, made->graph.rules, options_.penalties));
    known = std::move(made);
    return known.get();
}

/// Fills the caches of `fresh` rows with all but the last token of their prompts.
Result<void> DecoderSession::prefill(std::span<const Request> requests, std::span<const std::size_t> fresh,
                                     std::span<SequenceResult> results) {
    std::vector<std::vector<std::int32_t>> contexts;
    for (const std::size_t r : fresh) {
        Row& row = rows_[r];
        const auto& prompt = requests[row.request].prompt;
        const bool is_long = prompt.size() > model_->config().max_positions;
        if (is_long != extended_) clear();  // then there is but one row
        extended_ = is_long;
        contexts.emplace_back(prompt.begin(), prompt.end() - 1);
        row.cached.resize(common_prefix(row.cached, contexts.back()));
        row.pending = prompt.back();
        results[row.request].reused = static_cast<std::uint32_t>(row.cached.size());
    }
    return fill_caches(fresh, contexts);
}

/// Whether the row's next step is the first of a sequence beyond max_positions.
bool DecoderSession::crosses() const noexcept {
    return !extended_ && rows_[0].request != kFree && rows_[0].cached.size() >= model_->config().max_positions;
}

/// Computes all keys and values anew, as they are in a long sequence. The states of the step are as they were.
Result<void> DecoderSession::cross() {
    extended_ = true;
    const std::vector<std::int32_t> context = std::move(rows_[0].cached);
    rows_[0].cached.clear();
    const std::size_t row[] = {0};
    return fill_caches(row, {&context, 1});
}

/// Appends what the caches of the rows lack of the contexts that begin as they do.
Result<void> DecoderSession::fill_caches(std::span<const std::size_t> rows,
                                         std::span<const std::vector<std::int32_t>> contexts) {
    std::vector<std::size_t> begun;
    for (const Row& row : rows_) begun.push_back(row.cached.size());
    std::vector<std::span<const std::int32_t>> rests(rows_.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rests[rows[i]] = std::span(contexts[i]).subspan(begun[rows[i]]);
    const auto compile_step = [this]() -> Result<void> {
        VKFORMER_TRY([[maybe_unused]] const Step* const made, step());
        return {};
    };
    VKFORMER_CHECK(
        chunks_.append({*backend_, *model_, options_, stores_}, extended_, begun, rests, timings_, compile_step));
    for (std::size_t i = 0; i < rows.size(); ++i) rows_[rows[i]].cached = contexts[i];
    return {};
}

/// What the next step reads: every row's token and position, and a fresh row's seed.
Result<void> DecoderSession::write_states(std::span<const Request> requests, std::span<const std::size_t> fresh) {
    VKFORMER_TRY(Step* const made, step());
    std::vector<std::int32_t> tokens, starts;
    for (const Row& row : rows_) {
        tokens.push_back(row.pending);
        starts.push_back(static_cast<std::int32_t>(row.cached.size()));
    }
    VKFORMER_CHECK(write(*made->program, made->graph.states.tokens, tokens));
    VKFORMER_CHECK(write(*made->program, made->graph.states.starts, starts));
    if (made->graph.rules.counts) VKFORMER_CHECK(write_counts(requests, fresh));
    if (made->graph.rules.begins) {
        std::vector<std::int32_t> begins;
        for (const Row& row : rows_)
            begins.push_back(row.request == kFree ? 1 : static_cast<std::int32_t>(requests[row.request].prompt.size()));
        VKFORMER_CHECK(write(*made->program, made->graph.rules.begins, begins));
    }
    if (!made->graph.random) return {};
    VKFORMER_TRY(auto random, read(*made->program, made->graph.random));
    for (const std::size_t r : fresh) {
        const std::uint64_t seed = requests[rows_[r].request].seed;
        random[3 * r] = static_cast<std::int32_t>(seed & 0xFFFFFFFFu);
        random[3 * r + 1] = static_cast<std::int32_t>(seed >> 32);
        random[3 * r + 2] = 0;
    }
    return write(*made->program, made->graph.random, random);
}

/// A fresh row has generated nothing yet; which tokens its prompt has is marked.
Result<void> DecoderSession::write_counts(std::span<const Request> requests, std::span<const std::size_t> fresh) {
    if (fresh.empty()) return {};
    VKFORMER_TRY(Step* const made, step());
    VKFORMER_TRY(auto counts, read(*made->program, made->graph.rules.counts));
    const std::size_t vocab = model_->config().vocab_size;
    for (const std::size_t r : fresh) {
        const std::span<std::int32_t> row = std::span(counts).subspan(r * vocab, vocab);
        std::ranges::fill(row, 0);
        for (const std::int32_t token : requests[rows_[r].request].prompt)
            row[static_cast<std::size_t>(token)] = graph::kInPrompt;
    }
    return write(*made->program, made->graph.rules.counts, counts);
}

/// No row may run past its context, and no step be queued that every row's limit makes useless.
std::uint32_t DecoderSession::steps_to_queue(std::span<const Request> requests,
                                             std::span<const SequenceResult> results) const {
    std::size_t useful = 0;
    for (const Row& row : rows_) {
        if (row.request == kFree) continue;
        const std::uint32_t most = extended_ ? options_.context : model_->config().max_positions;
        std::size_t left = std::min(options_.context, most) - row.cached.size();
        const std::uint32_t limit = requests[row.request].max_tokens;
        if (limit > 0) left = std::min<std::size_t>(left, limit - results[row.request].tokens.size());
        useful = std::max(useful, left);
    }
    return static_cast<std::uint32_t>(std::min<std::size_t>(useful, queue_));
}

/// Queues some steps and hands out their tokens; frees the rows that end.
Result<void> DecoderSession::decode(std::span<const Request> requests, std::span<SequenceResult> results,
                                    const OnToken& on_token) {
    VKFORMER_TRY(Step* const made, step());
    const Clock::time_point start = Clock::now();
    const std::uint32_t count = steps_to_queue(requests, results);
    VKFORMER_CHECK(made->program->submit(count));
    VKFORMER_TRY(const auto history, read(*made->program, made->graph.states.history));
    const double seconds = seconds_since(start);
    timings_.decode_seconds += seconds;
    timings_.decode_steps += count;
    queue_ = steps_after(count, seconds);

    for (std::size_t r = 0; r < rows_.size(); ++r) {
        Row& row = rows_[r];
        if (row.request == kFree) continue;
        const Request& request = requests[row.request];
        SequenceResult& result = results[row.request];
        for (std::uint32_t i = 0; i < count && result.finish == FinishReason::none; ++i) {
            const std::int32_t token = history[row.cached.size() * rows_.size() + r];
            row.cached.push_back(row.pending);
            row.pending = token;
            result.tokens.push_back(token);
            const bool goes_on = !on_token || on_token(row.request, token);
            if (std::ranges::find(request.stop_tokens, token) != request.stop_tokens.end())
                result.finish = FinishReason::stop;
            else if (!goes_on)
                result.finish = FinishReason::caller;
            else if (request.max_tokens > 0 && result.tokens.size() == request.max_tokens)
                result.finish = FinishReason::length;
            else if (row.cached.size() == options_.context)
                result.finish = FinishReason::context;
        }
        if (result.finish != FinishReason::none) row.request = kFree;
    }
    return {};
}

Result<std::vector<SequenceResult>> DecoderSession::run(std::span<const Request> requests, const OnToken& on_token) {
    VKFORMER_CHECK(check_prompts(requests, options_, *model_));
    timings_ = {};
    queue_ = 1;
    for (Row& row : rows_) row.request = kFree;
    std::vector<SequenceResult> results(requests.size());
    std::size_t next = 0;
    while (true) {
        std::vector<std::size_t> fresh;
        for (std::size_t r = 0; r < rows_.size() && next < requests.size(); ++r) {
            if (rows_[r].request != kFree) continue;
            rows_[r].request = next++;
            fresh.push_back(r);
        }
        const bool is_busy = std::ranges::any_of(rows_, [](const Row& row) { return row.request != kFree; });
        if (!is_busy) return results;
        if (!fresh.empty()) {  // else the device's states are what the last step left there
            VKFORMER_CHECK(prefill(requests, fresh, results));
            VKFORMER_CHECK(write_states(requests, fresh));
        }
        if (crosses()) VKFORMER_CHECK(cross());
        VKFORMER_CHECK(decode(requests, results, on_token));
    }
}

}  // namespace vkformer::decoding
