// SPDX-License-Identifier: MIT
// The Vulkan runtime on devices that there are not: they lack a function, keep other caches, lose what shaders store.
#include <cstring>
#include <fstream>

#include "core/hash.hpp"
#include "graph/builders.hpp"
#include "support/backends.hpp"
#include "support/files.hpp"
#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "support/lent_device.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "tuning/ladder.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::tests {
namespace {

using Bytes = std::vector<std::byte>;
using Catch::Matchers::ContainsSubstring;

/// y = relu(x), compiled.
void compile_something(vulkan::VulkanBackend& backend) {
    graph::Graph graph;
    const auto x = must(graph.input("x", DType::f32, {8}));
    graph.mark_output(must(activate(graph, x, graph::Activation::relu)));
    must(backend.compile_program(graph::make_plan(std::move(graph)), backend.make_store(), backend.make_store(), {}));
}

TEST_CASE("a device whose functions are not all there is destroyed again", "[vulkan][device][faults]") {
    if (vulkan_device_indices().empty()) return;
    Interposer interposer(must(vulkan::open_loader()));
    HostApplication host({.validation = false});
    const std::string missing = GENERATE("", "vkCmdDispatch", "vkWaitSemaphores");
    CAPTURE(missing);
    interposer.hide(missing);
    const auto instance = must(vulkan::Instance::adopt(interposer.get(), host.instance, false));
    {
        const auto device = vulkan::Device::create(instance, instance->describe(host.physical));
        CHECK(static_cast<bool>(device) == missing.empty());
        if (!device)
            CHECK_THAT(device.error().message, ContainsSubstring("lacks " + missing));
        else
            CHECK(interposer.live().at("vkCreateDevice") == 1);
    }
    CHECK(interposer.live() == std::map<std::string, std::int64_t>{});
}

/// What a driver might keep: Vulkan's header for this device, and something of its own.
Bytes cache_data_of(const vulkan::Capabilities& device) {
    VkPipelineCacheHeaderVersionOne header{.headerSize = sizeof(header),
                                           .headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE,
                                           .vendorID = device.vendor_id,
                                           .deviceID = device.device_id};
    std::ranges::copy(device.pipeline_cache_uuid, header.pipelineCacheUUID);
    Bytes data(sizeof(header) + 16, std::byte{0x5A});
    std::memcpy(data.data(), &header, sizeof(header));
    return data;
}

void write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

TEST_CASE("the pipeline cache file is used where it is whole and the driver's, and nowhere else",
          "[vulkan][pipelines]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    Interposer interposer(must(vulkan::open_loader()));
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index)), .validation = false});
    const TemporaryFolder folder;
    std::filesystem::path path;
    Bytes data;
    const auto initial_data = [&] {  // of the cache that a run begins with; its end writes the file
        auto backend = must(vulkan::VulkanBackend::adopt(lent(host, interposer), {.cache_folder = folder.path()}));
        path = folder.path() / ("pipelines-" + backend->capabilities().uuid + ".bin");
        data = cache_data_of(backend->capabilities());
        interposer.give_cache_data(data);
        compile_something(*backend);
        return interposer.initial_cache_data();
    };
    interposer.give_cache_data({});
    CHECK(initial_data().empty());  // there is no file yet
    REQUIRE(std::filesystem::exists(path));
    CHECK(initial_data() == data);

    const Bytes whole = read_bytes(path);
    constexpr std::size_t kHeader = 32;  // ours: magic, length, checksum, the driver's version
    REQUIRE(whole.size() == kHeader + data.size());
    const auto with_checksum = [&](Bytes file) {
        const std::uint64_t checksum = hash_bytes(std::span(file).subspan(kHeader));
        std::memcpy(file.data() + 16, &checksum, sizeof(checksum));
        return file;
    };
    const auto with_length = [&](Bytes file) {
        const std::uint64_t bytes = file.size() - kHeader;
        std::memcpy(file.data() + 8, &bytes, sizeof(bytes));
        return file;
    };
    const auto is_used = [&](const Bytes& file) {
        write_bytes(path, file);
        const bool used = !initial_data().empty();
        CHECK(read_bytes(path) == whole);  // a file that is not is replaced
        return used;
    };
    CHECK(is_used(with_length(with_checksum(whole))));
    for (const std::size_t at : {0u, 7u, 8u, 15u, 16u, 23u, 24u, 27u}) {
        CAPTURE(at);
        Bytes file = whole;
        file[at] ^= std::byte{1};
        CHECK_FALSE(is_used(file));
    }
    for (std::size_t at = kHeader; at < whole.size(); ++at) {
        CAPTURE(at);
        Bytes file = whole;
        file[at] ^= std::byte{1};
        CHECK_FALSE(is_used(file));  // the checksum
        const bool is_identity = at >= kHeader + 4 && at < kHeader + sizeof(VkPipelineCacheHeaderVersionOne);
        if (is_identity) CHECK_FALSE(is_used(with_checksum(file)));  // version, vendor, device, UUID
    }
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{7}, kHeader - 1, kHeader, kHeader + 31, whole.size() - 1}) {
        CAPTURE(bytes);
        const Bytes file(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
        CHECK_FALSE(is_used(file));
        if (bytes >= kHeader && bytes < kHeader + 32) CHECK_FALSE(is_used(with_checksum(with_length(file))));
    }
}

