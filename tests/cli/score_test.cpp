// SPDX-License-Identifier: MIT
/// vkformer score and translate --alternatives as a user runs them, on the CPU.
#include <cmath>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "support/goldens.hpp"
#include "support/temporary_folder.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

std::string score_text(const std::string& rest) {
    return "score -d cpu --plain -m " + quoted(goldens_dir() / "decoder_text") + " " + rest;
}
const std::filesystem::path kDateFolder = std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer";
std::string score_dates(const std::string& rest) {
    return "score -d cpu --plain -m " + quoted(kDateFolder) + " " + rest;
}

/// "sum<tab>tokens<tab>perplexity<tab>text"
struct ScoreLine {
    double sum = 0, perplexity = 0;
    std::size_t tokens = 0;
    std::string text;
};
ScoreLine parsed(const std::string& line) {
    ScoreLine found;
    std::istringstream in(line);
    in >> found.sum >> found.tokens >> found.perplexity;
    in.get();
    std::getline(in, found.text);
    return found;
}

}  // namespace

TEST_CASE("score prints how likely texts are, and all of them", "[cli][score]") {
    const Outcome plain = run(score_text("\"the cat and the dog\" \"a frog\""));
    REQUIRE(plain.exit_code == 0);
    const auto lines = lines_of(plain.out);
    REQUIRE(lines.size() == 2);
    double sum = 0;
    std::size_t tokens = 0;
    for (const std::string& line : lines) {
        const ScoreLine found = parsed(line);
        CHECK(found.perplexity == Approx(std::exp(-found.sum / static_cast<double>(found.tokens))).epsilon(1e-4));
        sum += found.sum;
        tokens += found.tokens;
    }
    CHECK(parsed(lines[1]).text == "a frog");
    const std::string all = "vkformer: 2 texts, " + std::to_string(tokens) + " tokens, perplexity ";
    CHECK_THAT(plain.err, ContainsSubstring(all));
    const double perplexity = std::stod(plain.err.substr(plain.err.find(all) + all.size()));
    CHECK(perplexity == Approx(std::exp(-sum / static_cast<double>(tokens))).epsilon(1e-4));

    const Outcome objects = run(score_text("-q --json --likeliest 2"), "the cat and the dog\na frog\n");
    REQUIRE(objects.exit_code == 0);
    const json first = json::parse(lines_of(objects.out).at(0)), second = json::parse(lines_of(objects.out).at(1));
    CHECK(second["text"] == "a frog");
    CHECK(first["log_prob"].get<double>() == Approx(parsed(lines[0]).sum).margin(1e-3));
    CHECK(first["log_probs"].size() + 1 == first["tokens"].size());
    CHECK(first["log_probs"][0]["token"] == first["tokens"][1]);
    CHECK(first["log_probs"][0]["likeliest"].size() == 2);
    CHECK(objects.err.empty());
    CHECK_THAT(run(score_text("--likeliest 2 x")).err, ContainsSubstring("--likeliest needs --json"));
}

TEST_CASE("a blank line has no tokens", "[cli][score]") {
    for (const std::string& command : {score_text("-q"), score_dates("-q --source x")}) {
        const Outcome outcome = run(command, "2021\n\n  \n2021\n");
        CHECK(outcome.exit_code == 0);
        const auto lines = lines_of(outcome.out);
        REQUIRE(lines.size() == 4);
        CHECK(lines[1] == "0.0000\t0\t-\t");
        CHECK(lines[0] == lines[3]);
    }
}

