// SPDX-License-Identifier: MIT
#include "tuning/verdicts.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using tuning::VerdictFile;

vulkan::Capabilities some_device(std::uint32_t driver_version = 7) {
    vulkan::Capabilities device;
    device.name = "a device";
    device.driver = "a driver";
    device.uuid = "00112233445566778899aabbccddeeff";
    device.driver_version = driver_version;
    return device;
}

/// In a process of its own, which then ends without a word.
void begin_and_die(const std::filesystem::path& folder, const std::string& key, const std::string& variant) {
    const pid_t child = fork();
    if (child == 0) {
        VerdictFile file(folder, some_device());
        file.begin(key, variant);
        _exit(1);
    }
    REQUIRE(child > 0);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
}

TEST_CASE("verdicts survive the process", "[tuning]") {
    const TemporaryFolder folder;
    {
        VerdictFile file(folder.path(), some_device());
        CHECK(file.verdicts().empty());
        file.set("linear x=f32[8,64]", {.variant = "row",
                                        .trials = {{.variant = "row", .error = 1e-7, .bound = 1e-6, .us = 2.5},
                                                   {.variant = "plain", .fault = "wrong \"results\""}}});
        file.set_timings("model", {{"cpu", 3.0}, {"vulkan", 4.0}});
        file.save();
    }
    const VerdictFile file(folder.path(), some_device());
    const tuning::Verdict* const verdict = file.find("linear x=f32[8,64]");
    REQUIRE(verdict);
    CHECK(verdict->variant == "row");
    REQUIRE(verdict->trials.size() == 2);
    CHECK(verdict->trials[0].us == 2.5);
    CHECK(verdict->trials[1].fault == "wrong \"results\"");
    CHECK(file.find("linear x=f32[8,128]") == nullptr);
    CHECK(file.timings("model").at("vulkan") == 4.0);
    CHECK(file.timings("another").empty());
}

TEST_CASE("verdicts of another driver, and damaged ones, count as none", "[tuning]") {
    const TemporaryFolder folder;
    std::filesystem::path path;
    {
        VerdictFile file(folder.path(), some_device());
        file.set("a", {.variant = "plain"});
        file.save();
        path = file.path();
    }
    CHECK(VerdictFile(folder.path(), some_device(8)).verdicts().empty());
    REQUIRE(VerdictFile(folder.path(), some_device()).verdicts().size() == 1);

    std::ifstream in(path);
    const std::string whole((std::istreambuf_iterator<char>(in)), {});
    for (std::size_t length = 0; length + 2 < whole.size(); ++length) {  // the last two bytes: a brace and a line's end
        std::ofstream(path) << whole.substr(0, length);
        CAPTURE(length);
        CHECK(VerdictFile(folder.path(), some_device()).verdicts().empty());
    }
    std::ofstream(path) << R"({"format": 1, "stamp": [], "verdicts": 3})";
    CHECK(VerdictFile(folder.path(), some_device()).verdicts().empty());
}

TEST_CASE("a variant that ends the process twice is not tried a third time", "[tuning]") {
    const TemporaryFolder folder;
    begin_and_die(folder.path(), "key", "fast");
    CHECK(VerdictFile(folder.path(), some_device()).begin("key", "plain"));  // the other one is not meant
    VerdictFile(folder.path(), some_device()).end();
    begin_and_die(folder.path(), "key", "fast");
    VerdictFile file(folder.path(), some_device());
    CHECK_FALSE(file.begin("key", "fast"));
    CHECK(file.begin("another key", "fast"));
}

TEST_CASE("a trial that another process is running has not failed", "[tuning]") {
    const TemporaryFolder folder;
    VerdictFile running(folder.path(), some_device());
    for (int i = 0; i < 3; ++i) {
        CHECK(running.begin("key", "fast"));
        CHECK(VerdictFile(folder.path(), some_device()).begin("key", "fast"));
    }
}

// In a container every process may have the same number.
TEST_CASE("a trial of an earlier process with the number of one that runs has failed", "[tuning]") {
    const TemporaryFolder folder;
    for (int i = 0; i < 2; ++i) {
        VerdictFile file(folder.path(), some_device());
        CHECK(file.begin("key", "fast"));
        nlohmann::json saved = nlohmann::json::parse(std::ifstream(file.path()));
        nlohmann::json& by = saved["trying"].at(0);
        CHECK(by["process"] == getpid());
        by["started"] = by["started"].get<std::uint64_t>() - 1;
        std::ofstream(file.path()) << saved;
    }
    CHECK_FALSE(VerdictFile(folder.path(), some_device()).begin("key", "fast"));
    CHECK(VerdictFile(folder.path(), some_device()).begin("key", "plain"));
}

TEST_CASE("who saves keeps what others have saved meanwhile", "[tuning]") {
    const TemporaryFolder folder;
    VerdictFile first(folder.path(), some_device()), second(folder.path(), some_device());
    first.set("a", {.variant = "plain"});
    first.set_timings("model", {{"cpu", 3.0}});
    first.save();
    second.set("b", {.variant = "plain"});
    second.set("a", {.variant = "row"});  // found later
    second.set_timings("another", {{"cpu", 4.0}});
    second.save();
    first.set("c", {.variant = "plain"});
    first.save();
    const VerdictFile file(folder.path(), some_device());
    CHECK(file.verdicts().size() == 3);
    REQUIRE(file.find("a"));
    CHECK(file.find("a")->variant == "row");
    CHECK(first.find("a")->variant == "row");
    CHECK(first.find("b"));
    CHECK(file.timings("model").at("cpu") == 3.0);
    CHECK(file.timings("another").at("cpu") == 4.0);
}

