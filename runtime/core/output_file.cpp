// SPDX-License-Identifier: MIT
#include "core/output_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "core/platform/files.hpp"
#include "core/platform/process.hpp"
#include "core/temporary_name.hpp"
#include "core/try.hpp"

namespace vkformer {
namespace {

namespace fs = std::filesystem;
using platform::FileKind;

Error write_error(const fs::path& path, int error_number) {
    return {ErrorCode::FileNotFound, "cannot write " + path.string() + ": " + std::strerror(error_number)};
}

// ---- unfinished files, for a signal's handler: memory that stays, no locks ------------------------------------------

constexpr std::size_t kNameRoom = 4096;

struct Unfinished {
    enum State { free, taken, named };
    std::atomic<int> state = free;
    int process = 0;  // a forked child has the list too, and not the files
    // Room for a name, made when the place is first taken and never given back: a handler may be reading it.
    fs::path::value_type* name = nullptr;
};

std::array<Unfinished, 16> g_unfinished;
std::atomic<unsigned> g_removals = 0;  // who makes a file meanwhile, in another thread, removes it himself

/// A place in the list. -1: there is none; the file is then left behind by a signal.
int remember(const fs::path::string_type& name) {
    for (std::size_t i = 0; i < g_unfinished.size(); ++i) {
        Unfinished& slot = g_unfinished[i];
        int expected = Unfinished::free;
        if (name.size() >= kNameRoom || !slot.state.compare_exchange_strong(expected, Unfinished::taken)) continue;
        if (!slot.name) slot.name = new (std::nothrow) fs::path::value_type[kNameRoom];
        if (!slot.name) {
            slot.state = Unfinished::free;
            return -1;
        }
        std::copy_n(name.c_str(), name.size() + 1, slot.name);
        slot.process = platform::process_id();
        slot.state = Unfinished::named;
        return static_cast<int>(i);
    }
    return -1;
}

void forget(int slot) noexcept {
    if (slot >= 0) g_unfinished[static_cast<std::size_t>(slot)].state = Unfinished::free;
}

// ---- where the bytes go ---------------------------------------------------------------------------------------------

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
        if ((target.descriptor = platform::own_descriptor(target.path))) return target;
        target.path = target.path.parent_path() / next;
    }
    return write_error(path, ELOOP);
}

Result<int> opened(const fs::path& path, int file) {
    if (file < 0) return write_error(path, errno);
    return file;
}

}  // namespace

void remove_unfinished_files() noexcept {
    ++g_removals;
    for (const Unfinished& slot : g_unfinished)
        if (slot.state == Unfinished::named && slot.process == platform::process_id()) platform::remove_file(slot.name);
}

Result<OutputFile> OutputFile::create(const fs::path& path) {
    if (!path.has_filename()) return write_error(path, path.empty() ? ENOENT : EISDIR);
    VKFORMER_TRY(const Target target, follow(path));
    if (target.descriptor) {
        VKFORMER_TRY(const int file, opened(path, platform::duplicate(*target.descriptor)));
        return OutputFile(file, path);
    }
    const auto before = platform::status_of(target.path);
    if (before && before->kind == FileKind::folder) return write_error(path, EISDIR);
    if (before && before->kind != FileKind::regular) {
        VKFORMER_TRY(const int file, opened(path, platform::open_to_write(target.path)));
        return OutputFile(file, path);
    }
    // Another file could be put in the place of one that is not to be written.
    if (before && !platform::may_write(target.path)) return write_error(path, errno);

    OutputFile output(-1, path);
    output.target_ = target.path;
    output.temporary_ = temporary_name(target.path);
    const unsigned removals = g_removals;
    // Before the file is there: it may be a signal's turn at any moment.
    output.slot_ = remember(output.temporary_.native());
    VKFORMER_TRY(output.file_, opened(path, platform::create_file(output.temporary_, before.has_value())));
    if (removals != g_removals) return write_error(path, EINTR);
    if (before) platform::copy_permissions(target.path, output.file_);
    return output;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      slot_(std::exchange(other.slot_, -1)) {}

OutputFile::~OutputFile() {
    if (file_ < 0) {
        forget(slot_);
    } else {
        platform::close_file(file_);
        remove_temporary();
    }
}

void OutputFile::remove_temporary() noexcept {
    if (!temporary_.empty()) platform::remove_file(temporary_.c_str());
    forget(std::exchange(slot_, -1));
}

Result<void> OutputFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const std::ptrdiff_t written = platform::write_some(file_, bytes.data(), bytes.size());
        if (written < 0) return write_error(path_, errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

Result<void> OutputFile::commit() {
    int error_number = platform::close_file(std::exchange(file_, -1)) ? 0 : errno;
    if (error_number == 0 && !temporary_.empty() && !platform::replace_file(temporary_, target_)) error_number = errno;
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

Result<void> write_cache_file(const fs::path& path, std::initializer_list<std::span<const std::byte>> parts) {
    std::error_code ignored;  // what cannot be made is said where the file is opened
    fs::create_directories(path.parent_path(), ignored);
    const auto before = platform::status_of(path);
    if (before && before->kind != platform::FileKind::regular) return write_error(path, EEXIST);
    VKFORMER_TRY(auto file, OutputFile::create(path));
    for (const auto part : parts) VKFORMER_CHECK(file.write(part));
    return file.commit();
}

}  // namespace vkformer
