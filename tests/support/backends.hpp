// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/program.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::tests {

/// Every backend that the tests run on, each made once: the CPU in float and in double, and every Vulkan device that the
/// loader finds, with memory checks and, where it is installed, the validation layer.
/// VKFORMER_TEST_VALIDATION=0 leaves the layer out (it is slow).
const std::vector<graph::Backend*>& test_backends();

/// The Vulkan ones of them.
const std::vector<vulkan::VulkanBackend*>& vulkan_backends();

/// Those of vulkan_backends() that a test has asked for so far; opens none.
std::vector<vulkan::VulkanBackend*> opened_vulkan_backends();

/// Before the program exits: a layer's own statics may be destroyed before this program's are. No backend may be used any more.
void close_vulkan_devices();

/// Whether tests that open devices of their own turn validation on: the layer is installed and VKFORMER_TEST_VALIDATION is
/// not 0.
bool validation_available();

/// Whether the backend computes in double precision.
bool is_double(const graph::Backend& backend);

/// The stride at which a device goes through many equal cases: 1 for the last device, and for every one with VKFORMER_TEST_THOROUGH=1.
/// Debian's SwiftShader compiles each pipeline anew, a tenth of a second at a time.
std::size_t case_stride(const std::string& device_index, std::size_t otherwise);

/// Whether a backend takes the case of that index in the running test. Vulkan devices that are CPUs share cases out among each other, for
/// their compilers take up to a minute for a pipeline: each case is one device's, three of four that of a driver that compiles without
/// LLVM, chosen by a hash. Any other backend has every case, and every backend with VKFORMER_TEST_THOROUGH=1.
bool has_turn(const graph::Backend& backend, std::size_t index);

/// Whether a backend takes the case that the running test has come to; a test asks once for every case. Of what a software driver takes
/// long for and no driver computes otherwise, Vulkan devices that are CPUs take one case in `of` each on average, shared out as above and
/// never the same one (2 of them take all of what is shared by 2); any other backend, and every backend with VKFORMER_TEST_THOROUGH=1, all.
bool takes_case(const graph::Backend& backend, std::size_t of);

/// The same for a device named as in device_names().
bool takes_case(const std::string& device, std::size_t of);

/// Whether a backend takes a case with a kernel, `key` saying which: Vulkan devices that are CPUs take a part each, fewer where the driver
/// compiles with LLVM (a second for a pipeline); the only one, any other backend, and every backend with VKFORMER_TEST_THOROUGH=1 takes all.
bool has_share(const graph::Backend& backend, std::string_view key);

/// Every device name that `VulkanBackend::create` takes for the devices of vulkan_backends(): their indices.
const std::vector<std::string>& vulkan_device_indices();

/// "cpu" and vulkan_device_indices().
std::vector<std::string> device_names();

}  // namespace vkformer::tests
