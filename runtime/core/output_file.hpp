// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>

#include "vkformer/result.hpp"

namespace vkformer {

/// A file that is being written. Where nothing or a regular file has its name, it appears there only when `commit` succeeds: a reader never
/// sees half of it, and what was there before stays until then and gives its permissions. A symbolic link stays: what it leads to is
/// written. What is no regular file (a FIFO, a device, /dev/stdout) gets the bytes as they come. On Windows a file that somebody has
/// mapped is not replaced: commit fails, and it stays. Every error has the system's reason.
class OutputFile {
public:
    /// Waits for a reader where the name is that of a FIFO. Errors: FileNotFound.
    static Result<OutputFile> create(const std::filesystem::path& path);

    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&&) = delete;
    ~OutputFile();

    /// Errors: FileNotFound.
    Result<void> write(std::span<const std::byte> bytes);
    Result<void> commit();

private:
    OutputFile(int file, std::filesystem::path path) : file_(file), path_(std::move(path)) {}
    void remove_temporary() noexcept;

    int file_;
    std::filesystem::path path_;                // as it was asked for: of messages
    std::filesystem::path target_, temporary_;  // empty: the bytes go to their place as they come
    int slot_ = -1;                             // of `temporary_` among those that a signal removes
};

/// A whole file at once. Errors: FileNotFound.
Result<void> write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// The same of a cache, whose folder is made where it is not there. Errors: FileNotFound, also where the name is that of what is no regular
/// file: a FIFO would wait for a reader.
Result<void> write_cache_file(const std::filesystem::path& path,
                              std::initializer_list<std::span<const std::byte>> parts);

/// Removes what this process's unfinished files have on the disk, for the handler of a signal that ends the program: safe in one.
void remove_unfinished_files() noexcept;

}  // namespace vkformer
