// SPDX-License-Identifier: MIT
/// Libraries that are opened at run time, folders of a user, time, and what the host's memory and processor are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string>

namespace vkformer::platform {

/// The Vulkan loader, opened; null: there is none. It stays open until the process ends.
void* open_vulkan_loader();
/// What a person is told who has none: its file, and how to get it.
extern const char* const kVulkanLoaderAdvice;
/// Null: the library has no such function.
void* find_symbol(void* library, const char* name);

/// The folder of this user in which vkformer may keep what it can make again, or what it remembers. Empty: there is none.
/// Linux: by the XDG Base Directory Specification. Windows: in %LOCALAPPDATA%.
std::filesystem::path cache_folder();
std::filesystem::path state_folder();
/// Why there is none.
extern const char* const kFolderAdvice;

std::tm local_time(std::time_t time);
std::tm utc_time(std::time_t time);

/// Asks for large pages under memory that nothing has been written to. Nothing but time depends on whether there are any.
void prefer_large_pages(void* bytes, std::size_t size) noexcept;

/// Bytes that may be taken on large pages without others' giving way, of the machine or of the control group; 0: there are no large pages,
/// or nothing says how many bytes.
std::uint64_t room_on_large_pages();

/// The largest cache of the processor; 0: nothing says so.
std::uint64_t last_level_cache_bytes();
/// The processor's name; empty: nothing says so.
std::string processor_name();

}  // namespace vkformer::platform
