/* SPDX-License-Identifier: MIT */
/**
 * vkformer's C interface (C99): transformers as a guest in an application that owns the VkDevice.
 *
 * Rules that hold for every function:
 *
 * - Results. A function that can fail returns a vkf_result: 0 or positive is success, negative an error.
 *   vkf_error_message() then says for a person what was asked, what was found and what to do. After an error, what the
 *   function was to make does not exist, and what existed before is as it was; exceptions are named. Nothing throws,
 *   prints, exits or aborts.
 * - Structs. Structs that the caller fills begin with `struct_size`; make them with the VKF_…_INIT macros, which set
 *   it and the defaults. A library that is newer than the caller takes missing members as their defaults; an older
 *   library refuses members that it does not know, unless they are zero. Structs are read during the call; nothing
 *   keeps a pointer into them.
 * - Threads. A handle is used by one thread at a time; distinct handles by distinct threads at will, also those of one
 *   vkf_device. A vkf_device itself, a vkf_model, a vkf_constraint and a vkf_engine may be used by several threads at
 *   once, but for destroying, evicting and trimming them. Functions that touch the caller's queue say so; they take the
 *   caller's lock around vkQueueSubmit alone.
 * - Lifetimes. The caller's instance, device and callbacks outlive the vkf_device; a vkf_device may be destroyed
 *   before what was made from it, it then goes with the last of them. What the GPU still executes must not be
 *   destroyed: work that vkformer submitted itself is waited for, for work that the caller submitted the caller waits.
 *   After VKF_ERROR_DEVICE_LOST every handle can still be destroyed, and the tokens of a session can still be read.
 * - Vulkan. Functions are called through the caller's vkGetInstanceProcAddr; the library does not link the Vulkan
 *   loader.
 */
#ifndef VKFORMER_VKFORMER_H
#define VKFORMER_VKFORMER_H

#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#include "vkformer/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results, versions ------------------------------------------------------------------------------------------ */

typedef enum vkf_result {
    VKF_SUCCESS = 0,
    VKF_NOT_READY = 1,  /**< the work is not done yet; try again */
    VKF_TIMEOUT = 2,    /**< the time that the caller allowed is over; try again */
    VKF_INCOMPLETE = 3, /**< the caller's array was too short for everything */
    VKF_ERROR_INVALID_ARGUMENT = -1,
    VKF_ERROR_SHAPE_MISMATCH = -2,
    VKF_ERROR_UNSUPPORTED_DTYPE = -3,
    VKF_ERROR_UNSUPPORTED_CONFIG = -4,
    VKF_ERROR_FILE_NOT_FOUND = -5,
    VKF_ERROR_CORRUPT_FILE = -6,
    VKF_ERROR_MISSING_TENSOR = -7,
    VKF_ERROR_NO_VULKAN_LOADER = -8,
    VKF_ERROR_NO_DEVICE = -9,
    VKF_ERROR_MISSING_FEATURE = -10,
    VKF_ERROR_OUT_OF_HOST_MEMORY = -11,
    VKF_ERROR_OUT_OF_DEVICE_MEMORY =
        -12, /**< the driver's, or the budget's: the message says which, with the numbers */
    VKF_ERROR_DEVICE_LOST = -13,
    VKF_ERROR_VULKAN = -14,  /**< another failing Vulkan call; vkf_error_vk_result() says which code */
    VKF_ERROR_UNKNOWN = -15, /**< a mistake of vkformer's own; please report it */
    /** a model gave NaN for the next token: its sequence is done, with the tokens before. Every function that hears of a
     * session's slices may say so, once for a sequence */
    VKF_ERROR_NOT_A_NUMBER = -16,
    VKF_ERROR_CANCELLED = -17, /**< the engine that had the request was destroyed, or a should_stop said so */
    VKF_RESULT_MAX_ENUM = 0x7FFFFFFF
} vkf_result;

/** The code's name: "VKF_ERROR_DEVICE_LOST". Never null. Thread-safe. */
VKFORMER_API const char* vkf_result_string(vkf_result result);

/**
 * What the last failing call of this thread met, UTF-8; empty where none has failed. Valid until the thread's next
 * failing call.
 */
VKFORMER_API const char* vkf_error_message(void);
/** The VkResult behind it, VK_SUCCESS where no Vulkan call failed. */
VKFORMER_API VkResult vkf_error_vk_result(void);

/** The library's version, as VK_MAKE_API_VERSION(0, major, minor, patch). Thread-safe. */
VKFORMER_API uint32_t vkf_version(void);

/* ---- Before the application creates its device ------------------------------------------------------------------ */

/** The oldest Vulkan that vkformer runs on; VkApplicationInfo::apiVersion must be at least this. */
#define VKF_MIN_VULKAN_VERSION VK_API_VERSION_1_2

/** A feature that vkformer would like of a device. Strings are static. */
typedef struct vkf_wish {
    const char* name;      /**< as Vulkan spells it */
    const char* extension; /**< to be enabled with it; null: none */
    VkBool32 is_required;  /**< without it vkformer cannot submit to a queue */
    VkBool32 is_available; /**< the physical device has it */
    VkBool32 is_enabled;   /**< after the device was created: it was */
    const char* gain;      /**< what runs faster, or at all, with it */
} vkf_wish;

/** A physical device in the eyes of vkformer. */
typedef struct vkf_device_requirements {
    uint32_t struct_size;
    VkQueueFlags queue_flags; /**< a queue family with these can run the work: VK_QUEUE_COMPUTE_BIT */
    VkBool32 is_usable;       /**< vkformer runs on this device; else vkf_error_message says why not */
    /** the most that is bound or allocated at once, by maxStorageBufferRange and maxMemoryAllocationSize. Larger weights, caches and
        activations that go row by row lie in pieces; larger tensors of others, and those in the application's memory, are refused */
    uint64_t max_tensor_bytes;
} vkf_device_requirements;
#define VKF_DEVICE_REQUIREMENTS_INIT \
    { sizeof(vkf_device_requirements), 0, VK_FALSE, 0 }

/**
 * Instance extensions that vkformer would like: *count of them in names, which may be null to ask for the count. None
 * is required. VKF_INCOMPLETE where names was too short. Thread-safe.
 */
VKFORMER_API vkf_result vkf_get_instance_extensions(uint32_t* count, const char** names);

/** What the physical device must and could give. Errors: VKF_ERROR_INVALID_ARGUMENT, VKF_ERROR_VULKAN. Thread-safe. */
VKFORMER_API vkf_result vkf_get_device_requirements(PFN_vkGetInstanceProcAddr get_instance_proc_addr,
                                                    VkInstance instance, VkPhysicalDevice physical_device,
                                                    vkf_device_requirements* requirements);
/**
 * The wishes, *count of them; wishes may be null to ask for the count. Errors as above; VKF_INCOMPLETE. Thread-safe.
 */
VKFORMER_API vkf_result vkf_get_device_wishes(PFN_vkGetInstanceProcAddr get_instance_proc_addr, VkInstance instance,
                                              VkPhysicalDevice physical_device, uint32_t* count, vkf_wish* wishes);

/** What vkf_patch_device_create_info adds to an application's VkDeviceCreateInfo. */
typedef struct vkf_device_patch vkf_device_patch;

/**
 * Adds every wish that the physical device can fulfil to `info`: extensions that are not listed yet, and features. A
 * feature is set in the application's own struct where its pNext chain has one for it (the struct is written to), in a
 * copy of its pEnabledFeatures where that has it, else in a struct of the patch that is put before the chain. `info` then points into the patch; create the device, adopt
 * it with the same `info`, and destroy the patch. Errors: VKF_ERROR_MISSING_FEATURE (the device cannot be used),
 * VKF_ERROR_INVALID_ARGUMENT; `info` is then untouched.
 */
VKFORMER_API vkf_result vkf_patch_device_create_info(PFN_vkGetInstanceProcAddr get_instance_proc_addr,
                                                     VkInstance instance, VkPhysicalDevice physical_device,
                                                     VkDeviceCreateInfo* info, vkf_device_patch** patch);
/** Null is allowed. */
VKFORMER_API void vkf_device_patch_destroy(vkf_device_patch* patch);

/* ---- The device ------------------------------------------------------------------------------------------------- */

/** A VkDevice with its pipelines, its memory budget and its way to submit. */
typedef struct vkf_device vkf_device;

typedef enum vkf_log_level { VKF_LOG_INFO = 0, VKF_LOG_WARNING = 1, VKF_LOG_MAX_ENUM = 0x7FFFFFFF } vkf_log_level;
/** Called from any thread that is inside a vkf function; must not call vkformer. */
typedef void (*vkf_log_function)(void* user, vkf_log_level level, const char* message);

/** Memory that the application gives: a range of a VkDeviceMemory. */
typedef struct vkf_allocation {
    VkDeviceMemory memory;
    VkDeviceSize offset; /**< bytes; a multiple of the requirements' alignment */
    void* mapped;        /**< where the host sees the range; required where the request says so, else may be null */
    void* handle;        /**< the application's, handed back to free: a VmaAllocation, for example */
} vkf_allocation;

typedef struct vkf_allocation_request {
    VkMemoryRequirements requirements; /**< size, alignment, memoryTypeBits */
    uint32_t memory_type; /**< the type that vkformer would take; any type of memoryTypeBits with the flags will do */
    VkMemoryPropertyFlags required_flags; /**< host-visible and host-coherent where the memory must be mapped */
    VkBool32 must_be_mapped;
    const char* label; /**< what it is for, to show in tools; valid during the call */
} vkf_allocation_request;

/** The application's allocator. Called by the threads that call vkformer, several at once if they do. */
typedef struct vkf_memory_callbacks {
    void* user;
    /** VK_SUCCESS with *allocation filled, or the error that the vkf function is to report. */
    VkResult (*allocate)(void* user, const vkf_allocation_request* request, vkf_allocation* allocation);
    void (*free)(void* user, const vkf_allocation* allocation);
} vkf_memory_callbacks;

