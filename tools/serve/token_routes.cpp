// SPDX-License-Identifier: MIT
#include "serve/token_routes.hpp"

#include "serve/fields.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

void tokenize(const ModelSet& models, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    const TextModel& model = models.get<TextModel>(call, fields.text("model"));
    const std::string text = fields.needed_text("content");
    fields.only("add_special", true, "the tokenizer's special tokens are always there");
    fields.only("parse_special", true, "special tokens that a text spells are always found");
    fields.only("with_pieces", false, "pieces are not given; /detokenize has the text of tokens");
    fields.finish();
    auto tokens = model.engine().tokenize(text);
    if (!tokens) throw told(tokens.error());
    call.reply({{"tokens", *tokens}});
}

void detokenize(const ModelSet& models, const Call& call) {
    const json body = parse_body(call.request());
    Fields fields(body);
    const TextModel& model = models.get<TextModel>(call, fields.text("model"));
    const json& given = fields.needed("tokens");
    if (!given.is_array()) fields.refuse("tokens", "it is no list of token ids");
    std::vector<std::int32_t> tokens;
    for (const json& token : given) {
        if (!token.is_number_integer() || token < 0 || token > INT32_MAX)
            fields.refuse("tokens", "it is no list of token ids");
        tokens.push_back(token.get<std::int32_t>());
    }
    fields.finish();
    auto text = model.engine().detokenize(tokens);
    if (!text) throw told(text.error());
    call.reply({{"content", *text}});
}

}  // namespace

std::vector<Route> token_routes(const ModelSet& models, const Limits& limits) {
    const auto route = [&](std::string_view path, std::string_view summary,
                           void (*answer)(const ModelSet&, const Call&)) {
        return Route{.method = "POST",
                     .path = path,
                     .body_bytes = limits.body_bytes,
                     .summary = summary,
                     .answer = [&models, answer](const Call& call) { answer(models, call); }};
    };
    return {route("/tokenize", "A text to tokens, as llama.cpp's server has it", tokenize),
            route("/detokenize", "Tokens to their text", detokenize)};
}

}  // namespace vkformer::serve
