// SPDX-License-Identifier: MIT
/// line_editor.hpp in a build without libedit: lines as the terminal itself edits them. Earlier ones are not kept.
#include "line_editor.hpp"

#include <cstdio>

#include "core/platform/terminal.hpp"
#include "terminal_input.hpp"

namespace vkformer::cli {

struct LineEditor::State {
    TerminalInput input;
};

LineEditor::LineEditor(const std::filesystem::path&) : state_(std::make_unique<State>()) {}

LineEditor::~LineEditor() = default;

LineEditor::Outcome LineEditor::read(std::string& line) {
    std::fputs("> ", stderr);
    line.clear();
    char byte = 0;
    int count = 0;
    while ((count = state_->input.next(byte)) > 0) {
        if (byte == '\n') return Outcome::line;
        if (byte != '\r') line += byte;
    }
    if (count < 0 && platform::Interrupts::take()) return Outcome::interrupted;
    return line.empty() ? Outcome::end : Outcome::line;
}

}  // namespace vkformer::cli
