// SPDX-License-Identifier: MIT
#include "core/platform/process.hpp"

#include <array>

#include "core/platform/windows.hpp"

#include <psapi.h>
#include <shellapi.h>

namespace vkformer::platform {
namespace {

constexpr double kSeconds = 1e-7;  // of a unit of FILETIME

std::uint64_t units_of(const FILETIME& time) {
    return std::uint64_t{time.dwHighDateTime} << 32 | std::uint64_t{time.dwLowDateTime};
}

std::uint64_t start_of(HANDLE process) {
    FILETIME start{}, end{}, kernel{}, user{};
    return ::GetProcessTimes(process, &start, &end, &kernel, &user) ? units_of(start) : 0;
}

HANDLE opened(int process) {
    return ::OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, static_cast<DWORD>(process));
}

PROCESS_MEMORY_COUNTERS memory() {
    PROCESS_MEMORY_COUNTERS counters{.cb = sizeof(PROCESS_MEMORY_COUNTERS)};
    ::GetProcessMemoryInfo(::GetCurrentProcess(), &counters, sizeof counters);
    return counters;
}

}  // namespace

int process_id() noexcept { return static_cast<int>(::GetCurrentProcessId()); }

bool process_exists(int process) {
    const HANDLE handle = opened(process);
    if (!handle) return ::GetLastError() == ERROR_ACCESS_DENIED;
    DWORD code = 0;
    const bool runs = ::GetExitCodeProcess(handle, &code) && code == STILL_ACTIVE;
    ::CloseHandle(handle);
    return runs;
}

std::uint64_t process_start(int process) {
    const HANDLE handle = opened(process);
    if (!handle) return 0;
    const std::uint64_t start = start_of(handle);
    ::CloseHandle(handle);
    return start;
}

std::filesystem::path program_path() {
    std::wstring name(MAX_PATH, L'\0');
    for (;;) {
        const DWORD length = ::GetModuleFileNameW(nullptr, name.data(), static_cast<DWORD>(name.size()));
        if (length < name.size()) {
            name.resize(length);
            return name;
        }
        name.resize(2 * name.size());
    }
}

std::vector<std::string> command_line() {
    int count = 0;
    wchar_t** const words = ::CommandLineToArgvW(::GetCommandLineW(), &count);
    std::vector<std::string> result;
    for (int i = 0; words && i < count; ++i) {
        const std::wstring_view word = words[i];
        const int wide = static_cast<int>(word.size());
        const int size = ::WideCharToMultiByte(CP_UTF8, 0, word.data(), wide, nullptr, 0, nullptr, nullptr);
        std::string& text = result.emplace_back(static_cast<std::size_t>(size), '\0');
        ::WideCharToMultiByte(CP_UTF8, 0, word.data(), wide, text.data(), size, nullptr, nullptr);
    }
    ::LocalFree(words);
    return result;
}

std::uint64_t resident_bytes() { return memory().WorkingSetSize; }

std::uint64_t peak_resident_bytes() { return memory().PeakWorkingSetSize; }

double process_seconds() {
    const std::uint64_t start = start_of(::GetCurrentProcess());
    FILETIME now{};
    ::GetSystemTimePreciseAsFileTime(&now);
    return start == 0 ? 0 : static_cast<double>(units_of(now) - start) * kSeconds;
}

double thread_cpu_seconds() {
    FILETIME start{}, end{}, kernel{}, user{};
    ::GetThreadTimes(::GetCurrentThread(), &start, &end, &kernel, &user);
    return static_cast<double>(units_of(kernel) + units_of(user)) * kSeconds;
}

}  // namespace vkformer::platform
