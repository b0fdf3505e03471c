// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "api/c/common.hpp"
#include "api/c/constraint.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "vkformer/generation_engine.hpp"

using namespace vkformer;

namespace {

constexpr vkf_engine_options kDefaultOptions = VKF_ENGINE_OPTIONS_INIT;
constexpr vkf_engine_request kDefaultRequest = VKF_ENGINE_REQUEST_INIT;
constexpr vkf_sampling kDefaultSampling = VKF_SAMPLING_INIT;
constexpr vkf_chat_options kDefaultChat = VKF_CHAT_OPTIONS_INIT;

/// A request that goes on: whom its callbacks tell, and by what its end is waited for.
class Asked {
public:
    Asked(vkf_engine& engine, const vkf_engine_request& request)
        : user(request.user),
          on_text(request.on_text),
          on_log_probs(request.on_log_probs),
          on_prompt(request.on_prompt),
          on_end(request.on_end),
          engine_(&engine) {}
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;
    /// With the last callback: also of a request that was not taken, or that there was no memory to end.
    ~Asked() { leave(); }

    void enter();
    void leave() noexcept;                ///< nobody waits for it any more
    const Asked& calls() const noexcept;  ///< this one, whose callbacks the engine's thread is about to call

    void* const user;
    const decltype(vkf_engine_request::on_text) on_text;
    const decltype(vkf_engine_request::on_log_probs) on_log_probs;
    const decltype(vkf_engine_request::on_prompt) on_prompt;
    const decltype(vkf_engine_request::on_end) on_end;
    std::uint64_t id = 0;  ///< 0 until it was taken. Under vkf_engine::mutex

private:
    vkf_engine* engine_;
};

}  // namespace

struct vkf_engine {
    explicit vkf_engine(GenerationEngine made) : chat_template(made.chat_template()), engine(std::move(made)) {}

    std::mutex mutex;
    std::condition_variable has_ended;
    std::vector<const Asked*> going_on;
    std::string chat_template;
    GenerationEngine engine;  // goes first: requests that it ends then are told by the rest
};

