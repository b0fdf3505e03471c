// SPDX-License-Identifier: MIT
// A run of the tests fails too when the Vulkan validation layer had anything to say.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <iostream>

#include "support/backends.hpp"

int main(int argc, char** argv) {
    int result = Catch::Session().run(argc, argv);
    for (const vkformer::vulkan::VulkanBackend* backend : vkformer::tests::opened_vulkan_backends())
        for (const std::string& message : backend->validation_messages()) {
            std::cerr << "validation on " << backend->name() << ": " << message << '\n';
            result = result == 0 ? 1 : result;
        }
    vkformer::tests::close_vulkan_devices();
    return result;
}
