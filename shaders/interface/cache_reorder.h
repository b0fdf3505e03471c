// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_CACHE_REORDER_H
#define VKFORMER_SHADERS_CACHE_REORDER_H
#include "types.h"
SHARED_BEGIN
const uint kCacheReorderParents = 0, kCacheReorderLengths = 1, kCacheReorderCache = 2;
const uint kCacheReorderBeams = 1;  // specialization constant: rows per group, at most kCacheReorderMaxBeams
const uint kCacheReorderMaxBeams = 32;
struct CacheReorderPush {
    uint groups;  // of `beams` rows each
    uint workgroups_per_group;
    uint capacity;  // positions per row
    uint width;     // elements per position: heads · dim
};
SHARED_END
#endif
