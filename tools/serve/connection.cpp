// SPDX-License-Identifier: MIT
#include "serve/connection.hpp"

#include <algorithm>
#include <limits>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/read.hpp>

#include "serve/beast_exchange.hpp"

namespace vkformer::serve::sockets {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;
constexpr std::size_t kDrainedBytes = 256 << 20;  // of a refused body, so that its sender gets to read why
constexpr milliseconds kDrainTime{2000}, kLongestDrain{20'000};  // from one piece to the next, and in all
constexpr std::size_t kAheadBytes = 128 << 10;                   // of requests behind the one under way
constexpr std::size_t kBodyStep = 4 << 20;
constexpr std::size_t kReservedStep = 1 << 20;

}  // namespace

Connection::Connection(tcp::socket socket, Shared& shared)
    : stream_(std::move(socket)),
      shared_(shared),
      buffer_(kAheadBytes + kPieceBytes + shared.limits.header_bytes),
      deadline_(stream_.get_executor()) {
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
    if (const std::size_t mark = target.find('?'); mark != std::string_view::npos) {
        head.query = target.substr(mark + 1);
        target = target.substr(0, mark);
    }
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
        if (lower(named) != lower(host))
            named += (named.empty() ? "" : ", ") + std::string(host);  // two hosts are none
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
    // A body in a form that is not undone here would be taken for another one, or for the next request.
    if (const std::string coding = lower(head_.header("transfer-encoding")); !coding.empty() && coding != "chunked")
        return refuse(shared_.service->refuse(head_, 501, "transfer-encoding: only \"chunked\" is taken"));
    if (const std::string coding = lower(head_.header("content-encoding")); !coding.empty() && coding != "identity")
        return refuse(shared_.service->refuse(head_, 415, "content-encoding: bodies are taken as they are"));
    const auto length = parser_->content_length();
    if (length && *length > admission_.body_bytes)
        return refuse(shared_.service->refuse(head_, 413,
                                              "the body has " + std::to_string(*length) + " bytes, at most " +
                                                  std::to_string(admission_.body_bytes) + " are taken here"));
    const std::uint64_t most = parser_->chunked() ? admission_.body_bytes : length.value_or(0);
    const auto steps = static_cast<int>(std::max<std::uint64_t>((most + kBodyStep - 1) / kBodyStep, 1));
    body_until_ = Clock::now() + shared_.limits.body_time * steps;
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
    if (!reserve(parser_->get().body().size()))
        return refuse(shared_.service->refuse(head_, 503, "the server is reading too many large requests now"));
    stream_.expires_at(std::min(body_until_, Clock::now() + shared_.limits.body_time));
    http::async_read_some(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, std::size_t) { self->body_is_read(error); });
}

/// Counts what has come of a body, and the next piece of it: what a head promises takes no memory. False: there is no room.
bool Connection::reserve(std::size_t body_bytes) {
    if (body_bytes + kPieceBytes <= reserved_bytes_) return true;
    const std::size_t more = reserved_bytes_ == 0 ? kPieceBytes : kReservedStep;
    if (shared_.body_bytes.fetch_add(more) + more > shared_.limits.all_bodies_bytes) {
        shared_.body_bytes -= more;
        return false;
    }
    reserved_bytes_ += more;
    return true;
}

void Connection::body_is_read(beast::error_code error) {
    if (is_closed_) return;
    if (!error) return read_body();
    if (error == http::error::buffer_overflow)
        return refuse(shared_.service->refuse(head_, 400, "a line between the pieces of the body is too long"));
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
    if (shared_.is_over) return shut();
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

}  // namespace vkformer::serve::sockets
