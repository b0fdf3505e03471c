// SPDX-License-Identifier: MIT
#include "bench/roofline.hpp"

#include <algorithm>
#include <initializer_list>

namespace vkformer::bench {
namespace {

/// The largest of some limits, in units of 1 per second.
void take_largest(const std::vector<Limit>& limits, std::initializer_list<std::string_view> names, double& value,
                  std::string& best) {
    for (const std::string_view name : names)
        if (const Limit* const limit = find_limit(limits, name); limit && limit->value * 1e9 > value) {
            value = limit->value * 1e9;
            best = limit->name;
        }
}

}  // namespace

Roof roof_for(const std::vector<Limit>& limits, cases::Arithmetic arithmetic) {
    Roof roof;
    take_largest(limits, {kCopyBandwidth, kReadBandwidth}, roof.bandwidth, roof.bandwidth_name);
    take_largest(limits, {kPeakF32}, roof.peak, roof.peak_name);
    if (arithmetic != cases::Arithmetic::f32)
        take_largest(limits, {kPeakF16, kPeakMatrixF16}, roof.peak, roof.peak_name);
    if (arithmetic == cases::Arithmetic::integer) take_largest(limits, {kPeakIntDot}, roof.peak, roof.peak_name);
    return roof;
}

std::optional<Share> share_of(const Roof& roof, const cases::Work& work, double measured_seconds) {
    const double memory = roof.bandwidth > 0 ? work.bytes() / roof.bandwidth : 0;
    const double arithmetic = roof.peak > 0 ? work.flops / roof.peak : 0;
    if (memory == 0 && arithmetic == 0) return std::nullopt;
    Share share{.seconds = std::max(memory, arithmetic), .by_memory = memory >= arithmetic};
    share.limit = share.by_memory ? roof.bandwidth_name : roof.peak_name;
    share.share = share.seconds / measured_seconds;
    return share;
}

}  // namespace vkformer::bench
