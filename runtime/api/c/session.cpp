// SPDX-License-Identifier: MIT
#include <array>
#include <cmath>
#include <deque>
#include <utility>

#include "api/c/handles.hpp"
#include "core/try.hpp"
#include "decoding/sequence_script.hpp"
#include "guest/cpu_session.hpp"
#include "guest/sliced_session.hpp"

using namespace vkformer;

namespace {

using guest::CpuSession;
using guest::SessionState;
using guest::SlicedSession;

constexpr vkf_session_info kDefaultInfo = VKF_SESSION_INFO_INIT;

/// Command buffers of our own for steps, one for each slice that may be outstanding.
class Stepper {
public:
    static Result<std::unique_ptr<Stepper>> create(std::shared_ptr<vulkan::Device> device) {
        auto stepper = std::unique_ptr<Stepper>(new Stepper(std::move(device)));
        const vulkan::Device& d = *stepper->device_;
        const VkCommandPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                                .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                                .queueFamilyIndex = d.queue_family()};
        VkCommandPool pool = VK_NULL_HANDLE;
        if (const VkResult r = d.vk().vkCreateCommandPool(d.handle(), &pool_info, nullptr, &pool); r != VK_SUCCESS)
            return vulkan::vulkan_error(r, "vkCreateCommandPool", "preparing a session's steps");
        stepper->pool_ = vulkan::UniqueCommandPool(d.vk(), d.handle(), pool);
        const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .commandPool = pool,
                                               .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                               .commandBufferCount = SlicedSession::kMostSlices};
        if (const VkResult r = d.vk().vkAllocateCommandBuffers(d.handle(), &info, stepper->commands_.data());
            r != VK_SUCCESS)
            return vulkan::vulkan_error(r, "vkAllocateCommandBuffers", "preparing a session's steps");
        return stepper;
    }
    Stepper(const Stepper&) = delete;
    Stepper& operator=(const Stepper&) = delete;
    ~Stepper() {
        if (!submitted_.empty()) device_->drain(submitted_.back().value);
    }

    /// Records by `record`, which gives a slice or none, and submits what it recorded.
    Result<std::optional<guest::Slice>> step(auto&& record, const vulkan::SemaphorePoints& semaphores) {
        VkCommandBuffer commands = commands_[next_];
        const vulkan::DeviceTable& vk = device_->vk();
        const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                             .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
        if (const VkResult r = vk.vkBeginCommandBuffer(commands, &begin); r != VK_SUCCESS)
            return vulkan::vulkan_error(r, "vkBeginCommandBuffer", "recording a step");
        const std::optional<guest::Slice> slice = record(commands);
        if (const VkResult r = vk.vkEndCommandBuffer(commands); r != VK_SUCCESS)
            return vulkan::vulkan_error(r, "vkEndCommandBuffer", "recording a step");
        if (!slice || slice->ticket == 0) return slice;
        VKFORMER_TRY(const std::uint64_t value, device_->submit({&commands, 1}, semaphores));
        submitted_.push_back({slice->ticket, value});
        next_ = (next_ + 1) % commands_.size();
        return slice;
    }
    /// The ticket of the last step that is done; 0: none since the last call.
    Result<std::uint64_t> take_done() {
        VKFORMER_CHECK(device_->check_not_lost());  // even where the step that met the loss was never submitted
        std::uint64_t ticket = 0;
        while (!submitted_.empty()) {
            VKFORMER_TRY(const bool is_done, device_->wait_for(submitted_.front().value, 0));
            if (!is_done) break;
            ticket = submitted_.front().ticket;
            submitted_.pop_front();
        }
        return ticket;
    }
    Result<bool> wait(std::uint64_t timeout_ns) {
        VKFORMER_CHECK(device_->check_not_lost());
        if (submitted_.empty()) return true;
        return device_->wait_for(submitted_.back().value, timeout_ns);
    }
    bool is_idle() const noexcept { return submitted_.empty(); }
    void forget() noexcept { submitted_.clear(); }

