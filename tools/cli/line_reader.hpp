// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::cli {

/// The lines of a file or of standard input, some at a time: bounds memory, and lets long input flow.
class LineReader {
public:
    /// An empty path, or "-": standard input. Errors: FileNotFound.
    static Result<LineReader> open(const std::string& path);

    /// The next lines, without their ends; none at the end of the input. A person at a terminal is asked for one at a time.
    std::vector<std::string> next();
    /// Lines that came before those of the last next().
    std::size_t before() const noexcept { return before_; }

private:
    LineReader() = default;

    bool is_stdin_ = true;
    std::ifstream file_;
    std::size_t before_ = 0, read_ = 0;
};

}  // namespace vkformer::cli
