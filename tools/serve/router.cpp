// SPDX-License-Identifier: MIT
#include "serve/router.hpp"

#include <algorithm>
#include <new>

namespace vkformer::serve {

using json = nlohmann::ordered_json;

void Call::reply(const json& body, int status) const {
    exchange_->reply({.status = status, .body = body.dump(-1, ' ', false, json::error_handler_t::replace)});
}

std::string Call::path_behind(std::string_view prefix) const {
    std::string rest = request().path.substr(prefix.size());
    return percent_decoded(rest).value_or(rest);
}

void Call::refuse(const Refusal& refusal) const { exchange_->reply(as_response(family_, refusal)); }

void Call::keep(std::shared_ptr<void> kept, std::function<Refusal(const Error&)> on_failure) const {
    *kept_ = {std::move(kept), std::move(on_failure)};
}

Refusal Call::failed(const Error& error) const { return kept_->on_failure ? kept_->on_failure(error) : told(error); }

const Route* Router::at(std::string_view method, std::string_view path) const {
    for (const Route& route : routes_) {
        const bool is_path =
            route.is_prefix ? path.starts_with(route.path) && path.size() > route.path.size() : path == route.path;
        if (is_path && (method.empty() || route.method == method)) return &route;
    }
    return nullptr;
}

Family Router::family_of(std::string_view path) const {
    const Route* const route = at("", path);
    return route ? route->family : Family::openai;
}

const Route& Router::find(const Request& head) const {
    if (const Route* const route = at(head.method == "HEAD" ? "GET" : head.method, head.path)) return *route;
    if (at("", head.path)) throw Refusal(405, "this route has another method");
    throw Refusal(404, "there is no such route; /openapi.json lists them");
}

std::string Router::methods_of(std::string_view path) const {
    std::string methods = "OPTIONS";
    for (const std::string_view method : {"GET", "POST"})
        if (at(method, path)) methods += (method == "GET" ? ", GET, HEAD" : ", POST");
    return methods;
}

namespace {

/// No route of the APIs takes anything there but what clients send along that names nothing to be done.
void check_query(const Request& head) {
    static constexpr std::string_view kHarmless[] = {"beta", "api-version"};
    if (!head.path.starts_with("/v1/")) return;  // a page's address may have anything
    for (std::string_view left = head.query; !left.empty();) {
        const std::string_view part = left.substr(0, left.find('&'));
        left.remove_prefix(std::min(part.size() + 1, left.size()));
        const std::string_view name = part.substr(0, part.find('='));
        if (!name.empty() && std::ranges::find(kHarmless, name) == std::end(kHarmless))
            throw Refusal(400, "it stands behind the address's \"?\", where no route takes it", std::string(name));
    }
}

}  // namespace

Admission Router::admission_for(const Request& head) const {
    access_.check_host_and_origin(head);
    Admission admission;
    if (const std::string_view origin = access_.allowed_origin(head); !origin.empty())
        admission.headers = {{"access-control-allow-origin", std::string(origin)}, {"vary", "Origin"}};
    if (head.method == "OPTIONS") return admission;
    const Route& route = find(head);
    check_query(head);
    const bool has_key = !head.header("authorization").empty() || !head.header("x-api-key").empty();
    if (route.needs_key && (has_key || !route.key_in_body)) access_.check_key(head);
    admission.body_bytes = route.body_bytes;
    return admission;
}

std::variant<Admission, Response> Router::admit(const Request& head) {
    try {
        return admission_for(head);
    } catch (const Refusal& refusal) {
        Response response = as_response(family_of(head.path), refusal);
        if (refusal.status == 405) response.headers.emplace_back("allow", methods_of(head.path));
        if (const std::string_view origin = access_.allowed_origin(head); !origin.empty())
            response.headers.emplace_back("access-control-allow-origin", origin);
        return response;
    }
}

namespace {

/// Names of headers, "authorization, x-a", without what is none: as a browser asks for them, 64 at most.
std::string header_names(std::string_view asked) {
    constexpr std::size_t kMostNames = 64, kMostBytes = 128;
    const auto is_token = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
    };
    std::string names;
    for (std::size_t count = 0; !asked.empty() && count < kMostNames; ++count) {
        std::string_view name = asked.substr(0, asked.find(','));
        asked.remove_prefix(std::min(name.size() + 1, asked.size()));
        name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
        name = name.substr(0, name.find_last_not_of(" \t") + 1);
        if (name.empty() || name.size() > kMostBytes || !std::ranges::all_of(name, is_token)) continue;
        names.append(names.empty() ? "" : ", ").append(name);
    }
    return names;
}

/// What a browser asks before it lets a page of another origin ask. Official clients have headers of their own, "x-stainless-…".
Response preflight(const Request& request, bool is_allowed) {
    Response response{.status = 204, .content_type = ""};
    if (!is_allowed || request.header("access-control-request-method").empty()) return response;
    response.headers = {{"access-control-allow-methods", "GET, POST"}, {"access-control-max-age", "600"}};
    if (std::string names = header_names(request.header("access-control-request-headers")); !names.empty())
        response.headers.emplace_back("access-control-allow-headers", std::move(names));
    return response;
}

/// A place among so many; nothing where there is none.
std::shared_ptr<void> take_place(const std::shared_ptr<std::atomic<std::size_t>>& taken, std::size_t places) {
    if (taken->fetch_add(1) >= places) {
        --*taken;
        return nullptr;
    }
    return {taken.get(), [taken](void*) { --*taken; }};
}

}  // namespace

