// SPDX-License-Identifier: MIT
// Whether the validation layer that is installed finds races on shared memory, by leaving out barriers that are there. Hidden: the layer
// does so only when it is told to, which tests/drivers/races.py does.
#include "graph/builders.hpp"
#include "support/backends.hpp"
#include "support/lent_device.hpp"
#include "support/must.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::tests {
namespace {

/// The barriers of decode_attention/split.comp that are main()'s, which comes first in the module. The others are of functions: some of them no
/// workgroup of this size executes, one has a barrier of main() before it, and one is there for what storage buffers hold.
constexpr std::size_t kNeededBarriers = 5;

/// One query, 320 keys in pages, for which there is a barrier more, and in splits of 160: tiles of keys that are full and some that are not.
graph::Plan decode_attention_plan() {
    graph::Graph graph;
    const auto query = must(graph.input("query", DType::f32, {1, 1, 2, 64}));
    const auto key = must(graph.input("key", DType::f32, {5, graph::kPageLen, 1, 64}));
    const auto value = must(graph.input("value", DType::f32, {5, graph::kPageLen, 1, 64}));
    const auto pages = must(graph.input("pages", DType::i32, {1, 5}));
    graph.mark_output(must(decode_attention(graph, query, key, value, {}, 0.125f, 200, 0, pages)));
    return graph::make_plan(std::move(graph));
}

struct Outcome {
    std::vector<std::string> races{};  // what validation says of them
    std::size_t barriers = 0;          // in the shader
};

Outcome run_without_barrier(std::size_t number) {
    Interposer interposer(must(vulkan::open_loader()));
    interposer.drop_barrier(number);
    HostApplication host({});
    {
        auto backend = must(vulkan::VulkanBackend::adopt(lent(host, interposer), {.cache_folder = {}}));
        const auto program = must(backend->compile_program(decode_attention_plan(), backend->make_store(),
                                                           backend->make_store(), {.variants = {"split"}}));
        must(program->submit());
        must(program->wait());
    }
    Outcome outcome{.barriers = interposer.most_barriers()};
    for (const std::string& message : host.messages())
        if (message.find("data race") != message.npos) outcome.races.push_back(message);
    return outcome;
}

TEST_CASE("a barrier less is a race that the validation layer names", "[.races]") {
    REQUIRE_FALSE(vulkan_device_indices().empty());
    const Outcome whole = run_without_barrier(std::size_t(-1));
    CHECK(whole.races == std::vector<std::string>{});
    REQUIRE(whole.barriers > kNeededBarriers);
    for (std::size_t number = 0; number < kNeededBarriers; ++number) {
        CAPTURE(number);
        CHECK_FALSE(run_without_barrier(number).races.empty());
    }
}

}  // namespace
}  // namespace vkformer::tests