TEST_CASE("processes that save at the same time lose nothing", "[tuning]") {
    constexpr int kProcesses = 4, kVerdicts = 25;
    const TemporaryFolder folder;
    std::array<pid_t, kProcesses> children{};
    for (int i = 0; i < kProcesses; ++i) {
        children[static_cast<std::size_t>(i)] = fork();
        if (children[static_cast<std::size_t>(i)] != 0) continue;
        VerdictFile file(folder.path(), some_device());
        for (int k = 0; k < kVerdicts; ++k) {
            file.set(std::to_string(i) + " " + std::to_string(k), {.variant = "plain"});
            file.save();
        }
        _exit(0);
    }
    for (const pid_t child : children) REQUIRE(waitpid(child, nullptr, 0) == child);
    CHECK(VerdictFile(folder.path(), some_device()).verdicts().size() == kProcesses * kVerdicts);
}

TEST_CASE("what one process tries stays written down while another one saves", "[tuning]") {
    const TemporaryFolder folder;
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    const pid_t child = fork();
    if (child == 0) {
        VerdictFile file(folder.path(), some_device());
        file.begin("key", "fast");
        if (write(ends[1], "!", 1) == 1)
            for (;;) pause();
        _exit(1);
    }
    REQUIRE(child > 0);
    char begun = 0;
    REQUIRE(read(ends[0], &begun, 1) == 1);
    close(ends[0]);
    close(ends[1]);
    VerdictFile other(folder.path(), some_device());
    CHECK_FALSE(other.has_unfinished("key"));  // it runs
    for (int i = 0; i < 2; ++i) {
        CHECK(other.begin("another key", "plain"));
        other.end();
        other.set("another key", {.variant = "plain"});
        other.save();
    }
    REQUIRE(kill(child, SIGKILL) == 0);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    const VerdictFile file(folder.path(), some_device());
    CHECK(file.has_unfinished("key"));
    CHECK(file.may_try("key", "fast"));
    CHECK_FALSE(file.has_unfinished("another key"));
    CHECK(file.find("another key"));
}

TEST_CASE("a trial that came to its end is not unfinished because another process has saved", "[tuning]") {
    const TemporaryFolder folder;
    begin_and_die(folder.path(), "key", "fast");
    VerdictFile file(folder.path(), some_device()), other(folder.path(), some_device());
    CHECK(file.begin("key", "fast"));
    other.set("a", {.variant = "plain"});
    other.save();
    file.end();
    file.save();
    other.set("b", {.variant = "plain"});
    other.save();
    const VerdictFile after(folder.path(), some_device());
    CHECK_FALSE(after.has_unfinished("key"));
    CHECK(after.verdicts().size() == 2);
}

TEST_CASE("builds with other shaders have files of their own", "[tuning]") {
    CHECK(VerdictFile("folder", some_device()).path() ==
          "folder/variants-" + some_device().uuid + "-" + tuning::shader_hash() + ".json");
}

TEST_CASE("verdicts are neither read from nor written to what is no regular file", "[tuning]") {
    const TemporaryFolder folder;
    const std::filesystem::path path = VerdictFile(folder.path(), some_device()).path();
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    REQUIRE(mkfifo((folder / "variants.lock").c_str(), 0600) == 0);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        VerdictFile file(folder.path(), some_device());
        _exit(file.begin("key", "fast") ? 0 : 1);
    }
    REQUIRE(child > 0);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(std::filesystem::is_fifo(path));
}

TEST_CASE("what several threads save is never found half written", "[tuning][threads]") {
    const TemporaryFolder folder;
    const auto make = [&] {
        VerdictFile file(folder.path(), some_device());
        for (int i = 0; i < 2000; ++i) file.set("key " + std::to_string(i), {.variant = std::string(100, 'v')});
        return file;
    };
    make().save();
    std::atomic<int> writing = 2;
    const auto write = [&] {
        VerdictFile file = make();
        for (int i = 0; i < 30; ++i) file.save();
        --writing;
    };
    std::thread first(write), second(write);
    int whole = 0, found = 0;
    while (writing > 0) {
        ++found;
        whole += VerdictFile(folder.path(), some_device()).verdicts().size() == 2000;
    }
    first.join();
    second.join();
    CHECK(whole == found);
}

TEST_CASE("a trial that comes to its end clears the record", "[tuning]") {
    const TemporaryFolder folder;
    begin_and_die(folder.path(), "key", "fast");
    {
        VerdictFile file(folder.path(), some_device());
        CHECK(file.begin("key", "fast"));
        file.end();
        file.save();
    }
    begin_and_die(folder.path(), "key", "fast");
    CHECK(VerdictFile(folder.path(), some_device()).begin("key", "fast"));
}

TEST_CASE("without a folder nothing is kept", "[tuning]") {
    VerdictFile file({}, some_device());
    file.set("a", {.variant = "plain"});
    file.save();
    CHECK(file.path().empty());
    CHECK(file.find("a"));
}

}  // namespace
}  // namespace vkformer::tests