TEST_CASE("products that share scratch memory do not overlap", "[vulkan][linear][barriers]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    // A product in parts sums them up in a second dispatch; its scratch memory is the next product's, too.
    const auto [variant, dispatches, shares_scratch] =
        GENERATE(table<std::string, std::size_t, bool>({{"split", 4, true}, {"tile", 2, false}}));
    CAPTURE(variant);
    Interposer interposer(must(vulkan::open_loader()));
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index)), .validation = false});
    auto backend = must(vulkan::VulkanBackend::adopt(lent(host, interposer), {.cache_folder = {}}));
    graph::Graph graph;
    const auto x = must(graph.input("x", DType::f32, {3, 512}));
    for (const char* name : {"w", "v"})
        graph.mark_output(must(linear(graph, x, must(graph.input(name, DType::f32, {8, 512})))));
    const graph::Plan plan = graph::make_plan(std::move(graph));
    REQUIRE(plan.barrier_count() == 0);  // for the plan, neither has anything to do with the other
    must(
        backend->compile_program(plan, backend->make_store(), backend->make_store(), {.variants = {variant, variant}}));
    std::vector<std::string> expected{"vkCmdPipelineBarrier"};
    for (std::size_t dispatch = 1; dispatch <= dispatches; ++dispatch) {
        expected.emplace_back("vkCmdDispatch");
        if (shares_scratch || dispatch == dispatches) expected.emplace_back("vkCmdPipelineBarrier");
    }
    CHECK(interposer.recorded() == expected);
}

TEST_CASE("a driver that loses what shaders store is found out by the ladder", "[tuning][vulkan][faults]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    Interposer interposer(must(vulkan::open_loader()));
    interposer.lose_stores();
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index)), .validation = false});
    auto backend = must(vulkan::VulkanBackend::adopt(lent(host, interposer), {.cache_folder = {}}));
    graph::Graph graph;
    const auto x = must(graph.input("x", DType::f32, {3, 64}));
    graph.mark_output(must(linear(graph, x, must(graph.input("w", DType::f32, {60, 64})))));
    tuning::Ladder ladder{{}};
    const auto chosen = ladder.choose(*backend, graph::make_plan(std::move(graph), {.fuse = false}));
    REQUIRE_FALSE(chosen);
    CHECK(chosen.error().code == ErrorCode::Vulkan);
    CHECK_THAT(chosen.error().message, ContainsSubstring("no variant of linear") && ContainsSubstring("wrong results"));
}

}  // namespace
}  // namespace vkformer::tests
