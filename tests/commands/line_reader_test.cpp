// SPDX-License-Identifier: MIT
#include "cli/line_reader.hpp"

#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a line without an end is refused, and not kept in memory", "[cli][lines]") {
    const auto peak_bytes = [] {
        struct rusage usage {};
        ::getrusage(RUSAGE_SELF, &usage);
        return usage.ru_maxrss * 1024;
    };
    const TemporaryFolder folder;
    std::ofstream(folder / "zeros") << "first\n" << std::string(cli::kMostLineBytes + 1, 'x') << "\nthird\n";
    // More than a gigabyte that takes no place on the disk.
    fs::resize_file(folder / "zeros", (std::uint64_t{1} << 30) + (1 << 23));
    const auto before = peak_bytes();
    auto reader = must(cli::LineReader::open((folder / "zeros").string()));
    const auto lines = must(reader.next());
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].text == "first");
    CHECK(lines[1].is_too_long);
    CHECK(lines[2].text == "third");
    const auto endless = reader.next();
    REQUIRE_FALSE(endless);
    CHECK_THAT(endless.error().message, ContainsSubstring("is no text: a line of more than 1073741824 bytes"));
    CHECK(peak_bytes() - before < 64 << 20);
}

}  // namespace
}  // namespace vkformer::tests
