// SPDX-License-Identifier: MIT
// Who does what a request asks for, on which thread, and how many may wait.
#include "serve/router.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/log.hpp"
#include "serve/metrics.hpp"
#include "serve/work_pool.hpp"
#include "support/catch.h"

namespace vkformer::tests {
namespace {

using namespace serve;
using namespace std::chrono_literals;

/// A request whose client is here, as a connection has it.
class HeardExchange final : public Exchange {
public:
    explicit HeardExchange(std::string path, bool has_body = true) {
        request_.method = has_body ? "POST" : "GET";
        request_.path = std::move(path);
    }

    const Request& request() const noexcept override { return request_; }
    void reply(Response response) override {
        {
            const std::lock_guard lock(mutex_);
            reply_ = std::move(response);
            thread_ = std::this_thread::get_id();
            held_.reset();
        }
        changed_.notify_all();
    }
    void begin(std::string) override {}
    bool write(std::string) override { return true; }
    bool write_asked(std::string) override { return true; }
    void end() override {}
    void on_gone(std::function<void()> told) override {
        const std::lock_guard lock(mutex_);
        told_.swap(told);
    }
    void hold(std::shared_ptr<void> what) override {
        const std::lock_guard lock(mutex_);
        held_ = std::move(what);
    }

    void go() {
        std::function<void()> told;
        {
            const std::lock_guard lock(mutex_);
            held_.reset();
            told.swap(told_);
        }
        if (told) told();
    }
    std::optional<Response> reply_within(std::chrono::seconds time) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, time, [this] { return reply_.has_value(); });
        return reply_;
    }
    std::thread::id thread() {
        const std::lock_guard lock(mutex_);
        return thread_;
    }

private:
    Request request_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Response> reply_;
    std::thread::id thread_;
    std::function<void()> told_;
    std::shared_ptr<void> held_;
};
using HeardPtr = std::shared_ptr<HeardExchange>;

/// With "/work" and "/count", which take as long as nobody lets them go on, and "/health".
struct Answering {
    explicit Answering(std::size_t threads, std::size_t places = 128) : workers(threads) {
        limits.requests = places;
        const auto slow = [this](const Call& call) {
            has_begun.release();
            (void)may_end.try_acquire_for(20s);
            call.reply({{"done", true}});
        };
        router.add({.method = "POST", .path = "/work", .body_bytes = 100, .is_work = true, .answer = slow});
        router.add({.method = "POST", .path = "/count", .body_bytes = 100, .answer = slow});
        router.add({.method = "GET", .path = "/health", .answer = [](const Call& call) {
                        call.reply({{"ok", true}});
                    }});
    }
    ~Answering() {
        may_end.release(100);
        workers.finish();
    }
    HeardPtr ask(const std::string& path, bool has_body = true) {
        auto exchange = std::make_shared<HeardExchange>(path, has_body);
        router.handle(exchange);
        return exchange;
    }

    Access access;
    Limits limits;
    Metrics metrics{{}};
    Log log{Log::Style::text};
    WorkPool workers;
    Router router{access, limits, metrics, log, workers};
    std::counting_semaphore<> has_begun{0}, may_end{0};
};

}  // namespace

TEST_CASE("serve: a body is read by a worker, what is at hand is answered at once", "[serve][threads]") {
    Answering server(2);
    const auto began = std::chrono::steady_clock::now();
    std::vector<HeardPtr> waiting;
    for (int i = 0; i < 5; ++i) waiting.push_back(server.ask(i % 2 == 0 ? "/work" : "/count"));
    for (int i = 0; i < 2; ++i) REQUIRE(server.has_begun.try_acquire_for(20s));
    const HeardPtr health = server.ask("/health", false);
    CHECK(std::chrono::steady_clock::now() - began < 10s);  // all workers are at work, and go on
    REQUIRE(health->reply_within(0s));
    CHECK(health->thread() == std::this_thread::get_id());
    for (const HeardPtr& exchange : waiting) CHECK_FALSE(exchange->reply_within(0s));
    CHECK_FALSE(server.has_begun.try_acquire_for(50ms));  // no more than these

    server.may_end.release(5);
    for (const HeardPtr& exchange : waiting) {
        const auto reply = exchange->reply_within(20s);
        REQUIRE(reply);
        CHECK(reply->status == 200);
        CHECK(exchange->thread() != std::this_thread::get_id());
    }
}

