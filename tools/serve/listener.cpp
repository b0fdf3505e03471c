// SPDX-License-Identifier: MIT
#include "serve/listener.hpp"

#include <csignal>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/strand.hpp>

#include "serve/connection.hpp"

namespace vkformer::serve {

using namespace sockets;

namespace {

constexpr std::size_t kThreads = 3;  // that read and write, and answer what is at hand

}  // namespace

struct Listener::Impl {
    Impl(const Limits& limits, Service& service) : acceptor(io), retry(io), signals(signal_io), patience(io) {
        shared.limits = limits;
        shared.service = &service;
    }
    ~Impl() {
        shared.is_over = true;  // for requests that came whole when the time was up
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
