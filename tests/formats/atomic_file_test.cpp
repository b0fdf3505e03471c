// SPDX-License-Identifier: MIT
#include "formats/atomic_file.hpp"

#include <fstream>
#include <set>

#include "core/temporary_name.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using formats::AtomicFile;

std::size_t file_count(const std::filesystem::path& folder) {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

TEST_CASE("temporary names are all different, and beside their file", "[core]") {
    std::set<std::filesystem::path> names;
    for (int i = 0; i < 100; ++i) names.insert(temporary_name("/folder/file.json"));
    CHECK(names.size() == 100);
    for (const auto& name : names) {
        CHECK(name.parent_path() == "/folder");
        CHECK(name.filename().string().starts_with("file.json."));
    }
}

TEST_CASE("a file appears when it is whole, or not at all", "[formats]") {
    const TemporaryFolder folder;
    const auto path = folder / "model.bin";
    const std::string text = "contents";
    {
        auto file = must(AtomicFile::create(path));
        must(file.write(std::as_bytes(std::span(text))));
        CHECK_FALSE(std::filesystem::exists(path));
        must(file.commit());
    }
    CHECK(std::filesystem::file_size(path) == text.size());
    { const auto given_up = must(AtomicFile::create(path)); }
    CHECK(file_count(folder.path()) == 1);
}

// In a container the next process has the number of the one that was killed, and counts its temporary files as that one did.
TEST_CASE("what a killed process left is in nobody's way", "[formats]") {
    const TemporaryFolder folder;
    const auto path = folder / "model.bin";
    const std::string name = temporary_name(path).string();
    const std::size_t dash = name.rfind('-');
    const unsigned count = static_cast<unsigned>(std::stoul(name.substr(dash + 1)));
    for (unsigned i = 1; i <= 3; ++i)
        std::ofstream(name.substr(0, dash + 1) + std::to_string(count + i) + ".tmp") << "left";
    auto file = must(AtomicFile::create(path));
    must(file.commit());
    CHECK(std::filesystem::file_size(path) == 0);
    CHECK(file_count(folder.path()) == 4);
}

}  // namespace
}  // namespace vkformer::tests
