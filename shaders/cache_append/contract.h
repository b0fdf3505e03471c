// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_CACHE_APPEND_H
#define VKFORMER_SHADERS_CACHE_APPEND_H
#include "lib/pages.h"
SHARED_BEGIN
const uint kCacheAppendX = 0, kCacheAppendStarts = 1, kCacheAppendCache = 2, kCacheAppendPages = 3;
const uint kCacheAppendHasStarts =
    1;  // specialization constant: 0 where starts is absent; its binding is not touched then
const uint kCacheAppendHasPages = 2;  // specialization constant: likewise, of pages
const uint kCacheAppendElementsPerInvocation = 4;
// cache_append/cache_append_q8.comp has the same bindings, constants and push; an invocation owns four elements there too, but neighbours.
const uint kCacheAppendWorkgroup = 128;  // of both
const uint kCacheBlockQuads = 8;         // invocations that share a block
struct CacheAppendPush {
    uint count;     // elements of x
    uint len;       // new positions per sequence
    uint capacity;  // positions per sequence of the cache
    uint rows;      // of the cache: batch · capacity, or pages · kPageLen
    uint width;     // elements per position: heads · dim
};
SHARED_END
#endif
