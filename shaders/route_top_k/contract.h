// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_ROUTE_TOP_K_H
#define VKFORMER_SHADERS_ROUTE_TOP_K_H
#include "lib/types.h"
SHARED_BEGIN
const uint kRouteTopKX = 0, kRouteTopKBias = 1, kRouteTopKWeights = 2, kRouteTopKIndices = 3;
// Specialization constants:
const uint kRouteTopKScores = 1;     // one of the three below
const uint kRouteTopKHasBias = 2;    // the experts' bias is added where they are chosen
const uint kRouteTopKNormalises = 3;  // the weights of a row are divided by their sum
const uint kRouteTopKGroupBest = 4;   // experts by whose places a group is chosen, 1 or 2; 0: there are no groups
const uint kRouteScoresSoftmax = 0, kRouteScoresSigmoid = 1, kRouteScoresSparseMixer = 2;
const uint kRouteTopKMaxK = 32;  // experts of a row: each of the smallest workgroup's invocations writes one
const uint kRouteTopKMaxGroups = 64;
struct RouteTopKPush {
    uint rows;
    uint experts;
    uint k;       // experts to choose, at most kRouteTopKMaxK and `experts`
    float scale;  // of the weights
    float least_sum;  // added to the sum that weights are divided by
    uint groups;       // of neighbouring experts, at most kRouteTopKMaxGroups
    uint kept_groups;  // that the experts of a row are from
    float jitter;      // of kRouteScoresSparseMixer: which logits are near
};
SHARED_END
#endif
