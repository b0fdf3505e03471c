// SPDX-License-Identifier: MIT
#include "decoding/beam_session.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "core/try.hpp"
#include "decoding/tensor_io.hpp"

namespace vkformer::decoding {
namespace {

using graph::Program;
using graph::Value;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Error invalid(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

models::DecoderLayout layout_of(const DecoderSessionOptions& options, const BeamRules& rules) {
    return {.rows = rules.beams,
            .len = 1,
            .capacity = options.context,
            .dtype = options.dtype,
            .weights = options.weights,
            .cache = options.cache};
}

constexpr std::uint32_t kMostCandidates = 128;  // of graph::top_k

std::uint32_t candidates_of(const BeamRules& rules, std::size_t further_ends) {
    return static_cast<std::uint32_t>((2 + further_ends) * rules.beams);
}

}  // namespace

Result<void> check_beams(const BeamRules& rules, const DecoderSessionOptions& options) {
    if (rules.beams < 2 || rules.beams > graph::kMaxBeams)
        return invalid("a beam search with " + std::to_string(rules.beams) + " beams was asked for, it takes 2 to " +
                       std::to_string(graph::kMaxBeams));
    if (options.rows != 1)
        return invalid("a beam search continues prompts one by one, not " + std::to_string(options.rows) +
                       " together; leave out the batch");
    if (options.sample.temperature != 0)
        return invalid("a beam search looks for the likeliest sequence and draws nothing: the temperature must be 0");
    return {};
}

Result<void> check_ends(const BeamRules& rules, std::size_t ends) {
    const std::size_t further_ends = ends == 0 ? 0 : ends - 1;
    if (candidates_of(rules, further_ends) <= kMostCandidates) return {};
    return invalid("a search with " + std::to_string(rules.beams) + " beams was asked for, with " +
                   std::to_string(ends) + " tokens that end a sequence there are at most " +
                   std::to_string(kMostCandidates / (2 + further_ends)));
}

Result<BeamStepGraph> beam_step_graph(const models::Decoder& model, const DecoderSessionOptions& options,
                                      const BeamRules& rules, std::int32_t eos, std::uint32_t further_ends) {
    BeamStepGraph step;
    graph::Graph& graph = step.graph;
    const std::uint32_t beams = rules.beams;
    const BeamLayout layout = {.beams = beams, .history = options.context, .further_ends = further_ends};
    VKFORMER_TRY(const Value tokens, graph.state("step_tokens", DType::i32, {beams, 1}));
    VKFORMER_TRY(const Value starts, graph.state("starts", DType::i32, {beams}));
    VKFORMER_TRY(const auto pass,
                 model.add_pass(graph, layout_of(options, rules), tokens, starts, models::Logits::all));
    graph.set_scope("beam");
    VKFORMER_TRY(step.states, add_beam_states(graph, layout, tokens, starts));
    VKFORMER_TRY(const Value log_probs, graph::log_softmax(graph, pass.logits));
    VKFORMER_TRY(const Value scores, add_rules(graph, options, log_probs, tokens, starts, step.rules));
    const std::uint64_t vocab = graph.shape(scores)[1];
    const auto candidates =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(candidates_of(rules, further_ends), vocab));
    VKFORMER_TRY(const auto best, graph::top_k(graph, scores, candidates));
    VKFORMER_CHECK(graph::beam_step(graph, best.values, best.indices, step.states,
                                    {.beams = beams,
                                     .max_steps = options.context,
                                     .eos = eos,
                                     .length_penalty = rules.length_penalty,
                                     .early_stopping = rules.early_stopping}));
    VKFORMER_TRY(step.shared, graph.state("shared", DType::i32, {beams}));
    // beam_step has moved `starts` on, so it is the number of positions that the caches hold.
    std::vector<Value> caches = pass.caches;
    if (step.rules.sequences) caches.push_back(step.rules.sequences);
    for (const Value cache : caches)
        VKFORMER_CHECK(graph::cache_reorder(graph, cache, step.states.parents, starts, beams, step.shared));
    if (step.rules.counts) {  // one number per token of the vocabulary, which all go with the row
        VKFORMER_TRY(step.vocab_lengths, graph.input("vocab_lengths", DType::i32, {beams}));
        VKFORMER_CHECK(graph::cache_reorder(graph, step.rules.counts, step.states.parents, step.vocab_lengths, beams));
        VKFORMER_CHECK(graph::count_tokens(graph, tokens, step.rules.counts, graph::TokenOrigin::generated));
    }
    return step;
}

Result<SpreadGraph> spread_graph(const models::Decoder& model, const DecoderSessionOptions& options,
                                 const BeamRules& rules) {
    SpreadGraph spread;
    graph::Graph& graph = spread.graph;
    VKFORMER_TRY(spread.parents, graph.input("spread_parents", DType::i32, {rules.beams}));
    VKFORMER_TRY(spread.lengths, graph.input("spread_lengths", DType::i32, {rules.beams}));
    VKFORMER_TRY(std::vector<Value> caches, model.add_caches(graph, layout_of(options, rules)));
    if (options.penalties.no_repeat_ngram > 0) {
        VKFORMER_TRY(const Value sequences, graph.state("sequences", DType::i32, {rules.beams, options.context}));
        caches.push_back(sequences);
    }
    graph.set_scope("spread");
    for (const Value cache : caches)
        VKFORMER_CHECK(graph::cache_reorder(graph, cache, spread.parents, spread.lengths, rules.beams));
    return spread;
}

struct BeamSession::Spread {
    SpreadGraph graph;
    std::unique_ptr<Program> program;
};

struct BeamSession::Step {
    BeamStepGraph graph;
    std::vector<std::int32_t> ends;
    std::unique_ptr<Program> program;
};

BeamSession::BeamSession(graph::Backend& backend, const models::Decoder& model, const DecoderSessionOptions& options,
                         const BeamRules& rules)
    : backend_(&backend),
      model_(&model),
      options_(options),
      rules_(rules),
      stores_{.weights = backend.make_store(), .states = backend.make_store()} {}

Result<BeamSession> BeamSession::create(graph::Backend& backend, const models::Decoder& model,
                                        const DecoderSessionOptions& options, const BeamRules& rules) {
    VKFORMER_CHECK(check_beams(rules, options));
    VKFORMER_TRY(const DecoderSessionOptions chosen, checked_options(model, options));
    if (chosen.context > model.config().max_positions)
        return invalid("a context of " + std::to_string(chosen.context) + " tokens is beyond the model's original " +
                       std::to_string(model.config().max_positions) + ", where there is no beam search");
    return BeamSession(backend, model, chosen, rules);
}

Result<void> BeamSession::set_penalties(const Penalties& penalties) {
    if (penalties == options_.penalties) return {};
    VKFORMER_CHECK(check_penalties(penalties, model_->config().vocab_size));
    if ((penalties.no_repeat_ngram > 0) != (options_.penalties.no_repeat_ngram > 0)) {
        chunks_.clear();  // those that are there keep no sequences, or some that nobody asks for
        spread_.reset();
        cached_.clear();
    }
    options_.penalties = penalties;
    step_.reset();
    return {};
}

Result<void> BeamSession::check(std::span<const Request> requests) const {
    VKFORMER_CHECK(check_prompts(requests, options_, *model_));
    for (const Request& request : requests) VKFORMER_CHECK(check_ends(rules_, request.stop_tokens.size()));
    return {};
}

BeamLayout BeamSession::layout(std::size_t further_ends) const noexcept {
    return {.beams = rules_.beams, .history = options_.context, .further_ends = further_ends};
}

/// The context's keys and values, in all rows; how many of its tokens were there.
Result<std::uint32_t> BeamSession::fill_caches(std::span<const std::int32_t> context) {
    const std::size_t known = static_cast<std::size_t>(std::ranges::mismatch(context, cached_).in1 - context.begin());
    const std::span<const std::int32_t> rest[] = {context.subspan(known)};
    cached_.resize(known);
    VKFORMER_CHECK(
        chunks_.append({*backend_, *model_, options_, stores_, rules_.beams}, false, {&known, 1}, rest, timings_));
    // All of it, for the chunk that ends it may have filled up the second row's beginning.
    if (known < context.size()) VKFORMER_CHECK(spread(context.size()));
    cached_.assign(context.begin(), context.end());
    return static_cast<std::uint32_t>(known);
}

Result<void> BeamSession::spread(std::size_t length) {
    if (!spread_) {
        auto made = std::make_shared<Spread>();
        VKFORMER_TRY(made->graph, spread_graph(*model_, options_, rules_));
        VKFORMER_TRY(made->program, backend_->compile(graph::make_plan(std::move(made->graph.graph)), stores_.weights,
                                                      stores_.states));
        spread_ = std::move(made);
    }
    const Clock::time_point start = Clock::now();
    VKFORMER_CHECK(fill_ints(*spread_->program, spread_->graph.parents, 0));
    VKFORMER_CHECK(fill_ints(*spread_->program, spread_->graph.lengths, static_cast<std::int32_t>(length)));
    VKFORMER_CHECK(spread_->program->submit());
    VKFORMER_CHECK(spread_->program->wait());
    timings_.prompt_seconds += seconds_since(start);
    return {};
}

Result<BeamSession::Step*> BeamSession::step(const Request& request) {
    if (step_ && step_->ends == request.stop_tokens) return step_.get();
    step_.reset();
    auto made = std::make_shared<Step>();
    made->ends = request.stop_tokens;
    const std::size_t ends = made->ends.size();
    VKFORMER_TRY(made->graph, beam_step_graph(*model_, options_, rules_, ends > 0 ? made->ends[0] : -1,
                                              static_cast<std::uint32_t>(ends > 0 ? ends - 1 : 0)));
    VKFORMER_TRY(made->program,
                 backend_->compile(graph::make_plan(std::move(made->graph.graph)), stores_.weights, stores_.states));
    VKFORMER_CHECK(write_biases(*made->program, made->graph.rules, options_.penalties));
    if (made->graph.vocab_lengths)
        VKFORMER_CHECK(fill_ints(*made->program, made->graph.vocab_lengths,
                                 static_cast<std::int32_t>(model_->config().vocab_size)));
    step_ = std::move(made);
    return step_.get();
}

/// All rows read the prompt's last token; the first step draws from the first row only.
Result<void> BeamSession::begin(Step& step, const Request& request, std::uint32_t max_steps) {
    Program& program = *step.program;
    const graph::BeamStates& states = step.graph.states;
    const auto length = static_cast<std::int32_t>(request.prompt.size());
    VKFORMER_CHECK(fill_ints(program, states.tokens, request.prompt.back()));
    VKFORMER_CHECK(fill_ints(program, states.starts, length - 1));
    VKFORMER_CHECK(fill_ints(program, step.graph.shared, length - 1));
    if (step.graph.rules.begins) VKFORMER_CHECK(fill_ints(program, step.graph.rules.begins, length));
    if (step.graph.rules.counts) {
        const std::size_t vocab = model_->config().vocab_size;
        std::vector<std::int32_t> counts(rules_.beams * vocab, 0);
        for (std::size_t row = 0; row < rules_.beams; ++row)
            for (const std::int32_t token : request.prompt)
                counts[row * vocab + static_cast<std::size_t>(token)] = graph::kInPrompt;
        VKFORMER_CHECK(write_ints(program, step.graph.rules.counts, counts));
    }
    const std::span ends = step.ends;
    return begin_beams(program, states, layout(ends.empty() ? 0 : ends.size() - 1), max_steps,
                       ends.empty() ? ends : ends.subspan(1));
}

Result<void> BeamSession::run_steps(Step& step, std::uint32_t max_steps) {
    std::uint32_t count = 1;
    for (std::uint32_t done = 0; done < max_steps;) {
        count = std::min(count, max_steps - done);
        const Clock::time_point start = Clock::now();
        VKFORMER_CHECK(step.program->submit(count));
        VKFORMER_TRY(const auto state, read_ints(*step.program, step.graph.states.state));
        const double seconds = seconds_since(start);
        timings_.decode_seconds += seconds;
        timings_.decode_steps += count;
        done += count;
        if (state[1] != 0) return {};
        count = steps_after(count, seconds);
    }
    return {};
}

Result<BeamResult> BeamSession::search(const Request& request) {
    const auto room = static_cast<std::uint32_t>(options_.context - request.prompt.size() + 1);
    const std::uint32_t max_steps = request.max_tokens > 0 ? std::min(request.max_tokens, room) : room;
    BeamResult result;
    VKFORMER_TRY(result.reused, fill_caches(std::span(request.prompt).first(request.prompt.size() - 1)));
    VKFORMER_TRY(Step* const made, step(request));
    VKFORMER_CHECK(begin(*made, request, max_steps));
    VKFORMER_CHECK(run_steps(*made, max_steps));
    const BeamLayout beams = layout(made->ends.empty() ? 0 : made->ends.size() - 1);
    VKFORMER_TRY(auto best, best_hypotheses(*made->program, made->graph.states, beams, 1));
    result.best = std::move(best.front());
    cached_ = request.prompt;  // the first step has appended its last token to every row
    const bool is_end = std::ranges::count(made->ends, result.best.tokens.back()) > 0;
    result.finish = is_end                                            ? FinishReason::stop
                    : result.best.tokens.size() == request.max_tokens ? FinishReason::length
                                                                      : FinishReason::context;
    return result;
}

Result<std::vector<BeamResult>> BeamSession::run(std::span<const Request> requests) {
    VKFORMER_CHECK(check(requests));
    timings_ = {};
    std::vector<BeamResult> results;
    for (const Request& request : requests) {
        VKFORMER_TRY(BeamResult result, search(request));
        results.push_back(std::move(result));
    }
    return results;
}

}  // namespace vkformer::decoding
