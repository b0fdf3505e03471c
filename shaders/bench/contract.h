// SPDX-License-Identifier: MIT
// The shaders that measure a device's limits: shaders/bench/*.comp. Their workgroup is specialization constant 0.
#ifndef VKFORMER_SHADERS_BENCH_LIMITS_H
#define VKFORMER_SHADERS_BENCH_LIMITS_H
#include "lib/types.h"
SHARED_BEGIN
const uint kBenchSource = 0, kBenchTarget = 1;  // bindings of copy and read
const uint kBenchOperands = 0, kBenchCounts = 1;  // bindings of the arithmetic shaders
const uint kBenchCopyUnroll = 4;  // elements per invocation and turn
struct BenchCopyPush {
    uint turns;  // of every invocation
};

// Arithmetic: every invocation keeps kBenchChains sums; one round adds kBenchSteps times to each of them.
const uint kBenchChains = 12, kBenchSteps = 512;
const int kBenchDotSum = 14;  // of the integer sums before and after a step
struct BenchPeakPush {
    uint rounds;
};

// Cooperative matrices: specialization constants 1 to 3 are m, n, k; every subgroup keeps this many products.
const uint kBenchMatrices = 4, kBenchMatrixSteps = 64;
SHARED_END
#endif
