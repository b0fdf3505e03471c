// SPDX-License-Identifier: MIT
#pragma once

namespace vkformer::cli {

/// The bytes that a terminal on standard input hands out, and the interrupts (platform::Interrupts) that come instead.
class TerminalInput {
public:
    TerminalInput();
    ~TerminalInput();
    TerminalInput(const TerminalInput&) = delete;
    TerminalInput& operator=(const TerminalInput&) = delete;

    /// Waits for a byte: 1; 0 at the end; −1 at an interrupt, which is looked for every now and then besides: it may come just before the
    /// wait, or to another thread.
    int next(char& byte) const;

private:
    /// The terminal, opened once more so that a read which finds nothing returns: an interrupt throws away what the terminal has not handed
    /// out yet, between poll() and read() too, and a read that waits would then miss the interrupt. Other programs share the descriptor of
    /// standard input itself. −1: there is no such name.
    int own_;
};

}  // namespace vkformer::cli
