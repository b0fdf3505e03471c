// SPDX-License-Identifier: MIT
#include "line_reader.hpp"

#include <iostream>

#include "cli.hpp"

namespace vkformer::cli {
namespace {

constexpr std::size_t kChunkLines = 2048;

}  // namespace

Result<LineReader> LineReader::open(const std::string& path) {
    LineReader reader;
    if (path.empty() || path == "-") return reader;
    reader.is_stdin_ = false;
    reader.file_.open(path, std::ios::binary);
    if (!reader.file_) return Error{ErrorCode::FileNotFound, "cannot read " + path};
    return reader;
}

std::vector<std::string> LineReader::next() {
    std::istream& input = is_stdin_ ? std::cin : file_;
    const std::size_t most = is_stdin_ && stdin_is_terminal() ? 1 : kChunkLines;
    std::vector<std::string> lines;
    for (std::string line; lines.size() < most && std::getline(input, line);) {
        if (line.ends_with('\r')) line.pop_back();
        lines.push_back(line);
    }
    before_ = read_;
    read_ += lines.size();
    return lines;
}

}  // namespace vkformer::cli
