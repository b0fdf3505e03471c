// SPDX-License-Identifier: MIT
#pragma once

#include "bench/limits.hpp"

namespace vkformer::cli {

/// Names each limit on stderr before it is measured, unless `quiet`.
bench::LimitOptions limit_options(bool quiet);

}  // namespace vkformer::cli
