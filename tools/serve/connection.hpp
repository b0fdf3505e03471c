// SPDX-License-Identifier: MIT
/// One client's connection: HTTP/1.1 read and written, time and size held within limits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "serve/http.hpp"
#include "serve/limits.hpp"

namespace vkformer::serve::sockets {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Shared;

class BeastExchange;

/// Whom a connection waits for, from its reader's side.
enum class Waits : std::uint8_t {
    request,  ///< for its client, to send one
    answer,   ///< for those who answer
    reader,   ///< for its client, to read the answer
};

class Connection : public std::enable_shared_from_this<Connection> {
public:
    Connection(tcp::socket socket, Shared& shared);
    ~Connection();

    void start();
    /// As if the client had gone.
    void close();
    /// From any thread: close() where no request is under way, and no reply.
    void close_if_idle();
    /// The same where it has waited for its client since then.
    void close_if_waiting(Clock::time_point since);

    // Called by the exchange, on any thread.
    void send(std::string bytes, bool is_last);
    beast::tcp_stream::executor_type executor() { return stream_.get_executor(); }

    Shared& shared() noexcept { return shared_; }
    Waits waits() const noexcept { return waits_; }
    Clock::time_point waiting_since() const noexcept { return waiting_since_.load(); }

private:
    void wait_for(Waits whom) {
        waiting_since_ = Clock::now();
        waits_ = whom;
    }
    void read_head(milliseconds time);
    void head_is_read(beast::error_code error);
    void read_body();
    bool reserve(std::size_t body_bytes);
    void body_is_read(beast::error_code error);
    void refuse(Response response);
    void handle();
    void watch();
    beast::error_code read_ahead();
    void write_next();
    void reply_is_sent();
    void shut();
    void drain(std::size_t left, Clock::time_point until);
    Request take_head() const;

    beast::tcp_stream stream_;
    Shared& shared_;
    beast::flat_buffer buffer_;  // bounded: lines between pieces of a body, and fields behind it, count as no body
    std::optional<http::request_parser<http::string_body>> parser_;
    asio::steady_timer deadline_;
    Request head_;
    Admission admission_;
    std::size_t reserved_bytes_ = 0;
    Clock::time_point body_until_{};
    std::deque<std::string> unsent_;
    std::size_t sent_of_first_ = 0;
    std::shared_ptr<BeastExchange> exchange_;  // of the request under way; it holds this connection until then
    std::uint64_t turn_ = 0;  // counts requests, so that what was begun for one says nothing of the next
    bool is_writing_ = false, is_last_queued_ = false, keeps_alive_ = false, is_closed_ = false;
    std::atomic<Waits> waits_{Waits::request};
    std::atomic<Clock::time_point> waiting_since_{Clock::now()};
};

/// What all connections of a listener share.
struct Shared {
    Limits limits;
    Service* service = nullptr;
    std::atomic<std::uint64_t> numbers{0};
    std::atomic<std::size_t> body_bytes{0};
    std::atomic<bool> is_stopping{false};
    std::atomic<bool> is_over{false};  ///< those who answer are there no more
    std::mutex mutex;
    std::map<Connection*, std::weak_ptr<Connection>> connections;

    std::vector<std::shared_ptr<Connection>> all() {
        const std::lock_guard lock(mutex);
        std::vector<std::shared_ptr<Connection>> result;
        for (const auto& [key, weak] : connections)
            if (auto connection = weak.lock()) result.push_back(std::move(connection));
        return result;
    }
};

}  // namespace vkformer::serve::sockets
