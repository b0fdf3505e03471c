// SPDX-License-Identifier: MIT
#include "support/backends.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "cpu/backend.hpp"
#include "support/catch.h"

namespace vkformer::tests {
namespace {

struct VulkanDevices {
    std::vector<std::unique_ptr<vulkan::VulkanBackend>> owned;
    std::vector<vulkan::VulkanBackend*> backends;
    std::vector<std::string> indices;
};

constexpr std::uint64_t kSlowShare = 8, kShare = 2;  // one case in so many
// Of what such devices share out among themselves; one that compiles with LLVM takes four times as long for a model.
constexpr std::size_t kSlowPlaces = 1, kPlaces = 3;

bool validation_wanted() {
    const char* const setting = std::getenv("VKFORMER_TEST_VALIDATION");
    return !setting || std::string_view(setting) != "0";
}

/// Opens every usable device; says on stderr what is left out and why.
VulkanDevices open_vulkan_devices() {
    VulkanDevices result;
    const auto devices = vulkan::list_devices();
    if (!devices) {
        std::cerr << "tests: no Vulkan: " << devices.error().message << '\n';
        return result;
    }
    for (const vulkan::DeviceInfo& device : *devices) {
        const std::string index = std::to_string(device.index);
        vulkan::BackendOptions options{.validation = validation_wanted(), .check_memory = true, .cache_folder = {}};
        auto backend = vulkan::VulkanBackend::create(index, options);
        if (!backend && options.validation) {
            std::cerr << "tests: without validation: " << backend.error().message << '\n';
            options.validation = false;
            backend = vulkan::VulkanBackend::create(index, options);
        }
        if (!backend) {
            std::cerr << "tests: device " << index << " left out: " << backend.error().message << '\n';
            continue;
        }
        result.backends.push_back(backend->get());
        result.indices.push_back(index);
        result.owned.push_back(std::move(*backend));
    }
    return result;
}

std::optional<VulkanDevices> opened;

const VulkanDevices& vulkan_devices() {
    if (!opened) opened = open_vulkan_devices();
    return *opened;
}

}  // namespace

const std::vector<vulkan::VulkanBackend*>& vulkan_backends() { return vulkan_devices().backends; }
std::vector<vulkan::VulkanBackend*> opened_vulkan_backends() {
    return opened ? opened->backends : std::vector<vulkan::VulkanBackend*>();
}

void close_vulkan_devices() { opened.reset(); }

std::size_t case_stride(const std::string& device_index, std::size_t otherwise) {
    return device_index == vulkan_device_indices().back() || std::getenv("VKFORMER_TEST_THOROUGH") ? 1 : otherwise;
}

namespace {

std::vector<const graph::Backend*> cpu_devices() {
    std::vector<const graph::Backend*> cpus;
    for (const vulkan::VulkanBackend* const device : vulkan_backends())
        if (device->capabilities().is_cpu()) cpus.push_back(device);
    return cpus;
}

/// FNV-1a, the same wherever the tests run.
std::uint64_t fnv1a(std::string_view key) {
    std::uint64_t hash = 0xCBF29CE484222325;
    for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    return hash ^ hash >> 32;
}

bool is_slow(const graph::Backend& cpu) { return cpu.name().find("LLVM") != std::string::npos; }

/// Whether a backend takes one of the running test's cases, of which the devices that are CPUs take `of` parts each on average.
bool takes(const graph::Backend& backend, std::size_t index, std::size_t of) {
    const auto cpus = cpu_devices();
    if (cpus.size() < 2 || std::getenv("VKFORMER_TEST_THOROUGH")) return true;
    std::size_t places = 0, first = 0, count = 0;  // all, and those of this backend
    for (const graph::Backend* const cpu : cpus) {
        if (cpu == &backend) {
            first = places;
            count = is_slow(*cpu) ? kSlowPlaces : kPlaces;
        }
        places += is_slow(*cpu) ? kSlowPlaces : kPlaces;
    }
    if (count == 0) return true;
    const std::string test = Catch::getResultCapture().getCurrentTestName();
    const std::size_t place = fnv1a(test + " " + std::to_string(index)) % (places * of / cpus.size());
    return place >= first && place < first + count;
}

}  // namespace

bool has_turn(const graph::Backend& backend, std::size_t index) { return takes(backend, index, cpu_devices().size()); }

bool takes_case(const graph::Backend& backend, std::size_t of) {
    static std::map<std::pair<std::string, const graph::Backend*>, std::size_t> asked;
    return takes(backend, asked[{Catch::getResultCapture().getCurrentTestName(), &backend}]++, of);
}

bool takes_case(const std::string& device, std::size_t of) {
    const auto& indices = vulkan_device_indices();
    const auto found = std::ranges::find(indices, device);
    return found == indices.end() ||
           takes_case(*vulkan_backends()[static_cast<std::size_t>(found - indices.begin())], of);
}

bool has_share(const graph::Backend& backend, std::string_view key) {
    const auto cpus = cpu_devices();
    const auto found = std::ranges::find(cpus, backend.name(), &graph::Backend::name);
    if (found == cpus.end() || cpus.size() == 1 || std::getenv("VKFORMER_TEST_THOROUGH")) return true;
    const std::uint64_t hash = fnv1a(key);
    return is_slow(backend) ? hash % kSlowShare == 0 : hash % kShare == 1;
}

const std::vector<std::string>& vulkan_device_indices() { return vulkan_devices().indices; }

std::vector<std::string> device_names() {
    std::vector<std::string> names = {"cpu"};
    names.insert(names.end(), vulkan_device_indices().begin(), vulkan_device_indices().end());
    return names;
}

const std::vector<graph::Backend*>& test_backends() {
    static const std::unique_ptr<graph::Backend> cpu_float = cpu::make_cpu_backend<float>();
    static const std::unique_ptr<graph::Backend> cpu_double = cpu::make_cpu_backend<double>();
    static const std::vector<graph::Backend*> backends = [] {
        std::vector<graph::Backend*> all = {cpu_float.get(), cpu_double.get()};
        for (vulkan::VulkanBackend* backend : vulkan_backends()) all.push_back(backend);
        return all;
    }();
    return backends;
}

bool validation_available() {
    static const bool available = validation_wanted() && vulkan::Instance::create(true);
    return available;
}

bool is_double(const graph::Backend& backend) { return backend.name() == "CPU (double)"; }

}  // namespace vkformer::tests
