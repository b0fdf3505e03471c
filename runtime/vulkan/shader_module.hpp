// SPDX-License-Identifier: MIT
/// The compiled shaders. What there is stands in shaders/**/modules.json, from which the build makes the definitions, shader_table.hpp
/// (a ShaderFamily per family) and shader_kinds.hpp (the enumerations).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shader_kinds.hpp"
#include "vkformer/result.hpp"

namespace vkformer::vulkan {

constexpr std::uint32_t bit_of(ShaderRequirement requirement) noexcept {
    return 1u << static_cast<std::uint32_t>(requirement);
}

/// A SPIR-V module inside the library.
struct EmbeddedModule {
    /// All modules of its table, one behind the other, with packed ids, as an xz stream: a fiftieth of their size.
    std::span<const unsigned char> xz;
    std::uint32_t contents = 0;           ///< bytes of all of them
    std::uint32_t offset = 0, bytes = 0;  ///< of this module in the contents
};

struct ShaderBinary {
    std::string_view name;
    std::string_view source;  ///< a path from shaders/
    EmbeddedModule module{};
    std::uint32_t requires_mask = 0;  ///< bits of ShaderRequirement
};

/// The modules of one source that differ in how their tensors are stored.
struct ShaderFamily {
    static constexpr std::size_t kMost = 8;
    struct Member {
        Storage storage = Storage::single;
        std::int32_t position = -1;  ///< in the table; −1: none
    };

    std::string_view name;
    std::span<const ShaderBinary> (*table)();
    std::array<Member, kMost> members;

    /// Nothing where there is no such form, or where this build's shader compiler was too old for it.
    const ShaderBinary* find(Storage storage) const {
        for (const Member& member : members)
            if (member.position >= 0 && member.storage == storage)
                return &table()[static_cast<std::size_t>(member.position)];
        return nullptr;
    }
};

/// Which module a dispatch runs. A value: it costs no search by name.
struct Module {
    const ShaderFamily* family = nullptr;
    Storage storage = Storage::single;

    /// "linear_row_f16", also where the build lacks it.
    std::string name() const {
        std::string name(family->name);
        if (storage != Storage::single) name.append("_").append(kStorageNames[static_cast<std::size_t>(storage)]);
        return name;
    }
    const ShaderBinary* binary() const { return family->find(storage); }
    friend auto operator<=>(const Module&, const Module&) = default;
};

/// What the tables have compressed, unpacked when the first of a table's modules is asked for, and kept: some 6 MB, in 12 ms. Thread-safe.
class ShaderModules {
public:
    /// The words of a module, which stay as long as this does. Errors: CorruptFile, where they are not what the build put there.
    Result<std::span<const std::uint32_t>> words(const ShaderBinary& shader);

private:
    std::mutex mutex_;
    std::map<const unsigned char*, std::vector<std::uint32_t>> contents_;  // by where the stream begins
};

}  // namespace vkformer::vulkan
