// SPDX-License-Identifier: MIT
// The C interface: devices, graphs and programs, on devices of vkformer's own and inside a host application.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>
#include <thread>

#include "core/dtype.hpp"
#include "models/marian_case.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "support/vkf.hpp"
#include "support/vkf_frames.hpp"

extern "C" int vkf_header_test(void);

namespace vkformer::tests {
namespace {

constexpr std::uint64_t kQueryShape[] = {1, 3, 2, 8}, kKeyShape[] = {1, 5, 2, 8};

std::vector<float> wave(std::size_t count, double step) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
    return values;
}

/// softmax(query · keyᵀ / √8) · value in double precision.
std::vector<double> attention_of(const std::vector<float>& q, const std::vector<float>& k,
                                 const std::vector<float>& v) {
    constexpr std::size_t kQueries = 3, kKeys = 5, kHeads = 2, kDim = 8;
    std::vector<double> result(q.size(), 0);
    for (std::size_t h = 0; h < kHeads; ++h)
        for (std::size_t i = 0; i < kQueries; ++i) {
            std::array<double, kKeys> weight{};
            double sum = 0;
            for (std::size_t j = 0; j < kKeys; ++j) {
                double score = 0;
                for (std::size_t d = 0; d < kDim; ++d)
                    score += static_cast<double>(q[(i * kHeads + h) * kDim + d]) *
                             static_cast<double>(k[(j * kHeads + h) * kDim + d]);
                sum += weight[j] = std::exp(score / std::sqrt(8.0));
            }
            for (std::size_t j = 0; j < kKeys; ++j)
                for (std::size_t d = 0; d < kDim; ++d)
                    result[(i * kHeads + h) * kDim + d] +=
                        weight[j] / sum * static_cast<double>(v[(j * kHeads + h) * kDim + d]);
        }
    return result;
}

VkfGraph attention_graph(const char* weights = nullptr) {
    vkf_graph* graph = nullptr;
    succeed(vkf_graph_create(&graph));
    vkf_value q = 0, k = 0, v = 0, y = 0;
    succeed(vkf_graph_input(graph, "query", VKF_F32, 4, kQueryShape, &q));
    succeed(vkf_graph_input(graph, "key", VKF_F32, 4, kKeyShape, &k));
    succeed(vkf_graph_input(graph, "value", VKF_F32, 4, kKeyShape, &v));
    vkf_attention_options options = VKF_ATTENTION_OPTIONS_INIT;
    options.weights_output = weights;
    succeed(vkf_graph_attention(graph, q, k, v, &options, &y));
    succeed(vkf_graph_output(graph, y, "result"));
    return VkfGraph(graph);
}

VkfProgram compile(vkf_device& device, vkf_graph& graph, const vkf_program_options* options = nullptr) {
    vkf_program* program = nullptr;
    succeed(vkf_program_create(&device, &graph, options, &program));
    return VkfProgram(program);
}

struct Operands {
    std::vector<float> q = wave(48, 0.37), k = wave(80, 0.73), v = wave(80, 1.1);
    void write(vkf_program& program) const {
        write_tensor(program, "query", q);
        write_tensor(program, "key", k);
        write_tensor(program, "value", v);
    }
};

}  // namespace

TEST_CASE("the C header is C99 and its structs know their sizes", "[api][c]") { CHECK(vkf_header_test() == 1); }

TEST_CASE("every code of the C interface has a name", "[api][c]") {
    for (int code = VKF_ERROR_UNKNOWN; code <= VKF_INCOMPLETE; ++code)
        CHECK(std::string(vkf_result_string(static_cast<vkf_result>(code))).starts_with("VKF_"));
    CHECK(std::string(vkf_dtype_string(VKF_F16)) == "f16");
    CHECK(std::string(vkf_activation_string(VKF_ACTIVATION_GELU_TANH)) == "gelu_tanh");
    CHECK(std::string(vkf_session_state_string(VKF_SESSION_GENERATING)) == "generating");
    CHECK(std::string(vkf_model_kind_string(VKF_MODEL_ENCODER_DECODER)) == "encoder_decoder");
    CHECK(vkf_version() > 0);
}

TEST_CASE("attention on three tensors through the C interface", "[api][c]") {
    const std::string index = GENERATE(from_range(device_names()));
    const VkfDevice device = own_device(index);
    CAPTURE(vkf_device_name(device.get()));
    const Operands operands;
    const std::vector<double> expected = attention_of(operands.q, operands.k, operands.v);
    for (const char* weights : {static_cast<const char*>(nullptr), "weights"}) {
        const VkfProgram program = compile(*device, *attention_graph(weights));
        operands.write(*program);
        std::uint64_t ticket = 0;
        succeed(vkf_program_submit(program.get(), nullptr, &ticket));
        succeed(vkf_device_wait(device.get(), ticket, UINT64_MAX));
        const auto result = read_tensor<float>(*program, "result");
        const std::vector<double> found(result.begin(), result.end());
        CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) < 1e-6);
        if (!weights) continue;
        const auto rows = read_tensor<float>(*program, "weights");
        REQUIRE(rows.size() == 2 * 3 * 5);
        CHECK(std::accumulate(rows.begin(), rows.begin() + 5, 0.0f) == Approx(1.0f));
    }
    vkf_memory_use use = VKF_MEMORY_USE_INIT;
    succeed(vkf_device_memory(device.get(), &use));
    CHECK((use.peak > 0) == (index != VKF_DEVICE_CPU));
    const std::uint64_t before = use.used;
    std::uint64_t freed = 0;
    succeed(vkf_device_trim(device.get(), &freed));
    succeed(vkf_device_memory(device.get(), &use));
    CHECK(use.used == 0);  // the programs are gone, and the staging buffer with the trim
    CHECK(freed == before);
}

TEST_CASE("threads that share a device make programs of any variants", "[api][c][threads]") {
    const std::string index = GENERATE(from_range(device_names()));
    const vkf_variants variants = GENERATE(VKF_VARIANTS_PLAIN, VKF_VARIANTS_MEASURED);
    vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
    options.variants = variants;
    const VkfDevice device = own_device(index, &options);
    CAPTURE(vkf_device_name(device.get()), static_cast<int>(variants));
    const Operands operands;
    const std::vector<double> expected = attention_of(operands.q, operands.k, operands.v);
    constexpr std::size_t kThreads = 2;
    std::array<vkf_result, kThreads> made{};
    std::array<vkf_program*, kThreads> programs{};
    const std::array<VkfGraph, kThreads> graphs = {attention_graph(), attention_graph("weights")};
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < kThreads; ++i)
            threads.emplace_back(
                [&, i] { made[i] = vkf_program_create(device.get(), graphs[i].get(), nullptr, &programs[i]); });
    }
    for (std::size_t i = 0; i < kThreads; ++i) {
        CAPTURE(i);
        REQUIRE(made[i] == VKF_SUCCESS);
        const VkfProgram program(programs[i]);
        operands.write(*program);
        std::uint64_t ticket = 0;
        succeed(vkf_program_submit(program.get(), nullptr, &ticket));
        succeed(vkf_device_wait(device.get(), ticket, UINT64_MAX));
        const auto result = read_tensor<float>(*program, "result");
        const std::vector<double> found(result.begin(), result.end());
        CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) < 1e-6);
    }
}

