// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace vkformer {

/// The path that `text` spells in UTF-8, as options, files and C programs give paths. A path that is made of a std::string itself would be
/// read in Windows' code page there.
inline std::filesystem::path utf8_path(std::string_view text) { return std::u8string(text.begin(), text.end()); }

}  // namespace vkformer
