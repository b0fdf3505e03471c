// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace vkformer::cli {

/// Lines from a terminal, edited there, with those of earlier days at hand. Needs standard input and standard error to be terminals;
/// what is typed is shown on the latter.
class LineEditor {
public:
    /// `history`: kept there, readable by the user alone; empty: nowhere.
    explicit LineEditor(const std::filesystem::path& history);
    ~LineEditor();

    enum class Outcome : std::uint8_t { line, interrupted, end };
    /// One line without its end.
    Outcome read(std::string& line);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace vkformer::cli
