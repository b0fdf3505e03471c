// SPDX-License-Identifier: MIT
/// A language model under many clients.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/metrics.hpp"
#include "serve/model_options.hpp"
#include "vkformer/generation_engine.hpp"

namespace vkformer::serve {

class TextModel {
public:
    using Id = GenerationEngine::Id;
    /// Errors: those of GenerationEngine::load; FileNotFound besides (a model
    /// without tokenizer).
    static Result<std::unique_ptr<TextModel>> load(std::string name, const std::filesystem::path& path,
                                                   const std::vector<Adapter>& adapters, const ModelOptions& options,
                                                   Metrics& metrics);

    /// What its cache will be, as EngineOptions::cache_tokens says. Errors: those of reading the model's head, and of its step.
    struct Cache {
        std::uint64_t bytes = 0, tokens = 0;
        std::uint32_t context = 0;  ///< tokens that one request has of them at most
        /// What the programs of its steps have of their own at most; those of prompts come on top.
        std::uint64_t most_step_bytes = 0;
    };
    static Result<Cache> cache_of(const std::filesystem::path& path, const ModelOptions& options);

    const std::string& name() const noexcept { return name_; }
    /// The names of its adapters, in the order in which they were given.
    const std::vector<std::string>& adapters() const noexcept { return adapters_; }
    const std::string& device() const noexcept { return engine_->device(); }
    const std::vector<std::string>& notes() const noexcept { return engine_->notes(); }
    DeviceMemory memory() const { return engine_->memory(); }
    const GenerationEngine& engine() const noexcept { return *engine_; }

    /// As the engine's, with the times between its tokens measured.
    Result<Id> submit(GenerationRequest request, GenerationEngine::OnText on_text, GenerationEngine::OnEnd on_end,
                      GenerationEngine::OnLogProbs on_log_probs, GenerationEngine::OnPrompt on_prompt);
    void cancel(Id id) { engine_->cancel(id); }
    /// As the engine's: it has to be loaded anew.
    std::optional<Error> failure() const { return engine_->failure(); }
    void show(Metrics& metrics) const;

private:
    std::string name_;
    std::vector<std::string> adapters_;
    Metrics* metrics_ = nullptr;
    std::optional<GenerationEngine> engine_;
};

}  // namespace vkformer::serve
