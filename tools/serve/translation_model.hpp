// SPDX-License-Identifier: MIT
/// A translator under many clients.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "serve/metrics.hpp"
#include "serve/model_options.hpp"
#include "serve/shared_calls.hpp"
#include "vkformer/translator.hpp"

namespace vkformer::serve {

class TranslationModel {
public:
    using Calls = SharedCalls<std::string, Translation>;
    /// Between the languages that the options say for this name, else those of `source_lang` and `target_lang` in the folder's
    /// tokenizer_config.json. Errors: those of Translator::load; InvalidArgument (neither says which).
    static Result<std::unique_ptr<TranslationModel>> load(std::string name, const std::filesystem::path& path,
                                                          const ModelOptions& options, Metrics& metrics);

    const std::string& name() const noexcept { return name_; }
    const std::string& device() const noexcept { return model_->device(); }
    const std::string& from() const noexcept { return from_; }
    const std::string& to() const noexcept { return to_; }
    /// Sets what the model's gauges show now.
    void show(Metrics& metrics) const {
        metrics.set("vkformer_queue_requests", {{"model", name_}}, static_cast<double>(calls_->waiting()));
    }
    Calls& calls() noexcept { return *calls_; }

private:
    std::string name_, from_, to_;
    std::optional<Translator> model_;
    std::unique_ptr<Calls> calls_;
};

}  // namespace vkformer::serve
