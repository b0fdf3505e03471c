// SPDX-License-Identifier: MIT
#include "decoding/batch_script.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <string>

#include "core/try.hpp"
#include "decoding/invalid.hpp"
#include "decoding/token_rules.hpp"

namespace vkformer::decoding {
namespace {

constexpr std::uint32_t kPageLen = graph::kPageLen;

std::size_t pages_of(std::size_t tokens) { return static_cast<std::size_t>(graph::page_count(tokens)); }

std::uint32_t most_pages(std::uint32_t window, std::uint32_t chunk) {
    return static_cast<std::uint32_t>(PageKind{.window = window}.most(std::max(chunk, 1u)));
}

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
    // Pages of one sequence at most: of layers without a window, and of those with one.
    const std::uint32_t window = model.config().largest_window();
    const auto whole = static_cast<std::uint32_t>(pages_of(chosen.context));
    const std::uint32_t some = window == 0 ? whole : std::min(whole, most_pages(window, chosen.chunk));
    const std::uint32_t needed = model.config().has_full_attention() ? whole : some;
    if (chosen.pages == 0) {
        constexpr std::uint64_t kUsualTokens = 32768;
        const std::uint64_t context = chosen.context, all = std::min(context * chosen.rows, kUsualTokens);
        chosen.pages = std::max(needed, static_cast<std::uint32_t>(pages_of(all))) + 1;
    }
    if (chosen.pages < needed + 1) {
        const std::string held =
            "the cache holds " + std::to_string((std::max(chosen.pages, 1u) - 1) * kPageLen) + " tokens, fewer than ";
        if (needed == whole) return invalid(held + "the context of " + std::to_string(chosen.context));
        return invalid(held + "the " + std::to_string(needed * kPageLen) + " that the window of " +
                       std::to_string(window) + " and a chunk of " + std::to_string(chosen.chunk) + " take in pages");
    }
    if (needed == some) {
        chosen.window_pages = 0;
    } else if (chosen.window_pages == 0) {
        // As many again for beginnings that are kept; no use where the others are no more.
        const std::uint32_t usual = 2 * chosen.rows * some + 1;
        if (usual < chosen.pages) chosen.window_pages = usual;
    } else if (chosen.window_pages < some + 1) {
        return invalid("layers with a window of " + std::to_string(window) + " have " +
                       std::to_string(chosen.window_pages - 1) + " pages, a sequence takes " + std::to_string(some));
    }
    return chosen;
}

BatchScript::BatchScript(const models::Decoder& model, const BatchOptions& options, OnToken on_token, OnEnd on_end,
                         OnPrompt on_prompt)
    : model_(&model),
      options_(options),
      on_token_(std::move(on_token)),
      on_end_(std::move(on_end)),
      on_prompt_(std::move(on_prompt)),
      pages_(page_kinds(model, options), std::max(options.chunk, 1u)) {}

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
                              .reused = sequence.reused.value_or(0),
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
    const std::size_t tokens = sequence.tokens.size();
    // The last token is read by the step, which needs its own place. Nothing is known of how likely those in the cache were, and no state
    // of a beginning is kept.
    const bool may_share = !sequence.needs_scores() && !model_->config().keeps_states();
    sequence.cached = kPageLen * pages_.find(sequence.pages, may_share ? (tokens - 1) / kPageLen : 0,
                                             [&](std::size_t page) { return page_key(sequence, page); });
    // The others want a page each before long: who came last must not send those away that it came behind.
    std::vector<const SequencePages*> others;
    for (const auto& running : running_) others.push_back(&running->pages);
    if (!others.empty() && !pages_.has_room(sequence.pages, tokens, others)) {
        release(sequence);
        return false;
    }
    if (!sequence.reused) {
        sequence.reused = static_cast<std::uint32_t>(sequence.cached);
        counts_.reused_tokens += sequence.cached;
    }
    return pages_.reserve(sequence.pages, tokens);
}

/// Pages for the next chunk of all that are read: in place of passed ones, which others may have had as well, there may be none.
void BatchScript::find_chunk_pages() {
    for (std::size_t i = 0; i < running_.size();) {
        Running& sequence = *running_[i];
        const std::size_t tokens = sequence.cached + std::min<std::size_t>(options_.chunk, sequence.unread());
        if (sequence.is_read() || pages_.have(sequence.pages, tokens))
            ++i;
        else
            preempt_last();  // which may be this one: then there is none at i
    }
}

void BatchScript::release(Running& sequence) {
    pages_.release(sequence.pages);
    sequence.cached = 0;
    sequence.prompt_log_probs.clear();
}

void BatchScript::preempt_last() {
    assert(running_.size() > 1);  // there are pages enough for one
    Running& last = *running_.back();
    release(last);
    waiting_.push_front(std::move(last));
    running_.pop_back();
    ++counts_.preempted;
}

/// Lets others find the pages that have become full, and have those that lie before all windows.
void BatchScript::leave_full_pages(Running& sequence) {
    if (sequence.has_no_choice) return;  // it has failed
    if (!model_->config().keeps_states())
        pages_.keep(sequence.pages, sequence.cached, [&](std::size_t page) { return page_key(sequence, page); });
    pages_.pass(sequence.pages, sequence.cached);
    if (!sequence.is_read()) pages_.reserve(sequence.pages, sequence.tokens.size());  // or find_chunk_pages() does it
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
            leave_full_pages(sequence);
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