/** Which shader variants are taken. */
typedef enum vkf_variants {
    /** For each op the first that the device can run; nothing is measured, nothing submitted. */
    VKF_VARIANTS_DEFAULT = 0,
    /** Each is checked and timed when a program first needs it (needs a queue); verdicts are kept in cache_folder. */
    VKF_VARIANTS_MEASURED = 1,
    VKF_VARIANTS_PLAIN = 2, /**< the plain ones: 32-bit floats, shared memory, no subgroups */
    VKF_VARIANTS_MAX_ENUM = 0x7FFFFFFF
} vkf_variants;

/** A variant of an op by its names, as `vkformer tune --list` shows them: {"attention", "tile"}. */
typedef struct vkf_variant {
    const char* op;
    const char* variant;
} vkf_variant;

/** What is common to adopted and own devices. */
typedef struct vkf_device_options {
    uint32_t struct_size;
    vkf_variants variants;
    /**
     * bytes of device memory at most; 0: no limit of its own. What VK_EXT_memory_budget says is free is respected
     * besides, where the device has that extension
     */
    uint64_t memory_budget;
    const vkf_memory_callbacks* memory; /**< null: vkAllocateMemory */
    VkPipelineCache pipeline_cache;     /**< the application's; null: one of vkformer's own, kept in cache_folder */
    const char* cache_folder;           /**< for pipeline cache and verdicts; null: nothing is kept on disk */
    /**
     * Memory of tensors can be exported as these, to other APIs and processes: see vkf_tensor::memory. Needs
     * VK_KHR_external_memory_fd, which an application enables itself.
     */
    VkExternalMemoryHandleTypeFlags external_handle_types;
    vkf_log_function log; /**< null: nothing is told */
    void* log_user;
    /**
     * variants that come before what `variants` says, at most one for an op; read during the call. Where the named one
     * does not fit (it takes few rows only, say), `variants` holds: vkf_program_nodes says what was taken. Not for
     * VKF_DEVICE_CPU
     */
    const vkf_variant* named_variants;
    uint32_t named_variant_count;
    /**
     * so many bytes of weights stay in the host's memory, where the device reads them over its bus, step by step,
     * outside memory_budget; those go first of which a token needs least (looked-up tables, experts).
     * VKF_OFFLOAD_REST: those that do not fit the device beside what else it computes with. `log` is told what it
     * costs. A number of bytes needs a device with memory that is not its own (else VKF_ERROR_MISSING_FEATURE). 0:
     * none. Not for VKF_DEVICE_CPU
     */
    uint64_t offload_bytes;
} vkf_device_options;
#define VKF_OFFLOAD_REST UINT64_MAX
#define VKF_DEVICE_OPTIONS_INIT \
    { sizeof(vkf_device_options), VKF_VARIANTS_DEFAULT, 0, NULL, VK_NULL_HANDLE, NULL, 0, NULL, NULL, NULL, 0, 0 }

/** An application's device. */
typedef struct vkf_adopt_info {
    uint32_t struct_size;
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    VkInstance instance;
    /** the VkApplicationInfo::apiVersion that it was made for; at least VKF_MIN_VULKAN_VERSION */
    uint32_t api_version;
    VkPhysicalDevice physical_device;
    VkDevice device;
    /**
     * What vkCreateDevice was given, pNext chain included: a VkDevice cannot be asked what is enabled. Null: nothing
     * is, `queue` must be null (timeline semaphores are needed to submit), and only plain paths are taken.
     */
    const VkDeviceCreateInfo* created_with;
    VkBool32 has_debug_utils; /**< VK_EXT_debug_utils is enabled on the instance: objects get names, ops labels */
    uint32_t queue_family;    /**< of the queue or the command buffers; must support compute */
    VkQueue queue; /**< the queue that vkformer may submit to; null: it only records. Needs timelineSemaphore */
    void (*lock_queue)(void* user); /**< taken around each vkQueueSubmit to `queue`; null: the caller sees to it */
    void (*unlock_queue)(void* user);
    void* queue_user;
} vkf_adopt_info;
#define VKF_ADOPT_INFO_INIT                                                                                         \
    {                                                                                                               \
        sizeof(vkf_adopt_info), NULL, VK_NULL_HANDLE, VKF_MIN_VULKAN_VERSION, VK_NULL_HANDLE, VK_NULL_HANDLE, NULL, \
            VK_FALSE, 0, VK_NULL_HANDLE, NULL, NULL, NULL                                                           \
    }

/**
 * Makes a vkf_device of the application's VkDevice, which stays the application's. `options` may be null.
 * Errors: VKF_ERROR_INVALID_ARGUMENT, VKF_ERROR_MISSING_FEATURE, VKF_ERROR_VULKAN, out of memory.
 */
VKFORMER_API vkf_result vkf_device_adopt(const vkf_adopt_info* info, const vkf_device_options* options,
                                         vkf_device** device);

/**
 * Makes a device of vkformer's own, through the installed Vulkan loader. `choice`: "auto" or null (a Vulkan device), an
 * index, a UUID or a part of the name, or VKF_DEVICE_CPU. Errors: VKF_ERROR_NO_VULKAN_LOADER, VKF_ERROR_NO_DEVICE,
 * VKF_ERROR_MISSING_FEATURE, VKF_ERROR_VULKAN; VKF_ERROR_INVALID_ARGUMENT (with VKF_DEVICE_CPU, an option for Vulkan).
 *
 * VKF_DEVICE_CPU is the processor, for hosts without a usable Vulkan device: no loader, no driver. Programs and sessions
 * give what Vulkan devices give, but for rounding (products of quantised weights round their rows to 8 bits, and
 * attention beside them its operands to bfloat16, but with VKF_VARIANTS_PLAIN; nothing is measured, and cache_folder is
 * not used); vkf_program_submit and vkf_session_step compute before they return, in the calling thread and OpenBLAS's
 * (OPENBLAS_NUM_THREADS), and what they give a ticket for is done. What takes or gives Vulkan's
 * objects (command buffers, semaphores, the application's buffers and images, vkf_device_vulkan) is
 * VKF_ERROR_MISSING_FEATURE, a tensor has no buffer, and no memory is counted. max_gpu_us and the times of sessions are
 * of the processor; a chunk of a prompt and a token are not divided.
 */
#define VKF_DEVICE_CPU "cpu"
VKFORMER_API vkf_result vkf_device_create(const char* choice, const vkf_device_options* options, vkf_device** device);

/** Null is allowed. See "Lifetimes" above. */
VKFORMER_API void vkf_device_destroy(vkf_device* device);

/** The Vulkan objects of a vkf_device, an adopted or an own one: to import memory, make buffers and images, record. */
typedef struct vkf_vulkan_handles {
    uint32_t struct_size;
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    uint32_t queue_family;
} vkf_vulkan_handles;
#define VKF_VULKAN_HANDLES_INIT \
    { sizeof(vkf_vulkan_handles), NULL, VK_NULL_HANDLE, VK_NULL_HANDLE, VK_NULL_HANDLE, 0 }
/** Thread-safe. They stay vkformer's, or the application's. */
VKFORMER_API vkf_result vkf_device_vulkan(const vkf_device* device, vkf_vulkan_handles* handles);
/** The driver's name of it. Valid while the device lives. Thread-safe. */
VKFORMER_API const char* vkf_device_name(const vkf_device* device);
/**
 * The wishes again, is_enabled filled: what is available but not enabled is a fast path lost. As
 * vkf_get_device_wishes.
 */
VKFORMER_API vkf_result vkf_device_report(const vkf_device* device, uint32_t* count, vkf_wish* wishes);

typedef struct vkf_memory_use {
    uint32_t struct_size;
    uint64_t used; /**< bytes of device memory that vkformer holds */
    uint64_t peak; /**< the most it has held */
    /** bytes that it may hold now: the application's limit, VK_EXT_memory_budget's if that is less; 0: none known */
    uint64_t budget;
} vkf_memory_use;
#define VKF_MEMORY_USE_INIT \
    { sizeof(vkf_memory_use), 0, 0, 0 }
/** Thread-safe. */
VKFORMER_API vkf_result vkf_device_memory(const vkf_device* device, vkf_memory_use* use);
/**
 * Gives back memory that costs nothing to make anew: the staging buffer. (Weights go by themselves with the last
 * program or session that uses them.) *freed may be null. Nothing of the device may be in use by another thread.
 */
VKFORMER_API vkf_result vkf_device_trim(vkf_device* device, uint64_t* freed);

/* ---- Graphs: ops put together by the caller --------------------------------------------------------------------- */

typedef enum vkf_dtype {
    VKF_F32 = 0, /**< IEEE binary32 */
    VKF_F16 = 1, /**< IEEE binary16 */
    VKF_I32 = 2,
    /*
     * For weights of vkf_graph_linear and tables of vkf_graph_embedding alone: bfloat16, and GGUF's block formats, which
     * store neighbours of a row together with what scales them: 32 of them, of those with a K 256.
     */
    VKF_BF16 = 3,
    VKF_Q8_0 = 4,
    VKF_Q4_0 = 5,
    VKF_Q4_1 = 6,
    VKF_Q5_0 = 7,
    VKF_Q5_1 = 8,
    VKF_IQ4_NL = 9,
    VKF_Q4_K = 10,
    VKF_Q5_K = 11,
    VKF_Q6_K = 12,
    VKF_MXFP4 = 13,
    VKF_DTYPE_MAX_ENUM = 0x7FFFFFFF
} vkf_dtype;

/** The name: "f32". Never null. Thread-safe. */
VKFORMER_API const char* vkf_dtype_string(vkf_dtype dtype);

#define VKF_MAX_RANK 4

/** A graph that is being built. */
typedef struct vkf_graph vkf_graph;
/** A tensor of a graph; 0 is none. */
typedef uint32_t vkf_value;

typedef enum vkf_activation {
    VKF_ACTIVATION_NONE = 0,
    VKF_ACTIVATION_RELU = 1,
    VKF_ACTIVATION_GELU = 2,      /**< x Φ(x), exact (Hendrycks and Gimpel 2016) */
    VKF_ACTIVATION_GELU_TANH = 3, /**< its tanh approximation */
    VKF_ACTIVATION_SILU = 4,
    VKF_ACTIVATION_TANH = 5,
    VKF_ACTIVATION_SIGMOID = 6,
    VKF_ACTIVATION_GELU_QUICK = 7,   /**< x · sigmoid(1.702 x) */
    VKF_ACTIVATION_RELU_SQUARED = 8, /**< max(x, 0)² (So et al. 2021) */
    VKF_ACTIVATION_MAX_ENUM = 0x7FFFFFFF
} vkf_activation;
/** The name: "gelu_tanh". Never null. Thread-safe. */
VKFORMER_API const char* vkf_activation_string(vkf_activation activation);

