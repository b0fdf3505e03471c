// SPDX-License-Identifier: MIT
#include "vkformer/translator.hpp"

#include <algorithm>

#include "api/generation_workload.hpp"
#include "api/open_backend.hpp"
#include "api/weight_storage.hpp"
#include "core/try.hpp"
#include "decoding/session.hpp"
#include "models/generation_config.hpp"
#include "models/open_model.hpp"
#include "text/languages.hpp"
#include "text/tokenizer.hpp"

namespace vkformer {
namespace {

constexpr std::size_t kDefaultTextBatch = 32;

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

DType dtype_of(const TranslatorOptions& options) {
    return options.precision == Precision::f16 ? DType::f16 : DType::f32;
}

api::OpenOptions open_options(const TranslatorOptions& options) {
    api::OpenOptions open{.device = options.device,
                          .plain = options.plain_shaders,
                          .variants = options.shader_variants,
                          .should_stop = options.should_stop};
    if (options.on_progress)
        open.progress = [report = options.on_progress](const tuning::Progress& p) { report(to_string(p)); };
    return open;
}

/// What marks the texts of a model of many languages.
struct SourceLanguage {
    text::LanguageMarks marks;
    std::int32_t token = -1;
};

/// Resolves the languages that were asked for, and makes the generation start with the target's. Nothing for a model without
/// languages.
Result<std::optional<SourceLanguage>> choose_languages(const std::filesystem::path& folder,
                                                       const text::Tokenizer& tokenizer,
                                                       const TranslatorOptions& options,
                                                       models::GenerationConfig& generation) {
    VKFORMER_TRY(const auto marks, text::read_language_marks(folder));
    if (!marks) {
        if (options.from.empty() && options.to.empty()) return std::optional<SourceLanguage>{};
        return Error{ErrorCode::InvalidArgument,
                     folder.string() +
                         " is no model of many languages (by tokenizer_class in tokenizer_config.json): "
                         "there is nothing to choose"};
    }
    SourceLanguage language{.marks = *marks};
    VKFORMER_TRY(language.token, text::find_language(tokenizer, options.from.empty() ? marks->source : options.from));
    std::int32_t& target = marks->starts_target ? generation.decoder_start : generation.rules.forced_first;
    if (!options.to.empty()) {
        VKFORMER_TRY(target, text::find_language(tokenizer, options.to));
    } else if (target < 0) {
        return Error{ErrorCode::InvalidArgument, folder.string() + " translates into many languages: say which one"};
    }
    return std::optional(std::move(language));
}

}  // namespace

struct Translator::Impl {
    std::filesystem::path folder;
    TranslatorOptions options;
    std::unique_ptr<models::EncoderDecoder> model;
    models::GenerationConfig generation;
    std::unique_ptr<text::Tokenizer> tokenizer;
    std::optional<SourceLanguage> language;
    api::OpenedBackend device;
    std::optional<decoding::Session> session;  // made by the first call, which fixes the batch

