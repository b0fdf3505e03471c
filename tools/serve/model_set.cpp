// SPDX-License-Identifier: MIT
#include "serve/model_set.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "core/try.hpp"
#include "formats/config.hpp"
#include "models/open_model.hpp"
#include "models/sentence.hpp"

namespace vkformer::serve {
namespace {

namespace fs = std::filesystem;

/// Whether an encoder scores in place of giving vectors.
Result<bool> is_reranker(const models::Opened<models::Encoder>& opened) {
    if (const formats::Gguf* const gguf = opened.gguf())
        return std::ranges::any_of(gguf->tensors(), [](const auto& t) { return t.name == "cls.output.weight"; });
    VKFORMER_TRY(const auto names, std::get<formats::Config>(opened.head).strings("architectures"));
    return std::ranges::any_of(names,
                               [](const std::string& name) { return name.ends_with("ForSequenceClassification"); });
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

std::uintmax_t bytes_of(const fs::path& path) {
    std::error_code error;
    if (!fs::is_directory(path, error)) return fs::file_size(path, error);
    std::uintmax_t bytes = 0;
    for (const auto& file : fs::recursive_directory_iterator(path, error))
        if (const auto extension = file.path().extension();
            extension == ".safetensors" || extension == ".gguf" || extension == ".bin")
            bytes += file.file_size(error);
    return bytes;
}

Result<LoadedModel> load_model(const ModelSet::Entry& entry, const ModelOptions& options, Metrics& metrics) {
    const auto& [name, path] = entry.spec;
    switch (entry.kind) {
    case ModelKind::language: {
        VKFORMER_TRY(auto model, TextModel::load(name, path, options, metrics));
        return LoadedModel(std::move(model));
    }
    case ModelKind::embeddings: {
        VKFORMER_TRY(auto model, EmbeddingModel::load(name, path, options, metrics));
        return LoadedModel(std::move(model));
    }
    case ModelKind::rerank: {
        VKFORMER_TRY(auto model, RerankModel::load(name, path, options, metrics));
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

}  // namespace

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

Result<ModelSet> ModelSet::find(std::vector<ModelSpec> specs, ModelOptions options, Metrics& metrics, Log& log) {
    ModelSet set(std::move(options), metrics, log);
    for (ModelSpec& spec : specs) {
        for (const auto& entry : set.entries_)
            if (entry->spec.name == spec.name)
                return Error{ErrorCode::InvalidArgument, "two models are called \"" + spec.name + "\""};
        auto entry = std::make_unique<Entry>();
        VKFORMER_TRY(entry->kind, serve::kind_of(spec));
        entry->bytes = bytes_of(spec.path);
        entry->spec = std::move(spec);
        set.entries_.push_back(std::move(entry));
    }
    for (const auto& [name, pair] : set.options_.languages) {
        const bool is_known = std::ranges::any_of(set.entries_, [&name = name](const auto& entry) {
            return entry->spec.name == name && entry->kind == ModelKind::translation;
        });
        if (!is_known) return Error{ErrorCode::InvalidArgument, "no translation model is called \"" + name + "\""};
    }
    return set;
}

Result<void> ModelSet::load() {
    for (const auto& entry : entries_) {
        const auto began = std::chrono::steady_clock::now();
        auto model = load_model(*entry, options_, *metrics_);
        if (!model) {
            Error error = std::move(model).error();
            error.message = entry->spec.name + ": " + error.message;
            return error;
        }
        const std::string device = std::visit([](const auto& loaded) { return loaded->device(); }, *model);
        entry->model = *std::move(model);
        entry->is_ready = true;
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        metrics_->set("vkformer_model_loaded",
                      {{"model", entry->spec.name}, {"kind", std::string(to_string(entry->kind))}}, 1);
        log_->say("loaded", {{"model", entry->spec.name},
                             {"kind", to_string(entry->kind)},
                             {"device", device},
                             {"ms", static_cast<std::int64_t>(seconds * 1000)}});
    }
    return {};
}

bool ModelSet::is_ready() const noexcept {
    return std::ranges::all_of(entries_, [](const auto& entry) { return entry->is_ready.load(); });
}

ModelSet::Entry& ModelSet::named(const std::optional<std::string>& name,
                                 const std::function<bool(ModelKind)>& is_wanted) const {
    Entry* found = nullptr;
    for (const auto& entry : entries_) {
        if (name ? entry->spec.name != *name : !is_wanted(entry->kind)) continue;
        if (found)
            throw Refusal(400, "the server has several models for this; say which: /v1/models lists them", "model");
        found = entry.get();
    }
    if (!found && name)
        throw Refusal(404, "there is no such model here; /v1/models lists those that there are", "model",
                      "model_not_found");
    if (!found) throw Refusal(404, "the server has no model for this route", "model", "model_not_found");
    if (!is_wanted(found->kind))
        throw Refusal(400, "it is a model for " + std::string(to_string(found->kind)) + ", not for this route",
                      "model");
    if (!found->is_ready) throw Refusal(503, "the model is being loaded", "model");
    return *found;
}

}  // namespace vkformer::serve
