// What the class token looks at: one layer's softmax, [heads, tokens, tokens] float32 as the model's shader wrote it. Row 0 is the class token's; the
// last rows · columns keys of it are the patches, row by row.
layout(std430, binding = 0) readonly buffer Weights { float weights[]; };
layout(push_constant) uniform Push {
    vec4 rectangle;        // x, y, width, height in pixels
    vec2 window_size;
    uint head;
    uint head_count;       // shown is the mean of so many heads from `head` on
    uint tokens;
    uint rows, columns;    // of patches
    float opacity;         // of the map over the picture
};

float weight_of(uint patch_index) {
    const uint key = tokens - rows * columns + patch_index;
    float sum = 0.0;
    for (uint i = head; i < head + head_count; ++i) sum += weights[i * tokens * tokens + key];
    return sum / float(head_count);
}
