// SPDX-License-Identifier: MIT
// Read by GLSL and C++: what lets one header declare bindings, specialization constants and push constants for both.
#ifndef VKFORMER_SHADERS_TYPES_H
#define VKFORMER_SHADERS_TYPES_H
#ifdef __cplusplus
#include <cstdint>
#define SHARED_BEGIN              \
    namespace vkformer::shaders { \
    using uint = std::uint32_t;
#define SHARED_END }
#else
#define SHARED_BEGIN
#define SHARED_END
#endif
SHARED_BEGIN
const uint kWorkgroupConstant = 0;  // specialization constant of every shader: invocations per workgroup (x)
const uint kMaxWorkgroup = 256;     // its largest value; shared memory for reductions is laid out for it
const uint kMostKept = 32;          // quads of a row that an invocation keeps (lib/quads.glsl)
const uint kAbsentToken = 0xFFFFFFFFu;
SHARED_END
#endif
