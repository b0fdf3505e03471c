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

constexpr std::uint32_t kSmallestChunk = 16;
/// Steps are queued so that a submit takes about this long: short enough for tokens to flow, long enough that the host's part
/// (a submit, a read) is nothing beside it.
constexpr double kSubmitSeconds = 0.05;
constexpr std::uint32_t kMostSteps = 16;

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

Result<void> check_penalties(const Penalties& penalties, std::uint32_t vocab) {
    for (const auto& [token, bias] : penalties.bias)
        if (token < 0 || static_cast<std::uint32_t>(token) >= vocab || std::isnan(bias))
            return invalid("the logit bias of token " + std::to_string(token) + " is " + std::to_string(bias) +
                           "; tokens are 0 to " + std::to_string(vocab - 1) + ", biases are numbers");
    for (const std::int32_t token : penalties.ends)
        if (token < 0 || static_cast<std::uint32_t>(token) >= vocab)
            return invalid("the end token " + std::to_string(token) + " is none of the model's, which are 0 to " +
                           std::to_string(vocab - 1));
    return {};
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

/// Computes keys and values of `len` tokens per row.
struct DecoderSession::Chunk {
    ChunkGraph graph;  // the program owns the plan; the names of the tensors are kept here
    std::unique_ptr<Program> program;
};

struct DecoderSession::Step {
    DecoderStepGraph graph;
    std::unique_ptr<Program> program;
};

DecoderSession::DecoderSession(graph::Backend& backend, const models::Decoder& model,
                               const DecoderSessionOptions& options)
    : backend_(&backend),
      model_(&model),
      options_(options),
      weights_(backend.make_store()),
      states_(backend.make_store()),
      rows_(options.rows) {}

Result<DecoderSession> DecoderSession::create(graph::Backend& backend, const models::Decoder& model,
                                              const DecoderSessionOptions& options) {
    DecoderSessionOptions chosen = options;
    const std::uint32_t usual = model.config().max_positions, most = model.config().most_positions();
    if (chosen.context == 0) chosen.context = std::min(usual, DecoderSessionOptions::kDefaultContext);
    if (chosen.context > most)
        return invalid("a context of " + std::to_string(chosen.context) +
                       " tokens was asked for, the model takes at most " + std::to_string(most));
    if (chosen.rows == 0) return invalid("a session needs at least one row");
    if (chosen.rows > 1 && chosen.context > usual)
        return invalid("a context of " + std::to_string(chosen.context) + " tokens is beyond the model's original " +
                       std::to_string(usual) + ", where sequences are generated one by one, not " +
                       std::to_string(chosen.rows) + " together");
    VKFORMER_CHECK(model.check_cache(chosen.cache));
    VKFORMER_CHECK(check_penalties(chosen.penalties, model.config().vocab_size));
    chosen.chunk = std::clamp(chosen.chunk, kSmallestChunk, std::max(kSmallestChunk, chosen.context));
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

Result<void> DecoderSession::check(std::span<const Request> requests) const {
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const std::string name = "prompt " + std::to_string(i + 1);
        const auto& prompt = requests[i].prompt;
        if (prompt.empty()) return invalid(name + " has no tokens");
        if (prompt.size() > options_.context)
            return invalid(name + " has " + std::to_string(prompt.size()) + " tokens, the context holds " +
                           std::to_string(options_.context));
        const std::uint32_t vocab = model_->config().vocab_size;
        for (const std::int32_t token : prompt)
            if (token < 0 || static_cast<std::uint32_t>(token) >= vocab)
                return invalid(name + " has token " + std::to_string(token) + ", the model knows 0 to " +
                               std::to_string(vocab - 1) + "; is the tokenizer the model's?");
    }
    return {};
}

Result<DecoderSession::Chunk*> DecoderSession::chunk(std::uint32_t len) {
    std::shared_ptr<Chunk>& known = chunks_[{len, extended_}];
    if (known) return known.get();
    auto made = std::make_shared<Chunk>();
    VKFORMER_TRY(made->graph, chunk_graph(*model_, options_, len, extended_));
    VKFORMER_TRY(made->program, backend_->compile(graph::make_plan(std::move(made->graph.graph)), weights_, states_));
    known = std::move(made);
    return known.get();
}

/// The shortest that takes all that is left, or the longest that the time allows. A longer chunk takes less per token, not more, so
/// what is expected of it is too long rather than too short.
std::uint32_t DecoderSession::next_chunk_len(std::size_t left) const {
    std::uint32_t len = kSmallestChunk;
    while (len < left && len < options_.chunk) {
        const std::uint32_t longer = std::min(len * 4, options_.chunk);
        if (options_.chunk_seconds > 0 && longer * token_seconds_ > options_.chunk_seconds) break;
        len = longer;
    }
    return len;
}

Result<DecoderSession::Step*> DecoderSession::step() {
    std::shared_ptr<Step>& known = steps_[extended_];
    if (known) return known.get();
    auto made = std::make_shared<Step>();
    VKFORMER_TRY(made->graph, step_graph(*model_, options_, extended_));
    VKFORMER_TRY(made->program, backend_->compile(graph::make_plan(std::move(made->graph.graph)), weights_, states_));
    if (made->graph.bias) {
        std::vector<float> bias(model_->config().vocab_size, 0.0f);
        for (const auto& [token, value] : options_.penalties.bias) bias[static_cast<std::size_t>(token)] = value;
        VKFORMER_CHECK(made->program->write(made->graph.bias, std::span<const float>(bias)));
    }
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

/// Appends what the caches of the rows lack of the contexts that begin as they do. The other rows go along with tokens that
/// nobody asked for: their keys lie behind what the rows have, where nothing looks before it is written again.
Result<void> DecoderSession::fill_caches(std::span<const std::size_t> rows,
                                         std::span<const std::vector<std::int32_t>> contexts) {
    const Clock::time_point start = Clock::now();
    std::size_t longest = 0;  // tokens left to compute, of any row
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t left = contexts[i].size() - rows_[rows[i]].cached.size();
        longest = std::max(longest, left);
        timings_.prompt_tokens += left;
    }
    while (longest > 0) {
        const std::uint32_t len = next_chunk_len(longest);
        VKFORMER_TRY(Chunk* const made, chunk(len));
        std::vector<std::int32_t> tokens(rows_.size() * len, 0), starts(rows_.size());
        for (std::size_t r = 0; r < rows_.size(); ++r) starts[r] = static_cast<std::int32_t>(rows_[r].cached.size());
        for (std::size_t i = 0; i < rows.size(); ++i) {
            Row& row = rows_[rows[i]];
            const auto rest = std::span(contexts[i]).subspan(row.cached.size());
            const auto part = rest.first(std::min<std::size_t>(rest.size(), len));
            std::ranges::copy(part, tokens.begin() + static_cast<std::ptrdiff_t>(rows[i] * len));
            row.cached.insert(row.cached.end(), part.begin(), part.end());
        }
        VKFORMER_CHECK(write(*made->program, made->graph.tokens, tokens));
        VKFORMER_CHECK(write(*made->program, made->graph.starts, starts));
        const Clock::time_point submitted = Clock::now();
        VKFORMER_CHECK(made->program->submit());
        VKFORMER_CHECK(made->program->wait());
        token_seconds_ = seconds_since(submitted) / len;
        ++timings_.prompt_chunks;
        longest -= std::min<std::size_t>(longest, len);
    }
    timings_.prompt_seconds += seconds_since(start);
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
    if (made->graph.counts) VKFORMER_CHECK(write_counts(requests, fresh));
    if (made->graph.begins) {
        std::vector<std::int32_t> begins;
        for (const Row& row : rows_)
            begins.push_back(row.request == kFree ? 1 : static_cast<std::int32_t>(requests[row.request].prompt.size()));
        VKFORMER_CHECK(write(*made->program, made->graph.begins, begins));
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
    VKFORMER_TRY(auto counts, read(*made->program, made->graph.counts));
    const std::size_t vocab = model_->config().vocab_size;
    for (const std::size_t r : fresh) {
        const std::span<std::int32_t> row = std::span(counts).subspan(r * vocab, vocab);
        std::ranges::fill(row, 0);
        for (const std::int32_t token : requests[rows_[r].request].prompt)
            row[static_cast<std::size_t>(token)] = graph::kInPrompt;
    }
    return write(*made->program, made->graph.counts, counts);
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
    queue_ = static_cast<std::uint32_t>(
        std::clamp(kSubmitSeconds * count / std::max(seconds, 1e-6), 1.0, double{kMostSteps}));

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
    VKFORMER_CHECK(check(requests));
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
