// SPDX-License-Identifier: MIT
// The Vulkan runtime on devices that there are not: they lack a function, keep other caches, lose what shaders store, allow few buffers,
// fail to start, are lost, or lie about their subgroups.
#include <cstring>
#include <fstream>

#include "cases/case.hpp"
#include "core/hash.hpp"
#include "cpu/backend.hpp"
#include "decoding/session.hpp"
#include "graph/builders.hpp"
#include "models/marian_case.hpp"
#include "support/backends.hpp"
#include "support/files.hpp"
#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "support/lent_device.hpp"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "support/temporary_folder.hpp"
#include "text/tokenizer.hpp"
#include "tuning/ladder.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/variants.hpp"

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
    const std::uint64_t width = backend->capabilities().is_cpu() ? 512 : 2048;  // which they cut into parts
    const auto x = must(graph.input("x", DType::f32, {3, width}));
    for (const char* name : {"w", "v"})
        graph.mark_output(must(linear(graph, x, must(graph.input(name, DType::f32, {8, width})))));
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

/// A device of vkformer's own whose driver is behind an interposer.
struct PlayedDevice {
    Interposer interposer{must(vulkan::open_loader())};
    HostApplication host;
    std::unique_ptr<vulkan::VulkanBackend> backend;

    explicit PlayedDevice(const std::string& index)
        : host({.device_index = static_cast<std::uint32_t>(std::stoul(index)), .validation = false}) {}
    void open() {
        const auto instance = must(vulkan::Instance::adopt(interposer.get(), host.instance, false));
        backend = must(vulkan::VulkanBackend::on(
            must(vulkan::Device::create(instance, instance->describe(host.physical))), {.cache_folder = {}}));
    }
};

/// The op at the first edge of its reference kernel.
OpCase smallest_case(const vulkan::OpKernels& op) {
    const auto reference = std::ranges::find(op.kernels, true, &vulkan::KernelTraits::is_reference);
    const vulkan::Edge& edge = (*reference)->edges.front();
    const cases::Family& family = *cases::families_of(op.op, edge.size()).front();
    OpCase c;
    c.take(must(family.make({edge.begin(), edge.end()}, family.types.front())));
    return c;
}

TEST_CASE("every op runs where a shader may bind 8 storage buffers", "[vulkan][device][buffers]") {
    if (vulkan_device_indices().empty()) return;
    PlayedDevice device(GENERATE(from_range(vulkan_device_indices())));
    device.interposer.claim_storage_buffers(8);
    device.open();
    CHECK(device.backend->capabilities().max_storage_buffers == 8);
    for (const vulkan::OpKernels& op : vulkan::kernel_catalogue()) {
        CAPTURE(device.backend->name(), op.op);
        const OpCase c = smallest_case(op);
        c.check(*device.backend);  // with a share of the kernels
        auto& backend = *device.backend;
        const auto program =
            must(backend.compile_program(graph::make_plan(c.graph), backend.make_store(), backend.make_store(), {}));
        must(program->submit(1));
        must(program->wait());
    }
    CHECK(device.interposer.most_bindings() == 8);
}

TEST_CASE("an op that binds more storage buffers than a device allows says so before anything runs",
          "[vulkan][device][buffers][errors]") {
    if (vulkan_device_indices().empty()) return;
    PlayedDevice device(GENERATE(from_range(vulkan_device_indices())));
    device.interposer.claim_storage_buffers(4);
    device.open();
    const std::string name = device.backend->name();
    std::size_t refused = 0;
    for (const vulkan::OpKernels& op : vulkan::kernel_catalogue()) {
        CAPTURE(name, op.op);
        auto& backend = *device.backend;
        device.interposer.reset_calls();
        const auto program = backend.compile_program(graph::make_plan(smallest_case(op).graph), backend.make_store(),
                                                     backend.make_store(), {});
        if (program) continue;
        ++refused;
        CHECK(program.error().code == ErrorCode::MissingFeature);
        CHECK_THAT(program.error().message,
                   ContainsSubstring(std::string(op.op) + " binds ") &&
                       ContainsSubstring(" storage buffers in one shader; device \"" + name + "\" allows 4"));
        if (op.op == "beam_step" || op.op == "recurrent_layer")
            CHECK_THAT(program.error().message, ContainsSubstring(std::string(op.op) + " binds 8 "));
        for (const auto& [function, count] : device.interposer.calls()) {
            CAPTURE(function, count);
            CHECK(function == "");  // nothing was made, compiled or submitted
        }
    }
    CHECK(refused > 5);
    CHECK(device.interposer.most_bindings() <= 4);
}

