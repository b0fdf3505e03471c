// SPDX-License-Identifier: MIT
#include "vkformer/translator.hpp"

#include <algorithm>
#include <cmath>

#include "api/generation_workload.hpp"
#include "api/open_backend.hpp"
#include "api/weight_storage.hpp"
#include "core/try.hpp"
#include "decoding/invalid.hpp"
#include "decoding/session.hpp"
#include "decoding/target_scorer.hpp"
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
                          .should_stop = options.should_stop,
                          .offload = options.offload};
    api::report_to(options.on_progress, open);
    return open;
}

/// How a text is marked with its languages, as tokens; −1: not at all.
struct Languages {
    std::int32_t source = -1;  ///< stands with the source
    std::int32_t start = -1;   ///< what the decoder begins with
    std::int32_t first = -1;   ///< what it has to write behind that
};

/// Those that nobody named are `given`. Errors: InvalidArgument.
Result<Languages> find_languages(const std::optional<text::LanguageMarks>& marks, const text::Tokenizer& tokenizer,
                                 const std::string& from, const std::string& to, Languages given) {
    if (from.empty() && to.empty()) return given;
    if (!marks)
        return Error{
            ErrorCode::InvalidArgument,
            "this is no model of many languages (by tokenizer_class in tokenizer_config.json): there is nothing "
            "to choose"};
    if (!from.empty()) {
        VKFORMER_TRY(const std::int32_t source, text::find_language(tokenizer, from));
        if (!marks->names_target) given.source = source;
    }
    if (!to.empty()) {
        std::int32_t& target = marks->names_target ? given.source : marks->starts_target ? given.start : given.first;
        VKFORMER_TRY(target, text::find_language(tokenizer, to));
    }
    return given;
}

/// Resolves the languages that were asked for, and makes the generation start with the target's.
Result<Languages> choose_languages(const std::optional<text::LanguageMarks>& marks, const text::Tokenizer& tokenizer,
                                   const TranslatorOptions& options, models::GenerationConfig& generation) {
    Languages chosen = {.start = generation.decoder_start, .first = generation.rules.forced_first};
    const std::string from = options.from.empty() && marks ? marks->source : options.from;
    VKFORMER_TRY(chosen, find_languages(marks, tokenizer, from, options.to, chosen));
    if (!marks || marks->names_target) return chosen;  // whose texts may name the target themselves
    if (chosen.source < 0)
        return Error{ErrorCode::InvalidArgument, "the model translates from many languages: say which one"};
    if ((marks->starts_target ? chosen.start : chosen.first) < 0)
        return Error{ErrorCode::InvalidArgument, "the model translates into many languages: say which one"};
    generation.decoder_start = chosen.start;
    generation.rules.forced_first = chosen.first;
    return chosen;
}

/// An error that says what a part is has that part's name before it.
template <class T>
Result<T> of_part(const std::string& name, Result<T> result) {
    if (result) return result;
    Error error = std::move(result).error();
    error.message = name + " " + error.message;
    return error;
}

}  // namespace

struct Translator::Impl {
    TranslatorOptions options;
    std::shared_ptr<const models::EncoderDecoder> model;
    models::GenerationConfig generation;
    std::shared_ptr<const text::Tokenizer> tokenizer;
    std::optional<text::LanguageMarks> marks;  // of a model of many languages
    Languages languages;                       // of a text that does not say its own
    api::OpenedBackend device;
    std::shared_ptr<graph::TensorStore> weights;
    std::optional<decoding::Session> session{};      // made by the first call
    std::optional<decoding::TargetScorer> scorer{};  // made by the first call that asks

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
        Languages languages;

        decoding::Source as_source() const {
            return {.tokens = source,
                    .start = languages.start,
                    .first = prefix.empty() ? languages.first : -1,
                    .prefix = prefix};
        }
    };
    /// Errors: InvalidArgument (also more tokens than the model takes).
    Result<Encoded> encode(const PrefixedText& text) const;
    Result<Languages> languages_of(const std::string& from, const std::string& to) const {
        return find_languages(marks, *tokenizer, from, to, languages);
    }
    /// With the mark of its language.
    Result<std::vector<std::int32_t>> marked(const std::string& text, const Languages& chosen) const;
    /// What the decoder would have written behind its start token, without an end: behind a blank text what it begins with always.
    Result<std::vector<std::int32_t>> written(const std::string& text, const Languages& chosen) const;
    /// The start token, what is written, and the end token.
    Result<std::vector<std::int32_t>> whole(const std::string& text, const Languages& chosen) const;
    struct Pair {
        std::vector<std::int32_t> source, target;
    };
    Result<Pair> pair(const TranslatedText& text) const;
    Result<std::vector<decoding::Hypothesis>> generate(std::span<const decoding::Source> sources,
                                                       const Progress& progress);
    decoding::TargetScorer& target_scorer();
};

