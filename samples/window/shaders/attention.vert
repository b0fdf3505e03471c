#version 450
// A rectangle of the window; and, for the scale of its colours, the smallest and the largest weight that it will show.
#extension GL_GOOGLE_include_directive : require
#include "attention.glsl"
layout(location = 0) out vec2 uv;
layout(location = 1) flat out vec2 range;

void main() {
    uv = vec2(gl_VertexIndex & 1, gl_VertexIndex >> 1);
    gl_Position = vec4((rectangle.xy + uv * rectangle.zw) / window_size * 2.0 - 1.0, 0.0, 1.0);
    range = vec2(1.0, 0.0);
    for (uint patch_index = 0; patch_index < rows * columns; ++patch_index) {
        const float weight = weight_of(patch_index);
        range = vec2(min(range.x, weight), max(range.y, weight));
    }
}
