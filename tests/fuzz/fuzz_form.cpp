// SPDX-License-Identifier: MIT
/// Bodies of requests: a first byte says whether the rest is JSON, url-encoded, or multipart with the boundary in its first line.
#include <nlohmann/json.hpp>

#include "fuzz.hpp"
#include "serve/constraint_fields.hpp"
#include "serve/fields.hpp"
#include "serve/form.hpp"
#include "serve/refusal.hpp"
#include "text/unicode.hpp"

using namespace vkformer;
using namespace vkformer::serve;

namespace {

/// What the routes do with an object: ask for fields of every kind, and refuse the rest.
void read(const nlohmann::ordered_json& body) {
    fuzz::require(body.is_object() && text::is_utf8(body.dump()));
    Fields fields(body);
    (void)fields.text("model");
    for (const std::string& text : fields.texts("q", 8)) fuzz::require(text::is_utf8(text));
    (void)fields.number("temperature", 0, 2);
    if (const auto n = fields.integer("n", 1, 8)) fuzz::require(*n >= 1 && *n <= 8);
    (void)fields.boolean("stream");
    (void)read_constraint(fields);
    fields.finish();
}

void read_parts(std::string_view text) {
    const std::size_t line = std::min(text.find('\n'), text.size());
    Request request{.headers = {{"content-type", "multipart/form-data; boundary=" + std::string(text.substr(0, line))}},
                    .body = std::string(text.substr(std::min(line + 1, text.size())))};
    const auto parts = parse_multipart(request);
    fuzz::require(parts.size() <= 64);
    std::size_t bytes = 0;
    for (const Part& part : parts) bytes += part.bytes.size() + part.name.size();
    fuzz::require(bytes <= request.body.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const auto text = fuzz::text_of(data + 1, size - 1);
    try {
        switch (data[0] % 3) {
        case 0: read(parse_body({.headers = {{"content-type", "application/json"}}, .body = std::string(text)})); break;
        case 1: read(parse_url_encoded(text)); break;
        default: read_parts(text);
        }
    } catch (const Refusal& refusal) {
        fuzz::require(refusal.status >= 400 && refusal.status < 500 && !refusal.message.empty());
        fuzz::require(text::is_utf8(as_response(Family::openai, refusal).body));
    }
    return 0;
}
