// SPDX-License-Identifier: MIT
// The Vulkan runtime below the ops: choice of device, stores, staging, guard bands, pipeline cache, timestamps.
#include <algorithm>
#include <fstream>
#include <numeric>

#include "graph/builders.hpp"
#include "models/marian_case.hpp"
#include "support/backends.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using graph::Activation;
using graph::Backend;
using graph::Graph;
using graph::Value;
using vulkan::DeviceInfo;
using vulkan::VulkanBackend;

DeviceInfo device(std::uint32_t index, const char* name, const char* type, const char* uuid,
                  const char* unusable = "") {
    DeviceInfo info{.index = index, .unusable = unusable};
    info.capabilities.name = name;
    info.capabilities.type = type;
    info.capabilities.uuid = uuid;
    return info;
}

/// y = relu(x) of 8 elements: the smallest program.
struct SmallProgram {
    Graph graph;
    Value x, y;
    SmallProgram() {
        x = must(graph.input("x", DType::f32, {8}));
        y = must(activate(graph, x, Activation::relu));
        graph.mark_output(y);
    }
};

TEST_CASE("a device is chosen by rank, index, UUID or name", "[vulkan][device]") {
    const std::vector<DeviceInfo> devices = {
        device(0, "llvmpipe (LLVM 15)", "cpu", "6d65736132322e332e36000000000000"),
        device(1, "Intel UHD", "integrated", "00000000000000000000000000000001"),
        device(2, "Old GPU", "discrete", "00000000000000000000000000000002", "it supports Vulkan 1.1"),
        device(3, "Radeon RX", "discrete", "00000000000000000000000000000003"),
        device(4, "Radeon Pro", "discrete", "00000000000000000000000000000004"),
    };
    const auto chosen = [&](std::string_view choice) { return must(vulkan::choose_device(devices, choice)); };
    CHECK(chosen("auto") == 3);  // the first discrete GPU that can be used
    CHECK(chosen("4") == 4);
    CHECK(chosen("LLVM") == 0);
    CHECK(chosen("radeon pro") == 4);
    CHECK(chosen("00000000-0000-0000-0000-000000000001") == 1);

    for (const char* wrong : {"7", "Radeon", "GeForce", "", "99999999999"}) {
        CAPTURE(wrong);
        const auto result = vulkan::choose_device(devices, wrong);
        REQUIRE_FALSE(result);
        CHECK(result.error().code == ErrorCode::NoDevice);
        CHECK(result.error().message.find("4 = \"Radeon Pro\"") != std::string::npos);
    }
    // Among devices that are CPUs the one that works with more lanes, wherever it is in the list.
    std::vector<DeviceInfo> processors = {device(0, "four", "cpu", "00000000000000000000000000000004"),
                                          device(1, "eight", "cpu", "00000000000000000000000000000008"),
                                          device(2, "eight too", "cpu", "00000000000000000000000000000009")};
    processors[0].capabilities.subgroup_size = 4;
    for (std::size_t i : {1, 2}) processors[i].capabilities.subgroup_size = 8;
    CHECK(must(vulkan::choose_device(processors, "auto")) == 1);
    processors[1].unusable = "it supports Vulkan 1.1";
    CHECK(must(vulkan::choose_device(processors, "auto")) == 2);
    processors.push_back(device(3, "Intel UHD", "integrated", "00000000000000000000000000000001"));
    processors.back().capabilities.subgroup_size = 4;
    CHECK(must(vulkan::choose_device(processors, "auto")) == 3);

    const auto none = vulkan::choose_device({}, "auto");
    REQUIRE_FALSE(none);
    CHECK(none.error().hint == Hint::cpu_backend);
    const auto unusable = vulkan::choose_device({devices[2]}, "auto");
    REQUIRE_FALSE(unusable);
    CHECK(unusable.error().message.find("Vulkan 1.1") != std::string::npos);
}

