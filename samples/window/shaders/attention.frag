#version 450
// The picture, and over it the class token's attention: dim where it looks least, glowing where it looks most. Between the middles of the patches the
// weights are interpolated.
#extension GL_GOOGLE_include_directive : require
#include "attention.glsl"
layout(binding = 1) uniform sampler2D picture;
layout(location = 0) in vec2 uv;
layout(location = 1) flat in vec2 range;
layout(location = 0) out vec4 color;

float weight_at(ivec2 cell) {
    const ivec2 inside = clamp(cell, ivec2(0), ivec2(columns, rows) - 1);
    return weight_of(uint(inside.y) * columns + uint(inside.x));
}

// A blackbody-like ramp: black, violet, orange, near white.
vec3 heat(float x) {
    return clamp(vec3(x * 3.0 - 0.35, x * 2.2 - 0.75, 0.55 - abs(x - 0.3) * 1.6 + max(0.0, x - 0.75) * 3.0), 0.0, 1.0);
}

void main() {
    const vec2 place = uv * vec2(columns, rows) - 0.5;
    const ivec2 cell = ivec2(floor(place));
    const vec2 share = place - vec2(cell);
    const float upper = mix(weight_at(cell), weight_at(cell + ivec2(1, 0)), share.x);
    const float lower = mix(weight_at(cell + ivec2(0, 1)), weight_at(cell + ivec2(1, 1)), share.x);
    const float weight = (mix(upper, lower, share.y) - range.x) / max(range.y - range.x, 1e-9);
    const vec3 seen = texture(picture, uv).rgb;
    color = vec4(mix(seen, seen * 0.45 + heat(weight), opacity), 1.0);
}
