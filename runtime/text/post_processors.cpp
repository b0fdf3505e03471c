// SPDX-License-Identifier: MIT
#include "text/post_processors.hpp"

#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"

namespace vkformer::text {
namespace {

using Ids = std::vector<std::int32_t>;

/// Nothing stands for the text itself.
using TemplatePart = std::optional<Ids>;

PostProcessor template_processor(std::vector<TemplatePart> parts) {
    return [parts = std::move(parts)](Ids& ids) {
        Ids result;
        for (const TemplatePart& part : parts) {
            const Ids& source = part ? *part : ids;
            result.insert(result.end(), source.begin(), source.end());
        }
        ids = std::move(result);
    };
}

Result<TemplatePart> read_part(const Field& piece, const Field& special_tokens) {
    if (const auto sequence = piece.find("Sequence")) {
        VKFORMER_TRY(const std::string id, sequence->text("id"));
        if (id != "A") return sequence->corrupt("a template for one text uses a second one");
        return TemplatePart();
    }
    VKFORMER_TRY(const Field special, piece.at("SpecialToken"));
    VKFORMER_TRY(const std::string name, special.text("id"));
    VKFORMER_TRY(const Field entry, special_tokens.at(name));
    VKFORMER_TRY(const auto id_fields, entry.elements("ids"));
    Ids ids;
    for (const Field& id_field : id_fields) {
        VKFORMER_TRY(const std::int32_t id, id_field.id());
        ids.push_back(id);
    }
    return TemplatePart(std::move(ids));
}

Result<PostProcessor> read_template(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "single", "pair", "special_tokens"}));
    VKFORMER_TRY(const auto pieces, field.elements("single"));
    VKFORMER_TRY(const Field special_tokens, field.at("special_tokens"));
    std::vector<TemplatePart> parts;
    for (const Field& piece : pieces) {
        VKFORMER_TRY(auto part, read_part(piece, special_tokens));
        parts.push_back(std::move(part));
    }
    return template_processor(std::move(parts));
}

/// ["</s>", 2]
Result<TemplatePart> read_token_pair(const Field& field, std::string_view name) {
    VKFORMER_TRY(const auto pair, field.elements(name));
    if (pair.size() != 2) return field.corrupt(formats::quote(name) + " is not a token and its id");
    VKFORMER_TRY(const std::int32_t id, pair[1].id());
    return TemplatePart(Ids{id});
}

/// BertProcessing and RobertaProcessing do the same to a single text.
Result<PostProcessor> read_bert(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "sep", "cls", "trim_offsets", "add_prefix_space"}));
    VKFORMER_TRY(auto cls, read_token_pair(field, "cls"));
    VKFORMER_TRY(auto sep, read_token_pair(field, "sep"));
    return template_processor({std::move(cls), TemplatePart(), std::move(sep)});
}

Result<PostProcessor> read_sequence(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "processors"}));
    VKFORMER_TRY(const auto fields, field.elements("processors"));
    std::vector<PostProcessor> processors;
    for (const Field& element : fields) {
        VKFORMER_TRY(auto processor, read_post_processor(element));
        processors.push_back(std::move(processor));
    }
    return PostProcessor([processors = std::move(processors)](Ids& ids) {
        for (const PostProcessor& processor : processors) processor(ids);
    });
}

}  // namespace

Result<PostProcessor> read_post_processor(const Field& field) {
    VKFORMER_TRY(const std::string type, field.text("type"));
    if (type == "Sequence") return read_sequence(field);
    if (type == "TemplateProcessing") return read_template(field);
    if (type == "BertProcessing" || type == "RobertaProcessing") return read_bert(field);
    if (type == "ByteLevel") {  // only moves offsets into the text, which nobody asks for here
        VKFORMER_CHECK(field.check_members({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
        return PostProcessor([](Ids&) {});
    }
    return field.unsupported("the post-processor " + formats::quote(type) + " is not supported");
}

}  // namespace vkformer::text
