// SPDX-License-Identifier: MIT
// A libvulkan.so.1 in front of the loader's, for the server's tests: a submission loses its device where there is the file that
// VKFORMER_TEST_LOSE names, which is removed then, and finds no memory while there is that of VKFORMER_TEST_EXHAUST. What runs ends
// before, since software drivers run on in threads of their own.
// While there is the file that VKFORMER_TEST_REPLACE names, devices are called otherwise: as if another had taken their place.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static PFN_vkQueueSubmit next_submit;
static PFN_vkQueueWaitIdle next_wait;
static PFN_vkGetPhysicalDeviceProperties2 next_properties;

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
    const char *lose = getenv("VKFORMER_TEST_LOSE"), *exhaust = getenv("VKFORMER_TEST_EXHAUST");
    const int is_lost = lose && unlink(lose) == 0;
    if (!is_lost && (!exhaust || access(exhaust, F_OK) != 0)) return next_submit(queue, count, infos, fence);
    next_wait(queue);
    return is_lost ? VK_ERROR_DEVICE_LOST : VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice device, const char* name) {
    PFN_vkVoidFunction found = next_device(device, name);
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)get_device;
    if (strcmp(name, "vkQueueSubmit") != 0) return found;
    next_submit = (PFN_vkQueueSubmit)found;
    next_wait = (PFN_vkQueueWaitIdle)next_device(device, "vkQueueWaitIdle");
    return (PFN_vkVoidFunction)submit;
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2* properties) {
    const char* file = getenv("VKFORMER_TEST_REPLACE");
    next_properties(device, properties);
    if (file && access(file, F_OK) == 0) strcpy(properties->properties.deviceName, "another device");
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name) {
    if (!next_instance) {
        void* loader = dlopen(getenv("VKFORMER_TEST_LOADER"), RTLD_NOW | RTLD_LOCAL);
        next_instance = (PFN_vkGetInstanceProcAddr)dlsym(loader, "vkGetInstanceProcAddr");
    }
    PFN_vkVoidFunction found = next_instance(instance, name);
    if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (PFN_vkVoidFunction)vkGetInstanceProcAddr;
    if (found && strcmp(name, "vkGetPhysicalDeviceProperties2") == 0) {
        next_properties = (PFN_vkGetPhysicalDeviceProperties2)found;
        return (PFN_vkVoidFunction)get_properties;
    }
    if (strcmp(name, "vkGetDeviceProcAddr") != 0) return found;
    next_device = (PFN_vkGetDeviceProcAddr)found;
    return (PFN_vkVoidFunction)get_device;
}
