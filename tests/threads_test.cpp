// SPDX-License-Identifier: MIT
// What several threads do to one thing at the same time. Some of it fails in any build where a lock is missing; what needs luck there
// is named by ThreadSanitizer (ctest --preset tsan).
#include <algorithm>
#include <array>
#include <atomic>
#include <latch>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/output_file.hpp"
#include "core/tasks.hpp"
#include "cpu/backend.hpp"
#include "graph/builders.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "support/lent_device.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "vkformer/devices.hpp"
#include "vulkan/allocator.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/memory.hpp"
#include "vulkan/pieces.hpp"
#include "vulkan/pipelines.hpp"
#include "vulkan/store.hpp"

namespace vkformer::tests {
namespace {

constexpr std::size_t kThreads = 2;

/// Calls work(i) for every i < kThreads, each on a thread of its own, all of which begin together.
template <class Work>
void at_once(const Work& work) {
    std::latch begin(kThreads);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            begin.arrive_and_wait();
            work(i);
        });
}

/// Calls look() when another thread has done work(): nothing but the locks of what both use puts them in an order, so that
/// ThreadSanitizer finds one that is missing however the threads run.
template <class Work, class Look>
void in_turn(const Work& work, const Look& look) {
    std::atomic<bool> is_done = false;
    const std::jthread other([&] {
        work();
        is_done.store(true, std::memory_order_relaxed);
    });
    while (!is_done.load(std::memory_order_relaxed)) std::this_thread::yield();
    look();
}

}  // namespace

TEST_CASE("tasks are done once each, and what one throws on another thread arrives", "[core][threads]") {
    constexpr std::size_t kCount = 5000;
    std::vector<std::atomic<int>> seen(kCount);
    run_tasks(kCount, [&](std::size_t i) { ++seen[i]; });
    CHECK(std::ranges::all_of(seen, [](const auto& times) { return times == 1; }));

    if (std::thread::hardware_concurrency() < 2) return;
    const auto here = std::this_thread::get_id();
    std::atomic<bool> is_thrown = false;
    const auto throw_elsewhere = [&](std::size_t) {
        if (std::this_thread::get_id() != here) {
            is_thrown = true;
            throw std::bad_alloc();
        }
        while (!is_thrown) std::this_thread::yield();
    };
    CHECK_THROWS_AS(run_tasks(2, throw_elsewhere), std::bad_alloc);
}

TEST_CASE("files that threads write at the same time are all known to a signal's handler", "[core][output][threads]") {
    constexpr int kRounds = 300, kFiles = 4;
    const TemporaryFolder folder;
    std::array<std::filesystem::path, kThreads> folders;
    for (std::size_t i = 0; i < kThreads; ++i) {
        folders[i] = folder.path() / std::to_string(i);
        std::filesystem::create_directory(folders[i]);
    }
    int left = 0;
    for (int round = 0; round < kRounds; ++round) {
        std::array<std::vector<OutputFile>, kThreads> files;
        at_once([&](std::size_t i) {
            for (int n = 0; n < kFiles; ++n)
                if (auto file = OutputFile::create(folders[i] / std::to_string(n)))
                    files[i].push_back(*std::move(file));
        });
        for (const auto& opened : files) REQUIRE(opened.size() == kFiles);
        remove_unfinished_files();
        for (const auto& path : folders) left += static_cast<int>(file_count(path));
    }
    CHECK(left == 0);
}

