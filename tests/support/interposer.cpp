// SPDX-License-Identifier: MIT
#include "support/interposer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>
#include <type_traits>

namespace vkformer::tests {
namespace {

constexpr VkResult kMemory[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY};
constexpr VkResult kMapping[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_MEMORY_MAP_FAILED};
constexpr VkResult kPool[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_POOL_MEMORY};
constexpr VkResult kQueue[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_DEVICE_LOST};

/// X(function, the errors it may return)
#define VKFORMER_FALLIBLE(X)                \
    X(vkAllocateMemory, kMemory)            \
    X(vkMapMemory, kMapping)                \
    X(vkCreateBuffer, kMemory)              \
    X(vkBindBufferMemory, kMemory)          \
    X(vkCreateImageView, kMemory)           \
    X(vkCreateSampler, kMemory)             \
    X(vkCreateShaderModule, kMemory)        \
    X(vkCreatePipelineCache, kMemory)       \
    X(vkCreateComputePipelines, kMemory)    \
    X(vkCreatePipelineLayout, kMemory)      \
    X(vkCreateDescriptorSetLayout, kMemory) \
    X(vkCreateDescriptorPool, kMemory)      \
    X(vkAllocateDescriptorSets, kPool)      \
    X(vkCreateCommandPool, kMemory)         \
    X(vkAllocateCommandBuffers, kMemory)    \
    X(vkBeginCommandBuffer, kMemory)        \
    X(vkEndCommandBuffer, kMemory)          \
    X(vkQueueSubmit, kQueue)                \
    X(vkCreateQueryPool, kMemory)           \
    X(vkGetQueryPoolResults, kQueue)        \
    X(vkCreateSemaphore, kMemory)           \
    X(vkWaitSemaphores, kQueue)

/// X(function, the function that made what it destroys)
#define VKFORMER_DESTROYING(X)                                     \
    X(vkFreeMemory, "vkAllocateMemory")                            \
    X(vkDestroyBuffer, "vkCreateBuffer")                           \
    X(vkDestroyImageView, "vkCreateImageView")                     \
    X(vkDestroySampler, "vkCreateSampler")                         \
    X(vkDestroyShaderModule, "vkCreateShaderModule")               \
    X(vkDestroyPipelineCache, "vkCreatePipelineCache")             \
    X(vkDestroyPipeline, "vkCreateComputePipelines")               \
    X(vkDestroyPipelineLayout, "vkCreatePipelineLayout")           \
    X(vkDestroyDescriptorSetLayout, "vkCreateDescriptorSetLayout") \
    X(vkDestroyDescriptorPool, "vkCreateDescriptorPool")           \
    X(vkDestroyCommandPool, "vkCreateCommandPool")                 \
    X(vkDestroyQueryPool, "vkCreateQueryPool")                     \
    X(vkDestroySemaphore, "vkCreateSemaphore")

/// What the functions, which know nothing but their arguments, share.
struct State {
    std::mutex mutex;
    PFN_vkGetInstanceProcAddr next = nullptr;
    PFN_vkGetDeviceProcAddr next_device = nullptr;
    std::vector<std::string> fallible_calls;
    std::optional<std::size_t> armed_call;
    std::size_t armed_error = 0;
    std::optional<std::string> failed;
    VkResult failed_with = VK_SUCCESS;
    std::map<std::string, std::size_t> calls;
    std::map<std::string, std::int64_t> live;
    std::optional<std::uint64_t> free_memory, own_memory;
    std::array<std::uint64_t, 2> allocated{};  // bytes: of the device's own memory, of the host's
    std::uint64_t most_own_memory = 0;
    std::map<VkDeviceMemory, std::pair<std::uint32_t, std::uint64_t>> allocations;  // memory type, bytes
    std::set<std::string> hidden;                                                   // device functions
    std::optional<std::vector<std::byte>> cache_data;
    std::vector<std::byte> initial_cache_data;
    bool loses_stores = false;
    std::uint32_t most_workgroups = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t first_workgroup = 0;  // of the part that is recorded
    std::optional<std::size_t> dropped_barrier;
    std::size_t most_barriers = 0;
    std::vector<std::string> recorded;
    PFN_vkCmdDispatch dispatch = nullptr;
    PFN_vkCmdPipelineBarrier pipeline_barrier = nullptr;
    PFN_vkCreateDevice create_device = nullptr;
    PFN_vkDestroyDevice destroy_device = nullptr;
    PFN_vkCreatePipelineCache create_pipeline_cache = nullptr;
    PFN_vkCreateShaderModule create_shader_module = nullptr;
    PFN_vkEnumerateDeviceExtensionProperties extensions = nullptr;
    PFN_vkGetPhysicalDeviceMemoryProperties2 memory_properties = nullptr;
    std::uint32_t claimed_binding = 0;  // bytes; 0: the driver's
    std::uint64_t claimed_allocation = 0;
    std::optional<VkPhysicalDeviceType> claimed_type;
    std::uint32_t claimed_buffers = 0;
    std::optional<std::uint32_t> claimed_vendor, claimed_subgroup, claimed_loader;
    std::map<std::string, VkResult> failures;  // of instance functions
    std::optional<std::size_t> losing_submission;
    std::size_t submissions = 0;
    bool is_lost = false;
    std::uint32_t most_bindings = 0;
    std::uint64_t largest_binding = 0, largest_allocation = 0;
    PFN_vkGetPhysicalDeviceProperties2 properties = nullptr;
    double us_per_workgroup = 0;                     // 0: the device's own clock
    std::vector<Interposer::Semaphores> semaphores;  // of each submission
    std::map<VkCommandBuffer, std::uint64_t> workgroups;
    std::map<std::pair<VkQueryPool, std::uint32_t>, std::uint64_t> timestamps;  // in workgroups of their command buffer
    std::uint64_t longest_submission = 0;                                       // in workgroups
    PFN_vkCmdPushConstants push_constants = nullptr;
    PFN_vkCmdWriteTimestamp write_timestamp = nullptr;
};
State* state = nullptr;

/// The error that this call is to fail with, if any.
std::optional<VkResult> count_fallible(const char* name, std::span<const VkResult> errors) {
    const std::lock_guard lock(state->mutex);
    ++state->calls[name];
    const std::size_t number = state->fallible_calls.size();
    state->fallible_calls.emplace_back(name);
    if (state->armed_call != number || state->armed_error >= errors.size()) return std::nullopt;
    state->failed = name;
    state->failed_with = errors[state->armed_error];
    return state->failed_with;
}

void count_live(const char* maker, std::int64_t change) {
    const std::lock_guard lock(state->mutex);
    state->live[maker] += change;
}

void note_size(const VkMemoryAllocateInfo* info) {
    const std::lock_guard lock(state->mutex);
    state->largest_allocation = std::max<std::uint64_t>(state->largest_allocation, info->allocationSize);
}
void note_size(const VkDescriptorSetLayoutCreateInfo* info) {
    const std::lock_guard lock(state->mutex);
    state->most_bindings = std::max(state->most_bindings, info->bindingCount);
}
void note_size(const auto&) {}

bool makes_objects(const char* name) {
    return std::strncmp(name, "vkCreate", 8) == 0 || std::strcmp(name, "vkAllocateMemory") == 0;
}

VkDevice opened_device = VK_NULL_HANDLE;  // the last one
PFN_vkDeviceWaitIdle driver_vkDeviceWaitIdle = nullptr;

/// A device that is lost runs nothing more, and waits for nothing: its objects may go at once. This one only plays it.
void finish_work() {
    if (driver_vkDeviceWaitIdle) driver_vkDeviceWaitIdle(opened_device);
}

PFN_vkGetBufferMemoryRequirements driver_vkGetBufferMemoryRequirements = nullptr;
VKAPI_ATTR void VKAPI_CALL get_memory_requirements(VkDevice device, VkBuffer buffer,
                                                   VkMemoryRequirements* requirements) {
    driver_vkGetBufferMemoryRequirements(device, buffer, requirements);
    requirements->memoryTypeBits = 0b11;  // claim_own_memory()'s
}

/// All that is claimed lies in the driver's first type, which on devices that are CPUs the host sees.
PFN_vkAllocateMemory driver_vkAllocateMemory = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice device, const VkMemoryAllocateInfo* info,
                                               const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
    const std::lock_guard lock(state->mutex);
    if (!state->own_memory) return driver_vkAllocateMemory(device, info, callbacks, memory);
    std::uint64_t& allocated = state->allocated.at(info->memoryTypeIndex);
    if (info->memoryTypeIndex == 0 && allocated + info->allocationSize > *state->own_memory)
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    VkMemoryAllocateInfo real = *info;
    real.memoryTypeIndex = 0;
    const VkResult result = driver_vkAllocateMemory(device, &real, callbacks, memory);
    if (result != VK_SUCCESS) return result;
    allocated += info->allocationSize;
    state->allocations[*memory] = {info->memoryTypeIndex, info->allocationSize};
    state->most_own_memory = std::max(state->most_own_memory, state->allocated[0]);
    return result;
}

PFN_vkFreeMemory driver_vkFreeMemory = nullptr;
VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks* callbacks) {
    {
        const std::lock_guard lock(state->mutex);
        if (const auto known = state->allocations.find(memory); known != state->allocations.end()) {
            state->allocated[known->second.first] -= known->second.second;
            state->allocations.erase(known);
        }
    }
    driver_vkFreeMemory(device, memory, callbacks);
}

