// SPDX-License-Identifier: MIT
#include "line_editor.hpp"

#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <system_error>

#include <histedit.h>
#include <langinfo.h>
#include <sys/stat.h>

#include "core/platform/terminal.hpp"
#include "terminal_input.hpp"

namespace vkformer::cli {
namespace {

/// A character of the terminal; 0 at its end, −1 at an interrupt, which libedit would not end a line for.
int get_character(EditLine* editor, wchar_t* character) {
    void* input = nullptr;
    el_get(editor, EL_CLIENTDATA, &input);
    std::mbstate_t state{};
    while (true) {
        char byte = 0;
        const int count = static_cast<const TerminalInput*>(input)->next(byte);
        if (count <= 0) return count;
        if (byte == 0) continue;  // Ctrl-D that was typed during an answer; libedit would take the next key as it is
        switch (std::mbrtowc(character, &byte, 1, &state)) {
        case static_cast<std::size_t>(-2): continue;  // the character goes on
        case static_cast<std::size_t>(-1): state = {}; continue;
        default: return 1;
        }
    }
}

char* prompt_of(EditLine*) {
    static char prompt[] = "> ";
    return prompt;
}

/// Characters are read as the terminal sends them, which is UTF-8 unless the environment says otherwise.
void use_locale() {
    std::setlocale(LC_CTYPE, "");
    if (std::strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968") == 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineEditor::State {
    EditLine* editor = nullptr;
    History* history = nullptr;
    std::filesystem::path file;
    TerminalInput input;

    ~State() {
        if (editor) el_end(editor);
        if (history) history_end(history);
    }
};

LineEditor::LineEditor(const std::filesystem::path& history) : state_(std::make_unique<State>()) {
    constexpr int kMostLines = 1000;
    use_locale();
    HistEvent event{};
    state_->history = history_init();
    ::history(state_->history, &event, H_SETSIZE, kMostLines);
    ::history(state_->history, &event, H_SETUNIQUE, 1);
    state_->file = history;
    if (!history.empty()) ::history(state_->history, &event, H_LOAD, history.c_str());
    state_->editor = el_init("vkformer", stdin, stderr, stderr);
    if (!state_->editor) return;
    el_set(state_->editor, EL_PROMPT, prompt_of);
    el_set(state_->editor, EL_EDITOR, "emacs");
    el_set(state_->editor, EL_HIST, ::history, state_->history);
    el_set(state_->editor, EL_CLIENTDATA, &state_->input);
    el_set(state_->editor, EL_GETCFN, get_character);
    el_set(state_->editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_source(state_->editor, nullptr);  // the user's ~/.editrc
}

LineEditor::~LineEditor() = default;

LineEditor::Outcome LineEditor::read(std::string& line) {
    int count = 0;
    // el_gets shows its prompt first and takes the terminal over then: Ctrl-D between the two would be lost, and other keys shown twice.
    if (state_->editor) el_set(state_->editor, EL_PREP_TERM, 1);
    const char* const text = state_->editor ? el_gets(state_->editor, &count) : nullptr;
    const bool is_whole = text && count > 0 && text[count - 1] == '\n';
    if (!is_whole && platform::Interrupts::take())
        return Outcome::interrupted;  // behind a whole line it is the answer's
    if (!text || count <= 0) return Outcome::end;
    line.assign(text, static_cast<std::size_t>(count));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) return Outcome::line;
    HistEvent event{};
    ::history(state_->history, &event, H_ENTER, line.c_str());
    if (state_->file.empty()) return Outcome::line;
    std::error_code ignored;
    std::filesystem::create_directories(state_->file.parent_path(), ignored);
    const mode_t before = umask(S_IRWXG | S_IRWXO);
    ::history(state_->history, &event, H_SAVE, state_->file.c_str());
    umask(before);
    return Outcome::line;
}

}  // namespace vkformer::cli
