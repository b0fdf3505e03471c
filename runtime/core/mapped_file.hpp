// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer {

/// What `MappedFile::read` takes of a pipe or a device at most.
inline constexpr std::size_t kMostStreamedBytes = std::size_t{1} << 28;

/// A whole file, read-only: a regular one is mapped into memory, and unmapped when the last owner goes.
/// A file that another process shortens while it is mapped is undefined behaviour, as with every mapping.
class MappedFile {
public:
    /// Takes nothing but regular files: a FIFO in a downloaded folder would block for ever. Errors: FileNotFound (missing, unreadable,
    /// a folder, no regular file).
    static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
    /// For a name that a person gave: pipes and character devices are read to their end besides. Errors: FileNotFound; InvalidArgument
    /// (kMostStreamedBytes were not the end); OutOfHostMemory.
    static Result<std::shared_ptr<const MappedFile>> read(const std::filesystem::path& path);

    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    std::span<const std::byte> bytes() const noexcept { return is_mapped_ ? mapped_ : std::span(streamed_); }

private:
    explicit MappedFile(std::span<const std::byte> bytes) noexcept : is_mapped_(true), mapped_(bytes) {}
    explicit MappedFile(std::vector<std::byte> bytes) noexcept : is_mapped_(false), streamed_(std::move(bytes)) {}

    bool is_mapped_;
    std::span<const std::byte> mapped_;
    std::vector<std::byte> streamed_;
};

}  // namespace vkformer