private:
    explicit Stepper(std::shared_ptr<vulkan::Device> device) : device_(std::move(device)) {}

    struct Submitted {
        std::uint64_t ticket, value;
    };
    std::shared_ptr<vulkan::Device> device_;
    vulkan::UniqueCommandPool pool_;
    std::array<VkCommandBuffer, SlicedSession::kMostSlices> commands_{};
    std::size_t next_ = 0;
    std::deque<Submitted> submitted_;
};

Result<decoding::BeamRules> beams_of(const c::Model& model, const vkf_session_info& info) {
    if (info.beams == 0) {
        VKFORMER_TRY(const std::uint32_t beams, model.beams);
        return decoding::BeamRules{.beams = beams,
                                   .length_penalty = static_cast<float>(model.generation.length_penalty),
                                   .early_stopping = model.generation.early_stopping};
    }
    decoding::BeamRules rules = {.beams = info.beams, .length_penalty = info.length_penalty};
    if (!(std::abs(info.length_penalty) <= decoding::kMostLengthPenalty))
        return Error{ErrorCode::InvalidArgument, "vkf_session_info::length_penalty is " +
                                                     std::to_string(info.length_penalty) +
                                                     ", expected a number from −100 to 100"};
    switch (info.early_stopping) {
    case VKF_EARLY_STOPPING_HEURISTIC: return rules;
    case VKF_EARLY_STOPPING_ALWAYS: rules.early_stopping = graph::EarlyStopping::always; return rules;
    case VKF_EARLY_STOPPING_NEVER: rules.early_stopping = graph::EarlyStopping::never; return rules;
    case VKF_EARLY_STOPPING_MAX_ENUM: break;
    }
    return Error{ErrorCode::InvalidArgument, "vkf_session_info::early_stopping is " +
                                                 std::to_string(info.early_stopping) +
                                                 ", expected a value of vkf_early_stopping"};
}

/// What a session is made of, as often as it is made.
struct Recipe {
    decoding::SequenceOptions options;
    decoding::Penalties penalties;        // a decoder's
    models::GenerationConfig generation;  // an encoder–decoder's
    std::uint64_t seed = 0;
};

std::uint32_t rule_of(std::uint32_t asked, std::uint32_t in_files) {
    return asked == 0 ? in_files : asked == VKF_NO_RULE ? 0 : asked;
}

Result<void> take_rules(const c::Model& model, const vkf_session_info& info, Recipe& recipe) {
    constexpr float kMostPenalty = 1e3f;
    const auto outside = [](const char* member, const std::string& expected) {
        return Error{ErrorCode::InvalidArgument, std::string("vkf_session_info::") + member + " must be " + expected};
    };
    if (info.bias_count > 0 && !info.biases) return outside("biases", "given where bias_count is not 0");
    const std::span<const vkf_token_bias> biases(info.biases, info.bias_count);
    recipe.generation = model.generation;
    models::GenerationConfig& g = recipe.generation;
    g.no_repeat_ngram = rule_of(info.no_repeat_ngram, g.no_repeat_ngram);
    g.min_steps = rule_of(info.min_tokens, g.min_steps);
    const bool is_repetition = info.repetition_penalty == 0 ||
                               (info.repetition_penalty >= 1 / kMostPenalty && info.repetition_penalty <= kMostPenalty);
    if (!is_repetition) return outside("repetition_penalty", "0 or from 0.001 to 1000");
    if (!(std::abs(info.presence_penalty) <= kMostPenalty)) return outside("presence_penalty", "from −1000 to 1000");
    if (!(std::abs(info.frequency_penalty) <= kMostPenalty)) return outside("frequency_penalty", "from −1000 to 1000");
    if (!model.decoder()) {
        const bool has_none = (info.repetition_penalty == 0 || info.repetition_penalty == 1) &&
                              info.presence_penalty == 0 && info.frequency_penalty == 0;
        if (!has_none)
            return outside("repetition_penalty and its like", "left alone: they are for decoder-only models");
        for (const vkf_token_bias& bias : biases) {
            g.rules.drop_bias(bias.token);
            g.rules.biases.push_back({.tokens = {bias.token}, .bias = bias.bias});
        }
        return {};
    }
    decoding::Penalties& penalties = recipe.penalties;
    penalties = {.repetition = info.repetition_penalty == 0 ? model.repetition_penalty : info.repetition_penalty,
                 .presence = info.presence_penalty,
                 .frequency = info.frequency_penalty,
                 .no_repeat_ngram = g.no_repeat_ngram,
                 .min_tokens = g.min_steps,
                 .ends = model.end_tokens,
                 .rules = g.rules};
    for (const vkf_token_bias& bias : biases) {
        penalties.rules.drop_bias(bias.token);
        if (!penalties.bias.try_emplace(bias.token, bias.bias).second)
            return Error{ErrorCode::InvalidArgument, "the biases have two of token " + std::to_string(bias.token)};
    }
    return {};
}

