// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <io.h>
#include <share.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "core/platform/files.hpp"
#include "core/platform/windows.hpp"

namespace vkformer::platform {
namespace {

namespace fs = std::filesystem;

FileKind kind_of(unsigned short mode) {
    switch (mode & _S_IFMT) {
    case _S_IFREG: return FileKind::regular;
    case _S_IFDIR: return FileKind::folder;
    case _S_IFIFO: return FileKind::fifo;
    case _S_IFCHR: return FileKind::character_device;
    default: return FileKind::other;
    }
}

FileStatus status_of(const struct _stat64& status) {
    return {.kind = kind_of(status.st_mode), .size = static_cast<std::uint64_t>(status.st_size)};
}

void set_errno() {
    errno =
        std::error_code(static_cast<int>(::GetLastError()), std::system_category()).default_error_condition().value();
}

unsigned piece_of(std::size_t size) {
    return static_cast<unsigned>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
}

}  // namespace

std::optional<FileStatus> status_of(const fs::path& path) {
    struct _stat64 status {};
    if (::_wstat64(path.c_str(), &status) != 0) return {};
    return status_of(status);
}

std::optional<FileStatus> status_of(int file) {
    struct _stat64 status {};
    if (::_fstat64(file, &status) != 0) return {};
    return status_of(status);
}

int open_to_read(const fs::path& path, bool) {
    return ::_wsopen(path.c_str(), _O_RDONLY | _O_BINARY | _O_NOINHERIT, _SH_DENYNO, 0);
}

int open_to_write(const fs::path& path) {
    return ::_wsopen(path.c_str(), _O_WRONLY | _O_BINARY | _O_NOINHERIT, _SH_DENYNO, 0);
}

int create_file(const fs::path& path, bool) {
    // Shared for deletion, which _wsopen() cannot ask for: an interrupted program removes the file while it is open, and it goes with the
    // program.
    const HANDLE handle =
        ::CreateFileW(path.c_str(), GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                      CREATE_NEW, FILE_ATTRIBUTE_NORMAL, nullptr);
    if (handle == INVALID_HANDLE_VALUE) {
        set_errno();
        return -1;
    }
    const int file = ::_open_osfhandle(reinterpret_cast<std::intptr_t>(handle), _O_WRONLY | _O_BINARY);
    if (file < 0) ::CloseHandle(handle);
    return file;
}

int lock_file(const fs::path& path) {
    const HANDLE handle =
        ::CreateFileW(path.c_str(), GENERIC_WRITE, 0, nullptr, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, nullptr);
    if (handle == INVALID_HANDLE_VALUE) {
        const bool is_locked = ::GetLastError() == ERROR_SHARING_VIOLATION;
        set_errno();
        if (is_locked) errno = EAGAIN;
        return -1;
    }
    const int file = ::_open_osfhandle(reinterpret_cast<std::intptr_t>(handle), _O_WRONLY | _O_BINARY);
    if (file < 0) ::CloseHandle(handle);
    return file;
}

int duplicate(int file) { return ::_dup(file); }

std::ptrdiff_t read_some(int file, void* bytes, std::size_t size) { return ::_read(file, bytes, piece_of(size)); }

std::ptrdiff_t write_some(int file, const void* bytes, std::size_t size) {
    return ::_write(file, bytes, piece_of(size));
}

bool close_file(int file) { return ::_close(file) == 0; }

const std::byte* map(int file, std::size_t size) {
    const auto handle = reinterpret_cast<HANDLE>(::_get_osfhandle(file));
    const HANDLE mapping = ::CreateFileMappingW(handle, nullptr, PAGE_READONLY, 0, 0, nullptr);
    const void* const address = mapping ? ::MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, size) : nullptr;
    if (!address) set_errno();
    if (mapping) ::CloseHandle(mapping);  // the view keeps it
    return static_cast<const std::byte*>(address);
}

void unmap(const std::byte* bytes, std::size_t) noexcept { ::UnmapViewOfFile(bytes); }

bool may_write(const fs::path& path) {
    constexpr int kWrite = 2;
    return ::_waccess(path.c_str(), kWrite) == 0;
}

void copy_permissions(const fs::path&, int) {}  // a new file has those of its folder

bool replace_file(const fs::path& from, const fs::path& to) {
    if (::MoveFileExW(from.c_str(), to.c_str(), MOVEFILE_REPLACE_EXISTING)) return true;
    set_errno();
    return false;
}

void remove_file(const fs::path::value_type* name) noexcept { ::DeleteFileW(name); }

std::optional<int> own_descriptor(const fs::path&) { return {}; }

}  // namespace vkformer::platform
