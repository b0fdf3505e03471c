// SPDX-License-Identifier: MIT
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "core/platform/process.hpp"

namespace vkformer::platform {
namespace {

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);  // absent outside Linux: then nothing is said
    return {std::istreambuf_iterator<char>(file), {}};
}

double seconds_of(const timespec& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

int process_id() noexcept { return static_cast<int>(::getpid()); }

bool process_exists(int process) { return process > 0 && (::kill(process, 0) == 0 || errno == EPERM); }

std::uint64_t process_start(int process) {
    const std::string text = text_of("/proc/" + std::to_string(process) + "/stat");
    // Field 22, in ticks since the system began. The second is a name in parentheses, which may contain anything.
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) return 0;
    std::istringstream fields(text.substr(name_end + 1));
    std::string field;
    for (int i = 3; i < 22; ++i) fields >> field;
    std::uint64_t ticks = 0;
    fields >> ticks;
    return fields ? ticks : 0;
}

std::filesystem::path program_path() {
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

std::vector<std::string> command_line() {
    std::istringstream text(text_of("/proc/self/cmdline"));
    std::vector<std::string> words;
    for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
    return words;
}

std::uint64_t resident_bytes() {
    std::istringstream pages(text_of("/proc/self/statm"));
    std::uint64_t all = 0, resident = 0;
    pages >> all >> resident;
    return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t peak_resident_bytes() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

double process_seconds() {
#ifdef CLOCK_BOOTTIME  // Linux's, as is the start of a process in /proc
    const std::uint64_t start = process_start(process_id());
    timespec now{};
    if (start == 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
    return seconds_of(now) - static_cast<double>(start) / static_cast<double>(::sysconf(_SC_CLK_TCK));
#else
    return 0;
#endif
}

double thread_cpu_seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return seconds_of(now);
}

}  // namespace vkformer::platform