Result<std::vector<std::int32_t>> Translator::Impl::marked(const std::string& text, const Languages& chosen) const {
    if (!marks || chosen.source < 0) return tokenizer->encode(text);
    VKFORMER_TRY(auto ids, tokenizer->encode(text, {.add_special = false}));
    return text::mark_source(*marks, std::move(ids), chosen.source, generation.eos);
}

Result<Translator::Impl::Encoded> Translator::Impl::encode(const PrefixedText& text) const {
    Encoded encoded;
    VKFORMER_TRY(encoded.languages, languages_of(text.from, text.to));
    VKFORMER_TRY(encoded.source, marked(text.text, encoded.languages));
    const std::size_t limit = model->limits().source_len;
    if (encoded.source.size() > limit)
        return Error{ErrorCode::InvalidArgument, "it has " + std::to_string(encoded.source.size()) +
                                                     " tokens, the model takes at most " + std::to_string(limit)};
    for (const std::int32_t token : encoded.source)
        VKFORMER_CHECK(decoding::check_token("a token of it", token, model->limits().source_vocab));
    if (is_blank(text.prefix)) return encoded;
    VKFORMER_TRY(encoded.prefix, of_part("its prefix", written(text.prefix, encoded.languages)));
    VKFORMER_CHECK(decoding::check_prefix(encoded.prefix, generation, model->limits().target_vocab));
    return encoded;
}

Result<std::vector<std::int32_t>> Translator::Impl::written(const std::string& text, const Languages& chosen) const {
    std::vector<std::int32_t> tokens;
    if (!is_blank(text)) {
        VKFORMER_TRY(tokens, of_part("cannot be read:",
                                     tokenizer->encode(
                                         text, {.add_special = false, .parse_special = false, .is_target = true})));
    }
    const auto unknown = tokenizer->find("<unk>");
    if (unknown && std::ranges::find(tokens, *unknown) != tokens.end())
        return Error{ErrorCode::InvalidArgument, "has characters that the model does not write"};
    // The language's token, say, which the model would have begun with.
    if (chosen.first >= 0) tokens.insert(tokens.begin(), chosen.first);
    return tokens;
}

Result<std::vector<std::int32_t>> Translator::Impl::whole(const std::string& text, const Languages& chosen) const {
    VKFORMER_TRY(const auto tokens, written(text, chosen));
    std::vector<std::int32_t> target = {chosen.start};
    target.insert(target.end(), tokens.begin(), tokens.end());
    if (generation.eos >= 0) target.push_back(generation.eos);
    const auto limits = model->limits();
    if (target.size() - 1 > limits.target_len)
        return Error{ErrorCode::InvalidArgument, "has " + std::to_string(target.size() - 1) +
                                                     " tokens, the model writes at most " +
                                                     std::to_string(limits.target_len)};
    for (const std::int32_t token : target)
        VKFORMER_CHECK(decoding::check_token("has a token that", token, limits.target_vocab));
    return target;
}

Result<Translator::Impl::Pair> Translator::Impl::pair(const TranslatedText& text) const {
    if (is_blank(text.text)) return Error{ErrorCode::InvalidArgument, "it is blank"};
    VKFORMER_TRY(auto encoded, encode({.text = text.text, .from = text.from, .to = text.to}));
    VKFORMER_TRY(auto target, of_part("its translation", whole(text.translation, encoded.languages)));
    return Pair{.source = std::move(encoded.source), .target = std::move(target)};
}

