// SPDX-License-Identifier: MIT
#include "bench/in_child.hpp"

#include <array>
#include <csignal>
#include <new>

#include <poll.h>
#include <sys/wait.h>
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

TEST_CASE("a child ends with its parent, whatever ends that", "[bench][child]") {
    // That a pipe's last writer has gone is seen even where nobody asks for the exit code of an orphan.
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    const pid_t parent = fork();
    if (parent == 0) {
        (void)in_child(
            [&]() -> Result<int> {
                const pid_t self = getpid();
                if (write(ends[1], &self, sizeof self) != sizeof self) return 1;
                for (;;) pause();
            },
            600);
        _exit(1);
    }
    REQUIRE(parent > 0);
    close(ends[1]);
    pid_t child = 0;
    REQUIRE(read(ends[0], &child, sizeof child) == sizeof child);
    REQUIRE(kill(parent, SIGKILL) == 0);
    REQUIRE(waitpid(parent, nullptr, 0) == parent);
    pollfd gone{.fd = ends[0], .events = POLLIN, .revents = 0};
    const bool has_ended = poll(&gone, 1, 10'000) == 1;
    close(ends[0]);
    if (!has_ended) kill(child, SIGKILL);
    CHECK(has_ended);
}

// Where the system does not tell a child of its parent's end.
TEST_CASE("a child ends by itself some seconds after its parent would have ended it", "[bench][child]") {
    const int left = must(in_child([] { return Result<int>(static_cast<int>(alarm(0))); }, 60));
    CHECK(left > 60);
    CHECK(left <= 70);
}

}  // namespace
}  // namespace vkformer::tests
