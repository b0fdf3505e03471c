// SPDX-License-Identifier: MIT
/// How likely a decoder-only model finds texts that are given, on a backend that is waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decoding/batch_script.hpp"
#include "decoding/run_script.hpp"
#include "graph/program.hpp"
#include "models/decoder.hpp"

namespace vkformer::decoding {

struct ScoredSequence {
    std::vector<std::int32_t> tokens;
    std::vector<float> adapters;  ///< as of Sequence
    std::size_t text = 0;         ///< by which errors call it, from 0
    std::size_t first = 1;        ///< the token from which on log-probabilities are wanted, 1 at least
};

/// Texts are read together as far as the rows and pages of the options go. Not thread-safe. The backend and the model outlive the session.
class ScoreSession {
public:
    /// Takes weights of another session with the model, or none, and has caches of its own. Errors: those of checked_batch_options.
    static Result<std::unique_ptr<ScoreSession>> create(graph::Backend& backend, const models::Decoder& model,
                                                        const BatchOptions& options,
                                                        std::shared_ptr<graph::TensorStore> weights);

    using Progress = std::function<void(std::size_t done, std::size_t total)>;

    /// Of each of `count` sequences the log-probabilities of its tokens from `first` on, with so many of the likeliest. `sequence` is asked for
    /// each twice: to check it, and when there is room for it. Errors: InvalidArgument (no tokens, unknown ones, more than the context; more of
    /// the likeliest than are told; says which text; nothing has run then), NotANumber, those of the backend; Cancelled.
    Result<std::vector<std::vector<StepLogProbs>>> run(std::size_t count,
                                                       const std::function<ScoredSequence(std::size_t)>& sequence,
                                                       std::uint32_t likeliest, const Progress& progress = {});

    const BatchOptions& options() const noexcept { return options_; }

private:
    ScoreSession(graph::Backend& backend, const models::Decoder& model, const BatchOptions& options,
                 std::shared_ptr<graph::TensorStore> weights);
    void told(BatchScript::Id id, std::vector<StepLogProbs> text);
    void ended(BatchScript::Id id, const SequenceResult& result);
    Result<void> run_all(std::size_t count, const std::function<ScoredSequence(std::size_t)>& sequence,
                         std::uint32_t likeliest);

    graph::Backend* backend_;
    BatchOptions options_;
    SessionStores stores_;
    struct Asked {
        std::size_t text = 0, first = 1;
    };
    std::vector<Asked> asked_;                      // by id, as far as the script has them
    std::vector<std::vector<StepLogProbs>> found_;  // by id
    std::optional<Error> failure_;                  // the first that there was
    std::size_t ended_ = 0;
    Progress progress_;
    BatchScript script_;  // its callbacks fill what is above
};

}  // namespace vkformer::decoding
