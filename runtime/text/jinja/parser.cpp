// SPDX-License-Identifier: MIT
/// The grammar: https://jinja.palletsprojects.com/en/stable/templates/, precedences as in Jinja 3.1.
#include "text/jinja/parser.hpp"

#include <array>
#include <charconv>
#include <initializer_list>
#include <system_error>

#include "text/jinja/builtins.hpp"
#include "text/jinja/lexer.hpp"

namespace vkformer::text::jinja {
namespace {

constexpr std::size_t kMaxExpressionDepth = 200;
constexpr std::size_t kMaxBlockNesting = 100;  // of blocks and brackets

std::size_t depth_of(const Expr& expression) { return expression ? expression->depth : 0; }
std::size_t depth_of(const std::vector<Expr>& expressions) {
    std::size_t depth = 0;
    for (const Expr& expression : expressions) depth = std::max(depth, depth_of(expression));
    return depth;
}
std::size_t depth_of(const CallArguments& arguments) {
    std::size_t depth = depth_of(arguments.positional);
    for (const auto& argument : arguments.named) depth = std::max(depth, depth_of(argument.second));
    return depth;
}
template <class Other>
std::size_t depth_of(const Other&) {
    return 0;
}

class Parser {
public:
    Parser(std::vector<Token> tokens, std::size_t& line) : tokens_(std::move(tokens)), line_(line) {}

    Body run() {
        Body body = statements({});
        if (token().kind != Token::Kind::End) broken("an unexpected {% " + token().text + " %}");
        if (!unknown_.empty()) {
            line_ = unknown_.front().line;
            refuse(unknown_.front().what);
        }
        return body;
    }

private:
    /// Bounds the recursion of the parser.
    class Nesting {
    public:
        explicit Nesting(Parser& parser) : parser_(parser) {
            if (parser_.nesting_ >= kMaxBlockNesting)
                broken("it is nested deeper than " + std::to_string(kMaxBlockNesting) + " levels");
            ++parser_.nesting_;
        }
        ~Nesting() { --parser_.nesting_; }
        Nesting(const Nesting&) = delete;
        Nesting& operator=(const Nesting&) = delete;

    private:
        Parser& parser_;
    };

    const Token& token() {
        line_ = tokens_[at_].line;
        return tokens_[at_];
    }
    const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    Token next() {
        Token result = token();
        if (result.kind != Token::Kind::End) ++at_;
        return result;
    }
    bool is_sign(std::string_view sign) { return token().kind == Token::Kind::Sign && token().text == sign; }
    bool is_name(std::string_view name) { return token().kind == Token::Kind::Name && token().text == name; }
    bool take_sign(std::string_view sign) {
        const bool found = is_sign(sign);
        if (found) ++at_;
        return found;
    }
    bool take_name(std::string_view name) {
        const bool found = is_name(name);
        if (found) ++at_;
        return found;
    }
    std::string found() {
        switch (token().kind) {
        case Token::Kind::End: return "the end of the template";
        case Token::Kind::EndVariable: return "}}";
        case Token::Kind::EndBlock: return "%}";
        case Token::Kind::Text: return "a string";
        default: return token().text;
        }
    }
    void expect_sign(std::string_view sign) {
        if (!take_sign(sign)) broken("expected " + std::string(sign) + ", found " + found());
    }
    void expect(Token::Kind kind, const char* what) {
        if (token().kind != kind) broken(std::string("expected ") + what + ", found " + found());
        ++at_;
    }
    std::string expect_name() {
        if (token().kind != Token::Kind::Name) broken("expected a name, found " + found());
        return next().text;
    }

    template <class Node, class... Parts>
    Expr make(Parts&&... parts) {
        const std::size_t depth = 1 + std::max({std::size_t{0}, depth_of(parts)...});
        if (depth > kMaxExpressionDepth)
            broken("an expression is nested deeper than " + std::to_string(kMaxExpressionDepth) + " levels");
        auto node = std::make_unique<Node>(std::forward<Parts>(parts)...);
        node->depth = depth;
        node->line = line_;
        return node;
    }

    // Statements

