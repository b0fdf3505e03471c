// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

namespace vkformer {

/// A name beside `path` for a file that is renamed to `path` when it is whole. No other call gives it, in this process or in another
/// that runs; what a process left that was killed may have it. Thread-safe.
std::filesystem::path temporary_name(const std::filesystem::path& path);

}  // namespace vkformer