/** Errors: VKF_ERROR_OUT_OF_HOST_MEMORY. */
VKFORMER_API vkf_result vkf_graph_create(vkf_graph** graph);
VKFORMER_API void vkf_graph_destroy(vkf_graph* graph);

/**
 * A tensor that the caller writes before each run. Row-major; `shape` has `rank` sizes, 1 ≤ rank ≤ VKF_MAX_RANK. Names
 * are unique, and UTF-8. Errors: VKF_ERROR_INVALID_ARGUMENT, VKF_ERROR_SHAPE_MISMATCH.
 */
VKFORMER_API vkf_result vkf_graph_input(vkf_graph* graph, const char* name, vkf_dtype dtype, uint32_t rank,
                                        const uint64_t* shape, vkf_value* value);
/**
 * A constant of float32 numbers, copied by the call; stored as `dtype`, rounded as vkf_quantize does. Errors as above.
 */
VKFORMER_API vkf_result vkf_graph_weight(vkf_graph* graph, const char* name, vkf_dtype dtype, uint32_t rank,
                                         const uint64_t* shape, const float* numbers, vkf_value* value);
/**
 * A constant of that dtype already, copied by the call: `bytes` little-endian, row after row; of a block format the
 * blocks of a GGUF file. Errors as above.
 */
VKFORMER_API vkf_result vkf_graph_constant(vkf_graph* graph, const char* name, vkf_dtype dtype, uint32_t rank,
                                           const uint64_t* shape, const void* data, size_t bytes, vkf_value* value);
/**
 * `count` float32 numbers, one whole row or several, as `dtype`: VKF_BF16 or a block format. *bytes is the capacity of
 * `data` before and the size after; `data` may be null to ask for it. Errors: VKF_ERROR_UNSUPPORTED_DTYPE,
 * VKF_ERROR_INVALID_ARGUMENT (count is no multiple of the block, or data is too short). Thread-safe.
 */
VKFORMER_API vkf_result vkf_quantize(vkf_dtype dtype, size_t count, const float* numbers, size_t* bytes, void* data);
/**
 * The numbers that `bytes` of VKF_BF16 or of a block format stand for; `count` is how many. Errors as above.
 * Thread-safe.
 */
VKFORMER_API vkf_result vkf_dequantize(vkf_dtype dtype, size_t bytes, const void* data, size_t count, float* numbers);
/** The tensor can be read after a run, under this name. Errors: VKF_ERROR_INVALID_ARGUMENT. */
VKFORMER_API vkf_result vkf_graph_output(vkf_graph* graph, vkf_value value, const char* name);

typedef struct vkf_attention_options {
    uint32_t struct_size;
    float scale;           /**< of the scores; 0: 1 / sqrt(head_dim) */
    VkBool32 causal;       /**< query i sees the keys 0 to i */
    uint32_t window;       /**< keys further back than this are not seen; 0: all are */
    float soft_cap;        /**< scores become c · tanh(score / c); 0: they stay */
    vkf_value key_lengths; /**< i32 [batch]: how many keys of each sequence count; 0: all do */
    /**
     * the softmax, [batch, heads, query_len, key_len], becomes an output of this name, which no other tensor has; null:
     * it is never in memory (fused)
     */
    const char* weights_output;
    /** i32 [batch]: position of each sequence's first query, for causal and window; 0: all are at 0 */
    vkf_value starts;
    /** f32 [batch or 1, heads or 1, query_len or 1, key_len]: added to the scores after soft_cap; 0: nothing is */
    vkf_value bias;
    /**
     * > 0, and query_len 1: decode attention, for one query and many keys (Dao et al. 2023). Parts of so many keys are
     * summed each by itself, then together. Not with weights_output
     */
    uint32_t split_keys;
} vkf_attention_options;
#define VKF_ATTENTION_OPTIONS_INIT \
    { sizeof(vkf_attention_options), 0.0f, VK_FALSE, 0, 0.0f, 0, NULL, 0, 0, 0 }

/**
 * softmax(query · keyᵀ · scale + mask) · value (Vaswani et al. 2017, eq. 1). query [batch, query_len, heads,
 * head_dim], key [batch, key_len, kv_heads, head_dim], value [batch, key_len, kv_heads, value_dim]; one dtype of f32,
 * f16; heads is a multiple of kv_heads; head_dim and value_dim up to 576. Gives [batch, query_len, heads, value_dim].
 * A query whose keys are all masked gives zeros. `options` may be null. Errors: VKF_ERROR_SHAPE_MISMATCH,
 * VKF_ERROR_UNSUPPORTED_DTYPE, VKF_ERROR_INVALID_ARGUMENT.
 */
VKFORMER_API vkf_result vkf_graph_attention(vkf_graph* graph, vkf_value query, vkf_value key, vkf_value value,
                                            const vkf_attention_options* options, vkf_value* result);
/**
 * x · weightᵀ + bias: x […, in], weight [out, in], bias [out] or 0, all of x's dtype; the weight may also be bf16, of a
 * block format, or with x f32 f16, `in` a multiple of 32 and of the block. Gives […, out]. Errors as above.
 */
VKFORMER_API vkf_result vkf_graph_linear(vkf_graph* graph, vkf_value x, vkf_value weight, vkf_value bias,
                                         vkf_value* result);
/**
 * (x − mean) / sqrt(variance + eps) · gain + bias over the last dimension (Ba et al. 2016); gain, bias [dim]. Errors
 * as above.
 */
VKFORMER_API vkf_result vkf_graph_layer_norm(vkf_graph* graph, vkf_value x, vkf_value gain, vkf_value bias, float eps,
                                             vkf_value* result);
/**
 * gain · x / sqrt(mean(x²) + eps) over the last dimension (Zhang and Sennrich 2019); gain [dim], or [groups, dim] for
 * x […, groups, dim]. Errors as above.
 */
VKFORMER_API vkf_result vkf_graph_rms_norm(vkf_graph* graph, vkf_value x, vkf_value gain, float eps, vkf_value* result);
/** x + y, equal shapes. Errors as above. */
VKFORMER_API vkf_result vkf_graph_add(vkf_graph* graph, vkf_value x, vkf_value y, vkf_value* result);
/** f(x), element by element. Errors as above. */
VKFORMER_API vkf_result vkf_graph_activation(vkf_graph* graph, vkf_value x, vkf_activation activation,
                                             vkf_value* result);
/**
 * f(gate) · up, element by element (Shazeer 2020): equal shapes; with up 0, gate […, 2 · width] has both, the gates
 * first, and the result is […, width]. VKF_ACTIVATION_NONE gives gate · up. Errors as above.
 */
VKFORMER_API vkf_result vkf_graph_gated_activation(vkf_graph* graph, vkf_value gate, vkf_value up,
                                                   vkf_activation activation, vkf_value* result);
/** cap · tanh(x / cap), element by element; cap > 0. Errors as above. */
VKFORMER_API vkf_result vkf_graph_soft_cap(vkf_graph* graph, vkf_value x, float cap, vkf_value* result);
/** [x | y] along the last dimension; all others are equal. Errors as above. */
VKFORMER_API vkf_result vkf_graph_concat(vkf_graph* graph, vkf_value x, vkf_value y, vkf_value* result);
/** softmax over the last dimension of x, f32. Errors as above. */
VKFORMER_API vkf_result vkf_graph_softmax(vkf_graph* graph, vkf_value x, vkf_value* result);
/**
 * scale · table[tokens]: tokens i32, 1 to 3 dimensions, table [vocab, dim] f32, f16, bf16 or of a block format (then a
 * multiple of 32 and of the block wide). Gives tokens' shape and dim, of the table's dtype, f32 where that is of
 * weights alone. A token outside the table gives NaN. Errors as above.
 */
VKFORMER_API vkf_result vkf_graph_embedding(vkf_graph* graph, vkf_value tokens, vkf_value table, float scale,
                                            vkf_value* result);

/** Which two elements of a head are pair k. */
typedef enum vkf_rope_pairing {
    VKF_ROPE_HALVES = 0,      /**< k and k + rotary_dim / 2: GPT-NeoX, Llama as Hugging Face stores it */
    VKF_ROPE_INTERLEAVED = 1, /**< 2k and 2k + 1: Su et al. 2021, GPT-J */
    VKF_ROPE_PAIRING_MAX_ENUM = 0x7FFFFFFF
} vkf_rope_pairing;
/**
 * Rotary positions (Su et al. 2021, eq. 34): pairs (u, v) of x [batch, len, heads, head_dim] become (u cos − v sin, v
 * cos + u sin) of the angle at their position, starts[b] + i. table f32 [positions, rotary_dim]: a row is the cosines
 * of the pairs, then the sines; rotary_dim is even, elements of a head behind it stay. starts i32 [batch] or 0: from
 * position 0. A position outside the table gives NaN. Errors as above.
 */
VKFORMER_API vkf_result vkf_graph_rope(vkf_graph* graph, vkf_value x, vkf_value table, vkf_value starts,
                                       vkf_rope_pairing pairing, vkf_value* result);
/** The same elements in another shape. Errors as above. */
VKFORMER_API vkf_result vkf_graph_reshape(vkf_graph* graph, vkf_value x, uint32_t rank, const uint64_t* shape,
                                          vkf_value* result);
/** The tensor of that name: an input, or what an output or weights_output names. Errors: VKF_ERROR_INVALID_ARGUMENT. */
VKFORMER_API vkf_result vkf_graph_find(const vkf_graph* graph, const char* name, vkf_value* value);
typedef struct vkf_tensor vkf_tensor;
/** Dtype, shape and bytes of a tensor of the graph, which lies nowhere yet. Errors: VKF_ERROR_INVALID_ARGUMENT. */
VKFORMER_API vkf_result vkf_graph_query(const vkf_graph* graph, vkf_value value, vkf_tensor* tensor);

/* ---- Programs: graphs and models, recorded for a device --------------------------------------------------------- */