/// One interposed function that can fail.
template <class Function>
struct Fallible;
template <class... Args>
struct Fallible<VkResult(VKAPI_PTR*)(Args...)> {
    template <auto& Real, const char* const& Name, auto& Errors>
    static VKAPI_ATTR VkResult VKAPI_CALL call(Args... args) {
        if (const auto error = count_fallible(Name, Errors)) {
            if (*error == VK_ERROR_DEVICE_LOST) finish_work();
            return *error;
        }
        (note_size(args), ...);
        const VkResult result = Real(args...);
        if (result == VK_SUCCESS && makes_objects(Name)) count_live(Name, 1);
        return result;
    }
};

/// Functions that can fail and do something of ours, too: what the driver has for them.
PFN_vkGetQueryPoolResults driver_vkGetQueryPoolResults = nullptr;
PFN_vkBeginCommandBuffer driver_vkBeginCommandBuffer = nullptr;
PFN_vkQueueSubmit driver_vkQueueSubmit = nullptr;
PFN_vkWaitSemaphores driver_vkWaitSemaphores = nullptr;

#define VKFORMER_REAL(name, ...)      \
    PFN_##name real_##name = nullptr; \
    const char* const name_##name = #name;
VKFORMER_FALLIBLE(VKFORMER_REAL)
VKFORMER_DESTROYING(VKFORMER_REAL)

