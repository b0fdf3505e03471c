// SPDX-License-Identifier: MIT
/// A decoder's session whose steps and checks take what a test says, so that no test depends on what a machine is busy with.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "decoding/decoder_script.hpp"
#include "decoding/run_script.hpp"
#include "models/decoder_case.hpp"
#include "support/backends.hpp"

namespace vkformer::tests {

/// A decoder's script with a clock of the test's own.
class TimedScript final : public decoding::Script {
public:
    TimedScript(decoding::DecoderScript& script, double check_seconds, bool stops)
        : script_(script), check_seconds_(check_seconds), stops_(stops) {}

    Result<std::optional<decoding::Job>> next(std::uint32_t most) override { return script_.next(most); }
    Result<decoding::Part*> meanwhile(const decoding::Job& job) override { return script_.meanwhile(job); }
    std::vector<decoding::Read> reads(std::uint32_t step) const override { return script_.reads(step); }
    Result<void> take(const decoding::Job& job, decoding::Records& records) override {
        if (job.kind == decoding::Job::Kind::check && stops_) return Error{ErrorCode::Cancelled, "stopped"};
        return script_.take(job, records);
    }
    void took(const decoding::Job& job, double, double) override {
        using Kind = decoding::Job::Kind;
        const double seconds = job.kind == Kind::check    ? check_seconds_
                               : job.kind == Kind::prompt ? read_seconds
                                                          : job.runs;
        if (job.kind == Kind::check) ++checks;
        script_.took(job, seconds, seconds);
    }

    std::size_t checks = 0;
    double read_seconds = 0;

private:
    decoding::DecoderScript& script_;
    double check_seconds_;  // a step takes a second
    bool stops_;            // at the first check
};

/// A session whose checks take so long.
struct TimedSession {
    graph::Backend& backend;
    decoding::DecoderScript script;
    decoding::SessionStores stores;
    double check_seconds = 0, read_seconds = 0;  // of a check, and of each part that is read
    bool stops = false;
    std::size_t checks = 0;

    TimedSession(graph::Backend& on, const models::Decoder& model, decoding::DecoderSessionOptions options)
        : backend(on), script(model, must(decoding::checked_options(model, options)), {16, 64}), stores(on) {}

    decoding::SequenceResult run(decoding::Sequence sequence, const decoding::DecoderScript::OnToken& on_token = {}) {
        script.begin({std::move(sequence)}, on_token);
        script.plan_for(backend.fusions());
        TimedScript timed(script, check_seconds, stops);
        timed.read_seconds = read_seconds;
        decoding::StepQueue queue(decoding::StepQueue::Growth::by_time, backend);
        REQUIRE(static_cast<bool>(decoding::run_script(timed, backend, stores, queue)) == !stops);
        checks = timed.checks;
        return script.results()[0];
    }
};

/// A prompt that says the golden's text twice and then begins it again: what follows it is in the prompt, though the model may see it
/// otherwise.
inline decoding::Sequence repeating(const std::string& name, std::uint32_t max_tokens) {
    const Greedy greedy = greedy_golden(name);
    decoding::Sequence sequence = {.prompt = greedy.prompt, .max_tokens = max_tokens, .seed = 5};
    for (const std::ptrdiff_t count : {24, 24, 8})
        sequence.prompt.insert(sequence.prompt.end(), greedy.continuation.begin(), greedy.continuation.begin() + count);
    return sequence;
}

}  // namespace vkformer::tests
