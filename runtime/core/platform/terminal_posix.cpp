// SPDX-License-Identifier: MIT
#include <signal.h>
#include <unistd.h>

#include <csignal>

#include "core/platform/terminal.hpp"

namespace vkformer::platform {
namespace {

void (*g_clean_up)() noexcept = nullptr;
volatile std::sig_atomic_t g_interrupted = 0;
struct sigaction g_before;

void end_by(int signal_number) {
    g_clean_up();
    ::raise(signal_number);  // whose action is the default one again: whoever waits sees what ended the program
}

void note_interrupt(int signal_number) {
    if (g_interrupted != 0) {  // nobody has looked at the first one: the program is busy
        std::signal(signal_number, SIG_DFL);
        ::raise(signal_number);
    }
    g_interrupted = 1;
}

}  // namespace

bool is_terminal(int file) noexcept { return ::isatty(file) == 1; }

std::vector<std::string> arguments_of(int argc, char** argv) { return {argv, argv + argc}; }

void prepare_streams() {
    ::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit of its size is an error of write()
}

void on_ending(void (*clean_up)() noexcept) {
    g_clean_up = clean_up;
    struct sigaction ending {};
    ending.sa_handler = end_by;
    ending.sa_flags = SA_RESETHAND;
    for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
        struct sigaction before {};
        const bool is_ignored = ::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
        if (!is_ignored) ::sigaction(number, &ending, nullptr);  // nohup, and the shell's background
    }
}

Interrupts::Interrupts() {
    g_interrupted = 0;
    struct sigaction action {};
    action.sa_handler = note_interrupt;
    action.sa_flags = SA_RESTART;  // what is being written goes on
    ::sigaction(SIGINT, &action, &g_before);
}

Interrupts::~Interrupts() { ::sigaction(SIGINT, &g_before, nullptr); }

bool Interrupts::take() noexcept {
    const bool was = is_pending();
    g_interrupted = 0;
    return was;
}

bool Interrupts::is_pending() noexcept { return g_interrupted != 0; }

}  // namespace vkformer::platform
