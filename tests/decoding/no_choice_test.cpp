// SPDX-License-Identifier: MIT
/// Models that give no numbers: generation says so, and gives no token.
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "decoding/batch_script.hpp"
#include "decoding/beam_session.hpp"
#include "decoding/decoder_session.hpp"
#include "decoding/run_script.hpp"
#include "decoding/session.hpp"
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
        CHECK(result.failure->code == ErrorCode::UnsupportedDtype);
        CHECK(result.failure->hint == Hint::float32);
        CHECK_THAT(result.failure->message, Catch::Matchers::ContainsSubstring(kNoNumbers));
        CHECK(must(session.run({&request, 1}))[0].failure);
    }
    auto search = must(decoding::BeamSession::create(backend, model, {.context = 40}, {.beams = 3}));
    check_refused(search.run({&request, 1}), ErrorCode::UnsupportedDtype, kNoNumbers);

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
    check_refused(session.generate(sources), ErrorCode::UnsupportedDtype, kNoNumbers);
}

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
        CHECK(result == VKF_ERROR_UNSUPPORTED_DTYPE);
        CHECK_THAT(vkf_error_message(), Catch::Matchers::ContainsSubstring(kNoNumbers));
        CHECK(tokens_of(*session).empty());
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
        CHECK(result == VKF_ERROR_UNSUPPORTED_DTYPE);
        CHECK_THAT(vkf_error_message(), Catch::Matchers::ContainsSubstring(kNoNumbers));
        CHECK(tokens_of(*session).empty());
        // Another sequence may be tried.
        begin(*session, prompt_of(3));
        CHECK(is_running(*session));
    }
}

}  // namespace vkformer::tests