    /// Up to a tag with one of these names, which is left, or to the end.
    Body statements(std::initializer_list<std::string_view> ends) {
        const Nesting nesting(*this);
        Body body;
        while (token().kind != Token::Kind::End) {
            const std::size_t line = token().line;
            std::unique_ptr<Statement> statement;
            if (token().kind == Token::Kind::Data) {
                statement = std::make_unique<Data>(next().text);
            } else if (token().kind == Token::Kind::BeginVariable) {
                ++at_;
                statement = std::make_unique<Output>(tuple(true));
                expect(Token::Kind::EndVariable, "}}");
            } else {
                ++at_;
                if (std::ranges::find(ends, std::string_view(token().text)) != ends.end()) return body;
                if (token().text.starts_with("end") || is_name("else") || is_name("elif"))
                    broken("an unexpected {% " + token().text + " %}");
                statement = tag(expect_name());
            }
            statement->line = line;
            body.push_back(std::move(statement));
        }
        if (ends.size() > 0)
            broken("the end of the template, where {% " + std::string(ends.begin()[ends.size() - 1]) +
                   " %} is missing");
        return body;
    }
    void end_block() { expect(Token::Kind::EndBlock, "%}"); }
    Body block(std::string_view end) {
        end_block();
        Body body = statements({end});
        ++at_;
        end_block();
        return body;
    }

    std::unique_ptr<Statement> tag(const std::string& name) {
        if (name == "if") return if_tag();
        if (name == "for") return for_tag();
        if (name == "set") return set_tag();
        if (name == "macro") return macro_tag();
        if (name == "filter") return filter_tag();
        if (name == "generation") {
            auto node = std::make_unique<Generation>();
            const auto loops = std::exchange(loops_, 0);
            node->body = block("endgeneration");
            loops_ = loops;
            return node;
        }
        if (name == "break" || name == "continue") {
            if (loops_ == 0) broken("{% " + name + " %} outside a loop");
            end_block();
            return std::make_unique<Jump>(name == "break" ? Flow::Break : Flow::Continue);
        }
        refuse("the tag {% " + name + " %}");
    }

    std::unique_ptr<Statement> if_tag() {
        auto node = std::make_unique<If>();
        const std::size_t unknown = unknown_.size();
        do {
            Expr condition = tuple(false);
            end_block();
            Body body = statements({"elif", "else", "endif"});
            node->branches.emplace_back(std::move(condition), std::move(body));
        } while (take_name("elif"));
        if (take_name("else")) {
            end_block();
            node->otherwise = statements({"endif"});
        }
        unknown_.resize(unknown);
        ++at_;
        end_block();
        return node;
    }

    std::unique_ptr<Statement> for_tag() {
        auto node = std::make_unique<For>();
        node->target = target(false);
        if (!take_name("in")) broken("expected in, found " + found());
        node->items = tuple(false);
        if (take_name("if")) node->condition = expression(true);
        if (is_name("recursive")) refuse("a recursive loop");
        end_block();
        ++loops_;
        node->body = statements({"else", "endfor"});
        --loops_;
        if (take_name("else")) {
            end_block();
            node->otherwise = statements({"endfor"});
        }
        ++at_;
        end_block();
        return node;
    }

    Target target(bool with_attribute) {
        Target target;
        const bool has_bracket = take_sign("(");
        do {
            if (target.is_tuple && token().kind != Token::Kind::Name) break;  // a comma at the end
            target.names.push_back(settable_name());
            if (with_attribute && target.names.size() == 1 && take_sign(".")) {
                target.attribute = expect_name();
                return target;
            }
            target.is_tuple |= is_sign(",");
        } while (take_sign(","));
        if (has_bracket) expect_sign(")");
        return target;
    }
    std::string settable_name() {
        const std::string name = expect_name();
        for (const char* reserved : {"true", "false", "none", "True", "False", "None", "loop", "self", "not", "and",
                                     "or", "in", "is", "if", "else"})
            if (name == reserved) broken("the name " + name + " cannot be set");
        return name;
    }

