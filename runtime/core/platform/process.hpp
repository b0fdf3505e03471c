// SPDX-License-Identifier: MIT
/// Processes: this one, and whether another one still runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace vkformer::platform {

/// Safe in the handler of a signal.
int process_id() noexcept;
/// Whether a process of this number runs, of whatever owner.
bool process_exists(int process);
/// When a process began, in units of the system. 0: nothing says so.
std::uint64_t process_start(int process);

/// The file of this program; empty: nothing says so.
std::filesystem::path program_path();
/// What this process was called with, the program's name first; none: nothing says so.
std::vector<std::string> command_line();

/// Memory of this process that is in RAM, now and at most since it began. 0: nothing says so.
std::uint64_t resident_bytes();
std::uint64_t peak_resident_bytes();

/// Since the system started this process, the loading of libraries included. 0: nothing says so.
double process_seconds();
/// CPU time of the calling thread.
double thread_cpu_seconds();

}  // namespace vkformer::platform
