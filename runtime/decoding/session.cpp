// SPDX-License-Identifier: MIT
#include "decoding/session.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "core/try.hpp"
#include "decoding/steps.hpp"

namespace vkformer::decoding {
namespace {

using graph::Program;
using graph::Value;

constexpr std::uint32_t kSmallestBucket = 8;
/// Steps queued before the first look at the flags, and at most: a finished batch wastes half of them on average.
constexpr std::uint32_t kFirstSteps = 4, kMostSteps = 16;
/// Hugging Face's score of a hypothesis that must not win, in float32.
constexpr float kNever = -1e9f;

/// The next power of two, so that few programs serve all lengths.
std::uint32_t bucket_len(std::size_t longest, std::uint64_t limit) {
    std::uint64_t len = kSmallestBucket;
    while (len < longest) len *= 2;
    return static_cast<std::uint32_t>(std::min(len, limit));
}

Result<std::vector<std::int32_t>> read_ints(Program& program, Value tensor) {
    std::vector<std::int32_t> values(program.plan().graph.shape(tensor).element_count());
    VKFORMER_CHECK(program.read(tensor, std::span<std::int32_t>(values)));
    return values;
}

Result<void> write_ints(Program& program, Value tensor, std::span<const std::int32_t> values) {
    return program.write(tensor, values);
}

Result<void> fill_ints(Program& program, Value tensor, std::int32_t value) {
    const std::vector<std::int32_t> values(program.plan().graph.shape(tensor).element_count(), value);
    return write_ints(program, tensor, values);
}

Result<void> write_floats(Program& program, Value tensor, std::span<const float> values) {
    return program.write(tensor, values);
}

Result<void> check_token(std::string_view name, std::int32_t token, std::uint64_t vocab) {
    if (token < 0 || static_cast<std::uint64_t>(token) < vocab) return {};
    return Error{ErrorCode::InvalidArgument, std::string(name) + " is " + std::to_string(token) +
                                                 ", but the model knows tokens below " + std::to_string(vocab) +
                                                 " only"};
}

}  // namespace

/// What serves the batches of one source length.
struct Session::Bucket {
    models::DecodeLayout layout;
    EncoderGraph encoder;  // the programs own the plans, hence the graphs; the names of the tensors are kept here
    StepGraph step;
    std::unique_ptr<Program> encoder_program, step_program;
    StepGraph first_step;  // of a prefix or where banned_first is not empty: made when it is needed
    std::unique_ptr<Program> first_program;
};

Session::Session(graph::Backend& backend, const models::EncoderDecoder& model, const SessionOptions& options)
    : backend_(&backend),
      model_(&model),
      options_(options),
      weights_(backend.make_store()),
      states_(backend.make_store()) {}

Result<Session> Session::create(graph::Backend& backend, const models::EncoderDecoder& model,
                                const SessionOptions& options) {
    const models::GenerationConfig& g = options.generation;
    const auto limits = model.limits();
    const auto invalid = [](std::string message) { return Error{ErrorCode::InvalidArgument, std::move(message)}; };
    if (options.batch == 0) return invalid("the batch must hold at least one sequence");
    if (g.beams == 0 || g.beams > graph::kMaxBeams)
        return invalid("num_beams is " + std::to_string(g.beams) + ", must be 1 to " +
                       std::to_string(graph::kMaxBeams));
    if (g.decoder_start < 0) return invalid("decoder_start_token_id is missing");
    if (g.max_steps == 0 || g.max_steps > limits.target_len)
        return invalid("the generation may take " + std::to_string(g.max_steps) +
                       " steps, the model has positions for 1 to " + std::to_string(limits.target_len) +
                       "; set max_length accordingly");
    VKFORMER_CHECK(check_token("decoder_start_token_id", g.decoder_start, limits.target_vocab));
    VKFORMER_CHECK(check_token("eos_token_id", g.eos, limits.target_vocab));
    VKFORMER_CHECK(check_token("pad_token_id", g.pad, limits.target_vocab));
    VKFORMER_CHECK(check_token("forced_bos_token_id", g.forced_first, limits.target_vocab));
    VKFORMER_CHECK(check_token("forced_eos_token_id", g.forced_last, limits.target_vocab));
    for (const std::int32_t token : g.banned) VKFORMER_CHECK(check_token("bad_words_ids", token, limits.target_vocab));
    for (const std::int32_t token : options.banned_first)
        VKFORMER_CHECK(check_token("begin_suppress_tokens", token, limits.target_vocab));
    for (const std::int32_t token : options.choices) {
        if (token < 0) return invalid("a choice is negative");
        VKFORMER_CHECK(check_token("a choice", token, limits.target_vocab));
    }
    if (!options.banned_first.empty() && g.beams > 1)
        return invalid("begin_suppress_tokens are for greedy search, num_beams is " + std::to_string(g.beams));
    return Session(backend, model, options);
}

Result<void> Session::check(std::span<const Source> sources) const {
    const auto limits = model_->limits();
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const Source& source = sources[i];
        const auto invalid = [&](const std::string& what) {
            return Error{ErrorCode::InvalidArgument, "source " + std::to_string(i) + " " + what};
        };
        if (limits.source_features > 0) {
            const bool fits = source.features.size() == limits.source_len * limits.source_features;
            if (fits && source.tokens.empty() && source.visible.empty()) continue;
            return invalid("has " + std::to_string(source.features.size()) + " features and " +
                           std::to_string(source.tokens.size()) + " tokens, the model hears " +
                           std::to_string(limits.source_len * limits.source_features) + " features");
        }
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
    }
    return {};
}

