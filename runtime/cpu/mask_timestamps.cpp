// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

// y = x with −∞ for what may not follow a row's own tokens: those of the sequence from `begin` to `start`. Tokens from op.first on are
// times. The rules of Whisper (Radford et al. 2022, section 4.5) in the order of Hugging Face's WhisperTimeStampLogitsProcessor.
template <std::floating_point T>
void mask_timestamps(std::span<const T> x, std::span<const std::int32_t> sequence, std::int32_t start,
                     std::int32_t begin, const graph::MaskTimestamps& op, std::span<T> y) {
    assert(y.size() == x.size());
    constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();
    const auto len = std::clamp<std::int64_t>(std::int64_t{start} + 1, 0, static_cast<std::int64_t>(sequence.size()));
    const auto skipped = std::clamp<std::int64_t>(begin, 0, len);
    const auto own = sequence.subspan(static_cast<std::size_t>(skipped), static_cast<std::size_t>(len - skipped));
    const auto first = static_cast<std::size_t>(op.first);
    const auto is_time = [&](std::int32_t token) { return token >= op.first; };
    const auto forbid = [&](std::size_t from, std::size_t end) {
        end = std::min(end, y.size());
        if (from < end) std::ranges::fill(y.subspan(from, end - from), kMinusInfinity);
    };

    std::ranges::copy(x, y.begin());
    if (first > 0) forbid(first - 1, first);  // it asks for no times
    if (own.empty()) {
        forbid(0, first);
        if (op.latest_initial >= 0) forbid(first + static_cast<std::size_t>(op.latest_initial) + 1, y.size());
        return;
    }
    const bool ends_in_time = is_time(own.back());
    const bool is_second = own.size() < 2 || is_time(own[own.size() - 2]);
    if (ends_in_time && is_second) forbid(first, y.size());
    if (ends_in_time && !is_second) forbid(0, static_cast<std::size_t>(op.eos));
    for (std::size_t i = own.size(); i-- > 0;) {
        if (!is_time(own[i])) continue;
        forbid(first, static_cast<std::size_t>(own[i]) + (ends_in_time && !is_second ? 0 : 1));
        break;
    }

    const std::span<const T> text = y.first(first), times = y.subspan(first);
    T best_text = kMinusInfinity, best_time = kMinusInfinity, total = 0;
    for (const T value : text) best_text = std::isnan(best_text) || best_text > value ? best_text : value;
    for (const T value : times) best_time = std::isnan(best_time) || best_time > value ? best_time : value;
    if (best_time == kMinusInfinity) return;
    for (const T value : times) total += std::exp(value - best_time);
    if (best_time + std::log(total) > best_text) forbid(0, first);
}

}  // namespace

template <std::floating_point T>
void execute(const graph::MaskTimestamps& op, const Operands<T>& operands) {
    for_rows(operands.rows(op.x), operands.width(op.x), [&](std::size_t row) {
        mask_timestamps<T>(operands.floats(op.x, row), operands.ints(op.sequences, row), operands.ints(op.starts)[row],
                           operands.ints(op.begins)[row], op, operands.floats(op.y, row));
    });
}
template void execute(const graph::MaskTimestamps&, const Operands<float>&);
template void execute(const graph::MaskTimestamps&, const Operands<double>&);

ErrorRule error_rule(const graph::MaskTimestamps&, const graph::Graph&) { return kExact; }

}  // namespace vkformer::cpu