TEST_CASE("score reads one long text in windows", "[cli][score]") {
    const TemporaryFolder folder;
    std::ofstream file(folder / "long.txt");
    for (int i = 0; i < 20; ++i) file << "the cat and the dog\n";
    file.close();
    const std::string input = "-i " + quoted(folder / "long.txt");
    const Outcome whole = run(score_text("--whole --context 32 " + input));
    REQUIRE(whole.exit_code == 0);
    CHECK_THAT(whole.err, ContainsSubstring("vkformer: 1 text, "));
    REQUIRE(lines_of(whole.out).size() == 1);
    const Outcome other = run(score_text("-q --whole --context 32 --stride 16 --json " + input));
    REQUIRE(other.exit_code == 0);
    const json object = json::parse(other.out);
    CHECK(object["log_prob"].get<double>() == Approx(parsed(lines_of(whole.out)[0]).sum).margin(1e-3));
    CHECK(object["log_probs"].size() + 1 == object["tokens"].size());
    const Outcome lines = run(score_text("-q " + input));
    CHECK(lines_of(lines.out).size() == 20);
    std::string words;
    for (int i = 0; i < 20; ++i) words += "the cat and the dog ";
    const Outcome refused = run(score_text("-q --context 32"), "a frog\n" + words + "\na frog\n");
    CHECK(refused.exit_code == 2);
    CHECK(lines_of(refused.out).size() == 1);
    CHECK_THAT(refused.err, ContainsSubstring("line 2") && ContainsSubstring("--stride"));
    const Outcome skipped =
        run(score_text("-q --context 32 --skip-bad-lines --json"), "a frog\n" + words + "\na frog\n");
    CHECK(skipped.exit_code == 0);
    REQUIRE(lines_of(skipped.out).size() == 3);
    CHECK(json::parse(lines_of(skipped.out)[1]).contains("error"));
}

TEST_CASE("score tells translations apart", "[cli][score]") {
    const Outcome two = run(score_dates("--source \"4. März 2021\" 2021-03-04 2021-04-03"));
    REQUIRE(two.exit_code == 0);
    const auto lines = lines_of(two.out);
    REQUIRE(lines.size() == 2);
    CHECK(parsed(lines[0]).sum > parsed(lines[1]).sum + 5);
    CHECK(parsed(lines[1]).text == "2021-04-03");
    const Outcome pairs = run(score_dates("-q --json"), "4. März 2021\t2021-03-04\n");
    REQUIRE(pairs.exit_code == 0);
    const json pair = json::parse(pairs.out);
    CHECK((pair["text"] == "4. März 2021" && pair["translation"] == "2021-03-04"));
    CHECK(pair["log_prob"].get<double>() == Approx(parsed(lines[0]).sum).margin(1e-3));
    const Outcome bare = run(score_dates("-q"), "2021-03-04\n");
    CHECK(bare.exit_code == 2);
    CHECK_THAT(bare.err, ContainsSubstring("line 1: there is no tab"));
    CHECK_THAT(run(score_dates("-q"), " \t2021-03-04\n").err, ContainsSubstring("line 1: it is blank"));
    CHECK_THAT(run(score_dates("-q --source ' ' 2021-03-04")).err, ContainsSubstring("text 1: it is blank"));
    CHECK_THAT(run(score_dates("--whole -i x")).err, ContainsSubstring("--whole is for language models"));
    CHECK_THAT(run(score_dates("--cache-dtype q8_0 x")).err, ContainsSubstring("--cache-dtype is for language models"));
    CHECK_THAT(run(score_text("--source a b")).err, ContainsSubstring("--source is for models that translate"));
}

TEST_CASE("translate prints other ways to go on", "[cli][score][prefix]") {
    const std::string command = "translate -q -d cpu --plain --alternatives 3 --prefix 2021-0 \"4. März 2021\"";
    const Outcome plain = run(command);
    REQUIRE(plain.exit_code == 0);
    REQUIRE(lines_of(plain.out).size() == 3);
    CHECK_THAT(lines_of(plain.out)[0], Catch::Matchers::EndsWith("\t2021-03-04"));
    const Outcome objects = run(command + " --json");
    REQUIRE(objects.exit_code == 0);
    const json first = json::parse(lines_of(objects.out).at(0));
    CHECK((first["piece"] == "3" && first["translation"] == "2021-03-04"));
    CHECK(first["log_prob"].get<double>() > -0.1);
    CHECK_THAT(run("translate -q -d cpu --alternatives 3", "x\n").err, ContainsSubstring("needs texts as arguments"));
}

}  // namespace vkformer::tests

#endif
