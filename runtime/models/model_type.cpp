// SPDX-License-Identifier: MIT
#include "models/model_type.hpp"

#include "models/encoder_loading.hpp"
#include "models/load.hpp"
#include "models/vision.hpp"
#include "models/vision_loading.hpp"

namespace vkformer::models {
namespace {

/// "generate and chat"; empty where no command takes the model.
std::string commands_for(const std::filesystem::path& folder) {
    const auto is = [&](Result<bool> (*question)(const std::filesystem::path&)) {
        const auto answer = question(folder);
        return answer && *answer;
    };
    if (is(&is_decoder)) return "generate and chat";
    if (is(&is_encoder)) return "embed and rerank";
    if (is(&is_vision_encoder)) return is(&is_clip) ? "classify and embed" : "classify";
    if (is(&is_encoder_decoder)) return "translate";
    return is(&is_speech_model) ? "transcribe" : "";
}

}  // namespace

Error unknown_model_type(const std::filesystem::path& folder, const formats::Config& config,
                         const std::string& supported) {
    Error error = config.unsupported("model_type", supported);
    const std::string commands = commands_for(folder);
    if (!commands.empty()) error.message += "; models of this type are for vkformer " + commands;
    return error;
}

}  // namespace vkformer::models