TEST_CASE("every device reports limits that the plain shaders fit into", "[vulkan][device]") {
    for (const VulkanBackend* backend : vulkan_backends()) {
        const vulkan::Capabilities& c = backend->capabilities();
        CAPTURE(c.name);
        CHECK(c.max_workgroup_invocations >= 128);
        CHECK(c.max_shared_memory_bytes >= 16 * 1024);
        CHECK(c.storage_buffer_alignment <= 256);
        CHECK(c.uuid.size() == 32);
    }
}

TEST_CASE("the validation layer is heard", "[vulkan][validation]") {
    if (!validation_available()) return;
    const auto instance = must(vulkan::Instance::create(true));
    const auto devices = must(instance->physical_devices());
    REQUIRE_FALSE(devices.empty());
    CHECK(instance->validation_messages().empty());
    VkPhysicalDeviceProperties2 without_type{};  // a mistake that drivers do not mind
    instance->vk().vkGetPhysicalDeviceProperties2(devices[0].handle, &without_type);
    CHECK_FALSE(instance->validation_messages().empty());
}

TEST_CASE("host access is checked", "[vulkan][program]") {
    for (Backend* backend : test_backends()) {
        CAPTURE(backend->name());
        SmallProgram small;
        const Value hidden = must(activate(small.graph, small.x, Activation::silu));
        const Value z = must(activate(small.graph, hidden, Activation::silu));
        small.graph.mark_output(z);
        auto program = must(backend->compile(make_plan(small.graph), backend->make_store(), backend->make_store()));
        std::vector<float> seven(7), eight(8);
        std::vector<std::int32_t> integers(8);
        CHECK(program->write(small.x, std::span<const float>(seven)).error().code == ErrorCode::ShapeMismatch);
        CHECK(program->write(small.x, std::span<const std::int32_t>(integers)).error().code ==
              ErrorCode::UnsupportedDtype);
        CHECK(program->read(small.y, std::span<float>(seven)).error().code == ErrorCode::ShapeMismatch);
        CHECK(program->read(small.y, std::span<std::int32_t>(integers)).error().code == ErrorCode::UnsupportedDtype);
        CHECK(program->read(hidden, std::span<float>(eight)).error().code == ErrorCode::InvalidArgument);
    }
}

TEST_CASE("programs share states by name and agree on their shapes", "[vulkan][program]") {
    for (Backend* backend : test_backends()) {
        CAPTURE(backend->name());
        const auto weights = backend->make_store(), states = backend->make_store();
        const auto compile = [&](const Shape& shape, bool writes, Value& x, Value& y) {
            Graph graph;
            x = must(graph.input("x", DType::f32, {1, 1, 1, 4}));
            const Value cache = must(graph.state("cache", DType::f32, shape));
            if (writes) must(cache_append(graph, x, {}, cache));
            y = must(activate(graph, cache, Activation::relu));
            graph.mark_output(y);
            return backend->compile(make_plan(graph), weights, states);
        };
        Value x1, y1, x2, y2;
        auto writer = must(compile({1, 1, 1, 4}, true, x1, y1));
        auto reader = must(compile({1, 1, 1, 4}, false, x2, y2));
        const std::vector<float> values = {1, 2, 3, 4};
        must(writer->write(x1, std::span<const float>(values)));
        must(writer->submit());
        must(writer->wait());
        must(reader->submit());
        std::vector<float> found(4);
        must(reader->read(y2, std::span<float>(found)));
        CHECK(found == values);
        const auto other = compile({1, 2, 1, 4}, false, x2, y2);
        REQUIRE_FALSE(other);
        CHECK(other.error().code == ErrorCode::ShapeMismatch);
    }
}

