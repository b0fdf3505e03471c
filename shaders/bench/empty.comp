#version 460
// SPDX-License-Identifier: MIT
// Nothing: what a dispatch costs before it does anything.
#extension GL_GOOGLE_include_directive : require
#include "lib/types.h"
layout(local_size_x_id = kWorkgroupConstant) in;
void main() {}
