// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "cli.hpp"
#include "models/open_model.hpp"

namespace vkformer::cli {

struct BenchModelCommand {
    DeviceOptions device;
    ModelOption model;
    WeightsOption weights;
    CacheOption cache;
    std::uint32_t batch = 1, beams = 0, length = 0, steps = 0, runs = 0,
                  top = 12;  // length, steps, runs 0: the default
    bool nodes = false, json = false;
};

/// The same for a decoder-only model.
Result<int> bench_decoder(const BenchModelCommand& command, const models::Opened<models::Decoder>& opened);

/// The same for a model that hears.
Result<int> bench_speech(const BenchModelCommand& command, const models::Opened<models::SpeechModel>& opened);

}  // namespace vkformer::cli