TEST_CASE("serve: whose client goes while it waits is forgotten, with all it has", "[serve][threads]") {
    Answering server(1, 2);
    const HeardPtr first = server.ask("/work");
    REQUIRE(server.has_begun.try_acquire_for(20s));
    std::weak_ptr<HeardExchange> gone = [&] {
        const HeardPtr second = server.ask("/work");
        CHECK(server.ask("/work")->reply_within(0s)->status == 503);
        second->go();
        return second;
    }();
    CHECK(gone.expired());
    const HeardPtr third = server.ask("/work");  // in its place
    CHECK_FALSE(third->reply_within(0s));
    server.may_end.release(2);
    CHECK(first->reply_within(20s));
    CHECK(third->reply_within(20s));
    REQUIRE(server.has_begun.try_acquire());
    CHECK_FALSE(server.has_begun.try_acquire());

    // One that goes while it is at work has its end all the same.
    const HeardPtr fourth = server.ask("/work");
    REQUIRE(server.has_begun.try_acquire_for(20s));
    fourth->go();
    server.may_end.release(1);
    CHECK(fourth->reply_within(20s));
}

TEST_CASE("serve: so many wait for models, as many for workers alone, and the next is told to come again", "[serve]") {
    Answering server(1, 2);
    std::vector<HeardPtr> waiting;
    for (const char* const path : {"/work", "/count"}) {
        for (int i = 0; i < 2; ++i) waiting.push_back(server.ask(path));
        const auto refused = server.ask(path)->reply_within(0s);
        REQUIRE(refused);
        CHECK(refused->status == 503);
        CHECK(std::ranges::count(refused->headers, std::pair<std::string, std::string>("retry-after", "1")) == 1);
    }
    server.may_end.release(6);
    for (const HeardPtr& exchange : waiting) CHECK(exchange->reply_within(20s)->status == 200);
    for (const char* const path : {"/work", "/count"}) CHECK(server.ask(path)->reply_within(20s)->status == 200);
}

TEST_CASE("serve: who tells that a model is loaded answers no request itself", "[serve][threads]") {
    Answering server(1);
    bool is_loaded = false;
    std::vector<NotYet::Waiter> waiters;
    std::binary_semaphore waits{0};
    std::thread::id answered;
    server.router.add(
        {.method = "POST", .path = "/ask", .body_bytes = 100, .is_work = true, .answer = [&](const Call& call) {
             if (!is_loaded)
                 throw NotYet(
                     [&](NotYet::Waiter waiter) {
                         waiters.push_back(std::move(waiter));
                         waits.release();
                     },
                     [](const std::atomic<bool>*) {});
             answered = std::this_thread::get_id();
             call.reply({{"done", true}});
         }});
    const HeardPtr asking = server.ask("/ask");
    REQUIRE(waits.try_acquire_for(20s));
    is_loaded = true;
    waiters.front().told(std::nullopt, nullptr);
    REQUIRE(asking->reply_within(20s));
    CHECK(answered != std::this_thread::get_id());

    is_loaded = false;
    const HeardPtr refused = server.ask("/ask");
    REQUIRE(waits.try_acquire_for(20s));
    waiters.back().told(Refusal(503, "it cannot be loaded"), nullptr);
    CHECK(refused->reply_within(20s)->status == 503);
}

TEST_CASE("serve: workers end with what they have begun, and drop what waits", "[serve][threads]") {
    Answering server(1);
    const HeardPtr first = server.ask("/work");
    REQUIRE(server.has_begun.try_acquire_for(20s));
    std::weak_ptr<HeardExchange> second = server.ask("/work");
    std::jthread ending([&] { server.workers.finish(); });
    while (!second.expired()) std::this_thread::yield();
    CHECK_FALSE(first->reply_within(0s));
    server.may_end.release(1);
    ending.join();
    CHECK(first->reply_within(0s));
    const std::weak_ptr<HeardExchange> late = server.ask("/work");
    CHECK(late.expired());
    CHECK_FALSE(server.has_begun.try_acquire());
}

}  // namespace vkformer::tests
