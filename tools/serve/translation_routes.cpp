// SPDX-License-Identifier: MIT
#include "serve/translation_routes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "serve/fields.hpp"
#include "serve/form.hpp"
#include "serve/language_detector.hpp"
#include "serve/submit.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostTranslated = 256;
/// Bytes of a text with attention: what is computed and sent grows with the square.
constexpr std::size_t kMostLookedAt = 256;
/// Percent of the letters that another language than the likeliest needs to be taken for the source's.
constexpr double kLeastShare = 20;

/// JSON, or a form as LibreTranslate's own clients send it; and its key, where the head has none.
json body_of(const Request& request, const Access& access) {
    const std::string type = request.content_type();
    const bool is_form = type == "application/x-www-form-urlencoded" || type == "multipart/form-data";
    json body = is_form ? parse_form(request) : parse_body(request);
    if (const auto attention = body.find("attention"); is_form && attention != body.end())
        if (*attention == "true" || *attention == "false") *attention = *attention == "true";
    const bool has_key = !request.header("authorization").empty() || !request.header("x-api-key").empty();
    if (access.keys.empty() || has_key) return body;
    const auto key = body.find("api_key");
    if (key == body.end() || !key->is_string() || !access.is_key(key->get_ref<const std::string&>()))
        throw Refusal(403, "this server wants a key: api_key, or Authorization: Bearer KEY");
    return body;
}

/// What the languages of the models mean, which do not change.
class SourceLanguages {
public:
    explicit SourceLanguages(const ModelSet& models) {
        for (const auto& entry : models.entries())
            for (const std::string& name : entry->languages.sources)
                sources_.push_back({entry.get(), name, language_tags(name)});
    }

    /// The language as the first model spells it that translates from it and `fits`: in its script, else in another.
    template <class Fits>
    std::optional<std::string> find(const LanguageTags& tags, const Fits& fits) const {
        const Source* found = nullptr;
        for (const Source& source : sources_) {
            if (source.tags.language != tags.language || !fits(*source.model, source.name)) continue;
            if (source.tags.script == tags.script) return source.name;
            if (!found) found = &source;
        }
        return found ? std::optional(found->name) : std::nullopt;
    }

private:
    struct Source {
        const ModelSet::Entry* model;
        std::string name;
        LanguageTags tags;
    };
    std::vector<Source> sources_;
};

/// What a source that is "auto" turned out to be.
struct Source {
    std::string language;
    double confidence = 0;
};

/// The likeliest that is translated into the target, by the model that is named.
Source detect_source(const ModelSet& models, const SourceLanguages& sources, const Call& call, Fields& fields,
                     std::span<const std::string> texts, const std::string& target) {
    if (!can_detect_languages())
        throw Refusal(501, "this server was built without its detector of languages (VKFORMER_WITH_LANGUAGES)");
    const auto name = fields.text("model");
    if (name) (void)models.get<TranslationModel>(call, name);  // which refuses what is none
    const auto fits = [&](const ModelSet::Entry& entry, const std::string& source) {
        return (!name || entry.spec.name == *name) && entry.languages.take(source, target);
    };
    const auto detected = detect_languages(texts);
    for (const DetectedLanguage& language : detected) {
        if (&language != &detected.front() && language.confidence < kLeastShare) continue;
        if (auto source = sources.find(language.tags, fits)) return {std::move(*source), language.confidence};
    }
    if (detected.empty())
        fields.refuse("source", "what is written says too little of its language: say which one it is");
    fields.refuse("source", "it seems to be " + language_title(detected.front().code) + " (" + detected.front().code +
                                "), which is not translated into " + target + " here; /languages lists what is");
}