/**
 * A forward pass with its pipelines, descriptor sets and memory: ready to be recorded or submitted, again and again.
 */
typedef struct vkf_program vkf_program;

/**
 * A range of a buffer of the application, for a tensor, which has one at most. It is used in place where it has no gaps,
 * else copied by a shader; so is, float32 and int32 only, all but the first of outputs that are one tensor in several
 * shapes (vkf_graph_reshape).
 */
typedef struct vkf_buffer_binding {
    const char* tensor; /**< name of an input or output */
    /** with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT; for vkf_program_write and _read also TRANSFER_DST and _SRC */
    VkBuffer buffer;
    VkDeviceSize offset; /**< bytes; a multiple of minStorageBufferOffsetAlignment */
    VkDeviceSize size;   /**< bytes of the range */
    /**
     * elements between neighbours along each dimension, as many as the rank; null: row-major, without gaps. Float32
     * and int32 only. An input's may be 0 (the same element again), an output's lead no two elements to one place, and
     * what lies between them stays as it is
     */
    const uint64_t* strides;
} vkf_buffer_binding;

/**
 * An image of the application that is read as a tensor f32 [1, 3, height, width] (or [1, 1, …]): every pixel of the
 * tensor is interpolated bilinearly, then (value − mean) / deviation per channel.
 */
typedef struct vkf_image_binding {
    const char* tensor;   /**< name of the input */
    VkImageView view;     /**< 2D, a float or normalised format */
    VkImageLayout layout; /**< in which it is when the program runs: SHADER_READ_ONLY_OPTIMAL or GENERAL */
    float mean[3], deviation[3];
    /**
     * VK_FORMAT_UNDEFINED: the image has VK_IMAGE_USAGE_SAMPLED_BIT. Else it is a storage image (VK_IMAGE_USAGE_STORAGE_BIT)
     * and the view's format is this one: R8G8B8A8_UNORM, R16G16B16A16_SFLOAT or R32G32B32A32_SFLOAT; the layout is GENERAL
     */
    VkFormat storage_format;
} vkf_image_binding;

typedef struct vkf_program_options {
    uint32_t struct_size;
    uint32_t buffer_count;
    const vkf_buffer_binding* buffers;
    uint32_t image_count;
    const vkf_image_binding* images;
} vkf_program_options;
#define VKF_PROGRAM_OPTIONS_INIT \
    { sizeof(vkf_program_options), 0, NULL, 0, NULL }

/**
 * Compiles a graph for a device: pipelines are made, weights uploaded, memory allocated, here and never later. The
 * graph is spent and can only be destroyed, also after an error. May run on any thread. `options` may be null. Errors:
 * VKF_ERROR_MISSING_FEATURE, VKF_ERROR_OUT_OF_DEVICE_MEMORY, VKF_ERROR_INVALID_ARGUMENT (a binding that does not fit),
 * VKF_ERROR_DEVICE_LOST, VKF_ERROR_VULKAN.
 */
VKFORMER_API vkf_result vkf_program_create(vkf_device* device, vkf_graph* graph, const vkf_program_options* options,
                                           vkf_program** program);
/** Waits for what vkformer submitted of it; what the caller submitted must be done. Null is allowed. */
VKFORMER_API void vkf_program_destroy(vkf_program* program);

struct vkf_tensor {
    uint32_t struct_size;
    vkf_dtype dtype;
    uint32_t rank;
    uint64_t shape[VKF_MAX_RANK];
    VkBuffer buffer;     /**< vkformer's, or that of a binding */
    VkDeviceSize offset; /**< bytes */
    VkDeviceSize bytes;
    void* mapped;               /**< where the host sees it; null without unified memory, and for bindings */
    VkDeviceMemory memory;      /**< the buffer's, to be exported (vkGetMemoryFdKHR); null for bindings */
    VkDeviceSize memory_offset; /**< bytes: where in it the buffer begins */
};
#define VKF_TENSOR_INIT \
    { sizeof(vkf_tensor), VKF_F32, 0, {0, 0, 0, 0}, VK_NULL_HANDLE, 0, 0, NULL, VK_NULL_HANDLE, 0 }

/**
 * Where an input or output lies: for shaders of the application that write or read it. Errors:
 * VKF_ERROR_INVALID_ARGUMENT.
 */
VKFORMER_API vkf_result vkf_program_tensor(const vkf_program* program, const char* name, vkf_tensor* tensor);
/** The names of inputs and outputs by index, null behind the last. Valid while the program lives. */
VKFORMER_API const char* vkf_program_tensor_name(const vkf_program* program, uint32_t index);

/** What runs a node of a program. Strings are valid while the program lives. */
typedef struct vkf_node {
    const char* name;
    const char* op;
    const char* variant; /**< empty on VKF_DEVICE_CPU */
} vkf_node;
/** The nodes in the order in which they run, *count of them; nodes may be null to ask for the count. VKF_INCOMPLETE. */
VKFORMER_API vkf_result vkf_program_nodes(const vkf_program* program, uint32_t* count, vkf_node* nodes);

/**
 * Records one run into the application's command buffer, primary or secondary, which is in the recording state,
 * outside a render pass, of the queue family that the device was adopted with. The recording may be submitted any
 * number of times, one after the other, while the program lives.
 *
 * Barriers: it begins with one that makes compute, transfer and host writes before it visible to it, and ends with one
 * that makes its results visible to compute, transfer and host reads. Who reads them in another stage (a fragment
 * shader) adds a barrier from VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT / VK_ACCESS_SHADER_WRITE_BIT to it. Inputs that a
 * graphics stage writes likewise. Clobbers: the compute pipeline, compute descriptor set 0, the compute push
 * constants; nothing of graphics. Allocates nothing, waits for nothing, cannot fail but for null arguments
 * (VKF_ERROR_INVALID_ARGUMENT) and on VKF_DEVICE_CPU (VKF_ERROR_MISSING_FEATURE).
 */
VKFORMER_API vkf_result vkf_program_record(const vkf_program* program, VkCommandBuffer commands);

/** What a submission waits for before it starts, what it signals when it is done, and who may end it. */
typedef struct vkf_submit_info {
    uint32_t struct_size;
    uint32_t wait_count;
    const VkSemaphore* wait_semaphores; /**< timeline semaphores, as those that it signals */
    const uint64_t* wait_values;
    uint32_t signal_count;
    const VkSemaphore* signal_semaphores;
    const uint64_t* signal_values;
    /**
     * with VKF_DEVICE_CPU asked before each op, on the thread of the call; other than VK_FALSE ends it with
     * VKF_ERROR_CANCELLED: outputs are then undefined, and states hold what the ops before it wrote. Null: nobody is
     * asked. A GPU's submissions return before they are done, and are not asked about. Not for vkf_session_step
     */
    VkBool32 (*should_stop)(void* user);
    void* stop_user;
} vkf_submit_info;
#define VKF_SUBMIT_INFO_INIT \
    { sizeof(vkf_submit_info), 0, NULL, NULL, 0, NULL, NULL, NULL, NULL }

/**
 * Submits one run to the device's queue, under the application's lock, and returns. A GPU gets a long run in several
 * submissions of some 50 ms. On a device of vkformer's own the first run of a program that may be long, unless it waits
 * for semaphores, returns when it is done, for its parts are measured. `info` may be null. *ticket, which may be null,
 * is for vkf_device_wait. Errors: VKF_ERROR_MISSING_FEATURE (a device without a queue), VKF_ERROR_DEVICE_LOST,
 * VKF_ERROR_VULKAN, VKF_ERROR_CANCELLED (should_stop), out of memory (recording anew, or compiling what a cut needs).
 */
VKFORMER_API vkf_result vkf_program_submit(vkf_program* program, const vkf_submit_info* info, uint64_t* ticket);
/**
 * Waits until the submission of `ticket` and all before it on this device are done; with a time-out of 0 it only looks.
 * VKF_SUCCESS, VKF_NOT_READY (0) or VKF_TIMEOUT. Errors: VKF_ERROR_DEVICE_LOST, VKF_ERROR_VULKAN. Thread-safe.
 */
VKFORMER_API vkf_result vkf_device_wait(vkf_device* device, uint64_t ticket, uint64_t timeout_ns);

/**
 * Host → tensor, the whole of it, in its dtype; `bytes` is vkf_tensor::bytes. Work that vkformer submitted is waited
 * for; work of the caller must be done. Without unified memory it submits a copy and waits (a queue is needed).
 * Errors: VKF_ERROR_INVALID_ARGUMENT, VKF_ERROR_SHAPE_MISMATCH (bytes), VKF_ERROR_MISSING_FEATURE,
 * VKF_ERROR_DEVICE_LOST, VKF_ERROR_VULKAN.
 */
VKFORMER_API vkf_result vkf_program_write(vkf_program* program, const char* name, const void* data, size_t bytes);
/** Tensor → host, likewise. */
VKFORMER_API vkf_result vkf_program_read(vkf_program* program, const char* name, void* data, size_t bytes);

/* ---- Models ----------------------------------------------------------------------------------------------------- */

/**
 * A model's files, opened for a device: config, tokenizer, memory-mapped weights. Weights go to the device with the
 * first program or session that needs them, and are shared by all of them.
 */
typedef struct vkf_model vkf_model;

typedef enum vkf_model_kind {
    VKF_MODEL_DECODER = 0,         /**< continues text */
    VKF_MODEL_ENCODER_DECODER = 1, /**< reads a text, writes another */
    VKF_MODEL_ENCODER = 2,         /**< turns a text into vectors */
    VKF_MODEL_VISION = 3,          /**< turns an image into vectors, or into labels */
    VKF_MODEL_KIND_MAX_ENUM = 0x7FFFFFFF
} vkf_model_kind;
/** The name: "decoder". Never null. Thread-safe. */
VKFORMER_API const char* vkf_model_kind_string(vkf_model_kind kind);

/**
 * `path`: a Hugging Face folder, or a GGUF file of a decoder. Touches no device memory. May take seconds; may run on
 * any thread. Errors: VKF_ERROR_FILE_NOT_FOUND, VKF_ERROR_CORRUPT_FILE, VKF_ERROR_UNSUPPORTED_CONFIG,
 * VKF_ERROR_UNSUPPORTED_DTYPE (a tensor's), VKF_ERROR_MISSING_TENSOR, VKF_ERROR_SHAPE_MISMATCH.
 */