/// One that destroys something.
template <class Function>
struct Destroying;
template <class Handle>
struct Destroying<void(VKAPI_PTR*)(VkDevice, Handle, const VkAllocationCallbacks*)> {
    template <auto& Real, const char* const& Maker>
    static VKAPI_ATTR void VKAPI_CALL call(VkDevice device, Handle handle, const VkAllocationCallbacks* callbacks) {
        if (handle) count_live(Maker, -1);
        Real(device, handle, callbacks);
    }
};
#define VKFORMER_MAKER(name, made_by) const char* const maker_##name = made_by;
VKFORMER_DESTROYING(VKFORMER_MAKER)

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks, VkDevice* device) {
    const VkResult result = state->create_device(physical, info, callbacks, device);
    if (result == VK_SUCCESS) count_live("vkCreateDevice", 1);
    return result;
}

VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* callbacks) {
    count_live("vkCreateDevice", -1);
    state->destroy_device(device, callbacks);
}

/// The driver gets no data: what a test makes up need not be the driver's.
VKAPI_ATTR VkResult VKAPI_CALL create_pipeline_cache(VkDevice device, const VkPipelineCacheCreateInfo* info,
                                                     const VkAllocationCallbacks* callbacks, VkPipelineCache* cache) {
    const std::span data(static_cast<const std::byte*>(info->pInitialData), info->initialDataSize);
    {
        const std::lock_guard lock(state->mutex);
        state->initial_cache_data.assign(data.begin(), data.end());
    }
    const VkPipelineCacheCreateInfo empty{.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    return state->create_pipeline_cache(device, &empty, callbacks, cache);
}

VKAPI_ATTR VkResult VKAPI_CALL get_cache_data(VkDevice, VkPipelineCache, std::size_t* bytes, void* data) {
    const std::lock_guard lock(state->mutex);
    if (data) std::memcpy(data, state->cache_data->data(), state->cache_data->size());
    *bytes = state->cache_data->size();
    return VK_SUCCESS;
}

/// Without the OpControlBarrier of that number. The words of SPIR-V: a header of five, then instructions whose first word has their length
/// in words above and the opcode below ("SPIR-V Specification", 2.3).
std::vector<std::uint32_t> without_barrier(std::span<const std::uint32_t> code, std::size_t number) {
    constexpr std::size_t kHeaderWords = 5;
    constexpr std::uint32_t kControlBarrier = 224;
    std::vector<std::uint32_t> left(code.begin(), code.begin() + kHeaderWords);
    std::size_t barriers = 0;
    for (std::size_t i = kHeaderWords; i < code.size(); i += code[i] >> 16) {
        const bool is_barrier = (code[i] & 0xFFFFu) == kControlBarrier;
        if (is_barrier && barriers++ == number) continue;
        left.insert(left.end(), code.begin() + static_cast<std::ptrdiff_t>(i),
                    code.begin() + static_cast<std::ptrdiff_t>(i + (code[i] >> 16)));
    }
    const std::lock_guard lock(state->mutex);
    state->most_barriers = std::max(state->most_barriers, barriers);
    return left;
}

VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                                    const VkAllocationCallbacks* callbacks, VkShaderModule* module) {
    const auto code = without_barrier({info->pCode, info->codeSize / 4}, *state->dropped_barrier);
    VkShaderModuleCreateInfo changed = *info;
    changed.pCode = code.data();
    changed.codeSize = code.size() * 4;
    return state->create_shader_module(device, &changed, callbacks, module);
}

void note(const char* name) {
    const std::lock_guard lock(state->mutex);
    state->recorded.emplace_back(name);
}

