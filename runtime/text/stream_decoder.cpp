// SPDX-License-Identifier: MIT
#include "text/stream_decoder.hpp"

#include <algorithm>
#include <utility>

namespace vkformer::text {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

StopStrings::Output StopStrings::push(std::string_view part) {
    if (stopped_by_) return {{}, stopped_by_};
    held_ += part;
    std::size_t begin = held_.npos, end = held_.npos;
    for (std::size_t i = 0; i < stops_.size(); ++i) {
        const std::size_t found = stops_[i].empty() ? held_.npos : held_.find(stops_[i]);
        if (found == held_.npos) continue;
        const std::size_t found_end = found + stops_[i].size();
        if (found_end > end || (found_end == end && found >= begin)) continue;
        begin = found;
        end = found_end;
        stopped_by_ = i;
    }
    if (stopped_by_) return {std::exchange(held_, {}).substr(0, begin), stopped_by_};
    const std::size_t printable = held_.size() - open_end();
    Output output{held_.substr(0, printable), std::nullopt};
    held_.erase(0, printable);
    return output;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

/// The length of the longest end of what is held that is the beginning of a stop string.
std::size_t StopStrings::open_end() const {
    std::size_t longest = 0;
    for (const std::string& stop : stops_) {
        if (stop.empty()) continue;
        std::size_t size = std::min(held_.size(), stop.size() - 1);
        while (size > longest && !std::string_view(held_).ends_with(std::string_view(stop).substr(0, size))) --size;
        longest = std::max(longest, size);
    }
    return longest;
}

}  // namespace vkformer::text
