// SPDX-License-Identifier: MIT
// What the build makes of the shaders, and that the library gives it back.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#ifdef VKFORMER_BENCH_SHADERS
#include "bench_shader_table.hpp"
#endif
#include "shader_table.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "vulkan/packed_ids.hpp"

namespace vkformer::tests {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Words = std::vector<std::uint32_t>;

Words words_in(const fs::path& file) {
    const std::string bytes = read_file(file);
    Words words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), words.size() * 4);
    return words;
}

TEST_CASE("packed ids are put back in their places, in any words", "[vulkan][shaders]") {
    const auto restored = [](Words words) {
        vulkan::restore_ids(words);
        return words;
    };
    CHECK(restored({}).empty());
    CHECK(restored({0x07230203, 0x7FA00010, 5, 0x7FA10000, 0x7FA00000, 0x7FA1FFFF, 0x7FA10002}) ==
          Words{0x07230203, 0x10, 5, 0x10, 0x11, 0x10, 0x13});
    CHECK(restored({0x7FA1FFFF, 0x7FA00000, 0x7FA0FFFF, 0x7FA00000, 0x7FA1FFFF, 0x7FA20000}) ==
          Words{0xFFFF, 1, 0xFFFF, 0x10000, 0xFFFF, 0x7FA20000});
}

void check_contents(std::span<const vulkan::ShaderBinary> table) {
    REQUIRE(!table.empty());
    vulkan::ShaderModules modules;
    for (const vulkan::ShaderBinary& shader : table) {
        INFO(shader.name);
        const auto words = must(modules.words(shader));
        CHECK(std::ranges::equal(
            words, words_in(fs::path(VKFORMER_SPIRV_DIR) / (std::string(shader.name) + ".spv.numbered"))));
    }
}

TEST_CASE("every shader in the library is bit for bit what was packed", "[vulkan][shaders]") {
    check_contents(vulkan::shader_table());
#ifdef VKFORMER_BENCH_SHADERS
    check_contents(vulkan::bench_shader_table());
#endif
}

#ifdef VKFORMER_PACK_SHADERS
/// The exit code of pack_shaders, for modules 0.spv, 1.spv, …; what it says is in "said", what it makes are packed.bin and
/// the modules' numbered files.
int pack(const TemporaryFolder& folder, const std::vector<Words>& modules) {
    std::string list;
    for (std::size_t i = 0; i < modules.size(); ++i) {
        const std::string name = std::to_string(i) + ".spv";
        folder.write(name.c_str(), {reinterpret_cast<const char*>(modules[i].data()), modules[i].size() * 4});
        list += (folder / name.c_str()).string() + "\n";
    }
    folder.write("list", list);
    const std::string command = VKFORMER_PACK_SHADERS " '" + (folder / "list").string() + "' '" +
                                (folder / "packed").string() + "' > '" + (folder / "said").string() + "' 2>&1";
    return std::system(command.c_str());
}

TEST_CASE("modules with the same code are packed with the same words", "[vulkan][shaders]") {
    const TemporaryFolder folder;
    const Words module = words_in(fs::path(VKFORMER_SPIRV_DIR) / "rms_norm_row_f32.spv");
    REQUIRE(pack(folder, {module, module}) == 0);
    const Words packed = words_in(folder / "packed.bin"), numbered = words_in(folder / "0.spv.numbered");
    REQUIRE(packed.size() == 2 * numbered.size());
    CHECK(std::equal(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(numbered.size()),
                     packed.begin() + static_cast<std::ptrdiff_t>(numbered.size()), packed.end()));
    CHECK(words_in(folder / "1.spv.numbered") == numbered);
    CHECK(numbered.size() < module.size());  // without names
    CHECK(read_file(folder / "said").empty());
    REQUIRE(pack(folder, {numbered}) == 0);
    CHECK(words_in(folder / "0.spv.numbered") == numbered);
}

