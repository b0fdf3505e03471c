// SPDX-License-Identifier: MIT
#include "core/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace vkformer {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
    const auto fail = [&](const char* what) {
        return Error{ErrorCode::FileNotFound, std::string(what) + " " + path.string() + ": " + std::strerror(errno)};
    };
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return fail("cannot open");
    struct stat status {};
    if (::fstat(file, &status) != 0 || S_ISDIR(status.st_mode)) {
        if (S_ISDIR(status.st_mode)) errno = EISDIR;
        const Error error = fail("cannot read");
        ::close(file);
        return error;
    }
    std::span<const std::byte> bytes;
    if (status.st_size > 0) {
        const auto size = static_cast<std::size_t>(status.st_size);
        void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
        if (address == MAP_FAILED) {
            const Error error = fail("cannot map");
            ::close(file);
            return error;
        }
        bytes = {static_cast<const std::byte*>(address), size};
    }
    ::close(file);
    return std::shared_ptr<const MappedFile>(new MappedFile(bytes));
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace vkformer
