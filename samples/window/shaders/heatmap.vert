#version 450
layout(push_constant) uniform Push {
    vec4 rectangle;   // x, y, width, height in pixels
    vec2 window_size;
};
layout(location = 0) out vec2 uv;

void main() {
    uv = vec2(gl_VertexIndex & 1, gl_VertexIndex >> 1);
    gl_Position = vec4((rectangle.xy + uv * rectangle.zw) / window_size * 2.0 - 1.0, 0.0, 1.0);
}
