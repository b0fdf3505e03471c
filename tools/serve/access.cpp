// SPDX-License-Identifier: MIT
#include "serve/access.hpp"

#include <algorithm>
#include <fstream>

#include <boost/asio/ip/address.hpp>

namespace vkformer::serve {
namespace {

constexpr std::size_t kShortestKey = 16;

bool is_port(std::string_view text) {
    return text.size() <= 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool equal_in_constant_time(std::string_view given, std::string_view expected) noexcept {
    volatile unsigned char differs = given.size() == expected.size() ? 0 : 1;
    for (std::size_t i = 0; i < given.size(); ++i)
        differs = differs | (static_cast<unsigned char>(given[i]) ^
                             static_cast<unsigned char>(expected.empty() ? 0xFF : expected[i % expected.size()]));
    return differs == 0;
}

std::optional<std::string> host_name(std::string_view host) {
    std::string_view name = host, port;
    if (host.starts_with('[')) {
        const std::size_t end = host.find(']');
        if (end == host.npos) return {};
        name = host.substr(1, end - 1);
        port = host.substr(end + 1);
        if (!port.empty() && port[0] != ':') return {};
        if (!port.empty()) port.remove_prefix(1);
        if (!is_address(std::string(name))) return {};
    } else if (const std::size_t colon = host.find(':'); colon != host.npos) {
        name = host.substr(0, colon);
        port = host.substr(colon + 1);
    }
    const auto is_part = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
               c == '_' || c == ':';
    };
    if (name.empty() || !is_port(port) || !std::ranges::all_of(name, is_part)) return {};
    return lower(name);
}

bool is_address(const std::string& name) {
    boost::system::error_code error;
    boost::asio::ip::make_address(name, error);
    return !error;
}

bool is_loopback(const std::string& address) {
    boost::system::error_code error;
    return boost::asio::ip::make_address(address, error).is_loopback() && !error;
}

Result<std::vector<std::string>> Access::read_keys(const std::filesystem::path& file) {
    std::ifstream in(file);
    if (!in) return Error{ErrorCode::FileNotFound, "cannot read the keys in " + file.string()};
    std::vector<std::string> keys;
    for (std::string line; std::getline(in, line);) {
        const std::size_t first = line.find_first_not_of(" \t\r");
        if (first == line.npos || line[first] == '#') continue;
        std::string key = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
        if (key.size() < kShortestKey)
            return Error{ErrorCode::InvalidArgument, file.string() + " has a key of " + std::to_string(key.size()) +
                                                         " characters, which can be guessed: at least " +
                                                         std::to_string(kShortestKey) +
                                                         ", as `openssl rand -hex 16` gives"};
        keys.push_back(std::move(key));
    }
    if (keys.empty()) return Error{ErrorCode::InvalidArgument, file.string() + " has no key: one a line"};
    return keys;
}

void Access::check_host_and_origin(const Request& head) const {
    const std::string_view host = head.header("host");
    const auto name = host_name(host);
    if (!name) throw Refusal(400, "the request has no Host header, or one that is no host");
    if (*name != "localhost" && !is_address(*name) && std::ranges::find(hosts, *name) == hosts.end())
        throw Refusal(
            403,
            "the request's Host is no name of this server: it is reached by an address, as localhost, or by a name "
            "that it was started with (--allow-host)");
    const std::string_view origin = head.header("origin");
    if (origin.empty() || !allowed_origin(head).empty()) return;
    if (origin != "http://" + std::string(host) && origin != "https://" + std::string(host))
        throw Refusal(403, "pages of other origins may not ask this server, unless it was started with --allow-origin");
}

std::string_view Access::allowed_origin(const Request& head) const {
    const std::string_view origin = head.header("origin");
    const bool is_allowed = !origin.empty() && std::ranges::find(origins, origin) != origins.end();
    return is_allowed ? origin : std::string_view();
}

bool Access::is_key(std::string_view given) const {
    bool found = false;
    for (const std::string& key : keys) found = equal_in_constant_time(given, key) || found;
    return found;
}

void Access::check_key(const Request& head) const {
    if (keys.empty()) return;
    std::string_view given = head.header("x-api-key");
    if (const std::string_view authorization = head.header("authorization"); !authorization.empty()) {
        const std::size_t space = authorization.find(' ');
        if (space == authorization.npos || lower(authorization.substr(0, space)) != "bearer")
            throw Refusal(401, "the Authorization header is no \"Bearer KEY\"", {}, "invalid_api_key");
        given = authorization.substr(space + 1);
    }
    if (given.empty())
        throw Refusal(401, "this server wants a key: Authorization: Bearer KEY, or x-api-key: KEY", {},
                      "invalid_api_key");
    if (!is_key(given)) throw Refusal(401, "the key is none of this server's", {}, "invalid_api_key");
}

}  // namespace vkformer::serve
