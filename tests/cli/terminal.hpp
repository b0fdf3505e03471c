// SPDX-License-Identifier: MIT
/// The vkformer program in a terminal of its own, as a person uses it.
#pragma once

#ifdef VKFORMER_CLI

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.h"

namespace vkformer::tests {

class Terminal {
public:
    /// `environment`: "NAME=VALUE" each, besides the test's own.
    explicit Terminal(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
        arguments.insert(arguments.begin(), VKFORMER_CLI);
        std::vector<char*> pointers;
        for (std::string& argument : arguments) pointers.push_back(argument.data());
        pointers.push_back(nullptr);
        winsize size{};
        size.ws_row = 40;
        size.ws_col = 200;
        pid_ = forkpty(&file_, nullptr, nullptr, &size);
        REQUIRE(pid_ >= 0);
        if (pid_ > 0) return;
        setenv("TERM", "xterm", 1);
        for (const std::string& setting : environment) {
            const std::size_t equals = setting.find('=');
            setenv(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str(), 1);
        }
        execv(pointers[0], pointers.data());
        _exit(127);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;
    ~Terminal() {
        close(file_);
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }

    void type(const std::string& keys) const {
        REQUIRE(write(file_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
    }
    /// Reads until `text` comes behind what was waited for before; what there is by then. False after a while without it.
    bool shows(const std::string& text) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (true) {
            if (const std::size_t at = screen_.find(text, seen_); at != screen_.npos) {
                seen_ = at + text.size();
                return true;
            }
            if (std::chrono::steady_clock::now() > end || !read_more()) return false;
        }
    }
    /// The exit code, when the program has ended; −1 for one that a signal ended.
    int wait() {
        while (read_more()) {
        }
        int status = 0;
        REQUIRE(waitpid(pid_, &status, 0) == pid_);
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    /// All that the program has written; the terminal writes "\r\n" for a line feed.
    const std::string& screen() const { return screen_; }

private:
    /// False at the end, or when nothing comes for a while.
    bool read_more() {
        pollfd waiting{.fd = file_, .events = POLLIN, .revents = 0};
        if (poll(&waiting, 1, 60'000) <= 0) return false;
        char bytes[4096];
        const ssize_t count = read(file_, bytes, sizeof bytes);
        if (count > 0) screen_.append(bytes, static_cast<std::size_t>(count));
        return count > 0;
    }

    int file_ = -1;
    pid_t pid_ = -1;
    std::string screen_;
    std::size_t seen_ = 0;
};

}  // namespace vkformer::tests

#endif
