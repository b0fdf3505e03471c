// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_RECURRENT_UNIT_H
#define VKFORMER_SHADERS_RECURRENT_UNIT_H
#include "lib/types.h"
SHARED_BEGIN
// The values of graph::RecurrentUnit (kernels/recurrent_cell.cpp checks that they are).
const uint kRecurrentUnitLstm = 0, kRecurrentUnitGru = 1;
SHARED_END
#endif
