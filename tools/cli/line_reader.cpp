// SPDX-License-Identifier: MIT
#include "line_reader.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/paths.hpp"
#include "core/platform/files.hpp"
#include "core/platform/terminal.hpp"
#include "core/try.hpp"

namespace vkformer::cli {
namespace {

constexpr int kStandardInput = 0;
constexpr std::size_t kMostTextBytes = 8 * kMostLineBytes;  // of one next(); a line that passes it is the last
constexpr std::size_t kMostSkippedBytes = std::size_t{1}
                                          << 30;  // of a line that is too long: what comes then is no text
constexpr std::size_t kPiece = std::size_t{1} << 16;
constexpr std::size_t kMostTextOfAll = std::size_t{1} << 24;  // of read_text()

/// Appends a piece more to `buffer`. False: there is none.
Result<bool> read_piece(int file, const std::string& name, std::string& buffer) {
    const std::size_t before = buffer.size();
    buffer.resize(before + kPiece);
    const std::ptrdiff_t count = platform::read_some(file, buffer.data() + before, kPiece);
    buffer.resize(before + static_cast<std::size_t>(count > 0 ? count : 0));
    if (count < 0) return Error{ErrorCode::FileNotFound, "cannot read " + name + ": " + std::strerror(errno)};
    return count > 0;
}

}  // namespace

Result<LineReader> LineReader::open(const std::string& path) {
    if (path.empty() || path == "-") return LineReader(kStandardInput, "standard input");
    const int file = platform::open_to_read(utf8_path(path), true);
    if (file < 0) return Error{ErrorCode::FileNotFound, "cannot open " + path + ": " + std::strerror(errno)};
    return LineReader(file, path);
}

LineReader::LineReader(LineReader&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      name_(std::move(other.name_)),
      buffer_(std::move(other.buffer_)),
      at_(other.at_),
      is_at_end_(other.is_at_end_),
      failure_(std::move(other.failure_)) {}

LineReader::~LineReader() {
    if (file_ > kStandardInput) platform::close_file(file_);
}

bool LineReader::is_terminal() const noexcept { return platform::is_terminal(file_); }

Result<std::vector<Line>> LineReader::next(std::size_t most) {
    std::vector<Line> lines;
    if (!failure_) {
        auto collected = collect(lines, most);
        if (!collected) failure_ = std::move(collected).error();
    }
    if (failure_ && lines.empty()) return *failure_;
    return lines;
}

Result<void> LineReader::collect(std::vector<Line>& lines, std::size_t most) {
    if (is_terminal()) most = 1;
    std::size_t text_bytes = 0, skipped = 0, searched = 0;
    while (!is_at_end_ && lines.size() < most && text_bytes < kMostTextBytes) {
        const std::size_t end = buffer_.find('\n', at_ + searched);
        if (end == buffer_.npos) {
            searched = buffer_.size() - at_;
            if (searched > kMostLineBytes + 1) {  // with a carriage return
                skipped += searched;
                at_ = buffer_.size();
                searched = 0;
                if (skipped > kMostSkippedBytes)
                    return Error{ErrorCode::InvalidArgument, name_ + " is no text: a line of more than " +
                                                                 std::to_string(kMostSkippedBytes) + " bytes"};
            }
            buffer_.erase(0, std::exchange(at_, 0));
            VKFORMER_TRY(const bool has_more, read_piece(file_, name_, buffer_));
            if (has_more) continue;
            is_at_end_ = true;
            if (buffer_.size() == at_ && skipped == 0) break;
        }
        Line line{buffer_.substr(at_, end == buffer_.npos ? end : end - at_)};
        at_ = end == buffer_.npos ? buffer_.size() : end + 1;
        searched = 0;
        if (line.text.ends_with('\r')) line.text.pop_back();
        line.is_too_long = std::exchange(skipped, 0) > 0 || line.text.size() > kMostLineBytes;
        if (line.is_too_long) line.text.clear();
        text_bytes += line.text.size();
        lines.push_back(std::move(line));
    }
    return {};
}

Result<std::string> LineReader::all() {
    std::string text;
    for (bool has_more = true; has_more;) {
        VKFORMER_TRY(has_more, read_piece(file_, name_, text));
        if (text.size() > kMostTextOfAll)
            return Error{ErrorCode::InvalidArgument,
                         name_ + " has more than " + std::to_string(kMostTextOfAll) + " bytes, too many for one text"};
    }
    return text;
}

Result<std::string> read_text(const std::string& path) {
    VKFORMER_TRY(LineReader reader, LineReader::open(path));
    return reader.all();
}

}  // namespace vkformer::cli
