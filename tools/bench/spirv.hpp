// SPDX-License-Identifier: MIT
/// What a SPIR-V module says about itself, as far as a pipeline for it must know. Drivers trust the modules they get; this finds
/// what is no module at all, what is cut off, and what does not fit the buffers at hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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
        std::string block = {};  ///< the type's name in the source: "Weight"; empty where the module keeps no names
    };
    /// A member of the block of push constants, or of a struct in it.
    struct Member {
        std::string name;
        std::uint32_t offset;  ///< bytes, from the start of the block
    };
    std::vector<Resource> resources;
    std::map<std::uint32_t, std::string> constants;  ///< names of its specialization constants by id, empty as above
    std::vector<Member> push;                        ///< the leaves, in their order
    std::set<std::uint32_t> capabilities;            ///< as the specification numbers them
};

/// Every instruction is walked over. Errors: CorruptFile (no SPIR-V, cut off, words that are no instruction, ids above the bound,
/// no compute shader called `entry_point`), MissingFeature (SPIR-V newer than 1.6), with `name` in front.
Result<SpirvModule> read_spirv(std::span<const std::byte> bytes, const std::string& entry_point,
                               const std::string& name);

}  // namespace vkformer::bench
