// SPDX-License-Identifier: MIT
#include "vulkan/kernels/rows.hpp"

#include <algorithm>

#include "vulkan/vendors.hpp"

namespace vkformer::vulkan {

RowForm row_form(std::uint64_t width) noexcept { return {.workgroup = width <= kShortRow ? 32u : kLongRowWorkgroup}; }

RowForm row_vec4_form(std::uint64_t width) noexcept {
    // So many that most invocations have a vector and few have more than eight: a short row in 128 would leave most of them idle.
    const std::uint32_t workgroup = width <= kShortVec4Row ? 32 : kLongRowWorkgroup;
    return {
        .loads = RowForm::Loads::vec4, .workgroup = workgroup, .kept = kept_vectors(width, workgroup, kMostRowVectors)};
}

RowForm for_device(RowForm form, const Capabilities& device) noexcept {
    if (device.vendor_id == vendors::kBroadcom) form.kept = std::min(form.kept, vendors::kBroadcomArray);
    return form;
}

std::uint32_t kept_vectors(std::uint64_t width, std::uint32_t workgroup, std::uint64_t most) noexcept {
    return static_cast<std::uint32_t>(std::min(width / 4 / workgroup, most));
}

}  // namespace vkformer::vulkan
