// SPDX-License-Identifier: MIT
#include "serve/listener.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

namespace vkformer::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kPieceBytes = 64 << 10;
constexpr std::size_t kDrainedBytes = 256 << 20;  // of a refused body, so that its sender gets to read why
constexpr milliseconds kDrainTime{2000}, kLongestDrain{20'000};  // from one piece to the next, and in all
constexpr std::size_t kAheadBytes = 128 << 10;  // of requests behind the one under way
constexpr std::size_t kBodyStep = 4 << 20;
constexpr std::size_t kThreads = 3;  // that read and answer what waits for no model
constexpr int kClientGone = 499;

std::string head_of(const Response& response, const std::vector<std::pair<std::string, std::string>>& further,
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

std::string whole(const Response& response, const std::vector<std::pair<std::string, std::string>>& further,
                  bool keeps_alive, const Request& request) {
    std::string bytes = head_of(response, further, keeps_alive, request);
    if (response.status != 204) bytes += "content-length: " + std::to_string(response.body.size()) + "\r\n";
    bytes += "\r\n";
    if (request.method != "HEAD") bytes += response.body;
    return bytes;
}

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
    beast::flat_buffer buffer_;
    std::optional<http::request_parser<http::string_body>> parser_;
    asio::steady_timer deadline_;
    Request head_;
    Admission admission_;
    std::size_t reserved_bytes_ = 0;
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

Connection::Connection(tcp::socket socket, Shared& shared)
    : stream_(std::move(socket)), shared_(shared), deadline_(stream_.get_executor()) {
    beast::error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
}

Connection::~Connection() {
    shared_.body_bytes -= reserved_bytes_;
    const std::lock_guard lock(shared_.mutex);
    shared_.connections.erase(this);
}

void Connection::start() {
    asio::post(executor(), [self = shared_from_this()] { self->read_head(self->shared_.limits.header_time); });
}

void Connection::close() {
    asio::post(executor(), [self = shared_from_this()] { self->shut(); });
}

void Connection::close_if_idle() {
    asio::post(executor(), [self = shared_from_this()] {
        if (self->waits_ == Waits::request) self->shut();
    });
}

void Connection::close_if_waiting(Clock::time_point since) {
    asio::post(executor(), [self = shared_from_this(), since] {
        if (self->waits_ != Waits::answer && self->waiting_since() == since) self->shut();
    });
}

void Connection::shut() {
    if (is_closed_) return;
    is_closed_ = true;
    deadline_.cancel();
    beast::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
    unsent_.clear();
    if (auto exchange = std::move(exchange_)) {
        exchange->gone();
        shared_.service->finished(exchange->request(), exchange->outcome(true));
    }
}

Request Connection::take_head() const {
    const auto& message = parser_->get();
    Request head;
    head.number = ++shared_.numbers;
    head.method = std::string(message.method_string());
    head.is_old = message.version() < 11;
    std::string_view target(message.target().data(), message.target().size());
    target = target.substr(0, target.find('?'));
    const std::string scheme = lower(target.substr(0, 8));
    std::string_view host;  // of an absolute target
    if (scheme.starts_with("http://") || scheme == "https://") {
        target.remove_prefix(scheme.find("//") + 2);
        host = target.substr(0, target.find('/'));
        target.remove_prefix(host.size());
        if (target.empty()) target = "/";
    }
    head.path = target;
    for (const auto& field : message) {
        auto [place, is_new] =
            head.headers.try_emplace(lower(field.name_string().to_string()), std::string(field.value()));
        if (!is_new) place->second += ", " + std::string(field.value());
    }
    if (!host.empty()) {
        std::string& named = head.headers["host"];
        if (lower(named) != lower(host)) named += (named.empty() ? "" : ", ") + std::string(host);  // two hosts are none
    }
    return head;
}

void Connection::read_head(milliseconds time) {
    if (is_closed_) return;
    if (shared_.is_stopping) return shut();
    ++turn_;
    wait_for(Waits::request);
    parser_.emplace();
    parser_->header_limit(shared_.limits.header_bytes);
    parser_->body_limit(std::numeric_limits<std::uint64_t>::max());  // the route says what it may be
    stream_.expires_after(time);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, std::size_t) { self->head_is_read(error); });
}

