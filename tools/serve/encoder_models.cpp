// SPDX-License-Identifier: MIT
#include "serve/encoder_models.hpp"

#include "core/try.hpp"

namespace vkformer::serve {
namespace {

constexpr std::size_t kTextsPerCall = 32;

void set(EncoderOptions& encoder, const std::vector<Adapter>& adapters, const ModelOptions& options) {
    encoder.device = options.device;
    encoder.precision = options.precision;
    encoder.plain_shaders = options.plain_shaders;
    encoder.shader_variants = options.shader_variants;
    encoder.on_progress = options.on_progress;
    encoder.offload = options.offload;
    encoder.batch = kTextsPerCall;
    encoder.adapters = adapters;
}

std::function<void(std::size_t)> count_of(Metrics& metrics, const std::string& name) {
    return [&metrics, name](std::size_t inputs) {
        metrics.observe("vkformer_batch_inputs", {{"model", name}}, static_cast<double>(inputs));
    };
}

}  // namespace

Result<std::unique_ptr<EmbeddingModel>> EmbeddingModel::load(std::string name, const std::filesystem::path& path,
                                                             const std::vector<Adapter>& adapters,
                                                             const ModelOptions& options, Metrics& metrics) {
    auto loaded = std::make_unique<EmbeddingModel>();
    loaded->name_ = std::move(name);
    EmbedderOptions embedder;
    loaded->adapters_ = names_of(adapters);
    set(embedder, adapters, options);
    embedder.should_stop = [self = loaded.get()] { return self->calls_ && self->calls_->should_stop(); };
    VKFORMER_TRY(auto model, Embedder::load(path, embedder));
    loaded->model_.emplace(std::move(model));
    Embedder& of = *loaded->model_;
    loaded->calls_ = std::make_unique<Calls>(
        kTextsPerCall,
        [&of, self = loaded.get()](std::span<const std::string> texts) {
            return of.embed(texts, {}, self->calls_->group());
        },
        [&of](const std::string& text) { return of.check(text); }, count_of(metrics, loaded->name_));
    return loaded;
}

Result<std::unique_ptr<RerankModel>> RerankModel::load(std::string name, const std::filesystem::path& path,
                                                       const std::vector<Adapter>& adapters,
                                                       const ModelOptions& options, Metrics& metrics) {
    auto loaded = std::make_unique<RerankModel>();
    loaded->name_ = std::move(name);
    EncoderOptions encoder;
    loaded->adapters_ = names_of(adapters);
    set(encoder, adapters, options);
    encoder.should_stop = [self = loaded.get()] { return self->calls_ && self->calls_->should_stop(); };
    VKFORMER_TRY(auto model, CrossEncoder::load(path, encoder));
    if (model.labels() != 1)
        return Error{ErrorCode::UnsupportedConfig, "the model gives " + std::to_string(model.labels()) +
                                                       " scores for each pair, which have no order"};
    loaded->model_.emplace(std::move(model));
    CrossEncoder& of = *loaded->model_;
    loaded->calls_ = std::make_unique<Calls>(
        kTextsPerCall,
        [&of, self = loaded.get()](std::span<const TextPair> pairs) {
            return of.score(pairs, {}, self->calls_->group());
        },
        [&of](const TextPair& pair) { return of.check(pair); }, count_of(metrics, loaded->name_));
    return loaded;
}

}  // namespace vkformer::serve
