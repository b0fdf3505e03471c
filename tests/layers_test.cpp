// SPDX-License-Identifier: MIT
// The include directions: a layer knows only the layers before it, and no arrow goes back up.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"

namespace vkformer::tests {
namespace {

namespace fs = std::filesystem;

/// For every folder of runtime/ the folders that it may include besides itself and the public headers.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"core", {}},
    {"graph", {"core"}},
    {"cpu", {"core", "graph"}},
    {"vulkan", {"core", "graph"}},
    {"formats", {"core"}},
    {"text", {"core", "formats"}},
    {"images", {"core", "formats"}},
    {"audio", {"core", "cpu", "formats"}},
    {"models", {"core", "graph", "formats", "text"}},
    {"constraints", {"core", "formats", "text"}},
    {"decoding", {"core", "graph", "formats", "text", "models", "constraints"}},
    {"guest", {"core", "graph", "vulkan", "models", "decoding"}},
    {"validation", {"core", "graph", "cpu"}},
    {"tuning", {"core", "graph", "cpu", "vulkan", "formats", "validation"}},
    // what the public API is made of: it stands above all layers
    {"api",
     {"core", "graph", "cpu", "vulkan", "formats", "text", "images", "audio", "models", "constraints", "decoding",
      "guest", "validation", "tuning"}},
};

struct Include {
    std::string path;
    bool is_quoted;  // "…" and not <…>
};

std::vector<Include> includes_of(std::istream& source) {
    static const std::regex pattern(R"(^\s*#\s*include\s*(["<])([^">]+)[">])");
    std::vector<Include> includes;
    std::smatch match;
    for (std::string line; std::getline(source, line);)
        if (std::regex_search(line, match, pattern)) includes.push_back({match[2], match[1] == "\""});
    return includes;
}

bool is_source(const fs::path& path) {
    return path.extension() == ".hpp" || path.extension() == ".h" || path.extension() == ".cpp";
}

/// What is wrong with a source of `layer` that includes these; empty if nothing.
std::vector<std::string> violations(const std::string& layer, const std::vector<Include>& includes) {
    const auto allowed = kMayInclude.find(layer);
    if (allowed == kMayInclude.end())
        return {"the layer " + layer + " is unknown: say in this test what it may include"};
    std::vector<std::string> found;
    for (const Include& include : includes) {
        const std::string folder = include.path.substr(0, include.path.find('/'));
        const bool is_contract =
            include.is_quoted && fs::exists(fs::path(VKFORMER_SOURCE_DIR) / "shaders" / include.path);
        if (is_contract && layer != "vulkan")
            found.push_back(layer + " includes " + include.path + ", which only vulkan may");
        if (!kMayInclude.contains(folder)) continue;
        if (folder != layer && !allowed->second.contains(folder)) found.push_back(layer + " includes " + include.path);
    }
    return found;
}

TEST_CASE("a layer of the runtime includes only layers below it", "[layers]") {
    const fs::path runtime = fs::path(VKFORMER_SOURCE_DIR) / "runtime";
    std::size_t sources = 0;
    for (const auto& entry : fs::recursive_directory_iterator(runtime)) {
        if (!entry.is_regular_file() || !is_source(entry.path())) continue;
        const fs::path relative = fs::relative(entry.path(), runtime);
        const bool is_top_level = std::distance(relative.begin(), relative.end()) == 1;
        std::ifstream file(entry.path());
        REQUIRE(file);
        for (const std::string& violation :
             violations(is_top_level ? "api" : relative.begin()->string(), includes_of(file)))
            FAIL_CHECK(relative.string() << ": " << violation);
        ++sources;
    }
    CHECK(sources > 20);  // or the folder is not what it should be
}

TEST_CASE("one place knows the systems", "[layers]") {
    // Sources of one system by their name, the seam, and the editor of lines by libedit, which takes descriptors.
    const std::regex is_seam(R"(runtime/core/platform/.*|.*_(posix|windows)\.cpp|tools/cli/line_editor\.cpp)");
    const std::regex is_header(
        R"((sys|arpa|netinet)/.*|(unistd|fcntl|poll|dlfcn|pthread|termios|signal|sched|langinfo|windows|io)\.h)");
    const std::regex is_macro(R"(\b(_WIN32|__linux__|__APPLE__|__unix__|__GLIBC__|__ANDROID__)\b)");
    const fs::path root = VKFORMER_SOURCE_DIR;
    std::size_t seams = 0;
    for (const char* folder : {"runtime", "tools", "samples"})
        for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
            if (!entry.is_regular_file() || !is_source(entry.path())) continue;
            const std::string name = fs::relative(entry.path(), root).generic_string();
            if (std::regex_match(name, is_seam)) {
                ++seams;
                continue;
            }
            std::ifstream file(entry.path());
            const std::string text((std::istreambuf_iterator<char>(file)), {});
            CAPTURE(name);
            CHECK_FALSE(std::regex_search(text, is_macro));
            std::istringstream lines(text);
            for (const Include& include : includes_of(lines)) {
                CAPTURE(include.path);
                CHECK_FALSE(std::regex_match(include.path, is_header));
            }
        }
    CHECK(seams > 10);
}

