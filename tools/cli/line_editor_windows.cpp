// SPDX-License-Identifier: MIT
/// line_editor.hpp for Windows, whose console edits lines and has those of the session at hand. They are not kept for later ones.
#include "line_editor.hpp"

#include <cstdio>
#include <iterator>
#include <string_view>

#include "core/platform/terminal.hpp"
#include "core/platform/windows.hpp"

namespace vkformer::cli {
namespace {

constexpr wchar_t kEnd = L'\x1A';  // Ctrl-Z

std::string as_utf8(std::wstring_view text) {
    const int length = static_cast<int>(text.size());
    std::string bytes;
    const int size = ::WideCharToMultiByte(CP_UTF8, 0, text.data(), length, nullptr, 0, nullptr, nullptr);
    bytes.resize(static_cast<std::size_t>(size));
    ::WideCharToMultiByte(CP_UTF8, 0, text.data(), length, bytes.data(), size, nullptr, nullptr);
    return bytes;
}

/// Whether an interrupt ended the reading, of which the system tells on a thread of its own, before or after.
bool was_interrupted() {
    constexpr int kTries = 20;
    constexpr DWORD kMilliseconds = 10;
    for (int i = 0; i < kTries && !platform::Interrupts::is_pending(); ++i) ::Sleep(kMilliseconds);
    return platform::Interrupts::take();
}

}  // namespace

struct LineEditor::State {};

LineEditor::LineEditor(const std::filesystem::path&) {}

LineEditor::~LineEditor() = default;

LineEditor::Outcome LineEditor::read(std::string& line) {
    std::fputs("> ", stderr);
    std::fflush(stderr);
    // Not through stdin: as UTF-8, consoles before Windows 11 hand out nothing but ASCII.
    const HANDLE console = ::GetStdHandle(STD_INPUT_HANDLE);
    std::wstring text;
    while (!text.ends_with(L'\n')) {
        wchar_t block[1024];
        DWORD count = 0;
        const BOOL is_read = ::ReadConsoleW(console, block, static_cast<DWORD>(std::size(block)), &count, nullptr);
        if (!is_read || count == 0) return was_interrupted() ? Outcome::interrupted : Outcome::end;
        text.append(block, count);
    }
    if (text.front() == kEnd) return Outcome::end;
    while (text.ends_with(L'\n') || text.ends_with(L'\r')) text.pop_back();
    line = as_utf8(text);
    return Outcome::line;
}

}  // namespace vkformer::cli
