// SPDX-License-Identifier: MIT
/// A request of a connection that is being answered.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/connection.hpp"
#include "serve/http.hpp"

namespace vkformer::serve::sockets {

/// What a reply begins with but for the empty line, and the length or the coding of its body. `further`: headers besides its own.
inline std::string head_of(const Response& response, const std::vector<std::pair<std::string, std::string>>& further,
                           bool keeps_alive, const Request& request) {
    std::string head =
        "HTTP/1.1 " + std::to_string(response.status) + " " + std::string(reason(response.status)) + "\r\n";
    const auto add = [&](std::string_view name, std::string_view value) {
        head.append(name).append(": ").append(value).append("\r\n");
    };
    if (!response.content_type.empty()) add("content-type", response.content_type);
    for (const auto& [name, value] : response.headers) add(name, value);
    for (const auto& [name, value] : further) add(name, value);
    if (request.number > 0) add("x-request-id", std::to_string(request.number));
    if (!keeps_alive || request.is_old) add("connection", keeps_alive ? "keep-alive" : "close");
    return head;
}

inline std::string whole(const Response& response, const std::vector<std::pair<std::string, std::string>>& further,
                         bool keeps_alive, const Request& request) {
    std::string bytes = head_of(response, further, keeps_alive, request);
    if (response.status != 204) bytes += "content-length: " + std::to_string(response.body.size()) + "\r\n";
    bytes += "\r\n";
    if (request.method != "HEAD") bytes += response.body;
    return bytes;
}

class BeastExchange final : public Exchange {
public:
    BeastExchange(std::shared_ptr<Connection> connection, Request request, Admission admission, bool keeps_alive)
        : connection_(std::move(connection)),
          request_(std::move(request)),
          headers_(std::move(admission.headers)),
          keeps_alive_(keeps_alive) {}

    const Request& request() const noexcept override { return request_; }

    void reply(Response response) override {
        std::function<void()> unneeded;  // what it holds is let go without the lock
        const std::lock_guard lock(mutex_);
        if (is_ended_ || is_gone_ || has_begun_) return;
        std::string bytes = whole(response, headers_, keeps_alive_, request_);  // first: there may be no memory for it
        unneeded.swap(told_);
        end_with(response.status, std::move(bytes));
    }

    void begin(std::string content_type) override {
        const std::lock_guard lock(mutex_);
        if (is_ended_ || has_begun_) return;
        has_begun_ = true;
        status_ = 200;
        keeps_alive_ = keeps_alive_ && !request_.is_old;  // for its end is that of the connection
        const Response response{.content_type = std::move(content_type), .headers = {{"cache-control", "no-store"}}};
        queue(head_of(response, headers_, keeps_alive_, request_) +
                  (request_.is_old ? "\r\n" : "transfer-encoding: chunked\r\n\r\n"),
              false);
    }

    bool write(std::string piece) override {
        {
            const std::lock_guard lock(mutex_);
            if (is_gone_ || is_ended_) return false;
            if (piece.empty()) return true;
            if (unsent_ - asked_ + piece.size() <= connection_->shared().limits.unsent_bytes) {
                queue_chunk(std::move(piece));
                return true;
            }
        }
        connection_->close();  // who does not read
        return false;
    }

    bool write_asked(std::string piece) override {
        const std::lock_guard lock(mutex_);
        if (is_gone_ || is_ended_) return false;
        if (piece.empty()) return true;
        const std::size_t before = unsent_;
        queue_chunk(std::move(piece));
        asked_ += unsent_ - before;
        return true;
    }

    void end() override {
        std::function<void()> unneeded;
        const std::lock_guard lock(mutex_);
        if (is_ended_ || is_gone_ || !has_begun_) return;
        unneeded.swap(told_);
        end_with(status_, request_.is_old ? "" : "0\r\n\r\n");
    }

    void on_gone(std::function<void()> told) override {
        {
            const std::lock_guard lock(mutex_);
            if (is_ended_) return;
            if (!is_gone_) {
                told_.swap(told);
                return;
            }
        }
        if (told) told();
    }

    void hold(std::shared_ptr<void> what) override {
        const std::lock_guard lock(mutex_);
        if (!is_ended_ && !is_gone_) held_ = std::move(what);
    }

    void is_sent(std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        unsent_ -= std::min(unsent_, bytes);
        asked_ -= std::min(asked_, bytes);  // as if it came before the others
        sent_ += bytes;
    }
    void gone() {
        std::function<void()> told;
        {
            const std::lock_guard lock(mutex_);
            if (is_gone_) return;
            is_gone_ = true;
            held_.reset();
            told.swap(told_);
        }
        if (told) told();
    }
    /// The answer that its time is up; who works on another one is told that nobody waits for it.
    void end_late(const Response& response) {
        std::function<void()> told;
        {
            const std::lock_guard lock(mutex_);
            if (is_ended_ || is_gone_ || has_begun_) return;
            is_gone_ = true;
            told.swap(told_);
            end_with(response.status, whole(response, headers_, keeps_alive_, request_));
        }
        if (told) told();
    }
    bool has_begun() {
        const std::lock_guard lock(mutex_);
        return has_begun_;
    }
    bool has_ended() {
        const std::lock_guard lock(mutex_);
        return is_ended_;
    }
    bool keeps_alive() {
        const std::lock_guard lock(mutex_);
        return keeps_alive_;
    }
    Outcome outcome(bool is_cut) {
        const std::lock_guard lock(mutex_);
        return {.status = status_ == 0 ? kClientGone : status_,
                .bytes = sent_,
                .seconds = std::chrono::duration<double>(Clock::now() - began_).count(),
                .is_cut = is_cut};
    }

private:
    static constexpr int kClientGone = 499;

    void end_with(int status, std::string bytes) {
        is_ended_ = true;
        status_ = status;
        held_.reset();
        queue(std::move(bytes), true);
    }
    void queue(std::string bytes, bool is_last) {
        unsent_ += bytes.size();
        connection_->send(std::move(bytes), is_last);
    }
    void queue_chunk(std::string piece) {
        if (request_.is_old) return queue(std::move(piece), false);
        char size[24];
        std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
        queue(size + std::move(piece) + "\r\n", false);
    }

    const std::shared_ptr<Connection> connection_;
    const Request request_;
    const std::vector<std::pair<std::string, std::string>> headers_;
    bool keeps_alive_;
    const Clock::time_point began_ = Clock::now();
    std::mutex mutex_;
    std::function<void()> told_;
    std::shared_ptr<void> held_;
    int status_ = 0;
    std::uint64_t sent_ = 0;
    std::size_t unsent_ = 0;
    std::size_t asked_ = 0;  // of these, from write_asked
    bool has_begun_ = false, is_ended_ = false, is_gone_ = false;
};

}  // namespace vkformer::serve::sockets
