// SPDX-License-Identifier: MIT
/// A session without a GPU: step() computes the slice itself.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "decoding/run_script.hpp"
#include "graph/program.hpp"
#include "guest/session.hpp"

namespace vkformer::guest {

class CpuSession final : public Session {
public:
    /// Compiles everything. `weights` may be shared with other sessions; slices are numbered from `first_ticket` on. Errors: those of
    /// SequenceScript::parts and of the backend.
    static Result<std::unique_ptr<CpuSession>> create(graph::Backend& backend,
                                                      std::unique_ptr<decoding::SequenceScript> script,
                                                      std::shared_ptr<graph::TensorStore> weights,
                                                      std::uint64_t first_ticket = 1, const Progress& progress = {});
    /// The tensors of its programs as their graphs store them; the CPU backend's own copies differ from that.
    static Result<graph::MemoryNeeds> memory_needs(decoding::SequenceScript& script);

    /// Computes jobs that are expected to take at most `budget_us` microseconds together, one at least; 0: up to the next token. A job,
    /// which is not divided, is a chunk of the prompt or one token. Errors: those of the script and the backend.
    Result<Slice> step(double budget_us);
    std::uint32_t outstanding() const noexcept override { return 0; }

private:
    CpuSession(graph::Backend& backend, std::unique_ptr<decoding::SequenceScript> script,
               std::shared_ptr<graph::TensorStore> weights, std::uint64_t first_ticket)
        : Session(std::move(script), first_ticket), backend_(&backend), stores_(backend, std::move(weights)) {}
    Result<void> retire_slices(std::uint64_t) override { return {}; }
    void drop_slices() override { job_.reset(); }
    Result<bool> has_work();

    graph::Backend* backend_;
    decoding::SessionStores stores_;
    std::optional<decoding::Job> job_;              // the next one
    std::map<const decoding::Part*, double> us_{};  // what a job of the part took the last time
};

}  // namespace vkformer::guest
