// SPDX-License-Identifier: MIT
#include "bench/in_child.hpp"

#include <csignal>
#include <new>

#include <unistd.h>

#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using bench::in_child;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a child's exit code and error come back", "[bench][child]") {
    CHECK(must(in_child([] { return Result<int>(1); }, 60)) == 1);
    const auto failed = in_child([] { return Result<int>(Error{ErrorCode::MissingFeature, "no such thing"}); }, 60);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code == ErrorCode::MissingFeature);
    CHECK(failed.error().message == "no such thing");
    CHECK(in_child([]() -> Result<int> { throw std::bad_alloc(); }, 60).error().code == ErrorCode::OutOfHostMemory);
}

TEST_CASE("a child that crashes, ends or hangs is an error", "[bench][child][errors]") {
    const auto crashed = in_child(
        []() -> Result<int> {
            std::signal(SIGSEGV, SIG_DFL);  // the test program has a handler of its own
            raise(SIGSEGV);
            return 0;
        },
        60);
    REQUIRE_FALSE(crashed);
    CHECK_THAT(crashed.error().message, ContainsSubstring("the driver crashed on this shader (Segmentation fault)"));
    CHECK_FALSE(in_child([]() -> Result<int> { _exit(0); }, 60));
    const auto hung = in_child(
        []() -> Result<int> {
            for (;;) pause();
        },
        0.2);
    REQUIRE_FALSE(hung);
    CHECK_THAT(hung.error().message, ContainsSubstring("hangs on this shader"));
}

}  // namespace
}  // namespace vkformer::tests
