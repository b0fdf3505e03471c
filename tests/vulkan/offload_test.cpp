// SPDX-License-Identifier: MIT
#include "vulkan/offload.hpp"

#include "core/try.hpp"
#include "decoding/decoder_session.hpp"
#include "graph/builders.hpp"
#include "models/open_model.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "support/lent_device.hpp"
#include "support/must.hpp"
#include "support/quantized.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using vulkan::PlacedWeight;

constexpr std::uint64_t kMiB = 1 << 20;

TEST_CASE("what a token reads least of is offloaded first", "[vulkan][offload]") {
    const std::vector<PlacedWeight> weights = {{8 * kMiB, 1},      {2 * kMiB, 1},      {100, 1},
                                               {64 * kMiB, 0.125}, {16 * kMiB, 0.125}, {32 * kMiB, 1e-5}};
    using Chosen = std::vector<bool>;
    const auto choose = [&](std::uint64_t bytes) { return vulkan::choose_offloaded(weights, bytes); };
    CHECK(choose(0) == Chosen{false, false, false, false, false, false});
    CHECK(choose(1) == Chosen{false, false, false, false, false, true});
    CHECK(choose(32 * kMiB + 1) == Chosen{false, false, false, false, true, true});  // the least that is enough
    CHECK(choose(100 * kMiB) == Chosen{false, false, false, true, true, true});      // 4 MiB are left: 16 for them
    CHECK(choose(112 * kMiB) == Chosen{false, false, false, true, true, true});
    CHECK(choose(113 * kMiB) == Chosen{false, true, false, true, true, true});
    CHECK(choose(120 * kMiB) == Chosen{true, false, false, true, true, true});
    CHECK(choose(121 * kMiB) == Chosen{true, true, false, true, true, true});
    CHECK(choose(122 * kMiB + 1) == Chosen{true, true, true, true, true, true});
    CHECK(choose(UINT64_MAX) == Chosen{true, true, true, true, true, true});
    CHECK(vulkan::choose_offloaded({}, 1).empty());
}

TEST_CASE("a token reads one row of a table and the experts that are chosen", "[vulkan][offload]") {
    if (vulkan_backends().empty()) return;
    graph::Graph g;
    const auto weight = [&](const char* name, std::uint64_t rows, std::uint64_t columns) {
        return must(g.weight(name, owned(std::vector<float>(rows * columns, 1), {rows, columns}), DType::f32));
    };
    const auto tokens = must(g.input("tokens", DType::i32, {3}));
    const auto chosen = must(g.input("chosen", DType::i32, {3, 2}));
    const auto table = weight("table", 40, 32), tied = weight("tied", 50, 32);
    const auto stack = weight("stack", 8 * 16, 32), matrix = weight("matrix", 16, 32);
    const auto x = must(embedding(g, tokens, table));
    const auto y = must(add(g, x, must(embedding(g, tokens, tied))));
    g.mark_output(must(expert_linear(g, y, stack, chosen, 8)));
    g.mark_output(must(linear(g, y, matrix)));
    g.mark_output(must(linear(g, y, tied)));
    const auto pieced =
        must(vulkan::cut_into_pieces(graph::make_plan(g), vulkan_backends().front()->device()->capabilities()));
    std::map<std::string, double> parts;
    for (const graph::Tensor& tensor : pieced.plan.graph.tensors()) {
        if (tensor.kind != graph::TensorKind::weight) continue;
        const graph::Tensor* const one = &tensor;
        const auto placed = vulkan::placed_weights(pieced, {&one, 1});
        CHECK(placed[0].bytes == graph::storage_bytes(tensor));
        parts[tensor.name] = placed[0].part_read;
    }
    CHECK(parts ==
          std::map<std::string, double>{{"table", 1.0 / 40}, {"tied", 1.0}, {"stack", 2.0 / 8}, {"matrix", 1.0}});
}

TEST_CASE("what is offloaded is told in words", "[vulkan][offload]") {
    CHECK(to_string(
              vulkan::OffloadCost{.bytes = 312 * kMiB, .bytes_per_run = 150.0 * kMiB, .bytes_per_second = 1.5e10}) ==
          "312.0 MiB of weights stay in the host's memory; a token reads 150.0 MiB of them over the bus, which takes "
          "10.5 ms at 15.0 GB/s");
    CHECK(to_string(vulkan::OffloadCost{.bytes = kMiB}) ==
          "1.0 MiB of weights stay in the host's memory; a token reads 0.0 MiB of them over the bus");
}

