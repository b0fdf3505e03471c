// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace vkformer::cli {

/// Interrupts (Ctrl-C) while it lives are noted; one that comes while another is unanswered ends the program, as without it. One at a time.
class Interrupts {
public:
    Interrupts();
    ~Interrupts();
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;

    /// Whether there was one since the last call.
    static bool take() noexcept;
    static bool is_pending() noexcept;
};

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

/// vkformer/NAME in the folder for the state of programs, by the XDG Base Directory Specification; empty where there is none.
std::filesystem::path state_path(const std::string& name);

}  // namespace vkformer::cli
