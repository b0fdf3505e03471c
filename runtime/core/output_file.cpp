// SPDX-License-Identifier: MIT
#include "core/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "core/temporary_name.hpp"
#include "core/try.hpp"

namespace vkformer {
namespace {

namespace fs = std::filesystem;

Error write_error(const fs::path& path, int error_number) {
    return {ErrorCode::FileNotFound, "cannot write " + path.string() + ": " + std::strerror(error_number)};
}

// ---- unfinished files, for a signal's handler: fixed memory, no locks -----------------------------------------------

struct Unfinished {
    enum State { free, taken, named };
    std::atomic<int> state = free;
    ::pid_t process = 0;  // a forked child has the list too, and not the files
    std::array<char, 4096> name{};
};

std::array<Unfinished, 16> g_unfinished;

/// A place in the list. -1: there is none; the file is then left behind by a signal.
int remember(const std::string& name) {
    for (std::size_t i = 0; i < g_unfinished.size(); ++i) {
        Unfinished& slot = g_unfinished[i];
        int expected = Unfinished::free;
        if (name.size() >= slot.name.size() || !slot.state.compare_exchange_strong(expected, Unfinished::taken))
            continue;
        std::memcpy(slot.name.data(), name.c_str(), name.size() + 1);
        slot.process = ::getpid();
        slot.state = Unfinished::named;
        return static_cast<int>(i);
    }
    return -1;
}

void forget(int slot) noexcept {
    if (slot >= 0) g_unfinished[static_cast<std::size_t>(slot)].state = Unfinished::free;
}

// ---- where the bytes go ---------------------------------------------------------------------------------------------

/// The descriptor of this process that a name in its folder of /proc stands for: /dev/stdout leads there.
std::optional<int> own_descriptor(const fs::path& path) {
    std::error_code error;
    if (fs::canonical(path.parent_path(), error) != "/proc/" + std::to_string(::getpid()) + "/fd") return {};
    const std::string name = path.filename().string();
    int descriptor = -1;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), descriptor);
    if (failure != std::errc{} || end != name.data() + name.size()) return {};
    return descriptor;
}

/// Follows symbolic links to a name that is none, or to a descriptor of this process.
struct Target {
    fs::path path;
    std::optional<int> descriptor;
};

Result<Target> follow(const fs::path& path) {
    constexpr int kMaxLinks = 40;  // as Linux has it
    Target target{path, {}};
    for (int links = 0; links < kMaxLinks; ++links) {
        std::error_code is_no_link;
        const fs::path next = fs::read_symlink(target.path, is_no_link);
        if (is_no_link) return target;
        if ((target.descriptor = own_descriptor(target.path))) return target;
        target.path = target.path.parent_path() / next;
    }
    return write_error(path, ELOOP);
}

Result<int> opened(const fs::path& path, int file) {
    if (file < 0) return write_error(path, errno);
    return file;
}

/// A file of a name of its own beside `target`, which `name` becomes. -1: errno says why not.
int open_temporary(const fs::path& target, ::mode_t mode, fs::path& name) {
    for (;;) {
        name = temporary_name(target);
        const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        // A process of this number was killed here before: in containers they all have the same.
        if (file >= 0 || errno != EEXIST) return file;
    }
}

/// As far as the system lets it: only root gives files away.
void take_permissions(int file, const struct stat& before) {
    if (::fchown(file, before.st_uid, before.st_gid) != 0) errno = 0;
    if (::fchmod(file, before.st_mode & 0777) != 0) errno = 0;
}

}  // namespace

void remove_unfinished_files() noexcept {
    for (const Unfinished& slot : g_unfinished)
        if (slot.state == Unfinished::named && slot.process == ::getpid()) ::unlink(slot.name.data());
}

Result<OutputFile> OutputFile::create(const fs::path& path) {
    if (!path.has_filename()) return write_error(path, path.empty() ? ENOENT : EISDIR);
    VKFORMER_TRY(const Target target, follow(path));
    if (target.descriptor) {
        VKFORMER_TRY(const int file, opened(path, ::fcntl(*target.descriptor, F_DUPFD_CLOEXEC, 0)));
        return OutputFile(file, path);
    }
    struct stat before {};
    const bool is_there = ::stat(target.path.c_str(), &before) == 0;
    if (is_there && S_ISDIR(before.st_mode)) return write_error(path, EISDIR);
    if (is_there && !S_ISREG(before.st_mode)) {
        VKFORMER_TRY(const int file, opened(path, ::open(target.path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC)));
        return OutputFile(file, path);
    }
    // Another file could be put in the place of one that is not to be written.
    if (is_there && ::access(target.path.c_str(), W_OK) != 0) return write_error(path, errno);

    fs::path temporary;
    const int file = open_temporary(target.path, is_there ? 0600 : 0666, temporary);
    VKFORMER_CHECK(opened(path, file));
    OutputFile output(file, path);
    output.name_temporary(target.path, std::move(temporary));
    if (is_there) take_permissions(file, before);
    return output;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      slot_(std::exchange(other.slot_, -1)) {}

OutputFile::~OutputFile() {
    if (file_ < 0) return;
    ::close(file_);
    remove_temporary();
}

void OutputFile::name_temporary(fs::path target, fs::path temporary) {
    slot_ = remember(temporary.string());
    target_ = std::move(target);
    temporary_ = std::move(temporary);
}

void OutputFile::remove_temporary() noexcept {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    forget(std::exchange(slot_, -1));
}

Result<void> OutputFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return write_error(path_, errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

Result<void> OutputFile::commit() {
    int error_number = ::close(std::exchange(file_, -1)) == 0 ? 0 : errno;
    if (error_number == 0 && !temporary_.empty() && ::rename(temporary_.c_str(), target_.c_str()) != 0)
        error_number = errno;
    if (error_number == 0)
        forget(std::exchange(slot_, -1));
    else
        remove_temporary();
    if (error_number != 0) return write_error(path_, error_number);
    return {};
}

Result<void> write_file(const fs::path& path, std::span<const std::byte> bytes) {
    VKFORMER_TRY(auto file, OutputFile::create(path));
    VKFORMER_CHECK(file.write(bytes));
    return file.commit();
}

}  // namespace vkformer
