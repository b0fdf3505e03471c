// SPDX-License-Identifier: MIT
#include "constraints/string_formats.hpp"

#include <algorithm>
#include <iterator>

namespace vkformer::constraints {
namespace {

struct Format {
    std::string_view name, expression;
};
// Not all that the standards let through, but nothing else: RFC 3339, 4122, 5321, 2673, 4291 (without ::), 1123, 3986.
constexpr std::string_view kDate =
    "(?:[1-9]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|"
    "1\\d|2[0-8])))";
constexpr std::string_view kTime =
    "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d))";
constexpr Format kFormats[] = {
    {"date", kDate},
    {"time", kTime},
    {"uuid", "[\\da-f]{8}-[\\da-f]{4}-[\\da-f]{4}-[\\da-f]{4}-[\\da-f]{12}"},
    {"email",
     "[\\w+-]{1,32}(?:\\.[\\w+-]{1,31})?@(?:[A-Za-z\\d](?:[A-Za-z\\d-]{0,30}[A-Za-z\\d])?\\.){1,4}[A-Za-z]{2,16}"},
    {"ipv4", "(?:(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"},
    {"ipv6", "(?:[\\dA-Fa-f]{1,4}:){7}[\\dA-Fa-f]{1,4}"},
    {"hostname", "(?:[A-Za-z\\d](?:[A-Za-z\\d-]{0,61}[A-Za-z\\d])?\\.){0,8}[A-Za-z](?:[A-Za-z\\d-]{0,61}[A-Za-z\\d])?"},
    {"uri", "[a-z][a-z\\d+.-]{0,15}://[A-Za-z\\d.-]{1,253}(?::\\d{1,4})?(?:/[\\w.~!$&'()*+,;=:@/-]{0,1024})?"},
    {"duration", "P(?:\\d{1,4}W|\\d{1,4}D(?:T\\d{1,4}H)?|T(?:\\d{1,4}H)?\\d{1,4}M(?:\\d{1,4}S)?|T\\d{1,4}S)"},
};

}  // namespace

std::optional<std::string> expression_of_format(std::string_view name) {
    if (name == "date-time") return std::string(kDate) + "T" + std::string(kTime);
    const auto known = std::ranges::find(kFormats, name, &Format::name);
    if (known == std::end(kFormats)) return {};
    return std::string(known->expression);
}

}  // namespace vkformer::constraints
