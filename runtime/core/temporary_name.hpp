// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

namespace vkformer {

/// A name beside `path` for a file that is renamed to `path` when it is whole: 64 random bits, so that no other call gives it, in this
/// process or in any that has the same folder (in containers they all have the same number). Thread-safe.
std::filesystem::path temporary_name(const std::filesystem::path& path);

}  // namespace vkformer
