// SPDX-License-Identifier: MIT
#include "vkformer/generator.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>

#include "api/decoder_workload.hpp"
#include "api/language_model.hpp"
#include "api/text_scorer.hpp"
#include "core/try.hpp"
#include "decoding/beam_session.hpp"
#include "decoding/decoder_session.hpp"
#include "decoding/invalid.hpp"
#include "formats/json.hpp"

namespace vkformer {
namespace {

constexpr std::int32_t kNoToken = -1;

using AnySession = std::variant<decoding::DecoderSession, decoding::BeamSession>;
std::shared_ptr<graph::TensorStore> weights_of(const AnySession& session) {
    return std::visit([](const auto& s) { return s.weights(); }, session);
}

/// None: there is one sequence per prompt.
Result<std::optional<decoding::BeamRules>> beam_rules(const BeamSearch& search,
                                                      const models::DecoderDefaults& defaults) {
    decoding::BeamRules rules = {.beams = search.beams,
                                 .length_penalty = search.length_penalty.value_or(defaults.length_penalty),
                                 .early_stopping = defaults.early_stopping};
    if (search.early_stopping) {
        switch (*search.early_stopping) {
        case EarlyStopping::heuristic: rules.early_stopping = graph::EarlyStopping::heuristic; break;
        case EarlyStopping::always: rules.early_stopping = graph::EarlyStopping::always; break;
        case EarlyStopping::never: rules.early_stopping = graph::EarlyStopping::never; break;
        }
    }
    if (rules.beams == 0) {
        VKFORMER_TRY(rules.beams, defaults.beams);
    }
    if (!(std::abs(rules.length_penalty) <= decoding::kMostLengthPenalty))
        return Error{ErrorCode::InvalidArgument, "the length penalty is " + std::to_string(rules.length_penalty) +
                                                     ", expected a number from −100 to 100"};
    if (rules.beams == 1) return std::optional<decoding::BeamRules>();
    return std::optional(rules);
}

}  // namespace

std::string_view to_string(Finish finish) noexcept {
    switch (finish) {
    case Finish::end_token: return "end_token";
    case Finish::stop_string: return "stop_string";
    case Finish::length: return "length";
    case Finish::context: return "context";
    case Finish::caller: return "caller";
    }
    return "unknown";
}

struct Generator::Impl {
    GeneratorOptions options;
    std::shared_ptr<const api::LanguageModel> language;
    std::shared_ptr<const models::Decoder> draft;  // or the head; none: GeneratorOptions ask for neither
    api::OpenedBackend device;
    AnySession session;
    GenerationTimings timings;
    std::unique_ptr<api::TextScorer> scorer{};  // made by the first call that asks
    std::unique_ptr<api::ConstraintCache> constraints = std::make_unique<api::ConstraintCache>();

    bool has_beams() const noexcept { return std::holds_alternative<decoding::BeamSession>(session); }
    const decoding::DecoderSessionOptions& session_options() const noexcept {
        return std::visit([](const auto& s) -> const decoding::DecoderSessionOptions& { return s.options(); }, session);
    }

    /// Errors: InvalidArgument (two sources of guesses, no draft model, or what goes with none).
    Result<void> check_guesses(const GenerateOptions& asked) const {
        const bool drafts = asked.draft_tokens.value_or(0) > 0;
        if (!drafts && asked.prompt_lookup == 0) return {};
        const auto invalid = [](const char* message) { return Error{ErrorCode::InvalidArgument, message}; };
        if (drafts && !draft)
            return invalid(
                "draft_tokens are guessed by a draft model, and none was named: name one when the model is loaded, or "
                "ask for its multi-token head (multi_token)");
        if (drafts && asked.prompt_lookup > 0)
            return invalid("guesses are those of prompt look-up or of the draft model: leave out one of the two");
        if (asked.log_probs)
            return invalid(
                "guessed tokens (of prompt look-up or a draft model) have no log-probabilities: leave out one of the "
                "two");
        if (asked.constraint)
            return invalid(
                "guessed tokens (of prompt look-up or a draft model) are checked before it is known what the "
                "constraint lets follow: leave out one of the two");
        return {};
    }