void count_workgroups(VkCommandBuffer commands, std::uint64_t x, std::uint64_t y, std::uint64_t z) {
    const std::lock_guard lock(state->mutex);
    state->workgroups[commands] += x * y * z;
}

VKAPI_ATTR void VKAPI_CALL record_dispatch(VkCommandBuffer commands, std::uint32_t x, std::uint32_t y,
                                           std::uint32_t z) {
    note("vkCmdDispatch");
    count_workgroups(commands, x, y, z);
    const std::uint32_t left = [] {
        const std::lock_guard lock(state->mutex);
        return state->most_workgroups - std::min(state->first_workgroup, state->most_workgroups);
    }();
    if (!state->loses_stores) state->dispatch(commands, std::min(x, left), y, z);
}

/// Blocks begin with where a part of a grid does (PART_OF_GRID of shaders/lib/grid.glsl).
VKAPI_ATTR void VKAPI_CALL record_push_constants(VkCommandBuffer commands, VkPipelineLayout layout,
                                                 VkShaderStageFlags stages, std::uint32_t offset, std::uint32_t size,
                                                 const void* values) {
    std::array<std::uint32_t, 2> first{};
    if (size >= sizeof first) std::memcpy(&first, values, sizeof first);
    if (first != std::array<std::uint32_t, 2>{}) note(Interposer::kLaterPart);
    {
        const std::lock_guard lock(state->mutex);
        state->first_workgroup = first[0];
    }
    state->push_constants(commands, layout, stages, offset, size, values);
}

/// What commands tell of themselves in place of the device, with slow_down().
VKAPI_ATTR void VKAPI_CALL record_timestamp(VkCommandBuffer commands, VkPipelineStageFlagBits stage, VkQueryPool pool,
                                            std::uint32_t query) {
    {
        const std::lock_guard lock(state->mutex);
        state->timestamps[{pool, query}] = state->workgroups[commands];
    }
    state->write_timestamp(commands, stage, pool, query);
}

VKAPI_ATTR VkResult VKAPI_CALL get_timestamps(VkDevice device, VkQueryPool pool, std::uint32_t first,
                                              std::uint32_t count, std::size_t size, void* data, VkDeviceSize stride,
                                              VkQueryResultFlags flags) {
    const VkResult result = driver_vkGetQueryPoolResults(device, pool, first, count, size, data, stride, flags);
    const std::lock_guard lock(state->mutex);
    if (state->us_per_workgroup <= 0 || result != VK_SUCCESS) return result;
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto ns = static_cast<std::uint64_t>(static_cast<double>(state->timestamps[{pool, first + i}]) *
                                                   state->us_per_workgroup * 1000);
        std::memcpy(static_cast<std::byte*>(data) + i * stride, &ns, sizeof(ns));
    }
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL begin_commands(VkCommandBuffer commands, const VkCommandBufferBeginInfo* info) {
    {
        const std::lock_guard lock(state->mutex);
        state->workgroups[commands] = 0;
    }
    return driver_vkBeginCommandBuffer(commands, info);
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
    {
        const std::lock_guard lock(state->mutex);
        const bool loses = !state->is_lost && state->losing_submission == state->submissions++;
        if (loses) finish_work();
        state->is_lost = state->is_lost || loses;
        if (state->is_lost) return VK_ERROR_DEVICE_LOST;
        std::uint64_t workgroups = 0;
        for (std::uint32_t i = 0; i < count; ++i)
            state->semaphores.push_back({infos[i].waitSemaphoreCount, infos[i].signalSemaphoreCount});
        for (std::uint32_t i = 0; i < count; ++i)
            for (std::uint32_t j = 0; j < infos[i].commandBufferCount; ++j)
                workgroups += state->workgroups[infos[i].pCommandBuffers[j]];
        state->longest_submission = std::max(state->longest_submission, workgroups);
    }
    return driver_vkQueueSubmit(queue, count, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL wait_semaphores(VkDevice device, const VkSemaphoreWaitInfo* info,
                                               std::uint64_t timeout) {
    {
        const std::lock_guard lock(state->mutex);
        if (state->is_lost) return VK_ERROR_DEVICE_LOST;
    }
    return driver_vkWaitSemaphores(device, info, timeout);
}

VKAPI_ATTR void VKAPI_CALL record_barrier(VkCommandBuffer commands, VkPipelineStageFlags source,
                                          VkPipelineStageFlags target, VkDependencyFlags flags, std::uint32_t memories,
                                          const VkMemoryBarrier* memory, std::uint32_t buffers,
                                          const VkBufferMemoryBarrier* buffer, std::uint32_t images,
                                          const VkImageMemoryBarrier* image) {
    note("vkCmdPipelineBarrier");
    state->pipeline_barrier(commands, source, target, flags, memories, memory, buffers, buffer, images, image);
}

PFN_vkUpdateDescriptorSets real_update_descriptor_sets = nullptr;

VKAPI_ATTR void VKAPI_CALL update_descriptor_sets(VkDevice device, std::uint32_t write_count,
                                                  const VkWriteDescriptorSet* writes, std::uint32_t copy_count,
                                                  const VkCopyDescriptorSet* copies) {
    {
        const std::lock_guard lock(state->mutex);
        for (std::uint32_t i = 0; i < write_count; ++i)
            for (std::uint32_t j = 0; writes[i].pBufferInfo && j < writes[i].descriptorCount; ++j)
                state->largest_binding =
                    std::max<std::uint64_t>(state->largest_binding, writes[i].pBufferInfo[j].range);
    }
    real_update_descriptor_sets(device, write_count, writes, copy_count, copies);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice device, const char* name) {
    PFN_vkVoidFunction real = state->next_device(device, name);
    if (!real || state->hidden.contains(name)) return nullptr;
    if (std::strcmp(name, "vkDestroyDevice") == 0) {
        state->destroy_device = reinterpret_cast<PFN_vkDestroyDevice>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&destroy_device);
    }
    if (std::strcmp(name, "vkCmdDispatch") == 0) {
        state->dispatch = reinterpret_cast<PFN_vkCmdDispatch>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&record_dispatch);
    }
    if (std::strcmp(name, "vkCmdPushConstants") == 0) {
        state->push_constants = reinterpret_cast<PFN_vkCmdPushConstants>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&record_push_constants);
    }
    if (std::strcmp(name, "vkCmdWriteTimestamp") == 0) {
        state->write_timestamp = reinterpret_cast<PFN_vkCmdWriteTimestamp>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&record_timestamp);
    }
    if (std::strcmp(name, "vkCmdPipelineBarrier") == 0) {
        state->pipeline_barrier = reinterpret_cast<PFN_vkCmdPipelineBarrier>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&record_barrier);
    }
    if (state->cache_data && std::strcmp(name, "vkCreatePipelineCache") == 0) {
        state->create_pipeline_cache = reinterpret_cast<PFN_vkCreatePipelineCache>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&create_pipeline_cache);
    }
    if (state->dropped_barrier && std::strcmp(name, "vkCreateShaderModule") == 0) {
        state->create_shader_module = reinterpret_cast<PFN_vkCreateShaderModule>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&create_shader_module);
    }
    if (state->cache_data && std::strcmp(name, "vkGetPipelineCacheData") == 0)
        return reinterpret_cast<PFN_vkVoidFunction>(&get_cache_data);
