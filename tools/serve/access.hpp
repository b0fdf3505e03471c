// SPDX-License-Identifier: MIT
/// Who may ask: keys, and the names under which a browser reaches the server.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.hpp"
#include "serve/refusal.hpp"

namespace vkformer::serve {

/// Takes as long whatever of `given` is wrong.
bool equal_in_constant_time(std::string_view given, std::string_view expected) noexcept;

/// "127.0.0.1" of "127.0.0.1:8080", "::1" of "[::1]:8080", in small letters; nothing of what is no host.
std::optional<std::string> host_name(std::string_view host);
/// Whether it is an IPv4 or IPv6 address.
bool is_address(const std::string& name);
bool is_loopback(const std::string& address);

struct Access {
    std::vector<std::string> keys;     ///< none: everyone may ask
    std::vector<std::string> hosts;    ///< names of the server besides localhost and addresses, small letters
    std::vector<std::string> origins;  ///< of pages elsewhere that may ask, as browsers write them: "https://a.example"

    /// Keys out of a file, one a line; empty lines and those that begin with # do not count. Errors: FileNotFound, InvalidArgument (no key,
    /// or one of less than 16 characters).
    static Result<std::vector<std::string>> read_keys(const std::filesystem::path& file);

    /// A page whose name was bound anew to this machine (DNS rebinding) has a name in Host that is not the server's; a page elsewhere has
    /// an Origin that is not the server's own. Throws Refusal (400, 403).
    void check_host_and_origin(const Request& head) const;
    /// Authorization: Bearer KEY, or x-api-key: KEY. Throws Refusal (401).
    void check_key(const Request& head) const;
    bool is_key(std::string_view given) const;
    /// The origin that an answer allows to read it; empty: none but its own.
    std::string_view allowed_origin(const Request& head) const;
};

}  // namespace vkformer::serve
