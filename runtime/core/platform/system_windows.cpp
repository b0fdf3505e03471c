// SPDX-License-Identifier: MIT
#include "core/platform/system.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "core/platform/windows.hpp"

#if defined(__GLIBCXX__) && defined(VKFORMER_BUILDING_SHARED)
// What the DLL's own libstdc++ does with an exception that nobody catches: its usual way brings 44 KB to print the type's
// name as it is written in C++. Who links the static library keeps what they have.
namespace __gnu_cxx {
void __verbose_terminate_handler() {  // NOLINT(bugprone-reserved-identifier)
    static bool is_second = false;    // what() has thrown
    if (!is_second && std::current_exception()) {
        is_second = true;
        try {
            throw;
        } catch (const std::exception& error) {
            std::fprintf(stderr, "terminate called after throwing an exception\n  what():  %s\n", error.what());
        } catch (...) {
            std::fputs("terminate called after throwing what is no std::exception\n", stderr);
        }
    } else {
        std::fputs("terminate called\n", stderr);
    }
    std::abort();
}
}  // namespace __gnu_cxx
#endif

namespace vkformer::platform {
namespace {

std::filesystem::path local_folder(const char* name) {
    const wchar_t* const folder = ::_wgetenv(L"LOCALAPPDATA");
    return folder && *folder ? std::filesystem::path(folder) / "vkformer" / name : std::filesystem::path();
}

}  // namespace

const char* const kVulkanLoaderAdvice =
    "the Vulkan loader (vulkan-1.dll) is not installed; install the driver of the GPU's maker, which brings it along";

void* open_vulkan_loader() {
    // From the system's folder alone: a file of this name beside a document is not to be run.
    return ::LoadLibraryExW(L"vulkan-1.dll", nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32);
}

void* find_symbol(void* library, const char* name) {
    return reinterpret_cast<void*>(::GetProcAddress(static_cast<HMODULE>(library), name));
}

const char* const kFolderAdvice = "LOCALAPPDATA is not set";

std::filesystem::path cache_folder() { return local_folder("cache"); }

std::filesystem::path state_folder() { return local_folder("state"); }

std::tm local_time(std::time_t time) {
    std::tm parts{};
    ::localtime_s(&parts, &time);
    return parts;
}

std::tm utc_time(std::time_t time) {
    std::tm parts{};
    ::gmtime_s(&parts, &time);
    return parts;
}

void prefer_large_pages(void*, std::size_t) noexcept {}  // they would need a right of the user, and be locked in memory

std::uint64_t room_on_large_pages() { return 0; }

std::uint64_t last_level_cache_bytes() {
    DWORD size = 0;
    ::GetLogicalProcessorInformation(nullptr, &size);
    std::vector<SYSTEM_LOGICAL_PROCESSOR_INFORMATION> parts(size / sizeof(SYSTEM_LOGICAL_PROCESSOR_INFORMATION));
    if (parts.empty() || !::GetLogicalProcessorInformation(parts.data(), &size)) return 0;
    std::uint64_t bytes = 0;
    for (const auto& part : parts)
        if (part.Relationship == RelationCache) bytes = std::max<std::uint64_t>(bytes, part.Cache.Size);
    return bytes;
}

std::string processor_name() {
    std::array<char, 256> name{};
    DWORD size = name.size() - 1;
    ::RegGetValueA(HKEY_LOCAL_MACHINE, "HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0", "ProcessorNameString",
                   RRF_RT_REG_SZ, nullptr, name.data(), &size);
    return name.data();
}

}  // namespace vkformer::platform
