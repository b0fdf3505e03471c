// SPDX-License-Identifier: MIT
/// What one client, and all of them together, can ask of the server at most.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace vkformer::serve {

struct Limits {
    /// Beyond, the one is closed that has waited longest for a whole request; where all have one, whose client has long not read its reply.
    std::size_t connections = 256;
    std::size_t requests = 128;     ///< at work or waiting for a model; a further one is answered with 503
    std::uint32_t header_bytes = 16 << 10;
    std::size_t body_bytes = 4 << 20;
    std::size_t sound_bytes = 64 << 20;               ///< of a body with a sound file
    std::size_t all_bodies_bytes = 256 << 20;         ///< of bodies that are being read or answered
    std::size_t unsent_bytes = 1 << 20;               ///< of a stream whose client does not read it
    std::chrono::milliseconds header_time{10'000};    ///< from a connection to its first request's head
    std::chrono::milliseconds idle_time{60'000};      ///< from a reply to the next request's head
    std::chrono::milliseconds body_time{30'000};      ///< for each 4 MiB of a body
    std::chrono::milliseconds write_time{30'000};     ///< for each piece of a reply, 64 KiB at most
    std::chrono::milliseconds request_time{600'000};  ///< from a whole request to its reply's last piece
    std::chrono::milliseconds grace{30'000};          ///< for what runs when the server is told to end
};

}  // namespace vkformer::serve