TEST_CASE("a graph of the C interface runs a feed-forward block", "[api][c]") {
    const VkfDevice device = own_device(GENERATE(from_range(device_names())));
    vkf_graph* raw = nullptr;
    succeed(vkf_graph_create(&raw));
    const VkfGraph graph(raw);
    constexpr std::uint64_t kX[] = {2, 4}, kSquare[] = {4, 4}, kRow[] = {4}, kFlat[] = {8};
    const std::vector<float> w = wave(16, 0.4), ones(4, 1.0f), zeros(4, 0.0f), x = wave(8, 0.9);
    vkf_value input = 0, weight = 0, gain = 0, bias = 0, y = 0;
    succeed(vkf_graph_input(raw, "x", VKF_F32, 2, kX, &input));
    succeed(vkf_graph_weight(raw, "w", VKF_F32, 2, kSquare, w.data(), &weight));
    succeed(vkf_graph_weight(raw, "gain", VKF_F32, 1, kRow, ones.data(), &gain));
    succeed(vkf_graph_weight(raw, "bias", VKF_F32, 1, kRow, zeros.data(), &bias));
    succeed(vkf_graph_layer_norm(raw, input, gain, bias, 1e-5f, &y));
    succeed(vkf_graph_linear(raw, y, weight, bias, &y));
    succeed(vkf_graph_activation(raw, y, VKF_ACTIVATION_RELU, &y));
    succeed(vkf_graph_add(raw, y, input, &y));
    succeed(vkf_graph_rms_norm(raw, y, gain, 1e-5f, &y));
    succeed(vkf_graph_reshape(raw, y, 1, kFlat, &y));
    succeed(vkf_graph_output(raw, y, "y"));
    const VkfProgram program = compile(*device, *graph);
    write_tensor(*program, "x", x);
    succeed(vkf_program_submit(program.get(), nullptr, nullptr));
    const auto found = read_tensor<float>(*program, "y");

    std::vector<double> expected;
    for (std::size_t r = 0; r < 2; ++r) {
        double mean = 0, variance = 0, square = 0;
        for (std::size_t i = 0; i < 4; ++i) mean += static_cast<double>(x[4 * r + i]) / 4;
        for (std::size_t i = 0; i < 4; ++i) variance += std::pow(static_cast<double>(x[4 * r + i]) - mean, 2) / 4;
        std::array<double, 4> row{};
        for (std::size_t o = 0; o < 4; ++o) {
            for (std::size_t i = 0; i < 4; ++i)
                row[o] += static_cast<double>(w[4 * o + i]) * (static_cast<double>(x[4 * r + i]) - mean) /
                          std::sqrt(variance + 1e-5);
            row[o] = std::max(row[o], 0.0) + static_cast<double>(x[4 * r + o]);
            square += row[o] * row[o] / 4;
        }
        for (const double value : row) expected.push_back(value / std::sqrt(square + 1e-5));
    }
    const std::vector<double> values(found.begin(), found.end());
    CHECK(relative_error(std::span<const double>(values), std::span<const double>(expected)) < 1e-6);
}

