// SPDX-License-Identifier: MIT
#include "constraints/json_schema.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "constraints/json_values.hpp"
#include "constraints/regex.hpp"
#include "constraints/schema_keywords.hpp"
#include "constraints/string_formats.hpp"
#include "core/decimal.hpp"
#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/unicode.hpp"

namespace vkformer::constraints {
namespace {

using nlohmann::json;

// Bounds that no schema comes near that is written by hand: schemas looked at, those inside each other.
constexpr std::size_t kMostWork = 20'000, kMostNesting = 100, kMostSchemaBytes = 1 << 20, kMostMembers = 2000,
                      kMostBranches = 64;

constexpr std::string_view kTypes[] = {"array", "boolean", "integer", "null", "number", "object", "string"};

bool is_of_type(const json& value, std::string_view type) {
    if (type == "integer") {
        const double number = value.is_number() ? value.get<double>() : 0.5;
        return std::floor(number) == number;
    }
    if (type == "number") return value.is_number();
    return type == value.type_name();  // nlohmann's names of the others are JSON's
}

std::string spelled(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

class SchemaReader {
public:
    Result<std::shared_ptr<const Grammar>> read(std::string_view text) {
        if (text.size() > kMostSchemaBytes)
            return fail("it has more than " + std::to_string(kMostSchemaBytes) + " bytes");
        auto parsed = formats::parse_json(text, "the schema", &order_);
        if (!parsed) return Error{ErrorCode::InvalidArgument, parsed.error().message};
        root_ = *std::move(parsed);
        const RuleId all = rule_of(root_, "#");
        for (std::size_t i = 0; i < unread_.size(); ++i) {
            const Unread next = unread_[i];
            path_ = next.path;
            VKFORMER_TRY(const StateId end, value(*next.schema, builder_.rule(next.rule).begin));
            builder_.empty(end, builder_.rule(next.rule).end);
        }
        path_.clear();
        auto made = builder_.finish(all);
        if (!made) return fail(made.error().message);
        return *std::move(made);
    }

private:
    struct Unread {
        const json* schema;
        RuleId rule;
        std::string path;
    };
    /// Adds to the path for as long as it lives.
    class Inside {
    public:
        Inside(SchemaReader& reader, std::string_view name) : reader_(reader), size_(reader.path_.size()) {
            reader.path_ += "/" + std::string(name.substr(0, 100));
            ++reader.depth_;
        }
        Inside(const Inside&) = delete;
        Inside& operator=(const Inside&) = delete;
        ~Inside() {
            reader_.path_.resize(size_);
            --reader_.depth_;
        }

    private:
        SchemaReader& reader_;
        std::size_t size_;
    };

    Error fail(const std::string& what) const {
        return {ErrorCode::InvalidArgument,
                "the schema" + (path_.empty() ? "" : " at " + formats::quote(path_)) + ": " + what};
    }
    Error fail(std::string_view keyword, const std::string& what) const {
        return fail(formats::quote(keyword) + " " + what);
    }
    Result<void> count_work() {
        if (++work_ > kMostWork || depth_ > kMostNesting)
            return fail("it is too large, nested too deep, or refers to itself without end");
        return {};
    }

    Result<bool> are_equal(const json& a, const json& b) {
        if (&a == &b) return true;
        const std::string left = spelled(a), right = spelled(b);
        work_ += (left.size() + right.size()) / 64;
        VKFORMER_CHECK(count_work());
        return left == right;
    }

    RuleId rule_of(const json& schema, const std::string& path) {
        const auto [found, is_new] = rules_.try_emplace(&schema, 0);
        if (is_new) {
            found->second = builder_.add_rule();
            unread_.push_back({&schema, found->second, path});
        }
        return found->second;
    }

    // ---- what is said -----------------------------------------------------------------------------------------------

    Result<const json*> referred(const json& reference) const {
        const std::string& text = reference.is_string() ? reference.get_ref<const std::string&>() : std::string();
        if (text != "#" && !text.starts_with("#/"))
            return fail("$ref", "is not \"#\" or \"#/…\": only places of the schema itself can be referred to");
        const json* found = &root_;
        for (std::size_t begin = 1; begin < text.size();) {
            const std::size_t end = std::min(text.find('/', begin + 1), text.size());
            std::string name = text.substr(begin + 1, end - begin - 1);
            text::replace_all(name, "~1", "/");
            text::replace_all(name, "~0", "~");
            begin = end;
            if (found->is_array()) {
                std::size_t index = found->size();
                std::from_chars(name.data(), name.data() + name.size(), index);
                found = index < found->size() ? &(*found)[index] : nullptr;
            } else {
                const auto member = found->is_object() ? found->find(name) : found->end();
                found = member == found->end() ? nullptr : &*member;
            }
            if (!found) return fail("$ref", "refers to " + formats::quote(text) + ", which is not there");
        }
        return found;
    }

    Result<void> add_members(const json& value, Keywords& all) {
        if (!value.is_object()) return fail("properties", "is no object");
        ++all.member_lists;
        const auto order = order_.find(value.get_ptr<const json::object_t*>());
        if (order == order_.end()) return {};
        if (order->second.size() > kMostMembers)
            return fail("properties", "has more than " + std::to_string(kMostMembers));
        for (const std::string& name : order->second) {
            const json& schema = *value.find(name);
            const json* const other = all.member(name);
            if (!other) {
                all.members.emplace_back(value.find(name).key(), &schema);
                continue;
            }
            VKFORMER_TRY(const bool are_same, are_equal(*other, schema));
            if (!are_same)
                return fail("properties", "has " + formats::quote(name) + " twice, in schemas that all have to hold");
        }
        if (all.members.size() > kMostMembers)
            return fail("properties", "has more than " + std::to_string(kMostMembers));
        return {};
    }

    Result<void> add_required(const json& value, Keywords& all) {
        if (!value.is_array() || value.size() > kMostMembers)
            return fail("required", "is no list of at most " + std::to_string(kMostMembers) + " names");
        for (const json& name : value) {
            if (!name.is_string()) return fail("required", "is no list of names");
            const auto& text = name.get_ref<const std::string&>();
            if (!all.requires_member(text)) all.required.push_back(text);
        }
        return {};
    }

    /// Adds what the schema says, and those that it refers to or joins.
    Result<void> collect(const json& schema, Keywords& all) {
        VKFORMER_CHECK(count_work());
        if (schema.is_boolean()) {
            all.is_never = all.is_never || schema == false;
            return {};
        }
        if (!schema.is_object()) return fail("it is neither an object nor true or false");
        for (const auto& [name, value] : schema.get_ref<const json::object_t&>()) {
            const Keyword* const keyword = find_keyword(name);
            if (!keyword) return fail("the keyword " + formats::quote(name) + " is not supported");
            if (keyword->subject == Subject::nothing) continue;
            if (name == "properties") {
                VKFORMER_CHECK(add_members(value, all));
            } else if (name == "required") {
                VKFORMER_CHECK(add_required(value, all));
            } else if (name == "$ref") {
                VKFORMER_TRY(const json* const target, referred(value));
                const Inside inside(*this, name);
                VKFORMER_CHECK(collect(*target, all));
            } else if (name == "allOf") {
                VKFORMER_TRY(const std::span parts, schemas(name, value));
                const Inside inside(*this, name);
                for (const json& part : parts) VKFORMER_CHECK(collect(part, all));
            } else {
                VKFORMER_TRY(const bool is_same, are_equal(*all.values.try_emplace(name, &value).first->second, value));
                if (!is_same) return fail(name, "has two values in schemas that all have to hold");
            }
        }
        const json* const others = all.find("additionalProperties");
        if (others && *others != true && all.member_lists > 1)
            return fail("additionalProperties",
                        "is not supported where several schemas that all have to hold name properties");
        return {};
    }

    Result<std::span<const json>> schemas(std::string_view keyword, const json& value) const {
        if (!value.is_array() || value.empty()) return fail(keyword, "is no list of schemas");
        return std::span<const json>(value.get_ref<const json::array_t&>());
    }

    // ---- values -----------------------------------------------------------------------------------------------------

    /// Values of the schema, behind `from`.
    Result<StateId> value(const json& schema, StateId from) {
        VKFORMER_CHECK(count_work());
        if (builder_.is_full()) return from;
        if (const json* const reference = only_reference(schema)) {
            VKFORMER_TRY(const json* const target, referred(*reference));
            return builder_.call(from, rule_of(*target, reference->get_ref<const std::string&>()));
        }
        Keywords all;
        VKFORMER_CHECK(collect(schema, all));
        return value(all, from);
    }

    static const json* only_reference(const json& schema) {
        if (!schema.is_object() || !schema.contains("$ref")) return nullptr;
        for (const auto& [name, value] : schema.get_ref<const json::object_t&>()) {
            const Keyword* const keyword = find_keyword(name);
            if (name != "$ref" && (!keyword || keyword->subject != Subject::nothing)) return nullptr;
        }
        return &schema.find("$ref").value();
    }

    Result<StateId> value(const Keywords& all, StateId from) {
        VKFORMER_CHECK(count_work());
        if (all.is_never) return builder_.state();
        for (const std::string_view name : {"anyOf", "oneOf"})
            if (const json* const branches = all.find(name)) return one_of(all, name, *branches, from);
        if (all.find("enum") || all.find("const")) return literals(all, from);
        VKFORMER_TRY(const std::vector<std::string_view> types, types_of(all));
        if (types.empty()) return builder_.call(from, values_.any());
        const StateId end = builder_.state();
        for (const std::string_view type : types) {
            VKFORMER_TRY(const StateId behind, of_type(type, all, from));
            builder_.empty(behind, end);
        }
        return end;
    }

    Result<StateId> one_of(const Keywords& all, std::string_view name, const json& given, StateId from) {
        VKFORMER_TRY(const auto branches, schemas(name, given));
        const Inside inside(*this, name);
        Keywords rest = all;
        rest.values.erase(name);
        if (name == "oneOf") VKFORMER_CHECK(check_disjoint(rest, branches));
        const StateId end = builder_.state();
        for (const json& branch : branches) {
            if (rest.says_nothing()) {
                VKFORMER_TRY(const StateId behind, value(branch, from));
                builder_.empty(behind, end);
                continue;
            }
            Keywords joined = rest;
            VKFORMER_CHECK(collect(branch, joined));
            VKFORMER_TRY(const StateId behind, value(joined, from));
            builder_.empty(behind, end);
        }
        return end;
    }

    /// The names of types that are asked for; empty: any.
    Result<std::vector<std::string_view>> types_of(const Keywords& all) const {
        std::vector<std::string_view> types;
        if (const json* const given = all.find("type")) {
            const auto one = std::span(given, 1);
            const auto list = given->is_array() ? std::span<const json>(given->get_ref<const json::array_t&>()) : one;
            for (const json& type : list) {
                const auto known =
                    type.is_string() ? std::ranges::find(kTypes, type.get_ref<const std::string&>()) : std::end(kTypes);
                if (known == std::end(kTypes))
                    return fail("type", "has what is no type: " + formats::quote(spelled(type)));
                types.push_back(*known);
            }
            if (types.empty()) return fail("type", "is empty");
            return types;
        }
        // Whatever has no type lets all others through: what it says something about is what is meant.
        for (const auto& [subject, type] : {std::pair<Subject, std::string_view>{Subject::object, "object"},
                                            {Subject::array, "array"},
                                            {Subject::string, "string"},
                                            {Subject::number, "number"}})
            if (all.has(subject)) types.push_back(type);
        return types;
    }

    /// The values of const and enum that have one of the types.
    Result<std::vector<std::string>> texts_of(const Keywords& all) const {
        const json* const one = all.find("const");
        const json* const list = all.find("enum");
        if (list && !list->is_array()) return fail("enum", "is no list of values");
        VKFORMER_TRY(const auto types, types_of(all));
        std::vector<std::string> texts;
        for (const json& candidate :
             list ? std::span<const json>(list->get_ref<const json::array_t&>()) : std::span(one, 1)) {
            const bool fits = !all.find("type") || std::ranges::any_of(types, [&](std::string_view type) {
                return is_of_type(candidate, type);
            });
            if (fits && (!one || *one == candidate)) texts.push_back(spelled(candidate));
        }
        return texts;
    }

    Result<StateId> literals(const Keywords& all, StateId from) {
        for (const Subject subject : {Subject::string, Subject::number, Subject::array, Subject::object})
            if (all.has(subject)) return fail("enum and const are not supported beside other rules for the same value");
        VKFORMER_TRY(std::vector<std::string> texts, texts_of(all));
        return builder_.one_of(from, std::move(texts));
    }

    Result<StateId> of_type(std::string_view type, const Keywords& all, StateId from) {
        if (type == "null") return builder_.literal(from, "null");
        if (type == "boolean") return builder_.one_of(from, {"false", "true"});
        if (type == "string") return string(all, from);
        if (type == "array") return array(all, from);
        if (type == "object") return object(all, from);
        return number(all, from, type == "integer");
    }

    /// The value of a keyword that is a number of things.
    Result<std::optional<std::uint64_t>> count(const Keywords& all, std::string_view keyword) const {
        const json* const given = all.find(keyword);
        if (!given) return std::optional<std::uint64_t>();
        const double number = given->is_number() ? given->get<double>() : -1;
        if (!(number >= 0 && number <= 1e15 && std::floor(number) == number))
            return fail(keyword, "is no number of things");
        return std::optional(static_cast<std::uint64_t>(number));
    }

    // ---- one type each ----------------------------------------------------------------------------------------------

    Result<StateId> string(const Keywords& all, StateId from) {
        if (!all.has(Subject::string)) return builder_.call(from, values_.string());
        VKFORMER_TRY(const auto least, count(all, "minLength"));
        VKFORMER_TRY(const auto most, count(all, "maxLength"));
        const json* const pattern = all.find("pattern");
        const json* const format = all.find("format");
        if ((pattern || format) && (least || most || (pattern && format)))
            return fail(pattern ? "pattern" : "format", "is not supported beside another rule for the same string");
        from = builder_.literal(from, "\"");
        std::string expression;
        if (format) {
            VKFORMER_TRY(expression, expression_of(*format));
        } else if (pattern) {
            if (!pattern->is_string()) return fail("pattern", "is no text");
            expression = pattern->get<std::string>();
        } else {
            from =
                builder_.repeat(from, values_.character(), least.value_or(0), most.value_or(GrammarBuilder::kForever));
            return builder_.literal(from, "\"");
        }
        auto matched = add_regex(builder_, from, expression,
                                 {.in_json = true, .searches = pattern != nullptr, .character = values_.character()});
        if (!matched) return fail("pattern", matched.error().message);
        return builder_.literal(*matched, "\"");
    }

    Result<std::string> expression_of(const json& format) const {
        auto expression = expression_of_format(format.is_string() ? format.get_ref<const std::string&>() : "");
        if (!expression) return fail("format", "is not supported where it is " + formats::quote(spelled(format)));
        return *std::move(expression);
    }

    Result<std::optional<Decimal>> bound(const Keywords& all, std::string_view keyword) const {
        const json* const given = all.find(keyword);
        if (!given) return std::optional<Decimal>();
        if (!given->is_number()) return fail(keyword, "is no number");
        const std::string text = given->is_number_unsigned() ? std::to_string(given->get<std::uint64_t>())
                                 : given->is_number_integer()
                                     ? std::to_string(given->get<std::int64_t>())
                                     : vkformer::ShortestDecimal::of(given->get<double>()).plain();
        std::string_view digits = text;
        Decimal made;
        if (digits.starts_with('-')) {
            made.is_negative = true;
            digits.remove_prefix(1);
        }
        const std::size_t point = std::min(digits.find('.'), digits.size());
        made.whole = digits.substr(0, point);
        if (point < digits.size()) made.fraction = digits.substr(point + 1);
        made.whole.erase(0, made.whole.find_first_not_of('0'));
        made.fraction.erase(made.fraction.find_last_not_of('0') + 1);
        if (made.whole.size() > JsonValues::kMostDigits || made.fraction.size() >= JsonValues::kMostDigits)
            return fail(keyword, "has more digits than are supported");
        if (made.whole.empty() && made.fraction.empty()) made.is_negative = false;
        return std::optional(std::move(made));
    }

    Result<StateId> number(const Keywords& all, StateId from, bool is_integer) {
        if (!all.has(Subject::number)) return builder_.call(from, is_integer ? values_.integer() : values_.number());
        NumberRange range;
        VKFORMER_TRY(range.least, bound(all, "minimum"));
        VKFORMER_TRY(range.most, bound(all, "maximum"));
        VKFORMER_TRY(auto above, bound(all, "exclusiveMinimum"));
        VKFORMER_TRY(auto below, bound(all, "exclusiveMaximum"));
        if ((range.least && above) || (range.most && below))
            return fail("a bound is not supported beside another on the same side");
        range.is_above = above.has_value();
        range.is_below = below.has_value();
        if (above) range.least = std::move(above);
        if (below) range.most = std::move(below);
        return values_.in_range(from, range, is_integer);
    }

    Result<StateId> array(const Keywords& all, StateId from) {
        VKFORMER_TRY(const auto least_given, count(all, "minItems"));
        VKFORMER_TRY(const auto most_given, count(all, "maxItems"));
        if (const json* const unique = all.find("uniqueItems"); unique && *unique != false)
            return fail("uniqueItems", "is not supported");
        std::span<const json> first;
        if (const json* const given = all.find("prefixItems")) {
            VKFORMER_TRY(first, schemas("prefixItems", *given));
        }
        const json* const items = all.find("items");
        if (items && items->is_array()) return fail("items", "is a list: newer schemas call that prefixItems");
        const std::uint64_t least = least_given.value_or(0);
        std::uint64_t most = most_given.value_or(GrammarBuilder::kForever);
        const bool ends_behind_first = items ? *items == false : !first.empty() && least <= first.size();
        if (ends_behind_first) most = std::min<std::uint64_t>(most, first.size());
        if (least > most) return builder_.state();

        const RuleId further = rule_of(items && !ends_behind_first ? *items : any_, path_ + "/items");
        const StateId open = values_.spaced(from, "["), close = builder_.state();
        StateId at = open;
        const auto item = [&](std::uint64_t i, StateId before) -> Result<StateId> {
            if (i >= first.size()) return builder_.call(before, further);
            const Inside inside(*this, "prefixItems/" + std::to_string(i));
            return value(first[static_cast<std::size_t>(i)], before);
        };
        // As many as are counted, then any number where there is no end.
        const std::uint64_t counted =
            most == GrammarBuilder::kForever ? std::max<std::uint64_t>({least, first.size(), 1}) : most;
        for (std::uint64_t i = 0; i < counted && !builder_.is_full(); ++i) {
            if (i >= least) builder_.empty(i == 0 ? open : builder_.call(at, values_.space()), close);
            VKFORMER_TRY(at, item(i, i == 0 ? open : values_.spaced(at, ",")));
        }
        if (most == GrammarBuilder::kForever) {
            const StateId loop = builder_.state();
            builder_.empty(at, loop);
            builder_.empty(builder_.call(values_.spaced(loop, ","), further), loop);
            at = loop;
        }
        builder_.empty(counted == 0 ? open : builder_.call(at, values_.space()), close);
        return builder_.literal(close, "]");
    }

    /// Members that are not named: nullptr where there are none. Without a word the named ones are all, if there are some.
    Result<const json*> others_of(const Keywords& all) const {
        const json* const given = all.find("additionalProperties");
        if (given && *given == false) return nullptr;
        if (given) return given;
        return all.members.empty() ? &any_ : nullptr;
    }

    Result<StateId> object(const Keywords& given, StateId from) {
        Keywords all = given;
        VKFORMER_TRY(const json* const others, others_of(all));
        for (const std::string_view name : all.required)
            if (!all.member(name)) {
                if (all.is_closed()) return builder_.state();
                const json* const schema = all.find("additionalProperties");
                all.members.emplace_back(name, schema ? schema : &any_);
            }
        VKFORMER_TRY(const auto least, count(all, "minProperties"));
        VKFORMER_TRY(const auto most, count(all, "maxProperties"));
        if (least && *least > all.required.size())
            return fail("minProperties", "is not supported beyond the required ones");
        if (most && (others || *most < all.members.size()))
            return fail("maxProperties", "is not supported where there may be more");
        if (!others || !all.members.empty() || (*others != true)) return members(all, others, from);
        return builder_.call(from, values_.object());
    }

    Result<StateId> members(const Keywords& all, const json* others, StateId from) {
        const StateId open = values_.spaced(from, "{"), close = builder_.state();
        // Where no member has been, and where some have; kNowhere: not possible.
        StateId none = open, some = Grammar::kNowhere;
        const auto comma = [&](StateId to) {
            if (none != Grammar::kNowhere) builder_.empty(none, to);
            if (some != Grammar::kNowhere) builder_.empty(values_.spaced(some, ","), to);
        };
        for (const auto& [name, schema] : all.members) {
            const bool is_needed = all.requires_member(name);
            if (*schema == false && !is_needed) continue;
            const Inside inside(*this, "properties/" + std::string(name));
            const StateId begin = builder_.state(), behind = builder_.state();
            comma(begin);
            const StateId key = builder_.literal(begin, spelled(json(name)));
            VKFORMER_TRY(const StateId end, value(*schema, values_.spaced(key, ":")));
            builder_.empty(end, behind);
            if (is_needed)
                none = Grammar::kNowhere;
            else if (some != Grammar::kNowhere)
                builder_.empty(some, behind);
            some = behind;
        }
        if (others) {
            const StateId begin = builder_.state(), behind = builder_.state(), key = builder_.state();
            comma(begin);
            std::vector<std::string_view> names;
            for (const auto& member : all.members) names.push_back(member.first);
            values_.other_string(begin, std::move(names), key);
            const StateId end =
                builder_.call(values_.spaced(key, ":"), rule_of(*others, path_ + "/additionalProperties"));
            builder_.empty(end, behind);
            if (some != Grammar::kNowhere) builder_.empty(some, behind);
            builder_.empty(values_.spaced(behind, ","), begin);
            some = behind;
        }
        if (none != Grammar::kNowhere) builder_.empty(none, close);
        if (some != Grammar::kNowhere) builder_.empty(builder_.call(some, values_.space()), close);
        return builder_.literal(close, "}");
    }

    // ---- oneOf ------------------------------------------------------------------------------------------------------

    /// Nothing that is made for one branch may be right by another.
    Result<void> check_disjoint(const Keywords& rest, std::span<const json> branches) {
        if (branches.size() > kMostBranches)
            return fail("oneOf", "has more than " + std::to_string(kMostBranches) + " branches; say anyOf");
        std::vector<Keywords> read;
        for (const json& branch : branches) {
            read.push_back(rest);
            VKFORMER_CHECK(collect(branch, read.back()));
        }
        for (std::size_t i = 0; i < read.size(); ++i)
            for (std::size_t j = 0; j < i; ++j) {
                VKFORMER_TRY(const bool are_disjoint, disjoint(read[i], read[j]));
                if (!are_disjoint)
                    return fail("a value may fit branches " + std::to_string(j) + " and " + std::to_string(i) +
                                " at once, which is not supported: say anyOf, or give each a property that is const");
            }
        return {};
    }

    Result<bool> disjoint(const Keywords& a, const Keywords& b) {
        VKFORMER_CHECK(count_work());
        if (a.is_never || b.is_never) return true;
        const auto has_texts = [](const Keywords& one) { return one.find("enum") || one.find("const"); };
        if (has_texts(a) && has_texts(b)) {
            VKFORMER_TRY(const auto texts, texts_of(a));
            VKFORMER_TRY(auto others, texts_of(b));
            std::ranges::sort(others);
            return std::ranges::none_of(texts,
                                        [&](const auto& text) { return std::ranges::binary_search(others, text); });
        }
        VKFORMER_TRY(const auto types, types_of(a));
        VKFORMER_TRY(const auto others, types_of(b));
        if (types.empty() || others.empty()) return false;
        const auto kind = [](std::string_view type) { return type == "integer" ? "number" : type; };
        const bool have_common = std::ranges::any_of(types, [&](std::string_view type) {
            return std::ranges::any_of(others, [&](std::string_view other) { return kind(type) == kind(other); });
        });
        if (!have_common)
            return a.find("type") && b.find("type");  // without, values of all other types are let through
        if (types != std::vector<std::string_view>{"object"} || others != types) return false;
        for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)})
            for (const std::string_view name : one->required) {
                const json* const mine = one->member(name);
                const json* const theirs = other->member(name);
                if (!theirs && other->is_closed()) return true;
                if (!mine || !theirs || !other->requires_member(name)) continue;
                Keywords left, right;
                const Inside inside(*this, name);
                VKFORMER_CHECK(collect(*mine, left));
                VKFORMER_CHECK(collect(*theirs, right));
                VKFORMER_TRY(const bool differ, disjoint(left, right));
                if (differ) return true;
            }
        return false;
    }

    json root_;
    const json any_ = true;
    formats::MemberOrder order_;
    GrammarBuilder builder_;
    JsonValues values_{builder_};
    std::map<const json*, RuleId> rules_;
    std::vector<Unread> unread_;
    std::string path_;  // of what is being read, for messages
    std::size_t work_ = 0, depth_ = 0;
};

}  // namespace

Result<std::shared_ptr<const Grammar>> json_schema_grammar(std::string_view schema) {
    return SchemaReader().read(schema);
}

Result<std::shared_ptr<const Grammar>> json_object_grammar() {
    GrammarBuilder builder;
    return builder.finish(JsonValues(builder).object());
}

}  // namespace vkformer::constraints
