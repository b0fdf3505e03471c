// SPDX-License-Identifier: MIT
/// What a program of the command line needs of the system; a library calls nothing of it.
#pragma once

#include <string>
#include <vector>

namespace vkformer::platform {

enum class Stream : int { input, output, error };  // by their descriptors
bool is_terminal(int file) noexcept;
inline bool is_terminal(Stream stream) noexcept { return is_terminal(static_cast<int>(stream)); }

/// What main() has got, as UTF-8.
std::vector<std::string> arguments_of(int argc, char** argv);
/// Streams pass bytes as they are, and a terminal shows UTF-8 and colours. To be called first.
void prepare_streams();

/// `clean_up` is called when the user or the system ends the program (Ctrl-C, a hang-up, a closed window), which then ends as without it.
/// It must be safe in the handler of a signal.
void on_ending(void (*clean_up)() noexcept);

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

}  // namespace vkformer::platform
