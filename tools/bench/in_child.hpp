// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "vkformer/result.hpp"

namespace vkformer::bench {

/// Runs `work` in a process of its own, so that a driver that crashes or hangs on somebody's shader takes only that process along.
/// What the child writes to standard output and standard error goes where the parent's goes; its exit code or Error comes back. It ends
/// with the thread that called. Call it before there are threads or devices. On Windows it runs in this process. Errors: those of `work`;
/// Vulkan (it crashed, with the signal; or it took longer than `max_seconds`, and was ended).
Result<int> in_child(const std::function<Result<int>()>& work, double max_seconds);

}  // namespace vkformer::bench
