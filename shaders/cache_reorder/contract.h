// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_CACHE_REORDER_H
#define VKFORMER_SHADERS_CACHE_REORDER_H
#include "lib/types.h"
SHARED_BEGIN
const uint kCacheReorderParents = 0, kCacheReorderBegins = 1, kCacheReorderLengths = 2, kCacheReorderCache = 3;
const uint kCacheReorderBeams = 1;  // specialization constant: rows per group, at most kCacheReorderMaxBeams
const uint kCacheReorderMaxBeams = 32;
const uint kCacheReorderPlanes = 2;  // specialization constant: 2 of a cache in blocks, else 1
const uint kCacheReorderHasBegins =
    3;  // specialization constant: 0 where begins is absent; its binding is not touched then
struct CacheReorderPush {
    uint groups;  // of `beams` rows each
    uint workgroups_per_group;
    uint capacity;     // positions per row
    uint width;        // elements per position: heads · dim; of a cache in blocks, words of their integers
    uint scale_width;  // words of their scales
};
SHARED_END
#endif
