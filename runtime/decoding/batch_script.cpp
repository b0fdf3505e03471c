// SPDX-License-Identifier: MIT
#include "decoding/batch_script.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <ranges>
#include <string>

#include "core/try.hpp"
#include "decoding/invalid.hpp"
#include "decoding/token_rules.hpp"

namespace vkformer::decoding {
namespace {

constexpr std::uint32_t kMostRows = 64;
constexpr std::uint32_t kPageLen = graph::kPageLen;

/// So few sizes of batches have programs of their own that they are soon all there, so many that few rows are computed in vain.
std::uint32_t size_for(std::size_t sequences, std::uint32_t most) {
    constexpr std::array<std::uint32_t, 12> kSizes = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
    return std::min(*std::ranges::find_if(kSizes, [&](std::uint32_t size) { return size >= sequences; }), most);
}

/// Tokens of a prompt that has so many left which the next chunk takes: a power of two or `most`, so that few programs serve all
/// prompts. Rather two chunks than much that is computed in vain behind the prompt's end.
std::uint32_t chunk_len(std::size_t left, std::uint32_t most) {
    constexpr std::uint32_t kLeast = DecoderSessionOptions::kSmallestChunk, kFewWasted = 8;
    if (left >= most || most <= kLeast) return most;
    const auto above = std::min(std::max(static_cast<std::uint32_t>(std::bit_ceil(left)), kLeast), most);
    return above <= 2 * kLeast || above - left <= above / kFewWasted ? above : std::bit_ceil(above) / 2;
}

std::int32_t word(float value) { return std::bit_cast<std::int32_t>(value); }

std::int32_t int_of(std::size_t value) { return static_cast<std::int32_t>(value); }

std::size_t pages_of(std::size_t tokens) { return static_cast<std::size_t>(graph::page_count(tokens)); }

bool counts_tokens(const BatchSequence& asked) {
    return asked.repetition != 1 || asked.presence != 0 || asked.frequency != 0;
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
    if (options.rows < 1 || options.rows > kMostRows)
        return invalid(std::to_string(options.rows) + " sequences were asked for at a time, 1 to " +
                       std::to_string(kMostRows) + " can be decoded together");
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
        for (const float scale : sequence.asked.sequence.adapters) key.push_back(word(scale));
    return key;
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

Result<std::optional<Job>> BatchScript::next(std::uint32_t most) {
    admit();
    placed_.clear();
    scored_ = nullptr;
    const bool has_unread = std::ranges::any_of(running_, [](const auto& s) { return !s->is_read(); });
    const bool has_read = std::ranges::any_of(running_, [](const auto& s) { return s->is_read(); });
    was_chunk_ = has_unread && !(was_chunk_ && has_read);  // one after the other where there are both
    if (was_chunk_) {
        VKFORMER_TRY(Job job, chunk_job());
        return std::optional(std::move(job));
    }
    if (!has_read) return std::optional<Job>();
    return step_job(has_unread ? 1 : most);
}

Result<BatchScript::Chunk*> BatchScript::chunk(const BatchChunkKind& kind) {
    std::unique_ptr<Chunk>& known = chunks_[kind];
    if (known) return known.get();
    auto made = std::make_unique<Chunk>();
    VKFORMER_TRY(made->graph, batch_chunk_graph(*model_, options_, kind));
    made->plan = plan(std::move(made->graph.graph));
    known = std::move(made);
    return known.get();
}

/// Of the first prompt its beginning, and of others behind it, as far as a chunk takes them: rows of one length, of which none is empty.
Result<Job> BatchScript::chunk_job() {
    std::vector<Running*> unread;
    for (const auto& sequence : running_)
        if (!sequence->is_read()) unread.push_back(sequence.get());
    const bool scores = unread.front()->needs_scores();
    std::erase_if(unread, [&](const Running* sequence) { return sequence->needs_scores() != scores; });
    if (scores) return score_job(std::move(unread));
    const BatchChunkKind kind = chunk_kind(unread, options_.chunk);
    VKFORMER_TRY(Chunk* const made, chunk(kind));
    Job job = {.kind = Job::Kind::prompt, .part = made, .len = kind.len};
    place_chunk(std::span(unread).first(kind.rows), made->graph, kind, job);
    return job;
}

/// How much of what is unread a chunk of so many tokens at most takes.
BatchChunkKind BatchScript::chunk_kind(std::span<Running* const> unread, std::uint32_t most) {
    BatchChunkKind kind = {.len = chunk_len(unread.front()->unread(), most)};
    kind.rows = static_cast<std::uint32_t>(std::bit_floor(std::min<std::size_t>(most / kind.len, unread.size())));
    kind.adapters =
        std::ranges::any_of(unread.first(kind.rows), [](const Running* sequence) { return sequence->has_adapters(); });
    return kind;
}

/// What it reads of the sequences, one a row, and where these have their keys, values and states.
void BatchScript::place_chunk(std::span<Running* const> sequences, const BatchChunkGraph& graph,
                              const BatchChunkKind& kind, Job& job) {
    std::vector<std::int32_t> tokens(std::size_t{kind.rows} * kind.len, 0), starts(kind.rows, 0), counts(kind.rows, 0);
    for (std::size_t r = 0; r < sequences.size(); ++r) {
        Running& sequence = *sequences[r];
        const auto part =
            std::span(sequence.tokens).subspan(sequence.cached, std::min<std::size_t>(kind.len, sequence.unread()));
        std::ranges::copy(part, tokens.begin() + static_cast<std::ptrdiff_t>(r * kind.len));
        starts[r] = int_of(sequence.cached);
        counts[r] = int_of(part.size());
        placed_.push_back({&sequence, part.size()});
    }
    job.writes.push_back({graph.tokens, std::move(tokens)});
    job.writes.push_back({graph.starts, std::move(starts)});
    job.writes.push_back({graph.pages, table(kind.rows)});
    if (graph.adapters) job.writes.push_back({graph.adapters, adapter_words(kind.rows)});
    if (!graph.slots) return;
    job.writes.push_back({graph.counts, std::move(counts)});
    job.writes.push_back({graph.slots, slots(kind.rows)});
}

Result<BatchScript::Scores*> BatchScript::scores(const BatchChunkKind& kind, std::uint32_t likeliest) {
    const auto known = std::ranges::find_if(
        scores_, [&](const Scores& one) { return one.kind == kind && one.likeliest == likeliest; });
    if (known != scores_.end()) {
        scores_.splice(scores_.begin(), scores_, known);
        return &scores_.front();
    }
    Scores made;
    made.kind = kind;
    made.likeliest = likeliest;
    VKFORMER_TRY(made.graph, batch_score_graph(*model_, options_, kind, likeliest));
    made.plan = plan(std::move(made.graph.chunk.graph));
    if (scores_.size() == kKeptScores) scores_.pop_back();
    scores_.push_front(std::move(made));
    return &scores_.front();
}

/// A chunk of which each token is asked how likely it makes the next one.
Result<Job> BatchScript::score_job(std::vector<Running*> unread) {
    const std::uint32_t vocab = model_->config().vocab_size;
    const BatchChunkKind kind = chunk_kind(unread, std::min(most_given(vocab), options_.chunk));
    unread.resize(kind.rows);
    std::uint32_t likeliest = 0;
    for (const Running* sequence : unread) likeliest = std::max(likeliest, *sequence->asked.prompt_log_probs);
    VKFORMER_TRY(Scores* const made, scores(kind, likeliest_for(likeliest, vocab)));
    scored_ = made;
    Job job = {.kind = Job::Kind::prompt, .part = made, .len = kind.len};
    place_chunk(unread, made->graph.chunk, kind, job);
    std::vector<std::int32_t> places(std::size_t{kind.rows} * kind.len, 0);
    for (std::size_t r = 0; r < placed_.size(); ++r)
        for (std::size_t i = 0; i < placed_[r].tokens; ++i) {
            const Running& sequence = *placed_[r].sequence;
            const std::size_t place = r * kind.len + i;
            places[place] = made->graph.given.place(place, sequence.tokens[sequence.cached + i + 1]);
        }
    job.writes.push_back({made->graph.given.places, std::move(places)});
    return job;
}

/// The pages of what is placed; page 0 behind those, and of rows that have no sequence.
std::vector<std::int32_t> BatchScript::table(std::uint32_t rows) const {
    const std::size_t width = pages_of(options_.context);
    std::vector<std::int32_t> table(rows * width, 0);
    for (std::size_t r = 0; r < placed_.size(); ++r)
        for (std::size_t i = 0; i < placed_[r].sequence->pages.size(); ++i)
            table[r * width + i] = int_of(placed_[r].sequence->pages[i]);
    return table;
}

/// The slots of what is placed, read and written; one that there is not of rows that have no sequence.
std::vector<std::int32_t> BatchScript::slots(std::uint32_t rows) const {
    std::vector<std::int32_t> slots(2 * rows, int_of(options_.rows));
    for (std::size_t r = 0; r < placed_.size(); ++r)
        slots[2 * r] = slots[2 * r + 1] = int_of(placed_[r].sequence->slot);
    return slots;
}

/// The scales of what is placed; rows that have no sequence have none.
std::vector<std::int32_t> BatchScript::adapter_words(std::uint32_t rows) const {
    std::vector<std::span<const float>> scales(rows);
    for (std::size_t r = 0; r < placed_.size(); ++r) scales[r] = placed_[r].sequence->asked.sequence.adapters;
    return model_->adapter_words(scales);
}

Result<BatchScript::Step*> BatchScript::step(const BatchStepKind& kind) {
    std::unique_ptr<Step>& known = steps_[kind];
    if (known) return known.get();
    auto made = std::make_unique<Step>();
    made->rows = kind.rows;
    VKFORMER_TRY(made->graph, batch_step_graph(*model_, options_, kind));
    made->plan = plan(std::move(made->graph.graph));
    made->constants.push_back({made->graph.states.finished, std::vector<std::int32_t>(kind.rows, 0)});
    known = std::move(made);
    return known.get();
}

/// Steps until the sequence ends for its length.
std::size_t BatchScript::steps_left(const Running& sequence) const noexcept {
    const std::size_t room = options_.context - sequence.cached;
    const std::uint32_t limit = sequence.asked.sequence.max_tokens;
    return limit > 0 ? std::min<std::size_t>(room, limit - sequence.generated()) : room;
}

Result<std::optional<Job>> BatchScript::step_job(std::uint32_t most) {
    // Whoever waits comes in when one ends; without them rows may run on in vain until the last ends.
    std::size_t runs = waiting_.empty() ? 0 : most;
    for (const auto& sequence : running_)
        if (sequence->is_read())
            runs = waiting_.empty() ? std::max(runs, steps_left(*sequence)) : std::min(runs, steps_left(*sequence));
    const bool masks = std::ranges::any_of(running_, [](const auto& s) { return s->is_read() && s->constraint; });
    runs = std::min<std::size_t>(runs, masks ? 1 : most);
    for (std::size_t i = 0; i < running_.size();) {
        Running& sequence = *running_[i];
        const std::size_t tokens = std::min<std::size_t>(sequence.cached + runs, options_.context);
        if (sequence.is_read() && !have_pages(sequence, tokens)) {
            if (runs > 1)
                runs = 1;  // what one step needs of all comes before what several need of some
            else
                preempt_last();  // which may be this one: then there is none at i
        } else {
            ++i;
        }
    }
    BatchStepKind kind;
    for (const auto& sequence : running_) {
        if (!sequence->is_read()) continue;
        const BatchSequence& asked = sequence->asked;
        placed_.push_back({sequence.get(), 0});
        kind.draws = kind.draws || asked.sample.temperature != 0;
        kind.counts = kind.counts || counts_tokens(asked);
        kind.biases = kind.biases || !asked.bias.empty();
        kind.waits = kind.waits || (asked.min_tokens > 0 && !options_.ends.empty());
        kind.scores = kind.scores || asked.log_probs;
        kind.likeliest = std::max(kind.likeliest, asked.log_probs.value_or(0));
        kind.masks = kind.masks || sequence->constraint;
        kind.adapters = kind.adapters || sequence->has_adapters();
    }
    if (placed_.empty()) return next(most);  // those that are left have prompts to be read
    kind.rows = size_for(placed_.size(), options_.rows);
    kind.likeliest = likeliest_for(kind.likeliest, model_->config().vocab_size);
    if (kind.likeliest > 0) runs = std::min<std::size_t>(runs, kRecordedSteps);
    VKFORMER_TRY(Step* const made, step(kind));

    Job job = {.part = made, .runs = static_cast<std::uint32_t>(runs)};
    std::vector<Id> ids;
    for (const Placed& placed : placed_) ids.push_back(placed.sequence->id);
    std::vector<std::int32_t> pages = table(kind.rows);
    if (written_ != made || written_ids_ != ids) {
        first_positions_.clear();
        for (const Placed& placed : placed_) first_positions_.push_back(placed.sequence->cached);
        write_step(*made, kind, job.writes);
        handed_steps_ = 0;
        written_ = made;
        written_ids_ = std::move(ids);
        written_table_.clear();
        written_slots_.clear();
    }
    if (pages != written_table_) {
        job.writes.push_back({made->graph.pages, pages});
        written_table_ = std::move(pages);
    }
    if (std::vector<std::int32_t> own = slots(kind.rows); made->graph.slots && own != written_slots_) {
        job.writes.push_back({made->graph.slots, own});
        written_slots_ = std::move(own);
    }
    made->graph.log_probs.begin_job(job.writes);
    if (made->graph.allowed) job.writes.push_back({made->graph.allowed, allowed_tokens(kind.rows)});
    job.first_step = handed_steps_;
    handed_steps_ += job.runs;
    return std::optional(std::move(job));
}

std::vector<std::int32_t> BatchScript::allowed_tokens(std::uint32_t rows) const {
    std::vector<const SequenceConstraint*> constraints;
    for (const Placed& placed : placed_) constraints.push_back(&placed.sequence->constraint);
    return decoding::allowed_tokens(constraints, rows, model_->config().vocab_size);
}

/// While the device chooses tokens, what may follow the likely ones.
Result<Part*> BatchScript::meanwhile(const Job& job) {
    if (job.kind == Job::Kind::step)
        for (const Placed& placed : placed_) placed.sequence->constraint.look_ahead();
    return nullptr;
}

/// Everything but the pages: of rows that have no sequence what does no harm.
void BatchScript::write_step(const Step& step, const BatchStepKind& kind, std::vector<Write>& writes) const {
    const std::size_t vocab = model_->config().vocab_size;
    const std::size_t rows = kind.rows;
    std::vector<std::int32_t> tokens(rows, 0), starts(rows, 0), begins(rows, 1), ends(rows, 0), countdown(rows, 1);
    std::vector<std::int32_t> random(rows * 3, 0), sampling(rows * graph::kSampleSettings, word(0));
    std::vector<std::int32_t> penalties(rows * graph::kPenalizeSettings, word(0)), counts, biases;
    if (kind.counts) counts.resize(rows * vocab, 0);
    if (kind.biases) biases.resize(rows * vocab, word(0));
    for (std::size_t r = 0; r < rows; ++r) penalties[r * graph::kPenalizeSettings + graph::kRowRepetition] = word(1);
    for (std::size_t r = 0; r < placed_.size(); ++r) {
        const Running& running = *placed_[r].sequence;
        const BatchSequence& asked = running.asked;
        const std::size_t begin = asked.sequence.prompt.size();
        tokens[r] = running.tokens.back();
        starts[r] = int_of(running.cached);
        begins[r] = int_of(begin);
        ends[r] = int_of(begin + asked.min_tokens) - kLongestWait;
        countdown[r] = 1 - int_of(steps_left(running));
        random[3 * r] = static_cast<std::int32_t>(asked.sequence.seed & 0xFFFFFFFFu);
        random[3 * r + 1] = static_cast<std::int32_t>(asked.sequence.seed >> 32);
        random[3 * r + 2] = int_of(running.generated());
        const auto row_sampling = std::span(sampling).subspan(r * graph::kSampleSettings);
        row_sampling[graph::kRowTemperature] = word(asked.sample.temperature);
        row_sampling[graph::kRowTopK] = word(static_cast<float>(asked.sample.top_k));
        row_sampling[graph::kRowTopP] = word(asked.sample.top_p);
        row_sampling[graph::kRowMinP] = word(asked.sample.min_p);
        const auto row_penalties = std::span(penalties).subspan(r * graph::kPenalizeSettings);
        row_penalties[graph::kRowRepetition] = word(asked.repetition);
        row_penalties[graph::kRowPresence] = word(asked.presence);
        row_penalties[graph::kRowFrequency] = word(asked.frequency);
        if (kind.counts) {
            const auto row = std::span(counts).subspan(r * vocab, vocab);
            count_prompt(asked.sequence, row);
            for (const std::int32_t token : std::span(running.tokens).subspan(begin))
                ++row[static_cast<std::size_t>(token)];
        }
        if (kind.biases)
            for (const auto& [token, bias] : asked.bias)
                biases[r * vocab + static_cast<std::size_t>(token)] = word(bias);
    }
    const BatchStepGraph& graph = step.graph;
    if (graph.adapters) writes.push_back({graph.adapters, adapter_words(kind.rows)});
    const auto write = [&](graph::Value tensor, std::vector<std::int32_t>& words) {
        if (tensor) writes.push_back({tensor, std::move(words)});
    };
    write(graph.states.tokens, tokens);
    write(graph.states.starts, starts);
    write(graph.begins, begins);
    write(graph.ends, ends);
    write(graph.countdown, countdown);
    write(graph.random, random);
    write(graph.sampling, sampling);
    write(graph.penalties, penalties);
    write(graph.counts, counts);
    write(graph.biases, biases);
}

// ---- what came of them ----------------------------------------------------------------------------------------------

std::vector<Read> BatchScript::reads(std::uint32_t step) const {
    std::vector<Read> reads;
    if (scored_) {
        scored_->graph.given.add_reads(reads);
        return reads;
    }
    std::vector<std::size_t> positions;
    for (std::size_t r = 0; r < placed_.size(); ++r) {
        positions.push_back(first_positions_[r] + step);
        reads.push_back({written_->graph.states.history, positions[r] * written_->rows + r, 1});
    }
    written_->graph.log_probs.add_reads(positions, reads);
    return reads;
}

Result<void> BatchScript::take(const Job& job, Records& records) {
    if (job.kind == Job::Kind::prompt) {
        for (std::size_t r = 0; r < placed_.size(); ++r) {
            const auto& [sequence, tokens] = placed_[r];
            if (scored_) VKFORMER_CHECK(take_scores(r, records));
            sequence->cached += tokens;
            counts_.prompt_tokens += tokens;
            keep_full_pages(*sequence);
        }
        finish_ended();
        return {};
    }
    counts_.steps += job.runs;
    for (std::size_t r = 0; r < placed_.size(); ++r) VKFORMER_CHECK(take_row(r, job, records));
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

/// Hands out a sequence's tokens, until it ends.
Result<void> BatchScript::take_row(std::size_t row, const Job& job, Records& records) {
    Running& running = *placed_[row].sequence;
    const Sequence& asked = running.asked.sequence;
    for (std::uint32_t i = 0; i < job.runs && running.finish == FinishReason::none; ++i) {
        VKFORMER_TRY(const auto chosen, records.get(job.first_step + i, row));
        const std::int32_t token = chosen[0];
        const bool is_end = std::ranges::find(asked.stop_tokens, token) != asked.stop_tokens.end();
        running.has_no_choice = token == kNoChoice;
        if (running.has_no_choice || !running.constraint.add(token, is_end)) {
            running.finish = FinishReason::failed;
            break;
        }
        running.tokens.push_back(token);
        ++running.cached;
        ++counts_.tokens;
        std::optional<StepLogProbs> log_probs;
        if (running.asked.log_probs) {
            const std::size_t rows = placed_.size();
            const LogProbPlace place = {
                .step = job.first_step + i, .in_job = i, .first = rows, .row = row, .rows = rows};
            VKFORMER_TRY(log_probs,
                         read_log_probs(written_->graph.log_probs, records, place, token, *running.asked.log_probs));
        }
        const bool goes_on = on_token_(running.id, token, log_probs ? &*log_probs : nullptr);
        if (is_end)
            running.finish = FinishReason::stop;
        else if (!goes_on)
            running.finish = FinishReason::caller;
        else if (running.constraint.failure())
            running.finish = FinishReason::failed;
        else if (running.constraint.is_whole())
            running.finish = FinishReason::stop;
        else if (asked.max_tokens > 0 && running.generated() == asked.max_tokens)
            running.finish = FinishReason::length;
        else if (running.cached == options_.context)
            running.finish = FinishReason::context;
    }
    keep_full_pages(running);
    return {};
}

}  // namespace vkformer::decoding
