// SPDX-License-Identifier: MIT
// Which tokens are a sequence's, and where its state is (graph::StatePlace); lib/state_place.glsl reads it.
#ifndef VKFORMER_SHADERS_STATE_PLACE_H
#define VKFORMER_SHADERS_STATE_PLACE_H
#include "lib/types.h"
SHARED_BEGIN
// Bits of a shader's constant that says which of its buffers starts, counts and slots are there; those of others are not touched.
const uint kPlaceHasStarts = 1, kPlaceHasCounts = 2, kPlaceHasSlots = 4;
SHARED_END
#endif
