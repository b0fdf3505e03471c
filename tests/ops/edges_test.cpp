// SPDX-License-Identifier: MIT
// Every kernel at its edges, the sizes that its record names, in all forms of its op and all types that these have: a test for each op of
// the graph, made from the records. A new kernel, or a new tile of an old one, is tested without a line here.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "cases/case.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/variants.hpp"
#include "vulkan/vendors.hpp"

namespace vkformer::tests {
namespace {

using cases::Family;

/// The edges of all kernels of an op, each once.
std::vector<Family::Dims> edges_of(std::string_view op) {
    std::vector<Family::Dims> edges;
    for (const vulkan::OpKernels& all : vulkan::kernel_catalogue())
        for (const vulkan::KernelTraits* kernel : all.kernels)
            for (const vulkan::Edge& edge : kernel->edges)
                if (all.op == op) edges.emplace_back(edge.begin(), edge.end());
    std::ranges::sort(edges);
    edges.erase(std::ranges::unique(edges).begin(), edges.end());
    return edges;
}

/// The op's first form is run at every edge in both float types, other forms and types take turns. Of all that Vulkan devices that are CPUs
/// take a quarter each on average: they compile and run GPUs' tiles for longer than all else here takes.
struct Turns {
    std::size_t form, edge;

    bool has(std::size_t type, const std::vector<cases::Types>& types) const {
        const auto is_float = [](const cases::Types& t) { return !is_weight_only(t.stored) && t.x == t.stored; };
        const auto floats = static_cast<std::size_t>(std::ranges::count_if(types, is_float));
        if (form > 0) return (edge + form) % types.size() == type;
        if (is_float(types[type])) return true;
        std::size_t place = 0;
        for (std::size_t i = 0; i < type; ++i) place += is_float(types[i]) ? 0 : 1;
        return edge % (types.size() - floats) == place;
    }
};

/// Heads for which compilers take up to a minute, where a kernel for devices that are CPUs unrolls them (attention_case.hpp).
bool has_long_heads(const graph::Graph& graph) {
    return std::ranges::any_of(graph.nodes(), [&](const graph::Node& node) {
        return std::visit(
            [&](const auto& op) {
                if constexpr (requires { op.query, op.value, op.mask; })
                    return std::max(graph.shape(op.query).back(), graph.shape(op.value).back()) > 64;
                else
                    return false;
            },
            node.op);
    });
}

/// Whether there are so many results that their norm is that of their terms. A few sums of random signs may all cancel, and what rounds
/// the terms of a product with a weight in blocks is then not small beside them.
bool are_many(const OpCase& c) {
    std::uint64_t count = 0;
    for (const graph::Tensor& tensor : c.graph.tensors()) count += tensor.is_output ? tensor.shape.element_count() : 0;
    return count >= 30;
}

void check_edges(std::string_view op) {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::vector<Family::Dims> edges = edges_of(op);
    REQUIRE_FALSE(edges.empty());
    std::size_t count = 0;
    for (std::size_t edge = 0; edge < edges.size(); ++edge) {
        const auto families = cases::families_of(op, edges[edge].size());
        for (std::size_t form = 0; form < families.size(); ++form) {
            const Turns turns{form, edge};
            for (std::size_t type = 0; type < families[form]->types.size(); ++type) {
                const cases::Types& types = families[form]->types[type];
                if (!turns.has(type, families[form]->types)) continue;
                ++count;
                if (!takes_case(backend, 4)) continue;
                const cases::Case which = must(families[form]->make(edges[edge], types));
                CAPTURE(backend.name(), which.name());
                OpCase c;
                c.take(which);
                if (is_weight_only(types.stored) && !are_many(c)) continue;
                c.leaves_out_cpu_devices = has_long_heads(c.graph) && !std::getenv("VKFORMER_TEST_THOROUGH");
                c.check(backend);
            }
        }
    }
    CHECK(count >= edges.size());
}

/// Registers a test for each op, as TEST_CASE would.
template <class Op>
void check_edges_of() {
    check_edges(Op::kName);
}

template <class... Ops>
std::vector<std::string> register_tests(const std::variant<Ops...>*) {
    std::vector<std::string> texts;
    texts.reserve(2 * sizeof...(Ops));  // what Catch keeps views of
    const auto add = [&](std::string_view op, void (*test)()) {
        const std::string& name =
            texts.emplace_back(std::string(op) + " agrees with double precision at its kernels' edges");
        const std::string& tags = texts.emplace_back("[op][edges][" + std::string(op) + "]");
        const Catch::AutoReg registered(Catch::makeTestInvoker(test), CATCH_INTERNAL_LINEINFO, Catch::StringRef(),
                                        Catch::NameAndTags(name, tags));
    };
    (add(Ops::kName, check_edges_of<Ops>), ...);
    return texts;
}

const std::vector<std::string> kTests = register_tests(static_cast<const graph::Op*>(nullptr));

// Mali and Raspberry Pi have tiles, columns and rows of their own (vulkan/vendors.hpp), which no device here chooses.
TEST_CASE("kernels are right as GPUs with few registers run them", "[op][edges][few_registers][vulkan]") {
    const std::uint32_t vendor = GENERATE(vulkan::vendors::kArm, vulkan::vendors::kBroadcom);
    const std::string index = GENERATE(from_range(vulkan_device_indices()));
    Interposer interposer(must(vulkan::open_loader()));
    interposer.claim_type(VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU);
    interposer.claim_vendor(vendor);
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index))});
    const auto instance = must(vulkan::Instance::adopt(interposer.get(), host.instance, false));
    const auto backend = must(vulkan::VulkanBackend::on(
        must(vulkan::Device::create(instance, instance->describe(host.physical))), {.cache_folder = {}}));
    std::size_t turn = 0;
    for (const std::string_view op : {"linear", "expert_linear", "rms_norm", "decode_attention", "cache_reorder"})
        for (const Family::Dims& edge : edges_of(op)) {
            const auto families = cases::families_of(op, edge.size());
            const Family& family = *families[turn % families.size()];
            const cases::Types& types = family.types[turn++ % family.types.size()];
            if (types.x == DType::f16 && !backend->capabilities().storage16) continue;
            if (!takes_case(index, 4)) continue;
            const cases::Case which = must(family.make(edge, types));
            CAPTURE(backend->name(), vendor, which.name());
            OpCase c;
            c.take(which);
            if (!is_weight_only(types.stored) || are_many(c)) c.check(*backend);
        }
}

}  // namespace
}  // namespace vkformer::tests
