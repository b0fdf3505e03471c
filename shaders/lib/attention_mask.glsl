// SPDX-License-Identifier: MIT
// Which keys a query sees (AttentionMask in runtime/graph/ops.hpp). Whatever combination of causal, window and lengths
// it is, they leave one range of keys; both of its ends rise with the query, so that the queries i … k see nothing
// outside of visible_keys(i).x … visible_keys(k).y, and whole tiles of keys need not be read.
// The shader declares before: MASK (the bits of interface/attention_mask.h), the push constants `p` with `p.mask`, and
// the buffers key_lengths and starts (int32 [batch]) and additive (float32).
#ifndef VKFORMER_ATTENTION_MASK_GLSL
#define VKFORMER_ATTENTION_MASK_GLSL

const int LARGEST_INT = 0x7FFFFFFF;

// Whatever a start says, a position is not wrapped around.
int saturating_add(int a, int b) {
    if (b > 0 && a > LARGEST_INT - b) return LARGEST_INT;
    if (b < 0 && a < -LARGEST_INT - b) return -LARGEST_INT;
    return a + b;
}

// Keys x … y − 1 are visible to `query`; x ≤ y ≤ key_len whatever lengths and starts contain.
uvec2 visible_keys(uint batch, uint query) {
    int first = 0;
    int end = int(p.mask.key_len);
    if ((MASK & kMaskKeyLengths) != 0) end = clamp(key_lengths[batch], 0, end);
    if ((MASK & (kMaskCausal | kMaskWindow)) != 0) {
        const int start = (MASK & kMaskStarts) != 0 ? starts[batch] : 0;
        const int position = saturating_add(start, int(query));
        if ((MASK & kMaskCausal) != 0) end = min(end, saturating_add(position, 1));
        if ((MASK & kMaskWindow) != 0) {
            const int window = int(p.mask.window);
            first = max(first, saturating_add(position, 1 - window));
            end = min(end, saturating_add(position, window));
        }
    }
    end = max(end, 0);
    return uvec2(min(first, end), end);
}

// What the mask adds to the score of a visible key.
float additive_mask(uint batch, uint head, uint query, uint key) {
    if ((MASK & kMaskAdditive) == 0) return 0.0;
    return additive[batch * p.mask.additive_batch + head * p.mask.additive_head + query * p.mask.additive_query + key];
}

#endif
