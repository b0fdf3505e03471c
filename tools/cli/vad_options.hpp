// SPDX-License-Identifier: MIT
/// What is heard as speech.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "vkformer/voice_activity.hpp"

namespace vkformer::cli {

struct VadOption {
    std::string file;  ///< empty: all sound is heard
    VadOptions parameters;

    void add(CLI::App& command);
};

}  // namespace vkformer::cli
