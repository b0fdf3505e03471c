#version 450
// One shape over a gradient, among drifting bars and dots: the pictures that tools/train/scenes.py draws, from the same signed distances. Lengths are in
// widths of the picture, y points down; a shape's own coordinates have its radius as their unit.
layout(push_constant) uniform Push {
    vec4 upper;      // colour where the gradient begins; a: its direction in radians
    vec4 lower;      // and where it ends; a: seconds
    vec4 placement;  // of the shape: centre, radius, angle
    vec4 color;      // of the shape
    uint shape;      // 0 circle, 1 ring, 2 square, 3 triangle, 4 cross, 5 star, 6 heart, 7 moon
};
layout(location = 0) in vec2 uv;
layout(location = 0) out vec4 result;

const int BARS = 6;

vec2 turned(vec2 v, float angle) {
    return vec2(cos(angle) * v.x + sin(angle) * v.y, cos(angle) * v.y - sin(angle) * v.x);
}

// Five times the edge from the tip (0, 1) to the corner at 36° and radius 0.42.
float star(vec2 p) {
    const float sector = 1.2566371;
    const float angle = abs(mod(atan(p.x, -p.y) + sector / 2.0, sector) - sector / 2.0);
    return dot(vec2(0.9366, 0.3503), length(p) * vec2(sin(angle), cos(angle)) - vec2(0.0, 1.0));
}

// A square on its tip, with a circle over each of its upper edges.
float heart(vec2 p) {
    p = vec2(abs(p.x), p.y - 0.08);
    return min((p.x + abs(p.y)) * 0.7071 - 0.6, length(p - vec2(0.4243, -0.4243)) - 0.6);
}

// Signed, exact or nearly so near the outline: negative inside.
float shape_distance(vec2 p) {
    const vec2 q = abs(p);
    switch (shape) {
    case 0: return length(p) - 1.0;
    case 1: return abs(length(p) - 0.75) - 0.25;
    case 2: return max(q.x, q.y) - 0.8;
    case 3: return max(p.y, 0.8660 * q.x - 0.5 * p.y) - 0.5;
    case 4: return min(max(q.x - 1.0, q.y - 0.3), max(q.x - 0.3, q.y - 1.0));
    case 5: return star(p);
    case 6: return heart(p);
    default: return max(length(p) - 1.0, 0.8 - length(p - vec2(0.45, 0.0)));
    }
}

// A line with round ends.
float bar_distance(vec2 p, float half_length, float half_width) {
    return length(vec2(max(abs(p.x) - half_length, 0.0), p.y)) - half_width;
}

// Four numbers from 0 to 1 for each n.
vec4 scattered(float n) {
    return fract(sin(n * vec4(12.9898, 78.233, 37.719, 4.1414)) * 43758.5453);
}

void paint(inout vec3 picture, float distance, vec3 paint_color) {
    const float pixel = fwidth(uv.x);
    picture = mix(picture, paint_color, clamp(0.5 - distance / pixel, 0.0, 1.0));
}

void main() {
    const vec2 direction = vec2(cos(upper.a), sin(upper.a));
    vec3 picture = mix(upper.rgb, lower.rgb, clamp(0.5 + dot(uv - 0.5, direction), 0.0, 1.0));
    for (int i = 0; i < BARS; ++i) {
        const vec4 place = scattered(float(i) + 1.0), look = scattered(float(i) + 51.0);
        const vec2 center = fract(place.xy + 0.04 * lower.a * (place.zw - 0.5)) * 1.2 - 0.1;
        const vec2 p = turned(uv - center, 6.2831853 * place.z + 0.2 * lower.a * (place.w - 0.5));
        paint(picture, bar_distance(p, max(0.0, 0.24 * look.w - 0.08), 0.008 + 0.02 * place.w), look.rgb);
    }
    paint(picture, shape_distance(turned(uv - placement.xy, placement.w) / placement.z) * placement.z, color.rgb);
    result = vec4(picture, 1.0);
}