Result<Recipe> recipe_of(const c::Model& model, const vkf_session_info& info) {
    if (!model.decoder() && !model.encoder_decoder())
        return Error{ErrorCode::UnsupportedConfig,
                     "a session generates text, which encoders do not; vkf_model_pass runs this model"};
    VKFORMER_TRY(const DType dtype, c::activation_dtype(info.dtype, "vkf_session_info::dtype"));
    if (!model.generation.stop_strings.empty())
        return Error{ErrorCode::UnsupportedConfig,
                     "generation_config.json has \"stop_strings\", but a session hands out tokens and ends at no text; "
                     "take them out of the file"};
    Recipe recipe = {.seed = info.seed};
    decoding::SequenceOptions& options = recipe.options;
    options.context = info.context;
    options.dtype = dtype;
    if (info.source_capacity > 0) options.source_capacity = info.source_capacity;
    if (info.chunk > 0) options.chunk = info.chunk;
    options.weights = info.weights_as_filed ? models::WeightFormat::as_filed : models::WeightFormat::as_computed;
    if (info.cache_q8_0) {
        if (!model.decoder())
            return Error{ErrorCode::InvalidArgument,
                         "vkf_session_info::cache_q8_0 is for decoder-only models, not for encoder-decoders"};
        options.cache = models::CacheFormat::q8_0;
    }
    options.sample = {.temperature = info.temperature, .top_k = info.top_k, .top_p = info.top_p, .min_p = info.min_p};
    VKFORMER_TRY(options.beams, beams_of(model, info));
    VKFORMER_CHECK(take_rules(model, info, recipe));
    return recipe;
}

Result<std::unique_ptr<decoding::SequenceScript>> script_of(const c::Model& model, const Recipe& recipe) {
    if (const auto* const decoder = model.decoder())
        return decoding::make_sequence_script(*decoder, recipe.penalties, model.end_tokens, recipe.options);
    return decoding::make_sequence_script(*model.encoder_decoder(), recipe.generation, recipe.options);
}

}  // namespace

struct vkf_session {
    std::shared_ptr<c::Model> model;
    Recipe recipe;
    std::uint64_t first_ticket = 1;
    std::unique_ptr<guest::Session> sequence;  // null: evicted
    SlicedSession* sliced = nullptr;           // the same, on Vulkan
    CpuSession* computed = nullptr;            // the same, on VKF_DEVICE_CPU
    std::unique_ptr<Stepper> stepper;          // null without a queue. Waits for its steps before `sequence` goes

    // The sequence, which outlives an eviction: its tokens before the last one, and what is left of its limit.
    std::vector<std::int32_t> prompt, earlier;
    std::uint32_t max_tokens = 0;
    std::vector<float> begun_adapters;                     // scales of the model's, of the sequence
    std::vector<float> adapters;                           // scales of the model's, of what begins from now on
    float score = 0;                                       // of `earlier`, where beams found it
    SessionState state_when_evicted = SessionState::idle;  // idle once a sequence has begun since

    /// The text as far as it has been asked for, so that asking again costs what is new.
    struct Text {
        std::unique_ptr<text::StreamDecoder> stream;
        std::vector<std::int32_t> tokens;
        std::string text;
    };
    mutable Text text;
    std::string text_so_far(const text::Tokenizer& tokenizer) const;