TEST_CASE("nothing is built upon the wing for devices that are CPUs", "[layers]") {
    // What names it, and what a commit that takes it away would touch.
    const std::set<std::string> hooks = {"runtime/vulkan/variants.cpp", "runtime/vulkan/kernels/rms_norm.cpp",
                                         "shaders/lib/storage4.glsl", "shaders/lib/dequantize.glsl",
                                         "tools/cli/bench_pipelines.cpp"};
    std::set<std::string> found;
    const fs::path root = VKFORMER_SOURCE_DIR;
    for (const char* folder : {"runtime", "shaders", "tools", "samples"})
        for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
            const fs::path relative = fs::relative(entry.path(), root);
            const bool is_wing = std::ranges::find(relative, "cpu_devices") != relative.end();
            if (!entry.is_regular_file() || is_wing) continue;
            std::ifstream file(entry.path());
            for (const Include& include : includes_of(file))
                if (include.path.find("cpu_devices/") != std::string::npos) found.insert(relative.generic_string());
        }
    CHECK(found == hooks);
}

TEST_CASE("the order of the layers has no circle", "[layers]") {
    std::set<std::string> settled;
    for (bool progress = true; progress;) {
        progress = false;
        for (const auto& [layer, below] : kMayInclude)
            if (!settled.contains(layer) && std::ranges::includes(settled, below))
                progress = settled.insert(layer).second;
    }
    CHECK(settled.size() == kMayInclude.size());
}

TEST_CASE("public headers include the standard library, Vulkan and each other", "[layers]") {
    const fs::path include = fs::path(VKFORMER_SOURCE_DIR) / "include";
    std::size_t headers = 0;
    for (const auto& entry : fs::recursive_directory_iterator(include)) {
        if (!entry.is_regular_file()) continue;
        std::ifstream file(entry.path());
        for (const Include& found : includes_of(file)) {
            CAPTURE(entry.path().string(), found.path);
            if (found.is_quoted) {
                CHECK(found.path.starts_with("vkformer/"));
                CHECK(fs::exists(include / found.path));
            } else {
                // the standard library's headers have neither folder nor ending, but for C's
                const bool is_standard = found.path.find_first_of("./") == std::string::npos;
                const bool is_c = found.path.ends_with(".h") && found.path.find('/') == std::string::npos;
                CHECK((is_standard || is_c || found.path.starts_with("vulkan/")));
            }
        }
        ++headers;
    }
    CHECK(headers > 0);
}

TEST_CASE("the check finds what it looks for", "[layers]") {
    CHECK(violations("graph", {{"core/shape.hpp", true}, {"graph/ops.hpp", true}, {"vector", false}}).empty());
    CHECK(violations("core", {{"graph/graph.hpp", true}}).size() == 1);
    CHECK(violations("graph", {{"cpu/backend.hpp", true}, {"vulkan/device.hpp", true}}).size() == 2);
    CHECK(violations("cpu", {{"vulkan/device.hpp", true}, {"add/contract.h", true}}).size() == 2);
    CHECK(violations("decoding", {{"cpu/backend.hpp", true}}).size() == 1);
    CHECK(violations("new_folder", {}).size() == 1);
}

}  // namespace
/// The text literals of a source, without the names of what it includes and without comments.
std::vector<std::string> literals_of(std::istream& source) {
    static const std::regex comment("^\\s*//"), include("^\\s*#\\s*include"), literal(R"re("((?:[^"\\]|\\.)*)")re");
    std::vector<std::string> literals;
    for (std::string line; std::getline(source, line);) {
        if (std::regex_search(line, comment) || std::regex_search(line, include)) continue;
        for (std::sregex_iterator it(line.begin(), line.end(), literal), end; it != end; ++it)
            literals.push_back((*it)[1]);
    }
    return literals;
}

/// An option ("--dtype", "-n") or a command of the program.
bool names_the_command_line(const std::string& literal) {
    static const std::regex pattern(
        R"((^|[^-\w])(--[a-z][-a-z]*|-[a-z])($|[^-\w])|vkformer (info|translate|transcribe|generate|chat|embed|classify|rerank|)"
        R"(forward|validate|attention|tune|inspect|convert|bench))");
    return std::regex_search(literal, pattern);
}

TEST_CASE("no message of the library names the command line's options", "[layers][errors]") {
    CHECK(names_the_command_line("or choose the CPU backend (--device cpu)"));
    CHECK(names_the_command_line("say how many (-n, --max-tokens)"));
    CHECK(names_the_command_line("another device (see: vkformer info)"));
    CHECK_FALSE(names_the_command_line("vkformer weights, top-k of the decoder-only model"));
    std::size_t literals = 0;
    for (const char* const folder : {"runtime", "include"}) {
        for (const auto& entry : fs::recursive_directory_iterator(fs::path(VKFORMER_SOURCE_DIR) / folder)) {
            if (!entry.is_regular_file() || !is_source(entry.path())) continue;
            std::ifstream file(entry.path());
            for (const std::string& literal : literals_of(file)) {
                ++literals;
                if (names_the_command_line(literal)) FAIL_CHECK(entry.path().string() << ": \"" << literal << '"');
            }
        }
    }
    CHECK(literals > 1000);  // or the folders are not what they should be
}

}  // namespace vkformer::tests
