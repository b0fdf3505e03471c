// SPDX-License-Identifier: MIT
// Runs in several submissions: the bits of one, none of them long, on devices that are slow by a clock of the tests' own.
#include "vulkan/program_runs.hpp"

#include <algorithm>
#include <functional>
#include <thread>

#include "graph/builders.hpp"
#include "graph/work.hpp"
#include "support/backends.hpp"
#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "support/lent_device.hpp"
#include "support/op_bits.hpp"
#include "support/op_case.hpp"
#include "support/quantized.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::tests {
namespace {

using graph::Graph;
using graph::Value;
using vulkan::VulkanBackend;
using vulkan::VulkanProgram;

/// Ops whose grids have several workgroups, of every kind that is worth a cut.
std::vector<std::pair<std::string, std::function<Value(OpCase&)>>> long_ops() {
    std::vector<std::pair<std::string, std::function<Value(OpCase&)>>> ops;
    for (const DType stored : {DType::f32, DType::f16, DType::q8_0, DType::q4_k})
        for (const std::uint64_t rows : {1u, 150u})
            ops.emplace_back("linear " + std::string(to_string(stored)) + " " + std::to_string(rows), [=](OpCase& c) {
                const DType computed = stored == DType::f16 ? DType::f16 : DType::f32;
                const Value x = c.floats("x", computed, {rows, 256});
                return must(linear(c.graph, x, random_weight(c, stored, 332, 256)));
            });
    for (const DType dtype : kFloatTypes)
        ops.emplace_back("attention " + std::string(to_string(dtype)), [=](OpCase& c) {
            const Value q = c.floats("q", dtype, {2, 70, 4, 64}), k = c.floats("k", dtype, {2, 90, 2, 64});
            const Value v = c.floats("v", dtype, {2, 90, 2, 64});
            return must(attention(c.graph, q, k, v, {.causal = true}, 0.125f));
        });
    ops.emplace_back("expert_linear", [](OpCase& c) {
        const Value x = c.floats("x", DType::f32, {40, 256});
        const Value experts = c.ints("experts", {40, 2}, c.random_ints(80, 0, 3));
        return must(expert_linear(c.graph, x, random_weight(c, DType::q8_0, 4 * 96, 256), experts, 4));
    });
    ops.emplace_back("linear of batches", [](OpCase& c) {
        const Value x = c.floats("x", DType::f32, {3, 70, 128});
        return must(linear(c.graph, x, c.floats("weight", DType::f32, {3, 150, 128})));
    });
    ops.emplace_back("attention_scores", [](OpCase& c) {
        const Value q = c.floats("q", DType::f32, {2, 30, 4, 64}), k = c.floats("k", DType::f32, {2, 40, 4, 64});
        return must(attention_scores(c.graph, q, k, 0.125f));
    });
    ops.emplace_back("weighted_sum", [](OpCase& c) {
        const Value w = c.floats("w", DType::f32, {2, 4, 30, 40}), v = c.floats("v", DType::f32, {2, 40, 4, 64});
        return must(weighted_sum(c.graph, w, v));
    });
    ops.emplace_back("rms_norm", [](OpCase& c) {
        return must(
            rms_norm(c.graph, c.floats("x", DType::f32, {60, 300}), c.floats("gain", DType::f32, {300}), 1e-5f));
    });
    // More than 65,535 workgroups: the grid is folded, and its shader reads the width.
    ops.emplace_back("rms_norm of many rows", [](OpCase& c) {
        const Value x = c.floats("x", DType::f32, {70'000, 8});
        return must(rms_norm(c.graph, x, c.floats("gain", DType::f32, {8}), 1e-5f));
    });
    ops.emplace_back("gated_activation", [](OpCase& c) {
        return must(gated_activation(c.graph, c.floats("x", DType::f32, {60, 1024}), {}, graph::Activation::silu));
    });
    return ops;
}

TEST_CASE("a grid in parts gives the bits of the whole one", "[vulkan][runs]") {
    for (const std::string& index : vulkan_device_indices()) {
        const auto backend = [&](bool cut_all) {
            return must(VulkanBackend::create(index, {.validation = validation_available(),
                                                      .check_memory = true,
                                                      .run_limits = {.cut_all = cut_all},
                                                      .cache_folder = {}}));
        };
        const auto whole = backend(false), parts = backend(true);
        for (const auto& [name, make] : long_ops()) {
            CAPTURE(whole->name(), name);
            if (!takes_case(index, 3)) continue;
            OpCase c;
            const Value y = c.expect(make(c));
            const auto expected = runs_of(c, *whole, y), found = runs_of(c, *parts, y);
            REQUIRE(found.size() == expected.size());
            for (std::size_t i = 0; i < found.size(); ++i) {
                CAPTURE(i);
                CHECK(found[i] == expected[i]);
            }
        }
        CHECK(whole->validation_messages().empty());
        CHECK(parts->validation_messages().empty());
    }
}

TEST_CASE("what updates a tensor is not cut", "[vulkan][runs]") {
    for (const std::string& index : vulkan_device_indices()) {
        const auto backend = must(VulkanBackend::create(index, {.cache_folder = {}}));
        const auto is_cuttable = [&](Graph&& g) {
            const auto program = must(backend->compile_program(graph::make_plan(std::move(g), {.fuse = false}),
                                                               backend->make_store(), backend->make_store()));
            REQUIRE(program->dispatch(0).group_count() > 1);
            return program->is_cuttable(0);
        };
        Graph append, norm;
        const Value cache = must(append.state("cache", DType::f32, {2, 300, 8, 64}));
        must(cache_append(append, must(append.input("x", DType::f32, {2, 200, 8, 64})), {}, cache));
        CHECK_FALSE(is_cuttable(std::move(append)));
        const Value x = must(norm.input("x", DType::f32, {300, 512}));
        norm.mark_output(must(rms_norm(norm, x, must(norm.input("gain", DType::f32, {512})), 1e-5f)));
        CHECK(is_cuttable(std::move(norm)));
    }
}

/// Products one behind the other, the first of which is thought to take most of a second where nothing is known.
struct Chain {
    Graph graph;
    Value x, y;

    explicit Chain(std::uint64_t depth = 64) {
        OpCase c;
        x = must(graph.input("x", DType::f32, {192, depth}));
        Value value = x;
        for (const std::uint64_t out : {6400u, 64u, 320u}) {
            const std::uint64_t in = graph.shape(value)[1];
            const Value weight = must(
                graph.weight("w" + std::to_string(out), owned(c.random_floats(out * in, 0.1f), {out, in}), DType::f32));
            value = must(linear(graph, must(activate(graph, value, graph::Activation::tanh)), weight));
        }
        y = value;
        graph.mark_output(y);
    }

    std::unique_ptr<VulkanProgram> compile(VulkanBackend& backend) const {
        return must(backend.compile_program(graph::make_plan(graph), backend.make_store(), backend.make_store()));
    }
    void write(VulkanProgram& program) const {
        OpCase c(2);
        const auto values = c.random_floats(graph.shape(x).element_count());
        must(program.write(x, std::span<const float>(values)));
    }
    std::vector<std::uint32_t> result(VulkanProgram& program) const {
        std::vector<float> values(graph.shape(y).element_count());
        must(program.read(y, std::span<float>(values)));
        return bits_of(values);
    }
};

/// A device that calls itself a GPU and takes its time.
struct SlowDevice {
    Interposer interposer{must(vulkan::open_loader())};
    HostApplication host;
    std::unique_ptr<VulkanBackend> backend;

    SlowDevice(const std::string& index, double us_per_workgroup, bool is_own = true)
        : host({.device_index = static_cast<std::uint32_t>(std::stoul(index))}) {
        interposer.claim_type(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
        interposer.slow_down(us_per_workgroup);
        if (!is_own) {
            backend = must(VulkanBackend::adopt(lent(host, interposer), {.cache_folder = {}}));
            return;
        }
        const auto instance = must(vulkan::Instance::adopt(interposer.get(), host.instance, false));
        backend = must(VulkanBackend::on(must(vulkan::Device::create(instance, instance->describe(host.physical))),
                                         {.cache_folder = {}}));
    }
    std::size_t submissions_of(const std::function<void()>& work) {
        interposer.reset_calls();
        work();
        const auto calls = interposer.calls();
        const auto found = calls.find("vkQueueSubmit");
        return found == calls.end() ? 0 : found->second;
    }
};

constexpr double kAimUs = vulkan::RunLimits().aim_us, kMostUs = vulkan::RunLimits().most_us;

TEST_CASE("no submission is long on a device that was never measured, be it quick or slow", "[vulkan][runs]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    if (!takes_case(index, 2)) return;
    // The clock counts workgroups, whatever their depth: by the time of a flatter first product the deep second one would be cut.
    const Chain chain(320);
    std::vector<std::uint32_t> expected;
    struct Speed {
        double us_per_workgroup;
        bool in_one;  // a run is one submission once it is known
    };
    for (const auto& [us_per_workgroup, in_one] :
         {Speed{0.001, true}, Speed{20, true}, Speed{2000, false}, Speed{4000, false}}) {
        CAPTURE(us_per_workgroup);
        SlowDevice device(index, us_per_workgroup);
        CAPTURE(device.backend->name());
        const auto program = chain.compile(*device.backend);
        chain.write(*program);
        const std::size_t first = device.submissions_of([&] {
            must(program->submit());
            must(program->wait());
        });
        CHECK(device.interposer.longest_submission_us() <= kMostUs);
        if (expected.empty()) expected = chain.result(*program);
        CHECK(chain.result(*program) == expected);
        device.interposer.slow_down(us_per_workgroup);  // begins anew
        const std::size_t second = device.submissions_of([&] { must(program->submit()); });
        must(program->wait());
        CHECK(chain.result(*program) == expected);
        CHECK(device.interposer.longest_submission_us() <= 2 * kAimUs);
        CHECK((second == 1) == in_one);
        CHECK((first > 1 || in_one));
        const auto recorded = device.interposer.recorded();
        CHECK((std::ranges::find(recorded, Interposer::kLaterPart) == recorded.end()) == in_one);
        // Another program of the same shapes has nothing to learn.
        const auto other = chain.compile(*device.backend);
        chain.write(*other);
        CHECK(device.submissions_of([&] { must(other->submit()); }) == second);
        CHECK(chain.result(*other) == expected);
        CHECK(device.host.messages() == std::vector<std::string>{});
    }
}

TEST_CASE("several runs at once are as many submissions as their time needs", "[vulkan][runs]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    if (!takes_case(index, 2)) return;
    const Chain chain;
    SlowDevice device(index, 20);
    const auto program = chain.compile(*device.backend);
    chain.write(*program);
    must(program->submit());
    must(program->wait());
    device.interposer.slow_down(20);
    must(program->submit());
    const double run_us = device.interposer.longest_submission_us();
    must(program->wait());
    REQUIRE(run_us > 0);
    REQUIRE(run_us < kAimUs / 2);
    const auto fitting = static_cast<std::size_t>(kAimUs / run_us);
    const auto times = static_cast<std::uint32_t>(2 * fitting + 1);
    CHECK(device.submissions_of([&] { must(program->submit(times)); }) == 3);
    must(program->wait());
    CHECK(device.interposer.longest_submission_us() <= kAimUs);
    // One that takes three times as long is no reason to measure anew, and is counted all the same.
    device.interposer.slow_down(60);
    must(program->submit());
    must(program->wait());
    CHECK(device.submissions_of([&] { must(program->submit(times)); }) >= 6);
    must(program->wait());
    CHECK(device.interposer.longest_submission_us() <= kAimUs);
}

TEST_CASE("a run that takes longer than it did is measured again", "[vulkan][runs]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    if (!takes_case(index, 2)) return;
    const Chain chain;
    SlowDevice device(index, 20);
    const auto program = chain.compile(*device.backend);
    chain.write(*program);
    const auto run = [&] {
        return device.submissions_of([&] {
            must(program->submit());
            must(program->wait());
        });
    };
    run();
    REQUIRE(run() == 1);
    const auto expected = chain.result(*program);
    device.interposer.slow_down(2000);
    CHECK(run() == 1);  // nobody could know
    CHECK(run() == 1);  // it is measured, in the parts that were thought of
    device.interposer.slow_down(2000);
    CHECK(run() > 1);
    CHECK(device.interposer.longest_submission_us() <= 2 * kAimUs);
    CHECK(chain.result(*program) == expected);
    device.interposer.slow_down(20);
    run();
    run();
    CHECK(run() == 1);
    CHECK(chain.result(*program) == expected);
}

TEST_CASE("a run that takes a little longer each time is cut in the end", "[vulkan][runs]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    if (!takes_case(index, 2)) return;
    const Chain chain;
    SlowDevice device(index, 20);
    const auto program = chain.compile(*device.backend);
    chain.write(*program);
    for (double us = 20; us < 2000; us *= 1.3) {
        device.interposer.slow_down(us);
        must(program->submit());
        must(program->wait());
        // Twice the aim is late; the run that tells it is longer by the factor, and so is the next one, which is measured.
        CHECK(device.interposer.longest_submission_us() <= 2 * kAimUs * 1.3 * 1.3 + 1);
    }
    CHECK(device.submissions_of([&] { must(program->submit()); }) > 1);
    must(program->wait());
}

/// Products of one grid and of depths that differ.
Graph product_of_depth(std::uint64_t depth) {
    Graph graph;
    const Value x = must(graph.input("x", DType::f32, {64, depth})),
                weight = must(graph.input("weight", DType::f32, {640, depth}));
    graph.mark_output(must(linear(graph, x, weight)));
    return graph;
}

TEST_CASE("what is known of a product says nothing of deeper ones", "[vulkan][runs]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    SlowDevice device(index, 400);
    const auto compile = [&](std::uint64_t depth) {
        return must(device.backend->compile_program(graph::make_plan(product_of_depth(depth)),
                                                    device.backend->make_store(), device.backend->make_store()));
    };
    const auto shallow = compile(640), other = compile(640), deep = compile(6400);
    must(shallow->submit());
    must(shallow->wait());
    CHECK(other->kind(0) == shallow->kind(0));
    CHECK(deep->kind(0) != shallow->kind(0));
}

TEST_CASE("programs of an adopted device never wait in a submission, and are measured all the same", "[vulkan][runs]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    const Chain chain;
    SlowDevice device(index, 20, false);
    const auto program = chain.compile(*device.backend);
    chain.write(*program);
    for (int run = 0; run < 2; ++run) {
        const std::size_t submissions = device.submissions_of([&] {
            must(program->submit());
            if (run == 0) CHECK_FALSE(device.interposer.calls().contains("vkWaitSemaphores"));
        });
        CHECK((submissions == 1) == (run == 1));
        // An application waits for its ticket; the program hears of it when it is submitted again.
        must(device.backend->device()->wait(device.backend->device()->last_submission()));
    }
    CHECK(device.interposer.longest_submission_us() <= kAimUs);
    CHECK_FALSE(chain.result(*program).empty());
}

TEST_CASE("a first run that waits for its caller does not keep the caller", "[vulkan][runs]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    const Chain chain;
    SlowDevice device(index, 2000);
    const vulkan::Device& d = *device.backend->device();
    const VkSemaphoreTypeCreateInfo type{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                         .pNext = nullptr,
                                         .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
                                         .initialValue = 0};
    const VkSemaphoreCreateInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type, .flags = 0};
    VkSemaphore semaphore = VK_NULL_HANDLE;
    REQUIRE(d.vk().vkCreateSemaphore(d.handle(), &info, nullptr, &semaphore) == VK_SUCCESS);
    {
        const auto program = chain.compile(*device.backend);
        chain.write(*program);
        std::size_t before = 0;
        for (std::uint64_t run = 0; run < 3; ++run) {
            CAPTURE(run);
            std::uint64_t ticket = 0;
            const std::size_t submissions = device.submissions_of([&] {
                ticket = must(program->submit(vulkan::SemaphorePoints{.waits = {{semaphore, 2 * run + 1}},
                                                                      .signals = {{semaphore, 2 * run + 2}}}));
            });
            CHECK_FALSE(must(device.backend->device()->wait_for(ticket, 0)));
            // The first submission waits for the caller's semaphore, the last signals it beside the device's own, and no other does.
            std::vector<Interposer::Semaphores> semaphores(submissions, {.waits = 0, .signals = 1});
            semaphores.front().waits = 1;
            semaphores.back().signals = 2;
            CHECK(device.interposer.semaphores() == semaphores);
            const VkSemaphoreSignalInfo signal{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                               .pNext = nullptr,
                                               .semaphore = semaphore,
                                               .value = 2 * run + 1};
            const auto vk_signal = reinterpret_cast<PFN_vkSignalSemaphore>(
                d.instance().vk().vkGetDeviceProcAddr(d.handle(), "vkSignalSemaphore"));
            REQUIRE(vk_signal(d.handle(), &signal) == VK_SUCCESS);
            must(program->wait());
            CHECK(submissions > 1);
            if (run == 2) CHECK(submissions == before);  // by what was measured
            before = submissions;
        }
        const auto expected = chain.result(*program);
        must(program->submit());
        CHECK(chain.result(*program) == expected);
    }
    d.vk().vkDestroySemaphore(d.handle(), semaphore, nullptr);
}

TEST_CASE("work is counted by what the shapes allow", "[graph][runs]") {
    Graph g;
    const auto work = [&](Value) { return graph::work_of(g.nodes().back().op, g); };
    const Value x = must(g.input("x", DType::f32, {3, 5}));
    const Value w = must(g.weight("w", owned(std::vector<float>(35), {7, 5}), DType::f32));
    CHECK(work(must(linear(g, x, w))) == 3 * 5 * 7);
    CHECK(work(must(activate(g, x, graph::Activation::relu))) == 2 * 15);
    const Value q = must(g.input("q", DType::f32, {2, 3, 4, 8})), k = must(g.input("k", DType::f32, {2, 6, 2, 8}));
    const Value v = must(g.input("v", DType::f32, {2, 6, 2, 16}));
    CHECK(work(must(attention(g, q, k, v, {}, 1))) == 2 * 3 * 4 * 6 * (8 + 16));
    const Value scores = must(attention_scores(g, q, k, 1));
    CHECK(work(scores) == 2 * 4 * 3 * 6 * 8);
    CHECK(work(must(weighted_sum(g, scores, v))) == 2 * 4 * 3 * 6 * 16);
    const Value experts = must(g.input("experts", DType::i32, {3, 2}));
    const Value many = must(g.weight("many", owned(std::vector<float>(70), {14, 5}), DType::f32));
    CHECK(work(must(expert_linear(g, x, many, experts, 2))) == 3 * 2 * 7 * 5);
}

}  // namespace
}  // namespace vkformer::tests