TEST_CASE("memory that threads take and give back is counted", "[vulkan][memory][threads]") {
    if (vulkan_backends().empty()) return;
    const vulkan::Device& device = *vulkan_backends().front()->device();
    vulkan::Allocator allocator(device, 0,
                                {.allocate =
                                     [](const vulkan::MemoryRequest&, vulkan::MemoryRange& range) {
                                         range.memory = reinterpret_cast<VkDeviceMemory>(std::uintptr_t{1});
                                         return VK_SUCCESS;
                                     },
                                 .free = [](const vulkan::MemoryRange&) {}},
                                {});
    const auto request = [](VkDeviceSize bytes) {
        return vulkan::MemoryRequest{.requirements = {.size = bytes, .alignment = 1, .memoryTypeBits = 1},
                                     .label = "a test"};
    };
    constexpr VkDeviceSize kFrees = 1'000'000;
    const vulkan::MemoryRange range = must(allocator.allocate(request(kThreads * kFrees)));
    at_once([&](std::size_t) {
        for (VkDeviceSize i = 0; i < kFrees; ++i) allocator.free(range, 1);
    });
    CHECK(allocator.used() == 0);
    CHECK(allocator.peak() == kThreads * kFrees);

    constexpr int kAllocations = 500;  // each of which asks the driver for what is free
    std::atomic<int> failures = 0;
    at_once([&](std::size_t) {
        for (int i = 0; i < kAllocations; ++i) {
            const auto made = allocator.allocate(request(3));
            failures += !made || allocator.used() < 3 || allocator.peak() != kThreads * kFrees;
            if (made) allocator.free(*made, 3);
        }
    });
    CHECK(failures == 0);
    CHECK(allocator.used() == 0);
}

TEST_CASE("a thread sees what another one allocates", "[vulkan][memory][threads]") {
    if (vulkan_backends().empty()) return;
    const vulkan::Device& device = *vulkan_backends().front()->device();
    vulkan::Allocator allocator(device, 0,
                                {.allocate =
                                     [](const vulkan::MemoryRequest&, vulkan::MemoryRange& range) {
                                         range.memory = reinterpret_cast<VkDeviceMemory>(std::uintptr_t{1});
                                         return VK_SUCCESS;
                                     },
                                 .free = [](const vulkan::MemoryRange&) {}},
                                {});
    const auto allocate = [&] {
        (void)allocator.allocate({.requirements = {.size = 3, .alignment = 1, .memoryTypeBits = 1}, .label = "a test"});
    };
    in_turn(allocate, [&] { CHECK(allocator.used() == 3); });
    in_turn(allocate, [&] { CHECK(allocator.peak() == 6); });
}

TEST_CASE("threads that copy through one staging buffer get what is theirs", "[vulkan][memory][threads]") {
    constexpr std::size_t kBytes = 256 << 10;
    constexpr int kRounds = 30;
    for (const std::string& index : vulkan_device_indices()) {
        const auto backend = must(vulkan::VulkanBackend::create(
            index, {.validation = validation_available(), .force_staging = true, .cache_folder = {}}));
        CAPTURE(backend->name());
        vulkan::Device& device = *backend->device();
        const std::array<vulkan::MemoryBlocks::Request, kThreads> requests{{{.bytes = kBytes}, {.bytes = kBytes}}};
        const auto blocks = must(vulkan::MemoryBlocks::create(device, requests, false, "a test"));
        std::atomic<int> failures = 0;
        at_once([&](std::size_t i) {
            const vulkan::Slice& slice = blocks.slices()[i];
            std::vector<std::byte> given(kBytes), found(kBytes);
            for (int round = 0; round < kRounds; ++round) {
                std::ranges::fill(given, static_cast<std::byte>(round * 2 + static_cast<int>(i) + 1));
                failures += !device.transfer().clear(slice) || !device.transfer().download(slice, 0, found) ||
                            found != std::vector<std::byte>(kBytes);
                failures += !device.transfer().upload(slice, 0, given) ||
                            !device.transfer().download(slice, 0, found) || found != given;
            }
        });
        CHECK(failures == 0);
        CHECK(backend->validation_messages() == std::vector<std::string>{});
    }
}