    std::unique_ptr<Statement> set_tag() {
        Target names = target(true);
        if (take_sign("=")) {
            auto node = std::make_unique<Set>();
            node->target = std::move(names);
            node->value = tuple(true);
            end_block();
            return node;
        }
        auto node = std::make_unique<SetBlock>();
        node->target = std::move(names);
        while (take_sign("|")) node->filters.push_back(block_filter());
        const auto loops = std::exchange(loops_, 0);
        node->body = block("endset");
        loops_ = loops;
        return node;
    }

    std::unique_ptr<Statement> filter_tag() {
        auto node = std::make_unique<FilterBlock>();
        do {
            node->filters.push_back(block_filter());
        } while (take_sign("|"));
        const auto loops = std::exchange(loops_, 0);
        node->body = block("endfilter");
        loops_ = loops;
        return node;
    }
    std::unique_ptr<Filter> block_filter() {
        std::string name = filter_name();
        CallArguments arguments = is_sign("(") ? call_arguments() : CallArguments();
        auto filter = std::make_unique<Filter>(nullptr, std::move(name), std::move(arguments));
        filter->line = line_;
        return filter;
    }

    std::unique_ptr<Statement> macro_tag() {
        auto node = std::make_unique<Macro>();
        node->name = settable_name();
        expect_sign("(");
        while (!is_sign(")")) {
            if (!node->parameters.empty()) expect_sign(",");
            std::string name = settable_name();
            Expr fallback = take_sign("=") ? expression(true) : nullptr;
            if (!fallback && !node->parameters.empty() && node->parameters.back().second)
                broken("the parameter " + name + " without a default follows one with a default");
            node->parameters.emplace_back(std::move(name), std::move(fallback));
        }
        expect_sign(")");
        const auto loops = std::exchange(loops_, 0);
        node->body = block("endmacro");
        loops_ = loops;
        return node;
    }

    // Expressions

    /// One expression, or several with commas between them.
    Expr tuple(bool with_condition) {
        std::vector<Expr> items;
        items.push_back(expression(with_condition));
        if (!is_sign(",")) return std::move(items.front());
        while (take_sign(",")) {
            if (token().kind == Token::Kind::EndBlock || token().kind == Token::Kind::EndVariable) break;
            items.push_back(expression(with_condition));
        }
        return make<ListDisplay>(std::move(items), true);
    }

    Expr expression(bool with_condition) {
        const Nesting nesting(*this);
        return with_condition ? conditional() : either();
    }

    Expr conditional() {
        const std::size_t unknown = unknown_.size();
        Expr value = either();
        while (take_name("if")) {
            Expr condition = either();
            Expr other = take_name("else") ? expression(true) : nullptr;
            value = make<Conditional>(std::move(condition), std::move(value), std::move(other));
            unknown_.resize(unknown);
        }
        return value;
    }

    Expr either() {
        Expr left = both();
        while (take_name("or")) left = make<Logical>(false, std::move(left), both());
        return left;
    }
    Expr both() {
        Expr left = negation();
        while (take_name("and")) left = make<Logical>(true, std::move(left), negation());
        return left;
    }
    Expr negation() {
        if (!take_name("not")) return comparison();
        const Nesting nesting(*this);
        return make<Not>(negation());
    }

    Expr comparison() {
        Expr first = sum();
        std::vector<Comparison> ops;
        std::vector<Expr> operands;
        while (const auto op = comparison_operator()) {
            ops.push_back(*op);
            operands.push_back(sum());
        }
        if (ops.empty()) return first;
        return make<Compare>(std::move(first), std::move(ops), std::move(operands));
    }
    std::optional<Comparison> comparison_operator() {
        static constexpr std::array<std::pair<std::string_view, Comparison>, 6> kSigns = {
            {{"==", Comparison::Equal},
             {"!=", Comparison::Unequal},
             {"<", Comparison::Less},
             {"<=", Comparison::LessEqual},
             {">", Comparison::Greater},
             {">=", Comparison::GreaterEqual}}};
        for (const auto& [sign, op] : kSigns)
            if (take_sign(sign)) return op;
        if (take_name("in")) return Comparison::In;
        if (is_name("not") && following().kind == Token::Kind::Name && following().text == "in") {
            at_ += 2;
            return Comparison::NotIn;
        }
        return std::nullopt;
    }

