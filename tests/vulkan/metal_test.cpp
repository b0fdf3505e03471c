// SPDX-License-Identifier: MIT
/// What MoltenVK makes of the modules: it hands them to SPIRV-Cross, which writes them in the Metal Shading Language. Nothing here compiles
/// that; a module that cannot be written at all, or takes more buffers than Metal has, never runs on Apple's GPUs.
#include <spirv_cross_c.h>

#include <memory>
#include <span>
#include <string>

#include "shader_table.hpp"
#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

/// Entries of a kernel's table of buffers: Metal Feature Set Tables, "Maximum number of entries in the buffer argument table, per function".
constexpr int kMetalBuffers = 31;

/// A module in the Metal Shading Language 2.3, that of macOS 11 and iOS 14; or what SPIRV-Cross says against it.
struct Translation {
    std::string text, fault;
    int buffers = 0;
};

Translation to_metal(std::span<const std::uint32_t> words) {
    spvc_context context = nullptr;
    REQUIRE(spvc_context_create(&context) == SPVC_SUCCESS);
    const std::unique_ptr<spvc_context_s, void (*)(spvc_context)> owner(context, spvc_context_destroy);
    spvc_parsed_ir ir = nullptr;
    spvc_compiler compiler = nullptr;
    spvc_compiler_options options = nullptr;
    const char* text = nullptr;
    const bool is_written = spvc_context_parse_spirv(context, words.data(), words.size(), &ir) == SPVC_SUCCESS &&
                            spvc_context_create_compiler(context, SPVC_BACKEND_MSL, ir,
                                                         SPVC_CAPTURE_MODE_TAKE_OWNERSHIP, &compiler) == SPVC_SUCCESS &&
                            spvc_compiler_create_compiler_options(compiler, &options) == SPVC_SUCCESS &&
                            spvc_compiler_options_set_uint(options, SPVC_COMPILER_OPTION_MSL_VERSION,
                                                           SPVC_MAKE_MSL_VERSION(2, 3, 0)) == SPVC_SUCCESS &&
                            spvc_compiler_install_compiler_options(compiler, options) == SPVC_SUCCESS &&
                            spvc_compiler_compile(compiler, &text) == SPVC_SUCCESS;
    if (!is_written) return {.fault = spvc_context_get_last_error_string(context)};
    Translation found{.text = text};
    for (std::size_t at = 0; (at = found.text.find("[[buffer(", at)) != std::string::npos; ++at) ++found.buffers;
    return found;
}

TEST_CASE("SPIRV-Cross writes every module for Metal, with no more buffers than that has", "[shaders][metal]") {
    using enum vulkan::ShaderRequirement;
    // Debian 12's SPIRV-Cross is older than these, and MoltenVK reports no device that has them.
    const std::uint32_t unknown = vulkan::bit_of(coopmat) | vulkan::bit_of(coopmat2) | vulkan::bit_of(int_dot);
    int written = 0;
    vulkan::ShaderModules modules;
    for (const vulkan::ShaderBinary& shader : vulkan::shader_table()) {
        CAPTURE(shader.name);
        if ((shader.requires_mask & unknown) != 0) continue;
        const Translation translation = to_metal(must(modules.words(shader)));
        CHECK(translation.fault == "");
        if (!translation.fault.empty()) continue;
        CHECK(translation.text.find("kernel void") != std::string::npos);
        CHECK(translation.buffers > 0);
        CHECK(translation.buffers <= kMetalBuffers);
        ++written;
    }
    CHECK(written > 0);
}

}  // namespace
}  // namespace vkformer::tests
