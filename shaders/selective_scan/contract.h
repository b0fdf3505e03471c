// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_SELECTIVE_SCAN_H
#define VKFORMER_SHADERS_SELECTIVE_SCAN_H
#include "lib/state_place.h"
SHARED_BEGIN
const uint kSelectiveScanXbc = 0, kSelectiveScanSteps = 1, kSelectiveScanRates = 2, kSelectiveScanStarts = 3,
           kSelectiveScanCounts = 4, kSelectiveScanSlots = 5, kSelectiveScanState = 6, kSelectiveScanY = 7;
// Specialization constants.
const uint kSelectiveScanStateDim = 1;
const uint kSelectiveScanLanes = 2;   // invocations that share a column of the state: divides state_dim and workgroup
const uint kSelectiveScanTokens = 3;  // whose B and C are in shared memory at a time
const uint kSelectiveScanPlace = 4;   // kPlaceHas… bits
struct SelectiveScanPush {
    uint len;
    uint slots;  // rows of the state
    uint heads, groups;
    uint head_dim;
    uint parts;       // workgroups that share a head's columns
    uint workgroups;  // of all: batch · heads · parts
    float least_step, most_step;
};
SHARED_END
#endif
