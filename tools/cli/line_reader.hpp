// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::cli {

/// Far more than any model reads of a text.
inline constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;

struct Line {
    std::string text;
    bool is_too_long = false;  ///< more than kMostLineBytes, of which none are kept
};

/// The lines of a file or of standard input, some at a time: bounds memory, and lets long input flow.
class LineReader {
public:
    /// An empty path, or "-": standard input. Errors: FileNotFound.
    static Result<LineReader> open(const std::string& path);

    LineReader(LineReader&& other) noexcept;
    LineReader& operator=(LineReader&&) = delete;
    ~LineReader();

    static constexpr std::size_t kMostLines = 2048;

    /// The next lines, `most` of them, without their ends; none at the end of the input. A person at a terminal is asked for one at a
    /// time, and so is a program that waits for what comes of a line before it writes another one: `most` is 1 then.
    /// Errors, after the lines that came before: FileNotFound (what the system says); InvalidArgument (a line that does not end).
    Result<std::vector<Line>> next(std::size_t most = kMostLines);
    bool is_terminal() const noexcept;
    /// In place of next(): the whole as one text. Errors: as of read_text.
    Result<std::string> all();

private:
    LineReader(int file, std::string name) : file_(file), name_(std::move(name)) {}
    Result<void> collect(std::vector<Line>& lines, std::size_t most);

    int file_;
    std::string name_;    // of messages
    std::string buffer_;  // read, and not given out before `at_`
    std::size_t at_ = 0;
    bool is_at_end_ = false;
    std::optional<Error> failure_;  // of the next call
};

/// All of a file as one text; an empty path, or "-": standard input. Errors: FileNotFound (what the system says); InvalidArgument (more
/// than 16 MiB).
Result<std::string> read_text(const std::string& path);

}  // namespace vkformer::cli
