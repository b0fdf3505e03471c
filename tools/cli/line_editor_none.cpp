// SPDX-License-Identifier: MIT
/// line_editor.hpp in a build without libedit: lines as the terminal itself edits them. Earlier ones are not kept.
#include "line_editor.hpp"

#include <cstdio>

#include "core/platform/terminal.hpp"

namespace vkformer::cli {

struct LineEditor::State {};

LineEditor::LineEditor(const std::filesystem::path&) {}

LineEditor::~LineEditor() = default;

LineEditor::Outcome LineEditor::read(std::string& line) {
    std::fputs("> ", stderr);
    line.clear();
    for (int c; (c = std::getc(stdin)) != EOF;) {
        if (c == '\n') return Outcome::line;
        if (c != '\r') line += static_cast<char>(c);
    }
    std::clearerr(stdin);
    if (platform::Interrupts::take()) return Outcome::interrupted;
    return line.empty() ? Outcome::end : Outcome::line;
}

}  // namespace vkformer::cli