    std::vector<std::int32_t> tokens() const;
    Result<void> make(vkf_progress_function progress, void* user);
    Result<void> begin(std::vector<std::int32_t> read, std::uint32_t limit, std::uint32_t answered = 0);
    Result<void> retire_done();
    /// The same where the sequence at hand is left: what failed of it is nobody's concern.
    Result<void> leave_sequence();
};

/// A decoder goes on from its tokens. An encoder–decoder begins anew: until it has caught up, the earlier ones are its tokens.
std::vector<std::int32_t> vkf_session::tokens() const {
    std::vector<std::int32_t> all = earlier;
    if (!sequence) return all;
    const auto now = sequence->tokens();
    if (model->decoder())
        all.insert(all.end(), now.begin(), now.end());
    else if (now.size() >= all.size())
        all.assign(now.begin(), now.end());
    return all;
}

std::string vkf_session::text_so_far(const text::Tokenizer& tokenizer) const {
    const auto all = tokens();
    const SessionState state = sequence ? sequence->state() : state_when_evicted;
    if (state == SessionState::done || state == SessionState::idle) return tokenizer.decode(all);
    const bool goes_on = text.stream && text.tokens.size() <= all.size() &&
                         std::equal(text.tokens.begin(), text.tokens.end(), all.begin());
    if (!goes_on) text = {.stream = tokenizer.stream(), .tokens = {}, .text = {}};
    for (std::size_t i = text.tokens.size(); i < all.size(); ++i) text.text += text.stream->push(all[i]);
    text.tokens = all;
    return text.text;
}

Result<void> vkf_session::make(vkf_progress_function progress, void* user) {
    guest::Progress tell;
    if (progress) tell = [progress, user](std::uint32_t done, std::uint32_t total) { progress(user, done, total); };
    VKFORMER_TRY(auto script, script_of(*model, recipe));
    auto weights = model->weights(recipe.options.dtype, recipe.options.weights);
    vulkan::VulkanBackend* const backend = model->device->vulkan();
    if (!backend) {
        VKFORMER_TRY(auto made, CpuSession::create(model->device->backend(), std::move(script), std::move(weights),
                                                   first_ticket, tell));
        computed = made.get();
        sequence = std::move(made);
        return {};
    }
    std::unique_ptr<Stepper> made_stepper;
    if (backend->can_submit()) {
        VKFORMER_TRY(made_stepper, Stepper::create(backend->device()));
    }
    VKFORMER_TRY(auto made,
                 SlicedSession::create(*backend, std::move(script),
                                       std::static_pointer_cast<vulkan::VulkanStore>(weights), first_ticket, tell));
    sliced = made.get();
    sequence = std::move(made);
    stepper = std::move(made_stepper);
    return {};
}

Result<void> vkf_session::begin(std::vector<std::int32_t> read, std::uint32_t limit, std::uint32_t answered) {
    return sequence->begin({.prompt = std::move(read),
                            .max_tokens = limit,
                            .stop_tokens = model->end_tokens,
                            .seed = recipe.seed,
                            .answered = answered,
                            .adapters = begun_adapters});
}

Result<void> vkf_session::retire_done() {
    if (!stepper) return {};
    VKFORMER_TRY(const std::uint64_t ticket, stepper->take_done());
    if (ticket > 0) VKFORMER_CHECK(sequence->retire(ticket));
    return {};
}

Result<void> vkf_session::leave_sequence() {
    auto done = retire_done();
    if (!done && done.error().code == ErrorCode::NotANumber) return {};
    return done;
}