    /// Without the text that ended it, which does not begin among the tokens `given`.
    std::string text_of(std::span<const std::int32_t> tokens, std::size_t given) const {
        std::string text = tokenizer->decode(tokens);
        const std::size_t first = std::min(text.size(), tokenizer->decode(tokens.first(given)).size());
        std::size_t end = text.size();
        for (const std::string& stop : generation.stop_strings) end = std::min(end, text.find(stop, first));
        return text.substr(0, end);
    }
    /// Without the further ones. `given`: tokens that were not generated.
    Translation translation(decoding::Hypothesis&& found, std::size_t given) const {
        std::string text = text_of(found.tokens, given);
        return {.text = std::move(text), .tokens = std::move(found.tokens), .score = found.score, .further = {}};
    }
    struct Encoded {
        std::vector<std::int32_t> source, prefix;
    };
    /// Errors: InvalidArgument (also more tokens than the model takes).
    Result<Encoded> encode(const PrefixedText& text) const;
    /// With the marks of its language.
    Result<std::vector<std::int32_t>> marked(const std::string& text) const;
};

Result<std::vector<std::int32_t>> Translator::Impl::marked(const std::string& text) const {
    if (!language) return tokenizer->encode(text);
    VKFORMER_TRY(auto ids, tokenizer->encode(text, {.add_special = false}));
    return text::mark_source(language->marks, std::move(ids), language->token, generation.eos);
}

Result<Translator::Impl::Encoded> Translator::Impl::encode(const PrefixedText& text) const {
    Encoded encoded;
    VKFORMER_TRY(encoded.source, marked(text.text));
    const std::size_t limit = model->limits().source_len;
    if (encoded.source.size() > limit)
        return Error{ErrorCode::InvalidArgument, "it has " + std::to_string(encoded.source.size()) +
                                                     " tokens, the model takes at most " + std::to_string(limit)};
    if (is_blank(text.prefix)) return encoded;
    VKFORMER_TRY(encoded.prefix,
                 tokenizer->encode(text.prefix, {.add_special = false, .parse_special = false, .is_target = true}));
    if (encoded.prefix.empty()) return encoded;
    const auto unknown = tokenizer->find("<unk>");
    if (unknown && std::ranges::find(encoded.prefix, *unknown) != encoded.prefix.end())
        return Error{ErrorCode::InvalidArgument, "its prefix has characters that the model does not write"};
    // The language's token, say, which the model would have begun with.
    if (const std::int32_t first = generation.rules.forced_first; first >= 0)
        encoded.prefix.insert(encoded.prefix.begin(), first);
    VKFORMER_CHECK(decoding::check_prefix(encoded.prefix, generation, model->limits().target_vocab));
    return encoded;
}

Translator::Translator(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Translator::Translator(Translator&&) noexcept = default;
Translator& Translator::operator=(Translator&&) noexcept = default;
Translator::~Translator() = default;

const std::string& Translator::device() const noexcept { return impl_->device.description; }
DeviceMemory Translator::memory() const { return impl_->device.backend->memory(); }

Result<Translator> Translator::load(const std::filesystem::path& folder, const TranslatorOptions& options) {
    api::OpeningBackend opening(open_options(options));
    VKFORMER_TRY(auto model, models::load_encoder_decoder(folder));
    VKFORMER_TRY(auto generation,
                 models::load_generation_config(folder, model->limits().target_len, model->limits().target_vocab));
    VKFORMER_TRY(auto tokenizer, text::load_tokenizer(folder));
    VKFORMER_TRY(const auto language, choose_languages(folder, *tokenizer, options, generation));
    if (options.beams > 0) generation.beams = options.beams;
    if (options.max_length > 0) generation.max_steps = options.max_length;
    if (options.hypotheses == 0 || options.hypotheses > std::max(generation.beams, 1u))
        return Error{.code = ErrorCode::InvalidArgument,
                     .message = std::to_string(options.hypotheses) + " translations of each text are asked for, and " +
                                (generation.beams == 1 ? "one beam finds 1"
                                                       : std::to_string(generation.beams) + " beams find 1 to " +
                                                             std::to_string(generation.beams)),
                     .hint = Hint::beams};
    if (generation.beams > 1 && !generation.stop_strings.empty())
        return Error{.code = ErrorCode::UnsupportedConfig,
                     .message =
                         "generation_config.json has \"stop_strings\", but a beam search looks at whole "
                         "sequences and cannot end at a text: ask for one beam, or take them out of the file",
                     .hint = Hint::beams};
    VKFORMER_TRY(auto device, opening.get([&] {
        return api::generation_workload(*model, generation, dtype_of(options), api::format_of(options.weights));
    }));
    return Translator(std::make_unique<Impl>(Impl{.folder = folder,
                                                  .options = options,
                                                  .model = std::move(model),
                                                  .generation = std::move(generation),
                                                  .tokenizer = std::move(tokenizer),
                                                  .language = language,
                                                  .device = std::move(device),
                                                  .session = {}}));
}

namespace {

std::vector<std::string> pieces(const text::Tokenizer& tokenizer, std::span<const std::int32_t> tokens) {
    std::vector<std::string> result;
    for (const std::int32_t token : tokens) {
        std::string piece = tokenizer.piece(token);
        result.push_back(piece.empty() ? "#" + std::to_string(token) : std::move(piece));
    }
    return result;
}

/// The weights of a forward pass over tokens that are known.
Result<std::vector<AttentionWeights>> attention_weights(const models::EncoderDecoder& model, graph::Backend& backend,
                                                        const TranslatorOptions& options,
                                                        std::span<const std::int32_t> source,
                                                        std::span<const std::int32_t> target) {
    VKFORMER_TRY(auto f, model.forward({.source_len = static_cast<std::uint32_t>(source.size()),
                                        .target_len = static_cast<std::uint32_t>(target.size()),
                                        .dtype = dtype_of(options),
                                        .weights = api::format_of(options.weights),
                                        .attention_weights = true}));
    VKFORMER_TRY(const auto program, backend.compile(graph::make_plan_for(backend, std::move(f.graph)),
                                                     backend.make_store(), backend.make_store()));
    VKFORMER_CHECK(program->write(f.source_tokens, source));
    VKFORMER_CHECK(program->write(f.target_tokens, target));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());
    std::vector<AttentionWeights> result;
    for (const auto& map : f.attention) {
        const Shape& shape = program->plan().graph.shape(map.weights);
        AttentionWeights weights = {.kind = map.kind,
                                    .layer = map.layer,
                                    .heads = shape[1],
                                    .queries = shape[2],
                                    .keys = shape[3],
                                    .values = std::vector<float>(shape.element_count())};
        VKFORMER_CHECK(program->read(map.weights, std::span<float>(weights.values)));
        result.push_back(std::move(weights));
    }
    return result;
}

}  // namespace

Result<void> Translator::choose(const std::string& from, const std::string& to) {
    TranslatorOptions options = impl_->options;
    options.from = from;
    options.to = to;
    models::GenerationConfig generation = impl_->generation;
    VKFORMER_TRY(impl_->language, choose_languages(impl_->folder, *impl_->tokenizer, options, generation));
    const bool has_other_target = generation.decoder_start != impl_->generation.decoder_start ||
                                  generation.rules.forced_first != impl_->generation.rules.forced_first;
    if (has_other_target) impl_->session.reset();
    impl_->generation = std::move(generation);
    impl_->options = std::move(options);
    return {};
}

Result<void> Translator::check(const PrefixedText& text) const {
    if (!is_blank(text.text)) VKFORMER_CHECK(impl_->encode(text));
    return {};
}

Result<void> Translator::check(const std::string& text) const {
    return check(PrefixedText{.text = text, .prefix = {}});
}

Result<AttentionMaps> Translator::attention(const std::string& text) {
    if (is_blank(text)) return Error{ErrorCode::InvalidArgument, "the text is blank: there is nothing to look at"};
    const PrefixedText alone = {.text = text, .prefix = {}};
    VKFORMER_TRY(auto translations, translate(std::span(&alone, 1)));
    VKFORMER_TRY(const auto source, impl_->marked(text));
    AttentionMaps maps{.translation = std::move(translations.front())};
    const std::span<const std::int32_t> tokens = maps.translation.tokens;
    const auto read = tokens.first(tokens.size() - 1), written = tokens.subspan(1);
    maps.source = pieces(*impl_->tokenizer, source);
    maps.read = pieces(*impl_->tokenizer, read);
    maps.written = pieces(*impl_->tokenizer, written);
    VKFORMER_TRY(maps.weights, attention_weights(*impl_->model, *impl_->device.backend, impl_->options, source, read));
    return maps;
}

namespace {

/// Leaves out the tokens behind the one that completes a stop string, which does not begin among the first `given`.
void end_at(const std::vector<std::string>& stops, const text::Tokenizer& tokenizer, std::size_t given,
            std::vector<std::int32_t>& tokens) {
    if (stops.empty()) return;
    const auto stream = tokenizer.stream();
    text::StopStrings seen(stops);
    for (std::size_t i = 0; i < given; ++i) (void)stream->push(tokens[i]);
    for (std::size_t i = given; i < tokens.size(); ++i) {
        if (!seen.push(stream->push(tokens[i])).stop) continue;
        tokens.resize(i + 1);
        return;
    }
}

}  // namespace

Result<std::vector<Translation>> Translator::translate(std::span<const std::string> texts, const Progress& progress) {
    std::vector<PrefixedText> without;
    for (const std::string& text : texts) without.push_back({.text = text, .prefix = {}});
    return translate(without, progress);
}

Result<std::vector<Translation>> Translator::translate(std::span<const PrefixedText> texts, const Progress& progress) {
    std::vector<Impl::Encoded> encoded;
    std::vector<std::size_t> index_of;  // of the text that the tokens came from
    for (std::size_t i = 0; i < texts.size(); ++i) {
        if (is_blank(texts[i].text)) continue;
        auto ids = impl_->encode(texts[i]);
        if (!ids) {
            Error error = std::move(ids).error();
            error.message = "text " + std::to_string(i + 1) + ": " + error.message;
            return error;
        }
        encoded.push_back(*std::move(ids));
        index_of.push_back(i);
    }
    std::vector<Translation> results(texts.size());
    if (encoded.empty()) return results;

    if (!impl_->session) {
        const std::size_t batch =
            impl_->options.batch > 0 ? impl_->options.batch : std::min(encoded.size(), kDefaultTextBatch);
        VKFORMER_TRY(auto session, decoding::Session::create(*impl_->device.backend, *impl_->model,
                                                             {.generation = impl_->generation,
                                                              .batch = static_cast<std::uint32_t>(batch),
                                                              .dtype = dtype_of(impl_->options),
                                                              .weights = api::format_of(impl_->options.weights),
                                                              .hypotheses = impl_->options.hypotheses}));
        impl_->session.emplace(std::move(session));
    }
    std::vector<decoding::Source> sources;
    for (const auto& [source, prefix] : encoded) sources.push_back({.tokens = source, .visible = {}, .prefix = prefix});
    VKFORMER_TRY(auto hypotheses, impl_->session->generate(sources, progress));
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
        const std::size_t given = 1 + encoded[i].prefix.size();
        end_at(impl_->generation.stop_strings, *impl_->tokenizer, given, hypotheses[i].tokens);
        Translation& result = results[index_of[i]];
        result = impl_->translation(std::move(hypotheses[i]), given);
        for (auto& next : hypotheses[i].further) result.further.push_back(impl_->translation(std::move(next), given));
    }
    return results;
}

}  // namespace vkformer
