// SPDX-License-Identifier: MIT
#include "serve/translation_model.hpp"

#include "core/try.hpp"
#include "formats/config.hpp"

namespace vkformer::serve {
namespace {

constexpr std::uint32_t kTextsPerTranslation = 8;

struct Languages {
    std::string from, to;
    bool is_chosen = false;  ///< by the options, for a model of many
};

Result<Languages> languages_of(const std::string& name, const std::filesystem::path& path,
                               const ModelOptions& options) {
    if (const auto said = options.languages.find(name); said != options.languages.end())
        return Languages{said->second.first, said->second.second, true};
    VKFORMER_TRY(const auto config, formats::Config::open_if_present(path / "tokenizer_config.json"));
    VKFORMER_TRY(const auto from, config.string("source_lang", std::string()));
    VKFORMER_TRY(const auto to, config.string("target_lang", std::string()));
    if (from.empty() || to.empty())
        return Error{ErrorCode::InvalidArgument,
                     name + ": the model's files do not say which languages it translates from and into"};
    return Languages{from, to};
}

}  // namespace

Result<std::unique_ptr<TranslationModel>> TranslationModel::load(std::string name, const std::filesystem::path& path,
                                                                 const ModelOptions& options, Metrics& metrics) {
    auto loaded = std::make_unique<TranslationModel>();
    VKFORMER_TRY(const Languages languages, languages_of(name, path, options));
    loaded->name_ = std::move(name);
    loaded->from_ = languages.from;
    loaded->to_ = languages.to;
    TranslatorOptions translator{.device = options.device,
                                 .precision = options.precision,
                                 .batch = kTextsPerTranslation,
                                 .plain_shaders = options.plain_shaders,
                                 .shader_variants = options.shader_variants,
                                 .on_progress = options.on_progress};
    translator.should_stop = [self = loaded.get()] { return self->calls_ && self->calls_->should_stop(); };
    VKFORMER_TRY(auto model, Translator::load(path, translator));
    loaded->model_.emplace(std::move(model));
    Translator& of = *loaded->model_;
    loaded->calls_ = std::make_unique<Calls>(
        kTextsPerTranslation, [&of](std::span<const std::string> texts) { return of.translate(texts); },
        [&of](const std::string& text) { return of.check(text); },
        [&metrics, name = loaded->name_](std::size_t texts) {
            metrics.observe("vkformer_batch_inputs", {{"model", name}}, static_cast<double>(texts));
        });
    return loaded;
}

}  // namespace vkformer::serve
