// SPDX-License-Identifier: MIT
/// Pictures named on the command line.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "vkformer/image.hpp"

namespace vkformer::cli {

/// Errors: as of load_image, with the path.
Result<std::vector<Image>> load_images(std::span<const std::string> paths);

}  // namespace vkformer::cli