namespace {

Error evicted() { return {ErrorCode::InvalidArgument, "the session is evicted; reload it first"}; }

Error outstanding_error(const guest::Session& session) {
    return {ErrorCode::InvalidArgument, "slices are outstanding (" + std::to_string(session.outstanding()) +
                                            "); retire them, or cancel the sequence"};
}

vkf_session_state state_of(const vkf_session& session) {
    if (!session.sequence) return VKF_SESSION_EVICTED;
    switch (session.sequence->state()) {
    case SessionState::idle:
        return session.state_when_evicted == SessionState::done ? VKF_SESSION_DONE : VKF_SESSION_IDLE;
    case SessionState::prompt: return VKF_SESSION_PROMPT;
    case SessionState::generating: return VKF_SESSION_GENERATING;
    case SessionState::done: return VKF_SESSION_DONE;
    }
    return VKF_SESSION_IDLE;
}

vkf_result write_slice(vkf_slice* target, const std::optional<guest::Slice>& slice) {
    if (!slice) return VKF_NOT_READY;
    vkf_slice answer = VKF_SLICE_INIT;
    answer.ticket = slice->ticket;
    answer.dispatches = slice->dispatches;
    answer.tokens = slice->tokens;
    answer.expected_us = slice->expected_us;
    answer.exceeds = slice->exceeds ? VK_TRUE : VK_FALSE;
    return c::write_struct(target, answer, "vkf_slice");
}

}  // namespace

const char* vkf_session_state_string(vkf_session_state state) {
    switch (state) {
    case VKF_SESSION_IDLE: return "idle";
    case VKF_SESSION_PROMPT: return "prompt";
    case VKF_SESSION_GENERATING: return "generating";
    case VKF_SESSION_DONE: return "done";
    case VKF_SESSION_EVICTED: return "evicted";
    case VKF_SESSION_STATE_MAX_ENUM: break;
    }
    return "?";
}

vkf_result vkf_session_query_memory(vkf_model* model, const vkf_session_info* info, vkf_session_memory* memory) {
    if (!model) return c::invalid("model is required");
    return c::guarded([&]() -> vkf_result {
        const auto given = c::read_struct(info, kDefaultInfo, "vkf_session_info");
        if (!given) return c::fail(given.error());
        c::Model& m = *model->model;
        const auto recipe = recipe_of(m, *given);
        if (!recipe) return c::fail(recipe.error());
        const auto script = script_of(m, *recipe);
        if (!script) return c::fail(script.error());
        const auto weights = m.weights(recipe->options.dtype, recipe->options.weights);
        vulkan::VulkanBackend* const backend = m.device->vulkan();
        const auto needs =
            backend ? SlicedSession::memory_needs(*backend, **script, static_cast<const vulkan::VulkanStore&>(*weights))
                    : CpuSession::memory_needs(**script);
        if (!needs) return c::fail(needs.error());
        vkf_session_memory answer = VKF_SESSION_MEMORY_INIT;
        answer.weights = needs->weights;
        answer.states = needs->states;
        answer.activations = needs->activations;
        answer.total = needs->total();
        return c::write_struct(memory, answer, "vkf_session_memory");
    });
}

vkf_result vkf_session_create(vkf_model* model, const vkf_session_info* info, vkf_progress_function progress,
                              void* progress_user, vkf_session** session) {
    if (!model || !session) return c::invalid("model and session are required");
    return c::guarded([&]() -> Result<void> {
        VKFORMER_TRY(const auto given, c::read_struct(info, kDefaultInfo, "vkf_session_info"));
        auto made = std::make_unique<vkf_session>();
        made->model = model->model;
        VKFORMER_TRY(made->recipe, recipe_of(*model->model, given));
        VKFORMER_CHECK(made->make(progress, progress_user));
        *session = made.release();
        return {};
    });
}

void vkf_session_destroy(vkf_session* session) { delete session; }

vkf_result vkf_session_begin(vkf_session* session, const int32_t* tokens, size_t count, uint32_t max_tokens) {
    if (!session || (!tokens && count > 0)) return c::invalid("session and tokens are required");
    return c::guarded([&]() -> Result<void> {
        if (!session->sequence) return evicted();
        constexpr std::size_t kMostTokens = std::size_t{1} << 28;
        if (count > kMostTokens)
            return Error{ErrorCode::InvalidArgument,
                         "the sequence begins with " + std::to_string(count) + " tokens, which no context holds"};
        std::vector<std::int32_t> prompt(tokens, tokens + count);
        VKFORMER_CHECK(session->leave_sequence());
        std::vector<float> before = std::exchange(session->begun_adapters, session->adapters);
        if (auto begun = session->begin(std::move(prompt), max_tokens); !begun) {
            session->begun_adapters = std::move(before);
            return begun;
        }
        session->prompt.assign(tokens, tokens + count);
        session->earlier.clear();
        session->score = 0;
        session->max_tokens = max_tokens;
        session->state_when_evicted = SessionState::idle;
        return {};
    });
}