Result<void> Session::check_prefix(std::span<const std::int32_t> prefix) const {
    const auto invalid = [](const std::string& what) {
        return Error{ErrorCode::InvalidArgument, "the prefix " + what};
    };
    if (prefix.empty()) return {};
    if (options_.generation.beams > 1) return invalid("is for greedy search only");
    if (prefix.size() >= options_.generation.max_steps)
        return invalid("has " + std::to_string(prefix.size()) + " tokens, the generation takes " +
                       std::to_string(options_.generation.max_steps) + " steps at most");
    for (const std::int32_t token : prefix) {
        VKFORMER_CHECK(check_token("a token of the prefix", token, model_->limits().target_vocab));
        if (token < 0 && options_.choices.empty()) return invalid("has a token to choose, but there are no choices");
    }
    return {};
}

Result<Session::Bucket*> Session::bucket(std::uint32_t source_len, bool masked) {
    std::shared_ptr<Bucket>& known = buckets_[{source_len, masked}];
    if (known) return known.get();

    auto made = std::make_shared<Bucket>();
    made->layout = {.batch = options_.batch,
                    .beams = options_.generation.beams,
                    .source_len = source_len,
                    .max_steps = options_.generation.max_steps,
                    .dtype = options_.dtype,
                    .masked_source = masked};
    VKFORMER_TRY(made->encoder, encoder_graph(*model_, made->layout));
    VKFORMER_TRY(made->step, step_graph(*model_, made->layout, options_.generation));
    VKFORMER_TRY(made->encoder_program,
                 backend_->compile(graph::make_plan(std::move(made->encoder.graph)), weights_, states_));
    VKFORMER_TRY(made->step_program,
                 backend_->compile(graph::make_plan(std::move(made->step.graph)), weights_, states_));
    known = std::move(made);
    return known.get();
}

/// The step with banned_first banned too, on the same states, whose logits can be read.
Result<void> Session::make_first_step(Bucket& bucket) {
    if (bucket.first_program) return {};
    models::GenerationConfig generation = options_.generation;
    generation.banned.insert(generation.banned.end(), options_.banned_first.begin(), options_.banned_first.end());
    VKFORMER_TRY(bucket.first_step, step_graph(*model_, bucket.layout, generation));
    bucket.first_step.graph.mark_output(bucket.first_step.logits);
    VKFORMER_TRY(bucket.first_program,
                 backend_->compile(graph::make_plan(std::move(bucket.first_step.graph)), weights_, states_));
    return {};
}

/// The tokens of a source, or the positions of what the model hears.
std::size_t Session::length_of(const Source& source) const {
    const auto limits = model_->limits();
    return limits.source_features > 0 ? limits.source_len : source.tokens.size();
}

