// SPDX-License-Identifier: MIT
#include "tuning/verdicts.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
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
        nlohmann::json& by = saved["trying"]["by"];
        CHECK(by["process"] == getpid());
        by["started"] = by["started"].get<std::uint64_t>() - 1;
        std::ofstream(file.path()) << saved;
    }
    CHECK_FALSE(VerdictFile(folder.path(), some_device()).begin("key", "fast"));
    CHECK(VerdictFile(folder.path(), some_device()).begin("key", "plain"));
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
