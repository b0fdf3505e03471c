// SPDX-License-Identifier: MIT
#include "core/mapped_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "core/platform/files.hpp"
#include "core/try.hpp"

namespace vkformer {
namespace {

namespace fs = std::filesystem;
using platform::FileKind;

Error failed(const char* what, const fs::path& path, int error_number) {
    return {ErrorCode::FileNotFound, std::string(what) + " " + path.string() + ": " + std::strerror(error_number)};
}

/// Closed at the end.
class Descriptor {
public:
    static Result<Descriptor> open(const fs::path& path, bool waits) {
        const int file = platform::open_to_read(path, waits);
        if (file < 0) return failed("cannot open", path, errno);
        return Descriptor(file);
    }
    Descriptor(Descriptor&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    ~Descriptor() {
        if (file_ >= 0) platform::close_file(file_);
    }
    int get() const noexcept { return file_; }

private:
    explicit Descriptor(int file) noexcept : file_(file) {}
    int file_;
};

/// What stands in messages for what is no regular file and no folder.
const char* name_of(FileKind kind) {
    if (kind == FileKind::fifo) return "a FIFO";
    if (kind == FileKind::socket) return "a socket";
    return "a device";
}

Result<std::span<const std::byte>> mapped(int file, const fs::path& path) {
    const auto status = platform::status_of(file);
    if (!status) return failed("cannot read", path, errno);
    if (status->kind != FileKind::regular)
        return failed("cannot read", path, EINVAL);  // exchanged since it was looked at
    if (status->size == 0) return std::span<const std::byte>();
    const auto size = static_cast<std::size_t>(status->size);
    const std::byte* const bytes = platform::map(file, size);
    if (!bytes) return failed("cannot map", path, errno);
    return std::span(bytes, size);
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
        const std::ptrdiff_t count = platform::read_some(file, bytes.data() + size, bytes.size() - size);
        if (count < 0) return failed("cannot read", path, errno);
        if (count == 0) break;
        size += static_cast<std::size_t>(count);
    }
    bytes.resize(size);
    return bytes;
} catch (const std::bad_alloc&) {
    return Error{ErrorCode::OutOfHostMemory, path.string() + ": out of memory while reading it"};
}

Result<FileKind> kind_of(const fs::path& path) {
    const auto status = platform::status_of(path);
    if (!status) return failed("cannot open", path, errno);
    if (status->kind == FileKind::folder) return failed("cannot read", path, EISDIR);
    return status->kind;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const fs::path& path) {
    VKFORMER_TRY(const FileKind kind, kind_of(path));
    if (kind != FileKind::regular)
        return Error{ErrorCode::FileNotFound, "cannot read " + path.string() + ": it is " + name_of(kind) +
                                                  ", where a regular file is expected"};
    VKFORMER_TRY(const Descriptor file, Descriptor::open(path, false));
    VKFORMER_TRY(const auto bytes, mapped(file.get(), path));
    return std::shared_ptr<const MappedFile>(new MappedFile(bytes));
}

Result<std::shared_ptr<const MappedFile>> MappedFile::read(const fs::path& path) {
    VKFORMER_TRY(const FileKind kind, kind_of(path));
    if (kind != FileKind::fifo && kind != FileKind::character_device) return open(path);
    VKFORMER_TRY(const Descriptor file, Descriptor::open(path, true));
    VKFORMER_TRY(auto bytes, streamed(file.get(), path));
    return std::shared_ptr<const MappedFile>(new MappedFile(std::move(bytes)));
}

MappedFile::~MappedFile() {
    if (!mapped_.empty()) platform::unmap(mapped_.data(), mapped_.size());
}

}  // namespace vkformer
