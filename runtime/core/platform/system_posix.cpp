// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>

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

/// The number that a file consists of; of "max", and where there is no such file, none.
std::optional<std::uint64_t> number_in(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::uint64_t number = 0;
    return file >> number ? std::optional(number) : std::nullopt;
}

/// Of the whole machine, as Linux estimates it; 0: nothing says so.
std::uint64_t available_memory() {
    std::ifstream file("/proc/meminfo");
    std::uint64_t kibibytes = 0;
    for (std::string name; file >> name >> kibibytes; file.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
        if (name == "MemAvailable:") return kibibytes << 10;
    return 0;
}

/// What is left of a control group's limit (cgroups, version 2, or 1 where a container sees its own).
std::uint64_t left_of(const std::filesystem::path& most, const std::filesystem::path& taken) {
    const auto limit = number_in(most), used = number_in(taken);
    if (!limit || !used) return std::numeric_limits<std::uint64_t>::max();
    return *limit - std::min(*limit, *used);
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

std::uint64_t room_on_large_pages() {
#if defined(MADV_HUGEPAGE)
    std::ifstream pages("/sys/kernel/mm/transparent_hugepage/enabled");  // "always [madvise] never"
    std::string choices;
    if (!std::getline(pages, choices) || choices.find("[never]") != std::string::npos) return 0;
    std::uint64_t room = available_memory();
    std::ifstream groups("/proc/self/cgroup");  // "0::/user.slice"
    std::string own;
    while (std::getline(groups, own) && !own.starts_with("0::")) {
    }
    const std::filesystem::path root = "/sys/fs/cgroup";
    for (const auto& folder :
         {root, std::filesystem::path(root.string() + (own.starts_with("0::") ? own.substr(3) : ""))})
        room = std::min(room, left_of(folder / "memory.max", folder / "memory.current"));
    return std::min(room, left_of(root / "memory/memory.limit_in_bytes", root / "memory/memory.usage_in_bytes"));
#else
    return 0;
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