VKFORMER_API vkf_result vkf_model_load(vkf_device* device, const char* path, vkf_model** model);
/**
 * The same for a decoder with low-rank adapters (LoRA) beside its weights, which stay as they are: folders of PEFT's for a
 * model in a folder, GGUF files for one in a GGUF file. Each sequence of a session says which of them count
 * (vkf_session_set_adapters); a model with adapters has sessions and no passes. Errors: as vkf_model_load, of the adapters
 * too; VKF_ERROR_UNSUPPORTED_CONFIG (another kind of model, an adapter that changes what cannot be changed),
 * VKF_ERROR_INVALID_ARGUMENT (a path that is null).
 */
VKFORMER_API vkf_result vkf_model_load_adapted(vkf_device* device, const char* path, uint32_t adapter_count,
                                               const char* const* adapters, vkf_model** model);
/**
 * What the model's files say that was passed over because nobody knows what it does: fields, keys and tensors, a sentence
 * each, from 0 on; null behind the last, so at once for files that are understood to the last field. UTF-8, valid as long as
 * the model. Whoever wants no others refuses a model that has some. Thread-safe.
 */
VKFORMER_API const char* vkf_model_note(const vkf_model* model, uint32_t index);
/** Null is allowed. Sessions and programs of it keep what they need. */
VKFORMER_API void vkf_model_destroy(vkf_model* model);

typedef struct vkf_model_properties {
    uint32_t struct_size;
    vkf_model_kind kind;
    uint32_t vocab_size; /**< tokens are 0 … vocab_size − 1, of an encoder–decoder's target too; 0: it sees images */
    uint32_t source_vocab;   /**< of an encoder–decoder's source; 0 for others */
    uint32_t max_len;        /**< tokens of a sequence at most, of an encoder–decoder's target, start token
                              included; 0: it sees images */
    uint32_t max_source_len; /**< of an encoder–decoder's source; 0 for others */
    int32_t start_token;     /**< that an encoder–decoder's target begins with; -1: none */
    int32_t end_token;       /**< that ends a sequence (the first of several), itself delivered; -1: none */
    /* Of vision models; 0 for others. */
    uint32_t labels; /**< outputs of the classification head; 0: there is none */
    uint32_t image_height, image_width; /**< of a model that takes any size (DINO), what its preprocessor_config.json makes */
    uint32_t patch_rows, patch_columns; /**< a token each, row by row, after the special tokens */
    uint32_t special_tokens;            /**< the class token, DeiT's distillation token, DINO's registers */
} vkf_model_properties;
#define VKF_MODEL_PROPERTIES_INIT \
    { sizeof(vkf_model_properties), VKF_MODEL_DECODER, 0, 0, 0, 0, -1, -1, 0, 0, 0, 0, 0, 0 }
/** Thread-safe. */
VKFORMER_API vkf_result vkf_model_query(const vkf_model* model, vkf_model_properties* properties);
/**
 * A label's name, as the model's config.json has it ("LABEL_3" where it has none); UTF-8, zero-terminated. *bytes is the
 * capacity of `name` before and the size after, the zero included; `name` may be null to ask for it. VKF_INCOMPLETE where
 * it was too short: then `name` has as many whole characters as fit, and the zero. Errors:
 * VKF_ERROR_INVALID_ARGUMENT (no such label).
 */
VKFORMER_API vkf_result vkf_model_label(const vkf_model* model, uint32_t label, size_t* bytes, char* name);

/**
 * Text (UTF-8, `text_bytes` long) → token ids, the tokenizer's special tokens included. *count is the capacity of
 * `tokens` before and the number written after; `tokens` may be null to ask how many there are. VKF_INCOMPLETE where
 * the array was too short. Errors: VKF_ERROR_INVALID_ARGUMENT.
 */
VKFORMER_API vkf_result vkf_model_tokenize(const vkf_model* model, const char* text, size_t text_bytes, size_t* count,
                                           int32_t* tokens);
/**
 * What vkf_image_binding takes for a vision model, by its preprocessor_config.json; 0 and 1 where it has none. Errors:
 * VKF_ERROR_INVALID_ARGUMENT.
 */
VKFORMER_API vkf_result vkf_model_image_normalization(const vkf_model* model, float mean[3], float deviation[3]);
/**
 * The piece of text that a token stands for, as the vocabulary spells it; UTF-8, zero-terminated. Sizes as for
 * vkf_model_label. Errors: VKF_ERROR_INVALID_ARGUMENT (no such token).
 */
VKFORMER_API vkf_result vkf_model_piece(const vkf_model* model, int32_t token, size_t* bytes, char* piece);

typedef struct vkf_pass_info {
    uint32_t struct_size;
    uint32_t source_len;        /**< tokens that an encoder–decoder's encoder reads */
    uint32_t target_len;        /**< tokens that its decoder reads; the whole length for other models */
    vkf_dtype dtype;            /**< of the activations: VKF_F32 or VKF_F16 */
    VkBool32 attention_weights; /**< every attention's softmax is an output: "weights/…" */
} vkf_pass_info;
#define VKF_PASS_INFO_INIT \
    { sizeof(vkf_pass_info), 0, 0, VKF_F32, VK_FALSE }
/**
 * One forward pass as a program, batch 1. Its inputs and outputs:
 * - encoder–decoder: "source" i32 [1, source_len], "source_lengths" i32 [1], "target" i32 [1, target_len] → "logits"
 *   f32 [1, target_len, vocab]; attention weights "weights/encoder/L", "weights/decoder/L", "weights/cross/L";
 * - decoder: "tokens" i32 [1, target_len], "starts" i32 [1] (0) → "logits" f32 [target_len, vocab]. A model with LongRoPE
 *   takes the long factors where target_len is above its original context, the short ones else; attention weights
 *   "weights/decoder/L" of the layers that have attention;
 * - encoder: "tokens" i32 [1, target_len], "lengths" i32 [1] → "hidden" [1, target_len, hidden_size]; attention weights
 *   "weights/encoder/L";
 * - vision: "pixels" f32 [1, channels, height, width], normalised (an image can be bound to it) → "hidden" [1, tokens,
 *   hidden_size], the special tokens first, then the patches row by row; "embedding" f32 [1, dimension]; "logits" f32
 *   [1, labels] of a classifier; attention weights "weights/vision/L". Attention weights are f32 [1, heads, query_len,
 *   key_len], L counts layers from 0. Errors: as vkf_program_create, and VKF_ERROR_UNSUPPORTED_CONFIG (adapters;
 *   weights of a model without attention).
 */
VKFORMER_API vkf_result vkf_model_pass(vkf_model* model, const vkf_pass_info* info, const vkf_program_options* options,
                                       vkf_program** program);

/* ---- Sessions: text, token by token, in slices of bounded GPU time ---------------------------------------------- */

/** One sequence that is being generated, with its caches. */
typedef struct vkf_session vkf_session;

/** When a beam search ends that has as many finished answers as beams. */
typedef enum vkf_early_stopping {
    VKF_EARLY_STOPPING_HEURISTIC =
        0, /**< when the best running one scores, at its length now, no better than the worst finished */
    VKF_EARLY_STOPPING_ALWAYS = 1, /**< at once */
    VKF_EARLY_STOPPING_NEVER = 2,  /**< when no running one can become better than the worst finished one */
    VKF_EARLY_STOPPING_MAX_ENUM = 0x7FFFFFFF
} vkf_early_stopping;

/** What is added to a token's logit before one is chosen: −INFINITY forbids the token. */
typedef struct vkf_token_bias {
    int32_t token;
    float bias;
} vkf_token_bias;

typedef struct vkf_session_info {
    uint32_t struct_size;
    /** tokens at most, prompt included; 0: the model's, at most 4096 (an encoder–decoder: tokens of the answer,
     * its start token included) */
    uint32_t context;
    uint32_t source_capacity; /**< an encoder–decoder: tokens of the source at most; 0: 64 */
    /** tokens of a prompt that are computed together: the larger the faster, the coarser the slices; 0: 64 */
    uint32_t chunk;
    vkf_dtype dtype;           /**< of activations, and of caches but for cache_q8_0: VKF_F32 or VKF_F16 */
    VkBool32 weights_as_filed; /**< quantised and 16-bit weights stay what they are */
    float temperature;         /**< 0: the likeliest token, always */
    uint32_t top_k;            /**< 0: all */
    float top_p, min_p;        /**< 1, 0: all */
    uint64_t seed;
    /** keys and values in blocks of 32 with a scale, 8.5 bits an element; decoder-only models with heads of a multiple of
     * 32 elements, others are refused (VKF_ERROR_INVALID_ARGUMENT) */
    VkBool32 cache_q8_0;
    float length_penalty; /**< of a beam search, −100 to 100: an answer of n tokens scores Σ log p / n^length_penalty */
    vkf_early_stopping early_stopping; /**< of a beam search */
    /** 2 to 32: a beam search by the rules of Hugging Face's generate(), for the likeliest whole answer in place of the
     * likeliest next token: so many sequences are continued side by side, and their caches take so many times the memory.
     * It may end anywhere, so that its tokens, its text and its score come all at once, when the state is
     * VKF_SESSION_DONE; until then there are none, and slices complete no tokens. temperature must be 0. 1: no search.
     * 0: what the model's files say, length_penalty and early_stopping too. */
    uint32_t beams;
    /* The rules of Hugging Face's generate(). What the model's files say of them besides (suppressed and forced tokens, bad
     * words) holds for every session. */
    /** > 1: a token that the prompt or the answer has becomes less likely, by this factor; a decoder-only model's. 1: none.
     * 0: what the model's files say */
    float repetition_penalty;
    float presence_penalty;  /**< taken from the logit of a token that the answer has; a decoder-only model's */
    float frequency_penalty; /**< the same for each time that it has it */
    /** no run of so many tokens comes twice, the prompt of a decoder-only model counted. 0: what the model's files say,
     * VKF_NO_RULE: any */
    uint32_t no_repeat_ngram;
    /** so many tokens come before one that ends the answer. 0: what the model's files say, VKF_NO_RULE: any */
    uint32_t min_tokens;
    const vkf_token_bias* biases; /**< read during the call; they take the place of the files' for their tokens */
    uint32_t bias_count;
} vkf_session_info;
#define VKF_NO_RULE 0xFFFFFFFFu
#define VKF_SESSION_INFO_INIT                                                                        \
    {                                                                                                \
        sizeof(vkf_session_info), 0, 0, 0, VKF_F32, VK_TRUE, 0.0f, 0, 1.0f, 0.0f, 0, VK_FALSE, 1.0f, \
            VKF_EARLY_STOPPING_HEURISTIC, 1, 0.0f, 0.0f, 0.0f, 0, 0, 0, 0                            \
    }

