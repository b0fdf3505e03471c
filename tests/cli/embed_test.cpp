// SPDX-License-Identifier: MIT
/// vkformer embed and rerank as a user runs them, on the CPU.
#include <fstream>
#include <iterator>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "support/bounds.hpp"
#include "support/goldens.hpp"
#include "support/temporary_folder.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

std::string embed(const std::string& rest) {
    return "embed -d cpu -m " + sentence_folder("embedder").string() + " " + rest;
}
std::string rerank(const std::string& rest) {
    return "rerank -d cpu -m " + sentence_folder("cross_encoder").string() + " " + rest;
}

std::vector<float> numbers(const std::string& line) {
    std::istringstream stream(line);
    return {std::istream_iterator<float>(stream), {}};
}

}  // namespace

TEST_CASE("embed prints a vector for each text", "[cli][embed]") {
    const json golden = json::parse(std::ifstream(goldens_dir() / "sentences/embedder/golden.json"));
    const auto expected = golden["embeddings"][0].get<std::vector<float>>();
    const auto agrees = [&](const std::vector<float>& found) {
        return found.size() == expected.size() &&
               relative_error(std::span<const float>(found), std::span<const float>(expected)) < 1e-5;
    };
    const std::string text = golden["texts"][0], longest = golden["texts"][6];

    const Outcome plain = run(embed("\"" + text + "\" \"" + longest + "\""));
    REQUIRE(plain.exit_code == 0);
    REQUIRE(lines_of(plain.out).size() == 2);
    CHECK(agrees(numbers(lines_of(plain.out)[0])));
    CHECK_THAT(plain.err, ContainsSubstring("1 text was longer than 16 tokens"));

    const Outcome objects = run(embed("-q --json"), text + "\n" + longest + "\n");
    REQUIRE(objects.exit_code == 0);
    const json first = json::parse(lines_of(objects.out).at(0)), second = json::parse(lines_of(objects.out).at(1));
    CHECK(agrees(first["embedding"].get<std::vector<float>>()));
    CHECK(first["text"] == text);
    CHECK_FALSE(first.contains("cut"));
    CHECK(second["tokens"] == 16);
    CHECK(second["cut"] > 0);
}

TEST_CASE("embed writes NumPy's format", "[cli][embed]") {
    TemporaryFolder folder;
    const std::string output = (folder / "vectors.npy").string(), input = (folder / "lines.txt").string();
    std::ofstream(input) << "the cat\nthe dog\r\n\n";
    const Outcome outcome = run(embed("-q -i " + input + " -o " + output));
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.out.empty());
    std::ifstream file(output, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    CHECK(bytes.starts_with("\x93NUMPY\x01"));
    CHECK_THAT(bytes, ContainsSubstring("'shape': (3, 9), "));
    CHECK(bytes.size() == 128 + 3 * 9 * 4);
    CHECK(bytes[127] == '\n');
}

TEST_CASE("rerank orders documents by their scores", "[cli][embed]") {
    const json golden = json::parse(std::ifstream(goldens_dir() / "sentences/cross_encoder/golden.json"));
    std::string pairs;
    for (const json& pair : golden["pairs"])
        pairs += pair[0].get<std::string>() + "\t" + pair[1].get<std::string>() + "\n";
    const Outcome scores = run(rerank("-q --pairs"), pairs);
    REQUIRE(scores.exit_code == 0);
    const auto lines = lines_of(scores.out);
    REQUIRE(lines.size() == golden["scores"].size());
    for (std::size_t i = 0; i < lines.size(); ++i)
        CHECK(std::abs(std::stod(lines[i]) - golden["scores"][i][0].get<double>()) < 1e-5);

    const Outcome ordered = run(rerank("-q --json \"the cat\" \"on the mat\" \"the sea\" dog coat"));
    REQUIRE(ordered.exit_code == 0);
    double last = 2;
    for (const std::string& line : lines_of(ordered.out)) {
        const double score = json::parse(line)["score"];
        CHECK(score <= last);
        last = score;
    }
    CHECK(lines_of(run(rerank("-q --top 2 \"the cat\" a b c")).out).size() == 2);
}

TEST_CASE("embed and rerank say what is wrong", "[cli][embed][errors]") {
    refuses("embed x", "--model");
    refuses("embed -m /nonexistent x", "/nonexistent");
    refuses(embed("-i /nonexistent"), "/nonexistent");
    refuses(embed("--pooling median x"), "pooling");
    refuses(embed("--prompt-name none x"), "it has document, query");
    refuses(embed("-o /nonexistent/x.npy x"), "/nonexistent/x.npy");
    refuses("rerank -d cpu -m " + sentence_folder("embedder").string() + " q d", "no classification head");
    refuses("rerank -d cpu -m " + sentence_folder("cross_encoder_labels").string() + " q d", "--in-order");
    refuses(rerank("--pairs"), "line 1: there is no tab", "no tab here\n");
}

}  // namespace vkformer::tests

#endif