TEST_CASE("a beam search on a device with few storage buffers gives the same tokens", "[vulkan][device][buffers]") {
    if (vulkan_device_indices().empty()) return;
    const auto folder = std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer";
    const models::Seq2Seq model = load_marian_folder(folder);
    const auto generation =
        must(models::load_generation_config(folder, model.limits().target_len, model.limits().target_vocab));
    const auto tokenizer = must(text::load_tokenizer(folder));
    const std::vector<std::vector<std::int32_t>> texts = {must(tokenizer->encode("Donnerstag, den 4. März 2021")),
                                                          must(tokenizer->encode("3/7/1999"))};
    REQUIRE(generation.beams == 4);
    const auto run = [&](graph::Backend& backend) {
        auto session = must(decoding::Session::create(backend, model, {.generation = generation, .batch = 2}));
        return must(session.generate(std::vector<decoding::Source>{{.tokens = texts[0]}, {.tokens = texts[1]}}));
    };
    const auto expected = run(*cpu::make_cpu_backend<double>());
    for (const std::string& index : vulkan_device_indices()) {
        if (!takes_case(index, 2)) continue;
        std::vector<std::vector<decoding::Hypothesis>> found;
        for (const std::uint32_t buffers : {0u, 12u, 8u}) {  // 0: as many as the driver allows
            PlayedDevice device(index);
            device.interposer.claim_storage_buffers(buffers);
            device.open();
            CAPTURE(device.backend->name(), buffers);
            found.push_back(run(*device.backend));
            CHECK(device.interposer.most_bindings() == (buffers == 0 ? 13 : 8));
            for (std::size_t b = 0; b < expected.size(); ++b) {
                CHECK(found.back()[b].tokens == expected[b].tokens);
                CHECK(found.back()[b].score == found.front()[b].score);
            }
        }
    }
}

TEST_CASE("loaders and drivers that cannot do Vulkan 1.2 are errors that say what to do", "[vulkan][device][faults]") {
    const auto advice_for = [](auto&& play) {
        Interposer interposer(must(vulkan::open_loader()));
        play(interposer);
        const auto instance = vulkan::Instance::create(interposer.get(), false);
        const auto devices = instance ? (*instance)->physical_devices()
                                      : Result<std::vector<vulkan::Instance::PhysicalDevice>>(instance.error());
        REQUIRE_FALSE(devices);
        return devices.error();
    };
    for (const std::uint32_t version : {0u, VK_API_VERSION_1_0, VK_API_VERSION_1_1}) {
        CAPTURE(version);
        const Error old = advice_for([&](Interposer& i) { i.claim_loader(version); });
        CHECK(old.code == ErrorCode::MissingFeature);
        CHECK(old.message == "the Vulkan loader is older than Vulkan 1.2; update it");
    }
    const Error none = advice_for([](Interposer& i) { i.fail("vkCreateInstance", VK_ERROR_INCOMPATIBLE_DRIVER); });
    CHECK(none.code == ErrorCode::NoDevice);
    CHECK(none.vk == VK_ERROR_INCOMPATIBLE_DRIVER);
    CHECK(none.hint == Hint::cpu_backend);
    CHECK_THAT(none.message, ContainsSubstring("no Vulkan driver is installed"));
    for (const char* function : {"vkCreateInstance", "vkEnumeratePhysicalDevices"}) {
        CAPTURE(function);
        const Error broken = advice_for([&](Interposer& i) { i.fail(function, VK_ERROR_INITIALIZATION_FAILED); });
        CHECK(broken.code == ErrorCode::Vulkan);
        CHECK(broken.hint == Hint::cpu_backend);
        CHECK_THAT(broken.message, ContainsSubstring(function) && ContainsSubstring("VK_ERROR_INITIALIZATION_FAILED") &&
                                       ContainsSubstring("update the Vulkan driver or choose the CPU backend"));
    }
}

TEST_CASE("a device that its driver cannot open is an error that says what to do", "[vulkan][device][faults]") {
    if (vulkan_device_indices().empty()) return;
    PlayedDevice device(vulkan_device_indices().front());
    const VkResult result = GENERATE(VK_ERROR_INCOMPATIBLE_DRIVER, VK_ERROR_DEVICE_LOST);
    device.interposer.fail("vkCreateDevice", result);
    const auto instance = must(vulkan::Instance::adopt(device.interposer.get(), device.host.instance, false));
    const auto opened = vulkan::Device::create(instance, instance->describe(device.host.physical));
    REQUIRE_FALSE(opened);
    CHECK(opened.error().vk == result);
    CHECK(opened.error().hint == Hint::other_device);
    CHECK_THAT(opened.error().message, ContainsSubstring("vkCreateDevice failed while opening device") &&
                                           ContainsSubstring("update its driver or choose another device"));
}

