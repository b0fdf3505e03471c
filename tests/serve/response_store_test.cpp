// SPDX-License-Identifier: MIT
// Answers that are kept for those that go on from them.
#include "serve/response_store.hpp"

#include <string>

#include "support/catch.h"

namespace vkformer::tests {

using namespace serve;

TEST_CASE("serve: kept answers make room, those first that were not asked for longest", "[serve]") {
    const auto answer = [](std::size_t bytes) { return KeptResponse{.talk = {}, .body = std::string(bytes, 'x')}; };
    ResponseStore store(10'000);  // for three of these
    for (const char* const id : {"a", "b", "c"}) store.keep(id, answer(3000));
    CHECK(store.find("a"));
    store.keep("d", answer(3000));
    CHECK_FALSE(store.find("b"));
    store.keep("large", answer(10'000));
    CHECK_FALSE(store.find("large"));
    CHECK((store.find("a") && store.find("c") && store.find("d")));
    for (int i = 0; i < 20; ++i) {
        store.keep(std::to_string(i), answer(3000));
        CHECK(store.find(std::to_string(i)));
    }
    CHECK((store.find("18") && !store.find("16")));
}

}  // namespace vkformer::tests
