// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace vkformer::serve {

/// RFC 4648, section 4, with padding.
std::string base64(std::string_view bytes);

}  // namespace vkformer::serve
