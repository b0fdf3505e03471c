// SPDX-License-Identifier: MIT
// What the algorithms of linear have in common: constants, the operands beside x and weight, and the epilogue
//   y[row, column] = f(sum + bias[column]) + residual[row, column].
// bias has the storage of x and weight; residual and y have it too or, with TO_F32, are float.
#ifndef VKFORMER_LINEAR_GLSL
#define VKFORMER_LINEAR_GLSL
#include "interface/linear.h"
#include "lib/activation.glsl"
#include "lib/grid.glsl"
#include "lib/numbers.glsl"
#include "lib/storage.glsl"

#ifdef TO_F32
#define RESULT float
#define RESULT_STORED writeonly
#define LOAD_RESULT(buffer, i) buffer[i]
#define STORE_RESULT(buffer, i, value) buffer[i] = (value)
#else
#define RESULT ELEMENT
#define RESULT_STORED STORED
#define LOAD_RESULT(buffer, i) LOAD(buffer, i)
#define STORE_RESULT(buffer, i, value) STORE(buffer, i, value)
#endif

layout(local_size_x_id = kWorkgroupConstant) in;
layout(constant_id = kLinearHasBias) const uint HAS_BIAS = 0;
layout(constant_id = kLinearHasResidual) const uint HAS_RESIDUAL = 0;
layout(constant_id = kLinearActivation) const uint ACTIVATION = kActivationNone;
layout(push_constant) uniform Push { LinearPush p; };
layout(std430, binding = kLinearBias) readonly buffer Bias { ELEMENT bias[]; };
layout(std430, binding = kLinearResidual) readonly buffer Residual { RESULT residual[]; };
layout(std430, binding = kLinearY) RESULT_STORED buffer Y { RESULT y[]; };

// Rows that lie before those of this workgroup's product.
uint x_before() { return gl_WorkGroupID.z * p.x_batch; }
uint weight_before() { return gl_WorkGroupID.z * p.weight_batch; }

void finish(uint row, uint column, float sum) {
    if (HAS_BIAS == 1) sum += LOAD(bias, column);
    sum = activated(ACTIVATION, sum);
    const uint i = (gl_WorkGroupID.z * p.rows + row) * p.out_width + column;
    if (HAS_RESIDUAL == 1) sum += LOAD_RESULT(residual, i);
    STORE_RESULT(y, i, sum);
}
#endif
