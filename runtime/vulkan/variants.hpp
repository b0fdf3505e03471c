// SPDX-License-Identifier: MIT
/// Which kernel of its op runs each node of a plan. Users know a kernel by its name, as a variant of the op.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/plan.hpp"
#include "vkformer/result.hpp"
#include "vulkan/kernels/kernel.hpp"

namespace vkformer::vulkan {

class VulkanBackend;

/// What is known of kernels, which live as long as the library.
using KernelList = std::vector<const KernelTraits*>;

/// The kernels that can run a node; the first is what runs where nothing was measured. Never empty.
KernelList fitting_kernels(const graph::Op& op, const KernelContext& context);
/// Whether one of them takes all that the node does besides its op (KernelTraits::takes).
bool takes_fused(const graph::Op& op, const KernelContext& context);
/// The one of that name, or null.
const KernelTraits* find_kernel(const KernelList& kernels, std::string_view name);
/// Their names: "tile, row".
std::string names_of(const KernelList& kernels);

/// What is said where none of the fitting kernels has the name.
Error no_such_kernel(const graph::Op& op, std::string_view name, const KernelList& fitting);

/// The dispatches of one of fitting_kernels(). Errors: MissingFeature.
Result<DispatchPlan> plan_dispatches(const graph::Op& op, const KernelContext& context, const KernelTraits& kernel);
/// The same of the one that is called so; an empty name stands for the first. Errors: InvalidArgument (none has that name), with the names
/// that there are; MissingFeature.
Result<DispatchPlan> plan_dispatches(const graph::Op& op, const KernelContext& context, std::string_view name = {});

/// Every kernel that an op has on some device.
struct OpKernels {
    std::string_view op;
    KernelList kernels;
};
/// All ops, by name.
const std::vector<OpKernels>& kernel_catalogue();
/// Null where the op has no such kernel on any device.
const KernelTraits* find_kernel(std::string_view op, std::string_view name);

/// What the kernels of a device say of themselves.
class KernelFusions final : public graph::FusionRules {
public:
    /// The capabilities must outlive it.
    explicit KernelFusions(const Capabilities& device) : device_(device) {}
    bool takes(const graph::Graph& graph, const graph::Op& fused) const override {
        return takes_fused(fused, {.graph = graph, .device = device_});
    }

private:
    const Capabilities& device_;
};

/// Names for the nodes of a plan, in their order; an empty one stands for the first of fitting_kernels().
using ChosenVariants = std::vector<std::string>;

/// Asked for every plan before it is recorded.
class VariantChooser {
public:
    virtual ~VariantChooser() = default;
    /// For cast_to.
    virtual const void* type() const noexcept { return nullptr; }
    /// Errors: those of the device, where it measures.
    virtual Result<ChosenVariants> choose(VulkanBackend& backend, const graph::Plan& plan) = 0;
};

/// Kernels by name, without any measurement: what --variant asks for. Nodes that the named kernel cannot run (it takes few
/// rows only, say) are left to `otherwise`.
class NamedVariants final : public VariantChooser {
public:
    /// `by_op`: op name → kernel name. `otherwise` may be null: the first of fitting_kernels(). Errors: InvalidArgument (an op or a
    /// kernel that is not in the catalogue), with those that are.
    static Result<std::shared_ptr<NamedVariants>> create(std::map<std::string, std::string> by_op,
                                                         std::shared_ptr<VariantChooser> otherwise);
    Result<ChosenVariants> choose(VulkanBackend& backend, const graph::Plan& plan) override;

private:
    NamedVariants(std::map<std::string, std::string> by_op, std::shared_ptr<VariantChooser> otherwise)
        : by_op_(std::move(by_op)), otherwise_(std::move(otherwise)) {}

    std::map<std::string, std::string> by_op_;
    std::shared_ptr<VariantChooser> otherwise_;
};

/// Every op's reference kernel.
class ReferenceVariants final : public VariantChooser {
public:
    Result<ChosenVariants> choose(VulkanBackend& backend, const graph::Plan& plan) override;
};

}  // namespace vkformer::vulkan