    /// What guesses are asked for of whoever makes them. Those of the draft model go without saying where they can be.
    struct Guesses {
        std::uint32_t count = 0;
        bool drafts = false, may_be_none = false;
    };
    Guesses guesses(const GenerateOptions& asked) const noexcept {
        if (asked.prompt_lookup > 0 || !draft) return {.count = asked.prompt_lookup};
        const bool is_free = !asked.log_probs && !asked.constraint;
        return {.count = asked.draft_tokens.value_or(is_free ? GenerateOptions::kDraftTokens : 0),
                .drafts = true,
                .may_be_none = !asked.draft_tokens};
    }

    Result<void> set_rules(const graph::SampleOptions& sample, const decoding::Penalties& penalties, Guesses wanted) {
        if (auto* const one = std::get_if<decoding::DecoderSession>(&session)) {
            if (wanted.may_be_none) {
                decoding::DecoderSessionOptions would = one->options();
                would.penalties = penalties;
                would.guesses = wanted.count;
                if (!decoding::check_guesses(*language->model, would)) wanted.count = 0;
            }
            return one->set_sampling(sample, penalties, wanted.count, wanted.drafts && wanted.count > 0);
        }
        return std::get<decoding::BeamSession>(session).set_penalties(penalties);
    }

    /// What a beam search cannot do.
    Result<void> check_beams(const GenerateOptions& asked) const {
        if (!has_beams()) return {};
        const auto invalid = [](const char* message) { return Error{ErrorCode::InvalidArgument, message}; };
        if (asked.sampling && asked.sampling->temperature != 0)
            return invalid(
                "a beam search looks for the likeliest sequence and draws nothing: leave out temperature, top_k, "
                "top_p and min_p, or the beams");
        if (asked.constraint)
            return invalid(
                "a beam search looks at whole sequences and cannot be constrained: leave out the constraint, or the "
                "beams");
        if (asked.prompt_lookup > 0)
            return invalid(
                "prompt look-up guesses what one sequence goes on with, and a beam search has several: leave out one "
                "of the two");
        if (asked.log_probs)
            return invalid("a beam search tells the score of a whole sequence: leave out log_probs, or the beams");
        if (!asked.stop.empty())
            return invalid(
                "a beam search looks at whole sequences and cannot end at a text: leave out the stop texts, or the "
                "beams");
        if (!language->text.defaults.stop_strings.empty())
            return Error{.code = ErrorCode::InvalidArgument,
                         .message =
                             "the model's generation_config.json has \"stop_strings\", but a beam search looks "
                             "at whole sequences and cannot end at a text: ask for one beam, or take them out "
                             "of the file",
                         .hint = Hint::beams};
        return {};
    }

    Result<void> set_sampling(const GenerateOptions& asked) {
        const std::optional<Sampling>& wanted = asked.sampling;
        const std::uint32_t min_tokens =
            asked.constraint ? 0 : asked.min_tokens.value_or(language->text.defaults.min_new_tokens);
        std::vector<std::int32_t> ends;
        if (min_tokens > 0 && !asked.ignore_end) ends = language->text.defaults.end_tokens;
        models::TokenRules rules = language->text.defaults.rules;
        if (asked.ignore_end) rules.forced_last = kNoToken;
        if (!wanted) {
            graph::SampleOptions sample = {.temperature = 0};
            if (!has_beams()) {
                VKFORMER_TRY(sample, language->text.defaults.sample);
            }
            return set_rules(sample,
                             {.repetition = language->text.defaults.repetition_penalty,
                              .no_repeat_ngram = language->text.defaults.no_repeat_ngram,
                              .min_tokens = min_tokens,
                              .ends = std::move(ends),
                              .rules = std::move(rules)},
                             guesses(asked));
        }
        for (const auto& [token, bias] : wanted->logit_bias) rules.drop_bias(token);
        return set_rules({.temperature = wanted->temperature,
                          .top_k = wanted->top_k,
                          .top_p = wanted->top_p,
                          .min_p = wanted->min_p},
                         {.repetition = wanted->repetition_penalty,
                          .presence = wanted->presence_penalty,
                          .frequency = wanted->frequency_penalty,
                          .no_repeat_ngram = wanted->no_repeat_ngram,
                          .bias = wanted->logit_bias,
                          .min_tokens = min_tokens,
                          .ends = std::move(ends),
                          .rules = std::move(rules)},
                         guesses(asked));
    }

    std::uint32_t score_context() const noexcept {
        return std::min(session_options().context, language->model->config().max_positions);
    }
    Result<std::vector<TextScores>> score(std::span<const std::vector<std::int32_t>> texts,
                                          std::span<const std::int32_t> head, const ScoreOptions& asked,
                                          const Progress& progress) {
        if (!scorer) {
            decoding::DecoderSessionOptions scoring = session_options();
            scoring.context = score_context();
            scorer = std::make_unique<api::TextScorer>(*device.backend, *language, scoring, weights_of(session));
        }
        return scorer->score(texts, head, asked, progress);
    }

