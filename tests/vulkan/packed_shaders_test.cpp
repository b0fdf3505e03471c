// SPDX-License-Identifier: MIT
// What the build makes of the shaders, and that the library gives it back.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

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

TEST_CASE("every shader in the library is bit for bit what was packed", "[vulkan][shaders]") {
    vulkan::ShaderModules modules;
    for (const vulkan::ShaderBinary& shader : vulkan::shader_table()) {
        INFO(shader.name);
        const auto words = must(modules.words(shader));
        CHECK(std::ranges::equal(
            words, words_in(fs::path(VKFORMER_SPIRV_DIR) / (std::string(shader.name) + ".spv.numbered"))));
    }
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
    CHECK(numbered[3] < module[3]);          // and without their gaps
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
    keeps(with({2u << 16 | 249, known[3] + 1}), "an id is not defined");                          // OpBranch
    keeps(with({2u << 16 | 248, known[3], 2u << 16 | 248, known[3]}), "an id is defined twice");  // OpLabel
    keeps(with({5u << 16 | 52, 1, known[3], 4999, 1}), "a specialization constant's operation");
    const auto refuses = [&](const Words& module, const std::string& why) {
        INFO(why);
        CHECK(pack(folder, {known, module}) != 0);
        CHECK_THAT(read_file(folder / "said"), ContainsSubstring("1.spv " + why));
    };
    refuses(with({2u << 16 | 17, 0x7FA00001}), "has the word 2141192193");  // OpCapability
    refuses(with({2u << 16 | 248}), "is no SPIR-V module");
    refuses(with({248}), "is no SPIR-V module");
    refuses({0x03022307, 0, 0, 1, 0}, "is no SPIR-V module");
    refuses({}, "is no SPIR-V module");
}
#endif

}  // namespace
}  // namespace vkformer::tests
