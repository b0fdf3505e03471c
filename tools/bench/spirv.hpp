// SPDX-License-Identifier: MIT
/// What a SPIR-V module says about itself, as far as a pipeline for it must know. Drivers trust the modules they get; this finds
/// what is no module at all, what is cut off, and what does not fit the buffers at hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::bench {

struct SpirvModule {
    std::vector<std::uint32_t> words;  ///< in this machine's byte order
    struct Resource {
        std::uint32_t set, binding;
        bool is_storage_buffer;
    };
    std::vector<Resource> resources;
    std::set<std::uint32_t> constants;  ///< ids of its specialization constants
};

/// Every instruction is walked over. Errors: CorruptFile (no SPIR-V, cut off, words that are no instruction, ids above the bound,
/// no compute shader called `entry_point`), MissingFeature (SPIR-V newer than 1.6), with `name` in front.
Result<SpirvModule> read_spirv(std::span<const std::byte> bytes, const std::string& entry_point,
                               const std::string& name);

}  // namespace vkformer::bench
