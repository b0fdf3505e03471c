// SPDX-License-Identifier: MIT
/// value is defined, value is mapping, …
#include <map>

#include "text/jinja/builtins.hpp"
#include "text/jinja/text_functions.hpp"

namespace vkformer::text::jinja {
namespace {

using Predicate = bool (*)(const Value& value, const Arguments& arguments, Budget& budget);

const Value& argument(const Arguments& arguments) {
    if (arguments.positional.size() != 1 || !arguments.named.empty()) fail("a test needs one argument here");
    return arguments.positional.front();
}

std::int64_t whole(const Value& value) {
    if (!value.integer()) fail(std::string("a ") + value.type_name() + " is no whole number");
    return *value.integer();
}

bool is_integer(const Value& value) { return value.get<std::int64_t>() != nullptr; }
bool is_sequence(const Value& value) { return value.text() || value.list() || value.dict(); }

template <auto Holds>
bool simple(const Value& value, const Arguments& arguments, Budget&) {
    if (!arguments.positional.empty() || !arguments.named.empty()) fail("a test takes no argument here");
    return Holds(value);
}

bool is_same(const Value& value, const Arguments& arguments, Budget& budget) {
    const Value& other = argument(arguments);
    if (std::string_view(value.type_name()) != other.type_name()) return false;
    const bool simple_values = !value.list() && !value.dict() && !value.get<double>();
    if (!simple_values) refuse(std::string("the test sameas on a ") + value.type_name());
    return equal(value, other, budget);
}

template <int... Signs>
bool ordered(const Value& value, const Arguments& arguments, Budget& budget) {
    const int sign = compare(value, argument(arguments), budget);
    return ((sign == Signs) || ...);
}

bool is_equal(const Value& value, const Arguments& arguments, Budget& budget) {
    return equal(value, argument(arguments), budget);
}

/// A text with letters all of one case.
template <std::string (*Map)(std::string_view, Budget&)>
bool has_case(const Value& value, const Arguments&, Budget& budget) {
    const std::string text = to_text(value, budget);
    return Map(text, budget) == text && upper(text, budget) != lower(text, budget);
}

const std::map<std::string_view, Predicate>& predicates() {
    static const std::map<std::string_view, Predicate> kPredicates = {
        {"defined", simple<[](const Value& v) { return !v.is_undefined(); }>},
        {"undefined", simple<[](const Value& v) { return v.is_undefined(); }>},
        {"none", simple<[](const Value& v) { return v.is_none(); }>},
        {"string", simple<[](const Value& v) { return v.text() != nullptr; }>},
        {"mapping", simple<[](const Value& v) { return v.dict() != nullptr; }>},
        {"sequence", simple<[](const Value& v) { return is_sequence(v) || v.is_undefined(); }>},
        {"iterable", simple<[](const Value& v) { return is_sequence(v) || v.is_undefined(); }>},
        {"number", simple<[](const Value& v) { return v.number().has_value(); }>},
        {"integer", simple<[](const Value& v) { return is_integer(v); }>},
        {"float", simple<[](const Value& v) { return v.get<double>() != nullptr; }>},
        {"boolean", simple<[](const Value& v) { return v.get<bool>() != nullptr; }>},
        {"true", simple<[](const Value& v) { return v.get<bool>() && *v.get<bool>(); }>},
        {"false", simple<[](const Value& v) { return v.get<bool>() && !*v.get<bool>(); }>},
        {"callable", simple<[](const Value& v) { return v.get<CallablePointer>() || v.is_undefined(); }>},
        {"odd", simple<[](const Value& v) { return whole(v) % 2 != 0; }>},
        {"even", simple<[](const Value& v) { return whole(v) % 2 == 0; }>},
        {"divisibleby",
         [](const Value& v, const Arguments& arguments, Budget&) {
             const std::int64_t divisor = whole(argument(arguments));
             if (divisor == 0) fail("a division by zero");
             return divisor == -1 || whole(v) % divisor == 0;
         }},
        {"in", [](const Value& v, const Arguments& arguments,
                  Budget& budget) { return contains(argument(arguments), v, budget); }},
        {"sameas", is_same},
        {"lower", has_case<lower>},
        {"upper", has_case<upper>},
        {"filter", [](const Value& v, const Arguments&, Budget&) { return v.text() && has_filter(*v.text()); }},
        {"test", [](const Value& v, const Arguments&, Budget&) { return v.text() && has_test(*v.text()); }},
        {"eq", is_equal},
        {"equalto", is_equal},
        {"==", is_equal},
        {"ne", [](const Value& v, const Arguments& a, Budget& b) { return !is_equal(v, a, b); }},
        {"!=", [](const Value& v, const Arguments& a, Budget& b) { return !is_equal(v, a, b); }},
        {"lt", ordered<-1>},
        {"lessthan", ordered<-1>},
        {"<", ordered<-1>},
        {"le", ordered<-1, 0>},
        {"<=", ordered<-1, 0>},
        {"gt", ordered<1>},
        {"greaterthan", ordered<1>},
        {">", ordered<1>},
        {"ge", ordered<1, 0>},
        {">=", ordered<1, 0>},
    };
    return kPredicates;
}

}  // namespace

bool has_test(std::string_view name) { return predicates().contains(name); }

bool apply_test(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget) {
    budget.step();
    const auto found = predicates().find(name);
    if (found == predicates().end()) refuse("the test " + std::string(name));
    return found->second(value, arguments, budget);
}

}  // namespace vkformer::text::jinja
