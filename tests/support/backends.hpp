// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "graph/program.hpp"

namespace vkformer::tests {

/// Every backend that the tests run on, each made once: the CPU in float and in double.
const std::vector<graph::Backend*>& test_backends();

}   // namespace vkformer::tests
