// SPDX-License-Identifier: MIT
// Which keys a query sees (AttentionMask in runtime/graph/ops.hpp). Whatever combination of causal, window and lengths
// it is, they leave one range of keys; both of its ends rise with the query, so that the queries i … k see nothing
// outside of visible_keys(i).x … visible_keys(k).y, and whole tiles of keys need not be read.
// The shader declares before: MASK (the bits of lib/attention_mask.h), the push constants `p` with `p.mask`, and
// the buffers key_lengths and starts (int32 [batch]) and additive (float32); or, in place of the first two, KEY_LENGTH and START.
#ifndef VKFORMER_ATTENTION_MASK_GLSL
#define VKFORMER_ATTENTION_MASK_GLSL
#include "lib/numbers.glsl"
#ifndef START
#define KEY_LENGTH(batch) key_lengths[batch]
#define START(batch) starts[batch]
#endif

// Keys x … y − 1 are visible to `query`; x ≤ y ≤ key_len whatever lengths and starts contain.
uvec2 visible_keys(uint batch, uint query) {
    uint first = 0;
    uint end = p.mask.key_len;
    if ((MASK & kMaskKeyLengths) != 0) end = uint(clamp(KEY_LENGTH(batch), 0, int(end)));
    if ((MASK & (kMaskCausal | kMaskWindow)) != 0) {
        // The query's position is start + query. It is kept in two parts, one of which is 0, so that no sum wraps around:
        // how far it lies before key 0, and how far behind.
        const int start = (MASK & kMaskStarts) != 0 ? START(batch) : 0;
        const uint start_before = start < 0 ? 0u - uint(start) : 0u;
        const uint before = start_before > query ? start_before - query : 0u;
        const uint position = start < 0 ? query - min(query, start_before) : query + uint(start);
        if ((MASK & kMaskCausal) != 0) end = before > 0 ? 0u : min(end, position + 1);
        if ((MASK & kMaskWindow) != 0) {
            const uint window = p.mask.window;
            if (before > 0) {
                end = min(end, window - min(window, before));
            } else {
                first = position >= window ? position - window + 1 : 0u;
                end = min(end, position + min(window, 0xFFFFFFFFu - position));
            }
        }
    }
    return uvec2(min(first, end), end);
}

// What the mask adds to the score of a visible key.
float additive_mask(uint batch, uint head, uint query, uint key) {
    if ((MASK & kMaskAdditive) == 0) return 0.0;
    return additive[batch * p.mask.additive_batch + head * p.mask.additive_head + query * p.mask.additive_query + key];
}

// What a head's sink adds to Σ exp(score − largest): it counts as a key whose value is zero. Where it is larger than what the others can be
// beside it, the sum is infinite, and their weights are zeros.
float sink_weight(uint head, float largest) {
    if ((MASK & kScoreSinks) == 0) return 0.0;
    const float sink = additive[head];
    if (isnan(sink)) return sink;  // SwiftShader's exp() of it is none
    return exp(sink - (largest == MINUS_INFINITY ? 0.0 : largest));
}

#endif