void Connection::head_is_read(beast::error_code error) {
    if (is_closed_) return;
    if (error) {
        head_ = Request{.number = ++shared_.numbers};
        if (error == http::error::header_limit || error == http::error::buffer_overflow)
            return refuse(shared_.service->refuse(head_, 431, "the request's head is too large"));
        const bool is_malformed = error.category() == http::make_error_code(http::error::bad_method).category() &&
                                  error != http::error::end_of_stream && error != http::error::partial_message;
        if (is_malformed) return refuse(shared_.service->refuse(head_, 400, "what was sent is no HTTP/1.1 request"));
        return shut();  // gone, or too slow
    }
    head_ = take_head();
    keeps_alive_ = parser_->get().keep_alive();
    auto admitted = shared_.service->admit(head_);
    if (auto* response = std::get_if<Response>(&admitted)) return refuse(std::move(*response));
    admission_ = std::get<Admission>(std::move(admitted));
    const auto length = parser_->content_length();
    const std::size_t bytes = parser_->chunked() ? admission_.body_bytes : static_cast<std::size_t>(length.value_or(0));
    if (length && *length > admission_.body_bytes)
        return refuse(shared_.service->refuse(head_, 413,
                                              "the body has " + std::to_string(*length) + " bytes, at most " +
                                                  std::to_string(admission_.body_bytes) + " are taken here"));
    if (shared_.body_bytes.fetch_add(bytes) + bytes > shared_.limits.all_bodies_bytes) {
        shared_.body_bytes -= bytes;
        return refuse(shared_.service->refuse(head_, 503, "the server is reading too many large requests now"));
    }
    reserved_bytes_ = bytes;
    parser_->body_limit(admission_.body_bytes);
    if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
        static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
        stream_.expires_after(shared_.limits.write_time);
        return asio::async_write(stream_, asio::buffer(kContinue),
                                 [self = shared_from_this()](beast::error_code failed, std::size_t) {
                                     failed ? self->shut() : self->read_body();
                                 });
    }
    read_body();
}

void Connection::read_body() {
    if (is_closed_) return;
    if (parser_->is_done()) return handle();
    const std::size_t steps = reserved_bytes_ / kBodyStep + 1;
    stream_.expires_after(shared_.limits.body_time * static_cast<int>(steps));
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) { self->body_is_read(error); });
}

void Connection::body_is_read(beast::error_code error) {
    if (is_closed_) return;
    if (!error) return handle();
    if (error == http::error::body_limit)
        return refuse(shared_.service->refuse(
            head_, 413,
            "the body has more than the " + std::to_string(admission_.body_bytes) + " bytes that are taken here"));
    if (error == beast::error::timeout || error == http::error::end_of_stream ||
        error == http::error::partial_message || error == asio::error::connection_reset ||
        error == asio::error::operation_aborted)
        return shut();
    refuse(shared_.service->refuse(head_, 400, "the body is no HTTP/1.1 body"));
}

void Connection::refuse(Response response) {
    keeps_alive_ = false;
    wait_for(Waits::reader);
    stream_.expires_after(shared_.limits.write_time);
    shared_.service->finished(head_, {.status = response.status, .bytes = response.body.size()});
    unsent_.push_back(whole(response, admission_.headers, false, head_));
    asio::async_write(stream_, asio::buffer(unsent_.front()),
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                          if (error || self->is_closed_) return self->shut();
                          beast::error_code ignored;
                          self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
                          self->buffer_.clear();
                          self->drain(kDrainedBytes, Clock::now() + kLongestDrain);
                      });
}

void Connection::drain(std::size_t left, Clock::time_point until) {
    stream_.expires_at(std::min(Clock::now() + kDrainTime, until));
    stream_.async_read_some(buffer_.prepare(std::min(left, kPieceBytes)),
                            [self = shared_from_this(), left, until](beast::error_code error, std::size_t bytes) {
                                if (error || bytes >= left || self->is_closed_) return self->shut();
                                self->drain(left - bytes, until);
                            });
}

void Connection::handle() {
    waits_ = Waits::answer;
    head_.body = std::move(parser_->get().body());
    exchange_ =
        std::make_shared<BeastExchange>(shared_from_this(), std::move(head_), std::move(admission_), keeps_alive_);
    head_ = {};
    admission_ = {};
    deadline_.expires_after(shared_.limits.request_time);
    deadline_.async_wait([self = shared_from_this(), turn = turn_](beast::error_code error) {
        if (error || self->is_closed_ || self->turn_ != turn || !self->exchange_) return;
        const auto exchange = self->exchange_;
        if (exchange->has_ended()) return;  // what is left is its client's reading, which has times of its own
        if (exchange->has_begun()) return self->shut();
        exchange->end_late(self->shared_.service->refuse(exchange->request(), 504, "the time for a request is up"));
    });
    watch();
    shared_.service->handle(exchange_);
}

