#version 450
// One head of an attention's softmax, [heads, query_len, key_len] float32 as the model's shader wrote it, as a heat map: the fragment at `uv` shows
// weights[head, ⌊uv.y · queries⌋, ⌊uv.x · keys⌋], of which the first `queries` rows and `keys` columns are shown.
layout(std430, binding = 0) readonly buffer Weights { float weights[]; };
layout(push_constant) uniform Push {
    vec4 rectangle;     // x, y, width, height in pixels
    vec2 window_size;
    uint head;
    uint query_len;     // rows of the tensor
    uint key_len;       // columns of the tensor
    uint queries;       // rows shown
    uint keys;          // columns shown
};
layout(location = 0) in vec2 uv;
layout(location = 0) out vec4 color;

// A blackbody-like ramp: black, violet, orange, near white.
vec3 heat(float x) {
    return clamp(vec3(x * 3.0 - 0.35, x * 2.2 - 0.75, 0.55 - abs(x - 0.3) * 1.6 + max(0.0, x - 0.75) * 3.0), 0.0, 1.0);
}

void main() {
    const vec2 cell = uv * vec2(keys, queries);
    const uint query = min(uint(cell.y), queries - 1);
    const uint key = min(uint(cell.x), keys - 1);
    const float weight = weights[(head * query_len + query) * key_len + key];
    const vec2 pixels_from_edge = fract(cell) * rectangle.zw / vec2(keys, queries);
    const float is_grid = float(min(pixels_from_edge.x, pixels_from_edge.y) < 1.0);
    color = vec4(mix(heat(weight), vec3(0.25), is_grid), 1.0);
}
