// SPDX-License-Identifier: MIT
/// Speech to tokens: the encoder hears windows of sound, the decoder writes down what it heard, more than once if need be.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "decoding/speech_steps.hpp"
#include "graph/program.hpp"
#include "models/speech_config.hpp"

namespace vkformer::decoding {

struct SpeechSessionOptions {
    SpeechRules rules;
    std::uint32_t batch = 1;   ///< windows that are heard together at most
    /// 2 to graph::kMaxBeams: at temperature 0 the likeliest text is searched for with so many beams (rules.generation's length_penalty
    /// and early_stopping hold), at others so many texts are drawn, of which the likeliest by its tokens' average is taken.
    std::uint32_t beams = 1;
    DType dtype = DType::f32;  ///< of activations and caches; log-probabilities are always f32
    models::WeightFormat weights = models::WeightFormat::as_filed;
    std::vector<models::AlignmentHead> alignment_heads = {};  ///< for align(): see models::check_alignment
    std::uint32_t median_width = 7;                           ///< of their weights over time, odd
};

/// How to write down what was heard.
struct SpeechRequest {
    std::vector<std::int32_t> given;  ///< what the decoder begins with, decoder_start among it
    std::uint32_t max_length = 1;     ///< tokens in all, `given` counted
    float temperature = 0;            ///< 0: the likeliest tokens; else drawn
    std::uint64_t seed = 0;           ///< of the draws; rows draw different ones, the beams of a window too
    /// ≥ 0: its probability at decoder_start is looked up, among all tokens.
    std::int32_t no_speech = -1;
};

struct Utterance {
    std::vector<std::int32_t> tokens;  ///< behind `given`; the end token, where one came, included
    std::vector<double> log_probs;     ///< of each: under the rules, at temperature 1
    double log_prob = 0;               ///< of all of them, summed
    double score = 0;                  ///< their mean; of a search Σ log p / n^length_penalty, as generate() has it
    double no_speech = 0;              ///< probability of SpeechRequest::no_speech
};

/// What was written down of the windows that were heard.
struct AlignmentRequest {
    std::vector<std::int32_t> given;                    ///< as of SpeechRequest
    std::span<const std::vector<std::int32_t>> tokens;  ///< behind it, of each window
    std::span<const std::uint32_t> positions;  ///< of each window: those of the encoder that are sound, at least one
};

/// Fewer windows than the batch holds take the rows of the next power of two, with programs and caches of their own, as sources do in a
/// Session. Not thread-safe. The backend and the model outlive the session.
class SpeechSession {
public:
    /// Takes the weights of another session with the model, or none. Errors: InvalidArgument (tokens that the model does not know, a model that
    /// does not hear).
    static Result<SpeechSession> create(graph::Backend& backend, const models::EncoderDecoder& model,
                                        const SpeechSessionOptions& options,
                                        std::shared_ptr<graph::TensorStore> weights = nullptr);

    /// Runs the encoder over 1 … options().batch windows [source_len, source_features] each. Errors: InvalidArgument
    /// (sizes), and those of the backend.
    Result<void> hear(std::span<const std::vector<float>> windows);

    /// The likeliest of `choices` behind decoder_start, for the first window that was heard.
    Result<std::int32_t> likeliest(std::span<const std::int32_t> choices);

    /// One utterance for each window that was heard. Errors: InvalidArgument (what is given does not fit), and those of
    /// the backend.
    Result<std::vector<Utterance>> write_down(const SpeechRequest& request);

    /// For each window that was heard the position of the encoder at which each of its tokens begins, by what the decoder looks at when it
    /// writes it. Errors: InvalidArgument (a session without heads, or with some that the model has not), and those of the backend.
    Result<std::vector<std::vector<std::uint32_t>>> align(const AlignmentRequest& request);

    const SpeechSessionOptions& options() const noexcept { return options_; }
    /// So many windows, to the next power of two, are heard together from now on, if it were fewer; then what was heard is forgotten.
    void grow(std::uint32_t batch) noexcept;

private:
    struct Encoder;
    struct Step;
    struct Search;
    struct Aligner;
    /// Programs for one number of rows, which share their caches.
    struct Batch {
        std::uint32_t windows = 0;
        std::shared_ptr<graph::TensorStore> states;
        std::shared_ptr<Encoder> encoder;
        std::map<float, std::shared_ptr<Step>> steps;                // by temperature
        std::shared_ptr<Search> search;                              // with beams
        std::map<std::uint32_t, std::shared_ptr<Aligner>> aligners;  // by tokens
    };

    SpeechSession(graph::Backend& backend, const models::EncoderDecoder& model, const SpeechSessionOptions& options,
                  std::shared_ptr<graph::TensorStore> weights);
    Result<void> choose_batch(std::size_t windows);
    Result<void> make_batch(std::uint32_t windows);
    models::DecodeLayout layout() const;
    std::size_t rows() const noexcept { return std::size_t{batch_->windows} * options_.beams; }  ///< of a step
    Result<std::unique_ptr<graph::Program>> compile(graph::Graph graph) const;
    Result<void> check(const SpeechRequest& request) const;
    Result<Step*> step(float temperature);
    Result<Search*> search();
    Result<void> start(Step& step, std::span<const std::int32_t> given, std::uint64_t seed);
    Result<std::vector<double>> probability_of(Step& step, std::int32_t token) const;
    Result<std::vector<double>> read_given(Step& step, const SpeechRequest& request, std::uint32_t& done);
    template <class IsOver>
    Result<void> write_on(graph::Program& program, std::uint32_t steps, IsOver is_over);
    Result<std::vector<Utterance>> collect(Step& step, const SpeechRequest& request) const;
    Result<std::vector<Utterance>> search_for(const SpeechRequest& request);
    Result<void> check(const AlignmentRequest& request) const;
    Result<Aligner*> aligner(std::size_t tokens);

    graph::Backend* backend_;
    const models::EncoderDecoder* model_;
    SpeechSessionOptions options_;
    std::shared_ptr<graph::TensorStore> weights_;
    std::map<std::uint32_t, std::unique_ptr<Batch>> batches_;  // by windows
    Batch* batch_ = nullptr;                                   // that heard last
    bool has_room_for_others_ = true;                          // than the whole batch
    std::size_t heard_ = 0;                                    // windows
};

}  // namespace vkformer::decoding