/// Sees a client go that waits for its reply; one whose reply is being sent may have closed its own side. What else comes meanwhile, the
/// next request, is read ahead; who sends more than that is not seen to go.
void Connection::watch() {
    stream_.socket().async_wait(tcp::socket::wait_read,
                                [self = shared_from_this(), turn = turn_](beast::error_code error) {
                                    const bool is_over = self->is_closed_ || self->turn_ != turn || !self->exchange_;
                                    if (error || is_over || self->exchange_->has_ended()) return;
                                    error = self->read_ahead();
                                    if (error == asio::error::would_block) return self->watch();
                                    if (error) self->shut();
                                });
}

/// What is there, as far as there is room for it; none is no error.
beast::error_code Connection::read_ahead() {
    beast::error_code error;
    tcp::socket& socket = stream_.socket();
    if (!socket.non_blocking()) socket.non_blocking(true, error);
    while (!error && buffer_.size() < kAheadBytes) {
        const auto room = buffer_.prepare(std::min(kPieceBytes, kAheadBytes - buffer_.size()));
        buffer_.commit(socket.receive(room, 0, error));
    }
    return error;
}

void Connection::send(std::string bytes, bool is_last) {
    asio::post(executor(), [self = shared_from_this(), bytes = std::move(bytes), is_last]() mutable {
        if (self->is_closed_) return;
        self->unsent_.push_back(std::move(bytes));
        self->is_last_queued_ = self->is_last_queued_ || is_last;
        if (is_last) self->wait_for(Waits::reader);
        if (!self->is_writing_) self->write_next();
    });
}

void Connection::write_next() {
    if (unsent_.empty()) {
        is_writing_ = false;
        if (is_last_queued_) reply_is_sent();
        return;
    }
    is_writing_ = true;
    const std::size_t bytes = std::min(unsent_.front().size() - sent_of_first_, kPieceBytes);
    stream_.expires_after(shared_.limits.write_time);
    asio::async_write(stream_, asio::buffer(unsent_.front().data() + sent_of_first_, bytes),
                      [self = shared_from_this()](beast::error_code error, std::size_t sent) {
                          if (self->is_closed_) return;
                          if (error) return self->shut();
                          self->exchange_->is_sent(sent);
                          if (self->waits_ == Waits::reader) self->wait_for(Waits::reader);  // who reads on
                          self->sent_of_first_ += sent;
                          if (self->sent_of_first_ == self->unsent_.front().size()) {
                              self->unsent_.pop_front();
                              self->sent_of_first_ = 0;
                          }
                          self->write_next();
                      });
}

void Connection::reply_is_sent() {
    deadline_.cancel();
    is_last_queued_ = false;
    shared_.body_bytes -= std::exchange(reserved_bytes_, 0);
    const auto exchange = std::move(exchange_);
    exchange_ = nullptr;
    shared_.service->finished(exchange->request(), exchange->outcome(false));
    if (exchange->keeps_alive()) return read_head(shared_.limits.idle_time);
    beast::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    drain(kDrainedBytes, Clock::now() + kDrainTime);
}

}  // namespace

struct Listener::Impl {
    Impl(const Limits& limits, Service& service) : acceptor(io), retry(io), signals(signal_io), patience(io) {
        shared.limits = limits;
        shared.service = &service;
    }
    ~Impl() {
        for (const auto& connection : shared.all()) connection->close();
        io.restart();
        io.poll();  // so that connections end before what they share
        signal_io.stop();
        if (signal_thread.joinable()) signal_thread.join();
    }

    void accept();
    bool has_room();
    void stop();
    void wait_for_signals();
    void wait_for_connections(Clock::time_point until);

    Shared shared;
    asio::io_context io, signal_io;  // signals have a thread of their own: the others may all be at work
    tcp::acceptor acceptor;
    asio::steady_timer retry;
    asio::signal_set signals;
    asio::steady_timer patience;
    bool has_signal = false;
    std::function<void()> on_stop;
    std::thread signal_thread;  // to the end: what is at work is waited for after run()
};

