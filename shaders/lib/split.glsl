// SPDX-License-Identifier: MIT
// The keys x … y − 1 of a split: those that the query sees are shared out evenly over as many splits as have enough to do, which are
// spread over all of them (runtime/graph/splits.hpp). What a cache could hold costs nothing.
#ifndef VKFORMER_SPLIT_GLSL
#define VKFORMER_SPLIT_GLSL
uvec2 keys_of_split(uvec2 seen, uint split, uint splits) {
    const uint count = seen.y - seen.x;
    const uint each = max(kLeastSplitKeys, (count + splits - 1) / splits);
    const uint used = (count + each - 1) / each;
    const uint share = split * used / splits;
    if (used == 0 || (split > 0 && share == (split - 1) * used / splits)) return uvec2(0);
    const uint first = seen.x + share * each;
    return uvec2(first, min(first + each, seen.y));
}
#endif
