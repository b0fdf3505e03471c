// SPDX-License-Identifier: MIT
/// The C interface of the engine and of constraints: what the C++ one gives, and what it refuses.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "models/adapter_case.hpp"
#include "support/backends.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/vkf.hpp"
#include "vkformer/generation_engine.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using VkfEngine = std::unique_ptr<vkf_engine, Destroyer<vkf_engine_destroy>>;
using VkfConstraint = std::unique_ptr<vkf_constraint, Destroyer<vkf_constraint_destroy>>;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

std::string text_model() { return (goldens_dir() / "decoder_text").string(); }

vkf_engine_options engine_options(const char* device = VKF_DEVICE_CPU) {
    vkf_engine_options options = VKF_ENGINE_OPTIONS_INIT;
    options.device = device;
    options.plain_shaders = VK_TRUE;
    return options;
}

VkfEngine make_engine(const vkf_engine_options& options, const std::string& path = text_model()) {
    vkf_engine* engine = nullptr;
    succeed(vkf_engine_load(path.c_str(), &options, &engine));
    return VkfEngine(engine);
}

VkfConstraint regex(const char* expression) {
    vkf_constraint* constraint = nullptr;
    succeed(vkf_constraint_regex(expression, &constraint));
    return VkfConstraint(constraint);
}

std::vector<std::int32_t> engine_tokens(const vkf_engine& engine, const std::string& text) {
    std::size_t count = 0;
    succeed(vkf_engine_tokenize(&engine, text.data(), text.size(), &count, nullptr));
    std::vector<std::int32_t> tokens(count);
    succeed(vkf_engine_tokenize(&engine, text.data(), text.size(), &count, tokens.data()));
    return tokens;
}

vkf_engine_stats stats_of(const vkf_engine& engine) {
    vkf_engine_stats stats = VKF_ENGINE_STATS_INIT;
    succeed(vkf_engine_query_stats(&engine, &stats));
    return stats;
}

StepLogProbs step_of(const vkf_step_log_probs& told) {
    StepLogProbs step = {.chosen = {told.chosen.token, told.chosen.log_prob}, .likeliest = {}};
    for (std::uint32_t i = 0; i < told.likeliest_count; ++i)
        step.likeliest.push_back({told.likeliest[i].token, told.likeliest[i].log_prob});
    return step;
}

/// What the callbacks of a request are told, as the C++ interface has it.
struct Told {
    std::string streamed;
    std::vector<StepLogProbs> steps, prompt;
    std::optional<vkf_result> end;
    std::string message;  // where it failed
    Generation generation;

    /// The callbacks tell this one.
    void hear(vkf_engine_request& request) {
        request.user = this;
        request.on_text = [](void* user, const char* text, std::size_t bytes, std::int32_t) -> VkBool32 {
            static_cast<Told*>(user)->streamed.append(text, bytes);
            return text[bytes] == '\0' ? VK_TRUE : VK_FALSE;
        };
        request.on_log_probs = [](void* user, const vkf_step_log_probs* step) {
            static_cast<Told*>(user)->steps.push_back(step_of(*step));
        };
        request.on_prompt = [](void* user, std::size_t count, const vkf_step_log_probs* of_prompt) {
            for (std::size_t i = 0; i < count; ++i) static_cast<Told*>(user)->prompt.push_back(step_of(of_prompt[i]));
        };
        request.on_end = [](void* user, vkf_result result, const vkf_generation* made) {
            static_cast<Told*>(user)->take(result, made);
        };
    }
    void take(vkf_result result, const vkf_generation* made) {
        end = result;
        if (result != VKF_SUCCESS) {
            message = made ? "there is a generation" : vkf_error_message();
            return;
        }
        generation.text.assign(made->text, made->text_bytes);
        generation.tokens.assign(made->tokens, made->tokens + made->token_count);
        generation.finish = static_cast<Finish>(made->finish);
        generation.prompt_tokens = made->prompt_tokens;
        generation.reused_tokens = made->reused_tokens;
        for (std::size_t i = 0; made->log_probs && i < made->token_count; ++i)
            generation.log_probs.push_back(step_of(made->log_probs[i]));
    }
};

void check_steps(const std::vector<StepLogProbs>& found, const std::vector<StepLogProbs>& expected) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].chosen.token == expected[i].chosen.token);
        CHECK(std::abs(found[i].chosen.log_prob - expected[i].chosen.log_prob) < 2e-4);
        REQUIRE(found[i].likeliest.size() == expected[i].likeliest.size());
        for (std::size_t k = 0; k < found[i].likeliest.size(); ++k)
            CHECK(std::abs(found[i].likeliest[k].log_prob - expected[i].likeliest[k].log_prob) < 2e-4);
    }
}

/// A request for both interfaces, with what the C one points to.
struct Twin {
    GenerationRequest request;
    std::vector<const char*> stops{};
    std::vector<vkf_token_bias> biases{};
    vkf_sampling sampling = VKF_SAMPLING_INIT;