#define VKFORMER_WRAP_FALLIBLE(function, errors)                                                 \
    if (std::strcmp(name, #function) == 0) {                                                     \
        real_##function = reinterpret_cast<PFN_##function>(real);                                \
        return reinterpret_cast<PFN_vkVoidFunction>(                                             \
            &Fallible<PFN_##function>::template call<real_##function, name_##function, errors>); \
    }
#define VKFORMER_WRAP_DESTROYING(function, maker)                                           \
    if (std::strcmp(name, #function) == 0) {                                                \
        real_##function = reinterpret_cast<PFN_##function>(real);                           \
        return reinterpret_cast<PFN_vkVoidFunction>(                                        \
            &Destroying<PFN_##function>::template call<real_##function, maker_##function>); \
    }
#define VKFORMER_INSERT(function, ours)                               \
    if (std::strcmp(name, #function) == 0) {                          \
        driver_##function = reinterpret_cast<PFN_##function>(driver); \
        real = reinterpret_cast<PFN_vkVoidFunction>(&ours);           \
    }
    if (std::strcmp(name, "vkQueueSubmit") == 0) {
        opened_device = device;
        driver_vkDeviceWaitIdle =
            reinterpret_cast<PFN_vkDeviceWaitIdle>(state->next_device(device, "vkDeviceWaitIdle"));
    }
    if (state->own_memory && std::strcmp(name, "vkGetBufferMemoryRequirements") == 0) {
        driver_vkGetBufferMemoryRequirements = reinterpret_cast<PFN_vkGetBufferMemoryRequirements>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&get_memory_requirements);
    }
    const PFN_vkVoidFunction driver = real;
    VKFORMER_INSERT(vkAllocateMemory, allocate_memory)
    VKFORMER_INSERT(vkFreeMemory, free_memory)
    VKFORMER_INSERT(vkGetQueryPoolResults, get_timestamps)
    VKFORMER_INSERT(vkBeginCommandBuffer, begin_commands)
    VKFORMER_INSERT(vkQueueSubmit, submit)
    VKFORMER_INSERT(vkWaitSemaphores, wait_semaphores)
    VKFORMER_FALLIBLE(VKFORMER_WRAP_FALLIBLE)
    VKFORMER_DESTROYING(VKFORMER_WRAP_DESTROYING)
    if (std::strcmp(name, "vkUpdateDescriptorSets") == 0) {
        real_update_descriptor_sets = reinterpret_cast<PFN_vkUpdateDescriptorSets>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&update_descriptor_sets);
    }
    return real;
}

/// A GPU's own memory, which the host does not see, and the host's.
void tell_own_memory(VkPhysicalDeviceMemoryProperties& memory) {
    const VkDeviceSize host_bytes = memory.memoryHeaps[0].size;
    memory = {.memoryTypeCount = 2, .memoryTypes = {}, .memoryHeapCount = 2, .memoryHeaps = {}};
    memory.memoryTypes[0] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    memory.memoryTypes[1] = {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 1};
    memory.memoryHeaps[0] = {*state->own_memory, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
    memory.memoryHeaps[1] = {host_bytes, 0};
}

PFN_vkGetPhysicalDeviceMemoryProperties driver_vkGetPhysicalDeviceMemoryProperties = nullptr;
VKAPI_ATTR void VKAPI_CALL get_plain_memory_properties(VkPhysicalDevice device,
                                                       VkPhysicalDeviceMemoryProperties* properties) {
    driver_vkGetPhysicalDeviceMemoryProperties(device, properties);
    const std::lock_guard lock(state->mutex);
    if (state->own_memory) tell_own_memory(*properties);
}

/// The driver's extensions, and VK_EXT_memory_budget.
VKAPI_ATTR VkResult VKAPI_CALL enumerate_extensions(VkPhysicalDevice device, const char* layer, std::uint32_t* count,
                                                    VkExtensionProperties* properties) {
    std::uint32_t total = 0;
    if (const VkResult r = state->extensions(device, layer, &total, nullptr)) return r;
    std::vector<VkExtensionProperties> all(total);
    if (const VkResult r = state->extensions(device, layer, &total, all.data())) return r;
    VkExtensionProperties& budget = all.emplace_back();
    std::strcpy(budget.extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    budget.specVersion = VK_EXT_MEMORY_BUDGET_SPEC_VERSION;
    const auto room = static_cast<std::uint32_t>(all.size());
    if (!properties) {
        *count = room;
        return VK_SUCCESS;
    }
    *count = std::min(*count, room);
    std::copy_n(all.begin(), *count, properties);
    return *count < room ? VK_INCOMPLETE : VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL get_memory_properties(VkPhysicalDevice device,
                                                 VkPhysicalDeviceMemoryProperties2* properties) {
    constexpr VkDeviceSize kUsedByOthers = 1 << 30;
    state->memory_properties(device, properties);
    const std::lock_guard lock(state->mutex);
    if (state->own_memory) tell_own_memory(properties->memoryProperties);
    const VkDeviceSize host_bytes = properties->memoryProperties.memoryHeaps[1].size;
    for (auto* next = static_cast<VkBaseOutStructure*>(properties->pNext); next; next = next->pNext) {
        if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
        auto& budget = *reinterpret_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(next);
        if (state->free_memory) {
            std::ranges::fill(budget.heapUsage, kUsedByOthers);
            std::ranges::fill(budget.heapBudget, kUsedByOthers + *state->free_memory);
        } else {
            std::ranges::copy(state->allocated, budget.heapUsage);
            std::ranges::copy(std::array{*state->own_memory, host_bytes}, budget.heapBudget);
        }
    }
}

VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2* properties) {
    state->properties(device, properties);
    const std::lock_guard lock(state->mutex);
    if (state->claimed_binding) properties->properties.limits.maxStorageBufferRange = state->claimed_binding;
    if (state->claimed_type) properties->properties.deviceType = *state->claimed_type;
    if (state->claimed_vendor) properties->properties.vendorID = *state->claimed_vendor;
    if (state->claimed_buffers)
        properties->properties.limits.maxPerStageDescriptorStorageBuffers = state->claimed_buffers;
    if (state->us_per_workgroup > 0)
        properties->properties.limits.timestampPeriod = 1;  // what get_timestamps() counts in
    for (auto* next = static_cast<VkBaseOutStructure*>(properties->pNext); next; next = next->pNext) {
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES) {
            auto& core = *reinterpret_cast<VkPhysicalDeviceVulkan11Properties*>(next);
            if (state->claimed_allocation) core.maxMemoryAllocationSize = state->claimed_allocation;
            if (state->claimed_subgroup) core.subgroupSize = *state->claimed_subgroup;
        }
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES &&
            state->claimed_subgroup) {
            auto& sizes = *reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlProperties*>(next);
            sizes.minSubgroupSize = sizes.maxSubgroupSize = *state->claimed_subgroup;
        }
    }
}

VKAPI_ATTR VkResult VKAPI_CALL get_loader_version(std::uint32_t* version) {
    const std::lock_guard lock(state->mutex);
    *version = *state->claimed_loader;
    return VK_SUCCESS;
}

/// An instance function that fails.
template <class Function>
struct Failing;
template <class... Args>
struct Failing<VkResult(VKAPI_PTR*)(Args...)> {
    template <const char* const& Name>
    static VKAPI_ATTR VkResult VKAPI_CALL call(Args...) {
        const std::lock_guard lock(state->mutex);
        return state->failures.at(Name);
    }
};
const char* const name_vkCreateInstance = "vkCreateInstance";
const char* const name_vkEnumeratePhysicalDevices = "vkEnumeratePhysicalDevices";
const char* const name_vkCreateDevice = "vkCreateDevice";

/// What stands in for an instance function that is to fail; null: nothing.
PFN_vkVoidFunction failing(const std::string& name) {
    const std::lock_guard lock(state->mutex);
    if (!state->failures.contains(name)) return nullptr;
#define VKFORMER_FAIL(function) \
    if (name == #function)      \
        return reinterpret_cast<PFN_vkVoidFunction>(&Failing<PFN_##function>::template call<name_##function>);
    VKFORMER_FAIL(vkCreateInstance)
    VKFORMER_FAIL(vkEnumeratePhysicalDevices)
    VKFORMER_FAIL(vkCreateDevice)
    return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance(VkInstance instance, const char* name) {
    if (const PFN_vkVoidFunction stand_in = failing(name)) return stand_in;
    if (state->claimed_loader && std::strcmp(name, "vkEnumerateInstanceVersion") == 0)
        return *state->claimed_loader ? reinterpret_cast<PFN_vkVoidFunction>(&get_loader_version) : nullptr;
    const PFN_vkVoidFunction real = state->next(instance, name);
    if (real && std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
        state->next_device = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&get_device);
    }
    if (real && std::strcmp(name, "vkCreateDevice") == 0) {
        state->create_device = reinterpret_cast<PFN_vkCreateDevice>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&create_device);
    }
    if (std::strcmp(name, "vkGetPhysicalDeviceProperties2") == 0) {
        state->properties = reinterpret_cast<PFN_vkGetPhysicalDeviceProperties2>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&get_properties);
    }
    if (state->own_memory && std::strcmp(name, "vkGetPhysicalDeviceMemoryProperties") == 0) {
        driver_vkGetPhysicalDeviceMemoryProperties = reinterpret_cast<PFN_vkGetPhysicalDeviceMemoryProperties>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&get_plain_memory_properties);
    }
    if (std::strcmp(name, "vkGetPhysicalDeviceMemoryProperties2") == 0 && (state->free_memory || state->own_memory)) {
        state->memory_properties = reinterpret_cast<PFN_vkGetPhysicalDeviceMemoryProperties2>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&get_memory_properties);
    }
    if (!state->free_memory) return real;
    if (std::strcmp(name, "vkEnumerateDeviceExtensionProperties") == 0) {
        state->extensions = reinterpret_cast<PFN_vkEnumerateDeviceExtensionProperties>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&enumerate_extensions);
    }
    return real;
}

}  // namespace