Translator::Translator(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Translator::Translator(Translator&&) noexcept = default;
Translator& Translator::operator=(Translator&&) noexcept = default;
Translator::~Translator() = default;

const std::string& Translator::device() const noexcept { return impl_->device.description; }
const std::vector<std::string>& Translator::notes() const noexcept { return impl_->model->notes; }
DeviceMemory Translator::memory() const { return impl_->device.backend->memory(); }

Result<Translator> Translator::load(const std::filesystem::path& folder, const TranslatorOptions& options) {
    api::OpeningBackend opening(open_options(options));
    VKFORMER_TRY(auto model, models::load_encoder_decoder(folder));
    VKFORMER_TRY(auto generation,
                 models::load_generation_config(folder, model->limits().target_len, model->limits().target_vocab));
    VKFORMER_TRY(auto tokenizer, text::load_tokenizer(folder));
    VKFORMER_TRY(const auto marks, text::read_language_marks(folder, *tokenizer));
    VKFORMER_TRY(const Languages languages,
                 of_part(folder.string() + ":", choose_languages(marks, *tokenizer, options, generation)));
    if (options.beams > 0) generation.beams = options.beams;
    if (options.max_length > 0) generation.max_steps = options.max_length;
    if (options.hypotheses > std::max(generation.beams, 1u))
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
    auto weights = device.backend->make_store();
    TranslatorOptions kept = options;
    if (kept.hypotheses == 0) kept.hypotheses = generation.beams;
    return Translator(std::make_unique<Impl>(Impl{.options = std::move(kept),
                                                  .model = std::move(model),
                                                  .generation = std::move(generation),
                                                  .tokenizer = std::move(tokenizer),
                                                  .marks = marks,
                                                  .languages = languages,
                                                  .device = std::move(device),
                                                  .weights = std::move(weights)}));
}

Result<Translator> Translator::twin() const {
    VKFORMER_TRY(auto device, impl_->device.twin());
    return Translator(std::make_unique<Impl>(Impl{.options = impl_->options,
                                                  .model = impl_->model,
                                                  .generation = impl_->generation,
                                                  .tokenizer = impl_->tokenizer,
                                                  .marks = impl_->marks,
                                                  .languages = impl_->languages,
                                                  .device = std::move(device),
                                                  .weights = impl_->weights}));
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
                                                        const std::shared_ptr<graph::TensorStore>& weights,
                                                        const TranslatorOptions& options,
                                                        std::span<const std::int32_t> source,
                                                        std::span<const std::int32_t> target) {
    VKFORMER_TRY(auto f, model.forward({.source_len = static_cast<std::uint32_t>(source.size()),
                                        .target_len = static_cast<std::uint32_t>(target.size()),
                                        .dtype = dtype_of(options),
                                        .weights = api::format_of(options.weights),
                                        .layers = {.attention = true}}));
    VKFORMER_TRY(const auto program,
                 backend.compile(graph::make_plan_for(backend, std::move(f.graph)), weights, backend.make_store()));
    VKFORMER_CHECK(program->write(f.source_tokens, source));
    VKFORMER_CHECK(program->write(f.target_tokens, target));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());
    std::vector<AttentionWeights> result;
    for (const auto& map : f.attention) {
        const Shape& shape = program->plan().graph.shape(map.weights);
        AttentionWeights of_map = {.kind = map.kind,
                                   .layer = map.layer,
                                   .heads = shape[1],
                                   .queries = shape[2],
                                   .keys = shape[3],
                                   .values = std::vector<float>(shape.element_count())};
        VKFORMER_CHECK(program->read(map.weights, std::span<float>(of_map.values)));
        result.push_back(std::move(of_map));
    }
    return result;
}

}  // namespace

Result<void> Translator::check(const PrefixedText& text) const {
    if (!is_blank(text.text)) VKFORMER_CHECK(impl_->encode(text));
    return {};
}

Result<void> Translator::check(const TranslatedText& text) const {
    VKFORMER_CHECK(impl_->pair(text));
    return {};
}

Result<void> Translator::check(const std::string& text) const { return check(PrefixedText{.text = text}); }

Result<AttentionMaps> Translator::attention(const std::string& text) { return attention(PrefixedText{.text = text}); }

