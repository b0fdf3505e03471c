// SPDX-License-Identifier: MIT
#include "core/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "core/try.hpp"

namespace vkformer {
namespace {

namespace fs = std::filesystem;

Error failed(const char* what, const fs::path& path, int error_number) {
    return {ErrorCode::FileNotFound, std::string(what) + " " + path.string() + ": " + std::strerror(error_number)};
}

/// Closed at the end.
class Descriptor {
public:
    static Result<Descriptor> open(const fs::path& path, int flags) {
        const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);
        if (file < 0) return failed("cannot open", path, errno);
        return Descriptor(file);
    }
    Descriptor(Descriptor&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    ~Descriptor() {
        if (file_ >= 0) ::close(file_);
    }
    int get() const noexcept { return file_; }

private:
    explicit Descriptor(int file) noexcept : file_(file) {}
    int file_;
};

/// What stands in messages for what is no regular file and no folder.
const char* kind_of(::mode_t mode) {
    if (S_ISFIFO(mode)) return "a FIFO";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

Result<std::span<const std::byte>> mapped(int file, const fs::path& path) {
    struct stat status {};
    if (::fstat(file, &status) != 0) return failed("cannot read", path, errno);
    if (!S_ISREG(status.st_mode)) return failed("cannot read", path, EINVAL);  // exchanged since it was looked at
    if (status.st_size == 0) return std::span<const std::byte>();
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (address == MAP_FAILED) return failed("cannot map", path, errno);
    return std::span(static_cast<const std::byte*>(address), size);
}

Result<std::vector<std::byte>> streamed(int file, const fs::path& path) try {
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    std::vector<std::byte> bytes;
    std::size_t size = 0;
    for (;;) {
        if (size > kMostStreamedBytes)
            return Error{ErrorCode::InvalidArgument, path.string() + " gives more than " +
                                                         std::to_string(kMostStreamedBytes) +
                                                         " bytes and is no regular file; save it in one first"};
        bytes.resize(std::max(bytes.size(), size + kPiece));
        const ssize_t count = ::read(file, bytes.data() + size, bytes.size() - size);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return failed("cannot read", path, errno);
        if (count == 0) break;
        size += static_cast<std::size_t>(count);
    }
    bytes.resize(size);
    return bytes;
} catch (const std::bad_alloc&) {
    return Error{ErrorCode::OutOfHostMemory, path.string() + ": out of memory while reading it"};
}

Result<::mode_t> mode_of(const fs::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return failed("cannot open", path, errno);
    if (S_ISDIR(status.st_mode)) return failed("cannot read", path, EISDIR);
    return status.st_mode;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const fs::path& path) {
    VKFORMER_TRY(const ::mode_t mode, mode_of(path));
    if (!S_ISREG(mode))
        return Error{ErrorCode::FileNotFound, "cannot read " + path.string() + ": it is " + kind_of(mode) +
                                                  ", where a regular file is expected"};
    VKFORMER_TRY(const Descriptor file, Descriptor::open(path, O_NONBLOCK));
    VKFORMER_TRY(const auto bytes, mapped(file.get(), path));
    return std::shared_ptr<const MappedFile>(new MappedFile(bytes));
}

Result<std::shared_ptr<const MappedFile>> MappedFile::read(const fs::path& path) {
    VKFORMER_TRY(const ::mode_t mode, mode_of(path));
    if (!S_ISFIFO(mode) && !S_ISCHR(mode)) return open(path);
    VKFORMER_TRY(const Descriptor file, Descriptor::open(path, 0));
    VKFORMER_TRY(auto bytes, streamed(file.get(), path));
    return std::shared_ptr<const MappedFile>(new MappedFile(std::move(bytes)));
}

MappedFile::~MappedFile() {
    if (!mapped_.empty()) ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
}

}  // namespace vkformer
