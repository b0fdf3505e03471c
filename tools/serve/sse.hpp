// SPDX-License-Identifier: MIT
/// Server-sent events:
/// https://html.spec.whatwg.org/multipage/server-sent-events.html
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "serve/router.hpp"

namespace vkformer::serve {

inline constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

/// "data: …", and where there is a name "event: NAME" before it. JSON has no
/// line feeds outside of its texts, and in them they are escaped.
inline std::string event(const nlohmann::ordered_json& data, std::string_view name = {}) {
    std::string text = name.empty() ? std::string() : "event: " + std::string(name) + "\n";
    return text + "data: " + data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n\n";
}

/// A reply of events, whose head is sent with the first: what goes wrong before
/// that is a reply of its own. Any thread may write.
class EventStream {
public:
    explicit EventStream(Call call) : call_(std::move(call)) {}

    /// False: nobody reads it.
    bool write(std::string events) {
        begin();
        return call_.exchange().write(std::move(events));
    }
    /// As Exchange::write_asked.
    bool write_asked(std::string events) {
        begin();
        return call_.exchange().write_asked(std::move(events));
    }
    /// The last event.
    void end(std::string events) {
        write(std::move(events));
        call_.exchange().end();
    }
    /// The last event, which waits for a client who reads slowly: what it repeats is there already, or asked for.
    void end_asked(std::string events) {
        write_asked(std::move(events));
        call_.exchange().end();
    }
    /// `named`: as what an event that says so is called.
    void fail(const Refusal& refusal, std::string_view named = {}) {
        {
            const std::lock_guard lock(mutex_);
            if (!has_begun_) return call_.refuse(refusal);
        }
        end(event(nlohmann::ordered_json::parse(error_body(call_.family(), refusal)), named));
    }

private:
    void begin() {
        const std::lock_guard lock(mutex_);
        if (!has_begun_) call_.exchange().begin(std::string(kEventStream));
        has_begun_ = true;
    }

    Call call_;
    std::mutex mutex_;
    bool has_begun_ = false;
};

}  // namespace vkformer::serve
