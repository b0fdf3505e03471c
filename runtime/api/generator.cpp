// SPDX-License-Identifier: MIT
#include "vkformer/generator.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>

#include "api/decoder_text.hpp"
#include "api/decoder_workload.hpp"
#include "api/open_backend.hpp"
#include "core/try.hpp"
#include "decoding/beam_session.hpp"
#include "decoding/decoder_session.hpp"
#include "models/open_model.hpp"
#include "text/tokenizer.hpp"

namespace vkformer {
namespace {

using decoding::FinishReason;

constexpr std::int32_t kNoToken = -1;

decoding::DecoderSessionOptions session_options(const GeneratorOptions& options, const graph::SampleOptions& sample) {
    return {.rows = options.batch,
            .context = options.context,
            .dtype = options.precision == Precision::f16 ? DType::f16 : DType::f32,
            .weights = options.weights == WeightStorage::model ? models::WeightFormat::as_filed
                                                               : models::WeightFormat::as_computed,
            .cache = options.cache == CacheStorage::q8_0 ? models::CacheFormat::q8_0 : models::CacheFormat::as_computed,
            .sample = sample};
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

api::OpenOptions open_options(const GeneratorOptions& options) {
    api::OpenOptions open{.device = options.device,
                          .plain = options.plain_shaders,
                          .variants = options.shader_variants,
                          .should_stop = options.should_stop};
    if (options.on_progress)
        open.progress = [report = options.on_progress](const tuning::Progress& p) { report(to_string(p)); };
    return open;
}

/// What one generation prints: tokens become text, and a stop string ends it.
struct Output {
    Output(const text::Tokenizer* tokenizer, const std::vector<std::string>& stop)
        : stream(tokenizer ? tokenizer->stream() : nullptr), stops(stop) {}

    std::unique_ptr<text::StreamDecoder> stream;  // null: there is no text
    text::StopStrings stops;
    std::string text;
    bool is_stopped = false;

    std::string push(std::int32_t token) { return stream ? take(stream->push(token)) : std::string(); }
    std::string take(std::string_view part) {
        auto output = stops.push(part);
        is_stopped = is_stopped || output.stop.has_value();
        text += output.text;
        return std::move(output.text);
    }
    /// What was held back for tokens that did not come.
    void finish() {
        if (stream) take(stream->finish());
        text += stops.finish();
    }
};

Finish finish_of(FinishReason reason, bool is_stopped) {
    if (is_stopped) return Finish::stop_string;
    switch (reason) {
    case FinishReason::stop: return Finish::end_token;
    case FinishReason::caller: return Finish::caller;
    case FinishReason::context: return Finish::context;
    default: return Finish::length;
    }
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
    std::unique_ptr<models::Decoder> model;  // the session points to it
    api::DecoderText text;
    api::OpenedBackend device;
    std::variant<decoding::DecoderSession, decoding::BeamSession> session;
    GenerationTimings timings;

    bool has_beams() const noexcept { return std::holds_alternative<decoding::BeamSession>(session); }
    const decoding::DecoderSessionOptions& session_options() const noexcept {
        return std::visit([](const auto& s) -> const decoding::DecoderSessionOptions& { return s.options(); }, session);
    }

    Result<void> set_rules(const graph::SampleOptions& sample, const decoding::Penalties& penalties) {
        if (auto* const one = std::get_if<decoding::DecoderSession>(&session))
            return one->set_sampling(sample, penalties);
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
        if (!asked.stop.empty())
            return invalid(
                "a beam search looks at whole sequences and cannot end at a text: leave out the stop texts, or the "
                "beams");
        if (!text.defaults.stop_strings.empty())
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
        const std::uint32_t min_tokens = asked.min_tokens.value_or(text.defaults.min_new_tokens);
        std::vector<std::int32_t> ends;
        if (min_tokens > 0 && !asked.ignore_end) ends = text.defaults.end_tokens;
        models::TokenRules rules = text.defaults.rules;
        if (asked.ignore_end) rules.forced_last = kNoToken;
        if (!wanted) {
            graph::SampleOptions sample = {.temperature = 0};
            if (!has_beams()) {
                VKFORMER_TRY(sample, text.defaults.sample);
            }
            return set_rules(sample, {.repetition = text.defaults.repetition_penalty,
                                      .no_repeat_ngram = text.defaults.no_repeat_ngram,
                                      .min_tokens = min_tokens,
                                      .ends = std::move(ends),
                                      .rules = std::move(rules)});
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
                          .rules = std::move(rules)});
    }

    /// 0: until the model ends or the context is full.
    Result<std::uint32_t> max_tokens(const GenerateOptions& asked, std::size_t prompt, std::size_t index) const {
        if (asked.max_tokens > 0) return asked.max_tokens;
        if (text.defaults.max_length == 0) return text.defaults.max_new_tokens;
        if (prompt < text.defaults.max_length) return text.defaults.max_length - static_cast<std::uint32_t>(prompt);
        return Error{.code = ErrorCode::InvalidArgument,
                     .message = "prompt " + std::to_string(index + 1) + " has " + std::to_string(prompt) +
                                " tokens, but the model's generation_config.json says \"max_length\" " +
                                std::to_string(text.defaults.max_length) +
                                ", which counts the prompt; say how many tokens to generate",
                     .hint = Hint::max_tokens};
    }

    const std::vector<std::string>& stops(const GenerateOptions& asked) const noexcept {
        return asked.stop.empty() ? text.defaults.stop_strings : asked.stop;
    }
    struct Continued {
        decoding::SequenceResult sequence;
        std::optional<float> score;
    };
    /// With beams `on_token` is told the tokens of what was found.
    Result<std::vector<Continued>> run(std::span<const decoding::Request> requests,
                                       const decoding::DecoderSession::OnToken& on_token) {
        std::vector<Continued> continued;
        if (auto* const one = std::get_if<decoding::DecoderSession>(&session)) {
            VKFORMER_TRY(auto results, one->run(requests, on_token));
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
                   .decode_steps = run.decode_steps};
    }

    bool is_end(std::int32_t token) const { return std::ranges::count(text.defaults.end_tokens, token) > 0; }
};

Generator::Generator(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;
Generator::~Generator() = default;

const std::string& Generator::device() const noexcept { return impl_->device.description; }
const GenerationTimings& Generator::timings() const noexcept { return impl_->timings; }
std::uint32_t Generator::context() const noexcept { return impl_->session_options().context; }

namespace {

Result<std::variant<decoding::DecoderSession, decoding::BeamSession>> open_session(
    graph::Backend& backend, const models::Decoder& model, decoding::DecoderSessionOptions options,
    const std::optional<decoding::BeamRules>& beams) {
    if (!beams) {
        VKFORMER_TRY(auto session, decoding::DecoderSession::create(backend, model, options));
        return std::variant<decoding::DecoderSession, decoding::BeamSession>(std::move(session));
    }
    options.sample = {.temperature = 0};  // what the model's folder says of drawing is for sequences that are drawn
    VKFORMER_TRY(auto session, decoding::BeamSession::create(backend, model, options, *beams));
    return std::variant<decoding::DecoderSession, decoding::BeamSession>(std::move(session));
}

}  // namespace

Result<Generator> Generator::load(const std::filesystem::path& path, const GeneratorOptions& options) {
    api::OpeningBackend opening(open_options(options));
    VKFORMER_TRY(const auto opened, models::open_decoder(path));
    VKFORMER_TRY(auto loaded, opened.load());
    auto model = std::make_unique<models::Decoder>(std::move(loaded));
    VKFORMER_TRY(auto text, api::load_decoder_text(opened, model->config().vocab_size));
    if (text.tokenizer && (*text.tokenizer)->vocab_size() > model->config().vocab_size)
        return Error{ErrorCode::ShapeMismatch,
                     path.string() + ": the tokenizer knows " + std::to_string((*text.tokenizer)->vocab_size()) +
                         " tokens, the model only " + std::to_string(model->config().vocab_size)};
    auto wanted = session_options(options, {.temperature = 0});
    VKFORMER_CHECK(model->check_cache(wanted.cache));  // before kernels are tried on the device
    VKFORMER_TRY(const auto beams, beam_rules(options.beam_search, text.defaults));
    VKFORMER_TRY(auto device, opening.get([&] {
        return api::decoder_workload(*model, session_options(options, {.temperature = 0}), beams);
    }));
    wanted.chunk_seconds = api::submit_seconds(*device.backend);
    VKFORMER_TRY(auto session, open_session(*device.backend, *model, wanted, beams));
    return Generator(std::unique_ptr<Impl>(new Impl{.options = options,
                                                    .model = std::move(model),
                                                    .text = std::move(text),
                                                    .device = std::move(device),
                                                    .session = std::move(session),
                                                    .timings = {}}));
}

Result<std::vector<std::int32_t>> Generator::tokenize(std::string_view text) const {
    if (!impl_->text.tokenizer) return impl_->text.tokenizer.error();
    return (*impl_->text.tokenizer)->encode(text);
}

bool Generator::has_tokenizer() const noexcept { return static_cast<bool>(impl_->text.tokenizer); }

Result<std::vector<Generation>> Generator::generate(std::span<const std::string> prompts,
                                                    const GenerateOptions& options, const OnText& on_text) {
    std::vector<std::vector<std::int32_t>> tokens;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        auto ids = tokenize(prompts[i]);
        if (!ids) {
            Error error = std::move(ids).error();
            error.message = "prompt " + std::to_string(i + 1) + ": " + error.message;
            return error;
        }
        tokens.push_back(*std::move(ids));
    }
    return generate_tokens(tokens, options, on_text);
}

Result<std::vector<Generation>> Generator::generate_tokens(std::span<const std::vector<std::int32_t>> prompts,
                                                           const GenerateOptions& options, const OnText& on_text) {
    VKFORMER_CHECK(impl_->check_beams(options));
    if (!has_tokenizer() && !impl_->stops(options).empty()) return impl_->text.tokenizer.error();
    VKFORMER_CHECK(impl_->set_sampling(options));
    std::vector<decoding::Request> requests;
    std::vector<Output> outputs;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        VKFORMER_TRY(const std::uint32_t max_tokens, impl_->max_tokens(options, prompts[i].size(), i));
        requests.push_back({.prompt = prompts[i], .max_tokens = max_tokens, .seed = options.seed + i});
        if (!options.ignore_end) requests.back().stop_tokens = impl_->text.defaults.end_tokens;
        outputs.emplace_back(impl_->text.tokenizer ? impl_->text.tokenizer->get() : nullptr, impl_->stops(options));
    }
    const auto on_token = [&](std::size_t index, std::int32_t token) {
        Output& output = outputs[index];
        const bool is_end = !options.ignore_end && impl_->is_end(token);
        const std::string part = is_end ? std::string() : output.push(token);
        const bool goes_on = !on_text || impl_->has_beams() || on_text(index, part, token);
        return goes_on && !output.is_stopped;
    };
    VKFORMER_TRY(auto results, impl_->run(requests, on_token));

