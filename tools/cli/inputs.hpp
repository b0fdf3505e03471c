// SPDX-License-Identifier: MIT
/// What `translate`, `embed`, `rerank` and `score` work on, many at a time: arguments, or lines; and what becomes of bad ones among them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/try.hpp"
#include "hints.hpp"
#include "line_reader.hpp"

namespace vkformer::cli {

template <class T>
struct Input {
    T value;
    std::size_t number = 0;  ///< counted from 1
    std::string error{};     ///< why it cannot be used; empty: nothing speaks against it yet
};

/// The arguments of a command or, without any, the lines of a file or of standard input, some at a time.
class Inputs {
public:
    /// `what` an argument is in messages: "text". An empty path, or "-": standard input. Errors: FileNotFound.
    static Result<Inputs> open(std::string what, std::vector<std::string> arguments, const std::string& path);

    /// None: that was all. Errors: as of LineReader::next.
    Result<std::vector<Input<std::string>>> next();
    /// "text", or "line".
    const std::string& what() const noexcept { return what_; }
    bool is_typed() const noexcept { return lines_ && lines_->is_terminal(); }

private:
    Inputs(std::string what, std::vector<std::string> arguments)
        : what_(std::move(what)), arguments_(std::move(arguments)) {}

    std::string what_;
    std::vector<std::string> arguments_;
    std::optional<LineReader> lines_;
    std::size_t given_ = 0;
};

/// A bad input ends the work, after those that came before it; or, with --skip-bad-lines and where a person types, it is said and left
/// out.
class BadInputs {
public:
    void add(CLI::App& command);
    void begin(const Inputs& inputs);

    /// What `run` makes of the inputs, nothing for those that cannot be used: it takes a vector of values and returns a Result of as
    /// many, or the error InvalidArgument if it cannot use one of them. `check` says of one value whether that is so. Where bad inputs
    /// end the work, `inputs` ends before the first. Errors: others than that of `run`.
    template <class T, class Run, class Check>
    auto results(std::vector<Input<T>>& inputs, const Run& run, const Check& check)
        -> Result<std::vector<std::optional<typename std::decay_t<decltype(*run(std::vector<T>()))>::value_type>>>;

    /// Whether there was one that ends the work.
    bool has_ended() const noexcept { return error_.has_value(); }
    /// Says how many were left out. Errors: InvalidArgument, the input that ended the work.
    Result<int> finish() const;

    /// What stands for it in a list of JSON objects: {"line": 3, "error": "…"}.
    template <class T>
    std::string as_json(const Input<T>& input) const {
        return json_of(input.number, input.error);
    }

private:
    std::string name_of(std::size_t number) const { return what_ + " " + std::to_string(number); }
    std::string json_of(std::size_t number, const std::string& error) const;
    void leave_out(std::size_t number, const std::string& error);

    template <class T>
    void end_before_first_bad(std::vector<Input<T>>& inputs) {
        if (skips_) return;
        const auto bad = std::ranges::find_if(inputs, [](const Input<T>& input) { return !input.error.empty(); });
        if (bad == inputs.end()) return;
        error_ = Error{ErrorCode::InvalidArgument, name_of(bad->number) + ": " + bad->error};
        inputs.erase(bad, inputs.end());
    }
    template <class T>
    static std::vector<T> usable(const std::vector<Input<T>>& inputs) {
        std::vector<T> values;
        for (const Input<T>& input : inputs)
            if (input.error.empty()) values.push_back(input.value);
        return values;
    }

    bool skips_ = false;
    std::string what_;
    std::size_t seen_ = 0, left_out_ = 0;
    std::optional<Error> error_;
};

template <class T, class Run, class Check>
auto BadInputs::results(std::vector<Input<T>>& inputs, const Run& run, const Check& check)
    -> Result<std::vector<std::optional<typename std::decay_t<decltype(*run(std::vector<T>()))>::value_type>>> {
    using Results = typename std::decay_t<decltype(*run(std::vector<T>()))>;
    const auto run_usable = [&]() -> Result<Results> {
        end_before_first_bad(inputs);
        const std::vector<T> values = usable(inputs);
        if (values.empty()) return Results();
        return run(values);
    };
    auto made = run_usable();
    if (!made && made.error().code == ErrorCode::InvalidArgument) {
        bool found = false;
        for (Input<T>& input : inputs) {
            if (!input.error.empty()) continue;
            const Result<void> checked = check(input.value);
            if (checked) continue;
            input.error = told(checked.error());
            found = true;
        }
        if (found) made = run_usable();
    }
    if (!made) return std::move(made).error();
    std::vector<std::optional<typename Results::value_type>> all;
    seen_ += inputs.size();
    for (std::size_t next = 0; const Input<T>& input : inputs) {
        if (input.error.empty())
            all.emplace_back(std::move((*made)[next++]));
        else {
            all.emplace_back();
            leave_out(input.number, input.error);
        }
    }
    return all;
}

}  // namespace vkformer::cli
