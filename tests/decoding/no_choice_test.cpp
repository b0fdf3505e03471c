// SPDX-License-Identifier: MIT
/// Models that give no numbers: generation says so, and gives no token.
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "cli/run_program.hpp"
#include "decoding/batch_script.hpp"
#include "decoding/beam_session.hpp"
#include "decoding/decoder_session.hpp"
#include "decoding/run_script.hpp"
#include "decoding/score_session.hpp"
#include "decoding/session.hpp"
#include "decoding/target_scorer.hpp"
#include "models/changed_golden.hpp"
#include "models/decoder_case.hpp"
#include "models/seq2seq_loading.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/refused.hpp"
#include "support/vkf_frames.hpp"

namespace vkformer::tests {
namespace {

TensorData times(const TensorData& data, float factor) {
    const auto values = std::make_shared<std::vector<float>>(data.shape.element_count());
    must(convert(data.dtype, data.bytes, 0, std::span(*values)));
    for (float& value : *values) value *= factor;
    return {.dtype = DType::f32, .shape = data.shape, .bytes = std::as_bytes(std::span(*values)), .owner = values};
}

/// The model's folder with two weights, one behind the other, so large that their products are infinite in float32, of both signs.
void copy_too_large(const std::filesystem::path& source, const std::filesystem::path& target, const std::string& first,
                    const std::string& second) {
    std::filesystem::copy(source, target);
    const auto file = must(formats::Safetensors::open(source / "model.safetensors"));
    std::vector<formats::NamedTensor> tensors;
    for (const auto& [name, data] : file.tensors())
        tensors.push_back({name, name == first || name == second ? times(data, 1e30f) : data});
    std::filesystem::remove(target / "model.safetensors");
    must(formats::write_safetensors(target / "model.safetensors", tensors));
}

struct TooLarge {
    TooLarge() {
        copy_too_large(goldens_dir() / "decoders" / "llama_gqa_odd", path(), "model.layers.1.mlp.up_proj.weight",
                       "model.layers.1.mlp.down_proj.weight");
    }
    std::filesystem::path path() const { return folder / "model"; }
    TemporaryFolder folder;
};

constexpr std::int32_t kBadToken = 5;

/// A model that gives no numbers behind one token, and others behind those without it: a place of the hidden state that this token alone
/// has something in goes to infinity within the first layer.
models::Decoder spoilt_by_a_token() {
    const std::filesystem::path folder = goldens_dir() / "decoders" / "llama_gqa_odd";
    const auto file = must(formats::Safetensors::open(folder / "model.safetensors"));
    const auto changed = [&](const std::string& name, auto&& change) {
        TensorData data = times(*file.find(name), 1);
        const std::size_t columns = data.shape.back(), rows = data.shape[0];
        auto* const values = static_cast<float*>(const_cast<void*>(static_cast<const void*>(data.bytes.data())));
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < columns; ++c) change(values[r * columns + c], r, c);
        return data;
    };
    formats::TensorMap tensors;
    const std::string layer = "model.layers.0.";
    tensors["model.embed_tokens.weight"] = changed("model.embed_tokens.weight", [](float& value, auto r, auto c) {
        if (c == 0) value = r == kBadToken ? 9.0f : 0.0f;
    });
    tensors[layer + "self_attn.o_proj.weight"] =
        changed(layer + "self_attn.o_proj.weight", [](float& value, auto r, auto) {
            if (r == 0) value = 0;
        });
    tensors[layer + "mlp.up_proj.weight"] = changed(layer + "mlp.up_proj.weight", [](float& value, auto r, auto c) {
        if (c == 0) value = r % 2 == 0 ? 3e38f : -3e38f;
    });
    return must(load_golden_with("llama_gqa_odd", nlohmann::json::object(), tensors));
}

/// The bad token is forbidden, so that no answer has it.
decoding::Penalties without_bad_token() { return {.bias = {{kBadToken, -std::numeric_limits<float>::infinity()}}}; }

constexpr const char* kNoNumbers = "gave no numbers (NaN) for the next token";

}  // namespace

