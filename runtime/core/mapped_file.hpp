// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "vkformer/result.hpp"

namespace vkformer {

/// A whole file mapped read-only into memory; unmapped when the last owner goes.
/// A file that another process shortens while it is mapped is undefined behaviour, as with every mapping.
class MappedFile {
public:
    /// Errors: FileNotFound (missing, unreadable or a directory).
    static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);

    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    std::span<const std::byte> bytes() const noexcept { return bytes_; }

private:
    explicit MappedFile(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
    std::span<const std::byte> bytes_;
};

}  // namespace vkformer
