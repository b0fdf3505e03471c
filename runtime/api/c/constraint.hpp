// SPDX-License-Identifier: MIT
#pragma once

#include "vkformer/constraint.hpp"
#include "vkformer/vkformer.h"

struct vkf_constraint {
    vkformer::Constraint constraint;
};
