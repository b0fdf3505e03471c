// SPDX-License-Identifier: MIT
// Requests that share calls of a model: everyone's own results, a share for each, and none for who has gone.
#include <future>
#include <semaphore>

#include "serve/shared_calls.hpp"
#include "support/catch.h"

namespace vkformer::tests {
namespace {

using Calls = serve::SharedCalls<int, int>;
using Answer = Result<std::vector<int>>;

/// A model that doubles, and whose calls wait until they are let go.
struct Doubling {
    std::counting_semaphore<1000> begun{0}, let_go{0};
    std::mutex mutex;
    std::vector<std::vector<int>> calls;
    bool fails = false;
    Calls* self = nullptr;
    std::vector<std::string> groups;

    Answer run(std::span<const int> inputs) {
        {
            const std::lock_guard lock(mutex);
            calls.emplace_back(inputs.begin(), inputs.end());
            groups.push_back(self->group());
        }
        begun.release();
        let_go.acquire();
        if (self->should_stop()) return Error{ErrorCode::Cancelled, "stopped"};
        if (fails) return Error{ErrorCode::DeviceLost, "lost"};
        std::vector<int> outputs;
        for (const int input : inputs) outputs.push_back(2 * input);
        return outputs;
    }
};

struct Harness {
    Doubling model;
    serve::Patience patience;
    Calls calls{4, [this](std::span<const int> inputs) { return model.run(inputs); },
                [](const int& input) {
                    return input < 0 ? Result<void>(Error{ErrorCode::InvalidArgument, "negative"}) : Result<void>();
                },
                [](std::size_t) {}, patience};
    explicit Harness(const serve::Patience& how_long = {}) : patience(how_long) { model.self = &calls; }