/** Bytes of device memory that a session takes. */
typedef struct vkf_session_memory {
    uint32_t struct_size;
    uint64_t weights; /**< shared by the model's sessions of the same dtype */
    uint64_t states;  /**< key/value caches, tokens */
    uint64_t activations;
    uint64_t total; /**< with what rounding and staging add */
} vkf_session_memory;
#define VKF_SESSION_MEMORY_INIT \
    { sizeof(vkf_session_memory), 0, 0, 0, 0 }
/** What vkf_session_create would take. Allocates nothing on the device. Errors: as there, but for the device's. */
VKFORMER_API vkf_result vkf_session_query_memory(vkf_model* model, const vkf_session_info* info,
                                                 vkf_session_memory* memory);

/**
 * Told by the calling thread how much is done, in shares of the whole work: `done` grows from call to call, and is `total`
 * at the last one.
 */
typedef void (*vkf_progress_function)(void* user, uint32_t done, uint32_t total);

/**
 * Makes everything that a session will need: weights on the device, pipelines, caches. Afterwards nothing of it
 * compiles, allocates device memory or waits for the device, but where a function says so. On a device with a queue
 * everything is run twice, so that drivers that compile at the first dispatch have done so and slices are known from
 * the start, and once more where dispatches take over a millisecond and are to be cut. May run on any thread, while
 * others render. A session that does not fit the budget is refused before anything is allocated. `progress` may be null. Errors: VKF_ERROR_OUT_OF_DEVICE_MEMORY, VKF_ERROR_INVALID_ARGUMENT,
 * VKF_ERROR_MISSING_FEATURE, VKF_ERROR_UNSUPPORTED_CONFIG, VKF_ERROR_DEVICE_LOST, VKF_ERROR_VULKAN.
 */
VKFORMER_API vkf_result vkf_session_create(vkf_model* model, const vkf_session_info* info,
                                           vkf_progress_function progress, void* progress_user, vkf_session** session);
/** As vkf_program_destroy. */
VKFORMER_API void vkf_session_destroy(vkf_session* session);

typedef enum vkf_session_state {
    VKF_SESSION_IDLE = 0,   /**< nothing to do: before the first begin, after a cancel */
    VKF_SESSION_PROMPT = 1, /**< the prompt is being read */
    VKF_SESSION_GENERATING = 2,
    VKF_SESSION_DONE = 3,    /**< the end token, the limit or the end of the context was reached, or VKF_ERROR_NOT_A_NUMBER */
    VKF_SESSION_EVICTED = 4, /**< see vkf_session_evict */
    VKF_SESSION_STATE_MAX_ENUM = 0x7FFFFFFF
} vkf_session_state;
/** The name: "generating". Never null. Thread-safe. */
VKFORMER_API const char* vkf_session_state_string(vkf_session_state state);

/**
 * Starts a new sequence. `tokens`: the prompt, or an encoder–decoder's source, as vkf_model_tokenize gives it;
 * max_tokens are generated at most, 0: until the end. What a prompt shares with the sequence before is not computed
 * again. Slices of the sequence before must be done (vkf_session_retire). Errors: VKF_ERROR_INVALID_ARGUMENT (none or
 * too many tokens, unknown ones, slices outstanding).
 */
VKFORMER_API vkf_result vkf_session_begin(vkf_session* session, const int32_t* tokens, size_t count,
                                          uint32_t max_tokens);
/**
 * How much each adapter of the model counts in the sequences that begin from now on, in the order of
 * vkf_model_load_adapted, -1000 to 1000; 1: as it was trained, 0: not at all, as all of them do until this is called; they are
 * computed all the same. A sequence that begins with others than the one before computes all of its prompt. Errors: VKF_ERROR_INVALID_ARGUMENT
 * (not a scale for each adapter, or one out of its range).
 */
VKFORMER_API vkf_result vkf_session_set_adapters(vkf_session* session, uint32_t count, const float* scales);

/** What a slice is. */
typedef struct vkf_slice {
    uint32_t struct_size;
    uint64_t ticket; /**< for vkf_session_retire, rising; 0: nothing was recorded, for there is nothing to do */
    uint32_t dispatches;
    uint32_t tokens;    /**< that this slice completes; they can be read once it is retired. With beams 0 */
    double expected_us; /**< device time that it is expected to take */
    VkBool32 exceeds;   /**< one dispatch, which cannot be cut shorter, is expected to take more than was allowed */
} vkf_slice;
#define VKF_SLICE_INIT \
    { sizeof(vkf_slice), 0, 0, 0, 0.0, VK_FALSE }

/**
 * Records the next slice of the sequence into the application's command buffer: as many dispatches, the last of which
 * may be cut between its workgroups, as are expected to take at most max_gpu_us microseconds of device time, by what
 * slices before took (timestamps, where the queue has them; else eight dispatches); 0: as many as make the next token
 * complete, or the next step of a beam search. Each recording is submitted once, all of them in the order of recording.
 * State of the command buffer and barriers: as vkf_program_record. No allocation of device memory, no wait. At most VKF_MAX_SLICES may be recorded and not retired;
 * then VKF_NOT_READY. Errors: VKF_ERROR_INVALID_ARGUMENT (null, evicted).
 */
VKFORMER_API vkf_result vkf_session_record(vkf_session* session, VkCommandBuffer commands, uint32_t max_gpu_us,
                                           vkf_slice* slice);
#define VKF_MAX_SLICES 64

/**
 * Says that the device has executed the slice of `ticket` and all before it: the application has waited for its fence,
 * or for a later one. Their times are learned and their tokens can be read. Tickets of slices that were never
 * submitted: see vkf_session_cancel. Errors: VKF_ERROR_INVALID_ARGUMENT (a ticket that was never given),
 * VKF_ERROR_DEVICE_LOST, VKF_ERROR_VULKAN.
 */
VKFORMER_API vkf_result vkf_session_retire(vkf_session* session, uint64_t ticket);

/**
 * The same through the device's queue: records the next slice into a command buffer of vkformer's own and submits it,
 * under the application's lock. Does not wait. `info` may be null. Slices that are done are retired. Errors: those of
 * vkf_session_record and vkf_program_submit. A session is recorded or stepped, not both at the same time.
 */
VKFORMER_API vkf_result vkf_session_step(vkf_session* session, uint32_t max_gpu_us, const vkf_submit_info* info,
                                         vkf_slice* slice);
/** Waits for the steps so far, and retires them. Results as vkf_device_wait. */
VKFORMER_API vkf_result vkf_session_wait(vkf_session* session, uint64_t timeout_ns);

typedef struct vkf_session_status {
    uint32_t struct_size;
    vkf_session_state state;
    uint32_t prompt_tokens;    /**< of the sequence */
    uint32_t computed_tokens;  /**< of the prompt, in retired slices; those reused included */
    uint32_t generated_tokens; /**< that can be read */
    uint32_t outstanding;      /**< slices recorded and not retired */
    double last_gpu_us;        /**< measured device time of the slice that was retired last; 0: not measured */
    double total_gpu_us;       /**< of the sequence's retired slices */
    float score;               /**< of the answer that a beam search found; else 0 */
} vkf_session_status;
#define VKF_SESSION_STATUS_INIT \
    { sizeof(vkf_session_status), VKF_SESSION_IDLE, 0, 0, 0, 0, 0.0, 0.0, 0.0f }
/** Retires steps that are done (not slices that the caller submitted). */
VKFORMER_API vkf_result vkf_session_poll(vkf_session* session, vkf_session_status* status);

/**
 * The tokens generated so far. Sizes as in vkf_model_tokenize. Also after VKF_ERROR_DEVICE_LOST: prompt and tokens
 * begin a session on a new device.
 */
VKFORMER_API vkf_result vkf_session_tokens(const vkf_session* session, size_t* count, int32_t* tokens);
/**
 * Their text, UTF-8, zero-terminated. While the sequence goes on, what a later token may still change is held back (parts
 * of a character, a space at the end); after the end, and after vkf_session_cancel, it is whole. Asked for every frame it
 * costs what is new. Sizes as for vkf_model_label.
 */
VKFORMER_API vkf_result vkf_session_text(const vkf_session* session, size_t* bytes, char* text);

/**
 * Ends the sequence: nothing more is recorded of it. Slices recorded and never submitted are forgotten; those that
 * were submitted must be done, or are waited for where vkformer submitted them. Tokens and text stay; the state is
 * VKF_SESSION_IDLE, of an evicted session once it is reloaded.
 */
VKFORMER_API vkf_result vkf_session_cancel(vkf_session* session);

/**
 * Frees the session's device memory, and the model's weights if nothing else uses them; tokens stay. All slices must
 * be retired. *freed may be null. Errors: VKF_ERROR_INVALID_ARGUMENT (slices outstanding).
 */
VKFORMER_API vkf_result vkf_session_evict(vkf_session* session, uint64_t* freed);
/**
 * Makes it anew, as vkf_session_create did and in about the same time. The sequence goes on from its tokens, whose keys and
 * values are computed again: until they are, the state is VKF_SESSION_PROMPT. A beam search that was not done begins
 * anew. Tickets go on rising.
 */
VKFORMER_API vkf_result vkf_session_reload(vkf_session* session, vkf_progress_function progress, void* progress_user);

/* ---- Constraints: what a generated text has to be --------------------------------------------------------------- */

/**
 * A rule that every text generated under it fulfils, whatever the model would rather write. It never changes, may be
 * used by several threads and requests at once, and may be destroyed as soon as the requests with it are submitted.
 */