Interposer::Interposer(PFN_vkGetInstanceProcAddr next) {
    static State the_state;
    state = &the_state;
    const std::lock_guard lock(state->mutex);
    state->next = next;
    state->free_memory.reset();
    state->own_memory.reset();
    state->allocated = {};
    state->most_own_memory = 0;
    state->allocations.clear();
    state->hidden.clear();
    state->cache_data.reset();
    state->loses_stores = false;
    state->most_workgroups = std::numeric_limits<std::uint32_t>::max();
    state->first_workgroup = 0;
    state->dropped_barrier.reset();
    state->most_barriers = 0;
    state->recorded.clear();
    state->fallible_calls.clear();
    state->armed_call.reset();
    state->failed.reset();
    state->calls.clear();
    state->live.clear();
    state->claimed_binding = 0;
    state->claimed_allocation = 0;
    state->claimed_type.reset();
    state->claimed_vendor.reset();
    state->claimed_buffers = 0;
    state->claimed_subgroup.reset();
    state->claimed_loader.reset();
    state->failures.clear();
    state->losing_submission.reset();
    state->is_lost = false;
    state->most_bindings = 0;
    state->largest_binding = state->largest_allocation = 0;
    state->us_per_workgroup = 0;
    state->semaphores.clear();
    state->workgroups.clear();
    state->timestamps.clear();
    state->longest_submission = 0;
}