TEST_CASE("programs that threads make with one store have their weights", "[vulkan][cpu][threads]") {
    constexpr std::size_t kPrograms = 200;
    // Without guard bands: those of a weight are written by every program that has it.
    std::vector<std::unique_ptr<graph::Backend>> backends;
    backends.push_back(cpu::make_cpu_backend<float>());
    for (const std::string& index : vulkan_device_indices())
        backends.push_back(must(vulkan::VulkanBackend::create(index, {.cache_folder = {}})));
    for (const auto& backend : backends) {
        CAPTURE(backend->name());
        const auto weights = backend->make_store();
        std::atomic<int> failures = 0;
        at_once([&](std::size_t i) {
            for (std::size_t n = 0; n < kPrograms; ++n) {
                // One weight for both threads, and one of the thread's own.
                graph::Graph graph;
                const auto weight = [&](const std::string& name, std::size_t number) {
                    auto values = std::make_shared<const std::vector<float>>(4, static_cast<float>(number));
                    return *graph.weight(name, {DType::f32, {4}, std::as_bytes(std::span(*values)), values},
                                         DType::f32);
                };
                const std::string number = std::to_string(n);
                const auto y = *add(graph, weight("shared " + number, n),
                                    weight("thread " + std::to_string(i) + ": " + number, 100 * (i + 1)));
                graph.mark_output(y);
                auto program =
                    backend->compile(graph::make_plan_for(*backend, std::move(graph)), weights, backend->make_store());
                std::vector<float> found(4);
                const bool is_done = program && (*program)->submit() && (*program)->wait() &&
                                     (*program)->read(y, std::span<float>(found));
                failures += !is_done || found != std::vector<float>(4, static_cast<float>(n + 100 * (i + 1)));
            }
        });
        CHECK(failures == 0);
    }
}

TEST_CASE("a store is asked while another thread adds to it", "[vulkan][threads]") {
    if (vulkan_backends().empty()) return;
    vulkan::VulkanBackend& backend = *vulkan_backends().front();
    vulkan::VulkanStore store(backend.device());
    const auto add_weight = [&](const std::string& name) {
        graph::Graph graph;
        auto values = std::make_shared<const std::vector<float>>(4);
        graph.mark_output(
            must(graph.weight(name, {DType::f32, {4}, std::as_bytes(std::span(*values)), values}, DType::f32)));
        must(store.add_missing(must(vulkan::cut_into_pieces(graph::make_plan(graph), backend.capabilities())),
                               graph::TensorKind::weight, false));
    };
    add_weight("b");
    in_turn([&] { add_weight("a"); }, [&] { CHECK(store.entry("b").shape == Shape{4}); });  // which "a" leads to
    in_turn([&] { add_weight("c"); }, [&] { CHECK(store.has("c")); });
}

TEST_CASE("submissions of several threads have numbers of their own, in the order of the queue", "[vulkan][threads]") {
    constexpr int kSubmissions = 200;
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        CAPTURE(backend->name());
        vulkan::Device& device = *backend->device();
        const std::uint64_t before = device.last_submission();
        std::array<std::vector<std::uint64_t>, kThreads> values;
        std::atomic<int> failures = 0;
        at_once([&](std::size_t i) {
            for (int n = 0; n < kSubmissions; ++n) {
                const auto value = device.submit({});
                failures += !value || device.last_submission() < *value || !device.wait(*value);
                if (value) values[i].push_back(*value);
            }
        });
        CHECK(failures == 0);
        std::vector<std::uint64_t> all, expected(kThreads * kSubmissions);
        for (const auto& of_thread : values) {
            CHECK(std::ranges::is_sorted(of_thread));
            all.insert(all.end(), of_thread.begin(), of_thread.end());
        }
        std::ranges::sort(all);
        std::iota(expected.begin(), expected.end(), before + 1);
        CHECK(all == expected);
    }
}

TEST_CASE("a thread sees what another one submits", "[vulkan][threads]") {
    if (vulkan_backends().empty()) return;
    vulkan::Device& device = *vulkan_backends().front()->device();
    const std::uint64_t before = device.last_submission();
    in_turn([&] { (void)device.submit({}); }, [&] { CHECK(device.last_submission() == before + 1); });
    must(device.wait(before + 1));
}