namespace {

/// The engine whose callbacks this thread has run: each has a thread of its own.
thread_local const vkf_engine* told_by = nullptr;

void Asked::enter() {
    const std::scoped_lock lock(engine_->mutex);
    engine_->going_on.push_back(this);
}

const Asked& Asked::calls() const noexcept {
    told_by = engine_;
    return *this;
}

void Asked::leave() noexcept {
    const std::scoped_lock lock(engine_->mutex);
    std::erase(engine_->going_on, this);
    engine_->has_ended.notify_all();
}

// ---- from C to C++ --------------------------------------------------------------------------------------------------

/// Not inlined where it is called twice.
std::filesystem::path path_of(const std::string& text) { return utf8_path(text); }

void read(const vkf_engine_options& given, EngineOptions& options, c::Arguments& arguments) {
    options.cache_tokens = given.cache_tokens;
    options.prompt_chunk = given.prompt_chunk;
    options.queue = given.queue;
    options.prompt_lookup = given.prompt_lookup;
    GeneratorOptions& generator = options.generator;
    if (given.device) generator.device = arguments.text(given.device, "vkf_engine_options::device");
    generator.batch = given.sequences;
    generator.context = given.context;
    if (given.dtype != VKF_F32 && given.dtype != VKF_F16)
        arguments.refuse("vkf_engine_options::dtype", " is neither VKF_F32 nor VKF_F16");
    if (given.dtype == VKF_F16) generator.precision = Precision::f16;
    if (!given.weights_as_filed) generator.weights = WeightStorage::precision;
    if (given.cache_q8_0) generator.cache = CacheStorage::q8_0;
    generator.plain_shaders = given.plain_shaders != VK_FALSE;
    generator.offload.bytes = given.offload_bytes;
    for (const vkf_adapter& adapter :
         arguments.array(given.adapters, given.adapter_count, "vkf_engine_options::adapters"))
        generator.adapters.push_back({arguments.text(adapter.name, "vkf_adapter::name"),
                                      path_of(arguments.text(adapter.path, "vkf_adapter::path"))});
    for (const vkf_variant& variant :
         arguments.array(given.named_variants, given.named_variant_count, "vkf_engine_options::named_variants"))
        if (!generator.shader_variants
                 .try_emplace(arguments.text(variant.op, "vkf_variant::op"),
                              arguments.text(variant.variant, "vkf_variant::variant"))
                 .second)
            arguments.refuse("vkf_engine_options::named_variants", " has two variants for one op");
    if (given.on_progress)
        generator.on_progress = [tell = given.on_progress, user = given.user](const std::string& message) {
            tell(user, message.empty() ? nullptr : message.c_str());
        };
}

void read(const vkf_sampling& given, Sampling& sampling, c::Arguments& arguments) {
    sampling.temperature = given.temperature;
    sampling.top_k = given.top_k;
    sampling.top_p = given.top_p;
    sampling.min_p = given.min_p;
    sampling.repetition_penalty = given.repetition_penalty;
    sampling.presence_penalty = given.presence_penalty;
    sampling.frequency_penalty = given.frequency_penalty;
    for (const vkf_token_bias& bias : arguments.array(given.biases, given.bias_count, "vkf_sampling::biases"))
        if (!sampling.logit_bias.try_emplace(bias.token, bias.bias).second)
            arguments.refuse("vkf_sampling::biases", " has two for one token");
}

void read(const vkf_engine_request& given, GenerationRequest& request, c::Arguments& arguments) {
    GenerateOptions& options = request.options;
    const auto prompt = arguments.array(given.prompt, given.prompt_count, "vkf_engine_request::prompt");
    request.prompt.assign(prompt.begin(), prompt.end());
    options.max_tokens = given.max_tokens;
    if (given.min_tokens > 0) options.min_tokens = given.min_tokens == VKF_NO_RULE ? 0 : given.min_tokens;
    options.seed = given.seed;
    for (const char* const stop : arguments.array(given.stops, given.stop_count, "vkf_engine_request::stops"))
        options.stop.push_back(arguments.text(stop, "one of vkf_engine_request::stops"));
    options.ignore_end = given.ignore_end != VK_FALSE;
    options.shows_special = given.shows_special != VK_FALSE;
    if (given.constraint) options.constraint = given.constraint->constraint;
    for (const vkf_adapter_scale& adapter :
         arguments.array(given.adapters, given.adapter_count, "vkf_engine_request::adapters"))
        if (!options.adapters.try_emplace(arguments.text(adapter.name, "vkf_adapter_scale::name"), adapter.scale)
                 .second)
            arguments.refuse("vkf_engine_request::adapters", " names one twice");
    if (given.likeliest > 0 && !given.log_probs)
        arguments.refuse("vkf_engine_request::likeliest", " is told with log_probs alone");
    if (given.prompt_likeliest > 0 && !given.prompt_log_probs)
        arguments.refuse("vkf_engine_request::prompt_likeliest", " is told with prompt_log_probs alone");
    if (given.log_probs) options.log_probs = given.likeliest;
    if (given.prompt_log_probs) request.prompt_log_probs = given.prompt_likeliest;
    request.is_prompt_alone = given.is_prompt_alone != VK_FALSE;
}

// ---- from C++ to C --------------------------------------------------------------------------------------------------

/// Steps with what they point to.
struct Steps {
    explicit Steps(std::span<const StepLogProbs> given) : likeliest(count(given)), steps(given.size()) {
        vkf_token_log_prob* next = likeliest.data();
        for (std::size_t i = 0; i < given.size(); ++i) {
            const StepLogProbs& step = given[i];
            steps[i] = {.chosen = in_c(step.chosen),
                        .likeliest = next,
                        .likeliest_count = static_cast<std::uint32_t>(step.likeliest.size())};
            next = std::ranges::transform(step.likeliest, next, in_c).out;
        }
    }
    static std::size_t count(std::span<const StepLogProbs> given) {
        std::size_t all = 0;
        for (const StepLogProbs& step : given) all += step.likeliest.size();
        return all;
    }
    static vkf_token_log_prob in_c(const TokenLogProb& one) { return {one.token, one.log_prob}; }

