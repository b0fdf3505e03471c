// SPDX-License-Identifier: MIT
#include "bench/in_child.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace vkformer::bench {
namespace {

/// What the child has to say: its exit code, or the code and message of its Error.
struct Reply {
    std::uint8_t failed, code;
};

Result<int> guarded(const std::function<Result<int>()>& work) {
    try {
        return work();
    } catch (const std::exception& failure)  // out of memory, as main() says it
    {
        return Error{ErrorCode::OutOfHostMemory, failure.what()};
    }
}

/// A shader that does not end would keep a process without a parent at work for ever.
void end_with_parent(pid_t parent, double max_seconds) {
    constexpr double kGraceSeconds = 5;  // the parent is to be first: it says why
    std::signal(SIGALRM, SIG_DFL);
    alarm(static_cast<unsigned>(max_seconds + kGraceSeconds));
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) _exit(1);  // it was gone before that was asked for
}

[[noreturn]] void run_child(const std::function<Result<int>()>& work, int to_parent) {
    const Result<int> result = guarded(work);
    const Reply reply{!result, static_cast<std::uint8_t>(result ? *result : static_cast<int>(result.error().code))};
    std::string text(reinterpret_cast<const char*>(&reply), sizeof reply);
    if (!result) text += result.error().message;
    for (std::string_view rest = text; !rest.empty();) {
        const ssize_t written = write(to_parent, rest.data(), rest.size());
        if (written <= 0) break;
        rest.remove_prefix(static_cast<std::size_t>(written));
    }
    std::fflush(nullptr);
    _exit(0);  // no destructors of the parent's objects, which this is a copy of
}

/// All that comes before the other end is closed; false when the time is over.
bool read_all(int from_child, double max_seconds, std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(max_seconds);
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        if (left.count() <= 0) return false;
        pollfd waited{.fd = from_child, .events = POLLIN, .revents = 0};
        const int ready = poll(&waited, 1, static_cast<int>(left.count()));
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        std::array<char, 4096> chunk;
        const ssize_t count = ::read(from_child, chunk.data(), chunk.size());
        if (count <= 0) return true;
        text.append(chunk.data(), static_cast<std::size_t>(count));
    }
}

}  // namespace

Result<int> in_child(const std::function<Result<int>()>& work, double max_seconds) {
    const auto failed = [](const char* what) {
        return Error{ErrorCode::OutOfHostMemory, std::string("cannot start a process: ") + what};
    };
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) return failed(std::strerror(errno));
    std::fflush(nullptr);
    const pid_t parent = getpid(), child = fork();
    if (child < 0) {
        const Error error = failed(std::strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return error;
    }
    if (child == 0) {
        close(ends[0]);
        end_with_parent(parent, max_seconds);
        run_child(work, ends[1]);
    }
    close(ends[1]);
    std::string text;
    const bool in_time = read_all(ends[0], max_seconds, text);
    if (!in_time) kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    close(ends[0]);
    if (!in_time)
        return Error{ErrorCode::Vulkan, "no end after " + std::to_string(static_cast<long>(max_seconds)) +
                                            " seconds: the driver hangs on this shader, or it does not end"};
    if (WIFSIGNALED(status))
        return Error{ErrorCode::Vulkan,
                     std::string("the driver crashed on this shader (") + strsignal(WTERMSIG(status)) + ")"};
    Reply reply{};
    if (text.size() < sizeof reply) return Error{ErrorCode::Vulkan, "the driver ended the process on this shader"};
    std::memcpy(&reply, text.data(), sizeof reply);
    if (!reply.failed) return static_cast<int>(reply.code);
    return Error{static_cast<ErrorCode>(reply.code), text.substr(sizeof reply)};
}

}  // namespace vkformer::bench
