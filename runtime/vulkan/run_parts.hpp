// SPDX-License-Identifier: MIT
/// A run of a program in parts of bounded time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vkformer::vulkan {

/// How far a run is: so many dispatches are done, and of the next one so many workgroups, counted along x, then y, then z.
struct RunPlace {
    std::uint32_t dispatch = 0;
    std::uint64_t group = 0;
    friend auto operator<=>(const RunPlace&, const RunPlace&) = default;
};

struct DispatchCost {
    double us = -1;            ///< expected of the whole grid; negative: unknown
    std::uint64_t groups = 1;  ///< its workgroups
    bool is_cuttable = false;  ///< its grid, between any two workgroups
};

struct RunPart {
    RunPlace first, last;
    double expected_us = 0;
    bool is_full = false;  ///< nothing may be added to it
    bool exceeds = false;  ///< one dispatch takes longer than the budget, and cannot be cut
};

/// What of a run of `count` dispatches comes next from `first` on and fits into the budget, beside `taken_us` of what is in the part already.
/// Where nothing is (`is_empty`), it is something, though it may take longer. A dispatch of unknown time is alone; one that takes longer than
/// the whole budget is cut, others are not. cost(dispatch) gives a DispatchCost.
RunPart next_part(auto&& cost, std::uint32_t count, RunPlace first, double budget_us, double taken_us = 0,
                  bool is_empty = true) {
    RunPart part{.first = first, .last = first};
    while (part.last.dispatch < count && !part.is_full) {
        const DispatchCost next = cost(part.last.dispatch);
        const std::uint64_t left = next.groups - part.last.group;
        const auto share_us = [&](std::uint64_t groups) {
            return std::max(next.us, 0.0) * static_cast<double>(groups) / static_cast<double>(next.groups);
        };
        const double room_us = budget_us - taken_us - part.expected_us;
        std::uint64_t taken = left;
        if (next.us < 0) {
            part.is_full = true;
            if (!is_empty) break;
        } else if (share_us(left) > room_us) {
            part.is_full = true;
            const bool is_cut = next.is_cuttable && next.us > budget_us;
            if (is_cut) {
                const double fitting = std::max(room_us, 0.0) / next.us * static_cast<double>(next.groups);
                taken = std::min(left, static_cast<std::uint64_t>(fitting));
                if (is_empty) taken = std::max<std::uint64_t>(taken, 1);
            }
            if (taken == 0 || (!is_cut && !is_empty)) break;
            part.exceeds = share_us(taken) > budget_us;
        }
        part.expected_us += share_us(taken);
        part.last.group += taken;
        if (part.last.group == next.groups) part.last = {part.last.dispatch + 1, 0};
        is_empty = false;
    }
    return part;
}

/// A whole run, in parts; at least one, which is empty where the run is.
std::vector<RunPart> cut_run(auto&& cost, std::uint32_t count, double budget_us) {
    std::vector<RunPart> parts;
    do parts.push_back(next_part(cost, count, parts.empty() ? RunPlace{} : parts.back().last, budget_us));
    while (parts.back().last.dispatch < count);
    return parts;
}

}  // namespace vkformer::vulkan
