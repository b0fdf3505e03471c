// SPDX-License-Identifier: MIT
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "core/platform/terminal.hpp"
#include "terminal_input.hpp"

namespace vkformer::cli {
namespace {

int open_terminal() {
    const char* const name = ttyname(STDIN_FILENO);
    return name ? ::open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
}

}  // namespace

TerminalInput::TerminalInput() : own_(open_terminal()) {}

TerminalInput::~TerminalInput() {
    if (own_ >= 0) ::close(own_);
}

int TerminalInput::next(char& byte) const {
    constexpr int kMilliseconds = 100;
    const int file = own_ >= 0 ? own_ : STDIN_FILENO;
    while (true) {
        pollfd input{.fd = file, .events = POLLIN, .revents = 0};
        const int ready = ::poll(&input, 1, kMilliseconds);
        if (platform::Interrupts::is_pending()) return -1;
        if (ready <= 0) continue;
        const ssize_t count = ::read(file, &byte, 1);
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        return static_cast<int>(count);
    }
}

}  // namespace vkformer::cli