TEST_CASE("tensors have addresses where shaders read by them", "[vulkan][memory]") {
    for (VulkanBackend* backend : vulkan_backends()) {
        CAPTURE(backend->name());
        const bool has_addresses = backend->capabilities().buffer_addresses;
        CHECK((!has_addresses || backend->capabilities().is_cpu()));
        const SmallProgram small;
        auto program =
            must(backend->compile_program(make_plan(small.graph), backend->make_store(), backend->make_store()));
        const vulkan::Slice x = must(program->slice(small.x)), y = must(program->slice(small.y));
        CHECK((x.address != 0) == has_addresses);
        REQUIRE(x.buffer == y.buffer);
        CHECK(y.address - x.address == (has_addresses ? y.offset - x.offset : 0));
    }
}

TEST_CASE("memory without an address is read by kernels that need none", "[vulkan][memory]") {
    constexpr std::uint64_t kWidth = 64;
    const std::vector<float> numbers = [] {
        std::vector<float> values(kWidth);
        std::iota(values.begin(), values.end(), -8.0f);
        return values;
    }();
    for (VulkanBackend* backend : vulkan_backends()) {
        CAPTURE(backend->name());
        Graph graph;
        const Value gate = must(graph.input("gate", DType::f32, {kWidth}));
        const Value up = must(graph.input("up", DType::f32, {kWidth}));
        const Value y = must(gated_activation(graph, gate, up, Activation::silu));
        graph.mark_output(y);
        const vulkan::KernelContext context{.graph = graph, .device = backend->capabilities()};
        for (const vulkan::KernelTraits* kernel : vulkan::fitting_kernels(graph.nodes()[0].op, context)) {
            if (!(kernel->needs & vulkan::bit_of(vulkan::ShaderRequirement::addresses))) continue;
            CAPTURE(kernel->name);
            vulkan::ProgramOptions options{.variants = {std::string(kernel->name)}};
            const auto compile = [&] {
                return must(
                    backend->compile_program(make_plan(graph), backend->make_store(), backend->make_store(), options));
            };
            const auto run = [&](graph::Program& program) {
                must(program.write(up, numbers));
                must(program.submit());
                std::vector<float> result(kWidth);
                must(program.read(y, result));
                return result;
            };
            const auto owner = compile();
            must(owner->write(gate, numbers));
            const std::vector<float> expected = run(*owner);
            vulkan::Slice callers = must(owner->slice(gate));
            callers.address = 0;
            options.bindings = {{"gate", callers}};
            const std::vector<float> found = run(*compile());
            for (std::size_t i = 0; i < kWidth; ++i) CHECK(found[i] == Approx(expected[i]).margin(1e-6));
        }
    }
}

/// y = x · weightᵀ of a weight that is large enough to be read in place, `offset` elements behind a multiple of kAlignment bytes.
struct WeightProgram {
    static constexpr std::uint64_t kIn = 256, kOut = 96;
    static constexpr std::size_t kAlignment = 256;  // no device asks for more
    Graph graph;
    Value x, y, weight;
    std::weak_ptr<const void> owner;
    std::span<const float> values;
    WeightProgram(std::size_t offset, std::size_t parts) {
        auto made = std::make_shared<std::vector<float>>(kAlignment / 4 + offset + kOut * kIn);
        for (std::size_t i = 0; i < made->size(); ++i) (*made)[i] = static_cast<float>((i * 7) % 13) - 6;
        const std::size_t past = reinterpret_cast<std::uintptr_t>(made->data()) % kAlignment;
        values = std::span(*made).subspan((kAlignment - past) % kAlignment / 4 + offset, kOut * kIn);
        std::vector<TensorData> data;
        for (std::size_t p = 0; p < parts; ++p)
            data.push_back({.dtype = DType::f32,
                            .shape = {kOut / parts, kIn},
                            .bytes = std::as_bytes(values.subspan(p * kOut / parts * kIn, kOut / parts * kIn)),
                            .owner = made});
        owner = made;
        x = must(graph.input("x", DType::f32, {1, kIn}));
        weight = must(graph.weight("weight", std::move(data), DType::f32));
        y = must(linear(graph, x, weight, {}));
        graph.mark_output(y);
    }
};