    std::vector<vkf_token_log_prob> likeliest;
    std::vector<vkf_step_log_probs> steps;
};

void tell_end(const Asked& asked, const Result<Generation>& result) {
    if (!result) {
        asked.on_end(asked.user, c::fail(result.error()), nullptr);
        return;
    }
    const Steps log_probs(result->log_probs);
    const vkf_generation generation = {.struct_size = sizeof(vkf_generation),
                                       .finish = static_cast<vkf_finish>(result->finish),
                                       .text = result->text.c_str(),
                                       .text_bytes = result->text.size(),
                                       .tokens = result->tokens.data(),
                                       .token_count = result->tokens.size(),
                                       .log_probs = log_probs.steps.data(),
                                       .prompt_tokens = result->prompt_tokens,
                                       .reused_tokens = result->reused_tokens};
    asked.on_end(asked.user, VKF_SUCCESS, &generation);
}
static_assert(static_cast<int>(Finish::end_token) == VKF_FINISH_END_TOKEN &&
              static_cast<int>(Finish::stop_string) == VKF_FINISH_STOP_STRING &&
              static_cast<int>(Finish::length) == VKF_FINISH_LENGTH &&
              static_cast<int>(Finish::context) == VKF_FINISH_CONTEXT &&
              static_cast<int>(Finish::caller) == VKF_FINISH_CALLER);

/// 0: the queue is full.
Result<std::uint64_t> submit(vkf_engine& engine, const vkf_engine_request& given) {
    if (given.prompt && given.prompt_count > engine.engine.context())  // before so many are read
        return Error{ErrorCode::InvalidArgument, "the prompt has " + std::to_string(given.prompt_count) +
                                                     " tokens, the context holds " +
                                                     std::to_string(engine.engine.context())};
    c::Arguments arguments;
    GenerationRequest request;
    read(given, request, arguments);
    if (given.sampling) {
        VKFORMER_TRY(const auto sampling, c::read_struct(given.sampling, kDefaultSampling, "vkf_sampling"));
        read(sampling, request.options.sampling.emplace(), arguments);
    }
    VKFORMER_CHECK(arguments.check());
    // The end's function keeps it for the others, which come before.
    const auto asked = std::make_shared<Asked>(engine, given);
    asked->enter();
    Asked* const told = asked.get();
    GenerationEngine::OnText on_text;
    GenerationEngine::OnLogProbs on_log_probs;
    GenerationEngine::OnPrompt on_prompt;
    if (given.on_text)
        on_text = [told](std::string_view text, std::int32_t token) {
            return told->calls().on_text(told->user, std::string(text).c_str(), text.size(), token) != VK_FALSE;
        };
    if (given.on_log_probs)
        on_log_probs = [told](const StepLogProbs& step) {
            told->calls().on_log_probs(told->user, Steps({&step, 1}).steps.data());
        };
    if (given.on_prompt)
        on_prompt = [told](std::span<const StepLogProbs> given_steps) {
            const Steps all(given_steps);
            told->calls().on_prompt(told->user, all.steps.size(), all.steps.data());
        };
    auto id = engine.engine.submit(
        std::move(request), std::move(on_text),
        [asked](const Result<Generation>& result) {
            if (asked->on_end) {
                try {
                    tell_end(asked->calls(), result);
                } catch (const std::bad_alloc&) {  // for what it points to: nothing was told yet
                    asked->on_end(asked->user, VKF_ERROR_OUT_OF_HOST_MEMORY, nullptr);
                }
            }
            asked->leave();
        },
        std::move(on_log_probs), std::move(on_prompt));
    if (!id) {
        const bool is_full = id.error().code == ErrorCode::Cancelled && !engine.engine.failure();
        return is_full ? Result<std::uint64_t>(0) : std::move(id);
    }
    const std::scoped_lock lock(engine.mutex);
    asked->id = *id;
    return id;
}

}  // namespace