TEST_CASE("the C interface answers wrong calls with errors", "[api][c]") {
    if (vulkan_device_indices().empty()) return;
    vkf_device* device = nullptr;
    CHECK(vkf_device_create("no such device", nullptr, &device) == VKF_ERROR_NO_DEVICE);
    CHECK(std::string(vkf_error_message()).find("no such device") != std::string::npos);
    CHECK(vkf_device_adopt(nullptr, nullptr, &device) == VKF_ERROR_INVALID_ARGUMENT);
    vkf_adopt_info adopt_info = VKF_ADOPT_INFO_INIT;
    CHECK(vkf_device_adopt(&adopt_info, nullptr, &device) == VKF_ERROR_INVALID_ARGUMENT);
    adopt_info.struct_size = 0;
    CHECK(vkf_device_adopt(&adopt_info, nullptr, &device) == VKF_ERROR_INVALID_ARGUMENT);
    vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
    options.variants = static_cast<vkf_variants>(77);
    CHECK(vkf_device_create(nullptr, &options, &device) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(device == nullptr);

    struct Newer {
        vkf_device_options known;
        std::uint64_t unknown;
    } newer = {VKF_DEVICE_OPTIONS_INIT, 1};
    newer.known.struct_size = sizeof newer;
    CHECK(vkf_device_create(nullptr, &newer.known, &device) == VKF_ERROR_INVALID_ARGUMENT);
    newer.unknown = 0;
    const VkfDevice made = own_device("0", &newer.known);

    const VkfGraph graph = attention_graph();
    vkf_value y = 0;
    constexpr std::uint64_t kExtents[] = {2, 2};
    CHECK(vkf_graph_add(graph.get(), 1, 99, &y) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_graph_add(graph.get(), 1, 2, &y) == VKF_ERROR_SHAPE_MISMATCH);
    CHECK(vkf_graph_input(graph.get(), "query", VKF_F32, 2, kExtents, &y) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_graph_input(graph.get(), "x", VKF_F32, 9, kExtents, &y) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(vkf_graph_weight(graph.get(), "w", VKF_F32, 2, kExtents, nullptr, &y) == VKF_ERROR_INVALID_ARGUMENT);
    const VkfProgram program = compile(*made, *graph);
    vkf_program* second = nullptr;
    CHECK(vkf_program_create(made.get(), graph.get(), nullptr, &second) == VKF_ERROR_INVALID_ARGUMENT);
    float number = 0;
    CHECK(vkf_program_write(program.get(), "nothing", &number, 4) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkf_error_message()).find("query, key, value, result") != std::string::npos);
    CHECK(vkf_program_write(program.get(), "query", &number, 4) == VKF_ERROR_SHAPE_MISMATCH);
    CHECK(vkf_device_wait(made.get(), 1000, 0) == VKF_ERROR_INVALID_ARGUMENT);
    vkf_model* model = nullptr;
    CHECK(vkf_model_load(made.get(), "/no/such/model", &model) == VKF_ERROR_FILE_NOT_FOUND);
    CHECK(vkf_model_load(made.get(), (goldens_dir() / "speech/whisper_texts").string().c_str(), &model) ==
          VKF_ERROR_UNSUPPORTED_CONFIG);
    const std::string refusal = vkf_error_message();
    for (const char* const known : {"llama", "marian", "bert", "vit", "this one is a speech model"})
        CHECK(refusal.find(known) != std::string::npos);
    vkf_device_destroy(nullptr);
    vkf_session_destroy(nullptr);
}

TEST_CASE("what only devices that are CPUs gain from is wished of no GPU", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    Interposer interposer(must(vulkan::open_loader()));
    HostApplication host({.device_index = index_of(vulkan_device_indices().back()), .patched = false});
    const auto wishes = [&] {
        std::uint32_t count = 0;
        succeed(vkf_get_device_wishes(interposer.get(), host.instance, host.physical, &count, nullptr));
        std::vector<vkf_wish> found(count);
        succeed(vkf_get_device_wishes(interposer.get(), host.instance, host.physical, &count, found.data()));
        std::set<std::string> names;
        for (const vkf_wish& wish : found) names.insert(wish.name);
        return names;
    };
    CHECK_FALSE(wishes().contains("bufferDeviceAddress"));
    interposer.claim_type(VK_PHYSICAL_DEVICE_TYPE_CPU);
    const auto of_cpu = wishes();
    CHECK(of_cpu.contains("shaderInt64"));
    interposer.claim_type(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
    auto of_gpu = wishes();
    const auto instance = must(vulkan::Instance::adopt(interposer.get(), host.instance, false));
    CHECK_FALSE(instance->describe(host.physical).features.has(vulkan::Feature::int64));  // nor asked of one of our own
    CHECK(of_gpu.insert("shaderInt64").second);
    CHECK(of_gpu == of_cpu);
}

TEST_CASE("a host application is told what vkformer needs, and what was lost", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    vkf_device_requirements requirements = VKF_DEVICE_REQUIREMENTS_INIT;
    succeed(vkf_get_device_requirements(host.get, host.instance, host.physical, &requirements));
    CHECK(requirements.is_usable == VK_TRUE);
    CHECK(requirements.queue_flags == VK_QUEUE_COMPUTE_BIT);
    CHECK(requirements.max_tensor_bytes > 1 << 20);

    std::uint32_t count = 0;
    const VkfDevice device = adopt(host.lend(true));
    succeed(vkf_device_report(device.get(), &count, nullptr));
    std::vector<vkf_wish> wishes(count);
    succeed(vkf_device_report(device.get(), &count, wishes.data()));
    for (const vkf_wish& wish : wishes) {
        CAPTURE(wish.name);
        CHECK(wish.is_enabled == wish.is_available);  // the patch asked for all there is
    }
    count = 1;
    CHECK(vkf_device_report(device.get(), &count, wishes.data()) == VKF_INCOMPLETE);

    HostApplication bare({.device_index = index_of(index), .patched = false});
    std::vector<std::string> told;
    vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
    options.log_user = &told;
    options.log = [](void* user, vkf_log_level, const char* message) {
        static_cast<std::vector<std::string>*>(user)->push_back(message);
    };
    const VkfDevice plain = adopt(bare.lend(false), &options);
    succeed(vkf_device_report(plain.get(), &(count = static_cast<std::uint32_t>(wishes.size())), wishes.data()));
    std::size_t lost = 0;
    for (const vkf_wish& wish : wishes) {
        CHECK(wish.is_enabled == VK_FALSE);
        lost += wish.is_available;
    }
    CHECK(told.size() == lost);
    vkf_device* refused = nullptr;
    const vkf_adopt_info with_queue = bare.lend(true);
    CHECK(vkf_device_adopt(&with_queue, nullptr, &refused) == VKF_ERROR_MISSING_FEATURE);
    CHECK(std::string(vkf_error_message()).find("timelineSemaphore") != std::string::npos);
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("the device patch extends what an application has, and leaves it valid", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    HostApplication host({.device_index = 0});
    const auto patched = [&](const void* chain) {
        VkDeviceCreateInfo info{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = chain};
        vkf_device_patch* patch = nullptr;
        succeed(vkf_patch_device_create_info(host.get, host.instance, host.physical, &info, &patch));
        std::vector<VkStructureType> types;
        for (auto* s = static_cast<const VkBaseInStructure*>(info.pNext); s; s = s->pNext) types.push_back(s->sType);
        const auto features = vulkan::enabled_features(info, VK_API_VERSION_1_2);
        CHECK(features.has(vulkan::Feature::timeline_semaphore));
        vkf_device_patch_destroy(patch);
        return types;
    };
    VkPhysicalDeviceVulkan12Features v12{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    const auto with_large = patched(&v12);
    CHECK(v12.timelineSemaphore == VK_TRUE);  // set in the application's own struct
    CHECK(std::ranges::count(with_large, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES) == 0);
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
    const auto with_small = patched(&timeline);
    CHECK(timeline.timelineSemaphore == VK_TRUE);
    CHECK(std::ranges::count(with_small, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES) == 1);
    CHECK(std::ranges::count(with_small, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) == 0);
}

TEST_CASE("the device patch takes the features of Vulkan 1.0 where an application has them", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    VkPhysicalDeviceFeatures2 has{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    host.ivk.vkGetPhysicalDeviceFeatures2(host.physical, &has);
    const VkPhysicalDeviceFeatures& available = has.features;
    VkPhysicalDeviceFeatures enabled{};
    enabled.robustBufferAccess = VK_TRUE;
    VkPhysicalDeviceFeatures2 chained{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .features = enabled};
    const bool in_chain = GENERATE(true, false);
    CAPTURE(index, in_chain);

    VkDeviceCreateInfo info{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    if (in_chain)
        info.pNext = &chained;
    else
        info.pEnabledFeatures = &enabled;
    vkf_device_patch* patch = nullptr;
    succeed(vkf_patch_device_create_info(host.get, host.instance, host.physical, &info, &patch));
    std::size_t structs = 0;
    for (auto* s = static_cast<const VkBaseInStructure*>(info.pNext); s; s = s->pNext)
        structs += s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    CHECK(structs == (in_chain ? 1u : 0u));  // beside pEnabledFeatures it may not be there
    CHECK(enabled.shaderInt64 == VK_FALSE);
    const VkPhysicalDeviceFeatures& found = in_chain ? chained.features : *info.pEnabledFeatures;
    // Only kernels for devices that are CPUs need it.
    const bool wants_int64 = available.shaderInt64 == VK_TRUE && host.is_cpu();
    CHECK((found.shaderInt64 == VK_TRUE) == wants_int64);
    CHECK(found.robustBufferAccess == VK_TRUE);
    CHECK(vulkan::enabled_features(info, VK_API_VERSION_1_2).has(vulkan::Feature::int64) == wants_int64);
    vkf_device_patch_destroy(patch);
}

TEST_CASE("a model's pass is recorded between a host application's own commands, and submitted again and again",
          "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    const std::string name = GENERATE("marian/swish_d64_h4_opus", "marian/relu_d30_h5_h3",
                                      "marian/gelu_d21_h3_h7_untied", "encoder_decoders/t5_d22_relu");
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice guest = adopt(host.lend(true)), own = own_device(index);
    CAPTURE(vkf_device_name(own.get()), name);
    const std::string folder = (goldens_dir() / name).string();
    const Golden golden(name + "/golden.safetensors");
    const TokenBatch source = token_batch(golden, "input_ids", "attention_mask");
    const TokenBatch target = token_batch(golden, "decoder_input_ids", "");
    vkf_pass_info info = VKF_PASS_INFO_INIT;
    info.source_len = source.len;
    info.target_len = target.len;
    info.attention_weights = VK_TRUE;
    const auto make = [&](vkf_device& device) {
        const VkfModel model = load_model(device, folder);
        vkf_program* program = nullptr;
        succeed(vkf_model_pass(model.get(), &info, nullptr, &program));
        return VkfProgram(program);
    };
    const VkfProgram recorded = make(*guest), expected = make(*own);

    // The host clears its buffer, vkformer runs, the host copies the logits into its buffer: a primary and a secondary one.
    vkf_tensor logits = VKF_TENSOR_INIT;
    succeed(vkf_program_tensor(recorded.get(), "logits", &logits));
    const auto buffer = host.make_buffer(logits.bytes + 16);
    const VkCommandBuffer primary = host.make_commands();
    const VkCommandBuffer secondary = host.make_commands(VK_COMMAND_BUFFER_LEVEL_SECONDARY);
    host.begin(secondary);
    succeed(vkf_program_record(recorded.get(), secondary));
    host.end(secondary);
    host.begin(primary);
    host.dvk.vkCmdFillBuffer(primary, buffer.handle, 0, VK_WHOLE_SIZE, 0x7FC00000u);
    const auto execute =
        reinterpret_cast<PFN_vkCmdExecuteCommands>(host.ivk.vkGetDeviceProcAddr(host.device, "vkCmdExecuteCommands"));
    execute(primary, 1, &secondary);
    const VkMemoryBarrier barrier{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                  .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                  .dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT};
    host.dvk.vkCmdPipelineBarrier(primary, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1,
                                  &barrier, 0, nullptr, 0, nullptr);
    const VkBufferCopy copy{.srcOffset = logits.offset, .dstOffset = 0, .size = logits.bytes};
    host.dvk.vkCmdCopyBuffer(primary, logits.buffer, buffer.handle, 1, &copy);
    host.end(primary);

    std::vector<std::int32_t> from(source.tokens.begin(), source.tokens.begin() + source.len);
    std::vector<std::int32_t> to(target.tokens.begin(), target.tokens.begin() + target.len);
    std::vector<float> values;
    for (int round = 0; round < 2; ++round) {
        CAPTURE(round);
        if (round == 1) std::ranges::reverse(to);
        for (vkf_program* program : {recorded.get(), expected.get()}) {
            write_tensor(*program, "source", from);
            write_tensor(*program, "source_lengths", std::vector{static_cast<std::int32_t>(from.size())});
            write_tensor(*program, "target", to);
        }
        host.submit_and_wait(primary);
        succeed(vkf_program_submit(expected.get(), nullptr, nullptr));
        values.resize(logits.bytes / 4);
        std::memcpy(values.data(), buffer.mapped, logits.bytes);
        CHECK(values == read_tensor<float>(*expected, "logits"));  // bit for bit
        float own_bytes = 0;
        std::memcpy(&own_bytes, buffer.mapped + logits.bytes, 4);
        CHECK(std::isnan(own_bytes));  // the host's own are as it left them
        CHECK(read_tensor<float>(*recorded, "weights/cross/0") == read_tensor<float>(*expected, "weights/cross/0"));
    }
    if (name == "marian/relu_d30_h5_h3" && case_stride(index, 2) == 1) {  // the same recording, a thousand times
        for (int i = 0; i < 1000; ++i) host.submit_and_wait(primary);
        CHECK(std::memcmp(values.data(), buffer.mapped, logits.bytes) == 0);
    }
    CHECK(host.locks_taken == 0);  // unified memory: nothing had to be submitted
    CHECK(host.messages() == std::vector<std::string>{});
}

namespace {

/// Every folder below tests/goldens with a model that has a pass.
std::vector<std::filesystem::path> model_folders() {
    std::vector<std::filesystem::path> folders;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(goldens_dir())) {
        const auto folder = entry.path().parent_path();
        if (entry.path().filename() == "config.json" && std::filesystem::exists(folder / "model.safetensors"))
            folders.push_back(folder);
    }
    std::ranges::sort(folders);
    return folders;
}

/// Values that every input takes: tokens that every vocabulary has, lengths within the row.
void fill_inputs(vkf_program& program) {
    for (std::uint32_t i = 0; const char* name = vkf_program_tensor_name(&program, i); ++i) {
        vkf_tensor tensor = VKF_TENSOR_INIT;
        succeed(vkf_program_tensor(&program, name, &tensor));
        const std::string kind = name;
        if (kind == "pixels") {
            write_tensor(program, name, wave(tensor.bytes / 4, 0.013));
        } else if (kind == "source" || kind == "target" || kind == "tokens") {
            std::vector<std::int32_t> tokens(tensor.bytes / 4);
            for (std::size_t t = 0; t < tokens.size(); ++t) tokens[t] = static_cast<std::int32_t>(3 + t * 5 % 11);
            write_tensor(program, name, tokens);
        } else if (kind == "source_lengths" || kind == "lengths") {
            write_tensor(program, name, std::vector<std::int32_t>{4});
        } else if (kind == "starts") {
            write_tensor(program, name, std::vector<std::int32_t>{0});
        }
    }
}

}  // namespace

TEST_CASE("the length of a pass decides which of LongRoPE's factors it takes", "[api][c][golden]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(GENERATE(from_range(vulkan_device_indices())));
    const auto [len, logits] = GENERATE(table<std::uint32_t, std::string>({{8, "short_logits"}, {9, "logits"}}));
    CAPTURE(vkf_device_name(device.get()), len);
    const std::string name = "transformers_5/phi3_longrope";
    const Golden golden(name + "/golden.safetensors");
    const VkfModel model = load_model(*device, (goldens_dir() / name).string());
    vkf_pass_info info = VKF_PASS_INFO_INIT;
    info.target_len = len;
    vkf_program* raw = nullptr;
    succeed(vkf_model_pass(model.get(), &info, nullptr, &raw));
    const VkfProgram program(raw);
    auto tokens = golden.ints("input_ids");
    tokens.resize(len);
    write_tensor(*program, "tokens", tokens);
    write_tensor(*program, "starts", std::vector<std::int32_t>{0});
    succeed(vkf_program_submit(program.get(), nullptr, nullptr));
    const auto found = read_tensor<float>(*program, "logits");
    const auto expected = golden.floats(logits);
    REQUIRE(found.size() == expected.size());
    CHECK(relative_error(std::span<const float>(found), std::span<const float>(expected)) < kModelBound);
}

TEST_CASE("a pass gives the attention weights of language models and text encoders", "[api][c][layers]") {
    if (vulkan_device_indices().empty()) return;
    const VkfDevice device = own_device(GENERATE(from_range(vulkan_device_indices())));
    const auto [name, kind] = GENERATE(table<std::string, std::string>(
        {{"decoders/lfm2", "decoder"}, {"decoders/gpt_oss", "decoder"}, {"encoders/bert_h20", "encoder"}}));
    CAPTURE(vkf_device_name(device.get()), name);
    const Golden golden(name + "/golden.safetensors"), layers(name + "/layers.safetensors");
    const VkfModel model = load_model(*device, (goldens_dir() / name).string());
    vkf_pass_info info = VKF_PASS_INFO_INIT;
    info.target_len = static_cast<std::uint32_t>(golden.shape("input_ids")[1]);
    info.attention_weights = VK_TRUE;
    vkf_program* raw = nullptr;
    succeed(vkf_model_pass(model.get(), &info, nullptr, &raw));
    const VkfProgram program(raw);
    auto tokens = golden.ints("input_ids");  // of which the first row goes through
    tokens.resize(info.target_len);
    write_tensor(*program, "tokens", tokens);
    std::size_t len = tokens.size();
    if (kind == "decoder") {
        write_tensor(*program, "starts", std::vector<std::int32_t>{0});
    } else {
        const auto mask = golden.ints("attention_mask");
        len = static_cast<std::size_t>(std::count(mask.begin(), mask.begin() + info.target_len, 1));
        write_tensor(*program, "lengths", std::vector<std::int32_t>{static_cast<std::int32_t>(len)});
    }
    succeed(vkf_program_submit(program.get(), nullptr, nullptr));
    for (std::size_t layer = 0; layer < 6; ++layer) {
        const std::string golden_name = "attentions." + std::to_string(layer);
        const std::string tensor_name = "weights/" + kind + "/" + std::to_string(layer);
        CAPTURE(tensor_name);
        vkf_tensor tensor = VKF_TENSOR_INIT;
        const bool has = vkf_program_tensor(program.get(), tensor_name.c_str(), &tensor) == VKF_SUCCESS;
        REQUIRE(has == layers.has(golden_name));
        if (!has) continue;
        auto found = read_tensor<float>(*program, tensor_name.c_str());
        auto expected = layers.floats(golden_name);
        REQUIRE(expected.size() >= found.size());
        expected.resize(found.size());
        for (std::size_t i = 0; i < found.size(); ++i)
            if (i / tokens.size() % tokens.size() >= len) found[i] = expected[i] = 0;  // padding looks at something
        CHECK(relative_error(std::span<const float>(found), std::span<const float>(expected)) < kModelBound);
    }
}

TEST_CASE("every model gives the same bits in a foreign command buffer as on a device of its own", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice guest = adopt(host.lend(true)), own = own_device(index);
    const VkCommandBuffer commands = host.make_commands();
    std::size_t compared = 0;
    const auto folders = model_folders();
    const std::size_t stride = case_stride(index, 10);
    for (std::size_t i = 0; i < folders.size(); i += stride) {
        const auto& folder = folders[i];
        CAPTURE(vkf_device_name(own.get()), folder.string());
        std::vector<VkfProgram> programs;
        for (vkf_device* device : {guest.get(), own.get()}) {
            vkf_model* raw = nullptr;
            if (vkf_model_load(device, folder.string().c_str(), &raw) != VKF_SUCCESS)
                break;  // folders of broken or other models
            const VkfModel model(raw);
            vkf_pass_info info = VKF_PASS_INFO_INIT;
            info.source_len = 6;
            info.target_len = 5;
            vkf_program* program = nullptr;
            succeed(vkf_model_pass(model.get(), &info, nullptr, &program));
            programs.emplace_back(program);
            fill_inputs(*program);
        }
        if (programs.size() < 2) continue;
        host.begin(commands);
        succeed(vkf_program_record(programs[0].get(), commands));
        host.end(commands);
        host.submit_and_wait(commands);
        succeed(vkf_program_submit(programs[1].get(), nullptr, nullptr));
        for (const char* name : {"logits", "hidden", "embedding"}) {
            vkf_tensor tensor = VKF_TENSOR_INIT;
            if (vkf_program_tensor(programs[1].get(), name, &tensor) != VKF_SUCCESS) continue;
            const auto expected = read_tensor<std::uint32_t>(*programs[1], name);
            CHECK(read_tensor<std::uint32_t>(*programs[0], name) == expected);
            CHECK(std::ranges::any_of(expected, [](std::uint32_t bits) { return bits != 0; }));
            ++compared;
        }
    }
    CHECK(compared > 40 / stride);
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("inputs and outputs of a program may lie in the application's buffers", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend(true));
    const Operands operands;
    const auto buffer = host.make_buffer(4096);
    std::memset(buffer.mapped, 0xFF, 4096);
    std::memcpy(buffer.mapped + 256, operands.q.data(), operands.q.size() * 4);
    const vkf_buffer_binding bindings[] = {{"query", buffer.handle, 256, 48 * 4, nullptr},
                                           {"result", buffer.handle, 1024, 512, nullptr}};
    vkf_program_options options = VKF_PROGRAM_OPTIONS_INIT;
    options.buffers = bindings;
    options.buffer_count = 2;
    const VkfProgram program = compile(*device, *attention_graph(), &options);
    write_tensor(*program, "key", operands.k);
    write_tensor(*program, "value", operands.v);
    const VkCommandBuffer commands = host.make_commands();
    host.begin(commands);
    succeed(vkf_program_record(program.get(), commands));
    host.end(commands);
    host.submit_and_wait(commands);
    std::vector<float> result(48);
    std::memcpy(result.data(), buffer.mapped + 1024, 48 * 4);
    const std::vector<double> expected = attention_of(operands.q, operands.k, operands.v);
    const std::vector<double> found(result.begin(), result.end());
    CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) < 1e-6);
    for (std::size_t i = 1024 + 48 * 4; i < 4096; ++i) REQUIRE(buffer.mapped[i] == std::byte{0xFF});

    vkf_program* refused = nullptr;
    const vkf_buffer_binding misaligned = {"query", buffer.handle, 260, 48 * 4, nullptr};
    options.buffers = &misaligned;
    options.buffer_count = 1;
    if (must(vulkan::list_devices())[index_of(index)].capabilities.storage_buffer_alignment > 4)
        CHECK(vkf_program_create(device.get(), attention_graph().get(), &options, &refused) ==
              VKF_ERROR_INVALID_ARGUMENT);
    const vkf_buffer_binding small = {"query", buffer.handle, 256, 47 * 4, nullptr};
    options.buffers = &small;
    CHECK(vkf_program_create(device.get(), attention_graph().get(), &options, &refused) == VKF_ERROR_INVALID_ARGUMENT);
    const vkf_buffer_binding unknown = {"nothing", buffer.handle, 256, 48 * 4, nullptr};
    options.buffers = &unknown;
    CHECK(vkf_program_create(device.get(), attention_graph().get(), &options, &refused) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("an application's tensors may have gaps", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend(true));
    const Operands operands;
    const auto input = host.make_buffer(4096), output = host.make_buffer(4096);
    // The query lies as [heads, query_len, head_dim] with rows of 11 words; the result is wanted transposed, with rows of 60.
    std::vector<float> words(1024, -1.0f);
    for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t h = 0; h < 2; ++h)
            for (std::size_t d = 0; d < 8; ++d) words[(h * 3 + i) * 11 + d] = operands.q[(i * 2 + h) * 8 + d];
    std::memcpy(input.mapped, words.data(), 4096);
    std::memset(output.mapped, 0xFF, 4096);
    const std::uint64_t query_strides[] = {0, 11, 33, 1}, result_strides[] = {0, 1, 3, 60};
    vkf_buffer_binding bindings[] = {{"query", input.handle, 0, 4096, query_strides},
                                     {"result", output.handle, 256, 2048, result_strides}};
    vkf_program_options options = VKF_PROGRAM_OPTIONS_INIT;
    options.buffers = bindings;
    options.buffer_count = 2;
    const VkfProgram program = compile(*device, *attention_graph(), &options);
    write_tensor(*program, "key", operands.k);
    write_tensor(*program, "value", operands.v);
    const VkCommandBuffer commands = host.make_commands();
    host.begin(commands);
    succeed(vkf_program_record(program.get(), commands));
    succeed(vkf_program_record(program.get(), commands));
    host.end(commands);
    host.submit_and_wait(commands);
    const std::vector<double> expected = attention_of(operands.q, operands.k, operands.v);
    std::vector<float> found(1024);
    std::memcpy(found.data(), output.mapped, 4096);
    std::size_t written = 0;
    for (const float word : found) written += !std::isnan(word);
    CHECK(written == 48);  // what lies between stays as it is
    for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t h = 0; h < 2; ++h)
            for (std::size_t d = 0; d < 8; ++d)
                REQUIRE(found[64 + i + 3 * h + 60 * d] == Approx(expected[(i * 2 + h) * 8 + d]).epsilon(1e-5));

    vkf_program* refused = nullptr;
    const std::uint64_t too_far[] = {0, 11, 1021, 1}, overlapping[] = {0, 1, 2, 60};
    bindings[0].strides = too_far;
    CHECK(vkf_program_create(device.get(), attention_graph().get(), &options, &refused) == VKF_ERROR_INVALID_ARGUMENT);
    bindings[0].strides = query_strides;
    bindings[1].strides = overlapping;
    CHECK(vkf_program_create(device.get(), attention_graph().get(), &options, &refused) == VKF_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkf_error_message()).find("one place") != std::string::npos);
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("submissions go through the application's queue, lock and semaphores", "[api][c][guest]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkSemaphoreTypeCreateInfo type{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                         .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo create{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkSemaphore semaphore = VK_NULL_HANDLE;
    REQUIRE(host.dvk.vkCreateSemaphore(host.device, &create, nullptr, &semaphore) == VK_SUCCESS);
    {
        const VkfDevice device = adopt(host.lend(true));
        const VkfProgram program = compile(*device, *attention_graph());
        Operands().write(*program);
        const std::uint64_t go = 5, done = 6;
        vkf_submit_info info = VKF_SUBMIT_INFO_INIT;
        info.wait_count = info.signal_count = 1;
        info.wait_semaphores = info.signal_semaphores = &semaphore;
        info.wait_values = &go;
        info.signal_values = &done;
        std::uint64_t ticket = 0;
        succeed(vkf_program_submit(program.get(), &info, &ticket));
        CHECK(host.locks_taken == 1);
        CHECK(vkf_device_wait(device.get(), ticket, 0) == VKF_NOT_READY);
        CHECK(vkf_device_wait(device.get(), ticket, 1000000) == VKF_TIMEOUT);
        const VkSemaphoreSignalInfo signal{
            .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = semaphore, .value = go};
        const auto signal_semaphore =
            reinterpret_cast<PFN_vkSignalSemaphore>(host.ivk.vkGetDeviceProcAddr(host.device, "vkSignalSemaphore"));
        REQUIRE(signal_semaphore(host.device, &signal) == VK_SUCCESS);
        succeed(vkf_device_wait(device.get(), ticket, UINT64_MAX));
        const auto counter = reinterpret_cast<PFN_vkGetSemaphoreCounterValue>(
            host.ivk.vkGetDeviceProcAddr(host.device, "vkGetSemaphoreCounterValue"));
        std::uint64_t value = 0;
        REQUIRE(counter(host.device, semaphore, &value) == VK_SUCCESS);
        CHECK(value == done);
        info.wait_values = nullptr;
        CHECK(vkf_program_submit(program.get(), &info, &ticket) == VKF_ERROR_INVALID_ARGUMENT);
    }
    host.dvk.vkDestroySemaphore(host.device, semaphore, nullptr);
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("a tensor's memory is exported to another device", "[api][c][guest][external]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    vkf_device_options options = VKF_DEVICE_OPTIONS_INIT;
    options.external_handle_types = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    vkf_device* raw = nullptr;
    const vkf_result made = vkf_device_create(index.c_str(), &options, &raw);
    if (made == VKF_ERROR_MISSING_FEATURE) return;  // the driver exports nothing
    succeed(made);
    const VkfDevice device(raw);
    raw = nullptr;
    for (const VkExternalMemoryHandleTypeFlags unknown : {0xFFFFFFFFu, 2u}) {
        vkf_device_options others = options;
        others.external_handle_types = unknown;
        CHECK(vkf_device_create(index.c_str(), &others, &raw) == VKF_ERROR_MISSING_FEATURE);
        CHECK_THAT(vkf_error_message(), Catch::Matchers::ContainsSubstring("does not export memory as handle types"));
    }
    HostApplication without({.device_index = index_of(index)});  // the patch asks for no extension that exports
    const vkf_adopt_info lent = without.lend_least();
    CHECK(vkf_device_adopt(&lent, &options, &raw) == VKF_ERROR_MISSING_FEATURE);
    CHECK_THAT(vkf_error_message(), Catch::Matchers::ContainsSubstring("VK_KHR_external_memory_fd"));

    const VkfProgram program = compile(*device, *attention_graph());
    Operands().write(*program);
    succeed(vkf_program_submit(program.get(), nullptr, nullptr));
    const auto expected = read_tensor<float>(*program, "result");
    vkf_tensor tensor = VKF_TENSOR_INIT;
    succeed(vkf_program_tensor(program.get(), "result", &tensor));

    // Another vkf_device, as another process or API would be, imports the memory.
    const VkfDevice other = own_device(index, &options);
    vkf_vulkan_handles here = VKF_VULKAN_HANDLES_INIT, there = VKF_VULKAN_HANDLES_INIT;
    succeed(vkf_device_vulkan(device.get(), &here));
    succeed(vkf_device_vulkan(other.get(), &there));
    const auto tables = [](const vkf_vulkan_handles& vk) {
        return must(vulkan::load_device_table(must(vulkan::load_instance_table(vk.get_instance_proc_addr, vk.instance)),
                                              vk.device));
    };
    const auto here_vk = tables(here), there_vk = tables(there);
    const auto get_fd = reinterpret_cast<PFN_vkGetMemoryFdKHR>(
        must(vulkan::load_instance_table(here.get_instance_proc_addr, here.instance))
            .vkGetDeviceProcAddr(here.device, "vkGetMemoryFdKHR"));
    const VkMemoryGetFdInfoKHR fd_info{.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                       .memory = tensor.memory,
                                       .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    int fd = -1;
    REQUIRE(get_fd(here.device, &fd_info, &fd) == VK_SUCCESS);
    VkMemoryRequirements requirements{};
    here_vk.vkGetBufferMemoryRequirements(here.device, tensor.buffer, &requirements);
    const VkImportMemoryFdInfoKHR import{.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
                                         .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
                                         .fd = fd};
    const VkMemoryAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                        .pNext = &import,
                                        .allocationSize = requirements.size,
                                        .memoryTypeIndex = 0};
    VkDeviceMemory imported = VK_NULL_HANDLE;
    REQUIRE(there_vk.vkAllocateMemory(there.device, &allocate, nullptr, &imported) == VK_SUCCESS);
    void* mapped = nullptr;
    REQUIRE(there_vk.vkMapMemory(there.device, imported, 0, VK_WHOLE_SIZE, 0, &mapped) == VK_SUCCESS);
    std::vector<float> found(expected.size());
    std::memcpy(found.data(), static_cast<std::byte*>(mapped) + tensor.memory_offset + tensor.offset, tensor.bytes);
    CHECK(found == expected);
    there_vk.vkFreeMemory(there.device, imported, nullptr);
}

namespace {

/// An RGBA image of the application's, its pixels copied from a buffer, then readable by shaders.
struct HostImage {
    HostImage(HostApplication& application, std::uint32_t width, std::uint32_t height,
              std::span<const std::byte> pixels, VkFormat format = VK_FORMAT_R8G8B8A8_UNORM)
        : host(application) {
        create_image = load<PFN_vkCreateImage>("vkCreateImage");
        const VkImageCreateInfo info{
            .sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
            .imageType = VK_IMAGE_TYPE_2D,
            .format = format,
            .extent = {width, height, 1},
            .mipLevels = 1,
            .arrayLayers = 1,
            .samples = VK_SAMPLE_COUNT_1_BIT,
            .tiling = VK_IMAGE_TILING_OPTIMAL,
            .usage = VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_STORAGE_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT};
        REQUIRE(create_image(host.device, &info, nullptr, &image) == VK_SUCCESS);
        VkMemoryRequirements requirements{};
        load<PFN_vkGetImageMemoryRequirements>("vkGetImageMemoryRequirements")(host.device, image, &requirements);
        std::uint32_t type = 0;
        while (!((requirements.memoryTypeBits >> type) & 1u)) ++type;
        const VkMemoryAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                            .allocationSize = requirements.size,
                                            .memoryTypeIndex = type};
        REQUIRE(host.dvk.vkAllocateMemory(host.device, &allocate, nullptr, &memory) == VK_SUCCESS);
        REQUIRE(load<PFN_vkBindImageMemory>("vkBindImageMemory")(host.device, image, memory, 0) == VK_SUCCESS);
        const VkImageViewCreateInfo view_info{.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                              .image = image,
                                              .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                              .format = format,
                                              .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
        REQUIRE(load<PFN_vkCreateImageView>("vkCreateImageView")(host.device, &view_info, nullptr, &view) ==
                VK_SUCCESS);
        fill(width, height, pixels);
    }
    HostImage(const HostImage&) = delete;
    HostImage& operator=(const HostImage&) = delete;
    ~HostImage() {
        load<PFN_vkDestroyImageView>("vkDestroyImageView")(host.device, view, nullptr);
        load<PFN_vkDestroyImage>("vkDestroyImage")(host.device, image, nullptr);
        host.dvk.vkFreeMemory(host.device, memory, nullptr);
    }

    void fill(std::uint32_t width, std::uint32_t height, std::span<const std::byte> pixels) {
        const auto buffer = host.make_buffer(pixels.size());
        std::memcpy(buffer.mapped, pixels.data(), pixels.size());
        const VkCommandBuffer commands = host.make_commands();
        host.begin(commands);
        const auto barrier = [&](VkImageLayout from, VkImageLayout to, VkAccessFlags source, VkAccessFlags target,
                                 VkPipelineStageFlags source_stage, VkPipelineStageFlags target_stage) {
            const VkImageMemoryBarrier b{.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
                                         .srcAccessMask = source,
                                         .dstAccessMask = target,
                                         .oldLayout = from,
                                         .newLayout = to,
                                         .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                         .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                         .image = image,
                                         .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
            host.dvk.vkCmdPipelineBarrier(commands, source_stage, target_stage, 0, 0, nullptr, 0, nullptr, 1, &b);
        };
        barrier(VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 0, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT);
        const VkBufferImageCopy region{.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                                       .imageExtent = {width, height, 1}};
        load<PFN_vkCmdCopyBufferToImage>("vkCmdCopyBufferToImage")(commands, buffer.handle, image,
                                                                   VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, 1, &region);
        barrier(VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_GENERAL, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_ACCESS_SHADER_READ_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
        host.end(commands);
        host.submit_and_wait(commands);
    }
    template <class Function>
    Function load(const char* name) const {
        return reinterpret_cast<Function>(host.ivk.vkGetDeviceProcAddr(host.device, name));
    }

    HostApplication& host;
    PFN_vkCreateImage create_image = nullptr;
    VkImage image = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkImageView view = VK_NULL_HANDLE;
};

double error_between(const std::vector<float>& found, const std::vector<float>& expected) {
    return relative_error<float, float>(found, expected);
}

VkfGraph image_graph(std::uint64_t channels, std::uint64_t height, std::uint64_t width) {
    vkf_graph* graph = nullptr;
    succeed(vkf_graph_create(&graph));
    const std::uint64_t shape[] = {1, channels, height, width};
    vkf_value pixels = 0, y = 0;
    succeed(vkf_graph_input(graph, "pixels", VKF_F32, 4, shape, &pixels));
    succeed(vkf_graph_add(graph, pixels, pixels, &y));
    succeed(vkf_graph_output(graph, y, "twice"));
    return VkfGraph(graph);
}

}  // namespace

TEST_CASE("an image of the application becomes a program's input", "[api][c][guest][image]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend(true));
    CAPTURE(vkf_device_name(device.get()));
    constexpr std::uint32_t kWidth = 7, kHeight = 5;
    std::vector<std::byte> pixels(kWidth * kHeight * 4);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::byte>((i * 37 + 11) % 256);
    const HostImage image(host, kWidth, kHeight, pixels);
    const vkf_image_binding binding = {
        "pixels", image.view, VK_IMAGE_LAYOUT_GENERAL, {0.5f, 0.25f, 0.1f}, {0.5f, 2.0f, 0.3f}};
    vkf_program_options options = VKF_PROGRAM_OPTIONS_INIT;
    options.images = &binding;
    options.image_count = 1;
    for (const std::uint64_t channels : {3, 1}) {
        const VkfProgram program = compile(*device, *image_graph(channels, kHeight, kWidth), &options);
        const VkCommandBuffer commands = host.make_commands();
        host.begin(commands);
        succeed(vkf_program_record(program.get(), commands));
        succeed(vkf_program_record(program.get(), commands));  // the second waits for the first
        host.end(commands);
        host.submit_and_wait(commands);
        const auto found = read_tensor<float>(*program, "twice");
        for (std::size_t c = 0; c < channels; ++c)
            for (std::size_t i = 0; i < kWidth * kHeight; ++i) {
                const float value = static_cast<float>(pixels[4 * i + c]) / 255.0f;
                const float expected = 2 * (value - binding.mean[c]) / binding.deviation[c];
                REQUIRE(found[c * kWidth * kHeight + i] ==
                        Approx(expected).margin(2e-3));  // of 8-bit filtering weights
            }
        succeed(vkf_program_submit(program.get(), nullptr, nullptr));
        CHECK(read_tensor<float>(*program, "twice") == found);
    }
    vkf_program* refused = nullptr;
    CHECK(vkf_program_create(device.get(), image_graph(2, 4, 4).get(), &options, &refused) == VKF_ERROR_SHAPE_MISMATCH);
    vkf_image_binding wrong = binding;
    wrong.deviation[1] = 0;
    options.images = &wrong;
    CHECK(vkf_program_create(device.get(), image_graph(3, 4, 4).get(), &options, &refused) ==
          VKF_ERROR_INVALID_ARGUMENT);
    wrong = binding;
    wrong.layout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL;
    CHECK(vkf_program_create(device.get(), image_graph(3, 4, 4).get(), &options, &refused) ==
          VKF_ERROR_INVALID_ARGUMENT);
    CHECK(host.messages() == std::vector<std::string>{});
}

TEST_CASE("a storage image gives what a sampled one does, at any size", "[api][c][guest][image]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    HostApplication host({.device_index = index_of(index)});
    const VkfDevice device = adopt(host.lend(true));
    CAPTURE(vkf_device_name(device.get()));
    constexpr std::uint32_t kWidth = 6, kHeight = 4;
    constexpr std::size_t kValues = kWidth * kHeight * 4;
    std::vector<std::uint8_t> bytes(kValues);
    std::vector<float> floats(kValues);
    std::vector<std::uint16_t> halves(kValues);
    for (std::size_t i = 0; i < kValues; ++i) {
        bytes[i] = static_cast<std::uint8_t>((i * 53 + 5) % 256);
        floats[i] = static_cast<float>(bytes[i]) / 255.0f;
        halves[i] = float_to_half(floats[i]);
    }
    const HostImage rgba8(host, kWidth, kHeight, std::as_bytes(std::span(bytes)));
    const HostImage rgba16(host, kWidth, kHeight, std::as_bytes(std::span(halves)), VK_FORMAT_R16G16B16A16_SFLOAT);
    const HostImage rgba32(host, kWidth, kHeight, std::as_bytes(std::span(floats)), VK_FORMAT_R32G32B32A32_SFLOAT);
    const std::array<std::uint64_t, 2> sizes[] = {{kHeight, kWidth}, {7, 13}, {3, 2}};
    for (const auto& [height, width] : sizes) {
        CAPTURE(height, width);
        const auto read = [&](const HostImage& image, VkFormat storage_format) {
            const vkf_image_binding binding = {
                "pixels", image.view, VK_IMAGE_LAYOUT_GENERAL, {0.5f, 0.25f, 0.1f}, {0.5f, 2.0f, 0.3f}, storage_format};
            vkf_program_options options = VKF_PROGRAM_OPTIONS_INIT;
            options.images = &binding;
            options.image_count = 1;
            const VkfProgram program = compile(*device, *image_graph(3, height, width), &options);
            succeed(vkf_program_submit(program.get(), nullptr, nullptr));
            return read_tensor<float>(*program, "twice");
        };
        const auto sampled = read(rgba8, VK_FORMAT_UNDEFINED);
        CHECK(error_between(read(rgba8, VK_FORMAT_R8G8B8A8_UNORM), sampled) < 4e-3);  // of 8-bit filtering weights
        const auto exact = read(rgba32, VK_FORMAT_R32G32B32A32_SFLOAT);
        CHECK(error_between(read(rgba8, VK_FORMAT_R8G8B8A8_UNORM), exact) < 1e-6);
        CHECK(error_between(read(rgba16, VK_FORMAT_R16G16B16A16_SFLOAT), exact) < 1e-3);
        if (height == kHeight)
            for (std::size_t i = 0; i < kWidth * kHeight; ++i)
                REQUIRE(exact[i] == Approx(2 * (floats[4 * i] - 0.5f) / 0.5f).margin(1e-5));
    }
    vkf_image_binding wrong = {"pixels", rgba8.view, VK_IMAGE_LAYOUT_GENERAL, {}, {1, 1, 1}, VK_FORMAT_R8_UNORM};
    vkf_program_options options = VKF_PROGRAM_OPTIONS_INIT;
    options.images = &wrong;
    options.image_count = 1;
    vkf_program* refused = nullptr;
    CHECK(vkf_program_create(device.get(), image_graph(3, 4, 4).get(), &options, &refused) ==
          VKF_ERROR_INVALID_ARGUMENT);
    wrong.storage_format = VK_FORMAT_R8G8B8A8_UNORM;
    wrong.layout = VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL;
    CHECK(vkf_program_create(device.get(), image_graph(3, 4, 4).get(), &options, &refused) ==
          VKF_ERROR_INVALID_ARGUMENT);
    CHECK(host.messages() == std::vector<std::string>{});
}

}  // namespace vkformer::tests