Result<AttentionMaps> Translator::attention(const PrefixedText& text) {
    if (is_blank(text.text)) return Error{ErrorCode::InvalidArgument, "the text is blank: there is nothing to look at"};
    VKFORMER_TRY(auto translations, translate(std::span(&text, 1)));
    VKFORMER_TRY(const Languages languages, impl_->languages_of(text.from, text.to));
    VKFORMER_TRY(const auto source, impl_->marked(text.text, languages));
    AttentionMaps maps{.translation = std::move(translations.front())};
    const std::span<const std::int32_t> tokens = maps.translation.tokens;
    const auto read = tokens.first(tokens.size() - 1), written = tokens.subspan(1);
    maps.source = pieces(*impl_->tokenizer, source);
    maps.read = pieces(*impl_->tokenizer, read);
    maps.written = pieces(*impl_->tokenizer, written);
    VKFORMER_TRY(maps.weights, attention_weights(*impl_->model, *impl_->device.backend, impl_->weights, impl_->options,
                                                 source, read));
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

Result<std::vector<decoding::Hypothesis>> Translator::Impl::generate(std::span<const decoding::Source> sources,
                                                                     const Progress& progress) {
    const std::size_t batch = options.batch > 0 ? options.batch : std::min(sources.size(), kDefaultTextBatch);
    if (session)
        session->grow(static_cast<std::uint32_t>(batch));
    else {
        VKFORMER_TRY(auto made, decoding::Session::create(*device.backend, *model,
                                                          {.generation = generation,
                                                           .batch = static_cast<std::uint32_t>(batch),
                                                           .dtype = dtype_of(options),
                                                           .weights = api::format_of(options.weights),
                                                           .hypotheses = options.hypotheses},
                                                          weights));
        session.emplace(std::move(made));
    }
    return session->generate(sources, progress);
}

Result<std::vector<Translation>> Translator::translate(std::span<const std::string> texts, const Progress& progress) {
    std::vector<PrefixedText> without;
    for (const std::string& text : texts) without.push_back({.text = text});
    return translate(without, progress);
}

Result<std::vector<Translation>> Translator::translate(std::span<const PrefixedText> texts, const Progress& progress) {
    std::vector<Impl::Encoded> encoded;
    std::vector<std::size_t> index_of;  // of the text that the tokens came from
    for (std::size_t i = 0; i < texts.size(); ++i) {
        if (is_blank(texts[i].text)) continue;
        auto ids = impl_->encode(texts[i]);
        if (!ids) return decoding::numbered("text", i, std::move(ids).error());
        encoded.push_back(*std::move(ids));
        index_of.push_back(i);
    }
    std::vector<Translation> results(texts.size());
    if (encoded.empty()) return results;

    std::vector<decoding::Source> sources;
    for (const Impl::Encoded& one : encoded) sources.push_back(one.as_source());
    VKFORMER_TRY(auto hypotheses, impl_->generate(sources, progress));
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
        const std::size_t given = 1 + encoded[i].prefix.size();
        end_at(impl_->generation.stop_strings, *impl_->tokenizer, given, hypotheses[i].tokens);
        Translation& result = results[index_of[i]];
        result = impl_->translation(std::move(hypotheses[i]), given);
        for (auto& next : hypotheses[i].further) result.further.push_back(impl_->translation(std::move(next), given));
    }
    return results;
}

// ---- translations that are given ------------------------------------------------------------------------------------

decoding::TargetScorer& Translator::Impl::target_scorer() {
    if (!scorer) scorer.emplace(*device.backend, *model, dtype_of(options), api::format_of(options.weights), weights);
    return *scorer;
}

Result<std::vector<TextScores>> Translator::score(std::span<const TranslatedText> texts, std::uint32_t likeliest,
                                                  const Progress& progress) {
    VKFORMER_CHECK(decoding::check_generation(*impl_->model, impl_->generation));
    std::vector<Impl::Pair> pairs;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        auto pair = impl_->pair(texts[i]);
        if (!pair) return decoding::numbered("text", i, std::move(pair).error());
        pairs.push_back(*std::move(pair));
    }
    std::vector<decoding::ScoredTarget> targets;
    for (const auto& [source, target] : pairs) targets.push_back({.source = source, .target = target});
    VKFORMER_TRY(auto found, impl_->target_scorer().run(targets, likeliest, progress));
    std::vector<TextScores> scores;
    for (std::size_t i = 0; i < texts.size(); ++i)
        scores.push_back({.tokens = std::move(pairs[i].target), .log_probs = std::move(found[i])});
    return scores;
}

