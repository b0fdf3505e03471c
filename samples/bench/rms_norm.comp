#version 460
// SPDX-License-Identifier: MIT
// A first try at y[row, i] = gain[i] * x[row, i] / sqrt(mean_i(x[row, i]^2) + eps), one invocation per row: simple and slow. How slow:
//   vkformer bench shader samples/bench/rms_norm.comp --manifest samples/bench/rms_norm.json
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    uint rows, width;
    float eps;
} p;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Gain { float gain[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

void main() {
    const uint row = gl_GlobalInvocationID.x;
    if (row >= p.rows) return;
    float squares = 0.0;
    for (uint i = 0; i < p.width; ++i) squares += x[row * p.width + i] * x[row * p.width + i];
    const float scale = inversesqrt(squares / float(p.width) + p.eps);
    for (uint i = 0; i < p.width; ++i) y[row * p.width + i] = gain[i] * x[row * p.width + i] * scale;
}
