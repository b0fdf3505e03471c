// SPDX-License-Identifier: MIT
/// The commands below `vkformer bench`, as cli.hpp has those below `vkformer`.
#pragma once

#include "cli.hpp"
#include "vulkan/device.hpp"

namespace vkformer::cli {

void add_bench_model(CLI::App& bench, Action& action);
void add_bench_ops(CLI::App& bench, Action& action);
void add_bench_shader(CLI::App& bench, Action& action);
void add_bench_compare(CLI::App& bench, Action& action);
void add_bench_guest(CLI::App& bench, Action& action);

/// Statistics where the device that `choice` names has them, else nothing. Errors: those of vulkan::choose_device.
Result<vulkan::PipelineCapture> statistics_of(const std::string& choice);

}  // namespace vkformer::cli