TEST_CASE("a thread finds the pipeline that another one has made", "[vulkan][threads]") {
    if (vulkan_device_indices().empty()) return;
    const auto backend = must(vulkan::VulkanBackend::create(vulkan_device_indices().front(), {.cache_folder = {}}));
    graph::Graph graph;
    const auto x = must(graph.input("x", DType::f32, {8}));
    graph.mark_output(must(activate(graph, x, graph::Activation::relu)));
    const vulkan::KernelContext context{.graph = graph, .device = backend->capabilities()};
    const vulkan::Dispatch dispatch = must(vulkan::plan_dispatches(graph.nodes()[0].op, context)).dispatches.front();
    for (const bool prepares : {false, true}) {
        CAPTURE(prepares);
        const auto pipelines = must(vulkan::Pipelines::create(backend->device(), {}));
        std::array<VkPipeline, 2> made{};
        const auto make = [&](std::size_t i) {
            if (prepares && i == 1) pipelines->prepare({&dispatch, 1});
            if (const auto pipeline = pipelines->get(dispatch)) made[i] = pipeline->handle;
        };
        in_turn([&] { make(0); }, [&] { make(1); });
        CHECK(made[0] != VK_NULL_HANDLE);
        CHECK(made[1] == made[0]);
    }
}

TEST_CASE("the application's queue is used between its lock and its unlock", "[vulkan][threads]") {
    if (vulkan_device_indices().empty()) return;
    Interposer interposer(must(vulkan::open_loader()));
    HostApplication host({.validation = false});
    std::vector<std::size_t> submitted;  // when the queue was locked and unlocked
    const auto note = [&] { submitted.push_back(interposer.calls()["vkQueueSubmit"]); };
    vulkan::AdoptedDevice adopted = lent(host, interposer);
    adopted.lock_queue = adopted.unlock_queue = note;
    const auto device = must(vulkan::Device::adopt(adopted));
    for (int i = 0; i < 2; ++i) must(device->wait(must(device->submit({}))));
    CHECK(submitted == std::vector<std::size_t>{0, 1, 1, 2});
}

TEST_CASE("what the validation layer tells several threads is all kept", "[vulkan][validation][threads]") {
    if (!validation_available()) return;
    constexpr int kMessages = 1000;
    const auto instance = must(vulkan::Instance::create(true));
    const auto get = must(vulkan::open_loader());
    const auto tell =
        reinterpret_cast<PFN_vkSubmitDebugUtilsMessageEXT>(get(instance->handle(), "vkSubmitDebugUtilsMessageEXT"));
    REQUIRE(tell);
    const VkDebugUtilsMessengerCallbackDataEXT data{.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CALLBACK_DATA_EXT,
                                                    .pMessage = "a message of a test's own"};
    std::atomic<std::size_t> most = 0;
    at_once([&](std::size_t) {
        for (int i = 0; i < kMessages; ++i) {
            tell(instance->handle(), VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
                 VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT, &data);
            most = std::max<std::size_t>(most, instance->validation_messages().size());
        }
    });
    const auto messages = instance->validation_messages();
    CHECK(messages.size() == kThreads * kMessages);
    CHECK(most <= messages.size());
    CHECK(std::ranges::all_of(messages, [&](const std::string& m) { return m == data.pMessage; }));
}

TEST_CASE("threads that ask for the devices find the same ones", "[api][threads]") {
    if (vulkan_device_indices().empty()) return;
    std::array<std::vector<std::string>, kThreads> names;
    at_once([&](std::size_t i) {
        if (const auto found = find_devices())
            for (const DeviceDescription& device : *found) names[i].push_back(device.uuid);
    });
    CHECK(names[0].size() >= vulkan_device_indices().size());
    CHECK(names[0] == names[1]);
}

}  // namespace vkformer::tests
