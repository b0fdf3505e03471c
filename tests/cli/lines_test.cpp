// SPDX-License-Identifier: MIT
/// Commands that read lines: what a bad one costs.
#include <cmath>
#include <cstring>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using nlohmann::json;
namespace fs = std::filesystem;

const std::string kTranslate = "translate --device cpu --quiet --beams 1 ";
const std::string kEmbed = "embed -q -d cpu --model " + quoted(goldens_dir() / "sentences/embedder") + " ";
const std::string kRerank = "rerank -q -d cpu --model " + quoted(goldens_dir() / "sentences/cross_encoder") + " ";

}  // namespace

TEST_CASE("translate: a bad line ends the work after those before it", "[cli][translate][lines]") {
    const Outcome ended = run(kTranslate, "March 4, 2021\nfoo\xff\n5 May 2001\n");
    CHECK(ended.exit_code == 2);
    CHECK(ended.out == "2021-03-04\n");
    CHECK(ended.err == "vkformer: error: line 2: the text is not UTF-8 at byte 3\n");

    const Outcome json_ended = run(kTranslate + "--json", "March 4, 2021\nfoo\xff\n5 May 2001\n");
    CHECK(json_ended.exit_code == 2);
    CHECK(lines_of(json_ended.out).size() == 1);

    const Outcome arguments = run(kTranslate + "'March 4, 2021' \"$(printf 'a\\377')\" '2001/2/3'");
    CHECK(arguments.exit_code == 2);
    CHECK(arguments.out == "2021-03-04\n");
    CHECK(arguments.err == "vkformer: error: text 2: the text is not UTF-8 at byte 1\n");
}

TEST_CASE("translate: bad lines are skipped where that is asked for", "[cli][translate][lines]") {
    std::string long_text;
    for (int i = 0; i < 2000; ++i) long_text += "7 ";
    const std::string input =
        "March 4, 2021\nfoo\xff\n2001/2/3\n" + long_text + "\n" + std::string(1 << 21, 'x') + "\n20210304\n";
    const Outcome skipped = run(kTranslate + "--skip-bad-lines", input);
    CHECK(skipped.exit_code == 0);
    CHECK(skipped.out == "2021-03-04\n\n2001-02-03\n\n\n2021-03-04\n");
    const auto said = lines_of(skipped.err);
    REQUIRE(said.size() == 4);
    CHECK(said[0] == "vkformer: line 2: the text is not UTF-8 at byte 3");
    CHECK_THAT(said[1], ContainsSubstring("line 4: it has ") && ContainsSubstring("the model takes at most"));
    CHECK(said[2] == "vkformer: line 5: it is longer than 1048576 bytes");
    CHECK(said[3] == "vkformer: 3 of 6 lines skipped");

    const Outcome objects = run(kTranslate + "--skip-bad-lines --json", input);
    CHECK(objects.exit_code == 0);
    const auto lines = lines_of(objects.out);
    REQUIRE(lines.size() == 6);
    CHECK(json::parse(lines[1]) == json{{"line", 2}, {"error", "the text is not UTF-8 at byte 3"}});
    CHECK(json::parse(lines[4]) == json{{"line", 5}, {"error", "it is longer than 1048576 bytes"}});
    CHECK(json::parse(lines[5])["translation"] == "2021-03-04");
}

TEST_CASE("translate: lines are counted in the file, not in the piece that is read at a time",
          "[cli][translate][lines]") {
    // Blank lines cost nothing.
    const std::string before = std::string(2500, '\n') + "2001/2/3\n";
    const Outcome ended = run(kTranslate, before + "foo\xff\n");
    CHECK(ended.exit_code == 2);
    CHECK(ended.out == std::string(2500, '\n') + "2001-02-03\n");
    CHECK_THAT(ended.err, ContainsSubstring("error: line 2502: "));
}

TEST_CASE("lines end as they do everywhere, and the last may have no end", "[cli][translate][lines]") {
    const Outcome outcome = run(kTranslate, "2001/2/3\r\n\r\n20210304\r");
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out == "2001-02-03\n\n2021-03-04\n");
}

