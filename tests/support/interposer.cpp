// SPDX-License-Identifier: MIT
#include "support/interposer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
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
    std::optional<std::uint64_t> free_memory;
    PFN_vkEnumerateDeviceExtensionProperties extensions = nullptr;
    PFN_vkGetPhysicalDeviceMemoryProperties2 memory_properties = nullptr;
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

bool makes_objects(const char* name) {
    return std::strncmp(name, "vkCreate", 8) == 0 || std::strcmp(name, "vkAllocateMemory") == 0;
}

/// One interposed function that can fail.
template <class Function>
struct Fallible;
template <class... Args>
struct Fallible<VkResult(VKAPI_PTR*)(Args...)> {
    template <auto& Real, const char* const& Name, auto& Errors>
    static VKAPI_ATTR VkResult VKAPI_CALL call(Args... args) {
        if (const auto error = count_fallible(Name, Errors)) return *error;
        const VkResult result = Real(args...);
        if (result == VK_SUCCESS && makes_objects(Name)) count_live(Name, 1);
        return result;
    }
};

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

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice device, const char* name) {
    const PFN_vkVoidFunction real = state->next_device(device, name);
    if (!real) return nullptr;
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
    VKFORMER_FALLIBLE(VKFORMER_WRAP_FALLIBLE)
    VKFORMER_DESTROYING(VKFORMER_WRAP_DESTROYING)
    return real;
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
    for (auto* next = static_cast<VkBaseOutStructure*>(properties->pNext); next; next = next->pNext) {
        if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
        auto& budget = *reinterpret_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(next);
        std::ranges::fill(budget.heapUsage, kUsedByOthers);
        std::ranges::fill(budget.heapBudget, kUsedByOthers + *state->free_memory);
    }
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance(VkInstance instance, const char* name) {
    const PFN_vkVoidFunction real = state->next(instance, name);
    if (real && std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
        state->next_device = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&get_device);
    }
    if (!state->free_memory) return real;
    if (std::strcmp(name, "vkEnumerateDeviceExtensionProperties") == 0) {
        state->extensions = reinterpret_cast<PFN_vkEnumerateDeviceExtensionProperties>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&enumerate_extensions);
    }
    if (std::strcmp(name, "vkGetPhysicalDeviceMemoryProperties2") == 0) {
        state->memory_properties = reinterpret_cast<PFN_vkGetPhysicalDeviceMemoryProperties2>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&get_memory_properties);
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
    state->fallible_calls.clear();
    state->armed_call.reset();
    state->failed.reset();
    state->calls.clear();
    state->live.clear();
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

}  // namespace vkformer::tests
