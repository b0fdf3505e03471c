// SPDX-License-Identifier: MIT
#include "serve/translation_model.hpp"

#include <algorithm>
#include <map>

#include "core/try.hpp"
#include "decoding/steps.hpp"
#include "formats/config.hpp"
#include "graph/plan.hpp"
#include "models/generation_config.hpp"
#include "models/open_model.hpp"
#include "text/languages.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::serve {
namespace {

constexpr std::uint32_t kTextsPerTranslation = 8;

bool are_in(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
}

AttentionWeights mean_of_heads(const AttentionWeights& weights) {
    AttentionWeights mean = {.kind = weights.kind,
                             .layer = weights.layer,
                             .heads = 1,
                             .queries = weights.queries,
                             .keys = weights.keys,
                             .values = std::vector<float>(weights.queries * weights.keys)};
    for (std::size_t i = 0; i < weights.values.size(); ++i)
        mean.values[i % mean.values.size()] += weights.values[i] / static_cast<float>(weights.heads);
    return mean;
}

/// By their names, of which programs share those that are alike.
void add_states(const graph::Graph& graph, std::map<std::string, std::uint64_t>& bytes) {
    for (const graph::Tensor& tensor : graph.tensors())
        if (tensor.kind == graph::TensorKind::state) bytes[tensor.name] = graph::storage_bytes(tensor);
}

CrossAttention cross_attention(const AttentionMaps& maps) {
    CrossAttention cross = {.source = maps.source, .written = maps.written, .layers = {}};
    for (const AttentionWeights& weights : maps.weights)
        if (weights.kind == AttentionKind::cross) cross.layers.push_back(mean_of_heads(weights));
    return cross;
}

}  // namespace

bool TranslationLanguages::take(const std::string& from, const std::string& to) const {
    return are_in(sources, from) && are_in(targets, to);
}

Result<TranslationLanguages> TranslationModel::languages_of(const std::string& name, const std::filesystem::path& path,
                                                            const ModelOptions& options) {
    const auto said = options.languages.find(name);
    VKFORMER_TRY(const auto tokenizer, text::load_tokenizer(path));
    VKFORMER_TRY(const auto marks, text::read_language_marks(path, *tokenizer));
    if (marks) {
        if (said != options.languages.end())
            return Error{ErrorCode::InvalidArgument, name + " is a model of many languages: clients choose among them"};
        const auto all = text::list_languages(*tokenizer);
        if (all.empty()) return Error{ErrorCode::CorruptFile, path.string() + " has no languages in its vocabulary"};
        return TranslationLanguages{all, all, true};
    }
    if (said != options.languages.end()) return TranslationLanguages{{said->second.first}, {said->second.second}};
    VKFORMER_TRY(const auto config, formats::Config::open_if_present(path / "tokenizer_config.json"));
    VKFORMER_TRY(const auto from, config.string("source_lang", std::string()));
    VKFORMER_TRY(const auto to, config.string("target_lang", std::string()));
    if (from.empty() || to.empty())
        return Error{ErrorCode::InvalidArgument,
                     name + ": the model's files do not say which languages it translates from and into"};
    return TranslationLanguages{{from}, {to}};
}

Result<std::uint64_t> TranslationModel::most_cache_bytes(const std::filesystem::path& path,
                                                         const ModelOptions& options) {
    constexpr std::uint64_t kShortest = 8;  // decoding::Session's, which doubles it up to what the model reads
    VKFORMER_TRY(const auto model, models::load_encoder_decoder(path));
    const auto limits = model->limits();
    VKFORMER_TRY(const auto generation, models::load_generation_config(path, limits.target_len, limits.target_vocab));
    std::uint64_t all = 0;
    for (std::uint32_t texts = 1; texts <= kTextsPerTranslation; texts *= 2) {
        std::map<std::string, std::uint64_t> bytes;
        for (std::uint64_t len = std::min(kShortest, limits.source_len);; len = std::min(2 * len, limits.source_len)) {
            const models::DecodeLayout layout = {
                .batch = texts,
                .beams = generation.beams,
                .source_len = static_cast<std::uint32_t>(len),
                .max_steps = generation.max_steps,
                .dtype = options.precision == Precision::f16 ? DType::f16 : DType::f32};
            VKFORMER_TRY(const auto encoder, decoding::encoder_graph(*model, layout));
            VKFORMER_TRY(const auto step, decoding::step_graph(*model, layout, generation));
            add_states(encoder.graph, bytes);
            add_states(step.graph, bytes);
            if (len == limits.source_len) break;
        }
        for (const auto& [name, of_it] : bytes) all += of_it;
    }
    return all;
}

std::vector<PrefixedText> TranslationModel::inputs(std::vector<std::string> texts, const std::string& from,
                                                   const std::string& to) const {
    std::vector<PrefixedText> inputs;
    for (std::string& text : texts) {
        inputs.push_back({.text = std::move(text)});
        if (!has_many_languages_) continue;
        inputs.back().from = from;
        inputs.back().to = to;
    }
    return inputs;
}

Result<std::vector<Translated>> TranslationModel::translate(std::span<const PrefixedText> texts) {
    std::vector<Translated> made;
    const auto is_blank = [](const std::string& text) { return text.find_first_not_of(" \t\r\n") == text.npos; };
    if (calls_->group() == 0 || is_blank(texts.front().text)) {
        VKFORMER_TRY(auto translations, model_->translate(texts));
        for (Translation& translation : translations) made.push_back({std::move(translation), std::nullopt});
        return made;
    }
    VKFORMER_TRY(AttentionMaps maps, model_->attention(texts.front()));  // there is one
    CrossAttention attention = cross_attention(maps);
    made.push_back({std::move(maps.translation), std::move(attention)});
    return made;
}

Result<std::unique_ptr<TranslationModel>> TranslationModel::load(std::string name, const std::filesystem::path& path,
                                                                 const ModelOptions& options, Metrics& metrics) {
    auto loaded = std::make_unique<TranslationModel>();
    VKFORMER_TRY(const TranslationLanguages languages, languages_of(name, path, options));
    loaded->name_ = std::move(name);
    TranslatorOptions translator{.device = options.device,
                                 .precision = options.precision,
                                 .weights = options.weights,
                                 .batch = kTextsPerTranslation,
                                 .hypotheses = 0,
                                 .plain_shaders = options.plain_shaders,
                                 .shader_variants = options.shader_variants,
                                 .on_progress = options.on_progress,
                                 .offload = options.offload};
    loaded->has_many_languages_ = languages.are_many;
    if (languages.are_many) translator.from = translator.to = languages.sources.front();  // clients say which
    translator.should_stop = [self = loaded.get()] { return self->calls_ && self->calls_->should_stop(); };
    VKFORMER_TRY(auto model, Translator::load(path, translator));
    loaded->model_.emplace(std::move(model));
    loaded->calls_ = std::make_unique<Calls>(
        kTextsPerTranslation,
        [self = loaded.get()](std::span<const PrefixedText> texts) { return self->translate(texts); },
        [self = loaded.get()](const PrefixedText& text) { return self->model_->check(text); },
        [&metrics, name = loaded->name_](std::size_t texts) {
            metrics.observe("vkformer_batch_inputs", {{"model", name}}, static_cast<double>(texts));
        });
    return loaded;
}

}  // namespace vkformer::serve
