// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::bench {

/// A compute shader in GLSL to SPIR-V for Vulkan 1.2, by shaderc. `defines`: "NAME" or "NAME=VALUE". #include "file" is looked for
/// beside the file that says it. Errors: FileNotFound, InvalidArgument (what the compiler says), MissingFeature (built without shaderc).
Result<std::vector<std::byte>> compile_glsl(const std::filesystem::path& file, const std::vector<std::string>& defines);

}  // namespace vkformer::bench
