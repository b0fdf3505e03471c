// SPDX-License-Identifier: MIT
/// What a reader has asked a file for, so that what nobody asked for can be told at the end.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace vkformer::formats {

/// Names that were asked for, whether there is such a thing in the file or not. Shared by the copies of what is read; thread-safe.
class AskedNames {
public:
    void add(std::string_view name) {
        const std::lock_guard lock(mutex_);
        if (!names_.contains(name)) names_.emplace(name);
    }
    bool has(std::string_view name) const {
        const std::lock_guard lock(mutex_);
        return names_.contains(name);
    }

private:
    mutable std::mutex mutex_;
    std::set<std::string, std::less<>> names_;
};

}  // namespace vkformer::formats