    vkf_engine_request in_c(const vkf_constraint* constraint = nullptr) {
        const GenerateOptions& options = request.options;
        vkf_engine_request made = VKF_ENGINE_REQUEST_INIT;
        made.prompt = request.prompt.data();
        made.prompt_count = request.prompt.size();
        made.max_tokens = options.max_tokens;
        if (options.min_tokens) made.min_tokens = *options.min_tokens == 0 ? VKF_NO_RULE : *options.min_tokens;
        stops.clear();
        for (const std::string& stop : options.stop) stops.push_back(stop.c_str());
        made.stops = stops.data();
        made.stop_count = static_cast<std::uint32_t>(stops.size());
        if (options.sampling) {
            const Sampling& wanted = *options.sampling;
            biases.clear();
            for (const auto& [token, bias] : wanted.logit_bias) biases.push_back({token, bias});
            sampling.temperature = wanted.temperature;
            sampling.top_k = wanted.top_k;
            sampling.top_p = wanted.top_p;
            sampling.min_p = wanted.min_p;
            sampling.repetition_penalty = wanted.repetition_penalty;
            sampling.presence_penalty = wanted.presence_penalty;
            sampling.frequency_penalty = wanted.frequency_penalty;
            sampling.biases = biases.data();
            sampling.bias_count = static_cast<std::uint32_t>(biases.size());
            made.sampling = &sampling;
        }
        made.seed = options.seed;
        made.ignore_end = options.ignore_end;
        made.shows_special = options.shows_special;
        made.constraint = constraint;
        made.log_probs = options.log_probs.has_value();
        made.likeliest = options.log_probs.value_or(0);
        made.prompt_log_probs = request.prompt_log_probs.has_value();
        made.prompt_likeliest = request.prompt_log_probs.value_or(0);
        made.is_prompt_alone = request.is_prompt_alone;
        return made;
    }
};

constexpr const char* kWord = "[a-z]{3}( and| or)? \\w{12}";

/// One of each kind of what may be asked; the last is constrained by kWord.
std::vector<GenerateOptions> kinds() {
    std::vector<GenerateOptions> kinds(10, {.max_tokens = 20, .ignore_end = true});
    kinds[1].sampling = Sampling{.temperature = 0.9f, .top_k = 30};
    kinds[1].seed = 11;
    kinds[2].sampling = Sampling{.temperature = 1.1f, .top_p = 0.8f};
    kinds[2].seed = std::uint64_t{1} << 40;
    kinds[3].sampling = Sampling{.temperature = 1, .min_p = 0.02f};
    kinds[4].sampling = Sampling{.repetition_penalty = 1.3f, .presence_penalty = 0.3f, .frequency_penalty = 0.2f};
    kinds[5].stop = {"~", "@"};  // the second is in the text of the first kind
    kinds[6].log_probs = 3;
    kinds[7].ignore_end = false;
    kinds[7].min_tokens = 9;
    kinds[8].shows_special = true;
    kinds[8].sampling = Sampling{};
    for (std::int32_t token = 0; token < 290; token += 3) kinds[8].sampling->logit_bias[token] = -kInfinity;
    kinds[9] = {.max_tokens = 100, .sampling = Sampling{.temperature = 1}, .seed = 5, .log_probs = 0};
    return kinds;
}

}  // namespace

TEST_CASE("the C interface's engine answers as the C++ one, of two threads", "[api][c][engine]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    if (!takes_case(device, 2)) return;
    EngineOptions options;
    options.generator.device = device;
    options.generator.plain_shaders = true;
    options.generator.batch = 6;
    auto plain = must(GenerationEngine::load(goldens_dir() / "decoder_text", options));
    const std::vector<std::string> texts = {"the cat", "it was the best of times, it was the worst of times"};
    std::vector<Twin> asked;
    std::vector<Generation> expected;
    for (const GenerateOptions& kind : kinds())
        for (const std::string& text : texts) {
            Twin& twin = asked.emplace_back();
            twin.request = {.prompt = must(plain.tokenize(text)), .options = kind};
            GenerationRequest constrained = twin.request;
            if (asked.size() > 18) constrained.options.constraint = must(Constraint::regex(kWord));
            std::promise<Result<Generation>> end;
            must(plain.submit(constrained, {}, [&](Result<Generation> made) { end.set_value(std::move(made)); }));
            expected.push_back(must(end.get_future().get()));
        }
    // What is to be compared differs.
    for (std::size_t i = 2; i < expected.size(); i += 2)
        if (i != 12 && i != 14) CHECK(expected[i].text != expected[0].text);
    CHECK(expected[10].finish == Finish::stop_string);

    vkf_engine_options c_options = engine_options(device.c_str());
    c_options.sequences = 6;
    const VkfEngine engine = make_engine(c_options);
    VkfConstraint constraint = regex(kWord);
    std::vector<Told> told(asked.size());
    std::vector<std::uint64_t> ids(asked.size());
    std::vector<vkf_result> results(asked.size(), VKF_NOT_READY);
    const auto submit = [&](std::size_t first) {
        for (std::size_t i = first; i < asked.size(); i += 2) {
            vkf_engine_request request = asked[i].in_c(i >= 18 ? constraint.get() : nullptr);
            told[i].hear(request);
            results[i] = vkf_engine_submit(engine.get(), &request, &ids[i]);
            if (i % 4 == 0 && results[i] == VKF_SUCCESS) results[i] = vkf_engine_wait(engine.get(), ids[i], UINT64_MAX);
        }
    };
    std::thread other(submit, 1);
    submit(0);
    other.join();
    constraint.reset();  // requests keep what they need
    succeed(vkf_engine_wait(engine.get(), 0, UINT64_MAX));
    for (std::size_t i = 0; i < told.size(); ++i) {
        CAPTURE(i, told[i].message);
        CHECK((results[i] == VKF_SUCCESS && ids[i] > 0));
        CHECK(told[i].end == VKF_SUCCESS);
        const Generation& found = told[i].generation;
        CHECK(found.text == expected[i].text);
        CHECK(found.tokens == expected[i].tokens);
        CHECK(found.finish == expected[i].finish);
        CHECK(found.prompt_tokens == expected[i].prompt_tokens);
        CHECK(told[i].streamed == found.text);
        check_steps(found.log_probs, expected[i].log_probs);
        check_steps(told[i].steps, expected[i].log_probs);
    }
    const vkf_engine_stats stats = stats_of(*engine);
    CHECK((stats.requests == 20 && stats.finished == 20 && stats.running == 0 && stats.waiting == 0));
    CHECK(stats.tokens == plain.stats().tokens);
    CHECK((stats.steps > 0 && stats.steps < plain.stats().steps));
    CHECK(stats.prompt_tokens + stats.reused_tokens == plain.stats().prompt_tokens + plain.stats().reused_tokens);
    CHECK(
        (stats.pages == plain.stats().pages && stats.used_pages == 0 && stats.kept_pages == plain.stats().kept_pages));
    CHECK((stats.guessed_tokens == 0 && stats.accepted_tokens == 0 && stats.preempted == 0));
    vkf_engine_memory memory = VKF_ENGINE_MEMORY_INIT;
    succeed(vkf_engine_query_memory(engine.get(), &memory));
    CHECK(static_cast<double>(memory.weights) ==
          Approx(static_cast<double>(plain.memory().weights)).epsilon(0.02));  // with a step's constants
    CHECK((memory.caches > 0 && (device == "cpu" || memory.other > 0)));
    CHECK((memory.budget > 0) == plain.memory().budget.has_value());
    CHECK(vkf_engine_device(engine.get()) == plain.device());
    CHECK(vkf_engine_failure(engine.get()) == VKF_SUCCESS);
}

