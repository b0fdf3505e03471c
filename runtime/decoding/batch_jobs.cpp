// SPDX-License-Identifier: MIT
/// What a BatchScript hands out: chunks of prompts and steps, and what is written before them.
#include <algorithm>
#include <array>
#include <bit>

#include "core/try.hpp"
#include "decoding/batch_script.hpp"
#include "decoding/prompt_lookup.hpp"
#include "decoding/run_script.hpp"

namespace vkformer::decoding {
namespace {

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

bool counts_tokens(const BatchSequence& asked) {
    return asked.repetition != 1 || asked.presence != 0 || asked.frequency != 0;
}

}  // namespace

Result<std::optional<Job>> BatchScript::next(std::uint32_t most) {
    const Clock::time_point begin = Clock::now();
    admit();
    placed_.clear();
    scored_ = nullptr;
    job_seconds_.reset();
    const bool has_read = std::ranges::any_of(running_, [](const auto& s) { return s->is_read(); });
    was_chunk_ = has_unread() && !(was_chunk_ && has_read);  // one after the other where there are both
    if (was_chunk_) find_chunk_pages();
    was_chunk_ = was_chunk_ && has_unread();
    if (was_chunk_) {
        VKFORMER_TRY(Job job, chunk_job());
        return std::optional(std::move(job));
    }
    if (!has_read) return std::optional<Job>();
    VKFORMER_TRY(std::optional<Job> job, step_job(has_unread() ? 1 : most));
    plan_seconds_ = seconds_since(begin);
    return job;
}

bool BatchScript::has_unread() const noexcept {
    return std::ranges::any_of(running_, [](const auto& sequence) { return !sequence->is_read(); });
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
    for (std::size_t k = 0; k < pages_.kinds(); ++k) job.writes.push_back({graph.pages[k], table(k, kind.rows)});
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

/// The pages of what is placed; page 0 before and behind those, and of rows that have no sequence.
std::vector<std::int32_t> BatchScript::table(std::size_t kind, std::uint32_t rows) const {
    const auto width = static_cast<std::size_t>(graph::page_count(options_.context));
    std::vector<std::int32_t> table(rows * width, 0);
    for (std::size_t r = 0; r < placed_.size(); ++r) {
        const std::vector<std::uint32_t>& pages = placed_[r].sequence->pages.held[kind].pages;
        std::ranges::transform(pages, table.begin() + static_cast<std::ptrdiff_t>(r * width), int_of);
    }
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
    if (const auto known = steps_.find(kind); known != steps_.end()) {
        known->second->last_use = ++step_uses_;
        return known->second.get();
    }
    auto made = std::make_unique<Step>();
    made->rows = kind.rows;
    made->last_use = ++step_uses_;
    VKFORMER_TRY(made->graph, batch_step_graph(*model_, options_, kind));
    made->plan = plan(std::move(made->graph.graph));
    made->bytes = graph::own_bytes(made->plan);
    made->constants.push_back({made->graph.states.finished, std::vector<std::int32_t>(kind.rows, 0)});
    make_room(made->bytes);
    return steps_.emplace(kind, std::move(made)).first->second.get();
}

/// Before one more step of so many bytes. What requests ask for makes hundreds of kinds, each with numbers for rows times tokens: those
/// that were used last are kept.
void BatchScript::make_room(std::uint64_t bytes) {
    for (const auto& [kind, known] : steps_) bytes += known->bytes;
    while (!steps_.empty() && (bytes > BatchOptions::kKeptStepBytes || steps_.size() >= BatchOptions::kKeptSteps)) {
        const auto oldest =
            std::ranges::min_element(steps_, {}, [](const auto& known) { return known.second->last_use; });
        if (written_ == oldest->second.get()) written_ = nullptr;
        bytes -= oldest->second->bytes;
        steps_.erase(oldest);
    }
}

/// Steps until the sequence ends for its length.
std::size_t BatchScript::steps_left(const Running& sequence) const noexcept {
    const std::size_t room = options_.context - sequence.cached;
    const std::uint32_t limit = sequence.asked.sequence.max_tokens;
    return limit > 0 ? std::min<std::size_t>(room, limit - sequence.generated()) : room;
}

/// Of the sequences that are read, without rows.
BatchStepKind BatchScript::step_kind() const {
    BatchStepKind kind = {.rows = 0};
    for (const auto& sequence : running_) {
        if (!sequence->is_read()) continue;
        const BatchSequence& asked = sequence->asked;
        kind.draws = kind.draws || asked.sample.temperature != 0;
        kind.counts = kind.counts || counts_tokens(asked);
        kind.biases = kind.biases || !asked.bias.empty();
        kind.waits = kind.waits || (asked.min_tokens > 0 && !options_.ends.empty());
        kind.scores = kind.scores || asked.log_probs;
        kind.likeliest = std::max(kind.likeliest, asked.log_probs.value_or(0));
        kind.masks = kind.masks || sequence->constraint;
        kind.adapters = kind.adapters || sequence->has_adapters();
    }
    kind.likeliest = likeliest_for(kind.likeliest, model_->config().vocab_size);
    return kind;
}

/// Guesses what sequences go on with, as much as is worth checking; false: nothing.
bool BatchScript::guess(const BatchStepKind& kind) {
    for (const auto& sequence : running_) sequence->guess.clear();
    guess_seconds_ = 0;
    if (options_.guesses == 0 || has_unread()) return false;
    const std::uint32_t rows = size_for(running_.size(), options_.rows);
    const BatchGuesses& known = guesses_[kind];
    if (known.is_step_due(rows)) return false;
    const Clock::time_point begin = Clock::now();
    std::vector<BatchGuesses::Candidate> candidates;
    for (const auto& sequence : running_) {
        // The token behind the last guess is one more.
        const std::size_t most = std::min<std::size_t>(options_.guesses, steps_left(*sequence) - 1);
        if (!sequence->constraint && sequence->guesses.may_guess()) sequence->guess = look_up(sequence->tokens, most);
        candidates.push_back({&sequence->guesses, sequence->guess.size()});
    }
    const std::vector<std::size_t> counts = known.counts(rows, candidates, most_checked_rows_);
    for (std::size_t i = 0; i < counts.size(); ++i) running_[i]->guess.resize(counts[i]);
    guess_seconds_ = seconds_since(begin);
    return std::ranges::any_of(counts, [](std::size_t count) { return count > 0; });
}

/// Rows of the sequences that are read, and of their guesses as far as there are pages for them.
void BatchScript::place_step() {
    for (const auto& running : running_) {
        Running& sequence = *running;
        if (!sequence.is_read()) continue;
        // Free ones: what is kept of beginnings does not give way to guesses.
        const auto tokens = [&] { return sequence.cached + 1 + sequence.guess.size(); };
        while (!sequence.guess.empty() && !pages_.are_free(sequence.pages, tokens())) sequence.guess.pop_back();
        if (!sequence.guess.empty()) pages_.have(sequence.pages, tokens());
        for (std::size_t ahead = 0; ahead <= sequence.guess.size(); ++ahead) placed_.push_back({&sequence, 0, ahead});
    }
}

Result<std::optional<Job>> BatchScript::step_job(std::uint32_t most) {
    BatchStepKind kind = step_kind();
    const bool checks = guess(kind);
    // Whoever waits comes in when one ends; without them rows may run on in vain until the last ends.
    std::size_t runs = waiting_.empty() ? 0 : most;
    for (const auto& sequence : running_)
        if (sequence->is_read())
            runs = waiting_.empty() ? std::max(runs, steps_left(*sequence)) : std::min(runs, steps_left(*sequence));
    runs = std::min<std::size_t>(runs, kind.masks || checks ? 1 : most);
    for (std::size_t i = 0; i < running_.size();) {
        Running& sequence = *running_[i];
        const std::size_t tokens = std::min<std::size_t>(sequence.cached + runs, options_.context);
        if (sequence.is_read() && !pages_.have(sequence.pages, tokens)) {
            if (runs > 1)
                runs = 1;  // what one step needs of all comes before what several need of some
            else
                preempt_last();  // which may be this one: then there is none at i
        } else {
            ++i;
        }
    }
    place_step();
    if (placed_.empty()) return next(most);  // those that are left have prompts to be read
    kind = step_kind();                      // of those that are left
    kind_guesses_ = &guesses_[kind];
    const auto sequences = static_cast<std::size_t>(
        std::ranges::count_if(placed_, [](const Placed& placed) { return placed.ahead == 0; }));
    const bool has_guesses = placed_.size() > sequences;
    kind.rows = step_rows_ = size_for(sequences, options_.rows);
    if (has_guesses) kind.rows = static_cast<std::uint32_t>(std::bit_ceil(placed_.size()));
    if (kind.likeliest > 0) runs = std::min<std::size_t>(runs, kRecordedSteps);
    VKFORMER_TRY(Step* const made, step(kind));

    Job job = {.kind = has_guesses ? Job::Kind::check : Job::Kind::step,
               .part = made,
               .runs = static_cast<std::uint32_t>(runs)};
    std::vector<Id> ids;
    for (const Placed& placed : placed_) ids.push_back(placed.sequence->id);
    was_written_ = written_ != made || written_ids_ != ids || has_guesses;
    if (was_written_) {
        first_positions_.clear();
        for (const Placed& placed : placed_) first_positions_.push_back(placed.sequence->cached + placed.ahead);
        write_step(*made, kind, job.writes);
        handed_steps_ = 0;
        written_ = made;
        written_ids_ = std::move(ids);
        written_tables_ = {};
        written_slots_.clear();
    }
    for (std::size_t k = 0; k < pages_.kinds(); ++k) {
        std::vector<std::int32_t> pages = table(k, kind.rows);
        if (pages == written_tables_[k]) continue;
        job.writes.push_back({made->graph.pages[k], pages});
        written_tables_[k] = std::move(pages);
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
    if (job.kind != Job::Kind::prompt)
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
        const std::size_t ahead = placed_[r].ahead;
        tokens[r] = ahead > 0 ? running.guess[ahead - 1] : running.tokens.back();
        starts[r] = int_of(running.cached + ahead);
        begins[r] = int_of(begin);
        ends[r] = int_of(begin + asked.min_tokens) - kLongestWait;
        countdown[r] = 1 - int_of(steps_left(running) - ahead);
        random[3 * r] = static_cast<std::int32_t>(asked.sequence.seed & 0xFFFFFFFFu);
        random[3 * r + 1] = static_cast<std::int32_t>(asked.sequence.seed >> 32);
        random[3 * r + 2] = int_of(running.generated() + ahead);
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
            const auto count = [&](std::span<const std::int32_t> chosen) {
                for (const std::int32_t token : chosen) ++row[static_cast<std::size_t>(token)];
            };
            count(std::span(running.tokens).subspan(begin));
            count(std::span(running.guess).first(ahead));
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

}  // namespace vkformer::decoding
