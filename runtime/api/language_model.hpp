// SPDX-License-Identifier: MIT
/// What all that continues texts with a decoder-only model has in common: the model with its text, and what a request means.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/constraints.hpp"
#include "api/decoder_text.hpp"
#include "api/open_backend.hpp"
#include "decoding/decoder_session.hpp"
#include "models/open_model.hpp"
#include "text/tokenizer.hpp"
#include "vkformer/generator.hpp"

namespace vkformer::api {

struct LanguageModel {
    std::unique_ptr<models::Decoder> model;  // sessions point to it
    DecoderText text;
    std::vector<std::string> adapters;  // names, in the model's order
    std::unique_ptr<models::Decoder> head{};  // by which the model guesses what follows; null: it was not asked for

    /// None: there is no text.
    const text::Tokenizer* tokenizer() const noexcept { return text.tokenizer ? text.tokenizer->get() : nullptr; }
    Result<std::vector<std::int32_t>> tokenize(std::string_view words) const;  ///< as of Generator
    Result<std::vector<std::int32_t>> tokenize_chat(std::span<const Message> messages,
                                                    const ChatOptions& options) const;  ///< likewise

    /// To generate behind a prompt of so many tokens; 0: until the model ends or the context is full. Errors: InvalidArgument (the
    /// model's own length leaves no room; `name` says whose prompt it is).
    Result<std::uint32_t> max_tokens(const GenerateOptions& asked, std::size_t prompt, std::string_view name) const;
    const std::vector<std::string>& stops(const GenerateOptions& asked) const noexcept;
    bool is_end(std::int32_t token) const;
    /// A scale of each adapter; none where none counts. Errors: InvalidArgument (a name that no adapter has, a scale out of its range).
    Result<std::vector<float>> adapter_scales(const std::map<std::string, float>& asked) const;
    /// The request's constraint with the vocabulary; null: none. Errors: InvalidArgument (together with what it excludes), FileNotFound (no
    /// tokenizer), UnsupportedConfig (of the tokenizer).
    Result<std::shared_ptr<constraints::TokenConstraint>> constraint(const GenerateOptions& asked,
                                                                     ConstraintCache& cache) const;
};

/// `multi_token`: the head is asked for. Errors: those of its parts; ShapeMismatch (a tokenizer of another model), InvalidArgument (two
/// adapters of one name, or one without), UnsupportedConfig (no such head).
Result<LanguageModel> load_language_model(const std::filesystem::path& path, const std::vector<Adapter>& adapters,
                                          bool multi_token = false);

/// What a session is asked, one row for each sequence of a batch.
decoding::DecoderSessionOptions session_options(const GeneratorOptions& options, const graph::SampleOptions& sample);
OpenOptions open_options(const GeneratorOptions& options);

/// Errors: InvalidArgument (a stop text that is empty).
Result<void> check_stops(const GenerateOptions& asked);

/// What one generation prints: tokens become text, and a stop string ends it.
struct GenerationText {
    /// A constrained text has its constraint's spelling.
    GenerationText(const text::Tokenizer* tokenizer, const constraints::TokenConstraint* constraint,
                   const std::vector<std::string>& stop, bool shows_special)
        : stream(constraint  ? constraints::stream(constraint->vocabulary(), shows_special)
                 : tokenizer ? tokenizer->stream(!shows_special)
                             : nullptr),
          stops(stop),
          stop_texts(stop) {}

    std::unique_ptr<text::StreamDecoder> stream;  // null: there is no text
    text::StopStrings stops;
    std::vector<std::string> stop_texts;
    std::string text, stopped_by;  // one of these texts
    bool is_stopped = false;

    /// What can be printed now.
    std::string push(std::int32_t token) { return stream ? take(stream->push(token)) : std::string(); }
    /// What was held back for tokens that did not come.
    void finish();

private:
    std::string take(std::string_view part);
};

Finish finish_of(decoding::FinishReason reason, bool is_stopped);

}  // namespace vkformer::api