TEST_CASE("the C interface's engine tells how likely a prompt is", "[api][c][engine][log_probs]") {
    auto plain = must(GenerationEngine::load(goldens_dir() / "decoder_text",
                                             {.generator = {.device = "cpu", .plain_shaders = true}}));
    const VkfEngine engine = make_engine(engine_options());
    Twin twin;
    twin.request = {.prompt = must(plain.tokenize("the cat and the dog and the cat")),
                    .options = {.max_tokens = 3, .ignore_end = true},
                    .prompt_log_probs = 2};
    std::vector<StepLogProbs> expected;
    std::promise<void> end;
    must(plain.submit(
        twin.request, {}, [&](const Result<Generation>&) { end.set_value(); }, {},
        [&](std::span<const StepLogProbs> steps) { expected.assign(steps.begin(), steps.end()); }));
    end.get_future().wait();
    for (const bool is_alone : {false, true}) {
        twin.request.is_prompt_alone = is_alone;
        vkf_engine_request request = twin.in_c();
        Told told;
        told.hear(request);
        std::uint64_t id = 0;
        succeed(vkf_engine_submit(engine.get(), &request, &id));
        succeed(vkf_engine_wait(engine.get(), id, UINT64_MAX));
        CHECK(told.generation.tokens.size() == (is_alone ? 0 : 3));
        CHECK((told.steps.empty() && told.generation.log_probs.empty()));
        check_steps(told.prompt, expected);
        CHECK(told.prompt.size() + 1 == twin.request.prompt.size());
    }
}

TEST_CASE("the C interface's engine has adapters, float16 and guesses as its options say", "[api][c][engine]") {
    const std::string base = (goldens_dir() / "decoders" / "llama_gqa_odd").string();
    const std::string first = adapter_folder("llama_gqa_odd").string(),
                      second = adapter_folder("llama_gqa_odd_second").string();
    const vkf_adapter adapters[] = {{"first", first.c_str()}, {"second", second.c_str()}};
    vkf_engine_options options = engine_options();
    options.adapters = adapters;
    options.adapter_count = 2;
    options.prompt_lookup = 5;
    options.context = 100;
    options.cache_tokens = 640;
    const VkfEngine engine = make_engine(options, base);
    CHECK(stats_of(*engine).pages == 10);
    vkf_engine_properties properties = VKF_ENGINE_PROPERTIES_INIT;
    succeed(vkf_engine_query(engine.get(), &properties));
    CHECK((properties.context == 100 && !properties.has_tokenizer && !properties.has_chat_template));
    CHECK(std::string(vkf_engine_chat_template(engine.get())).empty());
    const nlohmann::json goldens[] = {read_json(adapter_folder("llama_gqa_odd") / "greedy.json"),
                                      read_json(adapter_folder("llama_gqa_odd_second") / "greedy.json")};
    for (const std::size_t which : {0u, 1u}) {
        const auto prompt = goldens[which]["prompt"].get<std::vector<std::int32_t>>();
        auto expected = goldens[which]["continuation"].get<std::vector<std::int32_t>>();
        expected.resize(8);
        const vkf_adapter_scale scale = {adapters[which].name, 1};
        vkf_engine_request request = VKF_ENGINE_REQUEST_INIT;
        request.prompt = prompt.data();
        request.prompt_count = prompt.size();
        request.max_tokens = 8;
        request.ignore_end = VK_TRUE;
        request.adapters = &scale;
        request.adapter_count = 1;
        Told told;
        told.hear(request);
        succeed(vkf_engine_submit(engine.get(), &request, nullptr));
        succeed(vkf_engine_wait(engine.get(), 0, UINT64_MAX));
        CHECK(told.generation.tokens == expected);
        CHECK((told.generation.text.empty() && told.streamed.empty()));
    }
    for (int i = 0; i < 20 && stats_of(*engine).guessed_tokens == 0; ++i) {  // a busy machine may need more of them
        const std::vector<std::int32_t> repeated(40, 5);
        vkf_engine_request request = VKF_ENGINE_REQUEST_INIT;
        request.prompt = repeated.data();
        request.prompt_count = repeated.size();
        request.ignore_end = VK_TRUE;
        request.max_tokens = 50;
        succeed(vkf_engine_submit(engine.get(), &request, nullptr));
        succeed(vkf_engine_wait(engine.get(), 0, UINT64_MAX));
    }
    CHECK(stats_of(*engine).guessed_tokens > 0);

    // The processor computes in float32 all the same.
    for (const std::string& device : vulkan_device_indices()) {
        const auto memory_with = [&](vkf_dtype dtype) {
            vkf_engine_options asked = engine_options(device.c_str());
            asked.dtype = dtype;
            asked.weights_as_filed = VK_FALSE;
            const VkfEngine made = make_engine(asked);
            const auto prompt = engine_tokens(*made, "a");
            vkf_engine_request request = VKF_ENGINE_REQUEST_INIT;
            request.prompt = prompt.data();
            request.prompt_count = prompt.size();
            request.max_tokens = 2;
            succeed(vkf_engine_submit(made.get(), &request, nullptr));
            succeed(vkf_engine_wait(made.get(), 0, UINT64_MAX));
            vkf_engine_memory memory = VKF_ENGINE_MEMORY_INIT;
            succeed(vkf_engine_query_memory(made.get(), &memory));
            return memory;
        };
        const vkf_engine_memory whole = memory_with(VKF_F32), half = memory_with(VKF_F16);
        CAPTURE(device);
        CHECK((half.weights < whole.weights && half.caches < whole.caches));
    }
}

