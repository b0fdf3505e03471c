// SPDX-License-Identifier: MIT
/// A model that the server has: what it is called, what kind it is of, and it itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/encoder_models.hpp"
#include "serve/metrics.hpp"
#include "serve/model_options.hpp"
#include "serve/speech_model.hpp"
#include "serve/text_model.hpp"
#include "serve/translation_model.hpp"
#include "vkformer/result.hpp"

namespace vkformer::serve {

struct ModelSpec {
    std::string name;  ///< as clients call it
    std::filesystem::path path;
    /// Of a language model: clients call it by their names, too, and have them count then.
    std::vector<Adapter> adapters{};

    /// Its own, then those of its adapters.
    std::vector<std::string> names() const;
};

enum class ModelKind : std::uint8_t { language, embeddings, rerank, translation, speech };
/// "language", …
std::string_view to_string(ModelKind kind) noexcept;

/// In the order of ModelKind.
using LoadedModel =
    std::variant<std::unique_ptr<TextModel>, std::unique_ptr<EmbeddingModel>, std::unique_ptr<RerankModel>,
                 std::unique_ptr<TranslationModel>, std::unique_ptr<SpeechModel>>;

/// Looks at its config or GGUF head. Errors: those of opening it; InvalidArgument (no route serves its kind).
Result<ModelKind> kind_of(const ModelSpec& spec);
/// Of the tensors of a model, or of an adapter; 0 where they cannot be read: whoever loads them is told why.
std::uint64_t weight_bytes(const std::filesystem::path& path);
Result<LoadedModel> load_model(const ModelSpec& spec, ModelKind kind, const ModelOptions& options, Metrics& metrics);

std::string device_of(const LoadedModel& model);
const std::vector<std::string>& notes_of(const LoadedModel& model);

}  // namespace vkformer::serve