TEST_CASE("what pack_shaders does not know stays, what is no module is refused", "[vulkan][shaders][errors]") {
    const TemporaryFolder folder;
    const Words known = words_in(fs::path(VKFORMER_SPIRV_DIR) / "rms_norm_row_f32.spv.numbered");
    const auto with = [&](std::initializer_list<std::uint32_t> instruction) {
        Words words = known;
        words.insert(words.end(), instruction);
        return words;
    };
    const auto keeps = [&](const Words& module, const std::string& why) {
        INFO(why);
        REQUIRE(pack(folder, {known, module}) == 0);
        CHECK_THAT(read_file(folder / "said"), ContainsSubstring("1.spv keeps its ids: " + why));
        CHECK(words_in(folder / "1.spv.numbered") == module);
    };
    keeps(with({2u << 16 | 4999, known[3]}), "opcode 4999 is unknown");
    keeps(with({5u << 16 | 52, 1, known[3], 4999, 1}), "a specialization constant's operation");
    keeps(with({5u << 16 | 123, 1, known[3], 1, 7}), "opcode 123 is unknown");  // OpGenericCastToPtrExplicit
    // OpLabel, and OpSwitch with one and with two literals of two words.
    const std::string wide = "an OpSwitch has literals of more than one word";
    keeps(with({2u << 16 | 248, known[3], 6u << 16 | 251, 1, known[3], 5, 0, known[3]}), wide);
    keeps(with({2u << 16 | 248, known[3], 9u << 16 | 251, 1, known[3], 5, 0, known[3], 6, 0, known[3]}), wide);
    REQUIRE(pack(folder, {with({2u << 16 | 248, known[3], 5u << 16 | 251, 1, known[3], 5, known[3]})}) == 0);
    CHECK(read_file(folder / "said").empty());
    const auto refuses = [&](const Words& module, const std::string& why) {
        INFO(why);
        CHECK(pack(folder, {known, module}) != 0);
        CHECK_THAT(read_file(folder / "said"), ContainsSubstring("1.spv " + why));
    };
    const auto fails = [&](const Words& module, const std::string& why) {
        INFO(why);
        CHECK(pack(folder, {known, module}) != 0);
        CHECK_THAT(read_file(folder / "said"), ContainsSubstring("1.spv: " + why));
    };
    fails(with({2u << 16 | 249, known[3] + 1}), "an id is not defined");                          // OpBranch
    fails(with({2u << 16 | 248, known[3], 2u << 16 | 248, known[3]}), "an id is defined twice");  // OpLabel
    refuses(with({2u << 16 | 17, 0x7FA00001}), "has the word 2141192193");                        // OpCapability
    refuses(with({2u << 16 | 248}), "is no SPIR-V module");
    refuses(with({248}), "is no SPIR-V module");
    refuses({0x03022307, 0, 0, 1, 0}, "is no SPIR-V module");
    refuses({}, "is no SPIR-V module");
}

TEST_CASE("pack_shaders keeps the strings that instructions refer to", "[vulkan][shaders]") {
    const TemporaryFolder folder;
    const Words header = {0x07230203, 0x00010500, 0, 10, 0};
    const auto with = [&](std::initializer_list<std::uint32_t> instructions) {
        Words words = header;
        words.insert(words.end(), instructions);
        return words;
    };
    // OpExtInstImport "abc" 1, OpString "a" 2, OpString "b" 3, OpTypeVoid 4, OpExtInst 4 5 1 1 3.
    const Words module = with({3u << 16 | 11, 1, 0x00636261, 3u << 16 | 7, 2, 0x61, 3u << 16 | 7, 3, 0x62,
                               2u << 16 | 19, 4, 6u << 16 | 12, 4, 5, 1, 1, 3});
    REQUIRE(pack(folder, {module}) == 0);
    CHECK(read_file(folder / "said").empty());
    Words numbered = words_in(folder / "0.spv.numbered");
    REQUIRE(numbered.size() == module.size() - 3);
    CHECK(numbered[8] == (3u << 16 | 7));
    CHECK(numbered[10] == 0x62);
    CHECK(numbered.back() == numbered[9]);
}

TEST_CASE("pack_shaders says what it cannot read", "[vulkan][shaders][errors]") {
    const TemporaryFolder folder;
    const auto fails = [&](const fs::path& list, const fs::path& unread) {
        const std::string command = VKFORMER_PACK_SHADERS " '" + list.string() + "' '" + (folder / "packed").string() +
                                    "' > '" + (folder / "said").string() + "' 2>&1";
        CHECK(std::system(command.c_str()) != 0);
        CHECK_THAT(read_file(folder / "said"), ContainsSubstring("cannot read " + unread.string()));
    };
    fails(folder / "absent", folder / "absent");
    folder.write("list", (folder / "absent.spv").string() + "\n");
    fails(folder / "list", folder / "absent.spv");
    const fs::path directory = fs::path(VKFORMER_SPIRV_DIR);
    folder.write("list", directory.string() + "\n");
    fails(folder / "list", directory);
}
#endif

}  // namespace
}  // namespace vkformer::tests
