// SPDX-License-Identifier: MIT
// Caches in pages (runtime/graph/pages.hpp); lib/pages.glsl reads it.
#ifndef VKFORMER_SHADERS_PAGES_H
#define VKFORMER_SHADERS_PAGES_H
#include "lib/types.h"
SHARED_BEGIN
const uint kPageLen = 64;  // positions of a page
SHARED_END
#endif