Interposer::~Interposer() = default;

PFN_vkGetInstanceProcAddr Interposer::get() const noexcept { return &get_instance; }

void Interposer::arm(std::size_t call, std::size_t error) {
    const std::lock_guard lock(state->mutex);
    state->fallible_calls.clear();
    state->armed_call = call;
    state->armed_error = error;
    state->failed.reset();
    state->failed_with = VK_SUCCESS;
    state->live.clear();
}

std::optional<std::string> Interposer::failed() const {
    const std::lock_guard lock(state->mutex);
    return state->failed;
}

bool Interposer::lost_device() const {
    const std::lock_guard lock(state->mutex);
    return state->failed_with == VK_ERROR_DEVICE_LOST;
}

std::vector<std::string> Interposer::fallible_calls() const {
    const std::lock_guard lock(state->mutex);
    return state->fallible_calls;
}

std::map<std::string, std::size_t> Interposer::calls() const {
    const std::lock_guard lock(state->mutex);
    return state->calls;
}

void Interposer::reset_calls() {
    const std::lock_guard lock(state->mutex);
    state->calls.clear();
    state->semaphores.clear();
}

std::map<std::string, std::int64_t> Interposer::live() const {
    const std::lock_guard lock(state->mutex);
    auto live = state->live;
    std::erase_if(live, [](const auto& entry) { return entry.second == 0; });
    return live;
}

