// SPDX-License-Identifier: MIT
#include "serve/translation_routes.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>

#include "serve/fields.hpp"
#include "serve/form.hpp"
#include "serve/submit.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostTranslated = 256;

/// JSON, or a form as LibreTranslate's own clients send it; and its key, where the head has none.
json body_of(const Request& request, const Access& access) {
    json body = request.content_type() == "application/x-www-form-urlencoded" ? parse_url_encoded(request.body)
                                                                              : parse_body(request);
    const bool has_key = !request.header("authorization").empty() || !request.header("x-api-key").empty();
    if (access.keys.empty() || has_key) return body;
    const auto key = body.find("api_key");
    if (key == body.end() || !key->is_string() || !access.is_key(key->get_ref<const std::string&>()))
        throw Refusal(403, "this server wants a key: api_key, or Authorization: Bearer KEY");
    return body;
}

/// A form that crosses origins needs no leave from this server, so a browser's are taken from its own pages alone (see
/// Access::check_host_and_origin); programs send no Origin.
TranslationModel& model_for(const ModelSet& models, const Call& call, Fields& fields, const std::string& source,
                            const std::string& target) {
    if (source == "auto")
        fields.refuse("source",
                      "\"auto\" needs a detector of languages, which this server has not: say which one it is");
    const auto name = fields.text("model");
    for (const auto& entry : models.entries())
        if (!name && entry->languages.take(source, target)) return models.get<TranslationModel>(call, entry->spec.name);
    if (name) {
        TranslationModel& found = models.get<TranslationModel>(call, name);
        for (const auto& entry : models.entries())
            if (entry->spec.name == *name && !entry->languages.take(source, target))
                fields.refuse("model", "it does not translate " + source + " into " + target);
        return found;
    }
    throw Refusal(400, source + " is not translated into " + target + " here; /languages lists what is");
}

/// How many other translations are asked for, at most; a form has it as text.
std::size_t alternatives_of(Fields& fields) {
    constexpr std::int64_t kMost = 31;  // what a search with the most beams has beside the best
    const json* const given = fields.take("alternatives");
    if (!given) return 0;
    std::int64_t count = -1;
    if (given->is_string()) {
        const auto& digits = given->get_ref<const std::string&>();
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
        if (error != std::errc{} || end != digits.data() + digits.size()) count = -1;
    } else if (given->is_number_integer()) {
        count = given->is_number_unsigned()
                    ? static_cast<std::int64_t>(std::min<std::uint64_t>(given->get<std::uint64_t>(), kMost + 1))
                    : given->get<std::int64_t>();
    }
    if (count < 0 || count > kMost)
        fields.refuse("alternatives", "expected a whole number from 0 to " + std::to_string(kMost));
    return static_cast<std::size_t>(count);
}

/// The next best of the search whose texts are others: none where it has one beam.
json others_of(const Translation& translation, std::size_t most) {
    json others = json::array();
    for (const Translation& next : translation.further) {
        if (others.size() == most) break;
        if (next.text != translation.text && std::ranges::count(others, json(next.text)) == 0)
            others.push_back(next.text);
    }
    return others;
}

void translate(const ModelSet& models, const Access& access, const Call& call) {
    const json body = body_of(call.request(), access);
    Fields fields(body);
    const std::string source = fields.needed_text("source"), target = fields.needed_text("target");
    TranslationModel& model = model_for(models, call, fields, source, target);
    const bool is_list = fields.has("q") && fields.needed("q").is_array();
    fields.needed("q");
    std::vector<std::string> texts = fields.texts("q", kMostTranslated);
    fields.only("format", "text", "only \"text\" is translated: markup would not stay whole");
    const std::size_t alternatives = alternatives_of(fields);
    fields.pass_over({"api_key"});
    fields.finish();
    const auto answer = [is_list, alternatives](const Call& of, const std::vector<Translation>& made) {
        json texts_made = json::array(), others = json::array();
        for (const Translation& translation : made) {
            texts_made.push_back(translation.text);
            others.push_back(others_of(translation, alternatives));
        }
        json reply = {{"translatedText", is_list ? texts_made : texts_made.front()}};
        if (alternatives > 0) reply["alternatives"] = is_list ? others : others.front();
        of.reply(reply);
    };
    submit(model.calls(), call, std::move(texts), answer, TranslationModel::group_of(source, target));
}

void list_languages(const ModelSet& models, const Call& call) {
    std::map<std::string, std::set<std::string>> targets;
    for (const auto& entry : models.entries()) {
        const auto& [from_these, into, are_many] = entry->languages;
        for (const std::string& from : from_these) targets[from].insert(into.begin(), into.end());
        for (const std::string& to : into) targets.try_emplace(to);
    }
    json list = json::array();
    for (const auto& [code, into] : targets) list.push_back({{"code", code}, {"name", code}, {"targets", into}});
    call.reply(list);
}

}  // namespace

std::vector<Route> translation_routes(const ModelSet& models, const Access& access, const Limits& limits) {
    const std::vector<std::string_view> forms = {"application/json", "application/x-www-form-urlencoded"};
    return {{.method = "POST",
             .path = "/translate",
             .family = Family::libretranslate,
             .body_bytes = limits.body_bytes,
             .key_in_body = true,
             .is_work = true,
             .summary = "Texts from one language into another, as LibreTranslate's API has it",
             .takes = forms,
             .answer = [&models, &access](const Call& call) { translate(models, access, call); }},
            {.method = "GET",
             .path = "/languages",
             .family = Family::libretranslate,
             .needs_key = false,
             .summary = "Which languages are translated into which",
             .answer = [&models](const Call& call) { list_languages(models, call); }},
            {.method = "POST",
             .path = "/detect",
             .family = Family::libretranslate,
             .body_bytes = limits.body_bytes,
             .key_in_body = true,
             .summary = "Not there: the server has no detector of languages",
             .takes = forms,
             .answer = [&access](const Call& call) {
                 body_of(call.request(), access);
                 throw Refusal(501, "this server has no detector of languages");
             }}};
}

}  // namespace vkformer::serve
