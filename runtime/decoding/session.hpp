// SPDX-License-Identifier: MIT
/// Generation with an encoder–decoder model: greedy and beam search, whose every step runs on the device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/program.hpp"
#include "models/encoder_decoder.hpp"
#include "models/generation_config.hpp"

namespace vkformer::decoding {

struct SessionOptions {
    models::GenerationConfig generation;
    std::uint32_t batch = 1;   ///< source sequences that are decoded together
    DType dtype = DType::f32;  ///< of weights, activations and caches; log-probabilities are always f32
};

/// One source sequence. The spans are read during the call only.
struct Source {
    std::span<const std::int32_t> tokens;
    std::span<const std::uint8_t> visible = {};  ///< empty: all; else one per token, 0: masked
};

struct Hypothesis {
    std::vector<std::int32_t> tokens;  ///< start token and, where one was generated, end token included
    std::optional<float> score;        ///< of a beam search: Σ log p / length^length_penalty
};

/// Decodes any number of source sequences with one model on one backend: token for token what Hugging Face's generate()
/// returns (transformers 4.56). Programs are compiled once per bucket of source lengths and replayed; several steps are
/// queued without a round trip, and only flags come back before the end. Not thread-safe. The backend and the model outlive
/// the session.
class Session {
public:
    /// Errors: InvalidArgument (what the generation config asks does not fit the model).
    static Result<Session> create(graph::Backend& backend, const models::EncoderDecoder& model,
                                  const SessionOptions& options);

    using Progress = std::function<void(std::size_t done, std::size_t total)>;

    /// One hypothesis, the best, per source, in the order of the sources. Sequences of like length are decoded together,
    /// which changes no result. Errors: InvalidArgument (a source that is empty, too long or has an unknown token), and those of
    /// the backend.
    Result<std::vector<Hypothesis>> generate(std::span<const Source> sources, const Progress& progress = {});

    const SessionOptions& options() const noexcept { return options_; }

private:
    struct Bucket;

    Session(graph::Backend& backend, const models::EncoderDecoder& model, const SessionOptions& options);
    Result<Bucket*> bucket(std::uint32_t source_len, bool masked);
    Result<void> check(std::span<const Source> sources) const;
    Result<void> start(Bucket& bucket, std::span<const Source> sources, std::span<const std::size_t> chosen);
    Result<void> run_steps(Bucket& bucket);
    Result<std::vector<Hypothesis>> collect(Bucket& bucket, std::size_t count);

    graph::Backend* backend_;
    const models::EncoderDecoder* model_;
    SessionOptions options_;
    std::shared_ptr<graph::TensorStore> weights_, states_;
    std::map<std::pair<std::uint32_t, bool>, std::shared_ptr<Bucket>> buckets_;
};

}  // namespace vkformer::decoding