    Expr sum() {
        Expr left = concatenation();
        while (is_sign("+") || is_sign("-")) {
            const Operator op = next().text == "+" ? Operator::Add : Operator::Subtract;
            left = make<Binary>(op, std::move(left), concatenation());
        }
        return left;
    }
    Expr concatenation() {
        Expr left = product();
        while (take_sign("~")) left = make<Binary>(Operator::Concat, std::move(left), product());
        return left;
    }
    Expr product() {
        Expr left = power();
        while (is_sign("*") || is_sign("/") || is_sign("//") || is_sign("%")) {
            const Operator op = is_sign("*")    ? Operator::Multiply
                                : is_sign("/")  ? Operator::Divide
                                : is_sign("//") ? Operator::FloorDivide
                                                : Operator::Modulo;
            ++at_;
            left = make<Binary>(op, std::move(left), power());
        }
        return left;
    }
    Expr power() {
        Expr left = unary(true);
        while (take_sign("**")) left = make<Binary>(Operator::Power, std::move(left), unary(true));
        return left;
    }

    Expr unary(bool with_filters) {
        Expr value;
        if (is_sign("-") || is_sign("+")) {
            const Nesting nesting(*this);
            const bool is_minus = next().text == "-";
            value = make<Negate>(unary(false), is_minus);
        } else {
            value = primary();
        }
        value = postfix(std::move(value));
        return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
    }