namespace {

/// Whether each token is chosen without a look at those before it. Errors: UnsupportedConfig.
Result<void> check_choices_alone(const models::GenerationConfig& generation) {
    const char* const field = !generation.rules.banned_words.empty()  ? "bad_words_ids\" of several tokens"
                              : !generation.rules.biases.empty()      ? "sequence_bias\""
                              : generation.no_repeat_ngram > 0        ? "no_repeat_ngram_size\""
                              : generation.source_no_repeat_ngram > 0 ? "encoder_no_repeat_ngram_size\""
                                                                      : nullptr;
    if (!field) return {};
    return Error{ErrorCode::UnsupportedConfig, std::string("generation_config.json has \"") + field +
                                                   ", which alternatives do not know: take it out of the file"};
}

}  // namespace

Result<std::vector<Alternative>> Translator::alternatives(const PrefixedText& text, std::uint32_t count) {
    const auto invalid = [](std::string message) { return Error{ErrorCode::InvalidArgument, std::move(message)}; };
    const models::GenerationConfig& generation = impl_->generation;
    if (count < 1 || count > decoding::kMostLikeliest)
        return invalid(std::to_string(count) + " alternatives were asked for, 1 to " +
                       std::to_string(decoding::kMostLikeliest) + " are given");
    if (is_blank(text.text)) return invalid("the text is blank: there is nothing to translate");
    VKFORMER_CHECK(decoding::check_generation(*impl_->model, generation));
    VKFORMER_CHECK(check_choices_alone(generation));
    VKFORMER_TRY(auto encoded, impl_->encode(text));
    std::vector<std::int32_t>& prefix = encoded.prefix;
    if (prefix.empty()) {
        VKFORMER_TRY(prefix, impl_->written("", encoded.languages));
    }

    // What is behind the prefix stands for what may come there.
    const std::int32_t start = encoded.languages.start;
    std::vector<std::int32_t> target = {start};
    target.insert(target.end(), prefix.begin(), prefix.end());
    target.push_back(start);
    const decoding::ScoredTarget asked = {.source = encoded.source, .target = target};
    VKFORMER_TRY(const auto found, impl_->target_scorer().run({&asked, 1}, decoding::kMostLikeliest));

    std::vector<Alternative> alternatives;
    std::vector<std::vector<std::int32_t>> prefixes;  // of those that something follows
    const auto is_whole = [&](const TokenLogProb& next) {
        return next.token == generation.eos || prefix.size() + 1 == generation.max_steps;
    };
    for (const TokenLogProb& next : found[0].back().likeliest) {
        if (alternatives.size() == count || !std::isfinite(next.log_prob)) break;
        if (std::ranges::count(generation.rules.banned, next.token) > 0) continue;
        if (next.token == generation.eos && prefix.size() < generation.min_steps) continue;
        target.back() = next.token;
        if (!is_whole(next)) prefixes.emplace_back(target.begin() + 1, target.end());
        std::string piece = impl_->tokenizer->piece(next.token);
        alternatives.push_back({.next = next, .piece = std::move(piece), .translation = {}});
        if (is_whole(next))
            alternatives.back().translation = impl_->translation({.tokens = target, .score = {}}, target.size());
    }
    std::vector<decoding::Source> sources;
    for (const auto& one : prefixes) {
        VKFORMER_CHECK(decoding::check_prefix(one, generation, impl_->model->limits().target_vocab));
        sources.push_back({.tokens = encoded.source, .start = start, .prefix = one});
    }
    std::vector<decoding::Hypothesis> hypotheses;
    if (!sources.empty()) {
        VKFORMER_TRY(hypotheses, impl_->generate(sources, {}));
    }
    std::size_t taken = 0;
    for (Alternative& one : alternatives) {
        if (is_whole(one.next)) continue;
        decoding::Hypothesis& hypothesis = hypotheses[taken];
        const std::size_t given = 1 + prefixes[taken++].size();
        end_at(generation.stop_strings, *impl_->tokenizer, given, hypothesis.tokens);
        one.translation = impl_->translation(std::move(hypothesis), given);
    }
    return alternatives;
}

}  // namespace vkformer