void Router::handle(ExchangePtr exchange) {
    const Request& request = exchange->request();
    if (request.method == "OPTIONS")
        return exchange->reply(preflight(request, !access_.allowed_origin(request).empty()));
    const Call call(exchange, family_of(request.path));
    try {
        const Route& route = find(request);
        if (route.body_bytes == 0) return answer(route, call);
        auto place = take_place(route.is_work ? with_models_ : without_models_, limits_.requests);
        if (!place)
            throw Refusal(503,
                          "the server is busy with " + std::to_string(limits_.requests) + " requests; try again soon");
        exchange->hold(std::move(place));
        answer_elsewhere(route, call);
    } catch (const Refusal& refusal) {
        call.refuse(refusal);
    }
}

/// Whose client goes while it waits is forgotten, with its body.
void Router::answer_elsewhere(const Route& route, const Call& call) {
    const auto ticket = std::make_shared<WorkPool::Ticket>([this, &route, call] {
        try {
            answer(route, call);
        } catch (const std::bad_alloc&) {  // for the words that there is none: the time for the request ends it
        }
    });
    call.exchange().on_gone(
        [&workers = workers_, ticket] { workers.drop(ticket); });  // before the work says who is told
    workers_.give(ticket);
}

void Router::answer(const Route& route, const Call& call) {
    const auto is_gone = std::make_shared<std::atomic<bool>>(false);
    const auto go_on = [this, &route, call, is_gone](const std::optional<Refusal>& why_not,
                                                     std::shared_ptr<const void> waited_for) {
        if (why_not) return call.refuse(*why_not);
        call.has_waited_for(std::move(waited_for));
        if (!*is_gone) answer_elsewhere(route, call);
    };
    try {
        route.answer(call);
    } catch (const NotYet& model) {
        call.exchange().on_gone([is_gone, forget = model.forget] {
            *is_gone = true;
            forget(is_gone.get());
        });
        model.wait({go_on, is_gone});
    } catch (const Refusal& refusal) {
        call.refuse(refusal);
    } catch (const std::bad_alloc&) {
        call.refuse({503, "there is not enough memory for this request now"});
    } catch (const std::exception& error) {
        log_.say("failed", {{"request", call.request().number}, {"what", error.what()}});
        call.refuse({500, "the server failed; its log says more"});
    }
}

Response Router::refuse(const Request& head, int status, std::string message) {
    return as_response(family_of(head.path), {status, std::move(message)});
}

void Router::finished(const Request& request, const Outcome& outcome) {
    const Route* const route = at("", request.path);
    const std::string name = route ? std::string(route->path) : "none";
    metrics_.add("vkformer_http_requests_total", {{"route", name}, {"status", std::to_string(outcome.status)}});
    metrics_.observe("vkformer_http_request_seconds", {{"route", name}}, outcome.seconds);
    log_.say("request", {{"request", request.number},
                         {"method", request.method},
                         {"route", name},
                         {"status", outcome.status},
                         {"cut", outcome.is_cut},
                         {"bytes_in", request.body.size()},
                         {"bytes_out", outcome.bytes},
                         {"ms", static_cast<std::int64_t>(outcome.seconds * 1000)}});
}

}  // namespace vkformer::serve