typedef struct vkf_constraint vkf_constraint;

/*
 * The texts that a constraint is made of are zero-terminated UTF-8, read during the call, which takes bounded time and
 * memory whatever they are. Thread-safe. Errors of all four: VKF_ERROR_INVALID_ARGUMENT, whose message says what is
 * wrong, too large or not supported, and where; VKF_ERROR_OUT_OF_HOST_MEMORY.
 */
/**
 * A JSON value that the schema accepts, of draft 2020-12 or an older one: type, enum, const, properties, required,
 * additionalProperties, minProperties, maxProperties, items, prefixItems, minItems, maxItems, minLength, maxLength,
 * pattern, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, anyOf, oneOf of what excludes each other,
 * allOf, $ref within the schema, recursion included. A keyword that would change what is valid and is none of these is
 * refused by name. Members come in the schema's order; those that it does not name come only where it says
 * additionalProperties or names none at all.
 */
VKFORMER_API vkf_result vkf_constraint_json_schema(const char* schema, vkf_constraint** constraint);
/** Any JSON object. */
VKFORMER_API vkf_result vkf_constraint_json(vkf_constraint** constraint);
/**
 * A text that the expression matches as a whole: literals, classes, groups, alternatives, repetitions, in the syntax
 * that JavaScript and Python have in common. Refused are look-around, references to groups, word boundaries and
 * properties of characters.
 */
VKFORMER_API vkf_result vkf_constraint_regex(const char* expression, vkf_constraint** constraint);
/** One of the texts, none of which is empty. */
VKFORMER_API vkf_result vkf_constraint_choice(uint32_t count, const char* const* texts, vkf_constraint** constraint);
/** Null is allowed. */
VKFORMER_API void vkf_constraint_destroy(vkf_constraint* constraint);

/* ---- The engine: texts for many requests at once ---------------------------------------------------------------- */

/**
 * A decoder-only language model on a device of its own, with a thread that runs it: requests join and leave a running
 * batch at every step (continuous batching). What it has is the engine's alone: it takes no vkf_device and no vkf_model.
 * All functions of an engine but vkf_engine_destroy may be called from several threads at once, callbacks included.
 */
typedef struct vkf_engine vkf_engine;

/** A low-rank adapter (LoRA): a folder of PEFT's for a model in a folder, a GGUF file for one in a GGUF file. */
typedef struct vkf_adapter {
    const char* name; /**< by which requests ask for it; each has another */
    const char* path;
} vkf_adapter;

typedef struct vkf_engine_options {
    uint32_t struct_size;
    /**
     * a Vulkan device by index, UUID or part of its name; VKF_DEVICE_CPU; "auto" or null: a GPU, else whichever of the
     * processor and a Vulkan device that is a CPU was measured faster for this model
     */
    const char* device;
    uint32_t sequences; /**< that are decoded together at most, 1 to 64 */
    uint32_t context;   /**< tokens of a sequence at most, prompt included; 0: the model's, at most 4096 */
    /**
     * tokens whose keys and values are kept in all, a beginning that sequences have in common once; rounded up to whole
     * pages of 64, at least `context`, or what the windows of one sequence take where all layers have one. 0: as many as
     * `sequences` of the whole context have, at most 32768, but at least one of these
     */
    uint64_t cache_tokens;
    uint32_t prompt_chunk; /**< tokens of prompts that are read between two steps at most, 16 to 4096 */
    uint32_t queue;        /**< requests that wait at most, 1 or more; a further one is not taken */
    /**
     * > 0: so many tokens of a sequence at most, 64 at most, are guessed from what its prompt and answer have said
     * before, and checked together; texts stay what they are, but for rounding where two tokens tie. 0: none
     */
    uint32_t prompt_lookup;
    vkf_dtype dtype;           /**< of activations, and of caches but for cache_q8_0: VKF_F32 or VKF_F16 */
    VkBool32 weights_as_filed; /**< quantised and 16-bit weights stay what they are */
    VkBool32 cache_q8_0;       /**< as vkf_session_info::cache_q8_0 */
    VkBool32 plain_shaders;    /**< the plain variant of every op; nothing is measured */
    uint32_t adapter_count;
    const vkf_adapter* adapters; /**< loaded beside the weights; each request says which of them count */
    /** variants that come before what was measured, at most one for an op; not for the processor */
    const vkf_variant* named_variants;
    uint32_t named_variant_count;
    /**
     * told by the thread that loads, and by the engine's, what is being done; null: all done. It must not call vkformer,
     * and is called as long as the engine lives. Null: nothing is told
     */
    void (*on_progress)(void* user, const char* message);
    void* user; /**< for on_progress */
    uint64_t offload_bytes; /**< as of vkf_device_options; on_progress is told. The processor passes it over */
} vkf_engine_options;
#define VKF_ENGINE_OPTIONS_INIT                                                                                       \
    {                                                                                                                 \
        sizeof(vkf_engine_options), NULL, 8, 0, 0, 256, 1024, 0, VKF_F32, VK_TRUE, VK_FALSE, VK_FALSE, 0, NULL, NULL, \
            0, NULL, NULL, 0                                                                                          \
    }

/**
 * `path`: a Hugging Face folder, or a GGUF file. `options` may be null. May take seconds; may run on any thread. Weights
 * and caches go to the device with the first request. Errors: those of vkf_model_load_adapted and vkf_device_create;
 * VKF_ERROR_INVALID_ARGUMENT (a number out of its range, a context beyond the model's, two adapters of one name),
 * VKF_ERROR_UNSUPPORTED_CONFIG (the model's generation_config.json asks for what looks back at a sequence).
 */
VKFORMER_API vkf_result vkf_engine_load(const char* path, const vkf_engine_options* options, vkf_engine** engine);
/**
 * Ends what runs and waits, by on_end with VKF_ERROR_CANCELLED, and then the engine's thread. Meanwhile nothing else
 * may be called of the engine, by callbacks neither; itself it is not called by them. Null is allowed.
 */
VKFORMER_API void vkf_engine_destroy(vkf_engine* engine);

typedef struct vkf_engine_properties {
    uint32_t struct_size;
    uint32_t context;           /**< tokens of a sequence at most, prompt included */
    VkBool32 has_tokenizer;     /**< else requests have tokens alone: no texts, no stop texts, no constraints */
    VkBool32 has_chat_template; /**< conversations can be put into words */
} vkf_engine_properties;
#define VKF_ENGINE_PROPERTIES_INIT \
    { sizeof(vkf_engine_properties), 0, VK_FALSE, VK_FALSE }
VKFORMER_API vkf_result vkf_engine_query(const vkf_engine* engine, vkf_engine_properties* properties);
/** Name, type and driver of its device, UTF-8. Valid as long as the engine. Empty for a null engine. */
VKFORMER_API const char* vkf_engine_device(const vkf_engine* engine);
/** The chat template that the model carries, UTF-8; empty where there is none. Valid as long as the engine. */
VKFORMER_API const char* vkf_engine_chat_template(const vkf_engine* engine);
/** As vkf_model_note. Valid as long as the engine. */
VKFORMER_API const char* vkf_engine_note(const vkf_engine* engine, uint32_t index);

/**
 * Text (UTF-8, `text_bytes` long) → token ids, as vkf_model_tokenize. Errors: VKF_ERROR_INVALID_ARGUMENT (not UTF-8),
 * VKF_ERROR_FILE_NOT_FOUND (the model has no tokenizer).
 */
VKFORMER_API vkf_result vkf_engine_tokenize(const vkf_engine* engine, const char* text, size_t text_bytes, size_t* count,
                                            int32_t* tokens);
/** A message of a conversation. Texts are zero-terminated UTF-8. */
typedef struct vkf_message {
    const char* role; /**< "system", "user", "assistant", …: what the model's template knows */
    const char* content;
    const char* further; /**< what else the template knows of a message, as a JSON object; null: nothing */
} vkf_message;
typedef struct vkf_chat_options {
    uint32_t struct_size;
    VkBool32 continues_last;   /**< the last message is the beginning of the answer, which goes on from there */
    const char* variables;     /**< what else the template knows, as a JSON object: {"tools": […]}; null: nothing */
    const char* answer_prefix; /**< what the answer begins with; not with continues_last. Null: nothing */
} vkf_chat_options;
#define VKF_CHAT_OPTIONS_INIT \
    { sizeof(vkf_chat_options), VK_FALSE, NULL, NULL }
/**
 * A conversation, put into words by the chat template that the model carries, → token ids; sizes as in
 * vkf_model_tokenize. Special tokens that a message spells out are read as such. `options` may be null. Errors:
 * VKF_ERROR_INVALID_ARGUMENT (a null or a text that is not UTF-8, JSON that is no object, the template refuses the
 * conversation), VKF_ERROR_FILE_NOT_FOUND (the model has no template), VKF_ERROR_CORRUPT_FILE and
 * VKF_ERROR_UNSUPPORTED_CONFIG (of the template).
 */
VKFORMER_API vkf_result vkf_engine_tokenize_chat(const vkf_engine* engine, uint32_t message_count,
                                                 const vkf_message* messages, const vkf_chat_options* options,
                                                 size_t* count, int32_t* tokens);
/**
 * Token ids → text; sizes as for vkf_model_label. Errors: VKF_ERROR_INVALID_ARGUMENT (a token that the tokenizer does not
 * know), VKF_ERROR_FILE_NOT_FOUND.
 */
VKFORMER_API vkf_result vkf_engine_detokenize(const vkf_engine* engine, const int32_t* tokens, size_t count,
                                              size_t* bytes, char* text);
/**
 * What the token adds to a text: whole characters or some of their bytes; a special token as it is spelled. Empty for one
 * that the tokenizer does not know. Sizes as for vkf_model_label.
 */
VKFORMER_API vkf_result vkf_engine_token_bytes(const vkf_engine* engine, int32_t token, size_t* bytes, char* text);

/** The natural logarithm of a token's probability, of the model's logits before all rules of choosing. */
typedef struct vkf_token_log_prob {
    int32_t token;
    float log_prob;
} vkf_token_log_prob;
/** Of one step. */
typedef struct vkf_step_log_probs {
    vkf_token_log_prob chosen;           /**< the token that was generated, or the prompt's, likely or not */
    const vkf_token_log_prob* likeliest; /**< in falling order, of equal ones the lower token first */
    uint32_t likeliest_count;
} vkf_step_log_probs;

