// SPDX-License-Identifier: MIT
/// The models that the server was started with, by name: what they are, whether they are loaded, and the thread that each runs on.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/encoder_models.hpp"
#include "serve/log.hpp"
#include "serve/metrics.hpp"
#include "serve/model_options.hpp"
#include "serve/refusal.hpp"
#include "serve/speech_model.hpp"
#include "serve/text_model.hpp"
#include "serve/translation_model.hpp"
#include "vkformer/result.hpp"

namespace vkformer::serve {

struct ModelSpec {
    std::string name;  ///< as clients call it
    std::filesystem::path path;
};

enum class ModelKind : std::uint8_t { language, embeddings, rerank, translation, speech };
/// "language", …
std::string_view to_string(ModelKind kind) noexcept;

/// In the order of ModelKind.
using LoadedModel =
    std::variant<std::unique_ptr<TextModel>, std::unique_ptr<EmbeddingModel>, std::unique_ptr<RerankModel>,
                 std::unique_ptr<TranslationModel>, std::unique_ptr<SpeechModel>>;

class ModelSet {
public:
    struct Entry {
        ModelSpec spec;
        ModelKind kind = ModelKind::embeddings;
        std::uintmax_t bytes = 0;  ///< of its weights' files
        std::atomic<bool> is_ready{false};
        std::optional<LoadedModel> model;  ///< once it is ready
    };

    /// Looks at every model's config or GGUF head: what it is. Errors: those of opening it; InvalidArgument (a name twice, a kind that is not
    /// served).
    static Result<ModelSet> find(std::vector<ModelSpec> specs, ModelOptions options, Metrics& metrics, Log& log);

    /// Loads all, one after the other. Errors: of the first that cannot be loaded, with its name.
    Result<void> load();
    bool is_ready() const noexcept;
    const std::vector<std::unique_ptr<Entry>>& entries() const noexcept { return entries_; }

    /// The one of this kind that a request names; without a name, the only one. Throws Refusal: 404 (no such model), 400 (one of another
    /// kind; several and no name), 503 (it is being loaded).
    template <class Model>
    Model& get(const std::optional<std::string>& name) const;
    /// All of a kind that are ready.
    template <class Model>
    std::vector<Model*> all() const;

private:
    Entry& named(const std::optional<std::string>& name, const std::function<bool(ModelKind)>& is_wanted) const;
    template <class Model>
    static constexpr ModelKind kind_of();

    ModelSet(ModelOptions options, Metrics& metrics, Log& log)
        : options_(std::move(options)), metrics_(&metrics), log_(&log) {}

    ModelOptions options_;
    Metrics* metrics_;
    Log* log_;
    std::vector<std::unique_ptr<Entry>> entries_;
};

template <class Model>
constexpr ModelKind ModelSet::kind_of() {
    std::size_t index = 0;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        ((std::is_same_v<std::variant_alternative_t<I, LoadedModel>, std::unique_ptr<Model>> ? index = I : 0), ...);
    }
    (std::make_index_sequence<std::variant_size_v<LoadedModel>>());
    return static_cast<ModelKind>(index);
}

template <class Model>
Model& ModelSet::get(const std::optional<std::string>& name) const {
    Entry& entry = named(name, [](ModelKind kind) { return kind == kind_of<Model>(); });
    return *std::get<std::unique_ptr<Model>>(*entry.model);
}

template <class Model>
std::vector<Model*> ModelSet::all() const {
    std::vector<Model*> found;
    for (const auto& entry : entries_)
        if (entry->is_ready && entry->kind == kind_of<Model>())
            found.push_back(std::get<std::unique_ptr<Model>>(*entry->model).get());
    return found;
}

}  // namespace vkformer::serve
