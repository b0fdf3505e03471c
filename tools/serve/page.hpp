// SPDX-License-Identifier: MIT
/// The files of the page, which the build puts into the program (tools/serve/page).
#pragma once

#include <span>
#include <string_view>

namespace vkformer::serve {

struct PageFile {
    std::string_view path;  ///< "/page.js"
    std::string_view content_type;
    std::string_view text;
};

std::span<const PageFile> page_files();

}  // namespace vkformer::serve
