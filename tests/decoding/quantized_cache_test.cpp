// SPDX-License-Identifier: MIT
// Whole models whose keys and values are cached as q8_0.
#include <numeric>

#include "cpu/backend.hpp"
#include "decoding/decoder_session.hpp"
#include "decoding/decoder_steps.hpp"
#include "models/decoder_case.hpp"
#include "models/tiny_llama.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/host_application.hpp"
#include "support/temporary_folder.hpp"
#include "support/vkf.hpp"
#include "tuning/trial_case.hpp"
#include "validation/validate.hpp"
#include "vkformer/generator.hpp"

namespace vkformer::tests {
namespace {

using decoding::DecoderSession;
using decoding::DecoderSessionOptions;
using decoding::Request;
using models::CacheFormat;

/// What a cache of 8 bits may change of the logits. A key or value is rounded to steps of max |x| / 127 over 32 neighbours, whose largest
/// is some 2.1 standard deviations: an error of 2.1 / 127 / √12 = 0.5 % of its norm, twice in each of two layers, beside a residual
/// stream that has none.
constexpr double kCacheBound = 0.02;
/// Two ways to the same keys: a value between two steps may be rounded up in one and down in the other, which is 1 / 127 of one element
/// in thousands.
constexpr double kSameCacheBound = 2e-3;

constexpr std::uint32_t kPromptLen = 24;

class TinyModel {
public:
    explicit TinyModel(const TinyLlama& sizes = {}) {
        write_tiny_llama(folder_.path(), sizes);
        model_.emplace(must(models::load_decoder(folder_.path())));
    }
    const models::Decoder& operator*() const { return *model_; }
    std::string path() const { return folder_.path().string(); }

private:
    TemporaryFolder folder_;
    std::optional<models::Decoder> model_;
};

/// Logits [kPromptLen, vocab] of a prompt, run in pieces.
std::vector<double> logits_of(const models::Decoder& model, graph::Backend& backend, DType dtype, CacheFormat cache,
                              const std::vector<std::uint32_t>& pieces) {
    const std::vector<std::int32_t> ids = prompt_of(kPromptLen);
    const std::size_t vocab = model.config().vocab_size;
    const auto weights = backend.make_store(), states = backend.make_store();
    std::vector<double> logits;
    for (const std::uint32_t piece : pieces) {
        graph::Graph g;
        const graph::Value tokens = must(g.input("tokens", DType::i32, {1, piece}));
        const graph::Value starts = must(g.input("starts", DType::i32, {1}));
        const models::DecoderLayout layout{.len = piece, .capacity = kPromptLen, .dtype = dtype, .cache = cache};
        const auto pass = must(model.add_pass(g, layout, tokens, starts, models::Logits::all));
        g.mark_output(pass.logits);
        const auto program = must(backend.compile(graph::make_plan(std::move(g)), weights, states));
        const std::size_t done = logits.size() / vocab;
        must(program->write(tokens, std::span(ids).subspan(done, piece)));
        const auto at = static_cast<std::int32_t>(done);
        must(program->write(starts, std::span<const std::int32_t>(&at, 1)));
        must(program->submit());
        must(program->wait());
        std::vector<double> values(piece * vocab);
        must(program->read(pass.logits, std::span<double>(values)));
        logits.insert(logits.end(), values.begin(), values.end());
    }
    REQUIRE(logits.size() == kPromptLen * vocab);
    return logits;
}

double difference(const std::vector<double>& found, const std::vector<double>& expected) {
    return relative_error(std::span<const double>(found), std::span<const double>(expected));
}

TEST_CASE("a cache of q8_0 changes the logits by what its rounding allows", "[decoding][decoder][q8_0]") {
    const TinyModel model;
    const auto oracle = cpu::make_cpu_backend<double>();
    const auto exact = logits_of(*model, *oracle, DType::f32, CacheFormat::as_computed, {kPromptLen});
    const auto rounded = logits_of(*model, *oracle, DType::f32, CacheFormat::q8_0, {kPromptLen});
    const double effect = difference(rounded, exact);
    CAPTURE(effect);
    CHECK(effect < kCacheBound);
    CHECK(effect > 1e-4);  // it is a cache of 8 bits

    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    CHECK(difference(logits_of(*model, backend, DType::f32, CacheFormat::q8_0, {kPromptLen}), rounded) <
          kSameCacheBound);
    CHECK(difference(logits_of(*model, backend, DType::f16, CacheFormat::q8_0, {kPromptLen}), exact) < kCacheBound);
}

TEST_CASE("a prompt in pieces fills a cache of q8_0 as one in one go does", "[decoding][decoder][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const TinyModel model;
    const auto whole = logits_of(*model, backend, DType::f32, CacheFormat::q8_0, {kPromptLen});
    CHECK(difference(logits_of(*model, backend, DType::f32, CacheFormat::q8_0, {7, 16, 1}), whole) < kSameCacheBound);
    CHECK(difference(logits_of(*model, backend, DType::f32, CacheFormat::q8_0, {1, 1, 22}), whole) < kSameCacheBound);
}

TEST_CASE("sequences with caches of q8_0 continue together as alone, and reuse what is cached",
          "[decoding][decoder][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const TinyModel model;
    const auto oracle = cpu::make_cpu_backend<double>();
    const auto open = [&](graph::Backend& on, std::uint32_t rows) {
        return must(
            DecoderSession::create(on, *model, {.rows = rows, .context = 64, .chunk = 16, .cache = CacheFormat::q8_0}));
    };
    std::vector<Request> requests;
    for (const std::size_t length : {3u, 30u, 17u})
        requests.push_back({.prompt = prompt_of(length, static_cast<std::int32_t>(length)), .max_tokens = 10});
    auto expecting = open(*oracle, 1);
    const auto expected = must(expecting.run(requests));

    auto alone = open(backend, 1), together = open(backend, 3);
    const auto one_by_one = must(alone.run(requests)), at_once = must(together.run(requests));
    for (std::size_t i = 0; i < requests.size(); ++i) {
        CHECK(one_by_one[i].tokens == expected[i].tokens);
        CHECK(at_once[i].tokens == expected[i].tokens);
    }
    Request longer = requests[2];
    longer.prompt.insert(longer.prompt.end(), expected[2].tokens.begin(), expected[2].tokens.begin() + 6);
    longer.max_tokens = 4;
    const auto continued = must(alone.run({&longer, 1}));
    CHECK(continued[0].reused >= 17);
    CHECK(continued[0].tokens == std::vector(expected[2].tokens.begin() + 6, expected[2].tokens.end()));
}

TEST_CASE("every node of a step with a cache of q8_0 is within its bound", "[validation][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    const TinyModel model;
    const auto oracle = cpu::make_cpu_backend<double>();
    const DecoderSessionOptions options{.rows = 2, .context = 40, .dtype = dtype, .cache = CacheFormat::q8_0};
    const auto step = must(decoding::step_graph(*model, options));
    validation::Feeds feeds;
    feeds["step_tokens"] = std::vector<std::int32_t>{5, 60};
    feeds["starts"] = std::vector<std::int32_t>{0, 39};
    for (const graph::Tensor& tensor : step.graph.tensors()) {
        if (tensor.alias_of || tensor.dtype != DType::q8_0) continue;
        std::vector<float> values(tensor.shape.element_count());
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
        feeds[tensor.name] = values;
    }
    const auto report = must(validation::validate(step.graph, "step", feeds, backend, *oracle));
    std::size_t caches = 0;
    for (const validation::NodeCheck& check : report.checks) {
        CAPTURE(check.node, check.error, check.bound);
        CHECK_FALSE(check.diverges());
        caches += check.dtype == DType::q8_0;
    }
    CHECK(caches == 4);
}

TEST_CASE("a trial has caches of q8_0 as states with something in them", "[tuning][q8_0]") {
    const TinyModel model;
    const auto step = must(decoding::step_graph(*model, {.rows = 1, .context = 40, .cache = CacheFormat::q8_0}));
    std::size_t found = 0;
    for (const graph::Node& node : step.graph.nodes()) {
        if (!std::holds_alternative<graph::DecodeAttention>(node.op)) continue;
        CHECK(tuning::case_key(step.graph, node, true).find("key=q8_0[1,40,2,32]") != std::string::npos);
        const auto trial = must(tuning::make_trial_case(step.graph, node, 1e9));
        const graph::Value key = std::get<graph::DecodeAttention>(trial.graph.nodes()[0].op).key;
        CHECK(trial.graph.tensor(key).kind == graph::TensorKind::state);
        CHECK(trial.graph.dtype(key) == DType::q8_0);
        CHECK(std::ranges::any_of(trial.contents, [&](const auto& entry) { return entry.first == key; }));
        ++found;
    }
    CHECK(found == 2);
}

std::vector<std::string> generator_devices() {
    std::vector<std::string> devices = vulkan_device_indices();
    devices.push_back("cpu");
    return devices;
}

TEST_CASE("heads that are no whole blocks are refused with what else there is", "[decoding][decoder][q8_0]") {
    graph::Backend& backend = *test_backends().front();
    const TinyModel model({.kv_heads = 1});  // 32: half a word of scales
    for (const models::Decoder& refused : {*model, load_decoder_case("qwen3")}) {
        const auto step = decoding::step_graph(refused, {.rows = 1, .context = 16, .cache = CacheFormat::q8_0});
        REQUIRE_FALSE(step);
        CHECK(step.error().code == ErrorCode::InvalidArgument);
        CHECK(step.error().message.find("cannot be cached as q8_0") != std::string::npos);
        const auto session = DecoderSession::create(backend, refused, {.context = 16, .cache = CacheFormat::q8_0});
        REQUIRE_FALSE(session);
        CHECK(session.error().code == ErrorCode::InvalidArgument);
    }
    for (const std::string& device : generator_devices()) {
        const auto generator = Generator::load(goldens_dir() / "decoder_text",
                                               {.device = device, .cache = CacheStorage::q8_0, .plain_shaders = true});
        REQUIRE_FALSE(generator);
        CHECK(generator.error().code == ErrorCode::InvalidArgument);
        CHECK(generator.error().message.find("2 key heads of 8;") != std::string::npos);
    }
}

TEST_CASE("a guest's session keeps its keys as q8_0, in less memory", "[api][c][guest][session][q8_0]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    const TinyModel tiny;
    const auto oracle = cpu::make_cpu_backend<double>();
    const Request request{.prompt = prompt_of(21), .max_tokens = 8};
    auto expecting = must(DecoderSession::create(*oracle, *tiny, {.context = 64, .cache = CacheFormat::q8_0}));
    const auto expected = must(expecting.run({&request, 1}))[0].tokens;

    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index))});
    const VkfDevice device = adopt(host.lend_least());
    CAPTURE(vkf_device_name(device.get()));
    const VkfModel model = load_model(*device, tiny.path());
    vkf_session_info info = VKF_SESSION_INFO_INIT;
    info.context = 64;
    info.chunk = 8;
    vkf_session_memory floats = VKF_SESSION_MEMORY_INIT, blocks = VKF_SESSION_MEMORY_INIT;
    succeed(vkf_session_query_memory(model.get(), &info, &floats));
    info.cache_q8_0 = VK_TRUE;
    succeed(vkf_session_query_memory(model.get(), &info, &blocks));
    // Two layers of keys and values of 64 positions, 64 elements each.
    constexpr std::uint64_t kElements = 4 * 64 * 64;
    CHECK(floats.states - blocks.states >= kElements * 4 - kElements / 32 * 34 - 4096);
    const VkfSession session = make_session(*model, info);
    succeed(vkf_session_begin(session.get(), request.prompt.data(), request.prompt.size(), request.max_tokens));
    const VkCommandBuffer commands = host.make_commands();
    while (status_of(*session).state != VKF_SESSION_DONE) {
        vkf_slice slice = VKF_SLICE_INIT;
        host.begin(commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
        succeed(vkf_session_record(session.get(), commands, 300, &slice));
        host.end(commands);
        host.submit_and_wait(commands);
        succeed(vkf_session_retire(session.get(), slice.ticket));
    }
    CHECK(tokens_of(*session) == expected);

    const TinyModel narrow({.kv_heads = 1});
    const VkfModel refused = load_model(*device, narrow.path());
    vkf_session* none = nullptr;
    CHECK(vkf_session_create(refused.get(), &info, nullptr, nullptr, &none) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(none == nullptr);
    CHECK(std::string(vkf_error_message()).find("1 key heads of 32;") != std::string::npos);
    CHECK(host.messages() == std::vector<std::string>{});
}

}  // namespace
}  // namespace vkformer::tests
