#version 460
// SPDX-License-Identifier: MIT
// y[c, r, s] = (image((s + 1/2) / width, (r + 1/2) / height)[c] − mean[c]) · scale[c]: an image of the application, of any size,
// as a model's input. y: [channels, height, width], float32; channels 1 or 3. Between pixels it is interpolated linearly, and the
// border repeats; an image of the tensor's own size comes through exactly.
// Without a define the image is sampled; FORMAT=rgba8, rgba16f or rgba32f reads a storage image, which must have that format.
// One workgroup per gl_WorkGroupSize.x consecutive pixels; an invocation owns a pixel and writes all its channels.
#extension GL_GOOGLE_include_directive : require
#include "image_to_tensor/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID ImageToTensorPush p; };
#ifdef FORMAT
layout(binding = kImageToTensorImage, FORMAT) uniform readonly image2D image;
#else
layout(binding = kImageToTensorImage) uniform sampler2D image;
#endif
layout(std430, binding = kImageToTensorY) writeonly buffer Y { float y[]; };

#ifdef FORMAT
vec3 texel(ivec2 at) { return imageLoad(image, clamp(at, ivec2(0), imageSize(image) - 1)).rgb; }

// The pixel at `at`, of which (0, 0) and (1, 1) are corners of the image: what a linear sampler gives (Vulkan, section "Texel Filtering").
vec3 color(vec2 at) {
    const vec2 position = at * vec2(imageSize(image)) - 0.5;
    const ivec2 corner = ivec2(floor(position));
    const vec2 weight = position - floor(position);
    const vec3 top = mix(texel(corner), texel(corner + ivec2(1, 0)), weight.x);
    const vec3 bottom = mix(texel(corner + ivec2(0, 1)), texel(corner + ivec2(1, 1)), weight.x);
    return mix(top, bottom, weight.y);
}
#else
vec3 color(vec2 at) { return textureLod(image, at, 0.0).rgb; }
#endif

void main() {
    const uint pixel = linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    const uint pixels = p.height * p.width;
    if (pixel >= pixels) return;
    const vec2 at = (vec2(pixel % p.width, pixel / p.width) + 0.5) / vec2(p.width, p.height);
    const vec3 mean = vec3(p.mean_r, p.mean_g, p.mean_b), scale = vec3(p.scale_r, p.scale_g, p.scale_b);
    const vec3 value = (color(at) - mean) * scale;
    for (uint c = 0; c < p.channels; ++c) y[c * pixels + pixel] = value[c];
}
