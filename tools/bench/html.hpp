// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "bench/report.hpp"

namespace vkformer::bench {

/// The report as one page that needs nothing else: style and picture are in it, there is no script; it prints well.
std::string as_html(const Report& report);

}  // namespace vkformer::bench
