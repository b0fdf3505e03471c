// SPDX-License-Identifier: MIT
#include "serve/generation_fields.hpp"

#include <algorithm>
#include <charconv>

#include "core/random_bits.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kMostBiases = 1024;

std::map<std::int32_t, float> read_biases(Fields& fields) {
    std::map<std::int32_t, float> biases;
    const json* const given = fields.take("logit_bias");
    if (!given) return biases;
    if (!given->is_object() || given->size() > kMostBiases)
        fields.refuse("logit_bias",
                      "it is no object of at most " + std::to_string(kMostBiases) + " token ids and numbers");
    for (const auto& [name, value] : given->items()) {
        std::int32_t token = 0;
        const auto read = std::from_chars(name.data(), name.data() + name.size(), token);
        const bool is_token = read.ec == std::errc{} && read.ptr == name.data() + name.size() && token >= 0 &&
                              name == std::to_string(token);  // one that is spelled in two ways would have two
        const double bias = value.is_number() ? value.get<double>() : 1e9;
        if (!is_token || !(bias >= -100 && bias <= 100))
            fields.refuse("logit_bias", "it is no object of token ids and numbers from -100 to 100");
        biases[token] = static_cast<float>(bias);
    }
    return biases;
}

}  // namespace

GenerateOptions read_sampling(Fields& fields, double hottest) {
    const auto real = [&](std::string_view name, double least, double most, float fallback, bool& is_given) {
        const auto value = fields.number(name, least, most);
        is_given = is_given || value.has_value();
        return static_cast<float>(value.value_or(fallback));
    };
    bool is_given = false;
    Sampling sampling;
    sampling.temperature = real("temperature", 0, hottest, 1, is_given);
    sampling.top_p = real("top_p", 0, 1, 1, is_given);
    sampling.min_p = real("min_p", 0, 1, 0, is_given);
    sampling.repetition_penalty = real("repetition_penalty", 1e-3, 1e3, 1, is_given);
    sampling.presence_penalty = real("presence_penalty", -2, 2, 0, is_given);
    sampling.frequency_penalty = real("frequency_penalty", -2, 2, 0, is_given);
    if (const auto top_k = fields.integer("top_k", 0, INT32_MAX)) {
        sampling.top_k = static_cast<std::uint32_t>(*top_k);
        is_given = true;
    }
    sampling.logit_bias = read_biases(fields);
    is_given = is_given || !sampling.logit_bias.empty();
    if (sampling.temperature > 0) sampling.temperature = std::max(sampling.temperature, 1e-4f);
    if (sampling.top_p <= 0) {  // the likeliest token makes up any share above 0
        sampling.top_p = 1;
        sampling.top_k = 1;
    }
    GenerateOptions options;
    const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
    options.seed = seed ? static_cast<std::uint64_t>(*seed) : random_bits();
    options.ignore_end = fields.boolean("ignore_eos").value_or(false);
    if (is_given) options.sampling = std::move(sampling);
    return options;
}

std::string read_content(Fields& fields, std::string_view name, std::initializer_list<std::string_view> types) {
    const json& content = fields.needed(name);
    if (content.is_string()) return content.get<std::string>();
    if (!content.is_array()) fields.refuse(name, "it is neither a text nor a list of parts");
    std::string text;
    for (std::size_t i = 0; i < content.size(); ++i) {
        Fields part(content[i], fields.name_of(name) + "[" + std::to_string(i) + "]");
        const std::string type = part.needed_text("type");
        if (std::ranges::find(types, type) == types.end()) part.refuse("type", "only parts of text are read");
        text += part.needed_text("text");
        part.pass_over({"cache_control", "logprobs"});
        part.only("annotations", json::array(), "they are not read");
        part.only("citations", json::array(), "they are not read");
        part.finish();
    }
    return text;
}

void pass_over_bookkeeping(Fields& fields) {
    fields.pass_over({"user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
                      "prompt_cache_retention", "prediction"});
}

std::string new_id(std::string_view prefix) {
    char digits[48];
    std::snprintf(digits, sizeof digits, "%016llx%08llx", static_cast<unsigned long long>(random_bits()),
                  static_cast<unsigned long long>(random_bits() & 0xFFFF'FFFF));
    return std::string(prefix) + digits;
}

}  // namespace vkformer::serve
