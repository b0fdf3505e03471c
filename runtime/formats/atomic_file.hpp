// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "vkformer/result.hpp"

namespace vkformer::formats {

/// A file that appears under its name only when `commit` succeeds: a reader never sees half of it. Errors: FileNotFound.
class AtomicFile {
public:
    static Result<AtomicFile> create(const std::filesystem::path& path);

    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&&) = delete;
    ~AtomicFile();

    Result<void> write(std::span<const std::byte> bytes);
    Result<void> commit();

private:
    AtomicFile(int file, std::filesystem::path path, std::filesystem::path temporary)
        : file_(file), path_(std::move(path)), temporary_(std::move(temporary)) {}

    int file_;
    std::filesystem::path path_;
    std::filesystem::path temporary_;
};

}  // namespace vkformer::formats
