// SPDX-License-Identifier: MIT
#include "serve/form.hpp"

#include <algorithm>
#include <optional>

#include "serve/fields.hpp"
#include "serve/refusal.hpp"
#include "text/unicode.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostParts = 64, kMostPartHead = 4096;

std::string url_decoded(std::string_view text) {
    std::string spaced(text);
    std::ranges::replace(spaced, '+', ' ');
    auto decoded = percent_decoded(spaced);
    if (!decoded) throw Refusal(400, "the form has a % that is not followed by two hexadecimal digits");
    return *std::move(decoded);
}

[[noreturn]] void refuse_form(const char* what) {
    throw Refusal(400, std::string("the body is no multipart/form-data: ") + what);
}

/// `value` of `; name=value` or `; name="value"` in a header; nothing where it is not there.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
    for (std::size_t at = header.find(';'); at != header.npos;) {
        std::size_t first = header.find_first_not_of("; \t", at);
        if (first == header.npos) return {};
        const std::size_t equals = header.find('=', first);
        if (equals == header.npos) return {};
        const bool is_it = lower(header.substr(first, equals - first)) == name;
        std::string value;
        if (equals + 1 < header.size() && header[equals + 1] == '"') {
            std::size_t i = equals + 2;
            for (; i < header.size() && header[i] != '"'; ++i) {
                if (header[i] == '\\' && i + 1 < header.size()) ++i;
                value += header[i];
            }
            at = header.find(';', i);
        } else {
            at = header.find(';', equals);
            value = std::string(header.substr(equals + 1, at == header.npos ? header.npos : at - equals - 1));
        }
        if (is_it) return value;
    }
    return {};
}

Part parse_part(std::string_view text) {
    const std::size_t end = text.substr(0, kMostPartHead).find("\r\n\r\n");
    if (end == text.npos) refuse_form("a part has no head");
    Part part{.bytes = std::string(text.substr(end + 4))};
    bool has_name = false;
    std::string_view head = text.substr(0, end);
    while (!head.empty()) {
        const std::size_t length = std::min(head.find("\r\n"), head.size());
        const std::string_view line = head.substr(0, length);
        head.remove_prefix(std::min(length + 2, head.size()));
        if (!lower(line).starts_with("content-disposition:")) continue;
        const auto name = parameter(line, "name");
        if (!name) refuse_form("a part has no name");
        has_name = true;
        part.name = *name;
        part.is_file = parameter(line, "filename").has_value();
    }
    if (!has_name) refuse_form("a part has no content-disposition");
    return part;
}

/// A name that comes several times is a list.
void add_field(json& object, std::string name, std::string value) {
    if (!text::is_utf8(name) || !text::is_utf8(value)) throw Refusal(400, "the form is not UTF-8");
    if (!object.contains(name))
        object[name] = std::move(value);
    else if (object[name].is_array())
        object[name].push_back(std::move(value));
    else
        object[name] = {object[name], std::move(value)};
}

}  // namespace

json parse_url_encoded(std::string_view body) {
    json object = json::object();
    for (std::size_t pairs = 0; !body.empty();) {
        const std::size_t length = std::min(body.find('&'), body.size());
        const std::string_view pair = body.substr(0, length);
        body.remove_prefix(std::min(length + 1, body.size()));
        if (pair.empty()) continue;
        if (++pairs > kMostMembers)
            throw Refusal(400, "the form has more than " + std::to_string(kMostMembers) + " fields");
        const std::size_t equals = std::min(pair.find('='), pair.size());
        std::string name = url_decoded(pair.substr(0, equals));
        std::string value = url_decoded(pair.substr(std::min(equals + 1, pair.size())));
        add_field(object, std::move(name), std::move(value));
    }
    return object;
}

json parse_form(const Request& request) {
    if (request.content_type() == "application/x-www-form-urlencoded") return parse_url_encoded(request.body);
    json object = json::object();
    for (Part& part : parse_multipart(request)) {
        if (part.is_file) throw Refusal(400, "it is a file, and this route takes texts", part.name);
        add_field(object, std::move(part.name), std::move(part.bytes));
    }
    return object;
}

std::vector<Part> parse_multipart(const Request& request) {
    if (request.content_type() != "multipart/form-data")
        throw Refusal(415, "the body is to be a form with a file: \"content-type: multipart/form-data\"");
    const auto boundary = parameter(request.header("content-type"), "boundary");
    if (!boundary || boundary->empty() || boundary->size() > 70) refuse_form("there is no boundary");
    const std::string mark = "\r\n--" + *boundary;
    std::string_view rest = request.body;
    // What goes before the first boundary does not count; that boundary may begin the body.
    if (rest.starts_with(std::string_view(mark).substr(2)))
        rest.remove_prefix(mark.size() - 2);
    else if (const std::size_t first = rest.find(mark); first != rest.npos)
        rest.remove_prefix(first + mark.size());
    else
        refuse_form("its boundary is not in it");
    std::vector<Part> parts;
    while (!rest.starts_with("--")) {
        rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
        if (!rest.starts_with("\r\n")) refuse_form("a boundary does not end its line");
        rest.remove_prefix(2);
        const std::size_t end = rest.find(mark);
        if (end == rest.npos) refuse_form("it ends within a part");
        if (parts.size() == kMostParts) refuse_form("it has more than 64 parts");
        parts.push_back(parse_part(rest.substr(0, end)));
        rest.remove_prefix(end + mark.size());
    }
    return parts;
}

}  // namespace vkformer::serve
