// SPDX-License-Identifier: MIT
#include "device.hpp"

#include <cstdio>

#include "api/open_backend.hpp"
#include "core/try.hpp"

namespace vkformer::cli {

Result<std::unique_ptr<graph::Backend>> open_backend(const DeviceOptions& options) {
    VKFORMER_TRY(auto opened, api::open_backend(options.device));
    if (!options.quiet) std::fprintf(stderr, "vkformer: device: %s\n", opened.description.c_str());
    return std::move(opened.backend);
}

}  // namespace vkformer::cli
