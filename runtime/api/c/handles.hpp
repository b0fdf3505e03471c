// SPDX-License-Identifier: MIT
/// What stands behind the opaque handles.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/c/common.hpp"
#include "decoding/sequence_script.hpp"
#include "guest/sliced_session.hpp"
#include "images/image_processor.hpp"
#include "models/decoder.hpp"
#include "models/encoder.hpp"
#include "models/encoder_decoder.hpp"
#include "models/vision.hpp"
#include "text/tokenizer.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/features.hpp"

namespace vkformer::c {

/// A compiled graph whose inputs and outputs the caller knows by name.
struct NamedTensors {
    std::vector<std::string> names;  // in the order in which they were made
    std::map<std::string, graph::Value, std::less<>> values;

    void add(const std::string& name, graph::Value value) {
        if (values.emplace(name, value).second) names.push_back(name);
    }
};

/// Errors: those of vkf_program_create.
Result<std::unique_ptr<vkf_program>> compile(std::shared_ptr<vulkan::VulkanBackend> backend, graph::Graph graph,
                                             NamedTensors tensors, const vkf_program_options* options,
                                             std::shared_ptr<vulkan::VulkanStore> weights);

Result<DType> dtype_of(vkf_dtype dtype);
/// Errors: InvalidArgument.
Result<vulkan::SemaphorePoints> semaphores_of(const vkf_submit_info* info);

}  // namespace vkformer::c

struct vkf_device_patch {
    std::unique_ptr<vkformer::vulkan::DevicePatch> patch;
};

struct vkf_device {
    std::shared_ptr<vkformer::vulkan::VulkanBackend> backend;  // shared with all that was made from the device
};

struct vkf_graph {
    vkformer::graph::Graph graph;
    vkformer::c::NamedTensors tensors;
    bool is_spent = false;
};

namespace vkformer::c {

/// What a vkf_model stands for; its sessions keep it alive.
struct Model {
    std::shared_ptr<vulkan::VulkanBackend> backend;
    std::variant<std::unique_ptr<models::EncoderDecoder>, models::Decoder, models::Encoder, models::VisionEncoder>
        model;
    // nullptr where it is another.
    const models::Decoder* decoder() const noexcept { return std::get_if<models::Decoder>(&model); }
    const models::EncoderDecoder* encoder_decoder() const noexcept {
        const auto* const found = std::get_if<std::unique_ptr<models::EncoderDecoder>>(&model);
        return found ? found->get() : nullptr;
    }
    const models::VisionEncoder* vision() const noexcept { return std::get_if<models::VisionEncoder>(&model); }

    models::GenerationConfig generation;  ///< of a decoder, how it searches and which tokens it may choose
    float repetition_penalty = 1;         ///< of a decoder
    Result<std::uint32_t> beams = 1u;     ///< that the files ask for; an error where they ask for what is not done
    std::vector<std::int32_t> end_tokens;
    Result<std::unique_ptr<text::Tokenizer>> tokenizer = Error{};        // its error is told when text is asked for
    std::optional<images::ImageProcessor::Normalization> normalization;  // of images

    /// The weights in a form, shared by all that use them and gone with the last. Thread-safe.
    std::shared_ptr<vulkan::VulkanStore> weights(DType dtype, models::WeightFormat format);

private:
    std::mutex mutex_;
    std::map<std::pair<DType, models::WeightFormat>, std::weak_ptr<vulkan::VulkanStore>> stores_;
};

}  // namespace vkformer::c

struct vkf_model {
    std::shared_ptr<vkformer::c::Model> model;
};

struct vkf_program {
    std::shared_ptr<vkformer::vulkan::VulkanBackend> backend;
    vkformer::c::NamedTensors tensors;
    std::shared_ptr<vkformer::c::Model> model;  // null for a graph's; weights may still be read from its files
    std::unique_ptr<vkformer::vulkan::VulkanProgram> program;
};
