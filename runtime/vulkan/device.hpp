// SPDX-License-Identifier: MIT
/// A device, own or adopted; submission and waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "vkformer/offload.hpp"
#include "vulkan/adopted_device.hpp"
#include "vulkan/allocator.hpp"
#include "vulkan/capabilities.hpp"
#include "vulkan/features.hpp"
#include "vulkan/instance.hpp"
#include "vulkan/table.hpp"

namespace vkformer::vulkan {

/// What the driver's compiler is asked to keep of a pipeline; it costs memory and may keep a driver from sharing its code.
enum class PipelineCapture : std::uint8_t {
    nothing,
    statistics,           ///< registers, spills, instructions, …
    statistics_and_code,  ///< and the text of its intermediate and final code
};

struct DeviceOptions {
    PipelineCapture capture = PipelineCapture::nothing;
    std::uint64_t memory_limit = 0;  ///< bytes of device memory at most; 0: what there is
    MemoryCallbacks memory{};        ///< the application's allocator; empty: the driver's
    MemoryExport exported{};         ///< who memory is shared with
    Offload offload{};
};

/// Timeline semaphores of an application that a submission waits for and signals.
struct SemaphorePoint {
    VkSemaphore semaphore = VK_NULL_HANDLE;
    std::uint64_t value = 0;
};
struct SemaphorePoints {
    std::vector<SemaphorePoint> waits, signals;
};

class Transfer;

/// A VkDevice with one queue: ours, or the application's.
class Device {
public:
    /// Errors: MissingFeature (what the device lacks), Vulkan.
    static Result<std::shared_ptr<Device>> create(std::shared_ptr<Instance> instance,
                                                  const Instance::PhysicalDevice& physical,
                                                  const DeviceOptions& options = {});
    /// Errors: InvalidArgument (a required handle is null), MissingFeature, Vulkan.
    static Result<std::shared_ptr<Device>> adopt(const AdoptedDevice& adopted, const DeviceOptions& options = {});
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const Instance& instance() const noexcept { return *instance_; }
    const DeviceTable& vk() const noexcept { return vk_; }
    VkDevice handle() const noexcept { return handle_; }
    std::uint32_t queue_family() const noexcept { return queue_family_; }
    const Capabilities& capabilities() const noexcept { return capabilities_; }
    PipelineCapture capture() const noexcept { return capture_; }
    const VkPhysicalDeviceMemoryProperties& memory_properties() const noexcept { return memory_; }
    const Offload& offload() const noexcept { return offload_; }
    const Instance::PhysicalDevice& physical() const noexcept { return physical_; }
    const FeatureSet& enabled() const noexcept { return enabled_; }
    /// Thread-safe.
    Allocator& allocator() const noexcept { return *allocator_; }
    Transfer& transfer() const noexcept { return *transfer_; }
    /// Device-local bytes that are free by VK_EXT_memory_budget; none without it.
    std::optional<std::uint64_t> free_bytes() const;
    /// False for an adopted one: what an application gave is touched by the threads that call vkformer, and by no others.
    bool is_own() const noexcept { return owned_; }
    /// False for an adopted device without a queue: then vkformer can only record.
    bool can_submit() const noexcept { return queue_ != VK_NULL_HANDLE; }

    /// Starts the command buffers, in order, and returns the timeline value that wait() takes. Thread-safe.
    /// Errors: MissingFeature (no queue), DeviceLost, Vulkan.
    Result<std::uint64_t> submit(std::span<const VkCommandBuffer> commands, const SemaphorePoints& points = {});
    /// Returns when that submission and all before it are done. Thread-safe. Errors: DeviceLost, Vulkan.
    Result<void> wait(std::uint64_t value);
    /// Before something is destroyed that the submission may use: an error of waiting is no reason to take it from under the device,
    /// so it is tried a few times; a lost device answers at once.
    void drain(std::uint64_t value) noexcept;
    /// The same with a limit: false where the time is over.
    Result<bool> wait_for(std::uint64_t value, std::uint64_t timeout_ns);
    /// The Error for a failing call that may have lost the device, which is then remembered. Thread-safe.
    Error error_of(VkResult result, std::string_view call, std::string_view doing) const;
    /// Errors: DeviceLost, once a call met it. Its driver is asked nothing more then, for it need not answer. Thread-safe.
    Result<void> check_not_lost() const;
    /// The timeline value of the last submission; 0: there was none. Thread-safe.
    std::uint64_t last_submission() const;

    /// Names an object for debuggers and validation messages; nothing where VK_EXT_debug_utils is off.
    void set_name(VkObjectType type, std::uint64_t object, const std::string& name) const;
    template <class Handle>
    void set_name(VkObjectType type, Handle object, const std::string& name) const {
        set_name(type, reinterpret_cast<std::uint64_t>(object), name);
    }
    /// A label around commands: what a capture shows.
    void begin_label(VkCommandBuffer commands, const std::string& label) const;
    void end_label(VkCommandBuffer commands) const;

private:
    Device(std::shared_ptr<Instance> instance, VkDevice handle, bool owned, std::uint32_t queue_family);
    Result<void> prepare(VkQueue queue, const Instance::PhysicalDevice& physical, const DeviceOptions& options);

    std::shared_ptr<Instance> instance_;
    DeviceTable vk_;
    VkDevice handle_;
    bool owned_;
    std::uint32_t queue_family_;
    VkQueue queue_ = VK_NULL_HANDLE;
    Instance::PhysicalDevice physical_;
    FeatureSet enabled_;
    Capabilities capabilities_;
    Offload offload_;
    PipelineCapture capture_ = PipelineCapture::nothing;
    VkPhysicalDeviceMemoryProperties memory_{};
    std::unique_ptr<Allocator> allocator_;
    std::function<void()> lock_queue_, unlock_queue_;
    mutable std::mutex queue_mutex_;
    UniqueSemaphore timeline_;
    std::uint64_t last_value_ = 0;
    mutable std::atomic<bool> is_lost_ = false;
    std::unique_ptr<Transfer> transfer_;
};

}  // namespace vkformer::vulkan
