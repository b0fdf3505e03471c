// SPDX-License-Identifier: MIT
// Only in builds with AddressSanitizer: what was opened stays open. LeakSanitizer looks when the program ends, and in a driver
// that the Vulkan loader has unloaded by then it finds no name that a suppression could match.
extern "C" __attribute__((visibility("default"))) int dlclose(void*) noexcept { return 0; }