TEST_CASE("weights are read where the host has them, by devices that can", "[vulkan][memory]") {
    for (const std::string& index : vulkan_device_indices()) {
        auto backend = must(VulkanBackend::create(index, {.validation = validation_available(), .cache_folder = {}}));
        CAPTURE(backend->name());
        const bool can = backend->capabilities().host_memory_alignment > 0;
        CHECK((!can || backend->capabilities().is_cpu()));
        std::vector<float> ones(WeightProgram::kIn, 1.0f), first(WeightProgram::kOut), y(WeightProgram::kOut);
        struct {
            std::size_t offset, parts;
            bool in_place;
        } const cases[] = {{0, 1, true}, {0, 3, true}, {64, 1, true}, {13, 1, false}};
        for (const auto& [offset, parts, in_place] : cases) {
            CAPTURE(offset, parts);
            std::weak_ptr<const void> owner;
            {
                auto made = std::make_unique<WeightProgram>(offset, parts);
                owner = made->owner;
                const auto store = std::make_shared<vulkan::VulkanStore>(backend->device());
                auto program = must(backend->compile_program(make_plan(made->graph), store, backend->make_store()));
                const bool found = store->entry("weight").slice.mapped == std::as_bytes(made->values).data();
                CHECK(found == (can && in_place));
                must(program->write(made->x, std::span<const float>(ones)));
                must(program->submit());
                must(program->read(made->y, std::span<float>(y)));
                for (std::size_t row = 0; row < y.size(); ++row) {
                    const auto weights = made->values.subspan(row * WeightProgram::kIn, WeightProgram::kIn);
                    const float sum = std::accumulate(weights.begin(), weights.end(), 0.0f);
                    REQUIRE(y[row] == sum);
                }
                const std::vector<float> zeros(WeightProgram::kOut * WeightProgram::kIn);
                const auto written = program->write(made->weight, std::span<const float>(zeros));
                REQUIRE_FALSE(written);
                CHECK(written.error().code == ErrorCode::InvalidArgument);
                program.reset();
                made.reset();
                CHECK(owner.expired() != found);  // the store keeps what the device reads
            }
            CHECK(owner.expired());
        }
        CHECK(backend->validation_messages().empty());
    }
}

TEST_CASE("copying through staging gives the same as mapped memory", "[vulkan][memory]") {
    for (const std::string& index : vulkan_device_indices()) {
        auto staged = must(VulkanBackend::create(
            index,
            {.validation = validation_available(), .check_memory = true, .force_staging = true, .cache_folder = {}}));
        auto mapped = must(VulkanBackend::create(index, {.cache_folder = {}}));
        CAPTURE(staged->name());
        const models::Seq2Seq model = load_marian("relu_d30_h5_h3");
        const Golden golden("marian/relu_d30_h5_h3/golden.safetensors");
        const TokenBatch source = token_batch(golden, "input_ids", "attention_mask");
        const TokenBatch target = token_batch(golden, "decoder_input_ids", "");
        const models::ForwardOptions options{.source_mask = models::SourceMask::lengths};
        const ForwardRun a = run_forward(model, *staged, source, target, options);
        const ForwardRun b = run_forward(model, *mapped, source, target, options);
        CHECK(a.read(a.forward.logits) == b.read(b.forward.logits));
        CHECK(staged->validation_messages().empty());
    }
}

TEST_CASE("a large tensor goes through staging in pieces", "[vulkan][memory]") {
    constexpr std::uint64_t kCount = (std::uint64_t{5} << 20) / 4 + 3;  // above one staging buffer of 4 MiB
    for (const std::string& index : vulkan_device_indices()) {
        auto backend = must(VulkanBackend::create(index, {.force_staging = true, .cache_folder = {}}));
        CAPTURE(backend->name());
        Graph graph;
        const Value x = must(graph.input("x", DType::f32, {kCount}));
        const Value y = must(activate(graph, x, Activation::relu));
        graph.mark_output(y);
        auto program = must(backend->compile(make_plan(graph), backend->make_store(), backend->make_store()));
        std::vector<float> values(kCount), found(kCount);
        for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i);
        must(program->write(x, std::span<const float>(values)));
        must(program->submit());
        must(program->read(y, std::span<float>(found)));
        CHECK(found == values);
    }
}

