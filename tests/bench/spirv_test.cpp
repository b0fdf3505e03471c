// SPDX-License-Identifier: MIT
#include "bench/spirv.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "bench/shader_case.hpp"
#include "core/try.hpp"
#include "shader_table.hpp"
#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using bench::SpirvModule;
using Catch::Matchers::ContainsSubstring;

Result<std::vector<std::uint32_t>> unpacked(const vulkan::ShaderBinary& shader) {
    vulkan::ShaderModules modules;
    VKFORMER_TRY(const auto words, modules.words(shader));
    return std::vector(words.begin(), words.end());
}

/// One of the library's own modules: bindings 0 to 3, some constants.
std::vector<std::uint32_t> words_of(std::string_view name) {
    const auto table = vulkan::shader_table();
    const auto found = std::ranges::find(table, name, &vulkan::ShaderBinary::name);
    REQUIRE(found != table.end());
    return must(unpacked(*found));
}

Result<SpirvModule> read_spirv(const std::vector<std::uint32_t>& words, const std::string& entry_point = "main") {
    return bench::read_spirv(std::as_bytes(std::span(words)), entry_point, "s.spv");
}

void refuses_module(const Result<SpirvModule>& module, const std::string& what) {
    REQUIRE_FALSE(module);
    CHECK_THAT(module.error().message, ContainsSubstring("s.spv: ") && ContainsSubstring(what));
}

TEST_CASE("SPIR-V: bindings and constants are found, in either byte order", "[bench][spirv]") {
    auto words = words_of("layer_norm_row_f32");
    const SpirvModule module = must(read_spirv(words));
    CHECK(module.resources.size() >= 3);
    for (const auto& resource : module.resources) {
        CHECK(resource.set == 0);
        CHECK(resource.is_storage_buffer);
    }
    CHECK(module.constants.contains(0));
    for (std::uint32_t& word : words) word = __builtin_bswap32(word);
    CHECK(must(read_spirv(words)).words == module.words);
}

