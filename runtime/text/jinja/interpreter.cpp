// SPDX-License-Identifier: MIT
#include "text/jinja/interpreter.hpp"

#include <bit>
#include <cmath>
#include <utility>

#include "text/jinja/builtins.hpp"
#include "text/unicode.hpp"

namespace vkformer::text::jinja {
namespace {

[[noreturn]] void undefined(const Value& value) { fail(value.get<Undefined>()->what() + " is undefined"); }

[[noreturn]] void no_operation(const char* sign, const Value& left, const Value& right) {
    for (const Value* value : {&left, &right})
        if (value->is_undefined()) undefined(*value);
    fail(std::string("a ") + left.type_name() + " " + sign + " a " + right.type_name() + " is not possible");
}

[[noreturn]] void too_large() { fail("a number leaves the 64 bits that it may have"); }

Value repeat(const Value& value, std::int64_t count, Budget& budget) {
    const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
    if (const auto* text = value.text()) {
        Text out(budget);
        out.repeat(*text, times);
        return out.take();
    }
    const List& list = *value.list();
    if (!list.items.empty() && times > Budget::kMaxBytes / list.items.size()) budget.bytes(Budget::kMaxBytes + 1);
    budget.bytes(list.items.size() * times * sizeof(Value));
    std::vector<Value> items;
    for (std::size_t i = 0; i < times && !list.items.empty(); ++i)
        items.insert(items.end(), list.items.begin(), list.items.end());
    return Value::list(std::move(items), budget, list.is_tuple);
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
    if (b == -1) {
        if (a == INT64_MIN) too_large();
        return -a;
    }
    const std::int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

Value integer_power(std::int64_t base, std::int64_t exponent) {
    std::int64_t result = 1;
    if (base == 0 || base == 1) return exponent == 0 ? result : base;
    if (base == -1) return exponent % 2 ? base : result;
    for (; exponent > 0; --exponent)  // at most 63 times: it overflows then
        if (__builtin_mul_overflow(result, base, &result)) too_large();
    return result;
}

Value integers(Operator op, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    bool overflows = false;
    switch (op) {
    case Operator::Add: overflows = __builtin_add_overflow(a, b, &result); break;
    case Operator::Subtract: overflows = __builtin_sub_overflow(a, b, &result); break;
    case Operator::Multiply: overflows = __builtin_mul_overflow(a, b, &result); break;
    case Operator::FloorDivide: result = floor_divide(a, b); break;
    case Operator::Modulo: result = b == -1 ? 0 : a - floor_divide(a, b) * b; break;
    case Operator::Power: return integer_power(a, b);
    default: break;
    }
    if (overflows) too_large();
    return result;
}

Value numbers(Operator op, double a, double b) {
    switch (op) {
    case Operator::Add: return a + b;
    case Operator::Subtract: return a - b;
    case Operator::Multiply: return a * b;
    case Operator::Divide: return a / b;
    case Operator::FloorDivide: return std::floor(a / b);
    case Operator::Power: return std::pow(a, b);
    default: {
        const double rest = std::fmod(a, b);
        return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    }
}

Value arithmetic(Operator op, const Value& left, const Value& right, Budget& budget) {
    constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};
    const char* sign = kSigns[static_cast<int>(op)];
    if (const auto a = left.number(), b = right.number(); a && b) {
        const bool divides = op == Operator::Divide || op == Operator::FloorDivide || op == Operator::Modulo;
        if (divides && *b == 0) fail("a division by zero");
        if (op == Operator::Modulo) budget.step(16);  // that of fractions goes bit by bit through their exponents
        const bool whole = left.integer() && right.integer() && op != Operator::Divide &&
                           (op != Operator::Power || *right.integer() >= 0);
        return whole ? integers(op, *left.integer(), *right.integer()) : numbers(op, *a, *b);
    }
    if (op == Operator::Add && left.text() && right.text()) {
        Text out(budget);
        (out += *left.text()) += *right.text();
        return out.take();
    }
    if (op == Operator::Add && left.list() && right.list() && left.list()->is_tuple == right.list()->is_tuple) {
        std::vector<Value> items = elements(left, budget);
        const std::vector<Value> more = elements(right, budget);
        items.insert(items.end(), more.begin(), more.end());
        return Value::list(std::move(items), budget, left.list()->is_tuple);
    }
    if (op == Operator::Multiply && (left.text() || left.list()) && right.integer())
        return repeat(left, *right.integer(), budget);
    if (op == Operator::Multiply && (right.text() || right.list()) && left.integer())
        return repeat(right, *left.integer(), budget);
    if (op == Operator::Modulo && left.text()) refuse("formatting with %");
    no_operation(sign, left, right);
}

Value loop_attribute(const LoopState& loop, const std::string& name) {
    const auto index = static_cast<std::int64_t>(loop.index), length = static_cast<std::int64_t>(loop.items->size());
    const auto item_at = [&](std::size_t i, const char* what) {
        return i < loop.items->size() ? (*loop.items)[i] : Value(Undefined{what});
    };
    if (name == "index") return index + 1;
    if (name == "index0") return index;
    if (name == "revindex") return length - index;
    if (name == "revindex0") return length - index - 1;
    if (name == "first") return index == 0;
    if (name == "last") return index + 1 == length;
    if (name == "length") return length;
    if (name == "depth") return std::int64_t{1};  // counts recursion only
    if (name == "depth0") return std::int64_t{0};
    if (name == "previtem") return item_at(loop.index - 1, "loop.previtem");  // 0 - 1 is beyond the end
    if (name == "nextitem") return item_at(loop.index + 1, "loop.nextitem");
    if (name == "cycle") {
        const std::size_t at = loop.index;
        return std::make_shared<const Callable>(
            Callable{"loop.cycle", [at](const Arguments& arguments) {
                         if (arguments.positional.empty()) fail("loop.cycle without arguments");
                         return arguments.positional[at % arguments.positional.size()];
                     }});
    }
    refuse("loop." + name);
}

/// Python's slices: the indices to take, one after the other.
class SliceIndices {
public:
    SliceIndices(std::size_t size, std::optional<std::int64_t> begin, std::optional<std::int64_t> end,
                 std::int64_t step)
        : step_(step) {
        const auto length = static_cast<std::int64_t>(size);
        const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
        const auto place = [&](std::optional<std::int64_t> index, std::int64_t fallback) {
            if (!index) return fallback;
            return std::clamp(*index < 0 ? *index + length : *index, low, high);
        };
        at_ = place(begin, step > 0 ? low : high);
        end_ = place(end, step > 0 ? high : low);
    }
    bool has_next() const { return step_ > 0 ? at_ < end_ : at_ > end_; }
    std::int64_t next() {
        const std::int64_t at = at_;
        if (__builtin_add_overflow(at_, step_, &at_)) at_ = end_;
        return at;
    }
    bool is_backwards() const { return step_ < 0; }

private:
    std::int64_t step_, at_ = 0, end_ = 0;
};

/// The characters at these places, of which the text has `length`; once through it, from its end where they go backwards.
std::string slice_of(std::string_view text, std::size_t length, SliceIndices indices) {
    const bool from_right = indices.is_backwards();
    std::int64_t at = from_right ? static_cast<std::int64_t>(length) - 1 : 0;
    std::string result;
    while (indices.has_next()) {
        for (const std::int64_t wanted = indices.next(); at != wanted; from_right ? --at : ++at)
            from_right ? text.remove_suffix(last_character(text).bytes)
                       : text.remove_prefix(first_character(text).bytes);
        const std::size_t bytes = from_right ? last_character(text).bytes : first_character(text).bytes;
        result += from_right ? text.substr(text.size() - bytes) : text.substr(0, bytes);
    }
    return result;
}

std::string filtered(std::string text, const std::vector<std::unique_ptr<Filter>>& filters, Interpreter& in) {
    Value value(std::move(text));
    for (const auto& filter : filters)
        value = apply_filter(filter->name, value, in.evaluate(filter->arguments), in.budget);
    return to_text(value, in.budget);
}

}  // namespace

// The interpreter

std::string Interpreter::run(const Body& body) {
    in_scope([&](Scope&) { return execute(body); });
    return out_.take();
}

Value Interpreter::evaluate(const Expression& expression) {
    const Budget::Depth depth(budget);
    budget.step();
    line_ = expression.line;
    return expression.evaluate(*this);
}

Flow Interpreter::execute(const Body& body) {
    const Budget::Depth depth(budget);
    for (const auto& statement : body) {
        budget.step();
        line_ = statement->line;
        if (const Flow flow = statement->execute(*this); flow != Flow::Next) return flow;
    }
    return Flow::Next;
}

Value Interpreter::lookup(const std::string& name) const {
    for (const Scope* scope = scope_; scope; scope = scope->outer) {
        budget.step(1 + std::bit_width(scope->names.size()) / 4);
        if (const auto found = scope->names.find(name); found != scope->names.end()) return found->second;
    }
    return Undefined{"\"" + name + "\""};
}

void Interpreter::set(const Target& target, const Value& value) {
    if (!target.attribute.empty()) {
        const Value object = lookup(target.names.front());
        const auto* space = object.get<NamespacePointer>();
        if (!space) fail(target.names.front() + " is no namespace: only its attributes can be set");
        Value::list({value}, budget);  // what a list cannot hold, a namespace cannot either
        for (auto& [name, item] : (*space)->items) {
            budget.step();
            if (name != target.attribute) continue;
            item = value;
            return;
        }
        (*space)->items.emplace_back(target.attribute, value);
        return;
    }
    if (!target.is_tuple) {
        scope_->names.insert_or_assign(target.names.front(), value);
        return;
    }
    const std::vector<Value> parts = elements(value, budget);
    if (value.is_undefined()) undefined(value);
    if (parts.size() != target.names.size())
        fail("expected " + std::to_string(target.names.size()) + " values for as many names, got " +
             std::to_string(parts.size()));
    budget.step(2 * parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) scope_->names.insert_or_assign(target.names[i], parts[i]);
}

Arguments Interpreter::evaluate(const CallArguments& arguments) {
    Arguments result;
    for (const Expr& argument : arguments.positional) result.positional.push_back(evaluate(*argument));
    for (const auto& [name, argument] : arguments.named) result.named.emplace_back(name, evaluate(*argument));
    return result;
}

std::string Interpreter::captured(const Body& body) {
    struct Restore {
        Text& out;
        Text before;
        ~Restore() { std::swap(out, before); }
    } restore{out_, Text(budget)};
    std::swap(out_, restore.before);
    execute(body);
    return out_.take();
}

std::string Interpreter::capture(const Body& body) {
    return in_scope([&](Scope&) { return captured(body); });
}

Value Interpreter::macro(const Macro& node) {
    // The macro cannot outlive the scope it is defined in: values that live longer hold no functions.
    return std::make_shared<const Callable>(
        Callable{node.name,
                 [this, &node, scope = scope_](const Arguments& arguments) { return call(node, *scope, arguments); }});
}

std::string Interpreter::call(const Macro& node, Scope& definition, const Arguments& arguments) {
    const Budget::Depth depth(budget);
    if (arguments.positional.size() > node.parameters.size())
        fail("the macro " + node.name + " takes at most " + std::to_string(node.parameters.size()) + " arguments");
    return in_scope_below(definition, [&](Scope& scope) {
        budget.step(node.parameters.size() * (4 + arguments.named.size() / 8));
        std::size_t used = 0;
        for (std::size_t i = 0; i < node.parameters.size(); ++i) {
            const auto& [name, fallback] = node.parameters[i];
            const auto named = std::ranges::find(arguments.named, name, &std::pair<std::string, Value>::first);
            const bool is_named = named != arguments.named.end();
            used += is_named;
            if (is_named && i < arguments.positional.size())
                fail("the macro " + node.name + " gets " + name + " twice");
            scope.names[name] = i < arguments.positional.size() ? arguments.positional[i]
                                : is_named                      ? named->second
                                : fallback                      ? evaluate(*fallback)
                                                                : Value(Undefined{"the parameter \"" + name + "\""});
        }
        if (used != arguments.named.size()) fail("the macro " + node.name + " gets a parameter that it does not have");
        return captured(node.body);
    });
}

// Expressions

Value Literal::evaluate(Interpreter&) const { return value; }
Value Name::evaluate(Interpreter& in) const { return in.lookup(name); }

Value ListDisplay::evaluate(Interpreter& in) const {
    std::vector<Value> values;
    for (const Expr& item : items) values.push_back(in.evaluate(*item));
    return Value::list(std::move(values), in.budget, is_tuple);
}

Value DictDisplay::evaluate(Interpreter& in) const {
    std::vector<std::pair<Value, Value>> members;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        Value key = in.evaluate(*keys[i]);
        members.emplace_back(std::move(key), in.evaluate(*values[i]));
    }
    return Value::dict(std::move(members), in.budget);
}

Value Attribute::evaluate(Interpreter& in) const {
    const Value value = in.evaluate(*object);
    if (value.is_undefined()) undefined(value);
    if (const auto* loop = value.get<const LoopState*>()) return loop_attribute(**loop, name);
    if (auto method = find_method(value, name, in.budget)) return *std::move(method);
    return item_of(value, name, in.budget);
}

Value Subscript::evaluate(Interpreter& in) const {
    const Value value = in.evaluate(*object);
    const Value at = in.evaluate(*index);
    if (value.is_undefined()) undefined(value);
    if (const auto* loop = value.get<const LoopState*>(); loop && at.text()) return loop_attribute(**loop, *at.text());
    Value item = item_of(value, at, in.budget);
    if (item.is_undefined() && at.text())
        if (auto method = find_method(value, *at.text(), in.budget)) return *std::move(method);
    return item;
}

Value Slice::evaluate(Interpreter& in) const {
    const Value value = in.evaluate(*object);
    const auto index = [&](const Expr& part) -> std::optional<std::int64_t> {
        if (!part) return std::nullopt;
        const Value at = in.evaluate(*part);
        if (at.is_none()) return std::nullopt;
        if (!at.integer()) fail(std::string("a ") + at.type_name() + " is no index");
        return at.integer();
    };
    const auto first = index(begin), last = index(end);
    const std::int64_t stride = index(step).value_or(1);
    if (stride == 0) fail("a slice whose step is zero");
    if (const auto* text = value.text()) {
        std::string_view looked_at = *text;
        // What is behind the first `last` characters does not matter.
        if (stride > 0 && first.value_or(0) >= 0 && last && *last >= 0)
            looked_at = looked_at.substr(0, 4 * std::min(looked_at.size(), static_cast<std::size_t>(*last)));
        in.budget.bytes(looked_at.size());
        in.budget.scan(3 * looked_at.size());
        const std::size_t length = count_characters(looked_at);
        return slice_of(looked_at, length, {length, first, last, stride});
    }
    const auto* list = value.list();
    if (!list) {
        if (value.is_undefined()) undefined(value);
        return Undefined{std::string("the slice of a ") + value.type_name()};
    }
    std::vector<Value> items;
    in.budget.step(list->items.size() / 4);
    for (SliceIndices indices(list->items.size(), first, last, stride); indices.has_next();)
        items.push_back(list->items[static_cast<std::size_t>(indices.next())]);
    return Value::list(std::move(items), in.budget, list->is_tuple);
}

Value Call::evaluate(Interpreter& in) const {
    const Value function = in.evaluate(*callee);
    const Arguments values = in.evaluate(arguments);
    if (function.is_undefined()) undefined(function);
    if (function.get<const LoopState*>()) refuse("a recursive loop");
    const auto* callable = function.get<CallablePointer>();
    if (!callable) fail(std::string("a ") + function.type_name() + " cannot be called");
    return (*callable)->function(values);
}

Value Filter::evaluate(Interpreter& in) const {
    const Value input = in.evaluate(*value);
    return apply_filter(name, input, in.evaluate(arguments), in.budget);
}

Value Test::evaluate(Interpreter& in) const {
    const Value tested = in.evaluate(*value);
    return apply_test(name, tested, in.evaluate(arguments), in.budget) != is_negated;
}

Value Binary::evaluate(Interpreter& in) const {
    const Value a = in.evaluate(*left);
    const Value b = in.evaluate(*right);
    if (op != Operator::Concat) return arithmetic(op, a, b, in.budget);
    Text out(in.budget);
    (out += to_text(a, in.budget)) += to_text(b, in.budget);
    return out.take();
}

Value Negate::evaluate(Interpreter& in) const {
    const Value value = in.evaluate(*operand);
    if (!value.number()) no_operation(is_minus ? "-" : "+", Value(std::int64_t{0}), value);
    if (const auto whole = value.integer()) return is_minus ? integers(Operator::Subtract, 0, *whole) : Value(*whole);
    return is_minus ? -*value.number() : *value.number();
}

Value Not::evaluate(Interpreter& in) const { return !is_true(in.evaluate(*operand)); }

Value Logical::evaluate(Interpreter& in) const {
    Value value = in.evaluate(*left);
    return is_true(value) == is_and ? in.evaluate(*right) : value;
}

Value Compare::evaluate(Interpreter& in) const {
    Value a = in.evaluate(*first);
    for (std::size_t i = 0; i < ops.size(); ++i) {
        Value b = in.evaluate(*operands[i]);
        bool holds = false;
        switch (ops[i]) {
        case Comparison::Equal: holds = equal(a, b, in.budget); break;
        case Comparison::Unequal: holds = !equal(a, b, in.budget); break;
        case Comparison::Less: holds = compare(a, b, in.budget) < 0; break;
        case Comparison::LessEqual: holds = compare(a, b, in.budget) <= 0; break;
        case Comparison::Greater: holds = compare(a, b, in.budget) > 0; break;
        case Comparison::GreaterEqual: holds = compare(a, b, in.budget) >= 0; break;
        case Comparison::In: holds = contains(b, a, in.budget); break;
        case Comparison::NotIn: holds = !contains(b, a, in.budget); break;
        }
        if (!holds) return false;
        a = std::move(b);
    }
    return true;
}

Value Conditional::evaluate(Interpreter& in) const {
    if (is_true(in.evaluate(*condition))) return in.evaluate(*value);
    return other ? in.evaluate(*other) : Value(Undefined{"an if without else, whose condition is false,"});
}

// Statements

Flow Output::execute(Interpreter& in) const {
    in.print(to_text(in.evaluate(*value), in.budget));
    return Flow::Next;
}

Flow Data::execute(Interpreter& in) const {
    in.print(text);
    return Flow::Next;
}

Flow If::execute(Interpreter& in) const {
    for (const auto& [condition, body] : branches)
        if (is_true(in.evaluate(*condition))) return in.execute(body);
    return in.execute(otherwise);
}

Flow For::execute(Interpreter& in) const {
    const Value iterable = in.evaluate(*items);
    std::vector<Value> values = elements(iterable, in.budget);
    if (condition)
        std::erase_if(values, [&](const Value& value) {
            return in.in_scope([&](Scope&) {
                in.set(target, value);
                return !is_true(in.evaluate(*condition));
            });
        });
    LoopState loop{&values, 0};
    if (values.empty()) {
        in.in_scope([&](Scope&) { return in.execute(otherwise); });
        return Flow::Next;
    }
    for (; loop.index < values.size(); ++loop.index) {
        in.budget.step(2);
        const Flow flow = in.in_scope([&](Scope& scope) {
            scope.names["loop"] = Value(static_cast<const LoopState*>(&loop));
            in.set(target, values[loop.index]);
            return in.execute(body);
        });
        if (flow == Flow::Break) break;
    }
    return Flow::Next;
}

Flow Set::execute(Interpreter& in) const {
    in.set(target, in.evaluate(*value));
    return Flow::Next;
}

Flow SetBlock::execute(Interpreter& in) const {
    in.set(target, filtered(in.capture(body), filters, in));
    return Flow::Next;
}

Flow FilterBlock::execute(Interpreter& in) const {
    in.print(filtered(in.capture(body), filters, in));
    return Flow::Next;
}

Flow Generation::execute(Interpreter& in) const {
    in.in_scope([&](Scope&) { return in.execute(body); });
    return Flow::Next;
}

Flow Macro::execute(Interpreter& in) const {
    in.set({.names = {name}}, in.macro(*this));
    return Flow::Next;
}

Flow Jump::execute(Interpreter&) const { return flow; }

}  // namespace vkformer::text::jinja