TEST_CASE("a state begins as zeros in memory that the host cannot see, too", "[vulkan][memory]") {
    constexpr std::uint64_t kCount = 1027;
    for (const std::string& index : vulkan_device_indices()) {
        for (const bool staging : {false, true}) {
            // what a former owner has left in the memory is likely to be found in the next allocation of that size
            auto backend = must(
                VulkanBackend::create(index, {.check_memory = true, .force_staging = staging, .cache_folder = {}}));
            CAPTURE(backend->name(), staging);
            for (const float left : {7.0f, 0.0f}) {
                Graph graph;
                const Value state = must(graph.state("state", DType::f32, {kCount}));
                graph.mark_output(must(activate(graph, state, Activation::relu)));
                auto program = must(backend->compile(make_plan(graph), backend->make_store(), backend->make_store()));
                std::vector<float> found(kCount, 1.0f);
                must(program->read(state, std::span<float>(found)));
                CHECK(found == std::vector<float>(kCount));
                must(program->write(state, std::vector<float>(kCount, left)));
            }
        }
    }
}

TEST_CASE("a write outside a tensor is found by the guard bands", "[vulkan][memory]") {
    for (const std::string& index : vulkan_device_indices()) {
        auto backend = must(VulkanBackend::create(index, {.check_memory = true, .cache_folder = {}}));
        CAPTURE(backend->name());
        const SmallProgram small;
        auto program =
            must(backend->compile_program(make_plan(small.graph), backend->make_store(), backend->make_store()));
        const vulkan::Slice slice = must(program->slice(small.y));
        if (!slice.mapped) continue;
        must(program->submit());
        must(program->wait());
        slice.mapped[slice.bytes] ^= std::byte{1};  // as a shader would that is off by one
        must(program->submit());
        const auto result = program->wait();
        REQUIRE_FALSE(result);
        CHECK(result.error().message.find("guard band") != std::string::npos);
    }
}

TEST_CASE("a result that a node does not write is NaN under memory checks", "[vulkan][memory]") {
    for (VulkanBackend* backend : vulkan_backends()) {
        CAPTURE(backend->name());
        Graph graph;
        const Value tokens = must(graph.input("tokens", DType::i32, {2}));
        const auto table = std::make_shared<std::vector<float>>(3 * 4, 1.0f);
        const Value weight =
            must(graph.weight("table", {DType::f32, {3, 4}, std::as_bytes(std::span(*table)), table}, DType::f32));
        const Value y = must(embedding(graph, tokens, weight));
        graph.mark_output(y);
        auto program = must(backend->compile(make_plan(graph), backend->make_store(), backend->make_store()));
        const std::vector<std::int32_t> ids = {2, 99};  // the second is not in the table
        must(program->write(tokens, std::span<const std::int32_t>(ids)));
        must(program->submit());
        std::vector<float> found(8);
        must(program->read(y, std::span<float>(found)));
        CHECK(found[0] == 1.0f);
        CHECK(std::isnan(found[4]));
    }
}

