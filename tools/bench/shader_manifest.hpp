// SPDX-License-Identifier: MIT
/// How to run somebody's shader: buffers, constants, grid, and an op that says what is right. docs/benchmark.md describes the file.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cases/case.hpp"
#include "vkformer/result.hpp"

namespace vkformer::bench {

/// A buffer is an operand or a result of the reference, or has a dtype, a count and contents of its own.
struct ManifestBuffer {
    std::uint32_t binding = 0;
    std::string operand;                ///< name of the reference's operand
    std::optional<std::size_t> result;  ///< index of the reference's result
    DType dtype = DType::f32;           ///< f32, f16 or i32
    std::uint64_t count = 0;            ///< elements
    bool random = false;                ///< floats uniform in ±1
    double value = 0;                   ///< else every element; NaN poisons
};

struct ShaderManifest {
    struct Reference {
        std::string op, shape, dtype;  ///< as --op, --shape, --dtype of bench ops
    };
    std::string entry_point = "main";
    std::vector<std::string> defines;                  ///< for GLSL
    std::map<std::uint32_t, std::uint32_t> constants;  ///< specialization constants: bits by id
    std::vector<ManifestBuffer> buffers;
    std::vector<std::byte> push;
    std::array<std::uint32_t, 3> groups{1, 1, 1};
    std::optional<Reference> reference;
    std::optional<cases::Work> work;  ///< absent: that of the reference, else every buffer moved once
};

/// Errors: CorruptFile (a field that is missing, unknown, of another type or out of range), with `name` and the field in front.
Result<ShaderManifest> parse_shader_manifest(const nlohmann::json& json, const std::string& name);

}  // namespace vkformer::bench