TEST_CASE("a model that gives no numbers ends its sequences with an error", "[decoding][no_choice]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    if (is_double(backend)) return;  // there 1e60 is a number
    CAPTURE(backend.name());
    const TooLarge files;
    const models::Decoder model = must(models::load_decoder(files.path()));
    const decoding::Request request = {.prompt = prompt_of(6), .max_tokens = 5};
    for (const float temperature : {0.0f, 0.7f}) {
        CAPTURE(temperature);
        auto session = must(decoding::DecoderSession::create(
            backend, model, {.context = 40, .sample = {.temperature = temperature, .top_k = 5}}));
        const auto result = must(session.run({&request, 1}))[0];
        CHECK(result.tokens.empty());
        REQUIRE(result.failure);
        CHECK(result.failure->code == ErrorCode::NotANumber);
        CHECK(result.failure->hint == Hint::float32);
        CHECK_THAT(result.failure->message, Catch::Matchers::ContainsSubstring(kNoNumbers));
        CHECK(must(session.run({&request, 1}))[0].failure);
    }
    auto search = must(decoding::BeamSession::create(backend, model, {.context = 40}, {.beams = 3}));
    check_refused(search.run({&request, 1}), ErrorCode::NotANumber, kNoNumbers);

    std::optional<decoding::SequenceResult> ended;
    decoding::BatchScript script(
        model, must(decoding::checked_batch_options(model, {.rows = 2, .context = 40})),
        [](auto, auto, auto*) { return true; },
        [&](auto, decoding::SequenceResult result) { ended = std::move(result); }, [](auto, auto) {});
    script.plan_for(backend.fusions());
    script.add(1, {.sequence = request});
    decoding::SessionStores stores(backend);
    while (!script.is_idle()) must(decoding::run_job(script, *must(script.next(3)), backend, stores));
    REQUIRE(ended);
    CHECK(ended->tokens.empty());
    REQUIRE(ended->failure);
    CHECK_THAT(ended->failure->message, Catch::Matchers::ContainsSubstring(kNoNumbers));
}

TEST_CASE("a sequence without numbers spoils no other, beside it or behind it", "[decoding][no_choice]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    if (is_double(backend)) return;
    CAPTURE(backend.name());
    const models::Decoder model = spoilt_by_a_token();
    const decoding::Request good = {.prompt = {1, 2, 3, 4}, .max_tokens = 6},
                            bad = {.prompt = {1, kBadToken, 3}, .max_tokens = 6};
    const std::uint32_t rows = GENERATE(1u, 2u);
    CAPTURE(rows);
    auto session = must(decoding::DecoderSession::create(
        backend, model, {.rows = rows, .context = 40, .penalties = without_bad_token()}));
    const std::vector<std::int32_t> expected = must(session.run({&good, 1}))[0].tokens;
    CHECK(expected.size() == 6);
    for (int round = 0; round < 2; ++round) {
        const std::vector<decoding::Request> requests = {bad, good, bad, good};
        const auto results = must(session.run(requests));
        for (std::size_t i = 0; i < requests.size(); ++i) {
            CAPTURE(round, i);
            CHECK(results[i].failure.has_value() == (i % 2 == 0));
            CHECK(results[i].tokens == (i % 2 == 0 ? std::vector<std::int32_t>() : expected));
        }
    }

    std::map<decoding::BatchScript::Id, decoding::SequenceResult> ended;
    decoding::BatchScript script(
        model, must(decoding::checked_batch_options(model, {.rows = rows, .context = 40})),
        [](auto, auto, auto*) { return true; },
        [&](auto id, decoding::SequenceResult result) { ended[id] = std::move(result); }, [](auto, auto) {});
    script.plan_for(backend.fusions());
    decoding::SessionStores stores(backend);
    for (std::size_t i = 0; i < 6; ++i)
        script.add(i, {.sequence = i % 2 == 0 ? bad : good, .bias = without_bad_token().bias});
    while (!script.is_idle()) must(decoding::run_job(script, *must(script.next(3)), backend, stores));
    for (std::size_t i = 0; i < 6; ++i) {
        CAPTURE(i);
        CHECK(ended[i].failure.has_value() == (i % 2 == 0));
        CHECK(ended[i].tokens == (i % 2 == 0 ? std::vector<std::int32_t>() : expected));
    }
    // Prompts are told of alike.
    script.add(7, {.sequence = bad, .prompt_log_probs = 0, .is_prompt_alone = true});
    script.add(8, {.sequence = good, .prompt_log_probs = 0, .is_prompt_alone = true});
    while (!script.is_idle()) must(decoding::run_job(script, *must(script.next(3)), backend, stores));
    CHECK(ended[7].failure);
    CHECK_FALSE(ended[8].failure);
    auto scores = must(decoding::ScoreSession::create(backend, model, {.rows = rows, .context = 40}, {}));
    const auto text = [&](std::size_t i) {
        return decoding::ScoredSequence{.tokens = i == 1 ? bad.prompt : good.prompt, .text = 2 + i};
    };
    check_refused(scores->run(40, text, 0), ErrorCode::NotANumber, "text 4: the model gave no numbers");
    CHECK(must(scores->run(1, text, 0))[0].size() + 1 == good.prompt.size());
}

TEST_CASE("a row that runs on in vain beyond its context serves the next sequence", "[decoding]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    auto session = must(decoding::DecoderSession::create(backend, model, {.rows = 2, .context = 32}));
    const std::vector<decoding::Request> requests = {{.prompt = prompt_of(30), .max_tokens = 2},
                                                     {.prompt = prompt_of(3), .max_tokens = 28}};
    std::vector<std::vector<std::int32_t>> expected;
    for (int round = 0; round < 3; ++round) {
        const auto results = must(session.run(requests));
        for (std::size_t i = 0; i < requests.size(); ++i) {
            CAPTURE(round, i);
            CHECK_FALSE(results[i].failure);
            if (round == 0)
                expected.push_back(results[i].tokens);
            else
                CHECK(results[i].tokens == expected[i]);
        }
    }
    CHECK(expected[0].size() == 2);
    CHECK(expected[1].size() == 28);
}

