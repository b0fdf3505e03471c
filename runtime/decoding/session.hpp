// SPDX-License-Identifier: MIT
/// Generation with an encoder–decoder model, on a backend that is waited for: greedy and beam search.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decoding/encoder_decoder_script.hpp"
#include "decoding/run_script.hpp"
#include "graph/program.hpp"
#include "models/encoder_decoder.hpp"
#include "models/generation_config.hpp"

namespace vkformer::decoding {

struct SessionOptions {
    models::GenerationConfig generation;
    std::uint32_t batch = 1;   ///< source sequences that are decoded together at most
    DType dtype = DType::f32;  ///< of activations and caches; log-probabilities are always f32
    models::WeightFormat weights = models::WeightFormat::as_filed;
    std::uint32_t hypotheses = 1;  ///< of each source, the best first; at most as many as there are beams
};

struct Hypothesis {
    std::vector<std::int32_t> tokens;  ///< start token and, where one was generated, end token included
    std::optional<float> score;        ///< of a beam search: Σ log p / length^length_penalty
    std::vector<Hypothesis> further;   ///< of a beam search: the next best, SessionOptions::hypotheses − 1 at most
};

/// Decodes any number of source sequences with one model on one backend: token for token what Hugging Face's generate()
/// returns (transformers 4.56). Programs are compiled once per bucket of source lengths and number of rows, and replayed; several
/// steps are queued without a round trip, and only flags come back before the end. Fewer sources than the batch holds take the
/// rows of the next power of two, with caches of their own, which come to less than twice the batch's; those of the whole batch are
/// made first, and where there is no room for others all sources take its rows. Not thread-safe. The backend and the model outlive
/// the session.
class Session {
public:
    /// Takes the weights of another session with the model, or none. Errors: InvalidArgument (what the generation config asks does not fit
    /// the model).
    static Result<Session> create(graph::Backend& backend, const models::EncoderDecoder& model,
                                  const SessionOptions& options, std::shared_ptr<graph::TensorStore> weights = {});

    using Progress = std::function<void(std::size_t done, std::size_t total)>;

    /// One hypothesis, the best (with the next best in it), per source, in the order of the sources. Sequences of like length are decoded together,
    /// which changes no result but by rounding. Errors: InvalidArgument (a source that is empty, a source or prefix that is too long or has an unknown token),
    /// UnsupportedConfig (a prefix before tokens that the model's files forbid at the beginning), and those of the backend.
    Result<std::vector<Hypothesis>> generate(std::span<const Source> sources, const Progress& progress = {});

    const SessionOptions& options() const noexcept { return options_; }
    /// So many sources, to the next power of two, are decoded together from now on, if it were fewer.
    void grow(std::uint32_t batch) noexcept;

private:
    Session(graph::Backend& backend, const models::EncoderDecoder& model, const SessionOptions& options,
            std::shared_ptr<graph::TensorStore> weights)
        : backend_(&backend), model_(&model), options_(options), weights_(std::move(weights)) {}
    /// Programs for one number of rows, which share their caches.
    struct Batch {
        SessionStores stores;
        std::map<std::pair<std::uint32_t, bool>, EncoderDecoderScript> scripts;  // by source length, masked or not
    };
    std::uint32_t rows_for(std::size_t sources) const noexcept;
    Batch& batch_of(std::uint32_t rows);
    EncoderDecoderScript& script(std::uint32_t rows, std::uint32_t source_len, bool masked);
    Result<void> make_whole_batch(std::uint32_t source_len, bool masked);
    /// The script that has their answers.
    Result<const EncoderDecoderScript*> run(std::span<const Source> sources, std::uint32_t source_len, bool masked);
    Result<void> check(std::span<const Source> sources) const;

    graph::Backend* backend_;
    const models::EncoderDecoder* model_;
    SessionOptions options_;
    std::shared_ptr<graph::TensorStore> weights_;
    std::map<std::uint32_t, Batch> batches_;  // by rows
    bool has_room_for_others_ = true;         // than the whole batch
};

}  // namespace vkformer::decoding
