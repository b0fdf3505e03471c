// SPDX-License-Identifier: MIT
#include "decoding/session.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "core/try.hpp"
#include "decoding/steps.hpp"
#include "decoding/tensor_io.hpp"

namespace vkformer::decoding {
namespace {

using graph::Program;
using graph::Value;

constexpr std::uint32_t kSmallestBucket = 8;
/// Steps queued before the first look at the flags, and at most: a finished batch wastes half of them on average.
constexpr std::uint32_t kFirstSteps = 4, kMostSteps = 16;
/// The next power of two, so that few programs serve all lengths.
std::uint32_t bucket_len(std::size_t longest, std::uint64_t limit) {
    std::uint64_t len = kSmallestBucket;
    while (len < longest) len *= 2;
    return static_cast<std::uint32_t>(std::min(len, limit));
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
    if (limits.source_features > 0) return invalid("the model hears, it does not read");
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
    return Session(backend, model, options);
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

/// Writes the sources and the initial states and runs the encoder. Rows that no source needs repeat the last one, so that
/// they finish when it does.
Result<void> Session::start(Bucket& bucket, std::span<const Source> sources, std::span<const std::size_t> chosen) {
    const models::DecodeLayout& layout = bucket.layout;
    const std::size_t len = layout.source_len;
    std::vector<std::int32_t> tokens(layout.batch * len, 0), lengths(layout.batch);
    std::vector<float> mask(layout.batch * len, -std::numeric_limits<float>::infinity());
    for (std::size_t b = 0; b < layout.batch; ++b) {
        const Source& source = sources[chosen[std::min(b, chosen.size() - 1)]];
        std::ranges::copy(source.tokens, tokens.begin() + static_cast<std::ptrdiff_t>(b * len));
        lengths[b] = static_cast<std::int32_t>(source.tokens.size());
        for (std::size_t i = 0; i < source.tokens.size(); ++i)
            if (source.visible.empty() || source.visible[i]) mask[b * len + i] = 0;
    }
    Program& encoder = *bucket.encoder_program;
    VKFORMER_CHECK(write_ints(encoder, bucket.encoder.source.tokens, tokens));
    if (layout.masked_source) {
        VKFORMER_CHECK(write_floats(encoder, bucket.encoder.source.mask, mask));
    } else {
        VKFORMER_CHECK(write_ints(encoder, bucket.encoder.source.lengths, lengths));
    }
    VKFORMER_CHECK(encoder.submit());
    VKFORMER_CHECK(encoder.wait());

    Program& step = *bucket.step_program;
    if (bucket.step.source_tokens) {
        for (std::size_t b = 0; b < layout.batch; ++b)
            std::fill_n(tokens.begin() + static_cast<std::ptrdiff_t>(b * len) + lengths[b],
                        len - static_cast<std::size_t>(lengths[b]), -1);
        VKFORMER_CHECK(write_ints(step, bucket.step.source_tokens, tokens));
    }
    VKFORMER_CHECK(fill_ints(step, bucket.step.beam.tokens, options_.generation.decoder_start));
    VKFORMER_CHECK(fill_ints(step, bucket.step.beam.starts, 0));
    if (layout.beams == 1) return fill_ints(step, bucket.step.greedy.finished, 0);

    return begin_beams(step, bucket.step.beam, beam_layout(layout), layout.max_steps);
}

Result<void> Session::run_steps(Bucket& bucket) {
    Program& step = *bucket.step_program;
    const std::uint32_t max_steps = bucket.layout.max_steps;
    std::uint32_t done = 0;
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

Result<std::vector<Hypothesis>> Session::collect(Bucket& bucket, std::size_t count) {
    Program& step = *bucket.step_program;
    const models::GenerationConfig& generation = options_.generation;
    const std::size_t rows = bucket.layout.rows(), max_steps = bucket.layout.max_steps;
    std::vector<Hypothesis> results(count);
    for (Hypothesis& result : results) result.tokens = {generation.decoder_start};
    if (bucket.layout.beams == 1) {
        VKFORMER_TRY(const auto history, read_ints(step, bucket.step.greedy.history));
        for (std::size_t b = 0; b < count; ++b) {
            for (std::size_t t = 0; t < max_steps; ++t) {
                results[b].tokens.push_back(history[t * rows + b]);
                if (results[b].tokens.back() == generation.eos) break;
            }
        }
        return results;
    }

    VKFORMER_TRY(const auto best, best_hypotheses(step, bucket.step.beam, beam_layout(bucket.layout), count));
    for (std::size_t b = 0; b < count; ++b) {
        results[b].score = best[b].score;
        results[b].tokens.insert(results[b].tokens.end(), best[b].tokens.begin(), best[b].tokens.end());
    }
    return results;
}

Result<std::vector<Hypothesis>> Session::generate(std::span<const Source> sources, const Progress& progress) {
    VKFORMER_CHECK(check(sources));
    std::vector<std::size_t> order(sources.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return sources[i].tokens.size(); });

    std::vector<Hypothesis> results(sources.size());
    for (std::size_t first = 0; first < order.size(); first += options_.batch) {
        const auto chosen =
            std::span(order).subspan(first, std::min<std::size_t>(options_.batch, order.size() - first));
        const std::size_t longest = sources[chosen.back()].tokens.size();
        const bool masked = std::ranges::any_of(chosen, [&](std::size_t i) { return !sources[i].visible.empty(); });
        VKFORMER_TRY(Bucket* const made, bucket(bucket_len(longest, model_->limits().source_len), masked));
        VKFORMER_CHECK(start(*made, sources, chosen));
        VKFORMER_CHECK(run_steps(*made));
        VKFORMER_TRY(auto batch, collect(*made, chosen.size()));
        for (std::size_t i = 0; i < chosen.size(); ++i) results[chosen[i]] = std::move(batch[i]);
        if (progress) progress(first + chosen.size(), order.size());
    }
    return results;
}

}  // namespace vkformer::decoding
