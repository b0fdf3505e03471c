// SPDX-License-Identifier: MIT
/// The parts of a template; each knows how to run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.hpp"

namespace vkformer::text::jinja {

class Interpreter;

class Expression {
public:
    Expression() = default;
    Expression(const Expression&) = delete;
    Expression& operator=(const Expression&) = delete;
    virtual ~Expression() = default;
    virtual Value evaluate(Interpreter& in) const = 0;

    std::size_t line = 0;
    std::size_t depth = 1;  ///< of the tree below, itself included
};
using Expr = std::unique_ptr<Expression>;

/// What a statement does to the loop around it.
enum class Flow { Next, Break, Continue };

class Statement {
public:
    Statement() = default;
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;
    virtual ~Statement() = default;
    virtual Flow execute(Interpreter& in) const = 0;

    std::size_t line = 0;
};
using Body = std::vector<std::unique_ptr<Statement>>;

struct CallArguments {
    std::vector<Expr> positional;
    std::vector<std::pair<std::string, Expr>> named;
};

// Expressions

struct Literal final : Expression {
    explicit Literal(Value v) : value(std::move(v)) {}
    Value evaluate(Interpreter& in) const override;
    Value value;
};
struct Name final : Expression {
    explicit Name(std::string n) : name(std::move(n)) {}
    Value evaluate(Interpreter& in) const override;
    std::string name;
};
struct ListDisplay final : Expression {
    ListDisplay(std::vector<Expr> i, bool tuple) : items(std::move(i)), is_tuple(tuple) {}
    Value evaluate(Interpreter& in) const override;
    std::vector<Expr> items;
    bool is_tuple;
};
struct DictDisplay final : Expression {
    DictDisplay(std::vector<Expr> k, std::vector<Expr> v) : keys(std::move(k)), values(std::move(v)) {}
    Value evaluate(Interpreter& in) const override;
    std::vector<Expr> keys, values;
};
/// object.name
struct Attribute final : Expression {
    Attribute(Expr o, std::string n) : object(std::move(o)), name(std::move(n)) {}
    Value evaluate(Interpreter& in) const override;
    Expr object;
    std::string name;
};
/// object[index]
struct Subscript final : Expression {
    Subscript(Expr o, Expr i) : object(std::move(o)), index(std::move(i)) {}
    Value evaluate(Interpreter& in) const override;
    Expr object, index;
};
/// object[begin:end:step], each of which may be absent
struct Slice final : Expression {
    Slice(Expr o, Expr b, Expr e, Expr s)
        : object(std::move(o)), begin(std::move(b)), end(std::move(e)), step(std::move(s)) {}
    Value evaluate(Interpreter& in) const override;
    Expr object, begin, end, step;
};
struct Call final : Expression {
    Call(Expr c, CallArguments a) : callee(std::move(c)), arguments(std::move(a)) {}
    Value evaluate(Interpreter& in) const override;
    Expr callee;
    CallArguments arguments;
};
/// value | name(arguments); without a value it filters a block
struct Filter final : Expression {
    Filter(Expr v, std::string n, CallArguments a) : value(std::move(v)), name(std::move(n)), arguments(std::move(a)) {}
    Value evaluate(Interpreter& in) const override;
    Expr value;
    std::string name;
    CallArguments arguments;
};
/// value is name(arguments)
struct Test final : Expression {
    Test(Expr v, std::string n, CallArguments a, bool negated)
        : value(std::move(v)), name(std::move(n)), arguments(std::move(a)), is_negated(negated) {}
    Value evaluate(Interpreter& in) const override;
    Expr value;
    std::string name;
    CallArguments arguments;
    bool is_negated;
};
enum class Operator { Add, Subtract, Multiply, Divide, FloorDivide, Modulo, Power, Concat };
struct Binary final : Expression {
    Binary(Operator o, Expr l, Expr r) : op(o), left(std::move(l)), right(std::move(r)) {}
    Value evaluate(Interpreter& in) const override;
    Operator op;
    Expr left, right;
};
struct Negate final : Expression {
    Negate(Expr o, bool minus) : operand(std::move(o)), is_minus(minus) {}
    Value evaluate(Interpreter& in) const override;
    Expr operand;
    bool is_minus;  // else +
};
struct Not final : Expression {
    explicit Not(Expr o) : operand(std::move(o)) {}
    Value evaluate(Interpreter& in) const override;
    Expr operand;
};
/// Python's and, or: the operand that decides.
struct Logical final : Expression {
    Logical(bool and_, Expr l, Expr r) : is_and(and_), left(std::move(l)), right(std::move(r)) {}
    Value evaluate(Interpreter& in) const override;
    bool is_and;
    Expr left, right;
};
enum class Comparison { Equal, Unequal, Less, LessEqual, Greater, GreaterEqual, In, NotIn };
/// first op operand op operand …, all of which must hold
struct Compare final : Expression {
    Compare(Expr f, std::vector<Comparison> o, std::vector<Expr> r)
        : first(std::move(f)), ops(std::move(o)), operands(std::move(r)) {}
    Value evaluate(Interpreter& in) const override;
    Expr first;
    std::vector<Comparison> ops;
    std::vector<Expr> operands;
};
/// value if condition else other; `other` may be absent
struct Conditional final : Expression {
    Conditional(Expr c, Expr v, Expr o) : condition(std::move(c)), value(std::move(v)), other(std::move(o)) {}
    Value evaluate(Interpreter& in) const override;
    Expr condition, value, other;
};

// Statements

struct Output final : Statement {
    explicit Output(Expr v) : value(std::move(v)) {}
    Flow execute(Interpreter& in) const override;
    Expr value;
};
struct Data final : Statement {
    explicit Data(std::string t) : text(std::move(t)) {}
    Flow execute(Interpreter& in) const override;
    std::string text;
};
struct If final : Statement {
    Flow execute(Interpreter& in) const override;
    std::vector<std::pair<Expr, Body>> branches;
    Body otherwise;
};
/// Names to set: one, several at once, or an attribute of a namespace.
struct Target {
    std::vector<std::string> names;
    bool is_tuple = false;
    std::string attribute;
};
struct For final : Statement {
    Flow execute(Interpreter& in) const override;
    Target target;
    Expr items, condition;  // condition may be absent
    Body body, otherwise;
};
struct Set final : Statement {
    Flow execute(Interpreter& in) const override;
    Target target;
    Expr value;
};
/// {% set name %}…{% endset %}, with filters perhaps
struct SetBlock final : Statement {
    Flow execute(Interpreter& in) const override;
    Target target;
    Body body;
    std::vector<std::unique_ptr<Filter>> filters;
};
/// {% filter … %}…{% endfilter %}
struct FilterBlock final : Statement {
    Flow execute(Interpreter& in) const override;
    Body body;
    std::vector<std::unique_ptr<Filter>> filters;
};
/// {% generation %}…{% endgeneration %}: marks what the assistant says, which matters to training only
struct Generation final : Statement {
    Flow execute(Interpreter& in) const override;
    Body body;
};
struct Macro final : Statement {
    Flow execute(Interpreter& in) const override;
    std::string name;
    std::vector<std::pair<std::string, Expr>> parameters;  // with a default, perhaps
    Body body;
};
struct Jump final : Statement {
    explicit Jump(Flow f) : flow(f) {}
    Flow execute(Interpreter& in) const override;
    Flow flow;
};

}  // namespace vkformer::text::jinja