/** Why a generation ended. */
typedef enum vkf_finish {
    VKF_FINISH_END_TOKEN = 0, /**< the model said so, or the constraint's text is whole */
    VKF_FINISH_STOP_STRING = 1, /**< one of vkf_engine_request::stops */
    VKF_FINISH_LENGTH = 2,    /**< vkf_engine_request::max_tokens */
    VKF_FINISH_CONTEXT = 3,   /**< the context is full */
    VKF_FINISH_CALLER = 4,    /**< on_text said so, or vkf_engine_cancel */
    VKF_FINISH_MAX_ENUM = 0x7FFFFFFF
} vkf_finish;
/** The name: "end_token", "stop_string", "length", "context", "caller". Never null. Thread-safe. */
VKFORMER_API const char* vkf_finish_string(vkf_finish finish);

/** What came of a request. Made by vkformer; struct_size says which members it has. */
typedef struct vkf_generation {
    uint32_t struct_size;
    vkf_finish finish;
    const char* text; /**< UTF-8, zero-terminated, what follows the prompt; empty without a tokenizer */
    size_t text_bytes;
    const int32_t* tokens; /**< generated ones, the end token included */
    size_t token_count;
    const vkf_step_log_probs* log_probs; /**< of each of `tokens`; null where the request did not ask */
    uint32_t prompt_tokens;
    uint32_t reused_tokens; /**< of the prompt: they were in the cache */
} vkf_generation;

/** How the next token is chosen. Penalties come first, then the rules in the order of the members. */
typedef struct vkf_sampling {
    uint32_t struct_size;
    float temperature;        /**< logits are divided by it, 1e-4 to 1e4; 0: the likeliest token, always */
    uint32_t top_k;           /**< only the k likeliest; 0: all */
    float top_p;              /**< only the likeliest that make up this share of the probability; 1: all */
    float min_p;              /**< only those at least this share as probable as the likeliest; 0: all */
    float repetition_penalty; /**< as of vkf_session_info, > 0; 1: none */
    float presence_penalty;   /**< taken off the logits of tokens in the answer */
    float frequency_penalty;  /**< taken off likewise, for each time that they are in it */
    uint32_t bias_count;
    const vkf_token_bias* biases; /**< added to a token's logit, before all else; −INFINITY forbids it */
} vkf_sampling;
#define VKF_SAMPLING_INIT \
    { sizeof(vkf_sampling), 0.0f, 0, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0, NULL }

/** How much an adapter of the engine counts, -1000 to 1000; 1: as it was trained. */
typedef struct vkf_adapter_scale {
    const char* name;
    float scale;
} vkf_adapter_scale;

/**
 * What is asked of an engine. Callbacks are called on the engine's thread, which waits for them; null ones are not called.
 * What they are handed is valid during the call. They must not throw, and not call vkf_engine_wait or vkf_engine_destroy.
 */
typedef struct vkf_engine_request {
    uint32_t struct_size;
    uint32_t max_tokens; /**< to generate at most; 0: what the model's files say, else until the model ends or the context is full */
    const int32_t* prompt; /**< as vkf_engine_tokenize or vkf_engine_tokenize_chat gives it */
    size_t prompt_count;
    /** to generate before an end token is chosen. 0: what the model's files say, VKF_NO_RULE: any. Not with a constraint */
    uint32_t min_tokens;
    uint32_t stop_count;
    const char* const* stops; /**< texts that end it, not part of its text. None: what the model's files say */
    const vkf_sampling* sampling; /**< null: what the model's files say, else the likeliest token */
    uint64_t seed;
    VkBool32 ignore_end;    /**< the model's end token ends nothing; not with a constraint */
    VkBool32 shows_special; /**< the text has special tokens, too, but for the end token */
    /**
     * What the text has to be; null: anything. It ends where it is whole and nothing may follow, or where the model ends
     * it and it is whole; only a limit or a stop text cuts it.
     */
    const vkf_constraint* constraint;
    const vkf_adapter_scale* adapters; /**< those that count; none: the model alone */
    uint32_t adapter_count;
    VkBool32 log_probs; /**< how likely the model found each token that was generated */
    uint32_t likeliest; /**< with it alone: so many of the likeliest tokens in its place, 0 to 20 */
    /** the same for the prompt's tokens but the first. All of the prompt is then computed, whatever of it is in the cache */
    VkBool32 prompt_log_probs;
    uint32_t prompt_likeliest;
    VkBool32 is_prompt_alone; /**< with prompt_log_probs and without a constraint: nothing is generated */
    void* user;               /**< for the callbacks */
    /**
     * Told what can be printed after each token: whole characters, which no later token changes, `bytes` of them and a
     * zero; may be empty. What was held back until the end comes once more, with token -1. VK_FALSE ends the generation.
     */
    VkBool32 (*on_text)(void* user, const char* text, size_t bytes, int32_t token);
    /** Told of each token before on_text is, with log_probs. */
    void (*on_log_probs)(void* user, const vkf_step_log_probs* step);
    /** Told once before any token, with prompt_log_probs: of each token of the prompt but the first. */
    void (*on_prompt)(void* user, size_t count, const vkf_step_log_probs* steps);
    /**
     * Told once, last of all: VKF_SUCCESS and the generation, or null and what went wrong (VKF_ERROR_CANCELLED: the engine
     * is destroyed; VKF_ERROR_NOT_A_NUMBER; errors of the device), for which vkf_error_message() has words.
     */
    void (*on_end)(void* user, vkf_result result, const vkf_generation* generation);
} vkf_engine_request;
#define VKF_ENGINE_REQUEST_INIT                                                                                      \
    {                                                                                                                \
        sizeof(vkf_engine_request), 0, NULL, 0, 0, 0, NULL, NULL, 0, VK_FALSE, VK_FALSE, NULL, NULL, 0, VK_FALSE, 0, \
            VK_FALSE, 0, VK_FALSE, NULL, NULL, NULL, NULL, NULL                                                      \
    }

/**
 * Puts a request behind those that wait; does not wait itself. Its answer is that of the same request alone, whatever runs
 * beside it, but for the rounding of other variants. *id, which may be null, is for vkf_engine_cancel and
 * vkf_engine_wait, and never 0; callbacks may come before the call returns. VKF_NOT_READY where the queue is full: the
 * request was not taken, and its callbacks are not called, nor after an error. Errors: VKF_ERROR_INVALID_ARGUMENT (no
 * prompt, one longer than the context, an unknown token or adapter, a number out of its range, a text that is not UTF-8,
 * what excludes each other), VKF_ERROR_FILE_NOT_FOUND (stop texts or a constraint, and no tokenizer),
 * VKF_ERROR_UNSUPPORTED_CONFIG (a tokenizer whose texts cannot be constrained), that of vkf_engine_failure.
 */
VKFORMER_API vkf_result vkf_engine_submit(vkf_engine* engine, const vkf_engine_request* request, uint64_t* id);
/**
 * The request ends before the next step, with VKF_FINISH_CALLER and what there is of it. One that is not known, or has
 * ended, is passed over.
 */
VKFORMER_API vkf_result vkf_engine_cancel(vkf_engine* engine, uint64_t id);
/**
 * Waits until on_end of the request has returned; `id` 0: until there is no request left. With a time-out of 0 it only
 * looks. VKF_SUCCESS (also where the id is not known), VKF_NOT_READY (0) or VKF_TIMEOUT. Errors:
 * VKF_ERROR_INVALID_ARGUMENT (called by a callback of the engine, which it would wait for).
 */
VKFORMER_API vkf_result vkf_engine_wait(vkf_engine* engine, uint64_t id, uint64_t timeout_ns);
/**
 * VKF_SUCCESS while the engine works; else the error, of the device or of too little memory, that ended it: every request
 * that it had has ended with it, no further one is taken, and another engine has to be loaded. It is there before the
 * first request is told.
 */
VKFORMER_API vkf_result vkf_engine_failure(const vkf_engine* engine);

/** Counts are since the engine was loaded. */
typedef struct vkf_engine_stats {
    uint32_t struct_size;
    uint64_t requests;        /**< that were taken */
    uint64_t finished;        /**< that came to an end, cancelled and failed ones included */
    uint64_t prompt_tokens;   /**< computed */
    uint64_t reused_tokens;   /**< of prompts, found in the cache */
    uint64_t tokens;          /**< generated */
    uint64_t steps;           /**< each a token for every sequence in it, and the right guesses */
    uint64_t guessed_tokens;  /**< checked in all */
    uint64_t accepted_tokens; /**< the right ones of them */
    uint64_t preempted;       /**< times that a sequence gave its pages to others and was read again later */
    uint32_t running;         /**< sequences now */
    uint32_t waiting;         /**< requests now */
    uint32_t pages;           /**< of 64 tokens, in all */
    uint32_t used_pages;      /**< of running sequences */
    uint32_t kept_pages;      /**< kept for later ones */
    /** Likewise, of layers with a window where these have pages of their own; else 0. */
    uint32_t window_pages;
    uint32_t used_window_pages;
    uint32_t kept_window_pages;
} vkf_engine_stats;
#define VKF_ENGINE_STATS_INIT \
    { sizeof(vkf_engine_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
VKFORMER_API vkf_result vkf_engine_query_stats(const vkf_engine* engine, vkf_engine_stats* stats);

/** Bytes, now. Weights and caches are made by the first request. */
typedef struct vkf_engine_memory {
    uint32_t struct_size;
    uint64_t weights; /**< copied to the device, or read where the host has them, offloaded ones too */
    uint64_t caches;  /**< keys and values, and what else stays from step to step */
    uint64_t other;   /**< activations, copies under way; not counted on the processor */
    uint64_t budget;  /**< what all three may come to, by VK_EXT_memory_budget; 0: none known */
} vkf_engine_memory;
#define VKF_ENGINE_MEMORY_INIT \
    { sizeof(vkf_engine_memory), 0, 0, 0, 0 }
VKFORMER_API vkf_result vkf_engine_query_memory(const vkf_engine* engine, vkf_engine_memory* memory);

#ifdef __cplusplus
}
#endif

#endif