void Interposer::leave_memory(std::uint64_t bytes) {
    const std::lock_guard lock(state->mutex);
    state->free_memory = bytes;
}

void Interposer::claim_own_memory(std::uint64_t bytes) {
    const std::lock_guard lock(state->mutex);
    state->own_memory = bytes;
}

std::uint64_t Interposer::most_own_memory() const {
    const std::lock_guard lock(state->mutex);
    return state->most_own_memory;
}

std::uint64_t Interposer::host_memory() const {
    const std::lock_guard lock(state->mutex);
    return state->allocated[1];
}

void Interposer::hide(const std::string& device_function) {
    const std::lock_guard lock(state->mutex);
    state->hidden.insert(device_function);
}

void Interposer::give_cache_data(std::vector<std::byte> data) {
    const std::lock_guard lock(state->mutex);
    state->cache_data = std::move(data);
}

std::vector<std::byte> Interposer::initial_cache_data() const {
    const std::lock_guard lock(state->mutex);
    return state->initial_cache_data;
}

std::vector<std::string> Interposer::recorded() const {
    const std::lock_guard lock(state->mutex);
    return state->recorded;
}

void Interposer::drop_barrier(std::size_t number) {
    const std::lock_guard lock(state->mutex);
    state->dropped_barrier = number;
}

std::size_t Interposer::most_barriers() const {
    const std::lock_guard lock(state->mutex);
    return state->most_barriers;
}

void Interposer::lose_workgroups_behind(std::uint32_t most) {
    const std::lock_guard lock(state->mutex);
    state->most_workgroups = most;
}

void Interposer::lose_stores() {
    const std::lock_guard lock(state->mutex);
    state->loses_stores = true;
}

void Interposer::claim_limits(std::uint32_t binding, std::uint64_t allocation) {
    const std::lock_guard lock(state->mutex);
    state->claimed_binding = binding;
    state->claimed_allocation = allocation;
}

void Interposer::claim_storage_buffers(std::uint32_t buffers) {
    const std::lock_guard lock(state->mutex);
    state->claimed_buffers = buffers;
}

void Interposer::claim_subgroup_size(std::uint32_t invocations) {
    const std::lock_guard lock(state->mutex);
    state->claimed_subgroup = invocations;
}

void Interposer::claim_loader(std::uint32_t version) {
    const std::lock_guard lock(state->mutex);
    state->claimed_loader = version;
}

void Interposer::fail(const std::string& instance_function, VkResult result) {
    const std::lock_guard lock(state->mutex);
    state->failures[instance_function] = result;
}

void Interposer::lose_device(std::size_t submission) {
    const std::lock_guard lock(state->mutex);
    state->losing_submission = submission;
    state->submissions = 0;
    state->is_lost = false;
}

void Interposer::claim_type(VkPhysicalDeviceType type) {
    const std::lock_guard lock(state->mutex);
    state->claimed_type = type;
}

void Interposer::claim_vendor(std::uint32_t vendor) {
    const std::lock_guard lock(state->mutex);
    state->claimed_vendor = vendor;
}

void Interposer::slow_down(double us_per_workgroup) {
    const std::lock_guard lock(state->mutex);
    state->us_per_workgroup = us_per_workgroup;
    state->longest_submission = 0;
}

std::vector<Interposer::Semaphores> Interposer::semaphores() const {
    const std::lock_guard lock(state->mutex);
    return state->semaphores;
}

double Interposer::longest_submission_us() const {
    const std::lock_guard lock(state->mutex);
    return static_cast<double>(state->longest_submission) * state->us_per_workgroup;
}

std::uint32_t Interposer::most_bindings() const {
    const std::lock_guard lock(state->mutex);
    return state->most_bindings;
}

std::uint64_t Interposer::largest_binding() const {
    const std::lock_guard lock(state->mutex);
    return state->largest_binding;
}

std::uint64_t Interposer::largest_allocation() const {
    const std::lock_guard lock(state->mutex);
    return state->largest_allocation;
}

}  // namespace vkformer::tests
