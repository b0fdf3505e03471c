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

std::optional<std::string> percent_decoded(std::string_view text) {
    const auto digit = [&](std::size_t at) {
        static constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
        const std::size_t found = at < text.size() ? kDigits.find(text[at]) : kDigits.npos;
        return found == kDigits.npos ? -1 : static_cast<int>(found < 16 ? found : found - 6);
    };
    std::string decoded;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            decoded += text[i];
            continue;
        }
        const int high = digit(i + 1), low = digit(i + 2);
        if (high < 0 || low < 0) return {};
        decoded += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return decoded;
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