/// Writes the sources and the initial states and runs the encoder. Rows that no source needs repeat the last one, so that
/// they finish when it does.
Result<void> Session::start(Bucket& bucket, std::span<const Source> sources, std::span<const std::size_t> chosen) {
    const models::DecodeLayout& layout = bucket.layout;
    const std::size_t len = layout.source_len, width = model_->limits().source_features;
    std::vector<std::int32_t> tokens(layout.batch * len, 0), lengths(layout.batch);
    std::vector<float> mask(layout.batch * len, -std::numeric_limits<float>::infinity());
    std::vector<float> features(layout.batch * len * width);
    for (std::size_t b = 0; b < layout.batch; ++b) {
        const Source& source = sources[chosen[std::min(b, chosen.size() - 1)]];
        std::ranges::copy(source.tokens, tokens.begin() + static_cast<std::ptrdiff_t>(b * len));
        std::ranges::copy(source.features, features.begin() + static_cast<std::ptrdiff_t>(b * len * width));
        lengths[b] = static_cast<std::int32_t>(length_of(source));
        for (std::size_t i = 0; i < length_of(source); ++i)
            if (source.visible.empty() || source.visible[i]) mask[b * len + i] = 0;
    }
    Program& encoder = *bucket.encoder_program;
    if (width > 0) {
        VKFORMER_CHECK(write_floats(encoder, bucket.encoder.source.features, features));
    } else {
        VKFORMER_CHECK(write_ints(encoder, bucket.encoder.source.tokens, tokens));
    }
    if (layout.masked_source) {
        VKFORMER_CHECK(write_floats(encoder, bucket.encoder.source.mask, mask));
    } else {
        VKFORMER_CHECK(write_ints(encoder, bucket.encoder.source.lengths, lengths));
    }
    VKFORMER_CHECK(encoder.submit());
    VKFORMER_CHECK(encoder.wait());

    Program& step = *bucket.step_program;
    VKFORMER_CHECK(fill_ints(step, bucket.step.beam.tokens, options_.generation.decoder_start));
    VKFORMER_CHECK(fill_ints(step, bucket.step.beam.starts, 0));
    if (layout.beams == 1) return fill_ints(step, bucket.step.greedy.finished, 0);

    const graph::BeamStates& states = bucket.step.beam;
    std::vector<std::int32_t> parents(layout.rows());
    std::iota(parents.begin(), parents.end(), 0);
    std::vector<float> running(layout.rows(), kNever);  // the first step draws from the first beam only
    for (std::size_t row = 0; row < running.size(); row += layout.beams) running[row] = 0;
    const std::vector<float> never(layout.rows(), kNever);
    std::vector<std::int32_t> flags(layout.batch + 2, 0);
    std::fill_n(flags.begin(), layout.batch, 1);
    VKFORMER_CHECK(write_ints(step, states.parents, parents));
    VKFORMER_CHECK(write_floats(step, states.running_scores, running));
    VKFORMER_CHECK(write_floats(step, states.final_scores, never));
    for (const Value zero : {states.final_steps, states.final_rows, states.final_tokens})
        VKFORMER_CHECK(fill_ints(step, zero, 0));
    return write_ints(step, states.state, flags);
}

/// The likeliest of the choices after the step that has run, for the first row.
Result<std::int32_t> Session::choose(Bucket& bucket) const {
    const std::uint64_t vocab = model_->limits().target_vocab;
    std::vector<float> logits(bucket.layout.rows() * vocab);
    VKFORMER_CHECK(bucket.first_program->read(bucket.first_step.logits, std::span<float>(logits)));
    return *std::ranges::max_element(options_.choices, {},
                                     [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; });
}

/// Feeds the prefix, choosing what is to be chosen, and takes the first step behind it. Returns how many steps that were; none
/// without prefix and bans.
Result<std::uint32_t> Session::run_first_steps(Bucket& bucket, std::span<std::int32_t> prefix) {
    if (prefix.empty() && options_.banned_first.empty()) return 0;
    VKFORMER_CHECK(make_first_step(bucket));
    Program& first = *bucket.first_program;
    const graph::GreedyStates& states = bucket.first_step.greedy;
    for (std::int32_t& token : prefix) {
        VKFORMER_CHECK(first.submit());
        VKFORMER_CHECK(first.wait());
        if (token < 0) {
            VKFORMER_TRY(token, choose(bucket));
        }
        VKFORMER_CHECK(fill_ints(first, states.tokens, token));  // in place of what the step chose
        VKFORMER_CHECK(fill_ints(first, states.finished, 0));
    }
    VKFORMER_CHECK(first.submit());
    VKFORMER_CHECK(first.wait());
    return static_cast<std::uint32_t>(prefix.size()) + 1;
}

Result<void> Session::run_steps(Bucket& bucket, std::uint32_t done) {
    Program& step = *bucket.step_program;
    const std::uint32_t max_steps = bucket.layout.max_steps;
    for (std::uint32_t count = kFirstSteps; done < max_steps; count = std::min(2 * count, kMostSteps)) {
        count = std::min(count, max_steps - done);
        VKFORMER_CHECK(step.submit(count));
        done += count;
        if (done == max_steps) break;
        if (bucket.layout.beams > 1) {
            VKFORMER_TRY(const auto state, read_ints(step, bucket.step.beam.state));
            if (state[bucket.layout.batch] != 0) break;
        } else {
            VKFORMER_TRY(const auto finished, read_ints(step, bucket.step.greedy.finished));
            if (std::ranges::all_of(finished, [](std::int32_t flag) { return flag != 0; })) break;
        }
    }
    return step.wait();
}

