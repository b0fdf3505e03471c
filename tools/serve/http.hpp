// SPDX-License-Identifier: MIT
/// A request and its reply as the routes see them: nothing of sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace vkformer::serve {

struct Request {
    std::uint64_t number = 0;                    ///< of this process, counted from 1; in logs and in x-request-id
    std::string method;                          ///< "GET"
    std::string path;                            ///< without the query and what names the host, as it was sent
    std::string query;                           ///< what was behind its "?"
    std::map<std::string, std::string> headers;  ///< by names in small letters; one that came twice, joined by ", "
    std::string body;
    bool is_old = false;  ///< HTTP/1.0: its client knows no chunks, and a connection is kept only where that is said

    /// Empty where there is none.
    std::string_view header(std::string_view name) const;
    /// "application/json": the content-type in small letters, without its parameters.
    std::string content_type() const;
};

struct Response {
    int status = 200;
    std::string content_type = "application/json";
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers = {};  ///< further ones
};

/// In small letters, as far as it is ASCII.
std::string lower(std::string_view text);

/// "a b" of "a%20b"; nothing where a % is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);

/// The standard's phrase: "Not Found".
std::string_view reason(int status);

/// A request that is being answered. Functions may be called from any thread; the first that ends the reply (`reply`, `end`) is the one
/// that counts.
class Exchange {
public:
    virtual ~Exchange() = default;

    virtual const Request& request() const noexcept = 0;
    /// The whole answer.
    virtual void reply(Response response) = 0;
    /// An answer in pieces: its head.
    virtual void begin(std::string content_type) = 0;
    /// A piece. False: nobody is there any more who reads it, and no further one is needed.
    virtual bool write(std::string piece) = 0;
    /// A piece whose size the request alone decides: like a whole answer it waits for a client who reads slowly, however large it is.
    virtual bool write_asked(std::string piece) = 0;
    virtual void end() = 0;
    /// Told once, on some thread, when nobody waits for the reply any more: the client went away or read too slowly, or the time was up;
    /// at once, if that is so. Replaces what was given before.
    virtual void on_gone(std::function<void()> told) = 0;
    /// What the request has until its reply has its end, or nobody waits for that: it is let go before the client can know of either.
    virtual void hold(std::shared_ptr<void> what) = 0;
};
using ExchangePtr = std::shared_ptr<Exchange>;

/// How an exchange ended, for logs and counts.
struct Outcome {
    int status = 0;  ///< 499: the client went away before there was one
    std::uint64_t bytes = 0;
    double seconds = 0;
    bool is_cut = false;  ///< the client, or the time, ended it before its end
};

struct Admission {
    std::size_t body_bytes = 0;                                     ///< at most
    std::vector<std::pair<std::string, std::string>> headers = {};  ///< that every reply gets besides its own
};

/// What a listener asks of those who answer.
class Service {
public:
    virtual ~Service() = default;

    /// With the head of a request alone: what its body may be, or the answer that needs none.
    virtual std::variant<Admission, Response> admit(const Request& head) = 0;
    /// With the whole request. Waits for nothing, and leaves to other threads what takes long.
    virtual void handle(ExchangePtr exchange) = 0;
    /// The answer to what is no request (400, 413, 431 or 503; the head as far as it is known), or comes too late (504).
    virtual Response refuse(const Request& head, int status, std::string message) = 0;
    virtual void finished(const Request& request, const Outcome& outcome) = 0;
};

}  // namespace vkformer::serve
