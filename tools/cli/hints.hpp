// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "vkformer/result.hpp"

namespace vkformer::cli {

/// The error's message and, by its hint, the options or the command that help: the library's messages name none.
std::string told(const Error& error);

}  // namespace vkformer::cli
