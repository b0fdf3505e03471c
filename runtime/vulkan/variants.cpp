// SPDX-License-Identifier: MIT
#include "vulkan/variants.hpp"

#include <algorithm>
#include <ranges>
#include <tuple>
#include <utility>

#include "core/try.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/kernels/cpu_devices/kernels.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

/// Calls each(kernel) for all kernels of an op, in their order.
template <class Op>
void for_each_kernel(const Op& op, auto&& each) {
    for (const Kernel<Op>& kernel : cpu_devices::kernels(op)) each(kernel);
    for (const Kernel<Op>& kernel : kernels(op)) each(kernel);
}

template <class Op>
bool fits(const Kernel<Op>& kernel, const Op& op, const KernelContext& context) {
    const KernelTraits& traits = kernel.traits;
    const bool is_cpu = context.device.is_cpu();
    if (traits.device == DeviceClass::cpu && !is_cpu) return false;
    if ((traits.needs & ~provided_by(context.device)) != 0) return false;
    if (traits.storage_buffers > std::max(context.device.max_storage_buffers, kFewStorageBuffers)) return false;
    if (is_cpu && traits.cpu_limit > 0 && cpu_devices::unrolled_elements(op, context) > traits.cpu_limit) return false;
    return !kernel.fits || kernel.fits(op, context);
}

template <class Op>
OpKernels kernels_of_op() {
    OpKernels all{.op = Op::kName, .kernels = {}};
    for_each_kernel(Op{}, [&](const Kernel<Op>& kernel) { all.kernels.push_back(&kernel.traits); });
    return all;
}

template <std::size_t... kIndices>
std::vector<OpKernels> all_kernels(std::index_sequence<kIndices...>) {
    std::vector<OpKernels> all{kernels_of_op<std::variant_alternative_t<kIndices, graph::Op>>()...};
    std::ranges::sort(all, {}, &OpKernels::op);
    return all;
}

/// That the device allows its shaders as many storage buffers as they bind.
Result<void> check_buffers(std::string_view op, const DispatchPlan& plan, const Capabilities& device) {
    const auto count = [](const Dispatch& dispatch) { return dispatch.bindings.size(); };
    const std::size_t most = std::ranges::max(plan.dispatches | std::views::transform(count));
    if (most <= device.max_storage_buffers) return {};
    return Error{.code = ErrorCode::MissingFeature,
                 .message = std::string(op) + " binds " + std::to_string(most) +
                            " storage buffers in one shader; device \"" + device.name + "\" allows " +
                            std::to_string(device.max_storage_buffers) + "; choose another one",
                 .hint = Hint::other_device};
}

/// The plan of the kernel that has these traits.
template <class Op>
Result<DispatchPlan> plan_of(const Op& op, const KernelContext& context, const KernelTraits* traits) {
    const Kernel<Op>* chosen = nullptr;
    for_each_kernel(op, [&](const Kernel<Op>& kernel) {
        if (&kernel.traits == traits) chosen = &kernel;
    });
    return chosen->plan(op, context);
}

}  // namespace

KernelList fitting_kernels(const graph::Op& op, const KernelContext& context) {
    KernelList list;
    graph::visit_op(
        [&]<class Op>(const Op& o) {
            for_each_kernel(o, [&](const Kernel<Op>& kernel) {
                if (fits(kernel, o, context)) list.push_back(&kernel.traits);
            });
        },
        op);
    return list;
}

bool takes_fused(const graph::Op& op, const KernelContext& context) {
    const std::uint32_t extras = graph::extras_of(context.graph, op);
    const auto takes = [&](const KernelTraits* kernel) {
        return std::ranges::any_of(kernel->takes, [&](std::uint32_t set) { return (extras & ~set) == 0; });
    };
    return extras == 0 || std::ranges::any_of(fitting_kernels(op, context), takes);
}

const KernelTraits* find_kernel(const KernelList& kernels, std::string_view name) {
    const auto found = std::ranges::find(kernels, name, &KernelTraits::name);
    return found == kernels.end() ? nullptr : *found;
}

std::string names_of(const KernelList& kernels) {
    std::string text;
    for (const KernelTraits* kernel : kernels) text += (text.empty() ? "" : ", ") + std::string(kernel->name);
    return text;
}

Error no_such_kernel(const graph::Op& op, std::string_view name, const KernelList& fitting) {
    return {ErrorCode::InvalidArgument, std::string(graph::op_name(op)) + " has no variant \"" + std::string(name) +
                                            "\" for these shapes on this device; it has: " + names_of(fitting)};
}

Result<DispatchPlan> plan_dispatches(const graph::Op& op, const KernelContext& context, const KernelTraits& kernel) {
    VKFORMER_TRY(DispatchPlan plan, graph::visit_op([&](const auto& o) { return plan_of(o, context, &kernel); }, op));
    VKFORMER_CHECK(check_buffers(graph::op_name(op), plan, context.device));
    return plan;
}

Result<DispatchPlan> plan_dispatches(const graph::Op& op, const KernelContext& context, std::string_view name) {
    const KernelList kernels = fitting_kernels(op, context);
    const KernelTraits* const chosen = name.empty() ? kernels.front() : find_kernel(kernels, name);
    if (!chosen) return no_such_kernel(op, name, kernels);
    return plan_dispatches(op, context, *chosen);
}

const std::vector<OpKernels>& kernel_catalogue() {
    static const std::vector<OpKernels> catalogue =
        all_kernels(std::make_index_sequence<std::variant_size_v<graph::Op>>{});
    return catalogue;
}

const KernelTraits* find_kernel(std::string_view op, std::string_view name) {
    const auto& catalogue = kernel_catalogue();
    const auto found = std::ranges::find(catalogue, op, &OpKernels::op);
    return found == catalogue.end() ? nullptr : find_kernel(found->kernels, name);
}

Result<std::shared_ptr<NamedVariants>> NamedVariants::create(std::map<std::string, std::string> by_op,
                                                             std::shared_ptr<VariantChooser> otherwise) {
    const auto& catalogue = kernel_catalogue();
    for (const auto& [op, name] : by_op) {
        const auto found = std::ranges::find(catalogue, op, &OpKernels::op);
        if (found == catalogue.end() || found->kernels.size() < 2) {
            std::string known;
            for (const OpKernels& all : catalogue)
                if (all.kernels.size() > 1) known += (known.empty() ? "" : ", ") + std::string(all.op);
            return Error{ErrorCode::InvalidArgument,
                         "\"" + op + "\" is no op with several variants; those are: " + known};
        }
        if (!find_kernel(found->kernels, name))
            return Error{ErrorCode::InvalidArgument,
                         op + " has no variant \"" + name + "\"; it has: " + names_of(found->kernels)};
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
        if (find_kernel(fitting_kernels(op, context), named->second)) chosen[i] = named->second;
    }
    return chosen;
}

Result<ChosenVariants> ReferenceVariants::choose(VulkanBackend&, const graph::Plan& plan) {
    ChosenVariants chosen;
    for (const graph::Node& node : plan.graph.nodes()) {
        const auto& catalogue = kernel_catalogue();
        const auto all = std::ranges::find(catalogue, graph::op_name(node.op), &OpKernels::op);
        chosen.emplace_back((*std::ranges::find(all->kernels, true, &KernelTraits::is_reference))->name);
    }
    return chosen;
}

}  // namespace vkformer::vulkan
