// SPDX-License-Identifier: MIT
/// What happened, a line each on standard error; never what requests or answers say.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace vkformer::serve {

/// Thread-safe.
class Log {
public:
    enum class Style : std::uint8_t { text, json };
    explicit Log(Style style) : style_(style) {}

    /// `fields`: an object, its values texts, numbers or truth values.
    void say(std::string_view event, const nlohmann::ordered_json& fields = nlohmann::ordered_json::object());

private:
    Style style_;
    std::mutex mutex_;
};

}  // namespace vkformer::serve
