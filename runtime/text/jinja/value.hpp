// SPDX-License-Identifier: MIT
/// The values of templates: Python's, as far as chat templates see them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::text::jinja {

/// What goes wrong inside a template is thrown, and caught where the interpreter is entered: it happens at the bottom of deep
/// expressions, and no exception leaves ChatTemplate.
struct Failure {
    ErrorCode code;
    std::string message;
};
/// The template and what it is given do not fit each other.
[[noreturn]] void fail(std::string message);
/// Jinja that is not implemented.
[[noreturn]] void refuse(std::string what);

/// What a template may use up; beyond it, rendering fails. All that takes time is paid for in steps of some 50 ns, and before it
/// is done, so that the bound on steps is one on time.
class Budget {
public:
    static constexpr std::size_t kMaxSteps = 20'000'000;            ///< about a second
    static constexpr std::size_t kMaxBytes = std::size_t{1} << 28;  ///< all texts and lists ever made: 256 MiB
    static constexpr std::size_t kMaxDepth = 500;  ///< nested evaluations: some 500 bytes of stack each

    void step(std::size_t count = 1);
    /// So many bytes are read, character by character.
    void scan(std::size_t count) { step(count / 8); }
    /// So many bytes are compared, many at a time.
    void sweep(std::size_t count) { step(count / 256); }
    /// So many bytes are made.
    void bytes(std::size_t count);
    std::size_t steps() const noexcept { return steps_; }

    /// One level deeper while it lives.
    class Depth {
    public:
        explicit Depth(Budget& budget);
        ~Depth() { --budget_.depth_; }
        Depth(const Depth&) = delete;
        Depth& operator=(const Depth&) = delete;

    private:
        Budget& budget_;
    };

private:
    std::size_t steps_ = 0, bytes_ = 0, depth_ = 0;
};

class Value;
struct Callable;
struct LoopState;

/// What a name or a member is that nobody has set; it may be tested and printed (as nothing), but not used.
struct Undefined {
    Undefined() = default;
    explicit Undefined(std::string what) : what_(std::make_shared<const std::string>(std::move(what))) {}
    std::string what() const { return what_ ? *what_ : "the value"; }

private:
    std::shared_ptr<const std::string> what_;  // shared: a key that is missing may be long, and values are copied
};
struct None {
    bool operator==(const None&) const = default;
};
struct List {
    std::vector<Value> items;
    bool is_tuple = false;
    std::size_t depth = 1;
};
/// In the order of insertion.
struct Dict {
    std::vector<std::pair<Value, Value>> items;
    std::size_t depth = 1;
};
struct Namespace {
    std::vector<std::pair<std::string, Value>> items;
};

using TextPointer = std::shared_ptr<const std::string>;
using ListPointer = std::shared_ptr<const List>;
using DictPointer = std::shared_ptr<const Dict>;
using NamespacePointer = std::shared_ptr<Namespace>;
using CallablePointer = std::shared_ptr<const Callable>;

/// Cheap to copy; immutable but for namespaces, as transformers' sandbox has it.
class Value {
public:
    using Variant = std::variant<Undefined, None, bool, std::int64_t, double, TextPointer, ListPointer, DictPointer,
                                 NamespacePointer, CallablePointer, const LoopState*>;

    Value() = default;
    Value(Undefined undefined) : variant_(std::move(undefined)) {}
    Value(None none) : variant_(none) {}
    template <std::same_as<bool> Bool>
    Value(Bool truth) : variant_(truth) {}
    Value(std::int64_t number) : variant_(number) {}
    Value(double number) : variant_(number) {}
    Value(std::string text) : variant_(std::make_shared<const std::string>(std::move(text))) {}
    Value(std::string_view text) : Value(std::string(text)) {}
    Value(const char* text) : Value(std::string(text)) {}
    Value(NamespacePointer space) : variant_(std::move(space)) {}
    Value(CallablePointer function) : variant_(std::move(function)) {}
    Value(const LoopState* loop) : variant_(loop) {}
    /// Lists hold no namespaces, functions and loops, and are not nested deeper than some limit: so no cycles, and no deep
    /// recursion when they go.
    static Value list(std::vector<Value> items, Budget& budget, bool is_tuple = false);
    static Value dict(std::vector<std::pair<Value, Value>> items, Budget& budget);

    template <class T>
    const T* get() const noexcept {
        return std::get_if<T>(&variant_);
    }
    const std::string* text() const noexcept;
    const jinja::List* list() const noexcept;
    const jinja::Dict* dict() const noexcept;
    bool is_undefined() const noexcept { return get<Undefined>() != nullptr; }
    bool is_none() const noexcept { return get<None>() != nullptr; }
    /// True, False and whole numbers.
    std::optional<std::int64_t> integer() const noexcept;
    /// The same and fractions.
    std::optional<double> number() const noexcept;
    /// "string", "list", … for messages.
    const char* type_name() const noexcept;

private:
    Variant variant_;
};

/// What a call passes.
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;

    /// The values of the parameters, in their order; nothing where none was passed. Fails on others, and where one of the first
    /// `required` is missing. `callee` is for messages.
    std::vector<std::optional<Value>> bind(std::string_view callee, std::initializer_list<std::string_view> parameters,
                                           std::size_t required = 0) const;
};

struct Callable {
    std::string name;
    std::function<Value(const Arguments&)> function;
};

struct LoopState {
    const std::vector<Value>* items = nullptr;
    std::size_t index = 0;
};

/// A text that grows, paid for before it does.
class Text {
public:
    explicit Text(Budget& budget) : budget_(&budget) {}
    Text& operator+=(std::string_view part) {
        budget_->bytes(part.size());
        text_ += part;
        return *this;
    }
    void repeat(std::string_view part, std::size_t count);
    std::string take() { return std::move(text_); }
    bool empty() const noexcept { return text_.empty(); }

private:
    Budget* budget_;
    std::string text_;
};

bool is_true(const Value& value);
bool equal_texts(const std::string& left, const std::string& right, Budget& budget);
/// Python's ==.
bool equal(const Value& left, const Value& right, Budget& budget);
/// Python's <, as -1, 0, 1. Fails on what has no order.
int compare(const Value& left, const Value& right, Budget& budget);
/// Where `part` is in `text`, the last place where `from_right`; npos where it is not. Pays for what it looks at, which may be
/// the product of both lengths.
std::size_t search(std::string_view text, std::string_view part, bool from_right, Budget& budget);
/// Python's `in`.
bool contains(const Value& container, const Value& item, Budget& budget);
/// The member of a dictionary or nullptr.
const Value* find(const Dict& dict, const Value& key, Budget& budget);

/// What a loop goes over: elements, keys, characters. Fails on others.
std::vector<Value> elements(const Value& value, Budget& budget);

/// Python's str().
std::string to_text(const Value& value, Budget& budget);
/// Python's json.dumps(value, ensure_ascii=False, …).
struct JsonStyle {
    std::optional<std::string> indent;  ///< one level of it
    std::string item_separator = ", ", key_separator = ": ";
    bool ensure_ascii = false;
    bool sort_keys = false;
};
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);
/// Python's repr() of a float.
std::string float_text(double number);

}  // namespace vkformer::text::jinja
