// SPDX-License-Identifier: MIT
/// The system's header for the sources of this folder that are Windows's alone: without its macros min and max, without the old parts.
#pragma once

#define WIN32_LEAN_AND_MEAN
#ifndef NOMINMAX  // libstdc++ has it already
#define NOMINMAX
#endif
#include <windows.h>
