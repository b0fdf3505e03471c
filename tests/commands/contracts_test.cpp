// SPDX-License-Identifier: MIT
/// Every module of the library against its contract, shaders/OP/contract.h, and every plan of a kernel against its module.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "bench/spirv.hpp"
#include "cases/case.hpp"
#include "graph/plan.hpp"
#include "linear/contract.h"
#include "shader_table.hpp"
#include "support/catch.h"
#include "support/imagined_devices.hpp"
#include "support/must.hpp"
#include "vulkan/features.hpp"
#include "vulkan/pipelines.hpp"
#include "vulkan/variants.hpp"
#include "vulkan/vendors.hpp"

namespace vkformer::tests {
namespace {

using bench::SpirvModule;

std::string text_of(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    REQUIRE(stream);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
}

/// "row_vec4" → "RowVec4", "HAS_GAIN" → "HasGain".
std::string camel(std::string_view snake) {
    std::string name;
    bool starts = true;
    for (const char c : snake) {
        if (c != '_') name += static_cast<char>(starts ? std::toupper(c) : std::tolower(c));
        starts = c == '_';
    }
    return name;
}

/// The numbers that a shader's headers declare under the names that are theirs: contract.h of a folder `rms_norm` has kRmsNorm…, that of
/// the wing kCpuRmsNorm…, another header, halve_rows.h, kHalveRows…; by the name behind that.
class Contract {
public:
    explicit Contract(const std::string& source) { read(source); }

