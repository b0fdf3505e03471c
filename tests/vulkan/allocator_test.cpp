// SPDX-License-Identifier: MIT
#include "vulkan/allocator.hpp"

#include <future>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using vulkan::Allocator;
using vulkan::MemoryRange;
using vulkan::MemoryRequest;

MemoryRequest bytes(VkDeviceSize size) {
    return {.requirements = {.size = size, .alignment = 1, .memoryTypeBits = 1}, .label = "a test"};
}

/// Memory of an application that is never touched.
VkResult pretend(const MemoryRequest&, MemoryRange& range) {
    range.memory = reinterpret_cast<VkDeviceMemory>(std::uintptr_t{1});
    return VK_SUCCESS;
}

TEST_CASE("what is in use counts against the budget", "[vulkan][memory][errors]") {
    if (vulkan_backends().empty()) return;
    const vulkan::Device& device = *vulkan_backends().front()->device();
    bool fails = false;
    Allocator allocator(
        device, 3 << 20,
        {.allocate = [&](const MemoryRequest& request,
                         MemoryRange& range) { return fails ? VK_ERROR_OUT_OF_HOST_MEMORY : pretend(request, range); },
         .free = [](const MemoryRange&) {}},
        {});
    const MemoryRange first = must(allocator.allocate(bytes(2 << 20)));
    CHECK(allocator.check(1 << 20, "what is left"));
    CHECK_FALSE(allocator.check((1 << 20) + 1, "a byte more"));
    const auto second = allocator.allocate(bytes(2 << 20));
    REQUIRE_FALSE(second);
    CHECK(second.error().code == ErrorCode::OutOfDeviceMemory);
    CHECK_THAT(second.error().message, ContainsSubstring("a test needs 2.0 MiB of device memory; 2.0 MiB are in use "
                                                         "and the budget is 3.0 MiB"));
    fails = true;
    CHECK(allocator.allocate(bytes(1 << 20)).error().code == ErrorCode::OutOfHostMemory);
    CHECK(allocator.used() == 2 << 20);
    CHECK(allocator.peak() == 2 << 20);
    fails = false;
    allocator.free(first, 2 << 20);
    CHECK(allocator.used() == 0);
    allocator.free(must(allocator.allocate(bytes(3 << 20))), 3 << 20);
    CHECK(allocator.peak() == 3 << 20);
}

TEST_CASE("threads together do not exceed the budget", "[vulkan][memory][threads]") {
    if (vulkan_backends().empty()) return;
    const vulkan::Device& device = *vulkan_backends().front()->device();
    std::promise<void> has_asked, may_have;
    std::size_t calls = 0;  // of the first thread while the second waits, and the other way round
    Allocator allocator(device, 1000,
                        {.allocate =
                             [&](const MemoryRequest& request, MemoryRange& range) {
                                 if (calls++ == 0) {
                                     has_asked.set_value();
                                     may_have.get_future().wait();
                                 }
                                 return pretend(request, range);
                             },
                         .free = [](const MemoryRange&) {}},
                        {});
    auto first = std::async(std::launch::async, [&] { return allocator.allocate(bytes(600)); });
    has_asked.get_future().wait();
    CHECK(allocator.used() == 600);  // which an application's allocator may ask
    const auto second = allocator.allocate(bytes(600));
    may_have.set_value();
    CHECK(first.get());
    REQUIRE_FALSE(second);
    CHECK(second.error().code == ErrorCode::OutOfDeviceMemory);
    CHECK(calls == 1);
    CHECK(allocator.peak() == 600);
}

}  // namespace
}  // namespace vkformer::tests
