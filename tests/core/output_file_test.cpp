// SPDX-License-Identifier: MIT
#include "core/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <future>
#include <iterator>
#include <set>

#include "core/temporary_name.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

Result<void> write_whole(const fs::path& path, std::string_view text) {
    return write_file(path, std::as_bytes(std::span(text)));
}

TEST_CASE("temporary names are all different, and beside their file", "[core]") {
    std::set<fs::path> names;
    for (int i = 0; i < 100; ++i) names.insert(temporary_name("/folder/file.json"));
    CHECK(names.size() == 100);
    for (const auto& name : names) {
        CHECK(name.parent_path() == "/folder");
        CHECK(name.filename().string().starts_with("file.json."));
    }
}

TEST_CASE("a file appears when it is whole, or not at all", "[core][output]") {
    const TemporaryFolder folder;
    const auto path = folder / "model.bin";
    const std::string text = "contents";
    {
        auto file = must(OutputFile::create(path));
        must(file.write(std::as_bytes(std::span(text))));
        CHECK_FALSE(fs::exists(path));
        must(file.commit());
    }
    CHECK(read_file(path) == text);
    { const auto given_up = must(OutputFile::create(path)); }
    CHECK(read_file(path) == text);
    CHECK(file_count(folder.path()) == 1);
}

// Whenever the ending comes: before the file is there, between two files, while one has bytes.
TEST_CASE("what ends a program at any moment leaves no unfinished file", "[core][output]") {
    const TemporaryFolder folder;
    for (int microseconds = 1; microseconds <= 300; ++microseconds) {
        const ::pid_t program = ::fork();
        if (program == 0) {
            std::signal(SIGALRM, [](int) {
                remove_unfinished_files();
                ::_exit(0);
            });
            ::ualarm(static_cast<::useconds_t>(microseconds), 0);
            for (;;) const auto given_up = OutputFile::create(folder / "model.bin");
        }
        REQUIRE(program > 0);
        int status = 0;
        REQUIRE(::waitpid(program, &status, 0) == program);
        CHECK(status == 0);
    }
    CHECK(file_count(folder.path()) == 0);
}

TEST_CASE("links stay, and what they lead to is written", "[core][output]") {
    const TemporaryFolder folder;
    fs::create_directory(folder / "below");
    std::ofstream(folder / "below/target") << "old";
    fs::create_symlink("second", folder / "first");
    fs::create_symlink("below/target", folder / "second");
    must(write_whole(folder / "first", "new"));
    CHECK(fs::is_symlink(folder / "first"));
    CHECK(fs::is_symlink(folder / "second"));
    CHECK(read_file(folder / "below/target") == "new");
    CHECK(file_count(folder / "below") == 1);

    fs::create_symlink("below/not-there-yet", folder / "dangling");
    must(write_whole(folder / "dangling", "made"));
    CHECK(fs::is_symlink(folder / "dangling"));
    CHECK(read_file(folder / "below/not-there-yet") == "made");

    fs::create_symlink("circle", folder / "circle");
    const auto circle = write_whole(folder / "circle", "never");
    REQUIRE_FALSE(circle);
    CHECK_THAT(circle.error().message, ContainsSubstring("circle: Too many levels of symbolic links"));
}

TEST_CASE("what is written over keeps its permissions", "[core][output]") {
    const TemporaryFolder folder;
    const auto path = folder / "file";
    std::ofstream(path) << "old";
    fs::permissions(path, fs::perms(0640));
    must(write_whole(path, "new"));
    CHECK(read_file(path) == "new");
    CHECK(fs::status(path).permissions() == fs::perms(0640));
}

TEST_CASE("a FIFO and what leads to a descriptor get the bytes, and stay", "[core][output]") {
    const TemporaryFolder folder;
    const auto fifo = folder / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    auto reader = std::async(std::launch::async, [&] { return read_file(fifo); });
    must(write_whole(fifo, "through the pipe"));
    CHECK(reader.get() == "through the pipe");
    CHECK(fs::is_fifo(fifo));

    // As /dev/stdout does, with its descriptor at the end of a file that has something already.
    const auto path = folder / "output";
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(file >= 0);
    REQUIRE(::write(file, "before ", 7) == 7);
    fs::create_symlink("/proc/self/fd/" + std::to_string(file), folder / "stdout");
    must(write_whole(folder / "stdout", "and after"));
    ::close(file);
    CHECK(read_file(path) == "before and after");
    CHECK(fs::is_symlink(folder / "stdout"));
    CHECK(file_count(folder.path()) == 3);
}

TEST_CASE("a device stays one, and a full one says so", "[core][output]") {
    const TemporaryFolder folder;
    // The test's own: a mistake must not take the machine's away.
    const auto null = folder / "null", full = folder / "full";
    if (::mknod(null.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0 ||
        ::mknod(full.c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0 || ::access(null.c_str(), W_OK) != 0) {
        WARN("not tested: making device nodes takes privileges");
        return;
    }
    const int is_open = ::open(null.c_str(), O_WRONLY | O_CLOEXEC);
    if (is_open < 0) {
        WARN("not tested: the file system of temporary files lets no device be opened");
        return;
    }
    ::close(is_open);
    must(write_whole(null, "gone"));
    CHECK(fs::is_character_file(null));
    const auto written = write_whole(full, "no place");
    REQUIRE_FALSE(written);
    CHECK(written.error().message == "cannot write " + full.string() + ": No space left on device");
    CHECK(fs::is_character_file(full));
    CHECK(file_count(folder.path()) == 2);
}

TEST_CASE("folders and names that cannot be are refused with the system's reason", "[core][output][errors]") {
    const TemporaryFolder folder;
    fs::create_directory(folder / "below");
    for (const auto& [path, reason] : {std::pair<fs::path, std::string>{folder / "below", "Is a directory"},
                                       {folder / "below/", "Is a directory"},
                                       {folder / "nowhere/file", "No such file or directory"},
                                       {"", "No such file or directory"}}) {
        const auto written = write_whole(path, "text");
        REQUIRE_FALSE(written);
        CHECK(written.error().message == "cannot write " + path.string() + ": " + reason);
    }
    CHECK(file_count(folder.path()) == 1);
}

TEST_CASE("a signal's handler removes what is unfinished, but not that of another process", "[core][output]") {
    const TemporaryFolder folder;
    auto first = must(OutputFile::create(folder / "first"));
    {
        auto done = must(OutputFile::create(folder / "done"));
        must(done.commit());
    }
    const ::pid_t child = ::fork();
    if (child == 0) {
        remove_unfinished_files();
        ::_exit(0);
    }
    REQUIRE(child > 0);
    ::waitpid(child, nullptr, 0);
    CHECK(file_count(folder.path()) == 2);
    remove_unfinished_files();
    CHECK(file_count(folder.path()) == 1);
    CHECK(fs::exists(folder / "done"));
}

}  // namespace
}  // namespace vkformer::tests