    /// Whether one of the names that `name` begins (of bindings: "WeightVectors" is the weight) or ends with has that number; the longest
    /// such name counts.
    bool has_binding(const std::string& block, std::uint32_t id) const {
        std::size_t longest = 0;
        bool is_right = false;
        for (const auto& [name, value] : values_)
            if (block.starts_with(name) && name.size() >= longest) {
                is_right = value == id || (is_right && name.size() == longest);
                longest = name.size();
            }
        return is_right;
    }
    bool has_constant(const std::string& name, std::uint32_t id) const {
        return std::ranges::any_of(
            values_, [&](const auto& entry) { return entry.first.ends_with(camel(name)) && entry.second == id; });
    }
    bool has_offset(const std::string& member, std::uint32_t offset) const {
        const auto [first, last] = values_.equal_range(camel(member));
        return std::any_of(first, last, [&](const auto& entry) { return entry.second == offset; });
    }

private:
    void read(const std::string& file) {
        if (!seen_.insert(file).second) return;
        const std::filesystem::path path(file);
        const std::string text = text_of(std::filesystem::path(VKFORMER_SOURCE_DIR) / "shaders" / path);
        static const std::regex include(R"re(#include "([^"]+)")re"), number(R"(\b(k[A-Z]\w*)\s*=\s*(\d+)\b)");
        for (std::sregex_iterator i(text.begin(), text.end(), include), end; i != end; ++i) read((*i)[1]);
        if (path.extension() != ".h") return;
        const std::string folder = path.parent_path().filename().string();
        std::string prefix = "k" + camel(path.stem() == "contract" ? folder : path.stem().string());
        if (file.starts_with("cpu_devices/")) prefix = "kCpu" + prefix.substr(1);
        for (std::sregex_iterator i(text.begin(), text.end(), number), end; i != end; ++i)
            if (const std::string name = (*i)[1]; name.starts_with(prefix))
                values_.emplace(name.substr(prefix.size()), static_cast<std::uint32_t>(std::stoul((*i)[2])));
    }

    std::set<std::string> seen_;
    std::multimap<std::string, std::uint32_t> values_;
};

/// The module as the compiler left it, with its names: what the library holds has none.
SpirvModule module_of(const vulkan::ShaderBinary& shader) {
    const std::string text = text_of(std::filesystem::path(VKFORMER_SPIRV_DIR) / (std::string(shader.name) + ".spv"));
    return must(bench::read_spirv(std::as_bytes(std::span(text)), "main", std::string(shader.name)));
}

TEST_CASE("bindings, constants and push constants of every module are where its contract says",
          "[shaders][contracts]") {
    for (const vulkan::ShaderBinary& shader : vulkan::shader_table()) {
        CAPTURE(shader.name, shader.source);
        const SpirvModule module = module_of(shader);
        const Contract contract{std::string(shader.source)};
        REQUIRE_FALSE(module.resources.empty());
        for (const auto& resource : module.resources) {
            CAPTURE(resource.block, resource.binding);
            CHECK(resource.set == 0);
            // an image has no block
            if (resource.is_storage_buffer) CHECK(contract.has_binding(resource.block, resource.binding));
        }
        for (const auto& [id, name] : module.constants) {
            CAPTURE(name, id);
            if (id > 0) CHECK(contract.has_constant(name, id));  // 0: the workgroup, which has no name
        }
        // PART_OF_GRID of two words, but in bench, which runs whole grids; then words, one behind the other, but for addresses, which have a name
        const bool has_part = !shader.source.starts_with("bench/");
        REQUIRE((module.push.empty() || (module.push.front().name == "first_workgroup") == has_part));
        std::uint32_t expected = 0;
        for (const auto& [name, offset] : module.push) {
            CAPTURE(name, offset);
            CHECK((offset == expected || contract.has_offset(name, offset)));
            expected = offset + (name == "first_workgroup" ? 8 : 4);
        }
    }
}

TEST_CASE("what a module requires of a device is what it declares to the driver", "[shaders][contracts]") {
    using enum vulkan::ShaderRequirement;
    // SPIR-V specification 1.6, 3.31: the capabilities that stand for each
    const std::multimap<std::uint32_t, vulkan::ShaderRequirement> requirement_of = {
        {4433, storage16}, {9, float16},     {6019, int_dot}, {63, subgroup}, {6022, coopmat},  {5430, coopmat2},
        {5431, coopmat2},  {5432, coopmat2}, {11, int64},     {65, shuffle},  {5347, addresses}};
    for (const vulkan::ShaderBinary& shader : vulkan::shader_table()) {
        CAPTURE(shader.name);
        std::uint32_t declared = 0;
        for (const std::uint32_t capability : module_of(shader).capabilities) {
            CAPTURE(capability);
            const auto [first, last] = requirement_of.equal_range(capability);
            for (auto i = first; i != last; ++i) declared |= vulkan::bit_of(i->second);
        }
        CHECK((declared & ~shader.requires_mask) == 0);  // more may be asked for: what is of no use without it
    }
}

/// The graph of a case, for who runs it not.
graph::Plan plan_of(const cases::Case& which) {
    cases::CaseBuilder builder(cases::CaseBuilder::Contents::none);
    must(which.build(builder));
    return graph::make_plan(std::move(builder.graph), {.fuse = false});
}

/// Calls visit(device, kernel, dispatch) for every dispatch of every kernel that fits a case on one of imagined_devices().
void for_each_dispatch(auto&& visit) {
    static const std::vector<cases::Case> all = must(cases::compiled_cases());
    for (const cases::Case& which : all) {
        const graph::Plan plan = plan_of(which);
        for (const vulkan::Capabilities& device : imagined_devices()) {
            CAPTURE(which.name(), device.type);
            const vulkan::KernelContext context{plan.graph, device};
            for (const graph::Node& node : plan.graph.nodes())
                for (const vulkan::KernelTraits* kernel : vulkan::fitting_kernels(node.op, context)) {
                    CAPTURE(kernel->name);
                    for (const vulkan::Dispatch& dispatch :
                         must(vulkan::plan_dispatches(node.op, context, *kernel)).dispatches)
                        visit(device, *kernel, dispatch);
                }
        }
    }
}

/// The same module is asked for thousands of times.
const std::set<std::uint32_t>& capabilities_of(const vulkan::ShaderBinary& shader) {
    static std::map<std::string_view, std::set<std::uint32_t>> known;
    const auto [found, is_new] = known.try_emplace(shader.name);
    if (is_new) found->second = module_of(shader).capabilities;
    return found->second;
}

TEST_CASE("the workgroups of few rows and their sums are within what devices allow", "[shaders][contracts]") {
    constexpr std::uint32_t kLeastSharedBytes = 16384;  // that Vulkan has
    const std::uint32_t vendor = GENERATE(0u, vulkan::vendors::kQualcomm, vulkan::vendors::kIntel,
                                          vulkan::vendors::kArm, vulkan::vendors::kBroadcom),
                        invocations = GENERATE(128u, 1024u);
    const bool is_gated = GENERATE(false, true), is_normed = GENERATE(false, true);
    const DType weight = GENERATE(DType::f32, DType::bf16, DType::q8_0, DType::q4_k);
    const std::uint64_t rows = GENERATE(1, 2, 3, 4, 5, 7, 8), in = GENERATE(256, 2304, 8192, 16384);
    CAPTURE(vendor, is_gated, is_normed, invocations, to_string(weight), rows, in);
    vulkan::Capabilities device = imagined_devices().front();
    device.max_workgroup_invocations = invocations;
    device.vendor_id = vendor;
    device.cooperative_matrix = device.cooperative_matrix2 = false;  // which would take what `split` does

    graph::Graph graph;
    const std::vector<std::byte> zeros(bytes_of(weight, 64 * in));
    const graph::Value x = must(graph.input("x", DType::f32, {rows, in}));
    const graph::Value w =
        must(graph.weight("w", {.dtype = weight, .shape = {64, in}, .bytes = zeros, .owner = {}}, weight));
    const graph::Value y = must(graph.input("y", DType::f32, {rows, is_gated ? 32u : 64u}));
    graph::Linear op{.x = x, .weight = w, .y = y};
    if (is_gated) op.epilogue.end = graph::Epilogue::End::gate;
    if (is_normed) op.prologue = {.kind = graph::Prologue::Kind::rms_norm, .eps = 1e-5f};
    const vulkan::KernelContext context{graph, device};
    std::set<std::string_view> seen;  // modules
    bool has_parts = false;
    for (const vulkan::KernelTraits* kernel : vulkan::fitting_kernels(op, context)) {
        CAPTURE(kernel->name);
        const auto plan = must(vulkan::plan_dispatches(op, context, *kernel));
        const bool norms_first = is_normed && plan.dispatches.size() > 1;
        for (const vulkan::Dispatch& dispatch : plan.dispatches) {
            const auto constant = [&](std::uint32_t id) {
                const auto found = std::ranges::find(dispatch.constants, id, &vulkan::Dispatch::Constant::id);
                return found == dispatch.constants.end() ? 0 : found->value;
            };
            const std::uint32_t columns = constant(shaders::kLinearColumns);
            const std::uint32_t size = constant(shaders::kWorkgroupConstant);
            if (columns == 0 || !dispatch.module.family->name.starts_with("linear")) continue;
            seen.insert(dispatch.module.family->name);
            const bool is_part = constant(shaders::kLinearSplits) > 1;
            has_parts = has_parts || is_part;
            const std::uint32_t most = vendor == vulkan::vendors::kQualcomm ? 64 : invocations;
            const std::uint64_t of_norm = is_normed && !norms_first ? 1 : 0;
            CHECK(size <= most);
            CHECK(constant(shaders::kLinearRows) * (columns + of_norm) * (size + 1) * 4 <= kLeastSharedBytes);
            CHECK(constant(shaders::kLinearRows) * columns <= size);  // an invocation stores one sum
            if (is_gated) CHECK(columns % 2 == 0);
            if (rows == 1 && in == 16384 && !is_part) CHECK(size == std::min(256u, most));
        }
    }
    CHECK(seen.contains(weight == DType::f32 ? "linear_row_vec4" : "linear_quantized_row"));
    if (is_quantized(weight)) CHECK(seen.contains("linear_quantized_row_int8"));
    if (!is_normed && in == 16384) CHECK(has_parts);
}

TEST_CASE("a feature that is asked of a device is one that modules or the runtime use", "[shaders][contracts]") {
    // By the capability that lets a module use it. Those without are the runtime's, for queues and for how pipelines are made, or belong
    // to the memory model: once it is enabled, atomics of modules that do not declare it need its device scope.
    const std::map<std::string_view, std::uint32_t> capability_of = {{"storageBuffer16BitAccess", 4433},
                                                                     {"shaderFloat16", 9},
                                                                     {"vulkanMemoryModel", 5345},
                                                                     {"shaderIntegerDotProduct", 6019},
                                                                     {"cooperativeMatrix", 6022},
                                                                     {"cooperativeMatrixReductions", 5430},
                                                                     {"cooperativeMatrixConversions", 5431},
                                                                     {"cooperativeMatrixPerElementOperations", 5432},
                                                                     {"shaderInt64", 11},
                                                                     {"bufferDeviceAddress", 5347}};
    const std::set<std::string_view> of_the_runtime = {"timelineSemaphore", "subgroupSizeControl",
                                                       "computeFullSubgroups", "maintenance4",
                                                       "vulkanMemoryModelDeviceScope"};
    std::map<std::uint32_t, bool>
        only_cpus;  // by capability: whether none but devices that are CPUs run a module with it
    for_each_dispatch(
        [&](const vulkan::Capabilities& device, const vulkan::KernelTraits&, const vulkan::Dispatch& dispatch) {
            const vulkan::ShaderBinary* const shader = dispatch.module.binary();
            if (!shader) return;
            for (const std::uint32_t capability : capabilities_of(*shader)) {
                bool& is_only = only_cpus.emplace(capability, true).first->second;
                is_only = is_only && device.is_cpu();
            }
        });
    for (const vulkan::FeatureInfo& feature : vulkan::feature_table()) {
        CAPTURE(feature.name);
        if (of_the_runtime.contains(feature.name)) continue;
        const auto found = only_cpus.find(capability_of.at(feature.name));
        if (vulkan::kLackingRequirements == 0) CHECK(found != only_cpus.end());
        if (found != only_cpus.end()) CHECK(found->second == feature.only_cpus);
    }
}

TEST_CASE("every plan runs where its kernel fits, binds and sets what its module has, and the cases reach all",
          "[shaders][contracts]") {
    std::map<std::string, SpirvModule> modules;
    for (const vulkan::ShaderBinary& shader : vulkan::shader_table()) modules.emplace(shader.name, module_of(shader));
    std::set<std::string> reached;
    std::set<const vulkan::KernelTraits*> kernels;
    const auto check = [&](const vulkan::Dispatch& dispatch) {
        const std::string name = dispatch.module.name();
        if (!dispatch.module.binary() || !reached.insert(name).second) return;
        CAPTURE(name);
        const SpirvModule& module = modules.at(name);
        std::set<std::uint32_t> bound, wanted, set, constants;
        for (const auto& binding : dispatch.bindings) CHECK(bound.insert(binding.id).second);
        for (const auto& resource : module.resources) wanted.insert(resource.binding);
        for (const auto& constant : dispatch.constants) CHECK(set.insert(constant.id).second);
        for (const auto& [id, constant] : module.constants) constants.insert(id);
        CHECK(std::ranges::includes(bound, wanted));
        CHECK(set == constants);
        std::uint32_t end = 0;
        std::set<std::uint32_t> offsets;
        for (const auto& [member, offset] : module.push) {
            end = std::max(end, offset + 4);
            offsets.insert(offset);
        }
        for (const auto& address : dispatch.addresses) CHECK(offsets.contains(address.push_offset));
        const bool has_addresses = !dispatch.addresses.empty();
        if (!has_addresses) CHECK(dispatch.push.bytes().size() == end);
    };
    for_each_dispatch(
        [&](const vulkan::Capabilities& device, const vulkan::KernelTraits& kernel, const vulkan::Dispatch& dispatch) {
            kernels.insert(&kernel);
            CAPTURE(dispatch.module.name());
            const vulkan::ShaderBinary* const shader = dispatch.module.binary();
            CHECK((shader && vulkan::can_run(device, *shader)));
            check(dispatch);
        });
    for (const vulkan::OpKernels& all : vulkan::kernel_catalogue())
        for (const vulkan::KernelTraits* kernel : all.kernels) {
            CAPTURE(all.op, kernel->name);
            const bool is_built = (kernel->needs & vulkan::kLackingRequirements) == 0;
            CHECK(kernels.contains(kernel) == is_built);
        }
    const auto source_of = [](const vulkan::ShaderFamily& family) {
        return family.find(vulkan::Storage::single)->source;
    };
    for (const vulkan::ShaderBinary& shader : vulkan::shader_table()) {
        CAPTURE(shader.name);
        if (shader.source == source_of(vulkan::modules::strided_copy)) continue;  // for nodes with packed_words() only
        const bool runs_nodes = shader.source != source_of(vulkan::modules::image_to_tensor);
        CHECK(reached.contains(std::string(shader.name)) == runs_nodes);
    }
}

TEST_CASE("no dispatch binds more storage buffers than its kernel says, and the references bind few",
          "[shaders][contracts]") {
    std::map<const vulkan::KernelTraits*, std::size_t> most;
    for_each_dispatch(
        [&](const vulkan::Capabilities& device, const vulkan::KernelTraits& kernel, const vulkan::Dispatch& dispatch) {
            std::size_t& buffers = most[&kernel];
            buffers = std::max(buffers, dispatch.bindings.size());
            CHECK(dispatch.bindings.size() <= device.max_storage_buffers);
        });
    for (const vulkan::OpKernels& all : vulkan::kernel_catalogue())
        for (const vulkan::KernelTraits* kernel : all.kernels) {
            CAPTURE(all.op, kernel->name, most[kernel]);
            CHECK(most[kernel] <= kernel->storage_buffers);
            if (kernel->is_reference) CHECK(kernel->storage_buffers == vulkan::kFewStorageBuffers);
            if (kernel->storage_buffers > vulkan::kFewStorageBuffers) CHECK(most[kernel] == kernel->storage_buffers);
        }
}

/// What the kernel runs for an op at the edge: in the first form, types and device that it takes. Absent: it takes none.
std::optional<vulkan::DispatchPlan> shown_by(std::string_view op, const vulkan::KernelTraits& kernel,
                                             const vulkan::Edge& edge) {
    for (const cases::Family* family : cases::families_of(op, edge.size()))
        for (const cases::Types& types : family->types) {
            const graph::Plan plan = plan_of(must(family->make({edge.begin(), edge.end()}, types)));
            for (const vulkan::Capabilities& device : imagined_devices())
                for (const graph::Node& node : plan.graph.nodes()) {
                    const vulkan::KernelContext context{plan.graph, device};
                    if (graph::op_name(node.op) != op) continue;
                    const vulkan::KernelList fitting = vulkan::fitting_kernels(node.op, context);
                    if (std::ranges::find(fitting, &kernel) != fitting.end())
                        return must(vulkan::plan_dispatches(node.op, context, kernel));
                }
        }
    return std::nullopt;
}

TEST_CASE("every kernel names problems that it takes, and that show more of it than one workgroup",
          "[shaders][contracts]") {
    for (const vulkan::OpKernels& all : vulkan::kernel_catalogue())
        for (const vulkan::KernelTraits* kernel : all.kernels) {
            CAPTURE(all.op, kernel->name);
            CHECK_FALSE(kernel->edges.empty());
            if ((kernel->needs & vulkan::kLackingRequirements) != 0) continue;
            // How much is run of what: a kernel whose edges are all alike has none.
            std::set<std::pair<std::array<std::uint32_t, 3>, std::vector<vulkan::Dispatch::Constant>>> shown;
            for (const vulkan::Edge& edge : kernel->edges) {
                CAPTURE(cases::to_text({edge.begin(), edge.end()}));
                const auto plan = shown_by(all.op, *kernel, edge);
                CHECK(plan);
                if (plan) shown.emplace(plan->dispatches.back().groups, plan->dispatches.back().constants);
            }
            CHECK(shown.size() > 1);
        }
}

}  // namespace
}  // namespace vkformer::tests