TEST_CASE("embed: bad lines", "[cli][embed][lines]") {
    const TemporaryFolder folder;
    std::ofstream(folder / "lines") << "A cat.\nfoo\xff\nA dog.\n";
    const std::string input = "--input " + quoted(folder / "lines");
    const Outcome good = run(kEmbed + "'A cat.' 'A dog.'");
    const auto rows = lines_of(good.out);
    REQUIRE(rows.size() == 2);

    const Outcome ended = run(kEmbed + input);
    CHECK(ended.exit_code == 2);
    CHECK(lines_of(ended.out).size() == 1);
    CHECK(ended.err == "vkformer: error: line 2: the text is not UTF-8 at byte 3\n");

    const Outcome skipped = run(kEmbed + "--skip-bad-lines " + input);
    CHECK(skipped.exit_code == 0);
    CHECK(lines_of(skipped.out).size() == 3);
    CHECK(lines_of(skipped.out)[1].empty());
    CHECK_THAT(skipped.err, EndsWith("vkformer: 1 of 3 lines skipped\n"));

    const Outcome objects = run(kEmbed + "--skip-bad-lines --json " + input);
    CHECK(json::parse(lines_of(objects.out)[1])["line"] == 2);

    // A file is whole or not there; the row of a skipped line is visibly none.
    const std::string npy = " --output " + quoted(folder / "x.npy");
    CHECK(run(kEmbed + input + npy).exit_code == 2);
    CHECK_FALSE(fs::exists(folder / "x.npy"));
    CHECK(run(kEmbed + "--skip-bad-lines " + input + npy).exit_code == 0);
    const std::string bytes = read_file(folder / "x.npy");
    CHECK_THAT(bytes, ContainsSubstring("'shape': (3, "));
    const std::size_t row_bytes = (bytes.size() - 128) / 3;
    std::vector<float> row(row_bytes / sizeof(float));
    std::memcpy(row.data(), bytes.data() + bytes.size() - 2 * row_bytes, row_bytes);
    for (const float value : row) REQUIRE(std::isnan(value));
    std::memcpy(row.data(), bytes.data() + bytes.size() - row_bytes, row_bytes);
    for (const float value : row) REQUIRE_FALSE(std::isnan(value));
}

TEST_CASE("rerank: bad lines", "[cli][rerank][lines]") {
    const std::string documents = "It is a cat.\nfoo\xff\nA dog barks.\n";
    const Outcome ended = run(kRerank + "'What is it?'", documents);
    CHECK(ended.exit_code == 2);
    CHECK(ended.out == "");  // what is best among some of them is no answer
    CHECK(ended.err == "vkformer: error: line 2: the text is not UTF-8 at byte 3\n");
    const Outcome in_order = run(kRerank + "--in-order 'What is it?'", documents);
    CHECK(in_order.exit_code == 2);
    CHECK_THAT(in_order.out, EndsWith("\tIt is a cat.\n"));

    const Outcome skipped = run(kRerank + "--skip-bad-lines 'What is it?'", documents);
    CHECK(skipped.exit_code == 0);
    CHECK(lines_of(skipped.out).size() == 2);
    const Outcome pairs = run(kRerank + "--skip-bad-lines --pairs", "a\tb\nno tab\nc\td\n");
    CHECK(pairs.exit_code == 0);
    REQUIRE(lines_of(pairs.out).size() == 3);
    CHECK(lines_of(pairs.out)[1].empty());
    CHECK_THAT(pairs.err, ContainsSubstring("line 2: there is no tab between two texts"));
    const Outcome objects = run(kRerank + "--skip-bad-lines --pairs --json", "a\tb\nno tab\nc\td\n");
    REQUIRE(lines_of(objects.out).size() == 3);
    CHECK(json::parse(lines_of(objects.out)[1])["line"] == 2);
    CHECK(json::parse(lines_of(objects.out)[2])["index"] == 2);
}

TEST_CASE("what cannot be read is said", "[cli][lines][errors]") {
    const TemporaryFolder folder;
    refuses(kEmbed + "--input " + quoted(folder.path()), folder.path().string() + ": Is a directory");
    refuses(kEmbed + "--input " + quoted(folder / "none"), "none: No such file or directory");
    refuses(kRerank + "--pairs --input " + quoted(folder / "none"), "none: No such file or directory");
}

}  // namespace vkformer::tests

#endif