    std::pair<Calls::TicketPtr, std::future<Answer>> submit(std::vector<int> inputs, std::string group = {}) {
        auto promise = std::make_shared<std::promise<Answer>>();
        auto future = promise->get_future();
        auto ticket = calls.submit(
            std::move(inputs), [promise](Answer answer) { promise->set_value(std::move(answer)); }, std::move(group));
        return {ticket, std::move(future)};
    }
};

}  // namespace

TEST_CASE("serve: requests that wait share a call, and one with many inputs keeps none waiting", "[serve][threads]") {
    Harness harness;
    auto first = harness.submit({1, 2, 3, 4, 5, 6, 7, 8, 9});
    harness.model.begun.acquire();  // runs with 1 to 4
    auto second = harness.submit({10});
    auto third = harness.submit({11, 12});
    harness.model.let_go.release(1000);
    CHECK(*second.second.get() == std::vector<int>{20});
    CHECK(*third.second.get() == std::vector<int>{22, 24});
    CHECK(*first.second.get() == std::vector<int>{2, 4, 6, 8, 10, 12, 14, 16, 18});
    const auto& calls = harness.model.calls;
    REQUIRE(calls.size() == 3);
    CHECK(calls[0] == std::vector<int>{1, 2, 3, 4});
    CHECK(calls[1] == std::vector<int>{5, 6, 10, 11});  // a share for each, and what is left for the first
    CHECK(calls[2] == std::vector<int>{7, 8, 9, 12});
}

TEST_CASE("serve: requests of other groups have calls of their own", "[serve][threads]") {
    Harness harness;
    auto first = harness.submit({1}, "a");
    harness.model.begun.acquire();
    auto second = harness.submit({2}, "b");
    auto third = harness.submit({3}, "a");
    auto fourth = harness.submit({4}, "b");
    harness.model.let_go.release(1000);
    CHECK(*first.second.get() == std::vector<int>{2});
    CHECK(*second.second.get() == std::vector<int>{4});
    CHECK(*third.second.get() == std::vector<int>{6});
    CHECK(*fourth.second.get() == std::vector<int>{8});
    CHECK(harness.model.calls == std::vector<std::vector<int>>{{1}, {2, 4}, {3}});
    CHECK(harness.model.groups == std::vector<std::string>{"a", "b", "a"});
}

TEST_CASE("serve: who is refused, has gone or meets an error ends alone", "[serve][threads]") {
    Harness harness;
    auto first = harness.submit({1});
    harness.model.begun.acquire();
    auto bad = harness.submit({2, -1});
    auto gone = harness.submit({3});
    auto good = harness.submit({4});
    auto none = harness.submit({});
    harness.calls.cancel(gone.first);
    CHECK(harness.calls.waiting() == 4);
    CHECK(gone.second.wait_for(std::chrono::seconds(0)) == std::future_status::ready);  // what it held is let go
    CHECK_FALSE(harness.calls.should_stop());
    harness.model.let_go.release(2);
    CHECK(*first.second.get() == std::vector<int>{2});
    CHECK(bad.second.get().error().message == "negative");
    CHECK_THROWS_AS(gone.second.get(), std::future_error);
    CHECK(*good.second.get() == std::vector<int>{8});
    CHECK(none.second.get()->empty());
    harness.model.begun.acquire();
    CHECK(harness.model.calls == std::vector<std::vector<int>>{{1}, {4}});

    // The call of one who goes is stopped.
    auto last = harness.submit({5});
    harness.model.begun.acquire();
    harness.calls.cancel(last.first);
    CHECK(harness.calls.should_stop());
    harness.model.let_go.release();
    CHECK(last.second.get().error().code == ErrorCode::Cancelled);

    harness.model.fails = true;
    auto lost = harness.submit({6});
    harness.model.let_go.release();
    CHECK(lost.second.get().error().code == ErrorCode::DeviceLost);
    CHECK(harness.calls.waiting() == 0);
}

TEST_CASE("serve: what waits when a model ends is told so", "[serve][threads]") {
    std::future<Answer> running, waiting;
    {
        Harness harness;
        running = harness.submit({1}).second;
        harness.model.begun.acquire();
        waiting = harness.submit({2}).second;
        harness.model.let_go.release(1000);
    }
    CHECK(waiting.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
    CHECK(running.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
}

TEST_CASE("serve: who has an answer and asks again at once shares the next call with those that waited",
          "[serve][threads]") {
    using namespace std::chrono_literals;
    Harness harness({.of_call = 1e9, .most = 10h});
    auto first = harness.submit({1});
    harness.model.begun.acquire();
    auto second = harness.submit({2});
    harness.model.let_go.release();
    CHECK(*first.second.get() == std::vector<int>{2});
    std::this_thread::sleep_for(20ms);  // the second could run alone
    auto again = harness.submit({3});
    harness.model.let_go.release(1000);
    CHECK(*again.second.get() == std::vector<int>{6});
    CHECK(*second.second.get() == std::vector<int>{4});
    CHECK(harness.model.calls == std::vector<std::vector<int>>{{1}, {2, 3}});
}

TEST_CASE("serve: nobody waits for long for who does not ask again", "[serve][threads]") {
    using namespace std::chrono_literals;
    Harness harness({.of_call = 1e9, .most = 1ms});
    auto first = harness.submit({1});
    harness.model.begun.acquire();
    auto second = harness.submit({2});
    harness.model.let_go.release(1000);
    CHECK(*first.second.get() == std::vector<int>{2});
    CHECK(*second.second.get() == std::vector<int>{4});  // two were known, and one alone has asked
    CHECK(harness.model.calls == std::vector<std::vector<int>>{{1}, {2}});
}

TEST_CASE("serve: nobody waits for who could not share the call", "[serve][threads]") {
    using namespace std::chrono_literals;
    Harness harness({.of_call = 1e9, .most = 10h});
    auto first = harness.submit({1}, "a");
    harness.model.begun.acquire();
    auto second = harness.submit({2}, "b");
    harness.model.let_go.release(1000);
    CHECK(*first.second.get() == std::vector<int>{2});
    CHECK(*second.second.get() == std::vector<int>{4});
    CHECK(*harness.submit({3}, "a").second.get() == std::vector<int>{6});
    CHECK(harness.model.calls == std::vector<std::vector<int>>{{1}, {2}, {3}});
}

}  // namespace vkformer::tests
