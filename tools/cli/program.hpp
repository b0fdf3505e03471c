// SPDX-License-Identifier: MIT
#pragma once

#include "cli.hpp"

namespace vkformer::cli {

/// All commands with their options. Parsing sets `action` to what the chosen one does.
void describe_program(CLI::App& app, Action& action);

}  // namespace vkformer::cli