TEST_CASE("every shader in the library unpacks, and a damaged one is refused", "[vulkan][shaders][errors]") {
    vulkan::ShaderModules modules;
    for (const vulkan::ShaderBinary& shader : vulkan::shader_table()) {
        INFO(shader.name);
        const auto words = must(modules.words(shader));
        CHECK_FALSE(must(read_spirv({words.begin(), words.end()})).resources.empty());
    }
    const vulkan::ShaderBinary& shader = vulkan::shader_table().front();
    const vulkan::EmbeddedModule& module = shader.module;
    const std::vector<unsigned char> whole(module.xz.begin(), module.xz.end());
    const auto refuses_bytes = [&](std::vector<unsigned char> bytes) {
        const auto words = unpacked({.name = "s", .module = {bytes, module.contents, module.offset, module.bytes}});
        REQUIRE_FALSE(words);
        CHECK(words.error().code == ErrorCode::CorruptFile);
        CHECK_THAT(words.error().message, ContainsSubstring("install the library again"));
    };
    refuses_bytes({});
    for (const std::size_t length : {std::size_t{7}, std::size_t{20}, whole.size() - 1})
        refuses_bytes({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
    for (const std::size_t at :
         {std::size_t{0}, whole.size() / 2, whole.size() - 8, whole.size() - 4, whole.size() - 1}) {
        auto changed = whole;
        changed[at] ^= 0x40;
        refuses_bytes(changed);
    }
    const std::uint32_t length = module.bytes;
    using Place = std::pair<std::uint32_t, std::uint32_t>;
    for (const auto& [offset, bytes] :
         {Place{module.offset, length + 0x40000000}, Place{0x7FFFFFFC, length}, Place{4, length}, Place{0, 0}})
        CHECK_FALSE(unpacked({.name = "s", .module = {whole, module.contents, offset, bytes}}));
    for (const std::uint32_t contents : {module.contents - 4, module.contents + 1, module.contents + 4})
        CHECK_FALSE(unpacked({.name = "s", .module = {whole, contents, module.offset, length}}));
}

// What compilers give that are not told of a newer Vulkan: up to SPIR-V 1.2 it is the block's decoration that says what it is.
TEST_CASE("SPIR-V 1.0: a storage buffer is a uniform with the decoration BufferBlock", "[bench][spirv]") {
    constexpr std::uint32_t kOpDecorate = 71, kOpVariable = 59, kBlock = 2, kBufferBlock = 3, kUniform = 2;
    const auto words = words_of("layer_norm_row_f32");
    const auto older = [&](std::uint32_t decoration) {
        auto changed = words;
        changed[1] = 0x00010000;
        for (std::size_t at = 5; at < changed.size(); at += changed[at] >> 16) {
            const std::uint32_t opcode = changed[at] & 0xFFFF, length = changed[at] >> 16;
            if (opcode == kOpDecorate && length == 3 && changed[at + 2] == kBlock) changed[at + 2] = decoration;
            if (opcode == kOpVariable && changed[at + 3] == 12) changed[at + 3] = kUniform;
        }
        return must(read_spirv(changed)).resources;
    };
    const auto is_storage_buffer = &SpirvModule::Resource::is_storage_buffer;
    CHECK(older(kBufferBlock).size() >= 3);
    CHECK(std::ranges::all_of(older(kBufferBlock), is_storage_buffer));
    CHECK(std::ranges::none_of(older(kBlock), is_storage_buffer));
}

TEST_CASE("SPIR-V that is none, cut off or of another kind is refused", "[bench][spirv][errors]") {
    const auto words = words_of("layer_norm_row_f32");
    refuses_module(read_spirv({}), "no SPIR-V: 0 bytes");
    refuses_module(bench::read_spirv(std::as_bytes(std::span(words)).first(41), "main", "s.spv"),
                   "no SPIR-V: 41 bytes");
    refuses_module(read_spirv({1, 2, 3, 4, 5, 6}), "magic number");
    refuses_module(read_spirv({words.begin(), words.begin() + 5}), "no function");
    refuses_module(read_spirv({words.begin(), words.end() - 300}),
                   "is cut off");  // or, where it ends between instructions:
    refuses_module(read_spirv(words, "go"), "no compute shader called \"go\"; it has: main");
    auto changed = words;
    changed[1] = 0x00010700;
    refuses_module(read_spirv(changed), "newer than 1.6");
    changed = words;
    changed[3] = 0xFFFFFFFF;
    refuses_module(read_spirv(changed), "its ids go up to");
    changed = words;
    changed[5] = 0;
    refuses_module(read_spirv(changed), "the instruction at word 5 is cut off");
}

TEST_CASE("SPIR-V of random words is refused or read, and never more", "[bench][spirv][errors]") {
    const auto words = words_of("layer_norm_row_f32");
    std::mt19937 random(3);
    for (int i = 0; i < 300; ++i) {
        auto changed = words;
        for (int k = 0; k < 8; ++k) changed[5 + random() % (changed.size() - 5)] = static_cast<std::uint32_t>(random());
        (void)read_spirv(changed);
    }
}

TEST_CASE("a shader and its manifest must fit each other", "[bench][shader][errors]") {
    SpirvModule module;
    module.resources = {{0, 0, true}, {0, 1, true}};
    module.constants = {{2, ""}};
    bench::ShaderManifest manifest;
    manifest.buffers = {{.binding = 0, .count = 1}, {.binding = 1, .count = 1}};
    CHECK(bench::check_fit(module, manifest));
    const auto refuses_fit = [&](const SpirvModule& m, const std::string& what) {
        const auto fit = bench::check_fit(m, manifest);
        REQUIRE_FALSE(fit);
        CHECK_THAT(fit.error().message, ContainsSubstring(what));
    };
    SpirvModule other = module;
    other.resources.push_back({0, 3, true});
    refuses_fit(other, "binding 3, for which the manifest has no buffer");
    other = module;
    other.resources[1].set = 1;
    refuses_fit(other, "set 1");
    other = module;
    other.resources[1].is_storage_buffer = false;
    refuses_fit(other, "binding 1 of the shader is no storage buffer");
    other = module;
    other.resources.pop_back();
    refuses_fit(other, "binding 1, which the shader does not have");
    manifest.constants[7] = 1;
    refuses_fit(module, "constant 7");
}

}  // namespace
}  // namespace vkformer::tests
