// SPDX-License-Identifier: MIT
// The include directions: a layer knows only the layers before it, and no arrow goes back up.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
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
    {"decoding", {"core", "graph", "formats", "text", "models"}},
    {"guest", {"core", "graph", "vulkan", "models", "decoding"}},
    {"validation", {"core", "graph", "cpu"}},
    {"tuning", {"core", "graph", "cpu", "vulkan", "formats", "validation"}},
    // what the public API is made of: it stands above all layers
    {"api",
     {"core", "graph", "cpu", "vulkan", "formats", "text", "images", "audio", "models", "decoding", "guest",
      "validation", "tuning"}},
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
        if (folder == "interface" && layer != "vulkan")  // shaders/interface
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
    CHECK(violations("cpu", {{"vulkan/device.hpp", true}, {"interface/add.h", true}}).size() == 2);
    CHECK(violations("decoding", {{"cpu/backend.hpp", true}}).size() == 1);
    CHECK(violations("new_folder", {}).size() == 1);
}

}  // namespace
}  // namespace vkformer::tests
