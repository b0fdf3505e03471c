// SPDX-License-Identifier: MIT
#include "serve/loaded_model.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/try.hpp"
#include "formats/config.hpp"
#include "formats/gguf.hpp"
#include "formats/safetensors.hpp"
#include "formats/weights.hpp"
#include "models/open_model.hpp"
#include "models/sentence.hpp"

namespace vkformer::serve {
namespace {

/// Whether an encoder scores in place of giving vectors.
Result<bool> is_reranker(const models::Opened<models::Encoder>& opened) {
    if (const formats::Gguf* const gguf = opened.gguf())
        return std::ranges::any_of(gguf->tensors(), [](const auto& t) { return t.name == "cls.output.weight"; });
    VKFORMER_TRY(const auto names, std::get<formats::Config>(opened.head).strings("architectures"));
    return std::ranges::any_of(names,
                               [](const std::string& name) { return name.ends_with("ForSequenceClassification"); });
}

}  // namespace

std::vector<std::string> ModelSpec::names() const {
    std::vector<std::string> names = {name};
    for (const Adapter& adapter : adapters) names.push_back(adapter.name);
    return names;
}

std::string_view to_string(ModelKind kind) noexcept {
    switch (kind) {
    case ModelKind::language: return "language";
    case ModelKind::embeddings: return "embeddings";
    case ModelKind::rerank: return "rerank";
    case ModelKind::translation: return "translation";
    case ModelKind::speech: return "speech";
    }
    return "";
}

Result<ModelKind> kind_of(const ModelSpec& spec) {
    VKFORMER_TRY(const auto opened, models::open_model(spec.path));
    switch (models::kind_of(opened)) {
    case models::ModelKind::encoder_decoder: return ModelKind::translation;
    case models::ModelKind::speech: return ModelKind::speech;
    case models::ModelKind::decoder: {
        VKFORMER_TRY(const auto tokens, models::read_score_tokens(spec.path));
        return tokens ? ModelKind::rerank : ModelKind::language;
    }
    case models::ModelKind::encoder: {
        VKFORMER_TRY(const bool reranks, is_reranker(std::get<models::Opened<models::Encoder>>(opened)));
        return reranks ? ModelKind::rerank : ModelKind::embeddings;
    }
    default: break;
    }
    return Error{ErrorCode::InvalidArgument, spec.name + ": " + spec.path.string() + " is " +
                                                 std::string(models::kind_name(models::kind_of(opened))) +
                                                 ", which no route serves"};
}

std::uint64_t weight_bytes(const std::filesystem::path& path) {
    const auto sum = [](const formats::TensorMap& tensors) {
        std::uint64_t bytes = 0;
        for (const auto& [name, tensor] : tensors) bytes += tensor.bytes.size();
        return bytes;
    };
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) {
        std::uint64_t bytes = 0;
        if (const auto file = formats::Gguf::open(path))  // with all its parts
            for (const formats::GgufTensor& tensor : file->tensors()) bytes += tensor.bytes.size();
        return bytes;
    }
    if (!std::filesystem::exists(path / "config.json", ignored)) {
        const auto adapter = formats::Safetensors::open(path / "adapter_model.safetensors");
        return adapter ? sum(adapter->tensors()) : 0;
    }
    const auto weights = formats::open_weights(path);
    return weights ? sum(weights->tensors()) : 0;
}

Result<LoadedModel> load_model(const ModelSpec& spec, ModelKind kind, const ModelOptions& options, Metrics& metrics) {
    const auto& [name, path, adapters] = spec;
    switch (kind) {
    case ModelKind::language: {
        VKFORMER_TRY(auto model, TextModel::load(name, path, adapters, options, metrics));
        return LoadedModel(std::move(model));
    }
    case ModelKind::embeddings: {
        VKFORMER_TRY(auto model, EmbeddingModel::load(name, path, adapters, options, metrics));
        return LoadedModel(std::move(model));
    }
    case ModelKind::rerank: {
        VKFORMER_TRY(auto model, RerankModel::load(name, path, adapters, options, metrics));
        return LoadedModel(std::move(model));
    }
    case ModelKind::translation: {
        VKFORMER_TRY(auto model, TranslationModel::load(name, path, options, metrics));
        return LoadedModel(std::move(model));
    }
    case ModelKind::speech: break;
    }
    VKFORMER_TRY(auto model, SpeechModel::load(name, path, options, metrics));
    return LoadedModel(std::move(model));
}

std::string device_of(const LoadedModel& model) {
    return std::visit([](const auto& loaded) { return loaded->device(); }, model);
}

const std::vector<std::string>& notes_of(const LoadedModel& model) {
    return std::visit([](const auto& loaded) -> const std::vector<std::string>& { return loaded->notes(); }, model);
}

}  // namespace vkformer::serve
