// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/platform/system.hpp"

namespace vkformer::platform {
namespace {

/// The folder that `variable` names, or one in the home folder. A path that is not absolute is to be ignored, says the specification.
std::filesystem::path xdg_folder(const char* variable, const char* below_home) {
    if (const char* folder = std::getenv(variable); folder && *folder == '/')
        return std::filesystem::path(folder) / "vkformer";
    if (const char* home = std::getenv("HOME"); home && *home == '/')
        return std::filesystem::path(home) / below_home / "vkformer";
    return {};
}

}  // namespace

const char* const kVulkanLoaderAdvice =
    "the Vulkan loader (libvulkan.so.1) is not installed; install it (Debian: libvulkan1 and mesa-vulkan-drivers)";

void* open_vulkan_loader() {
    void* const found = ::dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    return found ? found : ::dlopen("libvulkan.so", RTLD_NOW | RTLD_LOCAL);
}

void* find_symbol(void* library, const char* name) { return ::dlsym(library, name); }

const char* const kFolderAdvice = "neither XDG_CACHE_HOME (an absolute path) nor HOME is set";

std::filesystem::path cache_folder() { return xdg_folder("XDG_CACHE_HOME", ".cache"); }

std::filesystem::path state_folder() { return xdg_folder("XDG_STATE_HOME", ".local/state"); }

std::tm local_time(std::time_t time) {
    std::tm parts{};
    ::localtime_r(&time, &parts);
    return parts;
}

std::tm utc_time(std::time_t time) {
    std::tm parts{};
    ::gmtime_r(&time, &parts);
    return parts;
}

void prefer_large_pages([[maybe_unused]] void* bytes, [[maybe_unused]] std::size_t size) noexcept {
#if defined(MADV_HUGEPAGE)
    ::madvise(bytes, size, MADV_HUGEPAGE);  // a system without them says so, and goes on with small ones
#endif
}

std::uint64_t last_level_cache_bytes() {
#ifdef _SC_LEVEL3_CACHE_SIZE  // glibc's
    return static_cast<std::uint64_t>(std::max(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0L));
#else
    return 0;
#endif
}

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");  // absent outside Linux
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
    return "";
}

}  // namespace vkformer::platform
