/* SPDX-License-Identifier: MIT */
/* The header is C99 by itself: this file is compiled as such, with every warning an error. */
#include "vkformer/vkformer.h"

int vkf_header_test(void);

int vkf_header_test(void) {
    vkf_adopt_info adopt = VKF_ADOPT_INFO_INIT;
    vkf_device_options device = VKF_DEVICE_OPTIONS_INIT;
    vkf_device_requirements requirements = VKF_DEVICE_REQUIREMENTS_INIT;
    vkf_memory_use use = VKF_MEMORY_USE_INIT;
    vkf_attention_options attention = VKF_ATTENTION_OPTIONS_INIT;
    vkf_program_options program = VKF_PROGRAM_OPTIONS_INIT;
    vkf_tensor tensor = VKF_TENSOR_INIT;
    vkf_submit_info submit = VKF_SUBMIT_INFO_INIT;
    vkf_pass_info pass = VKF_PASS_INFO_INIT;
    vkf_session_info session = VKF_SESSION_INFO_INIT;
    vkf_session_memory memory = VKF_SESSION_MEMORY_INIT;
    vkf_slice slice = VKF_SLICE_INIT;
    vkf_session_status status = VKF_SESSION_STATUS_INIT;
    vkf_engine_options engine = VKF_ENGINE_OPTIONS_INIT;
    vkf_engine_properties properties = VKF_ENGINE_PROPERTIES_INIT;
    vkf_chat_options chat = VKF_CHAT_OPTIONS_INIT;
    vkf_sampling sampling = VKF_SAMPLING_INIT;
    vkf_engine_request request = VKF_ENGINE_REQUEST_INIT;
    vkf_engine_stats stats = VKF_ENGINE_STATS_INIT;
    vkf_engine_memory engine_memory = VKF_ENGINE_MEMORY_INIT;
    return adopt.struct_size == sizeof adopt && device.struct_size == sizeof device &&
           requirements.struct_size == sizeof requirements && use.struct_size == sizeof use &&
           attention.struct_size == sizeof attention && program.struct_size == sizeof program &&
           tensor.struct_size == sizeof tensor && submit.struct_size == sizeof submit &&
           pass.struct_size == sizeof pass && session.struct_size == sizeof session &&
           memory.struct_size == sizeof memory && slice.struct_size == sizeof slice &&
           status.struct_size == sizeof status && session.top_p == 1.0f && engine.struct_size == sizeof engine &&
           engine.queue == 1024 && engine.weights_as_filed == VK_TRUE && engine.user == NULL &&
           properties.struct_size == sizeof properties && chat.struct_size == sizeof chat &&
           sampling.struct_size == sizeof sampling && sampling.top_p == 1.0f && sampling.repetition_penalty == 1.0f &&
           request.struct_size == sizeof request && request.on_end == NULL && stats.struct_size == sizeof stats &&
           engine_memory.struct_size == sizeof engine_memory;
}