    struct Continued {
        decoding::SequenceResult sequence;
        std::optional<float> score;
    };
    /// With beams `on_token` is told the tokens of what was found.
    Result<std::vector<Continued>> run(std::span<const decoding::Request> requests,
                                       const decoding::DecoderSession::OnToken& on_token,
                                       std::optional<std::uint32_t> log_probs) {
        std::vector<Continued> continued;
        if (auto* const one = std::get_if<decoding::DecoderSession>(&session)) {
            VKFORMER_TRY(auto results, one->run(requests, on_token, log_probs));
            for (auto& result : results) continued.push_back({std::move(result), {}});
            keep(one->timings());
            return continued;
        }
        auto& search = std::get<decoding::BeamSession>(session);
        VKFORMER_TRY(auto results, search.run(requests));
        keep(search.timings());
        for (std::size_t i = 0; i < results.size(); ++i) {
            for (const std::int32_t token : results[i].best.tokens) on_token(i, token);
            continued.push_back({{.tokens = std::move(results[i].best.tokens),
                                  .finish = results[i].finish,
                                  .reused = results[i].reused},
                                 results[i].best.score});
        }
        return continued;
    }
    void keep(const decoding::DecoderTimings& run) noexcept {
        timings = {.prompt_seconds = run.prompt_seconds,
                   .decode_seconds = run.decode_seconds,
                   .prompt_tokens = run.prompt_tokens,
                   .decode_steps = run.decode_steps,
                   .guessed_tokens = run.guessed_tokens,
                   .accepted_tokens = run.accepted_tokens};
    }
};

Generator::Generator(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;
Generator::~Generator() = default;

const std::string& Generator::device() const noexcept { return impl_->device.description; }
const std::vector<std::string>& Generator::notes() const noexcept { return impl_->language->model->notes; }
DeviceMemory Generator::memory() const { return impl_->device.backend->memory(); }
const GenerationTimings& Generator::timings() const noexcept { return impl_->timings; }
std::uint32_t Generator::context() const noexcept { return impl_->session_options().context; }
std::uint32_t Generator::score_context() const noexcept { return impl_->score_context(); }

namespace {

/// Errors: those of the model; InvalidArgument (another vocabulary, or options that a draft model does not go with).
Result<std::unique_ptr<models::Decoder>> load_draft(const GeneratorOptions& options, api::LanguageModel& language,
                                                    bool has_beams) {
    if (options.draft.empty() && !options.multi_token) return std::unique_ptr<models::Decoder>();
    const auto invalid = [](std::string message) { return Error{ErrorCode::InvalidArgument, std::move(message)}; };
    if (!options.draft.empty() && options.multi_token)
        return invalid("guesses are those of the draft model or of the multi-token head: leave out one of the two");
    if (options.batch > 1 || has_beams)
        return invalid(
            "a draft model or multi-token head guesses for one sequence at a time: leave it out, or the batch and the "
            "beams (of which a model's generation_config.json may have some)");
    if (options.multi_token) return std::move(language.head);
    VKFORMER_CHECK(decoding::check_guesses(*language.model, {.guesses = GenerateOptions::kDraftTokens}));
    VKFORMER_TRY(auto draft, api::load_language_model(options.draft, {}));
    if (const auto cache = draft.model->check_cache(api::session_options(options, {.temperature = 0}).cache); !cache)
        return invalid(options.draft.string() + ": " + cache.error().message);
    const text::Tokenizer *const its = draft.tokenizer(), *const ours = language.tokenizer();
    if (its && ours) {
        const std::size_t count = std::min(its->vocab_size(), ours->vocab_size());
        for (std::size_t i = 0; i < count; ++i) {
            const auto token = static_cast<std::int32_t>(i);
            const std::string there = its->piece(token), here = ours->piece(token);
            const auto is_nobodys = [&](const std::string& piece) {  // what a GGUF file has in such a place
                return piece.empty() || piece == "[PAD" + std::to_string(i) + "]";
            };
            if (there != here && !is_nobodys(there) && !is_nobodys(here))
                return invalid(options.draft.string() + ": a draft model needs the model's own vocabulary, and token " +
                               std::to_string(i) + " is " + formats::quote(there) + " there, " + formats::quote(here) +
                               " here: name a smaller model of the same family");
        }
    }
    return std::move(draft.model);
}

/// `of`: whose weights it takes; null: its own.
Result<AnySession> open_session(graph::Backend& backend, const models::Decoder& model, const models::Decoder* draft,
                                decoding::DecoderSessionOptions options,
                                const std::optional<decoding::BeamRules>& beams, const AnySession* of) {
    const auto weights = of ? weights_of(*of) : nullptr;
    if (beams) {
        options.sample = {.temperature = 0};  // what the model's folder says of drawing is for sequences that are drawn
        VKFORMER_TRY(auto session, decoding::BeamSession::create(backend, model, options, *beams, weights));
        return AnySession(std::move(session));
    }
    VKFORMER_TRY(auto session, decoding::DecoderSession::create(backend, model, options, weights));
    if (draft) {
        const auto its = of ? std::get<decoding::DecoderSession>(*of).draft()->weights() : nullptr;
        VKFORMER_TRY(auto made,
                     session.options().hands_over
                         ? decoding::DraftSession::create(backend, *draft, session.options(), session.stores())
                         : decoding::DraftSession::create(backend, *draft, session.options(), its));
        session.set_draft(std::move(made));
    }
    return AnySession(std::move(session));
}

}  // namespace

Result<Generator> Generator::load(const std::filesystem::path& path, const GeneratorOptions& options) {
    api::OpeningBackend opening(api::open_options(options));
    VKFORMER_TRY(auto language, api::load_language_model(path, options.adapters, options.multi_token));
    models::Decoder& model = *language.model;
    auto wanted = api::session_options(options, {.temperature = 0});
    VKFORMER_CHECK(model.check_cache(wanted.cache));  // before kernels are tried on the device
    VKFORMER_TRY(const auto beams, beam_rules(options.beam_search, language.text.defaults));
    VKFORMER_TRY(auto draft, load_draft(options, language, beams.has_value()));
    if (draft)
        for (const std::string& note : draft->notes) model.notes.push_back("the draft model: " + note);
    VKFORMER_TRY(auto device, opening.get([&] {
        return api::decoder_workload(model, api::session_options(options, {.temperature = 0}), beams);
    }));
    api::choose_chunks(*device.backend, wanted);
    VKFORMER_TRY(auto session, open_session(*device.backend, model, draft.get(), wanted, beams, nullptr));
    return Generator(
        std::unique_ptr<Impl>(new Impl{.options = options,
                                       .language = std::make_shared<const api::LanguageModel>(std::move(language)),
                                       .draft = std::move(draft),
                                       .device = std::move(device),
                                       .session = std::move(session),
                                       .timings = {}}));
}

Result<Generator> Generator::twin() const {
    VKFORMER_TRY(auto device, impl_->device.twin());
    auto wanted = api::session_options(impl_->options, {.temperature = 0});
    api::choose_chunks(*device.backend, wanted);
    VKFORMER_TRY(const auto beams, beam_rules(impl_->options.beam_search, impl_->language->text.defaults));
    VKFORMER_TRY(auto session, open_session(*device.backend, *impl_->language->model, impl_->draft.get(), wanted, beams,
                                            &impl_->session));
    return Generator(std::unique_ptr<Impl>(new Impl{.options = impl_->options,
                                                    .language = impl_->language,
                                                    .draft = impl_->draft,
                                                    .device = std::move(device),
                                                    .session = std::move(session),
                                                    .timings = {}}));
}

Result<std::vector<std::int32_t>> Generator::tokenize(std::string_view text) const {
    return impl_->language->tokenize(text);
}

bool Generator::has_tokenizer() const noexcept { return impl_->language->tokenizer() != nullptr; }

namespace {

/// `what` they are: texts are counted in its errors.
Result<std::vector<std::vector<std::int32_t>>> tokenize_all(const Generator& generator,
                                                            std::span<const std::string> texts, const char* what) {
    std::vector<std::vector<std::int32_t>> tokens;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        auto ids = generator.tokenize(texts[i]);
        if (!ids) return decoding::numbered(what, i, std::move(ids).error());
        tokens.push_back(*std::move(ids));
    }
    return tokens;
}

}  // namespace

Result<std::vector<TextScores>> Generator::score(std::span<const std::string> texts, const ScoreOptions& options,
                                                 const Progress& progress) {
    VKFORMER_TRY(const auto tokens, tokenize_all(*this, texts, "text"));
    // What there is before every text, without what there may be behind it.
    VKFORMER_TRY(const auto nothing, tokenize(""));
    VKFORMER_TRY(const auto something, tokenize("a"));
    const auto end = std::ranges::mismatch(nothing, something).in1;
    return impl_->score(tokens, {nothing.begin(), end}, options, progress);
}

Result<std::vector<TextScores>> Generator::score_tokens(std::span<const std::vector<std::int32_t>> texts,
                                                        const ScoreOptions& options, const Progress& progress) {
    return impl_->score(texts, {}, options, progress);
}

Result<std::vector<Generation>> Generator::generate(std::span<const std::string> prompts,
                                                    const GenerateOptions& options, const OnText& on_text) {
    VKFORMER_TRY(const auto tokens, tokenize_all(*this, prompts, "prompt"));
    return generate_tokens(tokens, options, on_text);
}

Result<std::vector<Generation>> Generator::generate_tokens(std::span<const std::vector<std::int32_t>> prompts,
                                                           const GenerateOptions& options, const OnText& on_text) {
    VKFORMER_CHECK(impl_->check_beams(options));
    VKFORMER_CHECK(api::check_stops(options));
    if (!has_tokenizer() && !impl_->language->stops(options).empty()) return impl_->language->text.tokenizer.error();
    VKFORMER_TRY(const auto constraint, impl_->language->constraint(options, *impl_->constraints));
    VKFORMER_CHECK(impl_->check_guesses(options));
    VKFORMER_TRY(const std::vector<float> adapters, impl_->language->adapter_scales(options.adapters));
    VKFORMER_CHECK(impl_->set_sampling(options));
    std::vector<decoding::Request> requests;
    std::vector<api::GenerationText> outputs;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        VKFORMER_TRY(const std::uint32_t max_tokens,
                     impl_->language->max_tokens(options, prompts[i].size(), "prompt " + std::to_string(i + 1)));
        requests.push_back(
            {.prompt = prompts[i], .max_tokens = max_tokens, .seed = options.seed + i, .adapters = adapters});
        if (!options.ignore_end) requests.back().stop_tokens = impl_->language->text.defaults.end_tokens;
        if (constraint) requests.back().constraint = std::make_shared<constraints::ConstrainedText>(constraint);
        outputs.emplace_back(impl_->language->tokenizer(), constraint.get(), impl_->language->stops(options),
                             options.shows_special);
    }
    const auto on_token = [&](std::size_t index, std::int32_t token) {
        api::GenerationText& output = outputs[index];
        const bool is_end = !options.ignore_end && impl_->language->is_end(token);
        const std::string part = is_end ? std::string() : output.push(token);
        const bool goes_on = !on_text || impl_->has_beams() || on_text(index, part, token);
        return goes_on && !output.is_stopped;
    };
    VKFORMER_TRY(auto results, impl_->run(requests, on_token, options.log_probs));

