// SPDX-License-Identifier: MIT
#pragma once

#include "cli.hpp"

namespace vkformer::cli {

/// Adds `pipelines` to the commands of `bench`.
void add_bench_pipelines(CLI::App& bench, Action& action);

}  // namespace vkformer::cli
