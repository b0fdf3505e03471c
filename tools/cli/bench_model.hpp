// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>

#include "cli.hpp"

namespace vkformer::cli {

struct BenchModelCommand {
    DeviceOptions device;
    ModelOption model;
    std::string weights = "model";
    CacheOption cache;
    std::uint32_t batch = 1, beams = 0, length = 0, steps = 0, runs = 0,
                  top = 12;  // length, steps, runs 0: the default
    bool nodes = false, json = false;
};

/// The same for a decoder-only model.
Result<int> bench_decoder(const BenchModelCommand& command, const std::filesystem::path& path);

}  // namespace vkformer::cli
