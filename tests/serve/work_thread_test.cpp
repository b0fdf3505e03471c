// SPDX-License-Identifier: MIT
#include "serve/work_thread.hpp"

#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"

namespace vkformer::tests {

TEST_CASE("serve: what a work thread is given is done in order, elsewhere, and whole at its end", "[serve][threads]") {
    std::vector<int> done;  // of the thread alone, until it is finished
    std::binary_semaphore may_go{0};
    std::thread::id thread;
    serve::WorkThread worker;
    worker.give(&done, [&] {
        thread = std::this_thread::get_id();
        may_go.acquire();
    });
    for (int i = 0; i < 100; ++i) worker.give(&done, [&done, i] { done.push_back(i); });
    worker.give(&done, [&] { worker.give(&done, [&done] { done.push_back(100); }); });
    may_go.release();  // nobody who gave has waited for the first
    worker.finish();
    REQUIRE(done.size() == 101);
    for (int i = 0; i <= 100; ++i) CHECK(done[static_cast<std::size_t>(i)] == i);
    CHECK(thread != std::this_thread::get_id());

    worker.give(&done, [&] { thread = std::this_thread::get_id(); });
    CHECK(thread == std::this_thread::get_id());
    worker.finish();
}

TEST_CASE("serve: whose pieces are many holds up nobody else's", "[serve][threads]") {
    std::string done;
    std::binary_semaphore may_go{0};
    serve::WorkThread worker;
    const int many = 0, few = 0, one = 0;
    worker.give(&done, [&] { may_go.acquire(); });
    for (const char piece : std::string("abcd")) worker.give(&many, [&done, piece] { done += piece; });
    for (const char piece : std::string("xy")) worker.give(&few, [&done, piece] { done += piece; });
    worker.give(&one, [&done] { done += '1'; });
    may_go.release();
    worker.finish();
    CHECK(done == "ax1bycd");
}

}  // namespace vkformer::tests
