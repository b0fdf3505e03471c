// SPDX-License-Identifier: MIT
/// Encoders under many clients: embeddings and scores of pairs.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "serve/metrics.hpp"
#include "serve/model_options.hpp"
#include "serve/shared_calls.hpp"
#include "vkformer/embedder.hpp"

namespace vkformer::serve {

class EmbeddingModel {
public:
    using Calls = SharedCalls<std::string, Embedding, AdapterScales>;
    static Result<std::unique_ptr<EmbeddingModel>> load(std::string name, const std::filesystem::path& path,
                                                        const std::vector<Adapter>& adapters,
                                                        const ModelOptions& options, Metrics& metrics);

    const std::string& name() const noexcept { return name_; }
    /// The names of its adapters, in the order in which they were given.
    const std::vector<std::string>& adapters() const noexcept { return adapters_; }
    const std::string& device() const noexcept { return model_->device(); }
    const std::vector<std::string>& notes() const noexcept { return model_->notes(); }
    DeviceMemory memory() const { return model_->memory(); }
    std::size_t dimension() const noexcept { return model_->dimension(); }
    /// Sets what the model's gauges show now.
    void show(Metrics& metrics) const {
        metrics.set("vkformer_queue_requests", {{"model", name_}}, static_cast<double>(calls_->waiting()));
    }
    Calls& calls() noexcept { return *calls_; }

private:
    std::string name_;
    std::vector<std::string> adapters_;
    std::optional<Embedder> model_;
    std::unique_ptr<Calls> calls_;  // ends before the model
};

class RerankModel {
public:
    using Calls = SharedCalls<TextPair, PairScore, AdapterScales>;
    /// Errors: UnsupportedConfig besides (a model that gives several scores for a pair, which have no order).
    static Result<std::unique_ptr<RerankModel>> load(std::string name, const std::filesystem::path& path,
                                                     const std::vector<Adapter>& adapters, const ModelOptions& options,
                                                     Metrics& metrics);

    const std::string& name() const noexcept { return name_; }
    /// The names of its adapters, in the order in which they were given.
    const std::vector<std::string>& adapters() const noexcept { return adapters_; }
    const std::string& device() const noexcept { return model_->device(); }
    const std::vector<std::string>& notes() const noexcept { return model_->notes(); }
    DeviceMemory memory() const { return model_->memory(); }
    /// Sets what the model's gauges show now.
    void show(Metrics& metrics) const {
        metrics.set("vkformer_queue_requests", {{"model", name_}}, static_cast<double>(calls_->waiting()));
    }
    Calls& calls() noexcept { return *calls_; }

private:
    std::string name_;
    std::vector<std::string> adapters_;
    std::optional<CrossEncoder> model_;
    std::unique_ptr<Calls> calls_;
};

}  // namespace vkformer::serve
