#version 450
// One rectangle per instance, as a strip of four vertices; position and size in pixels.
layout(push_constant) uniform Push { vec2 window_size; };
layout(location = 0) in vec4 rectangle;   // x, y, width, height
layout(location = 1) in vec4 color;
layout(location = 2) in float angle;      // radians, about the centre
layout(location = 0) out vec4 fragment_color;

void main() {
    const vec2 corner = vec2(gl_VertexIndex & 1, gl_VertexIndex >> 1) - 0.5;
    const vec2 local = corner * rectangle.zw;
    const mat2 turn = mat2(cos(angle), sin(angle), -sin(angle), cos(angle));
    const vec2 pixel = rectangle.xy + 0.5 * rectangle.zw + turn * local;
    gl_Position = vec4(pixel / window_size * 2.0 - 1.0, 0.0, 1.0);
    fragment_color = color;
}
