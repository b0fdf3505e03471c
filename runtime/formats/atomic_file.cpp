// SPDX-License-Identifier: MIT
#include "formats/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/temporary_name.hpp"

namespace vkformer::formats {
namespace {

Error write_error(const std::filesystem::path& path, int error_number) {
    return {ErrorCode::FileNotFound, "cannot write " + path.string() + ": " + std::strerror(error_number)};
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
    for (;;) {
        std::filesystem::path temporary = temporary_name(path);
        const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0) return AtomicFile(file, path, std::move(temporary));
        // A process of this number was killed here before: in containers they all have the same.
        if (errno != EEXIST) return write_error(path, errno);
    }
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)), path_(std::move(other.path_)), temporary_(std::move(other.temporary_)) {}

AtomicFile::~AtomicFile() {
    if (file_ < 0) return;
    ::close(file_);
    ::unlink(temporary_.c_str());
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return write_error(path_, errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

Result<void> AtomicFile::commit() {
    const int closed = ::close(std::exchange(file_, -1));
    if (closed == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0) return {};
    const int error_number = errno;
    ::unlink(temporary_.c_str());
    return write_error(path_, error_number);
}

}  // namespace vkformer::formats
