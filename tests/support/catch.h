#pragma once

// Catch2, whichever major version the system has: Debian 12 ships 2.13, Debian 13 ships 3. Tests use what both have:
// TEST_CASE, SECTION, GENERATE with table and from_range, Approx, and the matchers of Catch::Matchers under their
// Catch2 3 names. What a checked expression throws, which nothing here does, may end the test case and not the check
// alone: a sixth of the time that compiling the tests takes.
#define CATCH_CONFIG_FAST_COMPILE
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

using Catch::Approx;
#else
#include <catch2/catch.hpp>

#include <string>

namespace Catch::Matchers {
inline auto ContainsSubstring(const std::string& text, CaseSensitive::Choice choice = CaseSensitive::Yes) {
    return Contains(text, choice);
}
}  // namespace Catch::Matchers
#endif