vkf_result vkf_engine_load(const char* path, const vkf_engine_options* options, vkf_engine** engine) {
    if (!path || !engine) return c::invalid("path and engine are required");
    return c::guarded([&]() -> Result<void> {
        VKFORMER_TRY(const auto given, c::read_struct(options, kDefaultOptions, "vkf_engine_options"));
        c::Arguments arguments;
        EngineOptions asked;
        read(given, asked, arguments);
        VKFORMER_CHECK(arguments.check());
        VKFORMER_TRY(auto made, GenerationEngine::load(path_of(path), asked));
        *engine = new vkf_engine(std::move(made));
        return {};
    });
}

void vkf_engine_destroy(vkf_engine* engine) { delete engine; }

vkf_result vkf_engine_query(const vkf_engine* engine, vkf_engine_properties* properties) {
    if (!engine) return c::invalid("engine is required");
    return c::guarded([&] {
        vkf_engine_properties answer = VKF_ENGINE_PROPERTIES_INIT;
        answer.context = engine->engine.context();
        answer.has_tokenizer = engine->engine.has_tokenizer();
        answer.has_chat_template = engine->engine.has_chat_template();
        return c::write_struct(properties, answer, "vkf_engine_properties");
    });
}

const char* vkf_engine_device(const vkf_engine* engine) { return engine ? engine->engine.device().c_str() : ""; }

const char* vkf_engine_chat_template(const vkf_engine* engine) { return engine ? engine->chat_template.c_str() : ""; }

const char* vkf_engine_note(const vkf_engine* engine, uint32_t index) {
    return engine && index < engine->engine.notes().size() ? engine->engine.notes()[index].c_str() : nullptr;
}

vkf_result vkf_engine_tokenize(const vkf_engine* engine, const char* text, size_t text_bytes, size_t* count,
                               int32_t* tokens) {
    if (!engine || (!text && text_bytes > 0)) return c::invalid("engine and text are required");
    return c::guarded([&]() -> vkf_result {
        const auto ids = engine->engine.tokenize({text, text_bytes});
        if (!ids) return c::fail(ids.error());
        return c::write_array(std::span(*ids), count, tokens);
    });
}

vkf_result vkf_engine_tokenize_chat(const vkf_engine* engine, uint32_t message_count, const vkf_message* messages,
                                    const vkf_chat_options* options, size_t* count, int32_t* tokens) {
    if (!engine) return c::invalid("engine is required");
    return c::guarded([&]() -> vkf_result {
        const auto ids = [&]() -> Result<std::vector<std::int32_t>> {
            VKFORMER_TRY(const auto given, c::read_struct(options, kDefaultChat, "vkf_chat_options"));
            c::Arguments arguments;
            std::vector<Message> conversation;
            for (const vkf_message& message : arguments.array(messages, message_count, "messages"))
                conversation.push_back({arguments.text(message.role, "vkf_message::role"),
                                        arguments.text(message.content, "vkf_message::content"),
                                        arguments.optional_text(message.further, "vkf_message::further")});
            const ChatOptions chat = {
                .variables = arguments.optional_text(given.variables, "vkf_chat_options::variables"),
                .continues_last = given.continues_last != VK_FALSE,
                .answer_prefix = arguments.optional_text(given.answer_prefix, "vkf_chat_options::answer_prefix")};
            VKFORMER_CHECK(arguments.check());
            return engine->engine.tokenize_chat(conversation, chat);
        }();
        if (!ids) return c::fail(ids.error());
        return c::write_array(std::span(*ids), count, tokens);
    });
}

vkf_result vkf_engine_detokenize(const vkf_engine* engine, const int32_t* tokens, size_t count, size_t* bytes,
                                 char* text) {
    if (!engine || (!tokens && count > 0)) return c::invalid("engine and tokens are required");
    return c::guarded([&]() -> vkf_result {
        const auto found = engine->engine.detokenize({tokens, count});
        return found ? c::write_text(*found, bytes, text) : c::fail(found.error());
    });
}

vkf_result vkf_engine_token_bytes(const vkf_engine* engine, int32_t token, size_t* bytes, char* text) {
    if (!engine) return c::invalid("engine is required");
    return c::guarded([&] { return c::write_text(engine->engine.token_bytes(token), bytes, text); });
}

