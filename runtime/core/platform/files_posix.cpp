// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string>
#include <system_error>

#include "core/platform/files.hpp"

namespace vkformer::platform {
namespace {

namespace fs = std::filesystem;

FileKind kind_of(::mode_t mode) {
    if (S_ISREG(mode)) return FileKind::regular;
    if (S_ISDIR(mode)) return FileKind::folder;
    if (S_ISFIFO(mode)) return FileKind::fifo;
    if (S_ISSOCK(mode)) return FileKind::socket;
    if (S_ISCHR(mode)) return FileKind::character_device;
    return FileKind::other;
}

FileStatus status_of(const struct stat& status) {
    return {.kind = kind_of(status.st_mode), .size = static_cast<std::uint64_t>(status.st_size)};
}

}  // namespace

std::optional<FileStatus> status_of(const fs::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return {};
    return status_of(status);
}

std::optional<FileStatus> status_of(int file) {
    struct stat status {};
    if (::fstat(file, &status) != 0) return {};
    return status_of(status);
}

int open_to_read(const fs::path& path, bool waits) {
    return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | (waits ? 0 : O_NONBLOCK));
}

int open_to_write(const fs::path& path) { return ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC); }

int create_file(const fs::path& path, bool is_private) {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_private ? 0600 : 0666);
}

int lock_file(const fs::path& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (file < 0 || ::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
    const int error_number = errno;
    ::close(file);
    errno = error_number;
    return -1;
}

int duplicate(int file) { return ::fcntl(file, F_DUPFD_CLOEXEC, 0); }

std::ptrdiff_t read_some(int file, void* bytes, std::size_t size) {
    for (;;) {
        const ssize_t count = ::read(file, bytes, size);
        if (count >= 0 || errno != EINTR) return count;
    }
}

std::ptrdiff_t write_some(int file, const void* bytes, std::size_t size) {
    for (;;) {
        const ssize_t count = ::write(file, bytes, size);
        if (count >= 0 || errno != EINTR) return count;
    }
}

bool close_file(int file) { return ::close(file) == 0; }

const std::byte* map(int file, std::size_t size) {
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    return address == MAP_FAILED ? nullptr : static_cast<const std::byte*>(address);
}

void unmap(const std::byte* bytes, std::size_t size) noexcept { ::munmap(const_cast<std::byte*>(bytes), size); }

bool may_write(const fs::path& path) {
    const auto status = status_of(path);
    const bool is_folder = status && status->kind == FileKind::folder;
    return ::access(path.c_str(), is_folder ? W_OK | X_OK : W_OK) == 0;
}

void copy_permissions(const fs::path& from, int to) {
    struct stat status {};
    if (::stat(from.c_str(), &status) != 0) return;
    // Only root gives files away.
    if (::fchown(to, status.st_uid, status.st_gid) != 0) errno = 0;
    if (::fchmod(to, status.st_mode & 0777) != 0) errno = 0;
}

bool replace_file(const fs::path& from, const fs::path& to) { return std::rename(from.c_str(), to.c_str()) == 0; }

void remove_file(const fs::path::value_type* name) noexcept { ::unlink(name); }

std::optional<int> own_descriptor(const fs::path& path) {
    std::error_code error;
    if (fs::canonical(path.parent_path(), error) != "/proc/" + std::to_string(::getpid()) + "/fd") return {};
    const std::string name = path.filename().string();
    int descriptor = -1;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), descriptor);
    if (failure != std::errc{} || end != name.data() + name.size()) return {};
    return descriptor;
}

}  // namespace vkformer::platform