/// Some tokens of the model that comes with vkformer, 17.4 MiB of weights as float32, on a device with so much memory of its own; 0: as it is.
struct Run {
    std::vector<std::int32_t> tokens;
    std::uint64_t most_own = 0, host = 0;  // bytes
    DeviceMemory memory;
    std::vector<std::string> told;
};
Result<Run> run_offloaded(const std::string& index, std::uint64_t own_memory, std::uint64_t offload) {
    Interposer interposer(must(vulkan::open_loader()));
    if (own_memory) interposer.claim_own_memory(own_memory);
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index))});
    Run run;
    vulkan::BackendOptions options{.cache_folder = {}};
    options.offload = {.bytes = offload, .report = [&](const std::string& text) { run.told.push_back(text); }};
    VKFORMER_TRY(const auto backend, vulkan::VulkanBackend::adopt(lent(host, interposer), options));
    static const models::Decoder model = must(
        models::load_decoder(std::string(VKFORMER_SOURCE_DIR) + "/samples/models/verse-writer/verse-writer-q8_0.gguf"));
    {
        VKFORMER_TRY(auto session, decoding::DecoderSession::create(*backend, model, {.context = 128}));
        decoding::Request request;
        for (std::int32_t i = 0; i < 40; ++i) request.prompt.push_back(5 + 3 * i);
        request.max_tokens = 6;
        VKFORMER_TRY(const auto results, session.run({&request, 1}));
        run.tokens = results[0].tokens;
        run.most_own = interposer.most_own_memory();
        run.host = interposer.host_memory();
        run.memory = backend->memory();
    }
    CHECK(backend->memory().weights == 0);
    CHECK(host.messages() == std::vector<std::string>{});
    return run;
}

constexpr std::uint64_t kStaging = 4 * kMiB;

TEST_CASE("weights that do not fit the device stay in the host's memory", "[vulkan][offload]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    CAPTURE(index);
    const Run all = must(run_offloaded(index, 64 * kMiB, Offload::kRest));
    CHECK(all.told.empty());  // there is room for them
    CHECK(all.host == kStaging);
    REQUIRE(all.tokens.size() == 6);
    REQUIRE(all.most_own > 5 * kMiB);

    const auto without = run_offloaded(index, 5 * kMiB, 0);
    REQUIRE_FALSE(without);
    CHECK(without.error().code == ErrorCode::OutOfDeviceMemory);

    const Run run = must(run_offloaded(index, 5 * kMiB, Offload::kRest));
    CHECK(run.tokens == all.tokens);
    CHECK(run.most_own <= 5 * kMiB);
    CHECK(run.host > kStaging + kMiB / 2);
    CHECK(run.memory.weights == all.memory.weights);  // wherever they are
    CHECK(run.memory.other > 0);
    REQUIRE(run.told.size() == 1);
    CHECK_THAT(run.told[0], ContainsSubstring(" MiB of weights stay in the host's memory; a token reads ") &&
                                ContainsSubstring(" GB/s"));
}

TEST_CASE("as many weights as are asked for stay in the host's memory", "[vulkan][offload]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    const Run all = must(run_offloaded(index, 64 * kMiB, 0));
    const Run one = must(run_offloaded(index, 64 * kMiB, 1));
    CHECK(one.tokens == all.tokens);
    CHECK(one.host > kStaging);
    CHECK(one.host < kStaging + kMiB);
    const Run every = must(run_offloaded(index, 64 * kMiB, kMiB << 20));
    CHECK(every.tokens == all.tokens);
    CHECK(every.host == kStaging + all.memory.weights);
    CHECK(every.most_own + all.memory.weights <= all.most_own + kMiB);  // which the bus was measured with

    // A device whose memory is the host's has nowhere to offload to.
    const auto refused = run_offloaded(index, 0, 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::MissingFeature);
    CHECK_THAT(refused.error().message, ContainsSubstring("no memory but its own"));
    CHECK(must(run_offloaded(index, 0, Offload::kRest)).tokens == all.tokens);
}

}  // namespace
}  // namespace vkformer::tests
