// SPDX-License-Identifier: MIT
#include "bench/card.hpp"

#include <vulkan/vulkan.h>

#include <cstdio>
#include <thread>

#include "core/platform/system.hpp"
#include "vulkan/cooperative_matrix.hpp"

namespace vkformer::bench {
namespace {

std::string version_text(std::uint32_t version) {
    return std::to_string(VK_API_VERSION_MAJOR(version)) + "." + std::to_string(VK_API_VERSION_MINOR(version)) + "." +
           std::to_string(VK_API_VERSION_PATCH(version));
}

std::string hexadecimal(std::uint32_t value) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%04x", value);
    return text;
}

std::string bytes_text(std::uint64_t bytes) {
    if (bytes >= (1u << 20)) return std::to_string(bytes >> 20) + " MiB";
    return bytes >= (1u << 10) ? std::to_string(bytes >> 10) + " KiB" : std::to_string(bytes) + " B";
}

std::string features(const vulkan::Capabilities& c) {
    std::string text;
    const auto add = [&](bool has, const char* name) {
        if (has) text += (text.empty() ? "" : ", ") + std::string(name);
    };
    add(c.unified_memory, "unified memory");
    add(c.storage16, "16-bit storage");
    add(c.float16, "float16");
    add(c.integer_dot, "integer dot product");
    add(c.subgroup_arithmetic, "subgroup arithmetic");
    add(c.cooperative_matrix, "cooperative matrix");
    add(c.cooperative_matrix2, "cooperative matrix 2");
    return text.empty() ? "none" : text;
}

std::string matrices(const vulkan::Capabilities& c) {
    std::string text;
    for (const vulkan::CooperativeMatrix& m : c.cooperative_matrices)
        text += (text.empty() ? "" : ", ") + std::to_string(m.m) + "x" + std::to_string(m.n) + "x" +
                std::to_string(m.k) + " " + vulkan::component_name(m.a) + " to " + vulkan::component_name(m.result);
    return text;
}

void add_host(Card& card) {
    if (const std::string name = platform::processor_name(); !name.empty()) card.emplace_back("host processor", name);
    card.emplace_back("host threads", std::to_string(std::thread::hardware_concurrency()));
}

}  // namespace

Card device_card(const vulkan::Capabilities& c) {
    Card card = {{"device", c.name},
                 {"type", c.type},
                 {"driver", c.driver},
                 {"driver version", std::to_string(c.driver_version)},
                 {"vulkan", version_text(c.api_version)},
                 {"vendor, device", hexadecimal(c.vendor_id) + ", " + hexadecimal(c.device_id)},
                 {"uuid", c.uuid},
                 {"features", features(c)},
                 {"subgroup size", std::to_string(c.subgroup_size)},
                 {"workgroup", "at most " + std::to_string(c.max_workgroup_invocations) + " invocations, " +
                                   bytes_text(c.max_shared_memory_bytes) + " shared"},
                 {"storage buffer", "at most " + bytes_text(c.max_storage_buffer_range)},
                 {"timestamps", c.timestamp_valid_bits == 0 ? "none: wall times"
                                                            : std::to_string(c.timestamp_period_ns) + " ns per tick"}};
    if (const std::string shapes = matrices(c); !shapes.empty()) card.emplace_back("cooperative matrices", shapes);
    add_host(card);
    return card;
}

Card cpu_card(const std::string& backend) {
    Card card = {{"device", backend}, {"type", "CPU backend, no Vulkan"}};
    add_host(card);
    return card;
}

}  // namespace vkformer::bench