// Which files are used is looked at in interposed_test.cpp.
TEST_CASE("a driver survives whatever the pipeline cache file holds, and leaves a whole one", "[vulkan][pipelines]") {
    const TemporaryFolder folder;
    for (const std::string& index : vulkan_device_indices()) {
        const auto run_once = [&] {
            auto backend = must(
                VulkanBackend::create(index, {.validation = validation_available(), .cache_folder = folder.path()}));
            const SmallProgram small;
            auto program = must(backend->compile(make_plan(small.graph), backend->make_store(), backend->make_store()));
            must(program->submit());
            must(program->wait());
            CHECK(backend->validation_messages().empty());
            return folder.path() / ("pipelines-" + backend->capabilities().uuid + ".bin");
        };
        const std::filesystem::path file = run_once();
        if (!std::filesystem::exists(file)) {
            WARN("the driver of device " << index << " gives less than Vulkan's header: there is no file");
            continue;
        }
        const auto size = std::filesystem::file_size(file);
        REQUIRE(size >= 32 + 32);  // our header and Vulkan's

        // Every kind of damage: the program still runs, and the file is whole again afterwards.
        for (const std::uintmax_t length :
             {std::uintmax_t{0}, std::uintmax_t{7}, std::uintmax_t{31}, std::uintmax_t{40}, size - 1}) {
            CAPTURE(length);
            std::filesystem::resize_file(file, length);
            run_once();
            CHECK(std::filesystem::file_size(file) == size);
        }
        for (const std::streamoff at : {0, 8, 16, 24, 40, 50}) {  // magic, length, checksum, driver, vendor, UUID
            CAPTURE(at);
            {
                std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
                bytes.seekg(at);
                const auto old = static_cast<char>(bytes.get());
                bytes.seekp(at);
                bytes.put(static_cast<char>(~old));
            }
            run_once();
            CHECK(std::filesystem::file_size(file) == size);
        }
    }
}

TEST_CASE("a profiled run says how long each node took", "[vulkan][profile]") {
    for (const std::string& index : vulkan_device_indices()) {
        auto backend = must(
            VulkanBackend::create(index, {.validation = validation_available(), .profile = true, .cache_folder = {}}));
        CAPTURE(backend->name());
        const SmallProgram small;
        auto program =
            must(backend->compile_program(make_plan(small.graph), backend->make_store(), backend->make_store()));
        must(program->submit());
        const auto times = must(program->node_times());
        REQUIRE(times.size() == 1);
        CHECK(times[0].op == "activate");
        CHECK(times[0].shader == "activate_f32");
        CHECK(times[0].gpu_ns >= 0);
        CHECK(times[0].gpu_ns < 60e9);
        CHECK(must(program->device_ns()) == times[0].gpu_ns);

        auto whole = must(backend->compile_program(make_plan(small.graph), backend->make_store(), backend->make_store(),
                                                   {.timestamps = vulkan::Timestamps::ends}));
        must(whole->submit());
        const double ns = must(whole->device_ns());
        CHECK(ns >= 0);
        CHECK(ns < 60e9);
        CHECK(whole->node_times().error().code == ErrorCode::MissingFeature);
        CHECK(backend->validation_messages().empty());

        auto silent = must(VulkanBackend::create(index, {.cache_folder = {}}));
        auto other = must(silent->compile_program(make_plan(small.graph), silent->make_store(), silent->make_store()));
        CHECK(other->node_times().error().code == ErrorCode::MissingFeature);
        CHECK(other->device_ns().error().code == ErrorCode::MissingFeature);
    }
}

TEST_CASE("a tensor larger than the device can bind is refused with the numbers", "[vulkan][memory]") {
    for (VulkanBackend* backend : vulkan_backends()) {
        CAPTURE(backend->name());
        const std::uint64_t elements = backend->capabilities().max_storage_buffer_range / 4 + 1;
        if (elements > Graph::kMaxElements) continue;
        Graph graph;
        const Value x = must(graph.input("x", DType::f32, {elements}));
        const Value y = must(activate(graph, x, Activation::relu));
        graph.mark_output(y);
        const auto result = backend->compile(make_plan(graph), backend->make_store(), backend->make_store());
        REQUIRE_FALSE(result);
        CHECK(result.error().code == ErrorCode::MissingFeature);
        CHECK(result.error().message.find("maxStorageBufferRange") != std::string::npos);
    }
}

}  // namespace
}  // namespace vkformer::tests
