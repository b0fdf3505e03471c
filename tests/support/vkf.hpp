// SPDX-License-Identifier: MIT
/// The C interface's handles, owned, for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/catch.h"
#include "vkformer/vkformer.h"

namespace vkformer::tests {

template <auto Destroy>
struct Destroyer {
    void operator()(auto* handle) const { Destroy(handle); }
};
using VkfDevice = std::unique_ptr<vkf_device, Destroyer<vkf_device_destroy>>;
using VkfGraph = std::unique_ptr<vkf_graph, Destroyer<vkf_graph_destroy>>;
using VkfProgram = std::unique_ptr<vkf_program, Destroyer<vkf_program_destroy>>;
using VkfModel = std::unique_ptr<vkf_model, Destroyer<vkf_model_destroy>>;
using VkfSession = std::unique_ptr<vkf_session, Destroyer<vkf_session_destroy>>;

inline void succeed(vkf_result result) {
    if (result != VKF_SUCCESS) FAIL(vkf_result_string(result) << ": " << vkf_error_message());
}

inline VkfDevice adopt(const vkf_adopt_info& info, const vkf_device_options* options = nullptr) {
    vkf_device* device = nullptr;
    succeed(vkf_device_adopt(&info, options, &device));
    return VkfDevice(device);
}

inline VkfDevice own_device(const std::string& choice, const vkf_device_options* options = nullptr) {
    vkf_device* device = nullptr;
    succeed(vkf_device_create(choice.c_str(), options, &device));
    return VkfDevice(device);
}

inline VkfModel load_model(vkf_device& device, const std::string& path) {
    vkf_model* model = nullptr;
    succeed(vkf_model_load(&device, path.c_str(), &model));
    return VkfModel(model);
}

inline VkfSession make_session(vkf_model& model, const vkf_session_info& info = VKF_SESSION_INFO_INIT) {
    vkf_session* session = nullptr;
    succeed(vkf_session_create(&model, &info, nullptr, nullptr, &session));
    return VkfSession(session);
}

inline vkf_session_status status_of(vkf_session& session) {
    vkf_session_status status = VKF_SESSION_STATUS_INIT;
    succeed(vkf_session_poll(&session, &status));
    return status;
}

inline std::vector<std::int32_t> tokens_of(const vkf_session& session) {
    std::size_t count = 0;
    succeed(vkf_session_tokens(&session, &count, nullptr));
    std::vector<std::int32_t> tokens(count);
    succeed(vkf_session_tokens(&session, &count, tokens.data()));
    return tokens;
}

inline std::string text_of(const vkf_session& session) {
    std::size_t bytes = 0;
    succeed(vkf_session_text(&session, &bytes, nullptr));
    std::string text(bytes, '\0');
    succeed(vkf_session_text(&session, &bytes, text.data()));
    text.resize(bytes - 1);
    return text;
}

inline std::vector<std::int32_t> tokenize(const vkf_model& model, const std::string& text) {
    std::size_t count = 0;
    succeed(vkf_model_tokenize(&model, text.data(), text.size(), &count, nullptr));
    std::vector<std::int32_t> tokens(count);
    succeed(vkf_model_tokenize(&model, text.data(), text.size(), &count, tokens.data()));
    return tokens;
}

template <class T>
std::vector<T> read_tensor(vkf_program& program, const char* name) {
    vkf_tensor tensor = VKF_TENSOR_INIT;
    succeed(vkf_program_tensor(&program, name, &tensor));
    std::vector<T> values(tensor.bytes / sizeof(T));
    succeed(vkf_program_read(&program, name, values.data(), tensor.bytes));
    return values;
}

template <class T>
void write_tensor(vkf_program& program, const char* name, const std::vector<T>& values) {
    succeed(vkf_program_write(&program, name, values.data(), values.size() * sizeof(T)));
}

}  // namespace vkformer::tests