/// A form that crosses origins needs no leave from this server, so a browser's are taken from its own pages alone (see
/// Access::check_host_and_origin); programs send no Origin.
TranslationModel& model_for(const ModelSet& models, const Call& call, Fields& fields, const std::string& source,
                            const std::string& target) {
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

/// With [layers][written][source].
json as_json(const CrossAttention& attention) {
    json layers = json::array();
    for (const AttentionWeights& weights : attention.layers) {
        json rows = json::array();
        for (std::size_t query = 0; query < weights.queries; ++query) {
            json row = json::array();
            for (std::size_t key = 0; key < weights.keys; ++key)
                row.push_back(std::round(double{weights.values[query * weights.keys + key]} * 1e4) / 1e4);
            rows.push_back(std::move(row));
        }
        layers.push_back(std::move(rows));
    }
    return {{"source", attention.source}, {"written", attention.written}, {"layers", std::move(layers)}};
}

/// A text or a list of them.
struct Texts {
    std::vector<std::string> texts;
    bool is_list = false;
};

Texts texts_of(Fields& fields) {
    const bool is_list = fields.needed("q").is_array();
    return {fields.texts("q", kMostTranslated), is_list};
}

void translate(const ModelSet& models, const SourceLanguages& sources, const Access& access, const Call& call) {
    const json body = body_of(call.request(), access);
    Fields fields(body);
    std::string source = fields.needed_text("source");
    const std::string target = fields.needed_text("target");
    auto [texts, is_list] = texts_of(fields);
    json detected;
    if (source == "auto") {
        const Source found = detect_source(models, sources, call, fields, texts, target);
        source = found.language;
        detected = {{"confidence", found.confidence}, {"language", source}};
        if (is_list) detected = json(texts.size(), detected);
    }
    TranslationModel& model = model_for(models, call, fields, source, target);
    fields.only("format", "text", "only \"text\" is translated: markup would not stay whole");
    const std::size_t alternatives = alternatives_of(fields);
    const bool with_attention = fields.boolean("attention").value_or(false);
    if (with_attention && (is_list || texts.front().size() > kMostLookedAt))
        fields.refuse("attention",
                      "it is told of one text (no list) of at most " + std::to_string(kMostLookedAt) + " bytes");
    fields.pass_over({"api_key"});
    fields.finish();
    const auto answer = [is_list = is_list, alternatives, with_attention, detected](
                            const Call& of, const std::vector<Translated>& made) {
        json texts_made = json::array(), others = json::array();
        for (const auto& [translation, attention] : made) {
            texts_made.push_back(translation.text);
            others.push_back(others_of(translation, alternatives));
        }
        json reply = {{"translatedText", is_list ? texts_made : texts_made.front()}};
        if (!detected.is_null()) reply["detectedLanguage"] = detected;
        if (alternatives > 0) reply["alternatives"] = is_list ? others : others.front();
        if (with_attention) reply["attention"] = made.front().attention ? as_json(*made.front().attention) : json();
        of.reply(reply);
    };
    submit(model.calls(), call, model.inputs(std::move(texts), source, target), answer,
           with_attention ? call.request().number : 0);
}

/// As the models spell them, where one translates from them.
void detect(const SourceLanguages& sources, const Access& access, const Call& call) {
    const json body = body_of(call.request(), access);
    Fields fields(body);
    const Texts texts = texts_of(fields);
    fields.pass_over({"api_key"});
    fields.finish();
    json found = json::array();
    for (const DetectedLanguage& language : detect_languages(texts.texts)) {
        const auto name = sources.find(language.tags, [](const ModelSet::Entry&, const std::string&) { return true; });
        found.push_back({{"confidence", language.confidence}, {"language", name.value_or(language.code)}});
    }
    call.reply(found);
}

json list_of_languages(const ModelSet& models) {
    std::map<std::string, std::set<std::string>> targets;
    for (const auto& entry : models.entries()) {
        const auto& [from_these, into, are_many] = entry->languages;
        for (const std::string& from : from_these) targets[from].insert(into.begin(), into.end());
        for (const std::string& to : into) targets.try_emplace(to);
    }
    json list = json::array();
    for (const auto& [code, into] : targets)
        list.push_back({{"code", code}, {"name", language_title(code)}, {"targets", into}});
    return list;
}

}  // namespace

std::vector<Route> translation_routes(const ModelSet& models, const Access& access, const Limits& limits) {
    const std::vector<std::string_view> forms = {"application/json", "application/x-www-form-urlencoded",
                                                 "multipart/form-data"};
    const auto sources = std::make_shared<const SourceLanguages>(models);
    const auto languages = std::make_shared<const json>(list_of_languages(models));
    std::vector<Route> routes = {
        {.method = "POST",
         .path = "/translate",
         .family = Family::libretranslate,
         .body_bytes = limits.body_bytes,
         .key_in_body = true,
         .is_work = true,
         .summary = "Texts from one language into another, as LibreTranslate's API has it",
         .takes = forms,
         .answer = [&models, &access, sources](const Call& call) { translate(models, *sources, access, call); }},
        {.method = "GET",
         .path = "/languages",
         .family = Family::libretranslate,
         .needs_key = false,
         .summary = "Which languages are translated into which",
         .answer = [languages](const Call& call) { call.reply(*languages); }},
    };
    if (can_detect_languages())
        routes.push_back(
            {.method = "POST",
             .path = "/detect",
             .family = Family::libretranslate,
             .body_bytes = limits.body_bytes,
             .key_in_body = true,
             .summary = "Which languages texts are written in, the likeliest first, as LibreTranslate's API has it",
             .takes = forms,
             .answer = [&access, sources](const Call& call) { detect(*sources, access, call); }});
    return routes;
}

}  // namespace vkformer::serve
