// SPDX-License-Identifier: MIT
#include "bench/glsl.hpp"

#include <memory>
#include <string>

#ifdef VKFORMER_SHADERC
#include <shaderc/shaderc.h>
#endif

#include "core/mapped_file.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"

namespace vkformer::bench {
namespace {

namespace fs = std::filesystem;

Result<std::string> text_of(const fs::path& file) {
    VKFORMER_TRY(const auto read, MappedFile::read(file));
    const auto bytes = read->bytes();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

#ifdef VKFORMER_SHADERC

namespace {

using Compiler = std::unique_ptr<shaderc_compiler, decltype(&shaderc_compiler_release)>;
using Options = std::unique_ptr<shaderc_compile_options, decltype(&shaderc_compile_options_release)>;
using Compiled = std::unique_ptr<shaderc_compilation_result, decltype(&shaderc_result_release)>;

/// An included file and the strings that the result handed to shaderc points into.
struct Included {
    std::string name, content;
    shaderc_include_result result{};
};

shaderc_include_result* include(void*, const char* requested, int, const char* requesting, size_t) {
    auto* const included = new Included;
    const fs::path file = utf8_path(requesting).parent_path() / utf8_path(requested);
    if (auto text = text_of(file)) {
        included->name = file.string();
        included->content = std::move(*text);
    } else {
        included->content = text.error().message;  // an empty name marks an error
    }
    included->result = {included->name.data(), included->name.size(), included->content.data(),
                        included->content.size(), included};
    return &included->result;
}

void release(void*, shaderc_include_result* result) { delete static_cast<Included*>(result->user_data); }

}  // namespace

Result<std::vector<std::byte>> compile_glsl(const fs::path& file, const std::vector<std::string>& defines) {
    VKFORMER_TRY(const std::string source, text_of(file));
    const Compiler compiler(shaderc_compiler_initialize(), shaderc_compiler_release);
    const Options options(shaderc_compile_options_initialize(), shaderc_compile_options_release);
    if (!compiler || !options) return Error{ErrorCode::OutOfHostMemory, "no memory for the shader compiler"};
    shaderc_compile_options_set_target_env(options.get(), shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
    shaderc_compile_options_set_include_callbacks(options.get(), include, release, nullptr);
    if (source.find("#version") == std::string::npos)  // else shaderc takes it for the GLSL of 2004
        shaderc_compile_options_set_forced_version_profile(options.get(), 460, shaderc_profile_none);
    for (const std::string& define : defines) {
        const std::size_t equals = std::min(define.find('='), define.size());
        const std::string value = define.substr(std::min(equals + 1, define.size()));
        shaderc_compile_options_add_macro_definition(options.get(), define.data(), equals, value.data(), value.size());
    }
    const std::string name = file.string();
    const Compiled compiled(shaderc_compile_into_spv(compiler.get(), source.data(), source.size(),
                                                     shaderc_compute_shader, name.c_str(), "main", options.get()),
                            shaderc_result_release);
    if (!compiled) return Error{ErrorCode::OutOfHostMemory, "no memory for the shader compiler"};
    if (shaderc_result_get_compilation_status(compiled.get()) != shaderc_compilation_status_success)
        return Error{ErrorCode::InvalidArgument,
                     "the shader does not compile:\n" + std::string(shaderc_result_get_error_message(compiled.get()))};
    const auto* const bytes = reinterpret_cast<const std::byte*>(shaderc_result_get_bytes(compiled.get()));
    return std::vector<std::byte>(bytes, bytes + shaderc_result_get_length(compiled.get()));
}

#else

Result<std::vector<std::byte>> compile_glsl(const fs::path& file, const std::vector<std::string>&) {
    VKFORMER_CHECK(text_of(file));
    return Error{ErrorCode::MissingFeature,
                 "this vkformer was built without shaderc (Debian: libshaderc-dev) and takes SPIR-V only; compile " +
                     file.string() + " with: glslangValidator -V --target-env vulkan1.2 -o shader.spv"};
}

#endif

}  // namespace vkformer::bench
