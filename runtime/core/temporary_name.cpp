// SPDX-License-Identifier: MIT
#include "core/temporary_name.hpp"

#include <atomic>
#include <string>

#include "core/platform/process.hpp"

namespace vkformer {

std::filesystem::path temporary_name(const std::filesystem::path& path) {
    static std::atomic<unsigned> counter = 0;
    std::filesystem::path name = path;
    name += "." + std::to_string(platform::process_id()) + "-" + std::to_string(counter++) + ".tmp";
    return name;
}

}  // namespace vkformer