vkf_result vkf_session_set_adapters(vkf_session* session, uint32_t count, const float* scales) {
    if (!session || (!scales && count > 0)) return c::invalid("session and scales are required");
    return c::guarded([&]() -> Result<void> {
        const models::Decoder* const decoder = session->model->decoder();
        if (!decoder) return Error{ErrorCode::InvalidArgument, "only decoders have adapters"};
        VKFORMER_CHECK(decoder->check_adapters({scales, count}));
        session->adapters.assign(scales, scales + count);
        return {};
    });
}

vkf_result vkf_session_record(vkf_session* session, VkCommandBuffer commands, uint32_t max_gpu_us, vkf_slice* slice) {
    if (!session || !commands || !slice) return c::invalid("session, commands and slice are required");
    return c::guarded([&]() -> vkf_result {
        if (const auto target = c::check_target(slice, "vkf_slice"); !target) return c::fail(target.error());
        if (!session->sequence) return c::fail(evicted());
        if (const auto vulkan = session->model->device->need_vulkan("to record a session"); !vulkan)
            return c::fail(vulkan.error());
        if (session->stepper && !session->stepper->is_idle())
            return c::invalid("steps are outstanding: a session is recorded or stepped, not both at the same time");
        return write_slice(slice, session->sliced->record(commands, max_gpu_us));
    });
}

vkf_result vkf_session_retire(vkf_session* session, uint64_t ticket) {
    if (!session) return c::invalid("session is required");
    return c::guarded([&]() -> Result<void> {
        if (!session->sequence) return evicted();
        return session->sequence->retire(ticket);
    });
}

vkf_result vkf_session_step(vkf_session* session, uint32_t max_gpu_us, const vkf_submit_info* info, vkf_slice* slice) {
    if (!session || !slice) return c::invalid("session and slice are required");
    return c::guarded([&]() -> vkf_result {
        if (const auto target = c::check_target(slice, "vkf_slice"); !target) return c::fail(target.error());
        if (!session->sequence) return c::fail(evicted());
        const auto submission = c::submission_of(*session->model->device, info);
        if (!submission) return c::fail(submission.error());
        if (submission->should_stop)
            return c::invalid(
                "vkf_submit_info::should_stop is not for vkf_session_step: who wants to stop asks for no slice more");
        if (session->computed) {
            const auto made = session->computed->step(max_gpu_us);
            return made ? write_slice(slice, *made) : c::fail(made.error());
        }
        if (!session->stepper)
            return c::fail(
                {ErrorCode::MissingFeature,
                 "the device was adopted without a queue: record the session, or adopt the device with one"});
        if (const auto retired = session->retire_done(); !retired) return c::fail(retired.error());
        if (session->stepper->is_idle() && session->sequence->outstanding() > 0)
            return c::fail(outstanding_error(*session->sequence));
        if (session->sequence->outstanding() >= VKF_MAX_SLICES) return VKF_NOT_READY;
        const auto made = session->stepper->step(
            [&](VkCommandBuffer commands) { return session->sliced->record(commands, max_gpu_us); },
            submission->semaphores);
        if (!made) return c::fail(made.error());
        return write_slice(slice, *made);
    });
}

vkf_result vkf_session_wait(vkf_session* session, uint64_t timeout_ns) {
    if (!session) return c::invalid("session is required");
    return c::guarded([&]() -> vkf_result {
        if (!session->sequence || !session->stepper) return VKF_SUCCESS;
        const auto done = session->stepper->wait(timeout_ns);
        if (!done) return c::fail(done.error());
        if (const auto retired = session->retire_done(); !retired) return c::fail(retired.error());
        return *done ? VKF_SUCCESS : timeout_ns == 0 ? VKF_NOT_READY : VKF_TIMEOUT;
    });
}