    Expr postfix(Expr value) {
        while (true) {
            if (take_sign(".")) {
                value = attribute(std::move(value));
            } else if (take_sign("[")) {
                value = subscript(std::move(value));
            } else if (is_sign("(")) {
                CallArguments arguments = call_arguments();
                value = make<Call>(std::move(value), std::move(arguments));
            } else {
                return value;
            }
        }
    }
    Expr attribute(Expr object) {
        if (token().kind == Token::Kind::Integer) return make<Subscript>(std::move(object), integer());
        return make<Attribute>(std::move(object), expect_name());
    }
    Expr subscript(Expr object) {
        std::array<Expr, 3> parts;
        std::size_t colons = 0;
        while (!is_sign("]")) {
            if (take_sign(":")) {
                if (++colons > 2) broken("a slice with more than two colons");
            } else if (parts[colons]) {
                broken("expected ], found " + found());
            } else {
                parts[colons] = expression(true);
                if (is_sign(",")) refuse("an index of several values");
            }
        }
        expect_sign("]");
        if (colons > 0)
            return make<Slice>(std::move(object), std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
        if (!parts[0]) broken("an index is missing");
        return make<Subscript>(std::move(object), std::move(parts[0]));
    }

    CallArguments call_arguments() {
        expect_sign("(");
        CallArguments arguments;
        bool is_first = true;
        while (!is_sign(")")) {
            if (!std::exchange(is_first, false)) expect_sign(",");
            if (is_sign(")")) break;
            if (is_sign("*") || is_sign("**")) refuse("a call with * or **");
            if (token().kind == Token::Kind::Name && following().kind == Token::Kind::Sign && following().text == "=") {
                std::string name = next().text;
                ++at_;
                Expr value = expression(true);
                arguments.named.emplace_back(std::move(name), std::move(value));
            } else {
                if (!arguments.named.empty()) broken("an argument without a name follows one with a name");
                arguments.positional.push_back(expression(true));
            }
        }
        expect_sign(")");
        return arguments;
    }

    std::string filter_name() {
        const std::size_t line = line_;
        const std::string name = expect_name();
        if (!has_filter(name)) unknown_.push_back({line, "the filter " + name});
        return name;
    }

    Expr filters_and_tests(Expr value) {
        while (true) {
            if (take_sign("|")) {
                std::string name = filter_name();
                CallArguments arguments = is_sign("(") ? call_arguments() : CallArguments();
                value = make<Filter>(std::move(value), std::move(name), std::move(arguments));
            } else if (take_name("is")) {
                value = test(std::move(value));
            } else if (is_sign("(")) {
                CallArguments arguments = call_arguments();
                value = make<Call>(std::move(value), std::move(arguments));
            } else {
                return value;
            }
        }
    }

    Expr test(Expr value) {
        const bool is_negated = take_name("not");
        const std::size_t line = line_;
        std::string name = expect_name();
        if (!has_test(name)) unknown_.push_back({line, "the test " + name});
        CallArguments arguments;
        if (is_sign("(")) {
            arguments = call_arguments();
        } else if (begins_test_argument()) {
            arguments.positional.push_back(postfix(primary()));
        }
        return make<Test>(std::move(value), std::move(name), std::move(arguments), is_negated);
    }
    bool begins_test_argument() {
        switch (token().kind) {
        case Token::Kind::Name:
            for (const char* word : {"else", "or", "and", "is", "if", "in", "not"})
                if (token().text == word) return false;
            return true;
        case Token::Kind::Text:
        case Token::Kind::Integer:
        case Token::Kind::Float: return true;
        default: return is_sign("[") || is_sign("{");
        }
    }

    Expr integer() {
        const std::string digits = next().text;
        std::int64_t value = 0;
        if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
            refuse("the number " + digits);
        return make<Literal>(Value(value));
    }

    Expr primary() {
        switch (token().kind) {
        case Token::Kind::Integer: return integer();
        case Token::Kind::Float: {
            const std::string digits = next().text;
            double value = 0;
            std::from_chars(digits.data(), digits.data() + digits.size(), value);
            return make<Literal>(Value(value));
        }
        case Token::Kind::Text: {
            std::string text;
            while (token().kind == Token::Kind::Text) text += next().text;
            return make<Literal>(Value(std::move(text)));
        }
        case Token::Kind::Name: return name();
        default: break;
        }
        const Nesting nesting(*this);
        if (take_sign("(")) return parenthesised();
        if (take_sign("[")) return make<ListDisplay>(items("]"), false);
        if (take_sign("{")) return dict_display();
        broken("expected an expression, found " + found());
    }
    Expr name() {
        const std::string name = next().text;
        if (name == "true" || name == "True") return make<Literal>(Value(true));
        if (name == "false" || name == "False") return make<Literal>(Value(false));
        if (name == "none" || name == "None") return make<Literal>(Value(None()));
        for (const char* word : {"if", "else", "elif", "and", "or", "in", "is", "for"})
            if (name == word) broken("expected an expression, found " + name);
        for (const char* unknown : {"self", "super", "caller", "varargs", "kwargs", "lipsum", "cycler", "joiner"})
            if (name == unknown) refuse("the name " + name);
        return make<Name>(name);
    }
    Expr parenthesised() {
        if (take_sign(")")) return make<ListDisplay>(std::vector<Expr>(), true);
        Expr first = expression(true);
        if (take_sign(")")) return first;
        std::vector<Expr> rest;
        rest.push_back(std::move(first));
        while (take_sign(",")) {
            if (is_sign(")")) break;
            rest.push_back(expression(true));
        }
        expect_sign(")");
        return make<ListDisplay>(std::move(rest), true);
    }
    std::vector<Expr> items(std::string_view close) {
        std::vector<Expr> items;
        while (!is_sign(close)) {
            if (!items.empty()) expect_sign(",");
            if (is_sign(close)) break;
            items.push_back(expression(true));
        }
        expect_sign(close);
        return items;
    }
    Expr dict_display() {
        std::vector<Expr> keys, values;
        while (!is_sign("}")) {
            if (!keys.empty()) expect_sign(",");
            if (is_sign("}")) break;
            keys.push_back(expression(true));
            expect_sign(":");
            values.push_back(expression(true));
        }
        expect_sign("}");
        return make<DictDisplay>(std::move(keys), std::move(values));
    }

    /// A filter or test that there is not. In what may not be reached, a branch, Jinja lets it pass until it is.
    struct Unknown {
        std::size_t line;
        std::string what;
    };
    std::vector<Unknown> unknown_;
    std::vector<Token> tokens_;
    std::size_t& line_;
    std::size_t at_ = 0;
    std::size_t nesting_ = 0;
    std::size_t loops_ = 0;  // around the present statement
};

}  // namespace

Body parse(std::string_view source, std::size_t& line) {
    std::vector<Token> tokens = tokenize(source, line);
    return Parser(std::move(tokens), line).run();
}

}  // namespace vkformer::text::jinja
