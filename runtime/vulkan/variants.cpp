// SPDX-License-Identifier: MIT
#include "vulkan/variants.hpp"

#include <algorithm>
#include <ranges>

#include "core/try.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::vulkan {

VariantNames variants(const graph::Op& op, const KernelContext& context) {
    return std::visit([&](const auto& o) { return variants(o, context); }, op);
}

const std::map<std::string_view, VariantNames>& variant_catalogue() {
    static const VariantNames rows = {"plain", "quads", "subgroup", "direct"};
    static const std::map<std::string_view, VariantNames> catalogue = {
        {graph::Linear::kName,
         {"plain",    "quads",          "quads_large",    "row",     "row_quads",     "direct",
          "depth",    "broadcast",      "vectors",        "coopmat", "coopmat_small", "coopmat_large",
          "coopmat2", "coopmat2_small", "coopmat2_large", "halves",  "int8",          "row_int8",
          "split",    "coopmat_split"}},
        {graph::LayerNorm::kName, rows},
        {graph::RmsNorm::kName, rows},
        {graph::MaskedSoftmax::kName, rows},
        {graph::LogSoftmax::kName, rows},
        {graph::Rope::kName, {"plain", "direct"}},
        {graph::GatedActivation::kName, {"plain", "quads", "vectors"}},
        {graph::Attention::kName, {"plain", "quads", "direct", "broadcast", "vectors", "coopmat", "coopmat2"}},
        {graph::DecodeAttention::kName, {"plain", "quads", "direct", "broadcast", "vectors", "subgroup"}},
    };
    return catalogue;
}

namespace {

std::string joined(const auto& names) {
    std::string text;
    for (const auto& name : names) text += (text.empty() ? "" : ", ") + std::string(name);
    return text;
}

}  // namespace

Result<std::shared_ptr<NamedVariants>> NamedVariants::create(std::map<std::string, std::string> by_op,
                                                             std::shared_ptr<VariantChooser> otherwise) {
    for (const auto& [op, name] : by_op) {
        const auto& catalogue = variant_catalogue();
        const auto found = catalogue.find(op);
        if (found == catalogue.end())
            return Error{ErrorCode::InvalidArgument, "\"" + op + "\" is no op with several variants; those are: " +
                                                         joined(std::views::keys(catalogue))};
        if (std::ranges::find(found->second, name) == found->second.end())
            return Error{ErrorCode::InvalidArgument,
                         op + " has no variant \"" + name + "\"; it has: " + joined(found->second)};
    }
    return std::shared_ptr<NamedVariants>(new NamedVariants(std::move(by_op), std::move(otherwise)));
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