TEST_CASE("a translation without numbers is an error", "[decoding][no_choice]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    if (is_double(backend)) return;
    const std::uint32_t beams = GENERATE(1u, 3u);
    CAPTURE(backend.name(), beams);
    const TemporaryFolder folder;
    copy_too_large(goldens_dir() / "marian" / "relu_d30_h5_h3", folder / "model", "model.decoder.layers.0.fc1.weight",
                   "model.decoder.layers.0.fc2.weight");
    const auto model = must(models::load_encoder_decoder(folder / "model"));
    models::GenerationConfig generation;
    generation.beams = beams;
    generation.decoder_start = 0;
    generation.eos = 1;
    generation.max_steps = 6;
    auto session = must(decoding::Session::create(backend, *model, {.generation = generation}));
    const std::vector<std::int32_t> source = {3, 4, 5};
    const decoding::Source sources[] = {{.tokens = source}};
    check_refused(session.generate(sources), ErrorCode::NotANumber, kNoNumbers);
    decoding::TargetScorer scorer(backend, *model, DType::f32, models::WeightFormat::as_filed, backend.make_store());
    const decoding::ScoredTarget given = {.source = source, .target = source};
    check_refused(scorer.run({&given, 1}, 2), ErrorCode::NotANumber, "text 1: the model gave no numbers");
}

#ifdef VKFORMER_CLI
TEST_CASE("the command line says what helps where a model gives no numbers", "[cli][generate][no_choice]") {
    const TooLarge files;
    const Outcome outcome = run("generate -q -d cpu -n 4 --prompt-tokens 1,2,3 -m " + quoted(files.path()));
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring(kNoNumbers));
    CHECK_THAT(outcome.err, Catch::Matchers::EndsWith("(--dtype f32)\n"));
}
#endif

TEST_CASE("a guest is told that its model gives no numbers", "[api][c][guest][no_choice]") {
    const TooLarge files;
    SECTION("on the CPU") {
        const VkfDevice device = own_device(VKF_DEVICE_CPU);
        const VkfModel model = load_model(*device, files.path().string());
        const VkfSession session = make_session(*model);
        begin(*session, prompt_of(6));
        vkf_slice slice = VKF_SLICE_INIT;
        vkf_result result = VKF_SUCCESS;
        while (is_running(*session) && result == VKF_SUCCESS)
            result = vkf_session_step(session.get(), 1, nullptr, &slice);
        CHECK(result == VKF_ERROR_NOT_A_NUMBER);
        CHECK_THAT(vkf_error_message(), Catch::Matchers::ContainsSubstring(kNoNumbers));
        CHECK(tokens_of(*session).empty());
        CHECK(status_of(*session).state == VKF_SESSION_DONE);
    }
    SECTION("through the device's queue, warmed up with tokens that give no numbers") {
        if (vulkan_device_indices().empty()) return;
        const VkfDevice device = own_device(vulkan_device_indices().front());
        const VkfModel model = load_model(*device, files.path().string());
        const VkfSession session = make_session(*model);
        begin(*session, prompt_of(6));
        vkf_result result = VKF_SUCCESS;
        while (is_running(*session) && (result == VKF_SUCCESS || result == VKF_NOT_READY)) {
            vkf_slice slice = VKF_SLICE_INIT;
            result = vkf_session_step(session.get(), 0, nullptr, &slice);
            if (result == VKF_SUCCESS) result = vkf_session_wait(session.get(), UINT64_MAX);
        }
        CHECK(result == VKF_ERROR_NOT_A_NUMBER);
        begin(*session, prompt_of(3));
        succeed(vkf_session_cancel(session.get()));
    }
    SECTION("in an application's frames") {
        if (vulkan_device_indices().empty()) return;
        HostApplication host({.device_index = index_of(vulkan_device_indices().front())});
        const VkfDevice device = adopt(host.lend_least());
        const VkfModel model = load_model(*device, files.path().string());
        const VkfSession session = make_session(*model);
        begin(*session, prompt_of(6));
        const VkCommandBuffer commands = host.make_commands();
        vkf_result result = VKF_SUCCESS;
        while (is_running(*session) && result == VKF_SUCCESS) {
            vkf_slice slice = VKF_SLICE_INIT;
            host.begin(commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
            succeed(vkf_session_record(session.get(), commands, 0, &slice));
            host.end(commands);
            host.submit_and_wait(commands);
            result = vkf_session_retire(session.get(), slice.ticket);
        }
        CHECK(result == VKF_ERROR_NOT_A_NUMBER);
        CHECK_THAT(vkf_error_message(), Catch::Matchers::ContainsSubstring(kNoNumbers));
        CHECK(tokens_of(*session).empty());
        // Another sequence may be tried.
        begin(*session, prompt_of(3));
        CHECK(is_running(*session));
    }
}

}  // namespace vkformer::tests