    std::vector<Generation> generations;
    for (std::size_t i = 0; i < results.size(); ++i) {
        Output& output = outputs[i];
        const std::size_t told = impl_->has_beams() ? 0 : output.text.size();
        output.finish();
        if (on_text && output.text.size() > told) on_text(i, std::string_view(output.text).substr(told), kNoToken);
        generations.push_back({.text = std::move(output.text),
                               .tokens = std::move(results[i].sequence.tokens),
                               .finish = finish_of(results[i].sequence.finish, output.is_stopped),
                               .prompt_tokens = static_cast<std::uint32_t>(prompts[i].size()),
                               .reused_tokens = results[i].sequence.reused,
                               .score = results[i].score});
    }
    return generations;
}

Result<std::vector<std::int32_t>> Generator::tokenize_chat(std::span<const Message> messages) const {
    const Result<text::ChatTemplate>& chat_template = impl_->text.chat_template;
    if (!chat_template) return chat_template.error();
    std::vector<text::ChatMessage> conversation;
    for (const Message& message : messages) conversation.push_back({message.role, message.content});
    VKFORMER_TRY(const std::string prompt, chat_template->render(conversation));
    return (*impl_->text.tokenizer)->encode(prompt, {.add_special = false});
}

Result<Generation> Generator::chat(std::span<const Message> messages, const GenerateOptions& options,
                                   const OnText& on_text) {
    VKFORMER_TRY(const auto tokens, tokenize_chat(messages));
    VKFORMER_TRY(auto generations, generate_tokens({&tokens, 1}, options, on_text));
    return std::move(generations.front());
}

}  // namespace vkformer
