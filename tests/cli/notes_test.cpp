// SPDX-License-Identifier: MIT
/// What a model's files say that nobody knows, as a user of the program is told of it; on the CPU.
#include <map>

#include "cli/run_program.hpp"
#include "models/changed_golden.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

constexpr const char* kNote =
    "vkformer: note: config.json: the model goes on without \"attention_bend\", which is 0.25";

/// The model with a field that nobody knows.
fs::path with_odd_field(const TemporaryFolder& folder, const fs::path& model) {
    const fs::path copy = folder / "model";
    fs::copy(model, copy, fs::copy_options::recursive);
    write_config_with(copy, {{"attention_bend", 0.25}});
    return copy;
}

}  // namespace

TEST_CASE("what is passed over in a model's files is said, and refused with --strict", "[cli][passed_over]") {
    const fs::path dates = fs::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer";
    const TemporaryFolder out;
    const std::map<std::string, std::pair<fs::path, std::string>> commands = {
        {"translate", {dates, "'4. März 2021'"}},
        {"generate", {goldens_dir() / "decoder_text", "-n 2 'Once'"}},
        {"score", {goldens_dir() / "decoder_text", "'Once upon'"}},
        {"attention", {dates, "-o " + quoted(out / "weights.json") + " '4. März 2021'"}},
    };
    for (const auto& [command, given] : commands) {
        const TemporaryFolder folder;
        const auto call = [&](const fs::path& model, const std::string& option) {
            return run(command + " -d cpu --plain " + option + " -m " + quoted(model) + " " + given.second);
        };
        CAPTURE(command);
        const Outcome clean = call(given.first, "--strict");
        REQUIRE(clean.exit_code == 0);
        CHECK(clean.err.find("note") == clean.err.npos);
        const fs::path odd = with_odd_field(folder, given.first);
        const Outcome told = call(odd, "");
        CHECK(told.exit_code == 0);
        CHECK(told.out == clean.out);
        CHECK_THAT(told.err, ContainsSubstring(kNote));
        CHECK(call(odd, "-q").err.empty());
        const Outcome refused = call(odd, "--strict -q");
        CHECK(refused.exit_code == 2);
        CHECK(refused.out.empty());
        CHECK_THAT(refused.err, ContainsSubstring("\"attention_bend\""));
    }
}

TEST_CASE("encoders and classifiers say what is passed over, too", "[cli][passed_over]") {
    const auto check = [](const std::string& command, const fs::path& model, const std::string& rest) {
        const TemporaryFolder folder;
        const std::string call = command + " -d cpu --plain -m " + quoted(with_odd_field(folder, model)) + " " + rest;
        CAPTURE(command);
        const Outcome told = run(call);
        CHECK(told.exit_code == 0);
        CHECK_THAT(told.err, ContainsSubstring(kNote));
        const Outcome refused = run(call + " --strict");
        CHECK(refused.exit_code == 2);
        CHECK_THAT(refused.err, ContainsSubstring("\"attention_bend\""));
    };
    check("embed", sentence_folder("embedder"), "'a text'");
    check("rerank", sentence_folder("cross_encoder"), "'a query' 'a text' 'another'");
    check("classify", vision_folder("vit"), quoted(vision_folder("pictures") / "colour.png"));
}

TEST_CASE("validate and bench model say what is passed over once, and refuse it with --strict", "[cli][passed_over]") {
    for (const auto& [command, model] :
         {std::pair<std::string, fs::path>{"validate --length 8", sentence_folder("embedder")},
          {"validate --length 8", goldens_dir() / "decoder_text"},
          {"bench model --length 8 --steps 2 --runs 1", goldens_dir() / "decoder_text"},
          {"bench model --length 8 --steps 2 --runs 1",
           fs::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer"}}) {
        const TemporaryFolder folder;
        const std::string call = command + " -d cpu -m " + quoted(with_odd_field(folder, model));
        CAPTURE(call);
        const Outcome told = run(call);
        CHECK(told.exit_code == 0);
        CHECK_THAT(told.err, ContainsSubstring(kNote));
        CHECK(told.err.find(kNote) == told.err.rfind(kNote));
        const Outcome refused = run(call + " --strict");
        CHECK(refused.exit_code == 2);
        CHECK(refused.out.empty());
        CHECK_THAT(refused.err, ContainsSubstring("\"attention_bend\""));
    }
}

}  // namespace vkformer::tests

#endif
