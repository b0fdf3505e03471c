// SPDX-License-Identifier: MIT
#include "serve/log.hpp"

#include <chrono>
#include <cstdio>
#include <ctime>

#include "core/platform/system.hpp"

namespace vkformer::serve {
namespace {

/// "2026-01-31T12:00:00.123Z"
std::string now() {
    const auto time = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
    const std::tm parts = platform::utc_time(seconds);
    char text[48];
    const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    std::snprintf(text + length, sizeof text - length, ".%03dZ", static_cast<int>(ms));
    return text;
}

std::string dumped(const nlohmann::ordered_json& value) {
    return value.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

void Log::say(std::string_view event, const nlohmann::ordered_json& fields) {
    std::string line;
    if (style_ == Style::json) {
        nlohmann::ordered_json object = {{"time", now()}, {"event", event}};
        object.update(fields);
        line = dumped(object);
    } else {
        line = "vkformer: " + std::string(event);
        for (const auto& [name, value] : fields.items()) line += " " + name + "=" + dumped(value);
    }
    line += '\n';
    const std::lock_guard lock(mutex_);
    std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace vkformer::serve