TEST_CASE("a lost device answers every later call with an error and asks its driver nothing",
          "[vulkan][device][faults]") {
    if (vulkan_device_indices().empty()) return;
    PlayedDevice device(GENERATE(from_range(vulkan_device_indices())));
    device.open();
    const auto backend = std::move(device.backend);
    graph::Graph graph;
    const auto x = must(graph.input("x", DType::f32, {8}));
    const auto y = must(activate(graph, x, graph::Activation::relu));
    graph.mark_output(y);
    const graph::Plan plan = graph::make_plan(graph);
    const auto compile = [&] {
        return backend->compile_program(plan, backend->make_store(), backend->make_store(), {});
    };
    const auto program = must(compile()), other = must(compile());
    const std::vector<float> values(8, 1.0f);
    std::vector<float> read(8);
    for (const auto& p : {program.get(), other.get()}) must(p->write(x, std::span(values)));
    const std::size_t submission = GENERATE(0, 1);
    CAPTURE(backend->name(), submission);
    device.interposer.lose_device(submission);
    if (submission == 1) {
        must(other->submit(1));
        must(other->read(y, std::span(read)));
    }

    const auto is_lost = [&](const auto& result) {
        REQUIRE_FALSE(result);
        CHECK(result.error().code == ErrorCode::DeviceLost);
        CHECK(result.error().vk == VK_ERROR_DEVICE_LOST);
        CHECK_THAT(result.error().message, ContainsSubstring(backend->name()) &&
                                               ContainsSubstring("destroy all that was made with it and make it anew"));
    };
    is_lost(program->submit(1));
    device.interposer.reset_calls();
    for (const auto& p : {program.get(), other.get()}) {
        is_lost(p->submit(1));
        is_lost(p->wait());
        is_lost(p->write(x, std::span(values)));
        is_lost(p->read(y, std::span(read)));
    }
    is_lost(compile());
    is_lost(backend->device()->wait(1));
    for (const char* function : {"vkQueueSubmit", "vkWaitSemaphores", "vkCreateComputePipelines", "vkAllocateMemory"})
        CHECK(device.interposer.calls()[function] == 0);
}

TEST_CASE("what is in flight when a device is lost is destroyed without waiting", "[vulkan][device][faults]") {
    if (vulkan_device_indices().empty()) return;
    PlayedDevice device(GENERATE(from_range(vulkan_device_indices())));
    device.open();
    {
        const auto backend = std::move(device.backend);
        graph::Graph graph;
        graph.mark_output(must(activate(graph, must(graph.input("x", DType::f32, {8})), graph::Activation::relu)));
        const auto program =
            must(backend->compile_program(graph::make_plan(graph), backend->make_store(), backend->make_store(), {}));
        device.interposer.lose_device(1);
        must(program->submit(1));
        CHECK_FALSE(program->submit(1));
        device.interposer.reset_calls();
    }
    CHECK(device.interposer.calls()["vkWaitSemaphores"] == 0);
    CHECK(device.interposer.live() == std::map<std::string, std::int64_t>{});
}

/// One query of 4 heads against 40 keys: its kernels with subgroups are specialized for a size.
OpCase decoding_step() {
    OpCase c;
    c.take(must(cases::families_of("decode_attention", 7).front()->make({1, 40, 4, 2, 64, 64, 32}, DType::f32)));
    return c;
}

TEST_CASE("subgroups of a size that there is not are used by no kernel", "[vulkan][device][faults]") {
    if (vulkan_device_indices().empty()) return;
    PlayedDevice device(GENERATE(from_range(vulkan_device_indices())));
    const std::uint32_t size = GENERATE(0u, 3u, 256u);
    CAPTURE(size);
    device.interposer.claim_subgroup_size(size);
    device.open();
    const vulkan::Capabilities& c = device.backend->capabilities();
    CHECK_FALSE(c.subgroup_arithmetic);
    CHECK_FALSE(c.subgroup_shuffle);
    CHECK_FALSE(c.subgroup_size_control);
    CHECK_FALSE(c.cooperative_matrix);
    decoding_step().check(*device.backend);
}

TEST_CASE("a driver that lies about the size of its subgroups gets kernels that are right",
          "[tuning][vulkan][faults]") {
    if (vulkan_device_indices().empty()) return;
    PlayedDevice device(GENERATE(from_range(vulkan_device_indices())));
    const std::uint32_t size = GENERATE(2u, 4u, 8u, 16u, 32u, 64u, 128u);
    device.interposer.claim_subgroup_size(size);
    device.open();
    CAPTURE(device.backend->name(), size);
    const OpCase c = decoding_step();
    tuning::Ladder ladder{{}};
    const auto chosen = must(ladder.choose(*device.backend, graph::make_plan(c.graph, {.fuse = false})));
    CAPTURE(chosen.front());
    CHECK_FALSE(chosen.front().empty());
    const auto backend = must(vulkan::VulkanBackend::on(
        device.backend->device(),
        {.cache_folder = {},
         .chooser = must(vulkan::NamedVariants::create({{"decode_attention", chosen.front()}}, nullptr))}));
    const auto y = std::get<graph::DecodeAttention>(c.graph.nodes().back().op).y;
    const std::vector<float> found = c.run(*backend, y);
    const std::vector<float> expected = c.run(*cpu::make_cpu_backend<double>(), y);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK_THAT(found[i], Catch::Matchers::WithinAbs(expected[i], 1e-5));
}

}  // namespace
}  // namespace vkformer::tests
