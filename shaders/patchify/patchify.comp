#version 460
// SPDX-License-Identifier: MIT
// y[b, prefix + i · columns + j, (c · patch_height + v) · patch_width + u]
//   = pixels[b, c, i · patch_height + v, j · patch_width + u];  y[b, row, :] = 0 for row < prefix.
// pixels: [batch, channels, height, width], float32; y: [batch, rows, channels · patch_height · patch_width], storage as
// lib/storage.glsl says. With a product behind it: the patch embedding of Dosovitskiy et al. 2021, eq. 1.
// One workgroup per 4 · gl_WorkGroupSize.x consecutive elements of y; an invocation owns four of them, a workgroup's size
// apart, so that neighbours read neighbours.
#extension GL_GOOGLE_include_directive : require
#include "patchify/contract.h"
#include "lib/grid.glsl"
#include "lib/storage.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID PatchifyPush p; };
layout(std430, binding = kPatchifyPixels) readonly buffer Pixels { float pixels[]; };
layout(std430, binding = kPatchifyY) STORED buffer Y { ELEMENT y[]; };

// `token` counts the rows of all images, `k` the elements of a row.
float element(uint token, uint k) {
    const uint image = token / p.rows;
    const uint row = token - image * p.rows;
    if (row < p.prefix) return 0.0;
    const uint patch_index = row - p.prefix;
    const uint i = patch_index / p.columns;
    const uint j = patch_index - i * p.columns;
    const uint line = k / p.patch_width;  // c · patch_height + v
    const uint u = k - line * p.patch_width;
    const uint c = line / p.patch_height;
    const uint v = line - c * p.patch_height;
    const uint source_line = (image * p.channels + c) * p.height + i * p.patch_height + v;
    return pixels[source_line * p.width + j * p.patch_width + u];
}

void main() {
    const uint width = p.channels * p.patch_height * p.patch_width;
    const uint first = linear_workgroup() * gl_WorkGroupSize.x * kPatchifyElementsPerInvocation;
    for (uint n = 0; n < kPatchifyElementsPerInvocation; ++n) {
        const uint index = first + n * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
        if (index >= p.count) continue;
        const uint token = index / width;
        STORE(y, index, element(token, index - token * width));
    }
}