void Listener::Impl::accept() {
    acceptor.async_accept(asio::make_strand(io), [this](beast::error_code error, tcp::socket socket) {
        if (error == asio::error::operation_aborted || shared.is_stopping) return;
        if (error) {  // no file is left, say
            retry.expires_after(milliseconds(100));
            retry.async_wait([this](beast::error_code cancelled) {
                if (!cancelled) accept();
            });
            return;
        }
        if (!has_room()) return accept();
        const auto connection = std::make_shared<Connection>(std::move(socket), shared);
        {
            const std::lock_guard lock(shared.mutex);
            shared.connections.emplace(connection.get(), connection);
        }
        connection->start();
        accept();
    });
}

/// Where there are too many connections, the one that has waited longest for its client is closed: who holds many of them open keeps
/// nobody out. One whose client reads a reply is closed only where none waits for a request. False: all are at work.
bool Listener::Impl::has_room() {
    const auto all = shared.all();
    if (all.size() < shared.limits.connections) return true;
    std::shared_ptr<Connection> oldest;
    std::pair<bool, Clock::time_point> its_rank;
    for (const auto& connection : all) {
        const Waits waits = connection->waits();
        const std::pair rank(waits == Waits::reader, connection->waiting_since());
        if (waits == Waits::answer || (oldest && its_rank <= rank)) continue;
        oldest = connection;
        its_rank = rank;
    }
    if (oldest) oldest->close_if_waiting(its_rank.second);
    return oldest != nullptr;
}

void Listener::Impl::stop() {
    if (shared.is_stopping.exchange(true)) return;
    on_stop();
    beast::error_code ignored;
    acceptor.close(ignored);
    for (const auto& connection : shared.all()) connection->close_if_idle();
    wait_for_connections(Clock::now() + shared.limits.grace);
}

/// The first has the server stop; the next one ends the process as if nobody handled it, whatever its threads do.
void Listener::Impl::wait_for_signals() {
    signals.async_wait([this](beast::error_code error, int signal) {
        if (error) return;
        if (has_signal || shared.is_stopping) {
            std::signal(signal, SIG_DFL);
            std::raise(signal);
        }
        has_signal = true;
        wait_for_signals();
        asio::post(io, [this] { stop(); });
    });
}

void Listener::Impl::wait_for_connections(Clock::time_point until) {
    if (shared.all().empty() || Clock::now() >= until) return io.stop();
    patience.expires_after(milliseconds(20));
    patience.async_wait([this, until](beast::error_code) { wait_for_connections(until); });
}

Result<Listener> Listener::open(const std::string& address, std::uint16_t port, const Limits& limits,
                                Service& service) {
    const auto cannot = [&](const beast::error_code& error) {
        return Error{ErrorCode::InvalidArgument,
                     "cannot listen at " + address + ", port " + std::to_string(port) + ": " + error.message()};
    };
    beast::error_code error;
    const auto host = asio::ip::make_address(address, error);
    if (error) return cannot(error);
    auto impl = std::make_unique<Impl>(limits, service);
    const tcp::endpoint endpoint(host, port);
    if (impl->acceptor.open(endpoint.protocol(), error); error) return cannot(error);
    if (impl->acceptor.set_option(asio::socket_base::reuse_address(true), error); error) return cannot(error);
    if (impl->acceptor.bind(endpoint, error); error) return cannot(error);
    if (impl->acceptor.listen(asio::socket_base::max_listen_connections, error); error) return cannot(error);
    return Listener(std::move(impl));
}

Listener::Listener(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

std::uint16_t Listener::port() const noexcept {
    beast::error_code ignored;
    return impl_->acceptor.local_endpoint(ignored).port();
}

void Listener::stop() {
    asio::post(impl_->io, [impl = impl_.get()] { impl->stop(); });
}

void Listener::run(const std::function<void()>& on_stop) {
    impl_->on_stop = on_stop;
    impl_->signals.add(SIGINT);
    impl_->signals.add(SIGTERM);
    impl_->wait_for_signals();
    impl_->signal_thread = std::thread([impl = impl_.get()] { impl->signal_io.run(); });
    impl_->accept();
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < kThreads; ++i) threads.emplace_back([this] { impl_->io.run(); });
    impl_->io.run();
}

}  // namespace vkformer::serve
