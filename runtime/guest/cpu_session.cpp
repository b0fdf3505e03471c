// SPDX-License-Identifier: MIT
#include "guest/cpu_session.hpp"

#include <set>
#include <string>

#include "core/try.hpp"

namespace vkformer::guest {

using decoding::Job;

Result<std::unique_ptr<CpuSession>> CpuSession::create(graph::Backend& backend,
                                                       std::unique_ptr<decoding::SequenceScript> script,
                                                       std::shared_ptr<graph::TensorStore> weights,
                                                       std::uint64_t first_ticket, const Progress& progress) {
    auto session =
        std::unique_ptr<CpuSession>(new CpuSession(backend, std::move(script), std::move(weights), first_ticket));
    session->script().plan_for(backend.fusions());
    VKFORMER_TRY(const auto parts, session->script().parts());
    std::uint32_t total = 0, done = 0;
    for (const decoding::Part* const part : parts) total += static_cast<std::uint32_t>(part->plan.graph.nodes().size());
    for (decoding::Part* const part : parts) {
        done += static_cast<std::uint32_t>(part->plan.graph.nodes().size());
        VKFORMER_CHECK(decoding::compile(*part, backend, session->stores_));
        if (progress) progress(done, total);
    }
    return session;
}

Result<graph::MemoryNeeds> CpuSession::memory_needs(decoding::SequenceScript& script) {
    VKFORMER_TRY(const auto parts, script.parts());
    graph::MemoryNeeds needs;
    std::set<std::string> shared;  // weights and states, which programs have together
    for (const decoding::Part* const part : parts) {
        const graph::Plan& plan = part->plan;
        needs.activations += graph::own_bytes(plan);
        for (const graph::Tensor& tensor : plan.graph.tensors()) {
            const bool is_weight = tensor.kind == graph::TensorKind::weight;
            if (!is_weight && tensor.kind != graph::TensorKind::state) continue;
            if (shared.insert(tensor.name).second)
                (is_weight ? needs.weights : needs.states) += graph::storage_bytes(tensor);
        }
    }
    return needs;
}

Result<bool> CpuSession::has_work() {
    if (!is_running()) return false;
    if (!job_) {
        VKFORMER_TRY(job_, script().next(1));
    }
    return job_.has_value();
}

Result<Slice> CpuSession::step(double budget_us) {
    Slice slice;
    double us = 0;
    for (bool is_full = false; !is_full;) {
        VKFORMER_TRY(const bool has_job, has_work());
        if (!has_job) break;
        const double expected_us = us_[job_->part];
        const bool fits = budget_us <= 0 || us + expected_us <= budget_us;
        if (!fits && slice.dispatches > 0) break;
        slice.exceeds = slice.exceeds || !fits;
        const Job job = *std::move(job_);
        job_.reset();
        auto seconds = decoding::run_job(script(), job, *backend_, stores_);
        note_taken(job);
        if (const auto failure = script().failure(); failure && seconds) seconds = *failure;
        if (!seconds) {
            if (is_running()) cancel();  // what follows would lack this job
            return seconds.error();
        }
        us_[job.part] = *seconds * 1e6;
        us += *seconds * 1e6;
        slice.expected_us += expected_us;
        slice.dispatches += static_cast<std::uint32_t>(job.part->program->plan().graph.nodes().size());
        if (job.kind != Job::Kind::step) continue;
        slice.tokens += script().streams() ? 1 : 0;
        is_full = budget_us <= 0;
    }
    if (slice.dispatches == 0) return slice;
    slice.ticket = take_ticket();
    note_time(us);
    return slice;
}

}  // namespace vkformer::guest