TEST_CASE("requests of the C interface's engine are waited for, cancelled and end with it", "[api][c][engine]") {
    vkf_engine_options options = engine_options();
    options.sequences = 1;
    options.queue = 0;  // which would take no request, ever
    vkf_engine* refused = nullptr;
    CHECK(vkf_engine_load(text_model().c_str(), &options, &refused) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(vkf_error_message(), ContainsSubstring("queue"));
    options.queue = 1;
    VkfEngine engine = make_engine(options);
    const auto prompt = engine_tokens(*engine, "the");
    /// Holds the engine's thread at its first token.
    struct Gate {
        vkf_engine* engine;
        std::promise<void> begun;
        std::atomic<bool> is_open = false;
        bool is_first = true;
        vkf_result waited = VKF_SUCCESS;
        std::string message;
        std::optional<vkf_finish> finish;
        ~Gate() { is_open = true; }
    } gate{.engine = engine.get()};
    vkf_engine_request request = VKF_ENGINE_REQUEST_INIT;
    request.prompt = prompt.data();
    request.prompt_count = prompt.size();
    request.ignore_end = VK_TRUE;
    vkf_engine_request first = request;
    first.user = &gate;
    first.on_text = [](void* user, const char*, std::size_t, std::int32_t) -> VkBool32 {
        Gate& held = *static_cast<Gate*>(user);
        if (!std::exchange(held.is_first, false)) return VK_TRUE;
        held.waited = vkf_engine_wait(held.engine, 0, 0);
        held.message = vkf_error_message();
        held.begun.set_value();
        while (!held.is_open) std::this_thread::yield();
        return VK_TRUE;
    };
    first.on_end = [](void* user, vkf_result, const vkf_generation* made) {
        if (made) static_cast<Gate*>(user)->finish = made->finish;
    };
    std::uint64_t running = 0, waiting = 0, none = 77;
    succeed(vkf_engine_submit(engine.get(), &first, &running));
    gate.begun.get_future().wait();
    CHECK(gate.waited == VKF_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(gate.message, ContainsSubstring("callback"));
    Told told;
    told.hear(request);
    succeed(vkf_engine_submit(engine.get(), &request, &waiting));
    CHECK(waiting != running);
    Told untold;
    untold.hear(request);
    CHECK(vkf_engine_submit(engine.get(), &request, &none) == VKF_NOT_READY);  // the queue is full
    CHECK(none == 77);
    CHECK(vkf_engine_wait(engine.get(), waiting, 0) == VKF_NOT_READY);
    CHECK(vkf_engine_wait(engine.get(), 0, 0) == VKF_NOT_READY);
    CHECK(vkf_engine_wait(engine.get(), running, 1000 * 1000) == VKF_TIMEOUT);
    CHECK(vkf_engine_wait(engine.get(), 12345, UINT64_MAX) == VKF_SUCCESS);
    CHECK((stats_of(*engine).running == 1 && stats_of(*engine).waiting == 1));
    succeed(vkf_engine_cancel(engine.get(), 12345));
    succeed(vkf_engine_cancel(engine.get(), waiting));
    succeed(vkf_engine_cancel(engine.get(), running));
    vkf_result waited = VKF_NOT_READY;
    std::thread other([&] { waited = vkf_engine_wait(engine.get(), running, UINT64_MAX); });
    gate.is_open = true;
    succeed(vkf_engine_wait(engine.get(), waiting, UINT64_MAX));
    other.join();
    CHECK(waited == VKF_SUCCESS);
    CHECK(gate.finish == VKF_FINISH_CALLER);
    CHECK((told.end == VKF_SUCCESS && told.generation.finish == Finish::caller && told.generation.tokens.empty()));
    CHECK_FALSE(untold.end);

    // False ends a text; what is left when the engine goes is told so.
    vkf_engine_request cut = request;
    cut.on_text = [](void*, const char*, std::size_t, std::int32_t) -> VkBool32 { return VK_FALSE; };
    Told of_cut;
    cut.user = &of_cut;
    succeed(vkf_engine_submit(engine.get(), &cut, nullptr));
    succeed(vkf_engine_wait(engine.get(), 0, UINT64_MAX));
    CHECK((of_cut.generation.finish == Finish::caller && of_cut.generation.tokens.size() == 1));
    Told left;
    left.hear(request);
    succeed(vkf_engine_submit(engine.get(), &request, nullptr));
    engine.reset();
    REQUIRE(left.end);
    if (*left.end == VKF_SUCCESS) {
        CHECK(left.generation.finish == Finish::context);  // it was faster
    } else {
        CHECK(*left.end == VKF_ERROR_CANCELLED);
        CHECK_THAT(left.message, ContainsSubstring("stopped"));
    }
}

TEST_CASE("an engine of the C interface that fails says so to all", "[api][c][engine][errors]") {
    vkf_engine_options options = engine_options();
    options.sequences = 1;
    const VkfEngine engine = make_engine(options);
    const auto prompt = engine_tokens(*engine, "the");
    vkf_engine_request request = VKF_ENGINE_REQUEST_INIT;
    request.prompt = prompt.data();
    request.prompt_count = prompt.size();
    request.max_tokens = 1;
    CHECK(vkf_engine_failure(engine.get()) == VKF_SUCCESS);
    Told told[2];
    std::promise<void> may_fail;
    told[0].hear(request);
    request.user = &may_fail;
    request.on_end = nullptr;
    request.on_text = [](void* user, const char*, std::size_t, std::int32_t) -> VkBool32 {
        static_cast<std::promise<void>*>(user)->get_future().wait();
        throw std::bad_alloc();  // as if the engine had no memory
    };
    succeed(vkf_engine_submit(engine.get(), &request, nullptr));
    for (Told& one : told) {
        one.hear(request);
        succeed(vkf_engine_submit(engine.get(), &request, nullptr));
    }
    may_fail.set_value();
    succeed(vkf_engine_wait(engine.get(), 0, UINT64_MAX));
    for (const Told& one : told) {
        CHECK(one.end == VKF_ERROR_OUT_OF_HOST_MEMORY);
        CHECK_THAT(one.message, ContainsSubstring("memory"));
    }
    CHECK(vkf_engine_failure(engine.get()) == VKF_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(vkf_error_message() == told[0].message);
    CHECK(vkf_engine_submit(engine.get(), &request, nullptr) == VKF_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(stats_of(*engine).finished == 3);
    CHECK(std::string(vkf_result_string(VKF_ERROR_CANCELLED)) == "VKF_ERROR_CANCELLED");
}

TEST_CASE("the C interface's engine makes tokens of texts and conversations", "[api][c][engine][chat]") {
    auto plain = must(GenerationEngine::load(goldens_dir() / "decoder_text",
                                             {.generator = {.device = "cpu", .plain_shaders = true}}));
    const VkfEngine made = make_engine(engine_options());
    const vkf_engine* const engine = made.get();
    const auto tokens = engine_tokens(*made, "the cat");
    CHECK(tokens == must(plain.tokenize("the cat")));
    CHECK(std::string(vkf_engine_chat_template(engine)) == plain.chat_template());
    CHECK(vkf_engine_note(engine, 0) == nullptr);
    vkf_engine_properties properties = VKF_ENGINE_PROPERTIES_INIT;
    succeed(vkf_engine_query(engine, &properties));
    CHECK((properties.context == plain.context() && properties.has_tokenizer && properties.has_chat_template));

    char text[64];
    std::size_t bytes = 0;
    succeed(vkf_engine_detokenize(engine, tokens.data(), tokens.size(), &bytes, nullptr));
    CHECK(bytes == must(plain.detokenize(tokens)).size() + 1);
    bytes = sizeof text;
    succeed(vkf_engine_detokenize(engine, tokens.data(), tokens.size(), &bytes, text));
    CHECK(text == must(plain.detokenize(tokens)));
    bytes = 4;
    CHECK(vkf_engine_detokenize(engine, tokens.data(), tokens.size(), &bytes, text) == VKF_INCOMPLETE);
    for (const std::int32_t token : {tokens.back(), 0, -1, 1 << 30}) {
        bytes = sizeof text;
        succeed(vkf_engine_token_bytes(engine, token, &bytes, text));
        CHECK(text == plain.token_bytes(token));
    }

    vkf_message messages[] = {{"user", "the cat", nullptr}, {"assistant", "sat ", nullptr}};
    const std::vector<Message> conversation = {{"user", "the cat"}, {"assistant", "sat "}};
    const auto words = [&](const vkf_chat_options* options) {
        std::vector<std::int32_t> ids(200);
        std::size_t count = ids.size();
        succeed(vkf_engine_tokenize_chat(engine, 2, messages, options, &count, ids.data()));
        ids.resize(count);
        return ids;
    };
    vkf_chat_options options = VKF_CHAT_OPTIONS_INIT;
    CHECK(words(nullptr) == must(plain.tokenize_chat(conversation)));
    CHECK(words(&options) == must(plain.tokenize_chat(conversation)));
    options.answer_prefix = "the cat";
    options.variables = "{\"tools\": []}";
    CHECK(words(&options) == must(plain.tokenize_chat(conversation, {.answer_prefix = "the cat"})));
    const auto check_refused = [&](const char* part) {
        std::size_t count = 0;
        CHECK(vkf_engine_tokenize_chat(engine, 2, messages, &options, &count, nullptr) == VKF_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(vkf_error_message(), ContainsSubstring(part));
    };
    options.continues_last = VK_TRUE;
    check_refused("answer_prefix");
    options.answer_prefix = nullptr;
    CHECK(words(&options) == must(plain.tokenize_chat(conversation, {.continues_last = true})));
    options.variables = "[]";
    check_refused("");
    options.variables = "\xff";
    check_refused("vkf_chat_options::variables is not UTF-8");
    options.variables = nullptr;
    messages[1].further = "{";
    check_refused("");
    messages[1] = {"assistant", nullptr, nullptr};
    check_refused("vkf_message::content is null");
    messages[1] = {"\xc3", "sat", nullptr};
    check_refused("vkf_message::role is not UTF-8");
    options.struct_size = 2;
    check_refused("vkf_chat_options::struct_size is 2");
    std::size_t count = 0;
    CHECK(vkf_engine_tokenize_chat(engine, 1, nullptr, nullptr, &count, nullptr) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_engine_tokenize(engine, "\xff", 1, &count, nullptr) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(vkf_error_message(), ContainsSubstring("UTF-8"));
    const std::int32_t unknown = 1 << 30;
    CHECK(vkf_engine_detokenize(engine, &unknown, 1, &bytes, nullptr) == VKF_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("constraints of the C interface hold, and say what is wrong with them", "[api][c][engine][constraints]") {
    const VkfEngine engine = make_engine(engine_options());
    const auto prompt = engine_tokens(*engine, "the");
    const auto generate = [&](const vkf_constraint* constraint) {
        vkf_engine_request request = VKF_ENGINE_REQUEST_INIT;
        request.prompt = prompt.data();
        request.prompt_count = prompt.size();
        request.max_tokens = 200;
        request.constraint = constraint;
        Told told;
        told.hear(request);
        succeed(vkf_engine_submit(engine.get(), &request, nullptr));
        succeed(vkf_engine_wait(engine.get(), 0, UINT64_MAX));
        CHECK(told.end == VKF_SUCCESS);
        return told.generation;
    };
    const auto text_of_constraint = [&](vkf_constraint* constraint) {
        const VkfConstraint owned(constraint);
        const Generation made = generate(constraint);
        CHECK(made.finish == Finish::end_token);
        return made.text;
    };
    vkf_constraint* made = nullptr;
    succeed(vkf_constraint_json_schema(R"({"type":"object","properties":{"age":{"enum":[3,"x"]}},"required":["age"]})",
                                       &made));
    CHECK_THAT(text_of_constraint(made), Catch::Matchers::Matches(R"(\s*\{\s*"age"\s*:\s*(3|"x")\s*\}\s*)"));
    succeed(vkf_constraint_regex("ab?c{2}", &made));
    CHECK_THAT(text_of_constraint(made), Catch::Matchers::Matches("ab?cc"));
    const char* const choices[] = {"a frog", "nothing", "\xc3\xa4"};
    succeed(vkf_constraint_choice(3, choices, &made));
    CHECK_THAT(text_of_constraint(made), Catch::Matchers::Matches("a frog|nothing|\xc3\xa4"));
    succeed(vkf_constraint_json(&made));
    const VkfConstraint json(made);
    CHECK_THAT(generate(json.get()).text, Catch::Matchers::Matches(R"(\s*\{[^]*)"));

    made = nullptr;
    const auto check_refused = [&](vkf_result result, const char* part) {
        CHECK(result == VKF_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(vkf_error_message(), ContainsSubstring(part));
        CHECK(made == nullptr);
    };
    check_refused(vkf_constraint_json_schema("{\"type\": \"object\"", &made), "");
    check_refused(vkf_constraint_json_schema("{\"unevaluatedItems\": false}", &made), "unevaluatedItems");
    check_refused(vkf_constraint_json_schema(nullptr, &made), "schema is null");
    check_refused(vkf_constraint_json_schema("\"\xff\"", &made), "schema is not UTF-8");
    check_refused(vkf_constraint_json_schema("true", nullptr), "constraint is required");
    check_refused(vkf_constraint_json(nullptr), "constraint is required");
    check_refused(vkf_constraint_regex("(a", &made), "byte 2");
    check_refused(vkf_constraint_regex("(?=a)", &made), "");
    check_refused(vkf_constraint_regex("a{1000000000}", &made), "");
    check_refused(vkf_constraint_regex("\xc3", &made), "expression is not UTF-8");
    check_refused(vkf_constraint_regex(nullptr, &made), "expression is null");
    check_refused(vkf_constraint_regex("a", nullptr), "constraint is required");
    check_refused(vkf_constraint_choice(0, nullptr, &made), "");
    check_refused(vkf_constraint_choice(2, nullptr, &made), "texts");
    check_refused(vkf_constraint_choice(1, choices, nullptr), "constraint");
    const char* const wrong[] = {"a", nullptr, "", "\xff"};
    check_refused(vkf_constraint_choice(2, wrong, &made), "one of the texts is null");
    check_refused(vkf_constraint_choice(1, wrong + 2, &made), "");
    check_refused(vkf_constraint_choice(1, wrong + 3, &made), "one of the texts is not UTF-8");
    vkf_constraint_destroy(nullptr);
}

TEST_CASE("what the C interface's engine cannot take is refused, by name", "[api][c][engine][errors]") {
    const VkfEngine engine = make_engine(engine_options());
    const auto prompt = engine_tokens(*engine, "the cat");
    const VkfConstraint word = regex("abc");
    vkf_engine_request request = VKF_ENGINE_REQUEST_INIT;
    vkf_sampling sampling = VKF_SAMPLING_INIT;
    Told untold;
    const auto reset = [&] {
        request = VKF_ENGINE_REQUEST_INIT;
        request.prompt = prompt.data();
        request.prompt_count = prompt.size();
        request.max_tokens = 1;
        sampling = VKF_SAMPLING_INIT;
        untold.hear(request);
    };
    const auto check_refused = [&](const char* part) {
        std::uint64_t id = 77;
        CAPTURE(part);
        CHECK(vkf_engine_submit(engine.get(), &request, &id) == VKF_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(vkf_error_message(), ContainsSubstring(part));
        CHECK(id == 77);
        reset();
    };
    reset();
    for (const std::uint32_t size : {0u, 3u, UINT32_MAX}) {
        request.struct_size = size;
        check_refused("vkf_engine_request::struct_size");
        sampling.struct_size = size;
        request.sampling = &sampling;
        check_refused("vkf_sampling::struct_size");
    }
    struct {
        vkf_engine_request known;
        std::uint64_t unknown;
    } newer = {request, 1};
    newer.known.struct_size = sizeof newer;
    CHECK(vkf_engine_submit(engine.get(), &newer.known, nullptr) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(vkf_error_message(), ContainsSubstring("members that this version of vkformer does not know"));
    request.prompt = nullptr;
    check_refused("vkf_engine_request::prompt is null");
    request.prompt_count = 0;
    check_refused("");
    request.prompt_count = SIZE_MAX;
    check_refused("tokens, the context holds");
    const std::int32_t unknown_tokens[] = {-1, 1 << 30};
    for (const std::int32_t& token : unknown_tokens) {
        request.prompt = &token;
        request.prompt_count = 1;
        check_refused("");
        const vkf_token_bias bias = {token, 1};
        sampling.biases = &bias;
        sampling.bias_count = 1;
        request.sampling = &sampling;
        check_refused("logit bias");
    }
    const auto check_sampling = [&](auto member, std::initializer_list<float> values, const char* part) {
        for (const float value : values) {
            CAPTURE(value);
            sampling.*member = value;
            request.sampling = &sampling;
            check_refused(part);
        }
    };
    check_sampling(&vkf_sampling::temperature, {kNan, -1, 1e5f, kInfinity}, "temperature");
    check_sampling(&vkf_sampling::top_p, {kNan, -1, 2}, "top_p");
    check_sampling(&vkf_sampling::min_p, {kNan, -1, 2}, "min_p");
    check_sampling(&vkf_sampling::repetition_penalty, {kNan, 0, -1, kInfinity}, "repetition");
    check_sampling(&vkf_sampling::presence_penalty, {kNan, kInfinity}, "presence");
    check_sampling(&vkf_sampling::frequency_penalty, {kNan, kInfinity}, "frequency");
    sampling.top_k = UINT32_MAX;
    request.sampling = &sampling;
    check_refused("top_k");
    const vkf_token_bias nan_bias = {prompt[0], kNan};
    sampling.biases = &nan_bias;
    sampling.bias_count = 1;
    request.sampling = &sampling;
    check_refused("logit bias");
    sampling.bias_count = 1;
    request.sampling = &sampling;
    check_refused("vkf_sampling::biases is null");
    request.likeliest = 3;
    check_refused("vkf_engine_request::likeliest");
    request.prompt_likeliest = 3;
    check_refused("vkf_engine_request::prompt_likeliest");
    const char* nothing[] = {"a", ""};
    request.stops = nothing;
    request.stop_count = 2;
    check_refused("an empty stop text");
    const char* stops[] = {"a", nullptr, "\xe2\x82"};
    request.stops = stops;
    request.stop_count = 2;
    check_refused("vkf_engine_request::stops is null");
    request.stops = stops + 2;
    request.stop_count = 1;
    check_refused("vkf_engine_request::stops is not UTF-8");
    request.stop_count = UINT32_MAX;
    check_refused("vkf_engine_request::stops is null");
    const vkf_token_bias two_biases[] = {{3, 1}, {3, 2}}, endless = {3, kInfinity};
    sampling.biases = two_biases;
    sampling.bias_count = 2;
    request.sampling = &sampling;
    check_refused("vkf_sampling::biases has two for one token");
    sampling.biases = &endless;
    sampling.bias_count = 1;
    request.sampling = &sampling;
    check_refused("biases are numbers below infinity");
    const vkf_adapter_scale same[] = {{"none", 1}, {"none", 2}};
    request.adapters = same;
    request.adapter_count = 2;
    check_refused("vkf_engine_request::adapters names one twice");
    const vkf_adapter_scale scales[] = {{"none", 1}, {nullptr, 1}};
    for (const vkf_adapter_scale& scale : scales) {
        request.adapters = &scale;
        request.adapter_count = 1;
        check_refused("adapter");
    }
    request.adapter_count = 1;
    check_refused("vkf_engine_request::adapters is null");
    request.log_probs = VK_TRUE;
    request.likeliest = 21;
    check_refused("0 to 20");
    request.prompt_log_probs = VK_TRUE;
    request.prompt_likeliest = 21;
    check_refused("0 to 20");
    request.is_prompt_alone = VK_TRUE;
    check_refused("prompt_log_probs");
    request.constraint = word.get();
    request.ignore_end = VK_TRUE;
    check_refused("ignore_end");
    request.constraint = word.get();
    request.min_tokens = 2;
    check_refused("min_tokens");
    CHECK(stats_of(*engine).requests == 0);
    CHECK(vkf_engine_wait(engine.get(), 0, 0) == VKF_SUCCESS);
    CHECK_FALSE(untold.end);
    succeed(vkf_engine_submit(engine.get(), &request, nullptr));  // it is none the worse
    succeed(vkf_engine_wait(engine.get(), 0, UINT64_MAX));
    CHECK(untold.end == VKF_SUCCESS);

    // A model without a tokenizer.
    const VkfEngine wordless = make_engine(engine_options(), (goldens_dir() / "decoders" / "llama_gqa_odd").string());
    const std::int32_t token = 1;
    request.prompt = &token;
    request.prompt_count = 1;
    request.constraint = word.get();
    CHECK(vkf_engine_submit(wordless.get(), &request, nullptr) == VKF_ERROR_FILE_NOT_FOUND);
    request.constraint = nullptr;
    request.stops = stops;
    request.stop_count = 1;
    CHECK(vkf_engine_submit(wordless.get(), &request, nullptr) == VKF_ERROR_FILE_NOT_FOUND);
    std::size_t count = 0;
    CHECK(vkf_engine_tokenize(wordless.get(), "a", 1, &count, nullptr) == VKF_ERROR_FILE_NOT_FOUND);
    CHECK(vkf_engine_tokenize_chat(wordless.get(), 0, nullptr, nullptr, &count, nullptr) == VKF_ERROR_FILE_NOT_FOUND);
    CHECK(vkf_engine_detokenize(wordless.get(), &token, 1, &count, nullptr) == VKF_ERROR_FILE_NOT_FOUND);
}

TEST_CASE("options that the C interface's engine cannot have are refused, by name", "[api][c][engine][errors]") {
    vkf_engine* engine = nullptr;
    const std::string path = text_model();
    vkf_engine_options options = engine_options();
    const auto check_refused = [&](const char* part, vkf_result expected = VKF_ERROR_INVALID_ARGUMENT) {
        CAPTURE(part);
        CHECK(vkf_engine_load(path.c_str(), &options, &engine) == expected);
        CHECK_THAT(vkf_error_message(), ContainsSubstring(part));
        CHECK(engine == nullptr);
        options = engine_options();
    };
    options.struct_size = 1;
    check_refused("vkf_engine_options::struct_size is 1");
    for (const std::uint32_t sequences : {0u, 65u, UINT32_MAX}) {
        options.sequences = sequences;
        check_refused("sequences");
    }
    for (const std::uint32_t chunk : {0u, 15u, 4097u, UINT32_MAX}) {
        options.prompt_chunk = chunk;
        check_refused("chunks");
    }
    for (const std::uint64_t tokens : {std::uint64_t{64}, UINT64_MAX}) {
        options.cache_tokens = tokens;
        check_refused("cache");
    }
    options.context = UINT32_MAX;
    check_refused("context");
    options.prompt_lookup = 65;
    check_refused("guesses");
    options.cache_q8_0 = VK_TRUE;  // heads of 8 elements
    check_refused("32");
    for (const int dtype : {int{VKF_BF16}, int{VKF_Q8_0}, 77, 0x7FFFFFFF}) {
        options.dtype = static_cast<vkf_dtype>(dtype);
        check_refused("vkf_engine_options::dtype");
    }
    const std::string folder = adapter_folder("llama_gqa_odd").string();
    const vkf_adapter adapters[] = {{"a", folder.c_str()},
                                    {"a", folder.c_str()},
                                    {nullptr, folder.c_str()},
                                    {"b", nullptr},
                                    {"\xff", folder.c_str()}};
    for (const auto& [first, count, part] :
         {std::tuple(0u, 2u, "two's"), std::tuple(2u, 1u, "vkf_adapter::name is null"),
          std::tuple(3u, 1u, "vkf_adapter::path is null"), std::tuple(4u, 1u, "vkf_adapter::name is not UTF-8")}) {
        options.adapters = adapters + first;
        options.adapter_count = count;
        check_refused(part);
    }
    options.adapter_count = UINT32_MAX;
    check_refused("vkf_engine_options::adapters is null");
    options.named_variant_count = 1;
    check_refused("vkf_engine_options::named_variants is null");
    const vkf_variant variant = {"linear", nullptr};
    options.named_variants = &variant;
    options.named_variant_count = 1;
    check_refused("vkf_variant::variant is null");
    const vkf_variant twice[] = {{"linear", "tile"}, {"linear", "row"}};
    options.named_variants = twice;
    options.named_variant_count = 2;
    check_refused("vkf_engine_options::named_variants has two variants for one op");
    options.device = "no such device";
    CHECK(vkf_engine_load(path.c_str(), &options, &engine) < 0);
    options = engine_options();
    CHECK(vkf_engine_load("/nowhere", &options, &engine) == VKF_ERROR_FILE_NOT_FOUND);
    CHECK(vkf_engine_load(nullptr, &options, &engine) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_engine_load(path.c_str(), &options, nullptr) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(engine == nullptr);
}

TEST_CASE("functions of the C interface's engine take no null", "[api][c][engine][errors]") {
    const VkfEngine made = make_engine(engine_options());
    std::size_t size = 0;
    vkf_engine_request request = VKF_ENGINE_REQUEST_INIT;
    vkf_engine_stats stats = VKF_ENGINE_STATS_INIT;
    vkf_engine_memory memory = VKF_ENGINE_MEMORY_INIT;
    vkf_engine_properties properties = VKF_ENGINE_PROPERTIES_INIT;
    for (const vkf_result result :
         {vkf_engine_query(nullptr, &properties), vkf_engine_tokenize(nullptr, "a", 1, &size, nullptr),
          vkf_engine_tokenize_chat(nullptr, 0, nullptr, nullptr, &size, nullptr),
          vkf_engine_detokenize(nullptr, nullptr, 0, &size, nullptr),
          vkf_engine_token_bytes(nullptr, 1, &size, nullptr), vkf_engine_submit(nullptr, &request, nullptr),
          vkf_engine_cancel(nullptr, 1), vkf_engine_wait(nullptr, 1, 0), vkf_engine_failure(nullptr),
          vkf_engine_query_stats(nullptr, &stats), vkf_engine_query_memory(nullptr, &memory)}) {
        CHECK(result == VKF_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(vkf_error_message(), ContainsSubstring("engine is required"));
    }
    vkf_engine* const engine = made.get();
    for (const vkf_result result :
         {vkf_engine_query(engine, nullptr), vkf_engine_tokenize(engine, nullptr, 1, &size, nullptr),
          vkf_engine_tokenize(engine, "a", 1, nullptr, nullptr),
          vkf_engine_detokenize(engine, nullptr, 1, &size, nullptr),
          vkf_engine_detokenize(engine, nullptr, 0, nullptr, nullptr),
          vkf_engine_token_bytes(engine, 1, nullptr, nullptr), vkf_engine_submit(engine, nullptr, nullptr),
          vkf_engine_query_stats(engine, nullptr), vkf_engine_query_memory(engine, nullptr)})
        CHECK(result == VKF_ERROR_INVALID_ARGUMENT);
    stats.struct_size = 0;
    CHECK(vkf_engine_query_stats(engine, &stats) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkf_engine_device(nullptr)).empty());
    CHECK(std::string(vkf_engine_chat_template(nullptr)).empty());
    CHECK(vkf_engine_note(nullptr, 0) == nullptr);
    vkf_engine_destroy(nullptr);
    for (int finish = 0; finish < 5; ++finish)
        CHECK(vkf_finish_string(static_cast<vkf_finish>(finish)) == to_string(static_cast<Finish>(finish)));
    CHECK(std::string(vkf_finish_string(static_cast<vkf_finish>(77))) == "?");
}

}  // namespace vkformer::tests
