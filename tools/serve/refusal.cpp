// SPDX-License-Identifier: MIT
#include "serve/refusal.hpp"

#include <nlohmann/json.hpp>

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

std::string_view openai_type(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    }
    return status >= 500 ? "server_error" : "invalid_request_error";
}

std::string_view anthropic_type(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    }
    return status >= 500 ? "api_error" : "invalid_request_error";
}

json or_null(const std::string& text) { return text.empty() ? json() : json(text); }

}  // namespace

std::string error_body(Family family, const Refusal& refusal) {
    const std::string named = refusal.param.empty() ? refusal.message : refusal.param + ": " + refusal.message;
    json body;
    switch (family) {
    case Family::openai:
        body = {{"error",
                 {{"message", named},
                  {"type", openai_type(refusal.status)},
                  {"param", or_null(refusal.param)},
                  {"code", or_null(refusal.code)}}}};
        break;
    case Family::anthropic:
        body = {{"type", "error"}, {"error", {{"type", anthropic_type(refusal.status)}, {"message", named}}}};
        break;
    case Family::libretranslate: body = {{"error", named}}; break;
    }
    return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

Response as_response(Family family, const Refusal& refusal) {
    Response response{.status = refusal.status, .body = error_body(family, refusal)};
    if (refusal.status == 503 || refusal.status == 429) response.headers.emplace_back("retry-after", "1");
    if (refusal.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
    return response;
}

Refusal told(const Error& error) {
    switch (error.code) {
    case ErrorCode::InvalidArgument:
    case ErrorCode::UnsupportedConfig: return {400, error.message};  // what this model cannot be asked for
    case ErrorCode::NotANumber: return {500, error.message};
    case ErrorCode::Cancelled: return {503, "the request was ended: the server is full or is being stopped"};
    case ErrorCode::OutOfHostMemory:
    case ErrorCode::OutOfDeviceMemory: return {503, "there is not enough memory for this request now"};
    case ErrorCode::DeviceLost:
        return {503, "the model's device was lost; the model is being loaded anew, try again soon"};
    default: return {500, "the model failed; the server's log says more"};
    }
}

}  // namespace vkformer::serve
