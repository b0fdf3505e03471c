// SPDX-License-Identifier: MIT
/// What a kernel tells the recorder: which module, with which constants, on which operands, how many workgroups. Bindings, constants
/// and push constants are set by the names of the op's contract (shaders/OP/contract.h).
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/graph.hpp"
#include "vulkan/shader_module.hpp"

namespace vkformer::vulkan {

/// What a shader reads or writes: a tensor, or memory of the program that holds nothing between nodes.
struct Operand {
    enum class Kind : std::uint8_t {
        tensor,
        scratch,  ///< DispatchPlan::scratch_bytes, shared by the dispatches of one node
        counter,  ///< a word that is 0 before and behind every dispatch: the tiles that workgroups have taken
    };
    Kind kind = Kind::tensor;
    graph::Value tensor{};

    Operand(graph::Value value) : tensor(value) {}  // implicit: most operands are tensors
    static Operand scratch() noexcept { return Operand(Kind::scratch); }
    static Operand counter() noexcept { return Operand(Kind::counter); }

private:
    explicit Operand(Kind k) : kind(k) {}
};

/// A block of push constants, up to 128 bytes (what every Vulkan device has): where a part of the grid begins (PART_OF_GRID of
/// shaders/lib/grid.glsl), then what the kernel says.
class PushConstants {
public:
    static constexpr std::size_t kOwn = 2 * sizeof(std::uint32_t);  ///< bytes before the kernel's

    template <class T>
    void set(const T& values) {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 128 - kOwn && sizeof(T) % 4 == 0);
        std::memcpy(bytes_.data() + kOwn, &values, sizeof(T));
        size_ = kOwn + sizeof(T);
    }
    template <class T>
    T get() const {
        T values;
        std::memcpy(&values, bytes_.data() + kOwn, sizeof(T));
        return values;
    }
    /// The workgroup, in its plane, and the plane, that what is dispatched begins with.
    void begin_at(std::uint32_t workgroup, std::uint32_t plane) noexcept {
        const std::uint32_t first[] = {workgroup, plane};
        std::memcpy(bytes_.data(), first, kOwn);
    }
    /// Behind what was set, or in place of an earlier one. `offset`, of the whole block: a multiple of 8, at most 120.
    void set_address(std::size_t offset, std::uint64_t address) noexcept {
        std::memcpy(bytes_.data() + offset, &address, sizeof address);
        size_ = std::max(size_, offset + sizeof address);
    }
    std::span<const std::byte> bytes() const noexcept { return {bytes_.data(), size_}; }

private:
    std::array<std::byte, 128> bytes_{};
    std::size_t size_ = kOwn;
};

struct Dispatch {
    struct Binding {
        std::uint32_t id;
        Operand operand;
    };
    struct Constant {
        std::uint32_t id, value;
        friend auto operator<=>(const Constant&, const Constant&) = default;
    };
    struct Address {
        std::uint32_t push_offset;
        Operand operand;
    };

    Module module{};
    std::array<std::uint32_t, 3> groups{1, 1, 1};
    PushConstants push{};
    std::vector<Binding> bindings{};    ///< of set 0
    std::vector<Constant> constants{};  ///< specialization constants
    /// What the shader reads by its address, which is written to `push`. Only with Capabilities::buffer_addresses.
    std::vector<Address> addresses{};

    /// A shader's binding needs a buffer even where the shader does not touch it: an absent operand is bound as another one.
    Dispatch& bind(std::uint32_t id, Operand operand) {
        bindings.push_back({id, operand});
        return *this;
    }
    Dispatch& set(std::uint32_t id, std::uint64_t value) {
        assert(value <= std::numeric_limits<std::uint32_t>::max());
        constants.push_back({id, static_cast<std::uint32_t>(value)});
        return *this;
    }
    Dispatch& point(std::uint32_t push_offset, Operand operand) {
        addresses.push_back({push_offset, operand});
        return *this;
    }
};

/// The dispatches of one node, each behind a barrier after the one before it.
struct DispatchPlan {
    std::vector<Dispatch> dispatches{};
    std::uint64_t scratch_bytes = 0;  ///< of Operand::scratch()

    DispatchPlan() = default;
    explicit DispatchPlan(Dispatch only) { dispatches.push_back(std::move(only)); }
    /// Whether it uses memory that other nodes use, too, so that none of them may run beside it.
    bool shares_memory() const {
        const auto is_shared = [](const auto& use) { return use.operand.kind != Operand::Kind::tensor; };
        return std::ranges::any_of(dispatches, [&](const Dispatch& d) {
            return std::ranges::any_of(d.bindings, is_shared) || std::ranges::any_of(d.addresses, is_shared);
        });
    }
};

}  // namespace vkformer::vulkan
