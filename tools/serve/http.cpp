// SPDX-License-Identifier: MIT
#include "serve/http.hpp"

#include <algorithm>

namespace vkformer::serve {

std::string_view Request::header(std::string_view name) const {
    const auto found = headers.find(std::string(name));
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string Request::content_type() const {
    std::string type(header("content-type"));
    type.resize(std::min(type.find(';'), type.size()));
    while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.pop_back();
    return lower(type);
}

std::string lower(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    return result;
}

std::string_view reason(int status) {
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    }
    return "Unknown";
}

}  // namespace vkformer::serve
