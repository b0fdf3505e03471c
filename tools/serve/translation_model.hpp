// SPDX-License-Identifier: MIT
/// A translator under many clients.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "serve/metrics.hpp"
#include "serve/model_options.hpp"
#include "serve/shared_calls.hpp"
#include "vkformer/translator.hpp"

namespace vkformer::serve {

/// Those that a model translates from, and into: one each, or the same ones.
struct TranslationLanguages {
    std::vector<std::string> sources, targets;
    bool are_many = false;

    bool take(const std::string& from, const std::string& to) const;
};

/// What each token of a translation was written from.
struct CrossAttention {
    std::vector<std::string> source, written;  ///< tokens
    std::vector<AttentionWeights> layers;      ///< each with one head, the mean of all: [1, written, source]
};

struct Translated {
    Translation translation;
    std::optional<CrossAttention> attention;  ///< where it was asked for, and the text is not blank
};

class TranslationModel {
public:
    /// The group of a request with attention is its number: it is alone, for its weights take some megabytes, and its failure is nobody
    /// else's. All others share calls, whatever their languages.
    using Calls = SharedCalls<PrefixedText, Translated, std::uint64_t>;
    /// Between all languages of a model of many, such as NLLB; else from the one into the other that the options say for this name, or
    /// `source_lang` and `target_lang` of the folder's tokenizer_config.json. Errors: those of Translator::load; InvalidArgument (neither says which).
    static Result<std::unique_ptr<TranslationModel>> load(std::string name, const std::filesystem::path& path,
                                                          const ModelOptions& options, Metrics& metrics);

    const std::string& name() const noexcept { return name_; }
    const std::string& device() const noexcept { return model_->device(); }
    const std::vector<std::string>& notes() const noexcept { return model_->notes(); }
    DeviceMemory memory() const { return model_->memory(); }
    /// Those that its files say, or else the options. Errors: as of load.
    static Result<TranslationLanguages> languages_of(const std::string& name, const std::filesystem::path& path,
                                                     const ModelOptions& options);
    /// What its caches come to on a device at most, of texts of every length that it takes, alone and with others. Errors: those of reading
    /// the model's files.
    static Result<std::uint64_t> most_cache_bytes(const std::filesystem::path& path, const ModelOptions& options);
    Calls& calls() noexcept { return *calls_; }
    /// What calls() take. The languages are some that the model takes.
    std::vector<PrefixedText> inputs(std::vector<std::string> texts, const std::string& from,
                                     const std::string& to) const;
    /// Sets what the model's gauges show now.
    void show(Metrics& metrics) const {
        metrics.set("vkformer_queue_requests", {{"model", name_}}, static_cast<double>(calls_->waiting()));
    }

private:
    Result<std::vector<Translated>> translate(std::span<const PrefixedText> texts);

    std::string name_;
    bool has_many_languages_ = false;
    std::optional<Translator> model_;
    std::unique_ptr<Calls> calls_;
};

}  // namespace vkformer::serve
