/* SPDX-License-Identifier: MIT */
/* VKFORMER_API marks what a shared vkformer shows to programs; everything else in it is hidden. */
#ifndef VKFORMER_EXPORT_H
#define VKFORMER_EXPORT_H

#if defined(_WIN32) && defined(VKFORMER_BUILDING_SHARED)
#define VKFORMER_API __declspec(dllexport)
#elif defined(_WIN32) && defined(VKFORMER_SHARED)
#define VKFORMER_API __declspec(dllimport)
#elif defined(__GNUC__)
#define VKFORMER_API __attribute__((visibility("default")))
#else
#define VKFORMER_API
#endif

#endif