    std::vector<Generation> generations;
    for (std::size_t i = 0; i < results.size(); ++i) {
        if (const auto& failure = results[i].sequence.failure) return decoding::numbered("prompt", i, *failure);
        api::GenerationText& output = outputs[i];
        const std::size_t told = impl_->has_beams() ? 0 : output.text.size();
        output.finish();
        if (on_text && output.text.size() > told) on_text(i, std::string_view(output.text).substr(told), kNoToken);
        generations.push_back({.text = std::move(output.text),
                               .tokens = std::move(results[i].sequence.tokens),
                               .finish = api::finish_of(results[i].sequence.finish, output.is_stopped),
                               .prompt_tokens = static_cast<std::uint32_t>(prompts[i].size()),
                               .reused_tokens = results[i].sequence.reused,
                               .score = results[i].score,
                               .log_probs = std::move(results[i].sequence.log_probs),
                               .stop = std::move(output.stopped_by)});
    }
    return generations;
}

Result<std::vector<std::int32_t>> Generator::tokenize_chat(std::span<const Message> messages,
                                                           const ChatOptions& options) const {
    return impl_->language->tokenize_chat(messages, options);
}

Result<Generation> Generator::chat(std::span<const Message> messages, const GenerateOptions& options,
                                   const OnText& on_text) {
    VKFORMER_TRY(const auto tokens, tokenize_chat(messages));
    VKFORMER_TRY(auto generations, generate_tokens({&tokens, 1}, options, on_text));
    return std::move(generations.front());
}

}  // namespace vkformer
