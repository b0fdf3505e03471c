// SPDX-License-Identifier: MIT
#include "core/shape.hpp"

#include <algorithm>
#include <limits>

namespace vkformer {

std::optional<std::uint64_t> Shape::checked_element_count() const noexcept {
    if (std::ranges::find(dims(), 0u) != dims().end()) return 0;
    std::uint64_t count = 1;
    for (const std::uint64_t dim : dims()) {
        if (dim > std::numeric_limits<std::uint64_t>::max() / count) return std::nullopt;
        count *= dim;
    }
    return count;
}

std::uint64_t Shape::row_count() const noexcept {
    std::uint64_t count = 1;
    for (std::size_t i = 0; i + 1 < rank_; ++i) count *= dims_[i];
    return count;
}

Shape Shape::with_back(std::uint64_t dim) const noexcept {
    Shape result = *this;
    assert(rank_ > 0);
    result.dims_[rank_ - 1] = dim;
    return result;
}

bool operator==(const Shape& a, const Shape& b) noexcept { return std::ranges::equal(a.dims(), b.dims()); }

std::string to_string(const Shape& shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.rank(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

}  // namespace vkformer
