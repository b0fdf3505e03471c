// SPDX-License-Identifier: MIT
/// What a sliced session's programs are made of.
#pragma once

#include <memory>
#include <vector>

#include "guest/sliced_script.hpp"

namespace vkformer::guest {

/// A plan that becomes a program.
struct Part {
    graph::Plan plan;
    std::unique_ptr<vulkan::VulkanProgram> program;

    vulkan::Slice slice(graph::Value value) const {
        auto found = program->slice(value);
        return found ? *found : vulkan::Slice{};  // values are inputs and states of the plan, which always have one
    }
};

}  // namespace vkformer::guest
