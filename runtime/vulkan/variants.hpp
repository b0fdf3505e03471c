// SPDX-License-Identifier: MIT
/// Which variant of its op runs each node of a plan.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/plan.hpp"
#include "vkformer/result.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

class VulkanBackend;

/// The variants that can run a node; the first is what runs where nothing was measured.
VariantNames variants(const graph::Op& op, const KernelContext& context);

/// Every variant that an op has on some device, by op; ops that have but one are not listed.
const std::map<std::string_view, VariantNames>& variant_catalogue();

/// Names for the nodes of a plan, in their order; an empty one stands for the first of variants().
using ChosenVariants = std::vector<std::string>;

/// Asked for every plan before it is recorded.
class VariantChooser {
public:
    virtual ~VariantChooser() = default;
    /// Errors: those of the device, where it measures.
    virtual Result<ChosenVariants> choose(VulkanBackend& backend, const graph::Plan& plan) = 0;
};

/// Variants by name, without any measurement: what --variant asks for. Nodes that the named variant cannot run (it takes few
/// rows only, say) are left to `otherwise`.
class NamedVariants final : public VariantChooser {
public:
    /// `by_op`: op name → variant name. `otherwise` may be null: the first of variants(). Errors: InvalidArgument (an op or a
    /// variant that is not in the catalogue), with those that are.
    static Result<std::shared_ptr<NamedVariants>> create(std::map<std::string, std::string> by_op,
                                                         std::shared_ptr<VariantChooser> otherwise);
    Result<ChosenVariants> choose(VulkanBackend& backend, const graph::Plan& plan) override;

private:
    NamedVariants(std::map<std::string, std::string> by_op, std::shared_ptr<VariantChooser> otherwise)
        : by_op_(std::move(by_op)), otherwise_(std::move(otherwise)) {}

    std::map<std::string, std::string> by_op_;
    std::shared_ptr<VariantChooser> otherwise_;
};

/// Every op's plain variant.
class PlainVariants final : public VariantChooser {
public:
    Result<ChosenVariants> choose(VulkanBackend& backend, const graph::Plan& plan) override;
};

}  // namespace vkformer::vulkan
