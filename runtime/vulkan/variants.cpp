// SPDX-License-Identifier: MIT
#include "vulkan/variants.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::vulkan {

VariantNames variants(const graph::Op& op, const KernelContext& context) {
    return std::visit([&](const auto& o) { return variants(o, context); }, op);
}

Result<ChosenVariants> NamedVariants::choose(VulkanBackend& backend, const graph::Plan& plan) {
    ChosenVariants chosen(plan.graph.nodes().size());
    if (otherwise_) {
        VKFORMER_TRY(chosen, otherwise_->choose(backend, plan));
    }
    const KernelContext context{plan.graph, backend.capabilities()};
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        const graph::Op& op = plan.graph.nodes()[i].op;
        const auto named = by_op_.find(std::string(graph::op_name(op)));
        if (named == by_op_.end()) continue;
        const VariantNames names = variants(op, context);
        if (std::ranges::find(names, named->second) != names.end()) chosen[i] = named->second;
    }
    return chosen;
}

Result<ChosenVariants> PlainVariants::choose(VulkanBackend&, const graph::Plan& plan) {
    return ChosenVariants(plan.graph.nodes().size(), "plain");
}

}  // namespace vkformer::vulkan
