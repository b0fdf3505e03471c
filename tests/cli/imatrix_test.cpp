// SPDX-License-Identifier: MIT
/// vkformer imatrix, and convert by what it makes, as a user runs them on the CPU.
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "formats/gguf.hpp"
#include "formats/importance.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

fs::path verse_writer() { return fs::path(VKFORMER_SOURCE_DIR) / "samples/models/verse-writer/verse-writer-q8_0.gguf"; }

/// So many times the same line of some two dozen tokens.
std::string text_of(int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i)
        text += "And the king said unto the people of the land, Go up to the city, and he went up with them.\n";
    return text;
}

}  // namespace

TEST_CASE("imatrix makes of a text what convert rounds by", "[cli][gguf][importance]") {
    const TemporaryFolder folder;
    folder.write("text.txt", text_of(30));
    const std::string model = quoted(verse_writer()), text = quoted(folder / "text.txt");
    const Outcome made = run("imatrix " + model + " " + text + " -d cpu --json -o " + quoted(folder / "m.gguf"));
    CHECK(made.exit_code == 0);
    CHECK_THAT(made.err, ContainsSubstring("vkformer: device: CPU"));
    CHECK_THAT(made.err, ContainsSubstring("vkformer: 35 matrices, 512 of "));
    const json told = json::parse(made.out);
    CHECK(told["output"] == (folder / "m.gguf").string());
    CHECK(told["matrices"] == 35);
    CHECK(told["chunk_size"] == 512);
    CHECK(told["chunk_count"] == 1);
    CHECK(told["text_tokens"] > 512);
    CHECK(told["experts_without_tokens"] == json::object());
    const auto file = must(formats::Gguf::open(folder / "m.gguf"));
    CHECK(must(file.strings("imatrix.datasets")) == std::vector<std::string_view>{(folder / "text.txt").string()});
    const auto importance = must(formats::read_importance(folder / "m.gguf"));
    CHECK(importance.size() == 35);
    CHECK(importance.at("blk.4.ffn_down.weight")->size() == 704);

    const std::string convert = "convert --quiet --dtype q4_0 " + model + " ";
    CHECK(run(convert + quoted(folder / "alike.gguf")).exit_code == 0);
    CHECK(run(convert + quoted(folder / "file.gguf") + " --imatrix " + quoted(folder / "m.gguf")).exit_code == 0);
    const Outcome at_once = run(convert + quoted(folder / "text.gguf") + " -d cpu --imatrix-text " + text);
    CHECK(at_once.exit_code == 0);
    CHECK(at_once.err.empty());
    CHECK(read_file(folder / "text.gguf") == read_file(folder / "file.gguf"));
    CHECK(read_file(folder / "alike.gguf") != read_file(folder / "file.gguf"));
}

TEST_CASE("imatrix takes chunks, standard input, a folder and the head", "[cli][importance]") {
    const TemporaryFolder folder;
    const std::string options = " - -q -d cpu --context 32 --json -o " + quoted(folder / "m.gguf");
    const Outcome two = run("imatrix " + quoted(verse_writer()) + options + " --chunks 2", text_of(6));
    CHECK(two.exit_code == 0);
    CHECK(two.err.empty());
    CHECK(json::parse(two.out)["chunk_count"] == 2);
    CHECK(must(must(formats::Gguf::open(folder / "m.gguf")).strings("imatrix.datasets")) ==
          std::vector<std::string_view>{"standard input"});
    const auto found = [&](const std::string& more) {
        const Outcome outcome = run("imatrix " + quoted(goldens_dir() / "decoder_text") + options + more, text_of(6));
        CHECK(outcome.exit_code == 0);
        return must(formats::read_importance(folder / "m.gguf"));
    };
    CHECK(found("").size() == 14);
    CHECK(found(" --dtype f16").contains("blk.1.attn_output.weight"));
    CHECK(found(" --process-output").contains("output.weight"));
}

TEST_CASE("imatrix says what it cannot do before it has begun", "[cli][importance][errors]") {
    const TemporaryFolder folder;
    folder.write("text.txt", text_of(30));
    folder.write("short.txt", "And the king said.");
    folder.write("empty.txt", "");
    const std::string model = quoted(verse_writer()), text = quoted(folder / "text.txt");
    const auto call = [&](const std::string& read, const std::string& output) {
        return "imatrix -d cpu -q " + read + " -o " + output;
    };
    const std::string output = quoted(folder / "m.gguf");
    refuses(call(model + " " + quoted(folder / "none.txt"), output), "none.txt");
    refuses(call(model + " " + quoted(folder / "short.txt"), output), "fewer than the 512 of a chunk");
    refuses(call(model + " " + quoted(folder / "empty.txt"), output), "has 1 tokens of this model");
    refuses(call(model + " " + text + " --context 513", output), "the model takes 1 to 512");
    refuses(call(model + " " + text + " --context 0", output), "--context");
    refuses(call("/nonexistent.gguf " + text, output), "/nonexistent.gguf");
    refuses(call(quoted(goldens_dir() / "encoders/bert_h20") + " " + text, output), "vkformer embed");
    refuses(call(quoted(goldens_dir() / "gguf_decoders/mixtral.gguf") + " " + text, output), "tokenizer");
    refuses(call(model + " " + text, quoted(folder / "none/m.gguf")), "there is no folder");
    refuses(call(model + " " + text, quoted(folder.path())), "it is a folder");
    refuses(call(model + " " + text, text), "is what is read");
    refuses("imatrix -d cpu " + model + " " + text, "--output");
    // `convert` looks at its destination before it looks for the text.
    refuses("convert --dtype q4_k -d cpu --imatrix-text " + quoted(folder / "none.txt") + " " + model + " " +
                quoted(folder / "none/m.gguf"),
            "there is no folder");
    refuses("bench pipelines --offload 1M", "--offload is for what runs");
    const std::string convert = "convert --dtype q4_0 " + model + " " + quoted(folder / "x.gguf");
    refuses(convert + " --imatrix-text " + quoted(folder / "short.txt") + " -d cpu", "fewer than the 512");
    refuses(convert + " --imatrix-text " + text + " --imatrix " + text, "--imatrix");
    refuses(convert + " -d cpu", "--imatrix-text");
    refuses("convert --dtype f16 " + model + " " + quoted(folder / "x.gguf") + " --imatrix-text " + text,
            "--imatrix-text is for block formats");
    CHECK_FALSE(fs::exists(folder / "m.gguf"));
    CHECK_FALSE(fs::exists(folder / "x.gguf"));
    CHECK(read_file(folder / "text.txt") == text_of(30));
}

}  // namespace vkformer::tests

#endif
