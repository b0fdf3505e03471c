// SPDX-License-Identifier: MIT
/// A vkGetInstanceProcAddr that stands between vkformer and the driver: it counts calls and live objects, makes a chosen call fail, and
/// plays devices that there are not.
#pragma once

#include <vulkan/vulkan.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vkformer::tests {

/// There is one for the process, for a function table has no place for a pointer to it. Counting starts with its making.
class Interposer {
public:
    explicit Interposer(PFN_vkGetInstanceProcAddr next);
    Interposer(const Interposer&) = delete;
    Interposer& operator=(const Interposer&) = delete;
    ~Interposer();

    /// To be handed to vkformer.
    PFN_vkGetInstanceProcAddr get() const noexcept;

    /// The call of this number (from 0, of those that can fail) fails with the error of this number, if its function has so many.
    void arm(std::size_t call, std::size_t error);
    /// Which function was made to fail; none: the call was never made, or its function has no such error.
    std::optional<std::string> failed() const;
    /// Whether it was with VK_ERROR_DEVICE_LOST.
    bool lost_device() const;

    /// The functions that can fail, as they were called since the making or the last arm().
    std::vector<std::string> fallible_calls() const;
    /// Calls by name since the last reset.
    std::map<std::string, std::size_t> calls() const;
    void reset_calls();
    /// Objects created and not destroyed, by the function that made them; memory too.
    std::map<std::string, std::int64_t> live() const;

    /// From now on every device has VK_EXT_memory_budget, which says that so many bytes are free in every heap.
    void leave_memory(std::uint64_t bytes);
    /// From now on every device claims to have so many bytes of memory that the host does not see, which it keeps to, and the host's memory
    /// beside them. To be said before the device is made.
    void claim_own_memory(std::uint64_t bytes);
    /// The most bytes of its own that were allocated at once since then, and those of the host's that are now.
    std::uint64_t most_own_memory() const;
    std::uint64_t host_memory() const;
    /// From now on devices lack the function, too.
    void hide(const std::string& device_function);
    /// From now on pipeline caches give this data, and the driver sees none of what they are made from.
    void give_cache_data(std::vector<std::byte> data);
    /// What the last pipeline cache was made from, with give_cache_data().
    std::vector<std::byte> initial_cache_data() const;
    /// vkCmdDispatch, vkCmdPipelineBarrier, and kLaterPart before a dispatch of a part of a grid that does not begin it, as they were recorded
    /// since the making.
    std::vector<std::string> recorded() const;
    static constexpr const char* kLaterPart = "a later part";
    /// From now on the barrier() of this number (from 0, in the order of the SPIR-V) is missing from every shader module that has so many.
    void drop_barrier(std::size_t number);
    /// The most barriers that a shader module had since the making, with drop_barrier().
    std::size_t most_barriers() const;
    /// From now on dispatches that are recorded do nothing: a driver that loses what shaders store.
    void lose_stores();
    /// From now on the workgroups of a grid behind so many are lost, in whatever parts it runs; of grids that are one row.
    void lose_workgroups_behind(std::uint32_t most);

    /// From now on every device claims to bind (maxStorageBufferRange) and to allocate (maxMemoryAllocationSize) no more than so many bytes at
    /// once; 0: what it does.
    void claim_limits(std::uint32_t binding, std::uint64_t allocation);
    /// From now on every device claims that a shader binds no more storage buffers (maxPerStageDescriptorStorageBuffers); 0: what it does.
    void claim_storage_buffers(std::uint32_t buffers);
    /// From now on every device claims that its subgroups are of this size and no other.
    void claim_subgroup_size(std::uint32_t invocations);
    /// From now on the loader claims to be of this version; 0: of Vulkan 1.0, which cannot be asked.
    void claim_loader(std::uint32_t version);
    /// From now on vkCreateInstance, vkEnumeratePhysicalDevices or vkCreateDevice fails so.
    void fail(const std::string& instance_function, VkResult result);
    /// The submission of this number (from 0, counted from now on) loses the device, and nothing is submitted or waited for any more.
    void lose_device(std::size_t submission);
    /// From now on every device claims to be of this type.
    void claim_type(VkPhysicalDeviceType type);
    /// From now on every device claims to be of this vendor, by its PCI id.
    void claim_vendor(std::uint32_t vendor);
    /// From now on a workgroup takes so long on every device, by its timestamps: they tell how many were recorded between them.
    void slow_down(double us_per_workgroup);
    /// How many semaphores each submission waited for and signalled since the last reset of the calls.
    struct Semaphores {
        std::uint32_t waits = 0, signals = 0;
        friend bool operator==(const Semaphores&, const Semaphores&) = default;
    };
    std::vector<Semaphores> semaphores() const;
    /// The longest submission since then, by that clock.
    double longest_submission_us() const;
    /// The most bindings of a descriptor set since the making.
    std::uint32_t most_bindings() const;
    /// The largest binding of storage buffers since the making, in bytes.
    std::uint64_t largest_binding() const;
    /// Likewise of allocations.
    std::uint64_t largest_allocation() const;
};

}  // namespace vkformer::tests
