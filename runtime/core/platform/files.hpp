// SPDX-License-Identifier: MIT
/// What files need of the system. Descriptors are those of the C library; where a function fails, errno says why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace vkformer::platform {

enum class FileKind : std::uint8_t { regular, folder, fifo, socket, character_device, other };

struct FileStatus {
    FileKind kind = FileKind::other;
    std::uint64_t size = 0;  ///< bytes, of a regular file
};

/// Of what a name leads to, or a descriptor. Nothing: errno says why.
std::optional<FileStatus> status_of(const std::filesystem::path& path);
std::optional<FileStatus> status_of(int file);

/// Opened to be read, and closed at the start of another program. `waits`: for the writer of a FIFO. −1: errno says why.
int open_to_read(const std::filesystem::path& path, bool waits);
/// What is there, to be written. −1: errno says why.
int open_to_write(const std::filesystem::path& path);
/// A new file. `is_private`: for its owner alone, where the system's files have modes. −1: errno says why (EEXIST: it is there).
int create_file(const std::filesystem::path& path, bool is_private);
/// A file, made where it is not there, that no other descriptor of this function is open on; it ends with the process at the latest. Does
/// not wait. −1: errno says why (EAGAIN: there is another).
int lock_file(const std::filesystem::path& path);
/// Another descriptor of the same file. −1: errno says why.
int duplicate(int file);
/// At most `size` bytes; 0 at the end, −1 for a failure other than an interruption.
std::ptrdiff_t read_some(int file, void* bytes, std::size_t size);
std::ptrdiff_t write_some(int file, const void* bytes, std::size_t size);
/// Whether what was written has arrived, as far as the system says so.
bool close_file(int file);

/// The first `size` bytes (more than none) of a file, to be read. Null: errno says why.
const std::byte* map(int file, std::size_t size);
void unmap(const std::byte* bytes, std::size_t size) noexcept;

/// Whether this process may write the file that is there, or into the folder. False: errno says why.
bool may_write(const std::filesystem::path& path);
/// Owner and mode of the file at `from`, as far as the system has them and gives them.
void copy_permissions(const std::filesystem::path& from, int to);
/// `from` gets the name `to`, in place of a file that has it, so that a reader sees the one or the other. False: errno says why.
bool replace_file(const std::filesystem::path& from, const std::filesystem::path& to);
/// Safe in the handler of a signal. On Windows one of create_file() that is open goes with its last descriptor.
void remove_file(const std::filesystem::path::value_type* name) noexcept;

/// The descriptor of this process that `path` itself is a name of, as what /dev/stdout leads to is on Linux.
std::optional<int> own_descriptor(const std::filesystem::path& path);

}  // namespace vkformer::platform
