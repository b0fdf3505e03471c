// SPDX-License-Identifier: MIT
/// Sockets: connections, HTTP/1.1 read and written, time and size held within limits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/http.hpp"
#include "serve/limits.hpp"
#include "vkformer/result.hpp"

namespace vkformer::serve {

class Listener {
public:
    /// Bound to `address`, an IPv4 or IPv6 address; port 0: one that is free. `service` outlives it. Errors: InvalidArgument (no address, or
    /// one that cannot be bound).
    static Result<Listener> open(const std::string& address, std::uint16_t port, const Limits& limits,
                                 Service& service);

    Listener(Listener&&) noexcept;
    Listener& operator=(Listener&&) noexcept;
    ~Listener();

    std::uint16_t port() const noexcept;
    /// Serves until SIGINT or SIGTERM: `on_stop` is told, no new connection is taken, and what runs has Limits::grace to end; a second
    /// signal ends the process at once.
    void run(const std::function<void()>& on_stop);
    /// As a signal does, from any thread.
    void stop();

private:
    struct Impl;
    explicit Listener(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

}  // namespace vkformer::serve