const char* vkf_finish_string(vkf_finish finish) {
    switch (finish) {
    case VKF_FINISH_END_TOKEN: return "end_token";
    case VKF_FINISH_STOP_STRING: return "stop_string";
    case VKF_FINISH_LENGTH: return "length";
    case VKF_FINISH_CONTEXT: return "context";
    case VKF_FINISH_CALLER: return "caller";
    case VKF_FINISH_MAX_ENUM: break;
    }
    return "?";
}

vkf_result vkf_engine_submit(vkf_engine* engine, const vkf_engine_request* request, uint64_t* id) {
    if (!engine || !request) return c::invalid("engine and request are required");
    return c::guarded([&]() -> vkf_result {
        const auto given = c::read_struct(request, kDefaultRequest, "vkf_engine_request");
        if (!given) return c::fail(given.error());
        const auto taken = submit(*engine, *given);
        if (!taken) return c::fail(taken.error());
        if (*taken == 0) return VKF_NOT_READY;
        if (id) *id = *taken;
        return VKF_SUCCESS;
    });
}

vkf_result vkf_engine_cancel(vkf_engine* engine, uint64_t id) {
    if (!engine) return c::invalid("engine is required");
    return c::guarded([&]() -> Result<void> {
        engine->engine.cancel(id);
        return {};
    });
}

vkf_result vkf_engine_wait(vkf_engine* engine, uint64_t id, uint64_t timeout_ns) {
    if (!engine) return c::invalid("engine is required");
    if (told_by == engine) return c::invalid("a callback cannot wait for its engine, which waits for it");
    return c::guarded([&] {
        constexpr std::uint64_t kLongest = std::uint64_t{1} << 62;
        std::unique_lock lock(engine->mutex);
        const bool has_ended =
            engine->has_ended.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, kLongest)), [&] {
                return std::ranges::none_of(engine->going_on,
                                            [&](const Asked* asked) { return id == 0 || asked->id == id; });
            });
        return has_ended ? VKF_SUCCESS : timeout_ns == 0 ? VKF_NOT_READY : VKF_TIMEOUT;
    });
}

vkf_result vkf_engine_failure(const vkf_engine* engine) {
    if (!engine) return c::invalid("engine is required");
    return c::guarded([&] {
        const auto failure = engine->engine.failure();
        return failure ? c::fail(*failure) : VKF_SUCCESS;
    });
}

vkf_result vkf_engine_query_stats(const vkf_engine* engine, vkf_engine_stats* stats) {
    if (!engine) return c::invalid("engine is required");
    return c::guarded([&] {
        const EngineStats now = engine->engine.stats();
        const vkf_engine_stats answer = {.struct_size = 0,
                                         .requests = now.requests,
                                         .finished = now.finished,
                                         .prompt_tokens = now.prompt_tokens,
                                         .reused_tokens = now.reused_tokens,
                                         .tokens = now.tokens,
                                         .steps = now.steps,
                                         .guessed_tokens = now.guessed_tokens,
                                         .accepted_tokens = now.accepted_tokens,
                                         .preempted = now.preempted,
                                         .running = now.running,
                                         .waiting = now.waiting,
                                         .pages = now.pages,
                                         .used_pages = now.used_pages,
                                         .kept_pages = now.kept_pages,
                                         .window_pages = now.window_pages,
                                         .used_window_pages = now.used_window_pages,
                                         .kept_window_pages = now.kept_window_pages};
        return c::write_struct(stats, answer, "vkf_engine_stats");
    });
}

vkf_result vkf_engine_query_memory(const vkf_engine* engine, vkf_engine_memory* memory) {
    if (!engine) return c::invalid("engine is required");
    return c::guarded([&] {
        const DeviceMemory now = engine->engine.memory();
        const vkf_engine_memory answer = {.struct_size = 0,
                                          .weights = now.weights,
                                          .caches = now.caches,
                                          .other = now.other,
                                          .budget = now.budget.value_or(0)};
        return c::write_struct(memory, answer, "vkf_engine_memory");
    });
}
