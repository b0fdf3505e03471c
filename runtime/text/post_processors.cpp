// SPDX-License-Identifier: MIT
#include "text/post_processors.hpp"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"

namespace vkformer::text {
namespace {

using Ids = std::vector<std::int32_t>;
using Part = PostProcessor::Part;
using PartKind = Part::Kind;

Result<Part> read_part(const Field& piece, const Field& special_tokens, bool is_pair) {
    if (const auto sequence = piece.find("Sequence")) {
        VKFORMER_TRY(const std::string id, sequence->text("id"));
        VKFORMER_TRY(const std::int32_t type, sequence->id("type_id", 0));
        if (id == "A") return Part{.kind = PartKind::first, .type = type};
        if (!is_pair) return sequence->corrupt("a template for one text uses a second one");
        return Part{.kind = PartKind::second, .type = type};
    }
    VKFORMER_TRY(const Field special, piece.at("SpecialToken"));
    VKFORMER_TRY(const std::string name, special.text("id"));
    Part part{.kind = PartKind::special};
    VKFORMER_TRY(part.type, special.id("type_id", 0));
    VKFORMER_TRY(const Field entry, special_tokens.at(name));
    VKFORMER_TRY(const auto id_fields, entry.elements("ids"));
    for (const Field& id_field : id_fields) {
        VKFORMER_TRY(const std::int32_t id, id_field.id());
        part.ids.push_back(id);
    }
    return part;
}

Result<std::vector<Part>> read_parts(const Field& field, std::string_view name, const Field& special_tokens) {
    VKFORMER_TRY(const auto pieces, field.elements(name));
    std::vector<Part> parts;
    for (const Field& piece : pieces) {
        VKFORMER_TRY(Part part, read_part(piece, special_tokens, name == "pair"));
        parts.push_back(std::move(part));
    }
    return parts;
}

Result<PostProcessor> read_template_processor(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "single", "pair", "special_tokens"}));
    VKFORMER_TRY(const Field special_tokens, field.at("special_tokens"));
    VKFORMER_TRY(auto single, read_parts(field, "single", special_tokens));
    std::vector<Part> pair;
    if (field.has("pair")) {
        VKFORMER_TRY(pair, read_parts(field, "pair", special_tokens));
    }
    return PostProcessor(std::move(single), std::move(pair));
}

/// ["</s>", 2]
Result<Ids> read_token_pair(const Field& field, std::string_view name) {
    VKFORMER_TRY(const auto pair, field.elements(name));
    if (pair.size() != 2) return field.corrupt(formats::quote(name) + " is not a token and its id");
    VKFORMER_TRY(const std::int32_t id, pair[1].id());
    return Ids{id};
}

/// cls A sep, and cls A sep B sep with the second text of type 1; RoBERTa: cls A sep sep B sep, without types.
Result<PostProcessor> read_bert_processor(const Field& field, bool is_roberta) {
    VKFORMER_CHECK(field.check_members({"type", "sep", "cls", "trim_offsets", "add_prefix_space"}));
    VKFORMER_TRY(const Ids cls, read_token_pair(field, "cls"));
    VKFORMER_TRY(const Ids sep, read_token_pair(field, "sep"));
    const auto special = [](const Ids& ids, std::int32_t type) {
        return Part{.kind = PartKind::special, .type = type, .ids = ids};
    };
    const std::int32_t second_type = is_roberta ? 0 : 1;
    std::vector<Part> single = {special(cls, 0), {.kind = PartKind::first}, special(sep, 0)};
    std::vector<Part> pair = single;
    if (is_roberta) pair.push_back(special(sep, 0));
    pair.push_back({.kind = PartKind::second, .type = second_type});
    pair.push_back(special(sep, second_type));
    return PostProcessor(std::move(single), std::move(pair));
}

Result<PostProcessor> read_sequence_processor(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "processors"}));
    VKFORMER_TRY(const auto fields, field.elements("processors"));
    PostProcessor all;
    for (const Field& element : fields) {
        VKFORMER_TRY(const PostProcessor processor, read_post_processor(element));
        all = all.then(processor);
    }
    return all;
}

/// The parts with the text's place taken by `text`.
std::vector<Part> with_text(const std::vector<Part>& parts, const std::vector<Part>& text) {
    std::vector<Part> result;
    for (const Part& part : parts) {
        if (part.kind == PartKind::first)
            result.insert(result.end(), text.begin(), text.end());
        else
            result.push_back(part);
    }
    return result;
}

Encoding assemble(const std::vector<Part>& parts, const Ids& first, const Ids& second) {
    Encoding encoding;
    for (const Part& part : parts) {
        const Ids& ids = part.kind == PartKind::first ? first : part.kind == PartKind::second ? second : part.ids;
        encoding.ids.insert(encoding.ids.end(), ids.begin(), ids.end());
        encoding.types.insert(encoding.types.end(), ids.size(), part.type);
    }
    return encoding;
}

}  // namespace

PostProcessor::PostProcessor() : PostProcessor({Part{}}, {Part{}, Part{.kind = PartKind::second, .type = 1}}) {}

PostProcessor::PostProcessor(std::vector<Part> single, std::vector<Part> pair)
    : single_(std::move(single)), pair_(std::move(pair)) {}

bool PostProcessor::is_trivial() const noexcept { return single_.size() == 1 && single_[0].kind == PartKind::first; }

PostProcessor PostProcessor::then(const PostProcessor& next) const {
    if (is_trivial()) return next;
    return PostProcessor(with_text(next.single_, single_), with_text(next.single_, pair_));
}

std::size_t PostProcessor::added(bool is_pair) const noexcept {
    std::size_t count = 0;
    for (const Part& part : is_pair ? pair_ : single_) count += part.ids.size();
    return count;
}

Encoding PostProcessor::operator()(Ids ids) const { return assemble(single_, ids, {}); }

Encoding PostProcessor::operator()(Ids first, Ids second) const { return assemble(pair_, first, second); }

Result<PostProcessor> read_post_processor(const Field& field) {
    VKFORMER_TRY(const std::string type, field.text("type"));
    if (type == "Sequence") return read_sequence_processor(field);
    if (type == "TemplateProcessing") return read_template_processor(field);
    if (type == "BertProcessing" || type == "RobertaProcessing")
        return read_bert_processor(field, type == "RobertaProcessing");
    if (type == "ByteLevel") {  // only moves offsets into the text, which nobody asks for here
        VKFORMER_CHECK(field.check_members({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
        return PostProcessor();
    }
    return field.unsupported("the post-processor " + formats::quote(type) + " is not supported");
}

}  // namespace vkformer::text
