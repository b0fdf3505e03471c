// SPDX-License-Identifier: MIT
/// What stands behind the opaque handles.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/c/common.hpp"
#include "images/image_processor.hpp"
#include "models/decoder.hpp"
#include "models/encoder.hpp"
#include "models/encoder_decoder.hpp"
#include "models/generation_config.hpp"
#include "models/vision.hpp"
#include "text/tokenizer.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/features.hpp"

namespace vkformer::c {

/// Where programs run. Thread-safe.
class Device {
public:
    explicit Device(std::unique_ptr<vulkan::VulkanBackend> backend)
        : vulkan_(backend.get()), name_(backend->name()), backend_(std::move(backend)) {}
    /// VKF_DEVICE_CPU.
    explicit Device(std::unique_ptr<graph::Backend> cpu) : name_(cpu->name()), backend_(std::move(cpu)) {}

    const std::string& name() const noexcept { return name_; }
    graph::Backend& backend() const noexcept { return *backend_; }
    /// nullptr on the CPU.
    vulkan::VulkanBackend* vulkan() const noexcept { return vulkan_; }
    /// For what the CPU has not. Errors: MissingFeature, `what` says who needs it.
    Result<vulkan::VulkanBackend*> need_vulkan(const std::string& what) const;

    // Runs on the CPU are done when they have been handed out.
    std::uint64_t take_ticket() noexcept { return tickets_.fetch_add(1) + 1; }
    std::uint64_t last_ticket() const noexcept { return tickets_.load(); }

private:
    vulkan::VulkanBackend* vulkan_ = nullptr;
    std::string name_;
    std::unique_ptr<graph::Backend> backend_;
    std::atomic<std::uint64_t> tickets_ = 0;
};

/// A compiled graph whose inputs and outputs the caller knows by name.
struct NamedTensors {
    std::vector<std::string> names;  // in the order in which they were made
    std::map<std::string, graph::Value, std::less<>> values;

    void add(const std::string& name, graph::Value value) {
        if (values.emplace(name, value).second) names.push_back(name);
    }
};

/// Errors: those of vkf_program_create.
Result<std::unique_ptr<vkf_program>> compile(std::shared_ptr<Device> device, graph::Graph graph, NamedTensors tensors,
                                             const vkf_program_options* options,
                                             std::shared_ptr<graph::TensorStore> weights);

Result<DType> dtype_of(vkf_dtype dtype);
/// `field`: "vkf_pass_info::dtype". Errors: InvalidArgument (neither f32 nor f16).
Result<DType> activation_dtype(vkf_dtype dtype, std::string_view field);
/// Dtype, shape and bytes; not where it lies.
vkf_tensor describe(const graph::Graph& graph, graph::Value value);
/// What a vkf_submit_info says.
struct Submission {
    vulkan::SemaphorePoints semaphores;
    std::function<bool()> should_stop;  ///< may be empty
};
/// Errors: InvalidArgument, MissingFeature (semaphores on the CPU).
Result<Submission> submission_of(const Device& device, const vkf_submit_info* info);

}  // namespace vkformer::c

struct vkf_device_patch {
    std::unique_ptr<vkformer::vulkan::DevicePatch> patch;
};

struct vkf_device {
    std::shared_ptr<vkformer::c::Device> device;  // shared with all that was made from it
};

struct vkf_graph {
    vkformer::graph::Graph graph;
    vkformer::c::NamedTensors tensors;
    bool is_spent = false;
};

namespace vkformer::c {

/// What a vkf_model stands for; its sessions keep it alive.
struct Model {
    std::shared_ptr<Device> device;
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
    std::shared_ptr<graph::TensorStore> weights(DType dtype, models::WeightFormat format);

private:
    std::mutex mutex_;
    std::map<std::pair<DType, models::WeightFormat>, std::weak_ptr<graph::TensorStore>> stores_;
};

}  // namespace vkformer::c

struct vkf_model {
    std::shared_ptr<vkformer::c::Model> model;
};

struct vkf_program {
    std::shared_ptr<vkformer::c::Device> device;
    vkformer::c::NamedTensors tensors;
    std::shared_ptr<vkformer::c::Model> model;  // null for a graph's; weights may still be read from its files
    std::unique_ptr<vkformer::graph::Program> program;
    vkformer::vulkan::VulkanProgram* vulkan = nullptr;  // the same; null on the CPU
    vkformer::vulkan::ChosenVariants variants;          // by node; of no nodes on the CPU
};
