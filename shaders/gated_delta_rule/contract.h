// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_GATED_DELTA_RULE_H
#define VKFORMER_SHADERS_GATED_DELTA_RULE_H
#include "lib/state_place.h"
SHARED_BEGIN
const uint kGatedDeltaRuleQkv = 0, kGatedDeltaRuleGates = 1, kGatedDeltaRuleDecay = 2, kGatedDeltaRuleStarts = 3,
           kGatedDeltaRuleCounts = 4, kGatedDeltaRuleSlots = 5, kGatedDeltaRuleState = 6, kGatedDeltaRuleY = 7;
// Specialization constants.
const uint kGatedDeltaRuleKeyDim = 1;
const uint kGatedDeltaRuleLanes = 2;   // invocations that share a column of the state: a divisor of the key_dim
const uint kGatedDeltaRuleTokens = 3;  // whose queries and keys are in shared memory at a time: a divisor of the workgroup
const uint kGatedDeltaRulePlace = 4;   // kPlaceHas… bits
const uint kGatedDeltaRuleInTurns = 5;  // 1: head h has the keys of h % key_heads, else of h / (heads / key_heads)
const uint kGatedDeltaRuleWorkgroup = 64;
struct GatedDeltaRulePush {
    uint len;
    uint slots;  // rows of the state
    uint heads, key_heads;
    uint value_dim;
    uint groups;      // workgroups that share a head's columns
    uint workgroups;  // of all: batch · heads · groups
};
SHARED_END
#endif
