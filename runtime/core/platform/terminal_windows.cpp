// SPDX-License-Identifier: MIT
#include "core/platform/terminal.hpp"

#include <fcntl.h>
#include <io.h>

#include <atomic>
#include <cstdio>

#include "core/platform/process.hpp"
#include "core/platform/windows.hpp"

namespace vkformer::platform {
namespace {

void (*g_clean_up)() noexcept = nullptr;
std::atomic<int> g_interrupts = 0;  // that nobody has looked at

// The system calls both on a thread of its own. FALSE hands the event on to the handler before, whose last one ends the program.
BOOL WINAPI end_by(DWORD) {
    g_clean_up();
    return FALSE;
}

BOOL WINAPI note_interrupt(DWORD event) {
    if (event != CTRL_C_EVENT) return FALSE;
    return g_interrupts.fetch_add(1) == 0;
}

/// Escape sequences for colours are read by consoles since Windows 10, once they are asked to.
void take_escapes(DWORD stream) {
    const HANDLE handle = ::GetStdHandle(stream);
    DWORD mode = 0;
    if (::GetConsoleMode(handle, &mode)) ::SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

}  // namespace

bool is_terminal(int file) noexcept {
    // _isatty() calls every character device a terminal, NUL too.
    DWORD mode = 0;
    return ::GetConsoleMode(reinterpret_cast<HANDLE>(::_get_osfhandle(file)), &mode) != 0;
}

std::vector<std::string> arguments_of(int, char**) { return command_line(); }

void prepare_streams() {
    for (std::FILE* const stream : {stdin, stdout, stderr}) ::_setmode(::_fileno(stream), _O_BINARY);
    // The C library here keeps what goes to stderr for later where that is a file or a pipe, and C says that it does not.
    std::setvbuf(stderr, nullptr, _IONBF, 0);
    ::SetConsoleCP(CP_UTF8);
    ::SetConsoleOutputCP(CP_UTF8);
    take_escapes(STD_OUTPUT_HANDLE);
    take_escapes(STD_ERROR_HANDLE);
}

void on_ending(void (*clean_up)() noexcept) {
    g_clean_up = clean_up;
    ::SetConsoleCtrlHandler(end_by, TRUE);
}

Interrupts::Interrupts() {
    g_interrupts = 0;
    ::SetConsoleCtrlHandler(note_interrupt, TRUE);
}

Interrupts::~Interrupts() { ::SetConsoleCtrlHandler(note_interrupt, FALSE); }

bool Interrupts::take() noexcept { return g_interrupts.exchange(0) != 0; }

bool Interrupts::is_pending() noexcept { return g_interrupts.load() != 0; }

}  // namespace vkformer::platform
