#version 460
// SPDX-License-Identifier: MIT
// y[c, r, s] = (image((s + 1/2) / width, (r + 1/2) / height)[c] − mean[c]) · scale[c]: an image of the application, of any size,
// as a model's input. y: [channels, height, width], float32; channels 1 or 3. The sampler interpolates linearly and repeats the
// border; an image of the tensor's own size comes through exactly.
// One workgroup per gl_WorkGroupSize.x consecutive pixels; an invocation owns a pixel and writes all its channels.
#extension GL_GOOGLE_include_directive : require
#include "interface/image_to_tensor.h"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { ImageToTensorPush p; };
layout(binding = kImageToTensorImage) uniform sampler2D image;
layout(std430, binding = kImageToTensorY) writeonly buffer Y { float y[]; };
#include "lib/grid.glsl"

void main() {
    const uint pixel = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    const uint pixels = p.height * p.width;
    if (pixel >= pixels) return;
    const vec2 at = (vec2(pixel % p.width, pixel / p.width) + 0.5) / vec2(p.width, p.height);
    const vec3 mean = vec3(p.mean_r, p.mean_g, p.mean_b), scale = vec3(p.scale_r, p.scale_g, p.scale_b);
    const vec3 value = (textureLod(image, at, 0.0).rgb - mean) * scale;
    for (uint c = 0; c < p.channels; ++c) y[c * pixels + pixel] = value[c];
}
