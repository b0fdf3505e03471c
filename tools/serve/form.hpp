// SPDX-License-Identifier: MIT
/// Bodies as HTML's forms send them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "serve/http.hpp"

namespace vkformer::serve {

/// application/x-www-form-urlencoded as an object of texts; a name that comes several times is a list of them. Throws Refusal (400; more than
/// kMostMembers fields, no UTF-8).
nlohmann::ordered_json parse_url_encoded(std::string_view body);

/// The same of either kind of form, without files. Throws Refusal besides: 415 (no form), and as of parse_multipart.
nlohmann::ordered_json parse_form(const Request& request);

struct Part {
    std::string name;
    bool is_file = false;
    std::string bytes;
};

/// multipart/form-data, RFC 7578. Throws Refusal: 415 (another content-type), 400 (what is no such body; more than 64 parts).
std::vector<Part> parse_multipart(const Request& request);

}  // namespace vkformer::serve
