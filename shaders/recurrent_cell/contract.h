// SPDX-License-Identifier: MIT
#ifndef VKFORMER_SHADERS_RECURRENT_CELL_H
#define VKFORMER_SHADERS_RECURRENT_CELL_H
#include "lib/recurrent_unit.h"
SHARED_BEGIN
const uint kRecurrentCellInputGates = 0, kRecurrentCellHiddenGates = 1, kRecurrentCellHidden = 2,
           kRecurrentCellCell = 3, kRecurrentCellNextHidden = 4, kRecurrentCellNextCell = 5;
const uint kRecurrentCellUnit = 1;  // specialization constant: the unit
struct RecurrentCellPush {
    uint count;  // elements of hidden
    uint hidden_dim;
};
SHARED_END
#endif
