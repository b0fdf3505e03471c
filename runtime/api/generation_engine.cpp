// SPDX-License-Identifier: MIT
#include "vkformer/generation_engine.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "api/decoder_workload.hpp"
#include "api/language_model.hpp"
#include "core/try.hpp"
#include "decoding/batch_script.hpp"
#include "decoding/run_script.hpp"

namespace vkformer {
namespace {

using decoding::BatchScript;
using decoding::BatchSequence;

constexpr std::uint64_t kMostCacheTokens = std::uint64_t{1} << 30;
constexpr std::uint32_t kLeastChunk = decoding::DecoderSessionOptions::kSmallestChunk, kMostChunk = 4096;

/// So long may those wait who come while steps run.
constexpr double kSubmitSeconds = 0.01;

Error invalid(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

/// A request that the thread has, and what its tokens have become.
struct Request {
    api::GenerationText text;
    std::vector<std::int32_t> ends;  // empty: none ends it
    std::uint32_t prompt_tokens = 0;
    GenerationEngine::OnText on_text;
    GenerationEngine::OnEnd on_end;
    GenerationEngine::OnLogProbs on_log_probs;
    GenerationEngine::OnPrompt on_prompt;
    std::vector<StepLogProbs> log_probs{};
};

struct Submitted {
    GenerationEngine::Id id = 0;
    BatchSequence sequence;
    Request request;
};

Result<decoding::BatchOptions> batch_options(const models::Decoder& model, const api::LanguageModel& language,
                                             const EngineOptions& options) {
    const auto session = api::session_options(options.generator, {});
    if (options.cache_tokens > kMostCacheTokens)
        return invalid("a cache of " + std::to_string(options.cache_tokens) + " tokens was asked for, 1 to " +
                       std::to_string(kMostCacheTokens) + " are possible");
    if (options.prompt_chunk < kLeastChunk || options.prompt_chunk > kMostChunk)
        return invalid("chunks of " + std::to_string(options.prompt_chunk) + " tokens were asked for, " +
                       std::to_string(kLeastChunk) + " to " + std::to_string(kMostChunk) + " are possible");
    decoding::BatchOptions wanted = {.rows = session.rows,
                                     .context = session.context,
                                     .chunk = options.prompt_chunk,
                                     .dtype = session.dtype,
                                     .weights = session.weights,
                                     .cache = session.cache,
                                     .rules = language.text.defaults.rules,
                                     .ends = language.text.defaults.end_tokens,
                                     .guesses = options.prompt_lookup};
    if (language.text.defaults.no_repeat_ngram > 0)
        return Error{ErrorCode::UnsupportedConfig,
                     "the model's generation_config.json has \"no_repeat_ngram_size\", which a batch of many callers' "
                     "sequences does not know"};
    if (options.cache_tokens > 0)
        wanted.pages = static_cast<std::uint32_t>(graph::page_count(options.cache_tokens)) + 1;
    return decoding::checked_batch_options(model, wanted);
}

}  // namespace

struct GenerationEngine::Impl {
    Impl(EngineOptions asked, api::LanguageModel loaded, api::OpenedBackend opened,
         decoding::BatchOptions batch_options)
        : options(std::move(asked)),
          language(std::move(loaded)),
          device(std::move(opened)),
          batch(std::move(batch_options)),
          stores(*device.backend),
          script(
              *language.model, batch,
              [this](Id id, std::int32_t token, StepLogProbs* log_probs) { return told(id, token, log_probs); },
              [this](Id id, decoding::SequenceResult result) { ended(id, std::move(result)); },
              [this](Id id, const std::vector<StepLogProbs>& prompt) {
                  if (const auto& tell = requests.at(id).on_prompt) tell(prompt);
              }) {
        script.plan_for(device.backend->fusions());
        update_stats();
        thread = std::thread([this] {
            try {
                run();
            } catch (const std::bad_alloc&) {
                fail({ErrorCode::OutOfHostMemory, "there is not enough memory for what was asked of the engine"});
            }
        });
    }
    ~Impl() {
        {
            const std::scoped_lock lock(mutex);
            stops = true;
        }
        wake.notify_one();
        thread.join();
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    const EngineOptions options;
    const api::LanguageModel language;
    const api::OpenedBackend device;
    const decoding::BatchOptions batch;

    // What the callers and the thread share:
    mutable api::ConstraintCache constraints;
    mutable std::mutex mutex;
    std::condition_variable wake;
    bool stops = false;
    std::optional<Error> failure;  // nothing runs any more
    std::vector<Submitted> submitted;
    std::vector<Id> cancelled;
    Id next_id = 1;
    EngineStats stats;

    // The thread's own:
    decoding::SessionStores stores;
    BatchScript script;
    std::map<Id, Request> requests;
    std::vector<std::pair<OnEnd, Result<Generation>>> endings;  // to be told once the statistics have them
    std::thread thread;

    void run();
    bool take_submitted();
    void publish();
    void update_stats();
    void fail(const Error& error);
    bool told(Id id, std::int32_t token, StepLogProbs* log_probs);
    void ended(Id id, decoding::SequenceResult result);
    Result<BatchSequence> sequence(GenerationRequest request,
                                   const std::shared_ptr<constraints::TokenConstraint>& constraint) const;
};

// ---- the thread -----------------------------------------------------------------------------------------------------

void GenerationEngine::Impl::run() {
    decoding::StepQueue queue(decoding::StepQueue::Growth::by_time, *device.backend, kSubmitSeconds);
    while (take_submitted()) {
        auto job = script.next(queue.count());
        publish();  // some that waited run now
        if (job && !*job) continue;
        auto seconds = job ? decoding::run_job(script, **job, *device.backend, stores) : job.error();
        if (!seconds && job && script.pass_over(**job, seconds.error())) continue;
        if (!seconds) {
            fail(seconds.error());
            return;
        }
        if ((*job)->kind == decoding::Job::Kind::step) queue.took((*job)->runs, *seconds);
        publish();
    }
    fail({ErrorCode::Cancelled, "the engine was stopped"});
}

/// Waits for something to do; false: the engine ends.
bool GenerationEngine::Impl::take_submitted() {
    std::vector<Submitted> added;
    std::vector<Id> unwanted;
    {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stops || !submitted.empty() || !cancelled.empty() || !script.is_idle(); });
        if (stops) return false;
        added.swap(submitted);
        unwanted.swap(cancelled);
    }
    for (Submitted& one : added) {
        requests.emplace(one.id, std::move(one.request));
        script.add(one.id, std::move(one.sequence));
    }
    for (const Id id : unwanted) script.cancel(id);
    publish();
    return true;
}

/// The statistics as they are now; then whoever has come to an end is told.
void GenerationEngine::Impl::publish() {
    {
        const std::scoped_lock lock(mutex);
        update_stats();
    }
    for (auto& [on_end, generation] : std::exchange(endings, {})) on_end(std::move(generation));
}

void GenerationEngine::Impl::update_stats() {
    const decoding::BatchCounts& counts = script.counts();
    const decoding::PagePool& pages = script.pages();
    stats.prompt_tokens = counts.prompt_tokens;
    stats.reused_tokens = counts.reused_tokens;
    stats.tokens = counts.tokens;
    stats.steps = counts.steps;
    stats.preempted = counts.preempted;
    stats.guessed_tokens = counts.guessed_tokens;
    stats.accepted_tokens = counts.accepted_tokens;
    stats.running = static_cast<std::uint32_t>(script.running());
    stats.waiting = static_cast<std::uint32_t>(script.waiting() + submitted.size());
    stats.finished += endings.size();
    stats.pages = pages.size();
    stats.used_pages = pages.used();
    stats.kept_pages = pages.kept();
    if (script.kinds_of_pages() == 1) return;
    const decoding::PagePool& windows = script.pages(1);
    stats.window_pages = windows.size();
    stats.used_window_pages = windows.used();
    stats.kept_window_pages = windows.kept();
}

/// Ends everything that there is, and everything that may come. Who has no memory left to be told by is told nothing; the others are.
void GenerationEngine::Impl::fail(const Error& error) {
    const auto tell = [](const auto& on_end, auto&& result) {
        try {
            on_end(std::forward<decltype(result)>(result));
        } catch (const std::bad_alloc&) {
        }
    };
    std::vector<Submitted> left;
    {
        const std::scoped_lock lock(mutex);
        if (!failure) failure = error;
        left.swap(submitted);
        stats.finished = stats.requests;
        stats.running = stats.waiting = 0;
    }
    for (auto& [on_end, generation] : std::exchange(endings, {})) tell(on_end, std::move(generation));
    while (!requests.empty()) tell(requests.extract(requests.begin()).mapped().on_end, error);
    for (Submitted& one : left) tell(one.request.on_end, error);
}

bool GenerationEngine::Impl::told(Id id, std::int32_t token, StepLogProbs* log_probs) {
    Request& request = requests.at(id);
    if (log_probs) {
        if (request.on_log_probs) request.on_log_probs(*log_probs);
        request.log_probs.push_back(std::move(*log_probs));
    }
    const bool is_end = std::ranges::count(request.ends, token) > 0;
    const std::string part = is_end ? std::string() : request.text.push(token);
    const bool goes_on = !request.on_text || request.on_text(part, token);
    return goes_on && !request.text.is_stopped;
}

void GenerationEngine::Impl::ended(Id id, decoding::SequenceResult result) {
    constexpr std::int32_t kNoToken = -1;
    auto node = requests.extract(id);
    Request& request = node.mapped();
    const std::size_t told = request.text.text.size();
    request.text.finish();
    if (request.on_text && request.text.text.size() > told)
        request.on_text(std::string_view(request.text.text).substr(told), kNoToken);
    if (result.failure) {
        endings.emplace_back(std::move(request.on_end), *std::move(result.failure));
        return;
    }
    const Finish finish = api::finish_of(result.finish, request.text.is_stopped);
    endings.emplace_back(std::move(request.on_end), Generation{.text = std::move(request.text.text),
                                                               .tokens = std::move(result.tokens),
                                                               .finish = finish,
                                                               .prompt_tokens = request.prompt_tokens,
                                                               .reused_tokens = result.reused,
                                                               .score = {},
                                                               .log_probs = std::move(request.log_probs),
                                                               .stop = std::move(request.text.stopped_by)});
}

// ---- the callers ----------------------------------------------------------------------------------------------------

Result<BatchSequence> GenerationEngine::Impl::sequence(
    GenerationRequest request, const std::shared_ptr<constraints::TokenConstraint>& constraint) const {
    const GenerateOptions& asked = request.options;
    const models::DecoderDefaults& defaults = language.text.defaults;
    BatchSequence made;
    if (!request.is_prompt_alone) {
        VKFORMER_TRY(made.sequence.max_tokens, language.max_tokens(asked, request.prompt.size(), "the prompt"));
    }
    made.sequence.prompt = std::move(request.prompt);
    made.sequence.seed = asked.seed;
    VKFORMER_TRY(made.sequence.adapters, language.adapter_scales(asked.adapters));
    made.log_probs = asked.log_probs;
    made.prompt_log_probs = request.prompt_log_probs;
    made.is_prompt_alone = request.is_prompt_alone;
    if (made.is_prompt_alone && !made.prompt_log_probs)
        return invalid("a request for its prompt alone is one for its log-probabilities: set prompt_log_probs");
    if (asked.ignore_end) {
        if (defaults.rules.forced_last >= 0)
            return invalid("the model's generation_config.json forces its end token, which a request cannot ignore");
    } else {
        made.sequence.stop_tokens = defaults.end_tokens;
        if (!constraint) made.min_tokens = asked.min_tokens.value_or(defaults.min_new_tokens);
    }
    if (constraint) {
        made.sequence.constraint = std::make_shared<constraints::ConstrainedText>(constraint);
        VKFORMER_CHECK(
            made.sequence.constraint->allowed());  // here, where the caller can be told, and no other waits for it
    }
    if (asked.prompt_lookup > 0 || asked.draft_tokens.value_or(0) > 0)
        return invalid(
            "an engine guesses tokens for all its requests, by EngineOptions::prompt_lookup, and a draft model for none: "
            "leave prompt_lookup and draft_tokens out of the request");
    if (!asked.sampling) {
        VKFORMER_TRY(made.sample, defaults.sample);
        made.repetition = defaults.repetition_penalty;
    } else {
        const Sampling& wanted = *asked.sampling;
        if (wanted.no_repeat_ngram != 0)
            return invalid(
                "no_repeat_ngram is not a rule of one request: a batch of many callers' sequences does not know it");
        for (const auto& [token, bias] : wanted.logit_bias)
            if (std::ranges::any_of(defaults.rules.biases, [&](const graph::SequenceBias& rule) {
                    return rule.tokens.size() == 1 && rule.tokens[0] == token;
                }))
                return invalid("the bias of token " + std::to_string(token) +
                               " is set by the model's generation_config.json for all requests");
        made.sample = {
            .temperature = wanted.temperature, .top_k = wanted.top_k, .top_p = wanted.top_p, .min_p = wanted.min_p};
        made.repetition = wanted.repetition_penalty;
        made.presence = wanted.presence_penalty;
        made.frequency = wanted.frequency_penalty;
        made.bias = wanted.logit_bias;
    }
    VKFORMER_CHECK(script.check(made));
    return made;
}

Result<GenerationEngine::Id> GenerationEngine::submit(GenerationRequest request, OnText on_text, OnEnd on_end,
                                                      OnLogProbs on_log_probs, OnPrompt on_prompt) {
    const api::LanguageModel& language = impl_->language;
    VKFORMER_CHECK(api::check_stops(request.options));
    const auto& stops = language.stops(request.options);
    if (!stops.empty() && !language.tokenizer()) return language.text.tokenizer.error();
    VKFORMER_TRY(const auto constraint, language.constraint(request.options, impl_->constraints));
    Request told = {
        .text = api::GenerationText(language.tokenizer(), constraint.get(), stops, request.options.shows_special),
        .ends = request.options.ignore_end ? std::vector<std::int32_t>() : language.text.defaults.end_tokens,
        .prompt_tokens = static_cast<std::uint32_t>(request.prompt.size()),
        .on_text = std::move(on_text),
        .on_end = std::move(on_end),
        .on_log_probs = std::move(on_log_probs),
        .on_prompt = std::move(on_prompt)};
    VKFORMER_TRY(BatchSequence sequence, impl_->sequence(std::move(request), constraint));
    Id id = 0;
    {
        const std::scoped_lock lock(impl_->mutex);
        if (impl_->failure) return *impl_->failure;
        if (impl_->stats.waiting >= impl_->options.queue)
            return Error{ErrorCode::Cancelled, "the queue is full: " + std::to_string(impl_->stats.waiting) +
                                                   " requests wait; come back later"};
        id = impl_->next_id++;
        ++impl_->stats.requests;
        ++impl_->stats.waiting;
        impl_->submitted.push_back({.id = id, .sequence = std::move(sequence), .request = std::move(told)});
    }
    impl_->wake.notify_one();
    return id;
}

void GenerationEngine::cancel(Id id) {
    {
        const std::scoped_lock lock(impl_->mutex);
        if (impl_->failure) return;  // it has ended
        impl_->cancelled.push_back(id);
    }
    impl_->wake.notify_one();
}

std::optional<Error> GenerationEngine::failure() const {
    const std::scoped_lock lock(impl_->mutex);
    return impl_->failure;
}

EngineStats GenerationEngine::stats() const {
    const std::scoped_lock lock(impl_->mutex);
    return impl_->stats;
}

Result<GenerationEngine> GenerationEngine::load(const std::filesystem::path& path, const EngineOptions& options) {
    if (options.generator.beam_search.beams > 1)
        return invalid("an engine generates one sequence per request: leave out the beams");
    if (!options.generator.draft.empty() || options.generator.multi_token)
        return invalid(
            "a draft model or multi-token head guesses for one text at a time, which a Generator makes: leave it out");
    if (options.queue == 0)
        return invalid("an engine's queue holds one request at least: each waits there until it is taken");
    if (options.generator.should_stop)
        return invalid("an engine never asks should_stop: cancel() ends a request, and its destructor all");
    api::OpenOptions open = api::open_options(options.generator);
    open.lasts = true;
    api::OpeningBackend opening(std::move(open));
    VKFORMER_TRY(auto language, api::load_language_model(path, options.generator.adapters));
    const models::Decoder& model = *language.model;
    VKFORMER_TRY(auto batch, batch_options(model, language, options));
    VKFORMER_TRY(auto device, opening.get([&] {
        return api::decoder_workload(model, api::session_options(options.generator, {.temperature = 0}));
    }));
    return GenerationEngine(std::make_unique<Impl>(options, std::move(language), std::move(device), std::move(batch)));
}

GenerationEngine::GenerationEngine(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
GenerationEngine::GenerationEngine(GenerationEngine&&) noexcept = default;
GenerationEngine& GenerationEngine::operator=(GenerationEngine&&) noexcept = default;
GenerationEngine::~GenerationEngine() = default;

Result<std::vector<std::int32_t>> GenerationEngine::tokenize(std::string_view text) const {
    return impl_->language.tokenize(text);
}

Result<std::vector<std::int32_t>> GenerationEngine::tokenize_chat(std::span<const Message> messages,
                                                                  const ChatOptions& options) const {
    return impl_->language.tokenize_chat(messages, options);
}

Result<std::string> GenerationEngine::detokenize(std::span<const std::int32_t> tokens) const {
    const api::LanguageModel& language = impl_->language;
    if (!language.tokenizer()) return language.text.tokenizer.error();
    for (const std::int32_t token : tokens)
        VKFORMER_CHECK(decoding::check_token("a token of the text", token, language.tokenizer()->vocab_size()));
    return language.tokenizer()->decode(tokens);
}

std::function<std::string(std::int32_t)> GenerationEngine::stream(bool shows_special) const {
    const text::Tokenizer* const tokenizer = impl_->language.tokenizer();
    if (!tokenizer) return {};
    return [stream = std::shared_ptr(tokenizer->stream(!shows_special))](std::int32_t token) {
        return stream->push(token);
    };
}

std::string GenerationEngine::token_bytes(std::int32_t token) const {
    const text::Tokenizer* const tokenizer = impl_->language.tokenizer();
    return tokenizer ? tokenizer->bytes(token) : std::string();
}

bool GenerationEngine::is_end(std::int32_t token) const { return impl_->language.is_end(token); }

bool GenerationEngine::has_tokenizer() const noexcept { return impl_->language.tokenizer() != nullptr; }
bool GenerationEngine::has_chat_template() const noexcept { return bool{impl_->language.text.chat_template}; }
std::string_view GenerationEngine::chat_template() const noexcept {
    return has_chat_template() ? impl_->language.text.chat_template->source() : std::string_view();
}
std::uint32_t GenerationEngine::context() const noexcept { return impl_->batch.context; }
std::uint32_t GenerationEngine::prompt_lookup() const noexcept { return impl_->batch.guesses; }
const std::string& GenerationEngine::device() const noexcept { return impl_->device.description; }
const std::vector<std::string>& GenerationEngine::notes() const noexcept { return impl_->language.model->notes; }
DeviceMemory GenerationEngine::memory() const { return impl_->device.backend->memory(); }

}  // namespace vkformer
