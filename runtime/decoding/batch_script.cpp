// SPDX-License-Identifier: MIT
#include "decoding/batch_script.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <ranges>
#include <string>

#include "core/try.hpp"
#include "decoding/invalid.hpp"
#include "decoding/token_rules.hpp"

namespace vkformer::decoding {
namespace {

constexpr std::uint32_t kPageLen = graph::kPageLen;

std::size_t pages_of(std::size_t tokens) { return static_cast<std::size_t>(graph::page_count(tokens)); }

/// What the ops say of a sequence's rules, which a step's graph has as tensors that no builder looks into.
Result<void> check_choice(const BatchSequence& asked, std::uint64_t vocab) {
    graph::Graph graph;
    VKFORMER_TRY(const graph::Value logits, graph.input("logits", DType::f32, {1, vocab}));
    VKFORMER_TRY(const graph::Value random, graph.state("random", DType::i32, {1, 3}));
    VKFORMER_TRY(const graph::Value counts, graph.state("counts", DType::i32, {1, vocab}));
    VKFORMER_TRY(const graph::Value penalized, graph::penalize(graph, logits,
                                                               {.repetition = asked.repetition,
                                                                .presence = asked.presence,
                                                                .frequency = asked.frequency,
                                                                .counts = counts}));
    if (auto sampled = graph::sample(graph, penalized, random, asked.sample); !sampled)
        return std::move(sampled).error();
    return {};
}

}  // namespace

Result<BatchOptions> checked_batch_options(const models::Decoder& model, const BatchOptions& options) {
    BatchOptions chosen = options;
    if (options.rows < 1 || options.rows > BatchOptions::kMostRows)
        return invalid(std::to_string(options.rows) + " sequences were asked for at a time, 1 to " +
                       std::to_string(BatchOptions::kMostRows) + " can be decoded together");
    if (options.guesses > DecoderSessionOptions::kMostGuesses)
        return invalid(std::to_string(options.guesses) + " guesses of tokens were asked for, at most " +
                       std::to_string(DecoderSessionOptions::kMostGuesses) + " are checked at a time");
    if (options.rules.looks_back())
        return Error{ErrorCode::UnsupportedConfig,
                     "the model's generation_config.json has \"bad_words_ids\" or \"sequence_bias\" of several tokens, "
                     "which a batch of many callers' sequences does not know"};
    VKFORMER_TRY(const DecoderSessionOptions session,
                 checked_options(model, {.rows = options.rows,
                                         .context = options.context,
                                         .chunk = options.chunk,
                                         .cache = options.cache,
                                         .penalties = {.ends = options.ends, .rules = options.rules}}));
    if (session.context > model.config().max_positions)
        return invalid("a context of " + std::to_string(session.context) + " tokens is beyond the model's original " +
                       std::to_string(model.config().max_positions) + ", where sequences are generated one by one");
    chosen.context = session.context;
    chosen.chunk = session.chunk;
    if (model.config().keeps_states()) chosen.guesses = 0;
    if (chosen.pages == 0) {
        constexpr std::uint64_t kUsualTokens = 32768;
        const std::uint64_t context = chosen.context, all = std::min(context * chosen.rows, kUsualTokens);
        chosen.pages = static_cast<std::uint32_t>(pages_of(std::max(context, all))) + 1;
    }
    if (chosen.pages < pages_of(chosen.context) + 1)
        return invalid("the cache holds " + std::to_string((std::max(chosen.pages, 1u) - 1) * kPageLen) +
                       " tokens, fewer than the context of " + std::to_string(chosen.context));
    return chosen;
}

BatchScript::BatchScript(const models::Decoder& model, const BatchOptions& options, OnToken on_token, OnEnd on_end,
                         OnPrompt on_prompt)
    : model_(&model),
      options_(options),
      on_token_(std::move(on_token)),
      on_end_(std::move(on_end)),
      on_prompt_(std::move(on_prompt)),
      pool_(options.pages, kPageLen) {}

Result<void> BatchScript::check(const BatchSequence& asked) const {
    const auto& prompt = asked.sequence.prompt;
    const std::uint32_t vocab = model_->config().vocab_size;
    VKFORMER_CHECK(check_tokens(prompt, vocab));
    if (prompt.size() > options_.context)
        return invalid("the prompt has " + std::to_string(prompt.size()) + " tokens, the context holds " +
                       std::to_string(options_.context));
    VKFORMER_CHECK(check_penalties({.bias = asked.bias}, vocab));
    if (!asked.sequence.adapters.empty()) VKFORMER_CHECK(model_->check_adapters(asked.sequence.adapters));
    VKFORMER_CHECK(check_log_probs(asked.log_probs));
    VKFORMER_CHECK(check_log_probs(asked.prompt_log_probs));
    if (asked.is_prompt_alone && asked.sequence.constraint)
        return invalid("is_prompt_alone: nothing is generated, so leave out the constraint");
    return check_choice(asked, vocab);
}

// ---- sequences ------------------------------------------------------------------------------------------------------

void BatchScript::add(Id id, BatchSequence sequence) {
    Running made = {.id = id, .asked = std::move(sequence)};
    made.tokens = made.asked.sequence.prompt;
    made.constraint = SequenceConstraint(made.asked.sequence.constraint);
    if (!made.needs_scores())
        end_before_answer(made);
    else if (made.tokens.size() == 1)
        tell_prompt(made);
    waiting_.push_back(std::move(made));
    if (waiting_.back().finish != FinishReason::none) finish_ended();
}

void BatchScript::cancel(Id id) {
    for (const auto& sequence : running_)
        if (sequence->id == id) sequence->finish = FinishReason::caller;
    for (Running& sequence : waiting_)
        if (sequence.id == id) sequence.finish = FinishReason::caller;
    finish_ended();
}

/// Gives the pages of all that have ended back, and tells of them.
void BatchScript::finish_ended() {
    const auto tell = [&](Running& sequence) {
        release(sequence);
        const auto answer = std::span(sequence.tokens).subspan(sequence.asked.sequence.prompt.size());
        on_end_(sequence.id, {.tokens = {answer.begin(), answer.end()},
                              .finish = sequence.finish,
                              .reused = sequence.reused,
                              .failure = sequence.has_no_choice ? no_choice() : sequence.constraint.failure()});
    };
    const auto has_ended = [](const Running& sequence) { return sequence.finish != FinishReason::none; };
    for (const auto& sequence : running_)
        if (has_ended(*sequence)) tell(*sequence);
    std::erase_if(running_, [&](const auto& sequence) { return has_ended(*sequence); });
    for (Running& sequence : waiting_)
        if (has_ended(sequence)) tell(sequence);
    std::erase_if(waiting_, has_ended);
}

/// Lets sequences in, the first that waits first, while there is room for them.
void BatchScript::admit() {
    while (!waiting_.empty() && running_.size() < options_.rows) {
        if (!find_pages(waiting_.front())) return;
        waiting_.front().slot = free_slot();
        running_.push_back(std::make_unique<Running>(std::move(waiting_.front())));
        waiting_.pop_front();
    }
}

/// The first that no running sequence has: there are as many as may run.
std::uint32_t BatchScript::free_slot() const {
    std::uint32_t slot = 0;
    while (std::ranges::any_of(running_, [&](const auto& sequence) { return sequence->slot == slot; })) ++slot;
    return slot;
}

/// Lends a sequence the pages that hold its beginning, and those that all it has now needs; nothing where those are not there.
bool BatchScript::find_pages(Running& sequence) {
    const std::span<const std::int32_t> tokens = sequence.tokens;
    // The last token is read by the step, which needs its own place. Nothing is known of how likely those in the cache were, and no state
    // of a beginning is kept.
    const bool may_share = !sequence.needs_scores() && !model_->config().keeps_states();
    while (may_share && (sequence.pages.size() + 1) * kPageLen < tokens.size()) {
        const auto found = pool_.find(sequence.chain, page_key(sequence, sequence.pages.size()));
        if (!found) break;
        sequence.pages.push_back(found->page);
        sequence.chain = found->chain;
    }
    sequence.kept_pages = sequence.pages.size();
    sequence.cached = sequence.pages.size() * kPageLen;
    // The others want a page each before long: who came last must not send those away that it came behind.
    const std::size_t wanted = pages_of(tokens.size()) - sequence.pages.size() + running_.size();
    if (pool_.available() < wanted && !running_.empty()) {
        release(sequence);
        return false;
    }
    if (sequence.generated() == 0) {
        sequence.reused = static_cast<std::uint32_t>(sequence.cached);
        counts_.reused_tokens += sequence.cached;
    }
    return have_pages(sequence, tokens.size());
}

/// Whether the sequence has pages for so many tokens now.
bool BatchScript::have_pages(Running& sequence, std::size_t tokens) {
    while (sequence.pages.size() < pages_of(tokens)) {
        const auto page = pool_.take();
        if (!page) return false;
        sequence.pages.push_back(*page);
    }
    return true;
}

void BatchScript::release(Running& sequence) {
    for (const std::uint32_t page : sequence.pages | std::views::reverse) pool_.give_back(page);
    sequence.pages.clear();
    sequence.kept_pages = sequence.cached = 0;
    sequence.chain = PagePool::kBeginning;
    sequence.prompt_log_probs.clear();
}

void BatchScript::preempt_last() {
    Running& last = *running_.back();
    release(last);
    waiting_.push_front(std::move(last));
    running_.pop_back();
    ++counts_.preempted;
}

/// Lets others find the pages that have become full.
void BatchScript::keep_full_pages(Running& sequence) {
    if (model_->config().keeps_states() || sequence.has_no_choice) return;
    for (; (sequence.kept_pages + 1) * kPageLen <= sequence.cached; ++sequence.kept_pages) {
        const std::vector<std::int32_t> key = page_key(sequence, sequence.kept_pages);
        sequence.chain = pool_.keep(sequence.pages[sequence.kept_pages], sequence.chain, key);
    }
}

/// What the keys and values of a page depend on, beside the pages before it: its tokens and, at the beginning, which adapters count.
std::vector<std::int32_t> BatchScript::page_key(const Running& sequence, std::size_t page) const {
    const auto tokens = std::span(sequence.tokens).subspan(page * kPageLen, kPageLen);
    std::vector<std::int32_t> key(tokens.begin(), tokens.end());
    if (page == 0)
        for (const float scale : sequence.asked.sequence.adapters) key.push_back(std::bit_cast<std::int32_t>(scale));
    return key;
}

// ---- what came of them ----------------------------------------------------------------------------------------------

Result<void> BatchScript::take(const Job& job, Records& records) {
    if (job.kind == Job::Kind::prompt) {
        for (std::size_t r = 0; r < placed_.size(); ++r) {
            Running& sequence = *placed_[r].sequence;
            if (scored_) VKFORMER_CHECK(take_scores(r, records));
            sequence.cached += placed_[r].tokens;
            counts_.prompt_tokens += placed_[r].tokens;
            keep_full_pages(sequence);
        }
        finish_ended();
        return {};
    }
    VKFORMER_CHECK(take_step(job, records));
    finish_ended();
    return {};
}

/// What a chunk says of the tokens behind those that it has read; all of it together is told once it is there.
Result<void> BatchScript::take_scores(std::size_t row, Records& records) {
    Running& sequence = *placed_[row].sequence;
    const GivenLogProbs& given = scored_->graph.given;
    const std::uint32_t asked = *sequence.asked.prompt_log_probs;
    VKFORMER_TRY(const auto scores, records.get(0, 0));
    std::span<const std::int32_t> tokens, values;
    if (asked > 0) {
        VKFORMER_TRY(tokens, records.get(0, 1));
        VKFORMER_TRY(values, records.get(0, 2));
    }
    for (std::size_t i = 0; i < placed_[row].tokens; ++i) {
        const std::int32_t token = sequence.tokens[sequence.cached + i + 1];
        StepLogProbs found = given_log_probs(given, scores, tokens, values, row * scored_->kind.len + i, token, asked);
        sequence.has_no_choice = sequence.has_no_choice || std::isnan(found.chosen.log_prob);
        sequence.prompt_log_probs.push_back(std::move(found));
    }
    if (sequence.has_no_choice)
        sequence.finish = FinishReason::failed;
    else if (sequence.prompt_log_probs.size() + 1 == sequence.asked.sequence.prompt.size())
        tell_prompt(sequence);
    return {};
}

void BatchScript::tell_prompt(Running& sequence) {
    on_prompt_(sequence.id, std::exchange(sequence.prompt_log_probs, {}));
    sequence.has_told_prompt = true;
    end_before_answer(sequence);
}

/// Where no token is to be generated, once the prompt was told to whom asks for it.
void BatchScript::end_before_answer(Running& sequence) {
    if (sequence.finish != FinishReason::none) return;
    if (sequence.constraint.failure())
        sequence.finish = FinishReason::failed;
    else if (sequence.constraint.is_whole())
        sequence.finish = FinishReason::stop;
    else if (sequence.asked.is_prompt_alone)
        sequence.finish = FinishReason::length;
}

}  // namespace vkformer::decoding
