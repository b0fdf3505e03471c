// SPDX-License-Identifier: MIT
/// From a request to the function that answers it: who may ask, which route it is, and what is wrong with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "serve/access.hpp"
#include "serve/http.hpp"
#include "serve/limits.hpp"
#include "serve/log.hpp"
#include "serve/metrics.hpp"
#include "serve/refusal.hpp"
#include "serve/work_pool.hpp"

namespace vkformer::serve {

/// What a route's function holds of a request.
class Call {
public:
    Call(ExchangePtr exchange, Family family) : exchange_(std::move(exchange)), family_(family) {}

    const Request& request() const noexcept { return exchange_->request(); }
    Family family() const noexcept { return family_; }
    /// What the path has behind this, spelled out: "org/a b" of "/v1/models/org%2Fa%20b".
    std::string path_behind(std::string_view prefix) const;
    Exchange& exchange() const noexcept { return *exchange_; }
    void reply(const nlohmann::ordered_json& body, int status = 200) const;
    void refuse(const Refusal& refusal) const;

    /// What the request has of a model stays until the last copy of the call goes; `on_failure` answers what failed(error) is asked.
    void keep(std::shared_ptr<void> kept, std::function<Refusal(const Error&)> on_failure) const;
    /// What it waited for (NotYet), and what keeps that there until the call keeps something itself.
    void has_waited_for(std::shared_ptr<const void> what) const { kept_->waited_for = std::move(what); }
    const std::shared_ptr<const void>& waited_for() const noexcept { return kept_->waited_for; }
    /// What the client may know of an error that came of the model, and the model's set has to.
    Refusal failed(const Error& error) const;

private:
    struct Kept {
        std::shared_ptr<void> what;
        std::function<Refusal(const Error&)> on_failure;
        std::shared_ptr<const void> waited_for = nullptr;
    };
    ExchangePtr exchange_;
    Family family_;
    std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

/// Thrown by a route whose model is to be loaded first. The router waits, on some thread, until it is told: then the route is asked
/// again, or its client told why not. Whose client goes is forgotten, and what it holds with it.
struct NotYet : std::exception {
    struct Waiter {
        /// `waited_for`: for Call::has_waited_for.
        std::function<void(std::optional<Refusal> why_not, std::shared_ptr<const void> waited_for)> told;
        std::shared_ptr<std::atomic<bool>> is_gone;  ///< set before it is forgotten; tells it from others
    };
    NotYet(std::function<void(Waiter)> waits, std::function<void(const std::atomic<bool>* gone)> forgets)
        : wait(std::move(waits)), forget(std::move(forgets)) {}
    std::function<void(Waiter)> wait;
    std::function<void(const std::atomic<bool>* gone)> forget;
};

struct Route {
    std::string_view method, path;
    bool is_prefix = false;  ///< what begins with `path` and has more behind it
    Family family = Family::openai;
    std::size_t body_bytes =
        0;  ///< at most; 0: none, and the answer is at hand: it is made on the thread that read the request
    bool needs_key = true;
    bool key_in_body = false;  ///< where the head has none, LibreTranslate's clients write api_key
    bool is_work =
        false;  ///< waits for a model; these, and those with a body that do not, have Limits::requests places each
    std::string_view summary;  ///< for /openapi.json
    std::vector<std::string_view> takes = {"application/json"}, gives = {"application/json"};  ///< content-types
    std::function<void(const Call&)> answer;                                                   ///< may throw Refusal
};

class Router final : public Service {
public:
    /// `workers` read bodies, which may take them seconds: JSON, templates, tokens, forms of answers.
    Router(const Access& access, const Limits& limits, Metrics& metrics, Log& log, WorkPool& workers)
        : access_(access), limits_(limits), metrics_(metrics), log_(log), workers_(workers) {}

    void add(Route route) { routes_.push_back(std::move(route)); }
    void add(std::vector<Route> routes) {
        for (Route& route : routes) add(std::move(route));
    }
    const std::vector<Route>& routes() const noexcept { return routes_; }

    std::variant<Admission, Response> admit(const Request& head) override;
    void handle(ExchangePtr exchange) override;
    Response refuse(const Request& head, int status, std::string message) override;
    void finished(const Request& request, const Outcome& outcome) override;

private:
    using Taken = std::shared_ptr<std::atomic<std::size_t>>;

    void answer(const Route& route, const Call& call);
    void answer_elsewhere(const Route& route, const Call& call);
    /// Throws Refusal (404, 405).
    const Route& find(const Request& head) const;
    const Route* at(std::string_view method, std::string_view path) const;
    Family family_of(std::string_view path) const;
    std::string methods_of(std::string_view path) const;
    Admission admission_for(const Request& head) const;

    const Access& access_;
    const Limits& limits_;
    Metrics& metrics_;
    Log& log_;
    std::vector<Route> routes_;
    WorkPool& workers_;
    Taken with_models_ = std::make_shared<std::atomic<std::size_t>>(0);
    Taken without_models_ = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace vkformer::serve
