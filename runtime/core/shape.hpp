// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace vkformer {

/// The dimensions of a dense row-major tensor, outermost first. A plain value; rank 0 is a scalar.
class Shape {
public:
    static constexpr std::size_t kMaxRank = 6;

    Shape() = default;
    Shape(std::initializer_list<std::uint64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
    /// Requires dims.size() ≤ kMaxRank.
    explicit Shape(std::span<const std::uint64_t> dims) : rank_(dims.size()) {
        assert(dims.size() <= kMaxRank);
        for (std::size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
    }

    std::size_t rank() const noexcept { return rank_; }
    std::uint64_t operator[](std::size_t axis) const noexcept {
        assert(axis < rank_);
        return dims_[axis];
    }
    std::uint64_t back() const noexcept { return (*this)[rank_ - 1]; }
    std::span<const std::uint64_t> dims() const noexcept { return {dims_.data(), rank_}; }

    /// Product of all dimensions; nullopt where it overflows 64 bits.
    std::optional<std::uint64_t> checked_element_count() const noexcept;
    /// Product of all dimensions; the shape is known not to overflow (every tensor of a Graph).
    std::uint64_t element_count() const noexcept { return *checked_element_count(); }
    /// Product of all dimensions but the last; 1 for rank 0 and 1.
    std::uint64_t row_count() const noexcept;
    /// This shape with its last dimension replaced. Requires rank ≥ 1.
    Shape with_back(std::uint64_t dim) const noexcept;

    friend bool operator==(const Shape& a, const Shape& b) noexcept;

private:
    std::array<std::uint64_t, kMaxRank> dims_{};
    std::size_t rank_ = 0;
};

/// "[1, 8, 512, 128]"
std::string to_string(const Shape& shape);

}  // namespace vkformer
