// SPDX-License-Identifier: MIT
// key_lengths and starts, whichever are there, behind one another: with a binding for each, a shader would have 9 storage buffers, and
// not every device allows more than 8. What lib/attention_mask.glsl reads in place of the two.
layout(std430, binding = kDecodeAttentionWords) readonly buffer Words { int words[]; };
#define KEY_LENGTH(batch) words[batch]
#define START(batch) words[((MASK & kMaskKeyLengths) != 0 ? p.batch : 0) + batch]
