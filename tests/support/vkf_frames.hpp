// SPDX-License-Identifier: MIT
/// Sequences of the C interface's sessions, in an application's frames or through the device's queue, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/host_application.hpp"
#include "support/vkf.hpp"

namespace vkformer::tests {

inline std::uint32_t index_of(const std::string& device) { return static_cast<std::uint32_t>(std::stoul(device)); }

inline void begin(vkf_session& session, const std::vector<std::int32_t>& tokens, std::uint32_t max_tokens = 12) {
    succeed(vkf_session_begin(&session, tokens.data(), tokens.size(), max_tokens));
}

inline bool is_running(vkf_session& session) {
    const vkf_session_state state = status_of(session).state;
    return state == VKF_SESSION_PROMPT || state == VKF_SESSION_GENERATING;
}

/// A frame of the application: a slice is recorded, submitted and retired.
inline vkf_slice frame(HostApplication& host, VkCommandBuffer commands, vkf_session& session, std::uint32_t budget_us) {
    vkf_slice slice = VKF_SLICE_INIT;
    host.begin(commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
    succeed(vkf_session_record(&session, commands, budget_us, &slice));
    host.end(commands);
    host.submit_and_wait(commands);
    succeed(vkf_session_retire(&session, slice.ticket));
    return slice;
}

inline std::vector<std::int32_t> run_recorded(HostApplication& host, vkf_session& session, std::uint32_t budget_us) {
    const VkCommandBuffer commands = host.make_commands();
    while (is_running(session)) frame(host, commands, session, budget_us);
    return tokens_of(session);
}

inline std::vector<std::int32_t> run_stepped(vkf_session& session, std::uint32_t budget_us) {
    while (is_running(session)) {
        vkf_slice slice = VKF_SLICE_INIT;
        const vkf_result result = vkf_session_step(&session, budget_us, nullptr, &slice);
        if (result != VKF_NOT_READY) succeed(result);
        if (slice.ticket == 0) succeed(vkf_session_wait(&session, UINT64_MAX));
    }
    return tokens_of(session);
}

}  // namespace vkformer::tests
