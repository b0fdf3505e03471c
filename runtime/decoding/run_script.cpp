// SPDX-License-Identifier: MIT
#include "decoding/run_script.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "core/try.hpp"
#include "decoding/tensor_io.hpp"

namespace vkformer::decoding {
namespace {

Result<void> write(graph::Program& program, const Write& write) {
    if (!is_real(program.plan().graph.dtype(write.tensor))) return write_ints(program, write.tensor, write.words);
    std::vector<float> floats(write.words.size());
    std::ranges::transform(write.words, floats.begin(), [](std::int32_t word) { return std::bit_cast<float>(word); });
    return write_floats(program, write.tensor, floats);
}

/// Reads a state as a whole, once, when it is asked for: later steps add to histories, so one look serves all steps of a job.
class ProgramRecords final : public Records {
public:
    ProgramRecords(const Script& script, graph::Program& program) : script_(script), program_(program) {}

    Result<std::span<const std::int32_t>> get(std::uint32_t step, std::size_t index) override {
        const Read read = script_.reads(step)[index];
        auto [found, is_new] = known_.try_emplace(read.tensor.id);
        if (is_new) {
            VKFORMER_TRY(found->second, read_words(program_, read.tensor));
        }
        return std::span<const std::int32_t>(found->second).subspan(read.first, read.count);
    }

private:
    const Script& script_;
    graph::Program& program_;
    std::map<std::uint32_t, std::vector<std::int32_t>> known_;
};

}  // namespace

void StepQueue::took(std::uint32_t count, double seconds) noexcept {
    if (growth_ == Growth::doubling)
        count_ = std::min(2 * count_, most_);
    else
        count_ = static_cast<std::uint32_t>(
            std::clamp(submit_seconds_ * count / std::max(seconds, 1e-6), 1.0, static_cast<double>(most_)));
}

double seconds_since(Clock::time_point start) noexcept {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

Result<void> compile(Part& part, graph::Backend& backend, const SessionStores& stores) {
    if (part.program) return {};
    VKFORMER_TRY(part.program, backend.compile(std::move(part.plan), stores.weights, stores.states));
    for (const Write& constant : part.constants) VKFORMER_CHECK(write(*part.program, constant));
    return {};
}

Result<double> run_job(Script& script, const Job& job, graph::Backend& backend, const SessionStores& stores) {
    const Clock::time_point begin = Clock::now();
    VKFORMER_CHECK(compile(*job.part, backend, stores));
    graph::Program& program = *job.part->program;
    for (const Write& values : job.writes) VKFORMER_CHECK(write(program, values));
    const Clock::time_point submitted = Clock::now();
    VKFORMER_CHECK(program.submit(job.runs));
    VKFORMER_TRY(Part* const later, script.meanwhile(job));
    if (later) VKFORMER_CHECK(compile(*later, backend, stores));
    VKFORMER_CHECK(program.wait());
    const double run_seconds = seconds_since(submitted);
    script.took(job, seconds_since(begin), run_seconds);
    ProgramRecords records(script, program);
    VKFORMER_CHECK(script.take(job, records));
    return run_seconds;
}

Result<void> run_script(Script& script, graph::Backend& backend, const SessionStores& stores, StepQueue& queue) {
    script.plan_for(backend.fusions());
    while (true) {
        VKFORMER_CHECK(backend.check_wanted());
        VKFORMER_TRY(const std::optional<Job> job, script.next(queue.count()));
        if (!job) return {};
        VKFORMER_TRY(const double run_seconds, run_job(script, *job, backend, stores));
        if (job->kind == Job::Kind::step) queue.took(job->runs, run_seconds);
    }
}

}  // namespace vkformer::decoding
