// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "text/jinja/ast.hpp"

namespace vkformer::text::jinja {

/// The names that a block has set, and the blocks around it.
struct Scope {
    Scope* outer = nullptr;
    std::map<std::string, Value, std::less<>> names = {};
};

/// Runs a template once.
class Interpreter {
public:
    /// `globals` outlives the interpreter. `line` says where it is.
    Interpreter(Scope& globals, Budget& costs, std::size_t& line)
        : budget(costs), scope_(&globals), out_(costs), line_(line) {}
    std::string run(const Body& body);

    Value evaluate(const Expression& expression);
    Flow execute(const Body& body);

    Value lookup(const std::string& name) const;
    void set(const Target& target, const Value& value);
    void print(std::string_view text) { out_ += text; }
    Arguments evaluate(const CallArguments& arguments);

    /// Runs `work` with names of its own, below the present scope.
    template <class Work>
    auto in_scope(Work work) {
        return in_scope_below(*scope_, work);
    }
    /// The same, printing into a text.
    std::string capture(const Body& body);
    Value macro(const Macro& node);

    Budget& budget;

private:
    template <class Work>
    auto in_scope_below(Scope& outer, Work work) {
        Scope inner{&outer};
        struct Restore {
            Interpreter& in;
            Scope* scope;
            ~Restore() { in.scope_ = scope; }
        } restore{*this, scope_};
        scope_ = &inner;
        return work(inner);
    }
    std::string call(const Macro& node, Scope& definition, const Arguments& arguments);
    std::string captured(const Body& body);

    Scope* scope_;
    Text out_;
    std::size_t& line_;
};

}  // namespace vkformer::text::jinja
