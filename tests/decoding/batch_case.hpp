// SPDX-License-Identifier: MIT
/// A batch of sequences, and what each of them gives alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decoding/batch_script.hpp"
#include "decoding/decoder_session.hpp"
#include "decoding/run_script.hpp"
#include "models/decoder_case.hpp"
#include "support/backends.hpp"

namespace vkformer::tests {

using decoding::BatchOptions;
using decoding::BatchScript;
using decoding::BatchSequence;
using decoding::FinishReason;
using decoding::SequenceResult;

/// A batch's script with a clock of the test's own: a step takes a second, a check so many.
class BatchClock final : public decoding::Script {
public:
    BatchClock(BatchScript& script, double check_seconds) : script_(script), check_seconds_(check_seconds) {}

    Result<std::optional<decoding::Job>> next(std::uint32_t most) override { return script_.next(most); }
    Result<decoding::Part*> meanwhile(const decoding::Job& job) override { return script_.meanwhile(job); }
    std::vector<decoding::Read> reads(std::uint32_t step) const override { return script_.reads(step); }
    Result<void> take(const decoding::Job& job, decoding::Records& records) override {
        return script_.take(job, records);
    }
    void took(const decoding::Job& job, double, double) override {
        const double seconds = job.kind == decoding::Job::Kind::check ? check_seconds_ : job.runs;
        script_.took(job, seconds, seconds);
    }

private:
    BatchScript& script_;
    double check_seconds_;
};

/// A script and what has come of its sequences.
struct Batch {
    Batch(graph::Backend& on, const models::Decoder& model, BatchOptions options)
        : backend(on),
          stores(on),
          script(
              model, must(decoding::checked_batch_options(model, options)),
              [this](BatchScript::Id id, std::int32_t token, StepLogProbs* log_probs) {
                  streamed[id].push_back(token);
                  if (log_probs) told[id].push_back(*log_probs);
                  return !wanted.contains(id) || streamed[id].size() < wanted[id];
              },
              [this](BatchScript::Id id, SequenceResult result) { CHECK(ended.emplace(id, std::move(result)).second); },
              [this](BatchScript::Id id, std::vector<StepLogProbs> prompt) {
                  CHECK(!streamed.contains(id));
                  CHECK(prompts.emplace(id, std::move(prompt)).second);
              }) {
        script.plan_for(on.fusions());
    }

    /// One job; false: there is none.
    bool run(std::uint32_t most = 3) {
        const auto job = must(script.next(most));
        if (!job) return false;
        BatchClock clock(script, check_seconds);
        const bool is_check = job->kind == decoding::Job::Kind::check;
        if (const auto ran = decoding::run_job(clock, *job, backend, stores); !ran) {
            REQUIRE(script.pass_over(*job, ran.error()));
            ++passed_over;
        } else if (is_check) {
            ++checks;
        }
        return true;
    }
    void run_all() {
        while (!script.is_idle()) REQUIRE(run());
    }

    graph::Backend& backend;
    decoding::SessionStores stores;
    double check_seconds = 1;                 // as of BatchClock
    std::size_t checks = 0, passed_over = 0;  // of memory that was too little
    std::map<BatchScript::Id, std::vector<std::int32_t>> streamed;
    std::map<BatchScript::Id, std::vector<StepLogProbs>> told;
    std::map<BatchScript::Id, std::vector<StepLogProbs>> prompts;
    std::map<BatchScript::Id, std::size_t> wanted;  // tokens after which the caller has enough
    std::map<BatchScript::Id, SequenceResult> ended;
    BatchScript script;
};

/// What the sequence gives alone, in a session of the one kind that has rows of their own.
inline SequenceResult answer_alone(graph::Backend& backend, const models::Decoder& model, const BatchSequence& asked,
                                   std::uint32_t context, const models::TokenRules& rules = {},
                                   const std::vector<std::int32_t>& ends = {}) {
    decoding::Penalties penalties = {.repetition = asked.repetition,
                                     .presence = asked.presence,
                                     .frequency = asked.frequency,
                                     .bias = asked.bias,
                                     .min_tokens = asked.min_tokens,
                                     .rules = rules};
    if (asked.min_tokens > 0) penalties.ends = ends;
    auto session = must(decoding::DecoderSession::create(
        backend, model, {.context = context, .sample = asked.sample, .penalties = std::move(penalties)}));
    return must(session.run({&asked.sequence, 1}))[0];
}

inline void check_alike(const SequenceResult& found, const SequenceResult& expected) {
    CHECK(found.tokens == expected.tokens);
    CHECK(found.finish == expected.finish);
}

inline BatchSequence greedy_sequence(std::vector<std::int32_t> prompt, std::uint32_t tokens) {
    return {.sequence = {.prompt = std::move(prompt), .max_tokens = tokens}};
}

inline constexpr std::uint32_t kBatchContext = 160;

inline BatchOptions batch_options_of(std::uint32_t rows, std::uint32_t pages) {
    return {.rows = rows, .context = kBatchContext, .pages = pages + 1, .chunk = 64};
}

/// A decoder that is made for kBatchContext positions.
inline models::Decoder long_model() { return must(models::load_decoder(goldens_dir() / "decoder_text")); }

inline std::uint32_t most_positions(const models::Decoder& model) {
    return std::min(kBatchContext, model.config().max_positions);
}

}  // namespace vkformer::tests