Result<std::vector<Hypothesis>> Session::collect(Bucket& bucket, std::size_t count,
                                                 std::span<const std::int32_t> prefix) {
    Program& step = *bucket.step_program;
    const models::GenerationConfig& generation = options_.generation;
    const std::size_t rows = bucket.layout.rows(), beams = bucket.layout.beams, max_steps = bucket.layout.max_steps;
    std::vector<Hypothesis> results(count);
    for (Hypothesis& result : results) result.tokens = {generation.decoder_start};
    if (beams == 1) {
        VKFORMER_TRY(const auto history, read_ints(step, bucket.step.greedy.history));
        for (std::size_t b = 0; b < count; ++b) {
            results[b].tokens.insert(results[b].tokens.end(), prefix.begin(), prefix.end());
            for (std::size_t t = prefix.size(); t < max_steps; ++t) {
                results[b].tokens.push_back(history[t * rows + b]);
                if (results[b].tokens.back() == generation.eos) break;
            }
        }
        return results;
    }

    const graph::BeamStates& states = bucket.step.beam;
    VKFORMER_TRY(const auto tokens, read_ints(step, states.token_history));
    VKFORMER_TRY(const auto parents, read_ints(step, states.parent_history));
    VKFORMER_TRY(const auto final_steps, read_ints(step, states.final_steps));
    VKFORMER_TRY(const auto final_rows, read_ints(step, states.final_rows));
    VKFORMER_TRY(const auto final_tokens, read_ints(step, states.final_tokens));
    std::vector<float> scores(rows);
    VKFORMER_CHECK(step.read(states.final_scores, std::span<float>(scores)));
    for (std::size_t b = 0; b < count; ++b) {
        const std::size_t best = b * beams;  // finished hypotheses are sorted
        const auto steps = static_cast<std::size_t>(final_steps[best]);
        if (steps == 0 || steps > max_steps)
            return Error{ErrorCode::InvalidArgument, "the beam search finished no hypothesis: are the logits NaN?"};
        results[b].score = scores[best];
        results[b].tokens.resize(steps + 1);
        results[b].tokens[steps] = final_tokens[best];
        auto row = static_cast<std::size_t>(final_rows[best]);
        for (std::size_t t = steps - 1; t-- > 0;) {
            if (row / beams != b)
                return Error{ErrorCode::InvalidArgument,
                             "the beam search lost a hypothesis: its history leads to row " + std::to_string(row) +
                                 "; see vkformer validate"};
            results[b].tokens[t + 1] = tokens[t * rows + row];
            row = static_cast<std::size_t>(parents[t * rows + row]);
        }
    }
    return results;
}

Result<std::vector<Hypothesis>> Session::generate(std::span<const Source> sources, const Progress& progress,
                                                  std::span<const std::int32_t> prefix) {
    VKFORMER_CHECK(check(sources));
    VKFORMER_CHECK(check_prefix(prefix));
    std::vector<std::int32_t> given(prefix.begin(), prefix.end());
    std::vector<std::size_t> order(sources.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return length_of(sources[i]); });

    std::vector<Hypothesis> results(sources.size());
    for (std::size_t first = 0; first < order.size(); first += options_.batch) {
        const auto chosen =
            std::span(order).subspan(first, std::min<std::size_t>(options_.batch, order.size() - first));
        const std::size_t longest = length_of(sources[chosen.back()]);
        const bool masked = std::ranges::any_of(chosen, [&](std::size_t i) { return !sources[i].visible.empty(); });
        VKFORMER_TRY(Bucket* const made, bucket(bucket_len(longest, model_->limits().source_len), masked));
        VKFORMER_CHECK(start(*made, sources, chosen));
        VKFORMER_TRY(const std::uint32_t done, run_first_steps(*made, given));
        VKFORMER_CHECK(run_steps(*made, done));
        VKFORMER_TRY(auto batch, collect(*made, chosen.size(), given));
        for (std::size_t i = 0; i < chosen.size(); ++i) results[chosen[i]] = std::move(batch[i]);
        if (progress) progress(first + chosen.size(), order.size());
    }
    return results;
}

}  // namespace vkformer::decoding
