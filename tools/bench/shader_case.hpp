// SPDX-License-Identifier: MIT
/// Checks and times one shader of somebody's own.
#pragma once

#include <memory>
#include <string>

#include "bench/report.hpp"
#include "bench/shader_manifest.hpp"
#include "bench/spirv.hpp"
#include "vulkan/device.hpp"

namespace vkformer::bench {

/// Whether the module fits its manifest: its bindings are those of the buffers, in set 0, and the constants are its own.
/// Errors: InvalidArgument, with what does not fit.
Result<void> check_fit(const SpirvModule& module, const ShaderManifest& manifest);

/// The shader's result is compared with the reference before it is timed, if there is one, and its guard bands always. `name`:
/// what reports call it. Errors: InvalidArgument (what check_fit and the reference say, buffers that the device cannot bind), out of
/// memory, DeviceLost, Vulkan.
Result<CaseReport> measure_shader(const std::shared_ptr<vulkan::Device>& device, const std::string& name,
                                  const SpirvModule& module, const ShaderManifest& manifest,
                                  const MeasureOptions& options);

}  // namespace vkformer::bench
