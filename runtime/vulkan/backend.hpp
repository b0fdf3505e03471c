// SPDX-License-Identifier: MIT
/// Vulkan as a graph::Backend, and the choice of a device.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/platform/system.hpp"
#include "core/type_tag.hpp"
#include "graph/program.hpp"
#include "vulkan/pipeline_statistics.hpp"
#include "vulkan/program.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::vulkan {

struct BackendOptions {
    bool validation = false;     ///< Khronos validation layer, synchronisation validation included
    bool profile = false;        ///< programs take timestamps (VulkanProgram::node_times)
    bool check_memory = false;   ///< poison and guard bands, for tests (ProgramOptions::check_memory)
    bool force_staging = false;  ///< copy through staging even where memory is unified, for tests
    std::uint64_t most_bytes =
        0;  ///< of a binding and of an allocation, where the device takes more, for tests; 0: what it takes
    RunLimits run_limits{};                              ///< how own submissions are cut, for tests
    PipelineCapture capture = PipelineCapture::nothing;  ///< anything else needs VK_KHR_pipeline_executable_properties
    std::filesystem::path cache_folder = platform::cache_folder();  ///< of the pipeline cache; empty: none
    VkPipelineCache pipeline_cache = VK_NULL_HANDLE;                ///< the application's, used in place of one on disk
    std::uint64_t memory_limit = 0;             ///< bytes of device memory at most; 0: what there is
    MemoryCallbacks memory{};                   ///< the application's allocator; empty: the driver's
    MemoryExport exported{};                    ///< who memory is shared with
    Offload offload{};                          ///< what stays in the host's memory
    std::shared_ptr<VariantChooser> chooser{};  ///< null: the first of each op's variants, measured or not
};

struct DeviceInfo {
    std::uint32_t index = 0;  ///< in the loader's order: what --device takes
    Capabilities capabilities;
    std::string unusable;  ///< why vkformer cannot run on it; empty: it can
};

/// Every Vulkan device. Errors: NoVulkanLoader, NoDevice (no driver), Vulkan.
Result<std::vector<DeviceInfo>> list_devices();

/// The device that `choice` names: "auto" (a discrete GPU, else an integrated, virtual, other one, else the CPU-type device with the
/// largest subgroups, the first of several), an index, a UUID (32 hexadecimal digits, dashes allowed) or a part of the name, in any case.
/// Errors: NoDevice (none fits, or a name fits several) with the list of what is there.
Result<std::uint32_t> choose_device(const std::vector<DeviceInfo>& devices, std::string_view choice);

class VulkanBackend : public graph::Backend {
public:
    /// Errors: NoVulkanLoader, NoDevice, MissingFeature, Vulkan.
    static Result<std::unique_ptr<VulkanBackend>> create(std::string_view choice = "auto",
                                                         const BackendOptions& options = {});
    /// On the application's device; see AdoptedDevice. `validation` does not apply.
    static Result<std::unique_ptr<VulkanBackend>> adopt(const AdoptedDevice& device,
                                                        const BackendOptions& options = {});

    /// On a device that was made elsewhere. Errors: Vulkan.
    static Result<std::unique_ptr<VulkanBackend>> on(std::shared_ptr<Device> device,
                                                     const BackendOptions& options = {});

    const void* type() const noexcept override { return &kTypeTag<VulkanBackend>; }
    std::string name() const override { return device_->capabilities().name; }
    std::shared_ptr<graph::TensorStore> make_store() override {
        return std::make_shared<VulkanStore>(device_, stored_);
    }
    Result<std::unique_ptr<graph::Backend>> make_twin() const override {
        return std::unique_ptr<graph::Backend>(new VulkanBackend(*this));
    }
    DeviceMemory memory() const override;
    const graph::FusionRules& fusions() const noexcept override { return fusions_; }
    Result<std::unique_ptr<graph::Program>> compile(graph::Plan plan, std::shared_ptr<graph::TensorStore> weights,
                                                    std::shared_ptr<graph::TensorStore> states) override;
    /// The same, as the type that can be recorded and profiled.
    Result<std::unique_ptr<VulkanProgram>> compile_program(graph::Plan plan,
                                                           std::shared_ptr<graph::TensorStore> weights,
                                                           std::shared_ptr<graph::TensorStore> states);
    /// What the above compile with.
    Result<ProgramOptions> default_options(const graph::Plan& plan);
    /// The same with options of its own, `options.variants` included: the chooser is not asked.
    Result<std::unique_ptr<VulkanProgram>> compile_program(graph::Plan plan,
                                                           std::shared_ptr<graph::TensorStore> weights,
                                                           std::shared_ptr<graph::TensorStore> states,
                                                           const ProgramOptions& options);

    /// False for an adopted device without a queue: then programs can only be recorded.
    bool can_submit() const noexcept { return device_->can_submit(); }

    /// Makes the pipeline of a dispatch, if it is not there yet, and tells what its compiler made of it; nothing is submitted.
    /// `executables` is empty where `capture` is nothing. Errors: MissingFeature (the variant cannot run here), Vulkan.
    Result<PipelineReport> report_pipeline(const Dispatch& dispatch);

    const Capabilities& capabilities() const noexcept { return device_->capabilities(); }
    /// Has the driver compile what these kernels dispatch for a plan of one node, all at a time, for who compiles programs of each later.
    /// What cannot be made, those programs tell.
    void prepare_pipelines(const graph::Plan& plan, const KernelList& kernels);
    /// For callers that run shaders of their own on it.
    const std::shared_ptr<Device>& device() const noexcept { return device_; }
    std::vector<std::string> validation_messages() const { return device_->instance().validation_messages(); }

private:
    VulkanBackend(const VulkanBackend&) = default;
    VulkanBackend(std::shared_ptr<Device> device, std::shared_ptr<Pipelines> pipelines, const BackendOptions& options)
        : device_(std::move(device)),
          pipelines_(std::move(pipelines)),
          clock_(std::make_shared<RunClock>(options.run_limits)),
          options_(options),
          fusions_(device_->capabilities()) {}

    std::shared_ptr<Device> device_;
    std::shared_ptr<Pipelines> pipelines_;
    std::shared_ptr<RunClock> clock_;
    BackendOptions options_;
    KernelFusions fusions_;
};

}  // namespace vkformer::vulkan