vkf_result vkf_session_poll(vkf_session* session, vkf_session_status* status) {
    if (!session) return c::invalid("session is required");
    return c::guarded([&]() -> vkf_result {
        if (session->sequence)
            if (const auto retired = session->retire_done(); !retired) return c::fail(retired.error());
        vkf_session_status answer = VKF_SESSION_STATUS_INIT;
        answer.state = state_of(*session);
        answer.prompt_tokens = static_cast<uint32_t>(session->prompt.size());
        answer.generated_tokens = static_cast<uint32_t>(session->tokens().size());
        answer.score = session->score;
        if (session->sequence) {
            answer.computed_tokens = std::min(session->sequence->computed_prompt(), answer.prompt_tokens);
            answer.outstanding = session->sequence->outstanding();
            answer.last_gpu_us = session->sequence->last_us();
            answer.total_gpu_us = session->sequence->total_us();
            if (session->earlier.empty()) answer.score = session->sequence->score();
        }
        return c::write_struct(status, answer, "vkf_session_status");
    });
}

vkf_result vkf_session_tokens(const vkf_session* session, size_t* count, int32_t* tokens) {
    if (!session) return c::invalid("session is required");
    return c::guarded([&] {
        const auto all = session->tokens();
        return c::write_array(std::span<const int32_t>(all), count, tokens);
    });
}

vkf_result vkf_session_text(const vkf_session* session, size_t* bytes, char* text) {
    if (!session) return c::invalid("session is required");
    return c::guarded([&]() -> vkf_result {
        const auto& tokenizer = session->model->tokenizer;
        if (!tokenizer) return c::fail(tokenizer.error());
        return c::write_text(session->text_so_far(**tokenizer), bytes, text);
    });
}

vkf_result vkf_session_cancel(vkf_session* session) {
    if (!session) return c::invalid("session is required");
    return c::guarded([&]() -> Result<void> {
        Result<void> result;
        if (session->stepper) {
            if (auto done = session->stepper->wait(UINT64_MAX); !done) result = done.error();
            if (result) result = session->leave_sequence();
            session->stepper->forget();
        }
        if (session->sequence) session->sequence->cancel();
        session->state_when_evicted = SessionState::idle;
        return result;
    });
}

vkf_result vkf_session_evict(vkf_session* session, uint64_t* freed) {
    if (!session) return c::invalid("session is required");
    return c::guarded([&]() -> Result<void> {
        if (freed) *freed = 0;
        if (!session->sequence) return {};
        VKFORMER_CHECK(session->retire_done());
        if (session->sequence->outstanding() > 0) return outstanding_error(*session->sequence);
        session->text = {};
        const vulkan::VulkanBackend* const backend = session->model->device->vulkan();
        const auto used = [backend] { return backend ? backend->device()->allocator().used() : 0; };
        const std::uint64_t before = used();
        if (session->earlier.empty()) session->score = session->sequence->score();
        session->earlier = session->tokens();
        // One that was made again for a session that was done has nothing to do.
        if (session->sequence->state() != SessionState::idle) session->state_when_evicted = session->sequence->state();
        session->first_ticket = session->sequence->last_ticket() + 1;
        session->stepper.reset();
        session->sequence.reset();
        session->sliced = nullptr;
        session->computed = nullptr;
        if (freed) *freed = before - used();
        return {};
    });
}

vkf_result vkf_session_reload(vkf_session* session, vkf_progress_function progress, void* progress_user) {
    if (!session) return c::invalid("session is required");
    return c::guarded([&]() -> Result<void> {
        if (session->sequence) return {};
        VKFORMER_CHECK(session->make(progress, progress_user));
        const bool goes_on = session->state_when_evicted == SessionState::prompt ||
                             session->state_when_evicted == SessionState::generating;
        if (!goes_on) return {};
        if (!session->model->decoder()) return session->begin(session->prompt, session->max_tokens);
        std::vector<std::int32_t> read = session->prompt;
        read.insert(read.end(), session->earlier.begin(), session->earlier.end());
        const auto done = static_cast<std::uint32_t>(session->earlier.size());
        return session->begin(std::move(read), session->max_tokens > 0 ? session->max_tokens - done : 0, done);
    });
}
