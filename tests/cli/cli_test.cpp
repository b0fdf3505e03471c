// SPDX-License-Identifier: MIT
/// The vkformer program as a user runs it: arguments in, output and exit code out. On the CPU; the devices have their own tests.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>

#include <nlohmann/json.hpp>

#include <sys/wait.h>

#include "cli/run_program.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/temporary_folder.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

std::string case_folder(const std::string& name) { return (goldens_dir() / "marian" / name).string(); }

}  // namespace

TEST_CASE("help that cannot be written is an error", "[cli][errors]") {
    if (!std::filesystem::exists("/dev/full")) return;
    const TemporaryFolder folder;
    for (const std::string arguments : {"--help", "--version", "translate --help"}) {
        CAPTURE(arguments);
        const std::string command =
            std::string(VKFORMER_CLI) + " " + arguments + " > /dev/full 2> " + (folder / "err").string();
        const int status = std::system(command.c_str());
        CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 2));
        CHECK_THAT(read_file(folder / "err"), ContainsSubstring("vkformer: error: cannot write to standard output"));
    }
    CHECK(run("--help").exit_code == 0);
}

TEST_CASE("the program explains itself", "[cli]") {
    for (const std::string command :
         {"", "info ", "translate ", "embed ", "rerank ", "forward ", "validate ", "attention ", "tune ", "inspect ",
          "convert ", "bench ", "bench ops ", "bench model ", "bench compare ", "bench shader "}) {
        CAPTURE(command);
        const Outcome outcome = run(command + "--help");
        CHECK(outcome.exit_code == 0);
        CHECK_THAT(outcome.out, ContainsSubstring("Example"));
    }
    CHECK(run("bench --help").out.find("vkformer translate") == std::string::npos);  // the examples are its own
    CHECK(run("--version").exit_code == 0);
}

TEST_CASE("wrong usage is said, with exit code 2", "[cli][errors]") {
    refuses("", "command");
    refuses("nonsense", "nonsense");
    refuses("embed", "see vkformer embed --help");
    refuses("bench compare", "see vkformer bench compare --help");
    refuses("translate --beams 0 x", "beams");
    refuses("translate --dtype f8 x", "dtype");
    refuses("translate --model /nonexistent x", "/nonexistent");
    refuses("translate --device no-such-device x", "device");
    refuses("forward --input in.safetensors", "--output");
    refuses("attention text", "--output");
    refuses("translate --variant linear x", "OP=NAME");
    refuses("translate --variant linear=fastest x", "tile_vec4");
    refuses("translate --variant lineal=plain x", "linear");
    refuses("attention text -o map.gif --device cpu", ".png");
    refuses("attention text -o /nonexistent/map.png --device cpu", "/nonexistent/map.png");
    refuses("attention text -o /nonexistent/map.png --layer 99 --device cpu", "layer");
}

TEST_CASE("translate: arguments, lines, JSON", "[cli][translate]") {
    const Outcome one = run("translate --device cpu 'March 4, 2021' '4. Maerz'");
    CHECK(one.exit_code == 0);
    CHECK_THAT(one.out, Catch::Matchers::StartsWith("2021-03-04\n"));
    CHECK_THAT(one.err, ContainsSubstring("vkformer: device: CPU (float)"));

    const Outcome lines = run("translate --device cpu --quiet --beams 1", "March 4, 2021\n\n2001/2/3\r\n20210304");
    CHECK(lines.exit_code == 0);
    CHECK(lines.out == "2021-03-04\n\n2001-02-03\n2021-03-04\n");
    CHECK(lines.err.empty());

    const Outcome objects = run("translate --device cpu --json --beams 2 --batch 3", "March 4, 2021\n2001/2/3\n");
    CHECK(objects.exit_code == 0);
    const json first = json::parse(objects.out.substr(0, objects.out.find('\n')));
    CHECK(first["source"] == "March 4, 2021");
    CHECK(first["translation"] == "2021-03-04");
    CHECK(first["score"].get<double>() <= 0);
    CHECK(first["tokens"].size() > 3);
    CHECK(!first.contains("further"));

    const Outcome ranked = run("translate --device cpu --json --beams 4 --hypotheses 3 \"March 4, 2021\"");
    CHECK(ranked.exit_code == 0);
    const json best = json::parse(ranked.out);
    REQUIRE(best["further"].size() == 2);
    CHECK(best["further"][0]["score"] <= best["score"]);
    CHECK(best["further"][1]["score"] <= best["further"][0]["score"]);
    CHECK(best["further"][0]["translation"] != best["translation"]);
    CHECK(best["further"][0]["tokens"].size() > 3);
    const Outcome too_many = run("translate --device cpu --json --beams 2 --hypotheses 3 \"March 4, 2021\"");
    CHECK(too_many.exit_code != 0);
    CHECK_THAT(too_many.err, ContainsSubstring("3 translations of each text are asked for, and 2 beams find 1 to 2"));
    CHECK_THAT(run("translate --device cpu --beams 4 --hypotheses 3 x").err, ContainsSubstring("needs --json"));

    CHECK(run("translate --device cpu -q", "").out.empty());
    CHECK(run("translate --device cpu -q", "").exit_code == 0);
}

TEST_CASE("a device's name is found in letters of any case", "[cli]") {
    const Outcome found = run("translate -d CPU 4.3.2021");
    CHECK(found.exit_code == 0);
    CHECK(found.out == "2021-03-04\n");
    CHECK_THAT(found.err, ContainsSubstring("device: CPU (float)"));
}

TEST_CASE("validate: every graph of a model, in text and JSON", "[cli][validate]") {
    const Outcome text = run("validate --device cpu --length 11 --model " + case_folder("relu_d30_h5_h3"));
    CAPTURE(text.out, text.err);
    CHECK(text.exit_code == 0);
    for (const char* graph :
         {"forward:", "attention weights kept:", "encoder of a generation:", "greedy step:", "beam step:"})
        CHECK_THAT(text.out, ContainsSubstring(graph));
    const Outcome outcome = run("validate --json --dtype f16 --device cpu --model " + case_folder("swish_d64_h4_opus"));
    CHECK(outcome.exit_code == 0);
    const json report = json::parse(outcome.out);
    REQUIRE(report["reports"].size() == 5);
    for (const json& graph : report["reports"]) {
        CHECK(graph["first_divergence"].is_null());
        CHECK(graph["checks"].size() > 5);
    }
}

TEST_CASE("validate: what diverges is named, printed and ends with exit code 1", "[cli][validate][errors]") {
    const TemporaryFolder folder;
    const fs::path model = folder.path() / "model";
    fs::copy(case_folder("relu_d30_h5_h3"), model);
    std::string file = read_file(model / "model.safetensors");
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
    const json header = json::parse(file.substr(8, header_bytes));
    const json& weight = header["model.encoder.layers.1.fc1.weight"];
    const auto range = weight["data_offsets"].get<std::array<std::size_t, 2>>();
    const auto in_width = weight["shape"][1].get<std::size_t>();
    // Weights whose products leave the range of float32 and not that of double precision: one of each row, so that none meets another.
    for (std::size_t i = 0; i < (range[1] - range[0]) / sizeof(float); ++i) {
        const float value = i % in_width == 0 ? 3e38f : 0;
        std::memcpy(file.data() + 8 + header_bytes + range[0] + i * sizeof(float), &value, sizeof(value));
    }
    std::ofstream(model / "model.safetensors", std::ios::binary) << file;

    const std::string command = " --device cpu --length 5 --model " + model.string();
    const Outcome text = run("validate" + command);
    CAPTURE(text.out, text.err);
    CHECK(text.exit_code == 1);
    CHECK_THAT(text.out, ContainsSubstring("first divergence: node encoder.1.fc1.linear (linear)") &&
                             ContainsSubstring("error inf") && Catch::Matchers::EndsWith("diverges\n"));
    const Outcome outcome = run("validate --json" + command);
    CHECK(outcome.exit_code == 1);
    const json report = json::parse(outcome.out)["reports"][0];
    CHECK(report["first_divergence"]["node"] == "encoder.1.fc1.linear");
    CHECK(report["first_divergence"]["error"] == "inf");
    CHECK(report["first_divergence"]["diverges"] == true);
    const auto norm = std::ranges::find_if(
        report["checks"], [](const json& check) { return check["node"] == "encoder.1.final_layer_norm.layer_norm"; });
    REQUIRE(norm != report["checks"].end());
    CHECK((*norm)["error"] == "nan");  // of infinities
    CHECK((*norm)["diverges"] == true);
}

TEST_CASE("attention: a picture of every head", "[cli][attention]") {
    const TemporaryFolder folder;
    const std::string png = (folder / "map.png").string(), svg = (folder / "map.svg").string(),
                      out = (folder / "map.json").string();
    const Outcome outcome = run("attention 'March 4, 2021' --device cpu -o " + png);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out == "2021-03-04\n");
    CHECK(read_file(png).substr(1, 3) == "PNG");
    CHECK(read_file(png).size() > 20'000);
    CHECK(run("attention 'March 4, 2021' --device cpu -o " + svg + " --kind cross --layer 1 --head 2").exit_code == 0);
    CHECK_THAT(read_file(svg), ContainsSubstring("<svg"));

    REQUIRE(run("attention 'March 4, 2021' --device cpu -o " + out).exit_code == 0);
    const json weights = json::parse(read_file(out));
    CHECK(weights["translation"] == "2021-03-04");
    REQUIRE(weights["maps"].size() > 3);
    for (const json& map : weights["maps"]) {
        const bool reads_source = map["kind"] != "decoder";
        CHECK(map["weights"].size() == weights[map["kind"] == "encoder" ? "source_tokens" : "written_tokens"].size());
        for (const json& row : map["weights"]) {
            CHECK(row.size() == weights[reads_source ? "source_tokens" : "decoder_input_tokens"].size());
            double sum = 0;
            for (const json& weight : row) sum += weight.get<double>();
            CHECK(sum == Approx(1).epsilon(1e-5));
        }
    }
}

TEST_CASE("recurrent models go through the same commands", "[cli][recurrent]") {
    const std::string models = std::string(VKFORMER_SOURCE_DIR) + "/samples/models/history/copy/";
    const Outcome copied = run("translate --device cpu --model " + models + "luong-general 31415926 1");
    CHECK(copied.exit_code == 0);
    CHECK(copied.out == "31415926\n1\n");
    const Outcome beams = run("translate --device cpu --json --beams 4 --model " + models + "bahdanau 31415926");
    CHECK(beams.exit_code == 0);
    CHECK(json::parse(beams.out)["translation"] == "31415926");

    const std::string folder = " --model " + (goldens_dir() / "seq2seq" / "lstm_general_local_m").string();
    const Outcome validated = run("validate --json --device cpu --length 5" + folder);
    CHECK(validated.exit_code == 0);
    REQUIRE(json::parse(validated.out)["reports"].size() == 5);
    CHECK(run("info" + folder).exit_code == 0);
    CHECK(run("bench model --device cpu --runs 1 --length 8 --steps 4" + folder).exit_code == 0);

    const TemporaryFolder out;
    const std::string map = (out / "map.json").string();
    REQUIRE(run("attention 8675309 --device cpu -o " + map + " --model " + models + "luong-local-p").exit_code == 0);
    const json weights = json::parse(read_file(map));
    REQUIRE(weights["maps"].size() == 1);
    CHECK(weights["maps"][0]["kind"] == "cross");
    const Outcome blind = run("attention 8675309 --device cpu -o " + map + " --model " + models + "lstm");
    CHECK(blind.exit_code == 2);
    CHECK_THAT(blind.err, ContainsSubstring("without attention"));
}

TEST_CASE("generate: text, JSON and token ids", "[cli][generate]") {
    const std::string model = "--device cpu --model " + (goldens_dir() / "decoder_text").string();
    std::ifstream file(goldens_dir() / "decoder_text" / "expected.json");
    const auto entry = nlohmann::json::parse(file)["prompts"][0];
    const std::string text = entry["text"].get<std::string>();

    const Outcome plain = run("generate -n 48 Hello " + model);
    CHECK(plain.exit_code == 0);
    CHECK(plain.out == text + "\n");
    CHECK(plain.err.find("prompt: 2 tokens, ") != plain.err.npos);
    CHECK(plain.err.find("generated: 48 tokens, ") != plain.err.npos);
    CHECK(run("generate -n 1 --prompt-tokens 274 " + model).err.find("prompt: 1 token; generated") != plain.err.npos);
    const Outcome quiet = run("generate -q -n 48 --echo Hello " + model);
    CHECK(quiet.out == "Hello" + text + "\n");
    CHECK(quiet.err.empty());
    CHECK(run("generate -q -n 48 " + model, "Hello").out == text + "\n");
    CHECK(run("generate -q -n 48 --echo " + model, "Hello").out == "Hello" + text + "\n");
    CHECK(run("generate -q -n 48 --echo --prompt-lookup 6 Hello " + model).out == "Hello" + text + "\n");
    CHECK(run("generate -q --prompt-lookup 65 Hello " + model).exit_code == 2);
    const std::string draft = " --draft " + (goldens_dir() / "decoder_text").string();
    for (const char* const tokens : {"", " --draft-tokens 3", " --draft-tokens 0"}) {
        const Outcome drafted = run("generate -n 48 Hello " + model + draft + tokens);
        CHECK(drafted.out == text + "\n");
        CHECK((drafted.err.find("; guesses: none") != drafted.err.npos) ==
              (std::string(tokens) == " --draft-tokens 0"));
        CHECK(drafted.err.find("; guesses: ") != drafted.err.npos);
    }
    CHECK(run("generate -q --draft-tokens 3 Hello " + model).exit_code == 2);
    CHECK(run("generate -q --prompt-lookup 3 Hello " + model + draft).exit_code == 2);
    const Outcome other = run("generate -q Hello " + model + " --draft " + quoted(goldens_dir() / "decoders/qwen3"));
    CHECK(other.exit_code == 0);  // that has no tokenizer to be compared
    const Outcome wrong =
        run("generate -q Hello " + model + " --draft " +
            quoted(std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/verse-writer/verse-writer-q8_0.gguf"));
    CHECK(wrong.exit_code == 2);
    CHECK_THAT(wrong.err, ContainsSubstring("a draft model needs the model's own vocabulary, and token "));
    const std::string guessing = "generate --json -n 24 --prompt-tokens 25,25,52 --device cpu --model " +
                                 quoted(goldens_dir() / "multi_token/deepseek_v3");
    const Outcome guessed = run(guessing + " --multi-token");
    CAPTURE(guessed.out, guessed.err);
    CHECK(guessed.out == run(guessing).out);
    CHECK(guessed.err.find("; guesses: ") != guessed.err.npos);
    CHECK(run(guessing + " --multi-token --draft-tokens 0").err.find("; guesses: none") != guessed.err.npos);
    CHECK(run(guessing + " --multi-token --prompt-lookup 3").exit_code == 2);
    CHECK(run(guessing + " --multi-token" + draft).exit_code == 2);
    CHECK_THAT(run("generate -q --multi-token Hello " + model).err, ContainsSubstring("no multi-token head"));
    CHECK(run("generate -q -n 48 --echo --prompt-tokens 274,270 Hello " + model).out == text + "\nHello" + text + "\n");

    const Outcome events = run("generate -q -n 48 --json --prompt-tokens 274,270 " + model);
    std::istringstream lines(events.out);
    std::string line, streamed;
    std::vector<std::int32_t> ids;
    nlohmann::json last;
    while (std::getline(lines, line)) {
        last = nlohmann::json::parse(line);
        if (last["event"] == "token") ids.push_back(last["token"].get<std::int32_t>());
        if (last["event"] != "end") streamed += last["text"].get<std::string>();
    }
    CHECK(ids == entry["ids"].get<std::vector<std::int32_t>>());
    CHECK(last["event"] == "end");
    CHECK(last["finish"] == "length");
    CHECK(last["text"] == text);
    CHECK(streamed == text);
    CHECK_FALSE(last.contains("log_probs"));
    const Outcome scored = run("generate -q -n 48 --json --log-probs 2 --prompt-tokens 274,270 " + model);
    const auto end = nlohmann::json::parse(scored.out.substr(scored.out.rfind('\n', scored.out.size() - 2) + 1));
    CHECK(end["text"] == text);
    REQUIRE(end["log_probs"].size() == ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto& step = end["log_probs"][i];
        CHECK((step["token"] == ids[i] && step["log_prob"] < 0 && step["likeliest"].size() == 2));
        CHECK((step["likeliest"][0]["token"] == ids[i] && step["likeliest"][0]["log_prob"] == step["log_prob"]));
        CHECK(step["likeliest"][1]["log_prob"] <= step["log_prob"]);
    }

    CHECK(run("generate -q -n 48 --stop never --logit-bias 5=0 --variant linear=tile Hello " + model).out ==
          text + "\n");

    CHECK(run("generate -q -n 2 --prompt-tokens 1,x " + model).exit_code == 2);
    CHECK(run("generate -q -n 2 --temperature -1 Hello " + model).exit_code == 2);
    CHECK(run("generate -q -n 2 --context 100000 Hello " + model).exit_code == 2);
    CHECK(run("generate -q -n 2 --log-probs 2 Hello " + model).exit_code == 2);
    CHECK(run("generate -q -n 2 --json --log-probs 21 Hello " + model).exit_code == 2);
}

TEST_CASE("generate: without --model it is the shipped language model", "[cli][generate][verse]") {
    std::ifstream file(goldens_dir() / "verse_writer.json");
    const auto entry = nlohmann::json::parse(file)["cases"][0];
    const auto count = std::to_string(entry["greedy_ids"].size());
    const Outcome text =
        run("generate -q --device cpu --plain -n " + count + " '" + entry["prompt"].get<std::string>() + "'");
    CHECK(text.exit_code == 0);
    CHECK(text.out == entry["text"].get<std::string>() + "\n");
    refuses("chat -n 2 Hello", "--model is required");
}

TEST_CASE("generate: a seed is no negative number, and an empty text ends nothing", "[cli][generate][errors]") {
    const std::string model = " --device cpu Hello --model " + (goldens_dir() / "decoder_text").string();
    refuses("generate -q -n 2 --seed -5" + model, "--seed");
    refuses("generate -q -n 2 --stop ''" + model, "an empty text ends nothing");
    refuses("generate -q -n 2 --stop x --stop ''" + model, "an empty text ends nothing");
    CHECK(run("generate -q -n 2 --seed 18446744073709551615 --stop ' '" + model).exit_code == 0);
}

TEST_CASE("generate, chat: a text that has to be something", "[cli][generate][chat]") {
    const TemporaryFolder folder;
    folder.write(
        "schema.json",
        R"({"type": "object", "properties": {"n": {"enum": [3]}}, "required": ["n"], "additionalProperties": false})");
    const std::string model = " --device cpu --model " + (goldens_dir() / "decoder_text").string();
    const auto written = [&](const std::string& options) {
        const Outcome outcome = run("generate -q -n 60 " + options + " Hello" + model);
        CAPTURE(options, outcome.err);
        CHECK(outcome.exit_code == 0);
        return outcome.out;
    };
    const std::string chosen = written("--choice yes --choice no");
    CHECK((chosen == "yes\n" || chosen == "no\n"));
    CHECK(std::regex_match(written("--regex '[0-9]{3}-[a-z]{2}'"), std::regex("[0-9]{3}-[a-z]{2}\n")));
    CHECK(nlohmann::json::parse(written("--json-object")).is_object());
    const std::string schema = quoted(folder / "schema.json");
    CHECK(nlohmann::json::parse(written("--json-schema " + schema)) == nlohmann::json{{"n", 3}});
    CHECK(nlohmann::json::parse(written("--json-schema \"$(cat " + schema + ")\"")) == nlohmann::json{{"n", 3}});
    CHECK(run("chat -q --choice yes Hi" + model).out == "yes\n");

    refuses("generate --json-object --regex a Hello" + model, "--json-object excludes --regex");
    refuses("generate -q --regex '(' Hello" + model, "the regular expression at byte 1");
    refuses("generate -q --json-schema '{\"type\": 3}' Hello" + model, "\"type\" has what is no type");
    refuses("generate -q --json-schema nowhere.json Hello" + model, "cannot open nowhere.json");
    refuses("generate -q --choice '' Hello" + model, "an empty text cannot be chosen");
}

TEST_CASE("generate: tokens do without a tokenizer", "[cli][generate]") {
    const TemporaryFolder folder;
    const auto bare = folder / "bare";
    fs::create_directory(bare);
    for (const char* name : {"config.json", "generation_config.json", "model.safetensors"})
        fs::copy(goldens_dir() / "decoder_text" / name, bare / name);
    std::ifstream file(goldens_dir() / "decoder_text" / "expected.json");
    const auto entry = nlohmann::json::parse(file)["prompts"][0];
    const auto ids = entry["ids"].get<std::vector<std::int32_t>>();
    std::string list;
    for (const std::int32_t id : ids) list += (list.empty() ? "" : ",") + std::to_string(id);
    const std::string command = "generate -q -n 48 --device cpu --model " + bare.string() + " ";
    CHECK(run(command + "--prompt-tokens 274,270").out == list + "\n");
    CHECK(run(command + "--prompt-tokens 274,270 --prompt-tokens 274,270").out == list + "\n" + list + "\n");
    CHECK(run(command + "--prompt-tokens 274,270 --beams 1").out == list + "\n");
    CHECK(run(command + "--prompt-tokens 274,270 --beams 2").out.find(',') != std::string::npos);
    const Outcome events = run(command + "--json --prompt-tokens 274,270");
    const auto last = nlohmann::json::parse(events.out.substr(events.out.rfind("\n{") + 1));
    CHECK(last["tokens"] == ids);
    CHECK_FALSE(last.contains("text"));
    refuses(command + "Hello", "tokenizer");
    refuses(command + "--prompt-tokens 5 --stop x", "tokenizer");
    refuses("chat -q --device cpu Hello --model " + bare.string(), "tokenizer");
    std::ofstream(bare / "tokenizer.json") << "{";
    refuses(command + "--prompt-tokens 5", "tokenizer.json");
}

TEST_CASE("chat: turns from arguments and from lines", "[cli][chat]") {
    const std::string model = "--device cpu --model " + (goldens_dir() / "decoder_text").string();
    std::ifstream file(goldens_dir() / "decoder_text" / "expected.json");
    const auto entry = nlohmann::json::parse(file)["conversations"][1];
    const Outcome chat = run("chat -q -n 48 --system 'Be brief.' '  What is a frog? ' " + model);
    CHECK(chat.exit_code == 0);
    CHECK(chat.out == entry["text"].get<std::string>() + "\n");

    const Outcome lines = run("chat -q -n 4 --json " + model, "Hello\n\nand now?\n");
    CHECK(lines.exit_code == 0);
    std::istringstream out(lines.out);
    std::string line;
    std::vector<nlohmann::json> ends;
    while (std::getline(out, line))
        if (auto event = nlohmann::json::parse(line); event["event"] == "end") ends.push_back(event);
    REQUIRE(ends.size() == 2);
    CHECK(ends[0]["reused_tokens"] == 0);
    CHECK(ends[1]["reused_tokens"] > 0);
    CHECK(ends[1]["prompt_tokens"] > ends[0]["prompt_tokens"]);
}

TEST_CASE("validate: the graphs of a language model", "[cli][validate]") {
    for (const std::string model : {"decoders/gemma2", "decoder_text", "gguf_decoders/llama_gqa_odd.gguf"}) {
        CAPTURE(model);
        const Outcome text = run("validate -q --device cpu --model " + (goldens_dir() / model).string());
        CHECK(text.exit_code == 0);
        CHECK_THAT(text.out, ContainsSubstring("forward: ") && ContainsSubstring("attention weights kept: ") &&
                                 ContainsSubstring("greedy step: ") && ContainsSubstring("beam step: "));
    }
}

TEST_CASE("bench model: a decoder's rates", "[cli][bench]") {
    const Outcome bench = run("bench model -q --json --device cpu --length 8 --steps 4 --runs 2 --model " +
                              (goldens_dir() / "decoder_text").string());
    REQUIRE(bench.exit_code == 0);
    const auto report = nlohmann::json::parse(bench.out);
    CHECK(report["decode_tokens_per_second"]["median"] > 0);
    CHECK(report["prompt_tokens_per_second"]["median"] > 0);
    CHECK(report["weight_bytes_per_step"] > 300 * 32 * 4);
}

TEST_CASE("bench model: a decoder's rates with beams", "[cli][bench][beam]") {
    const std::string model = "bench model -q --device cpu --length 8 --steps 4 --runs 2 --model ";
    const std::string decoder = model + (goldens_dir() / "decoder_text").string();
    const json one = json::parse(run(decoder + " --json").out), three = json::parse(run(decoder + " --json -b 3").out);
    CHECK(one["beams"] == 1);
    CHECK(three["beams"] == 3);
    CHECK(three["decode_tokens_per_second"]["median"] > 0);
    CHECK(three["prompt_tokens_per_second"]["median"] > 0);
    CHECK(three["cache_bytes"] > 2 * one["cache_bytes"].get<std::uint64_t>());
    CHECK(three["weight_bytes_per_step"] == one["weight_bytes_per_step"]);
    CHECK_THAT(run(decoder + " --beams 3").out, ContainsSubstring("3 beams\n") && ContainsSubstring("first text "));
    refuses(decoder + " --beams 3 --batch 2", "one by one");
    refuses(model + (goldens_dir() / "encoders/bert_pairs").string() + " --beams 2", "answers in one pass");
    refuses(model + (goldens_dir() / "encoders/bert_pairs").string() + " --weights dtype", "leave out --weights");
}

TEST_CASE("info: devices as text and JSON", "[cli][info]") {
    const Outcome text = run("info");
    CHECK(text.exit_code == 0);
    CHECK_THAT(text.out, ContainsSubstring("CPU (float)"));
    const Outcome outcome = run("info --json");
    CHECK(outcome.exit_code == 0);
    const json report = json::parse(outcome.out);
    REQUIRE(report["devices"].is_array());
    for (const json& device : report["devices"]) {
        CHECK(device["uuid"].get<std::string>().size() == 32);
        CHECK(device["limits"]["max_storage_buffer_range"].get<std::uint64_t>() >= (1u << 27));
        if (device["usable"]) CHECK(device["variants"]["f32"].contains("linear"));
    }
}

TEST_CASE("info: the shaders of every kind of model", "[cli][info]") {
    const auto [model, op] = GENERATE(table<std::string, std::string>({
        {"decoder_text", "decode_attention"},
        {"gguf_decoders/qwen2.gguf", "rms_norm"},
        {"gguf_encoders/bert.gguf", "layer_norm"},
        {"modern_encoders/qwen3_embedder", "rope"},
        {"sentences/embedder", "pool"},
        {"vision/models/vit_labels", "patchify"},
        {"speech/whisper_texts", "mask_timestamps"},
        {"ctc/wav2vec2_base", "concat"},
        {"encoder_decoders/t5_d22_relu", "relative_bias"},
        {"modern_encoders/deberta_scores", "relative_scores"},
    }));
    CAPTURE(model);
    const Outcome outcome = run("info --json --model " + (goldens_dir() / model).string());
    REQUIRE(outcome.exit_code == 0);
    for (const json& device : json::parse(outcome.out)["devices"]) {
        if (!device["usable"]) continue;
        for (const char* const dtype : {"f32", "f16"}) {
            CHECK(device["variants"][dtype].contains("linear"));
            CHECK(device["variants"][dtype].contains(op));
        }
    }
    refuses("info --model " + (goldens_dir() / "README.md").string(), "no GGUF file");
}

TEST_CASE("bench model: every program of a generation", "[cli][bench]") {
    const Outcome outcome = run("bench model --device cpu --quiet --runs 2 --json");
    REQUIRE(outcome.exit_code == 0);
    const auto report = nlohmann::json::parse(outcome.out);
    REQUIRE(report["programs"].size() == 2);
    for (const auto& program : report["programs"]) {
        CHECK(program["wall_us"]["median"].get<double>() > 0);
        CHECK(program["nodes"].get<int>() > 10);
    }
}

TEST_CASE("validate, bench model and tune take models that answer in one pass", "[cli][encoder][vision]") {
    const auto [folder, programs, items] = GENERATE(table<std::string, std::size_t, std::string>({
        {"encoders/bert_pairs", 2, "texts"},
        {"sentences/embedder", 2, "texts"},
        {"gguf_encoders/bert.gguf", 2, "texts"},
        {"modern_encoders/embedding_gemma", 2, "texts"},
        {"modern_encoders/modernbert_score", 2, "texts"},
        {"modern_encoders/deberta_v3", 2, "texts"},
        {"vision/models/vit_labels", 2, "images"},
        {"vision/models/clip_gelu", 4, "images"},
        {"modern_vision/dino", 2, "images"},
        {"modern_vision/siglip", 4, "images"},
    }));
    CAPTURE(folder);
    const std::string model = " -q --json --device cpu --length 7 --model " + (goldens_dir() / folder).string();
    const Outcome validated = run("validate" + model);
    CHECK(validated.exit_code == 0);
    const json reports = json::parse(validated.out)["reports"];
    REQUIRE(reports.size() == programs);  // with and without attention weights
    for (const json& report : reports) CHECK(report["checks"].size() > 10);
    if (folder == "modern_vision/dino")  // two images as its processor makes them, of 16 tokens and that of the class
        CHECK(reports[0]["checks"][0]["elements"] == 2 * 17 * 48);

    const Outcome bench = run("bench model --batch 3 --runs 1" + model);
    REQUIRE(bench.exit_code == 0);
    CHECK(json::parse(bench.out)["programs"][0][items + "_per_second"].get<double>() > 0);
}

TEST_CASE("generate: beams, their score, and what does not go with them", "[cli][beam]") {
    const std::string model =
        "generate -q --device cpu -n 6 --model " + (goldens_dir() / "decoder_text").string() + " ";
    const Outcome text = run(model + "--beams 3 --length-penalty 0.5 --early-stopping always cat");
    const Outcome objects = run(model + "--beams 3 --length-penalty 0.5 --early-stopping always --json cat");
    CHECK(text.exit_code == 0);
    REQUIRE(objects.exit_code == 0);
    const std::size_t end_at = objects.out.rfind("{\"event\":\"end\"");
    REQUIRE(end_at != objects.out.npos);
    const json end = json::parse(objects.out.substr(end_at));
    CHECK(end["text"].get<std::string>() + "\n" == text.out);
    CHECK(end["score"].get<double>() < 0);
    refuses(model + "--beams 3 --temperature 0.5 x", "draws nothing");
    refuses(model + "--beams 3 --stop y x", "stop texts");
    refuses(model + "--beams 3 --batch 2 x", "one by one");
    refuses(model + "--beams 33 x", "beams");
}

TEST_CASE("a model for another command is refused with that command's name", "[cli][errors]") {
    const auto folder = [](const char* name) { return (goldens_dir() / name).string(); };
    refuses("generate -d cpu -m " + folder("encoders/bert_pairs") + " x", "vkformer embed and rerank");
    refuses("embed -d cpu -m " + folder("decoder_text") + " x", "vkformer generate and chat");
    refuses("translate -d cpu -m " + folder("speech/whisper_texts") + " x", "vkformer transcribe");
    refuses("generate -d cpu -m " + folder("encoder_decoders/t5_d22_relu") + " x", "vkformer translate");
    refuses("generate -d cpu -m " + folder("vision/clip") + " x", "vkformer classify and embed");
    const std::string file = folder("gguf_decoders/qwen2.gguf");
    refuses("translate -d cpu -m " + file, "models of this type are for vkformer generate and chat");
    refuses("translate -d cpu -m " + file,
            "is a GGUF file of a language model, supported: encoder–decoders (marian, bart");
    refuses("rerank -d cpu -m " + folder("encoders/bert_h20") + " a b", "\"architectures\" name no");
    const TemporaryFolder unknown;
    std::ofstream(unknown / "config.json") << R"({"model_type": "prophetnet"})";
    refuses("translate -d cpu -m " + unknown.path().string() + " x", R"("model_type" is "prophetnet", supported: enc)");
    const Outcome vit = run("generate -d cpu -m " + folder("vision/vit") + " x");
    CHECK(vit.exit_code == 2);
    CHECK(vit.err.ends_with("are for vkformer classify and embed\n"));
}

TEST_CASE("the command line adds to the library's messages how its user asks for what helps", "[cli][errors]") {
    const TemporaryFolder folder;
    std::filesystem::copy(goldens_dir() / "decoder_text", folder.path(), std::filesystem::copy_options::recursive);
    const auto say = [&](const char* fields) { std::ofstream(folder / "generation_config.json") << fields; };
    const std::string generate = "generate -q -d cpu -m " + folder.path().string() + " Hello ";
    say(R"({"eos_token_id": 0, "do_sample": true, "typical_p": 0.9})");
    refuses(generate, "(--temperature, --top-k, --top-p, --min-p)");
    say(R"({"eos_token_id": 0, "do_sample": true, "num_beams": 2})");
    refuses(generate, "(--beams N)");
    say(R"({"eos_token_id": 0, "max_length": 2})");
    refuses("generate -q -d cpu -m " + folder.path().string() + " --prompt-tokens 20,21,22 ", "(-n, --max-tokens)");
    refuses("translate -d no-such-device x", "(see: vkformer info)");
    refuses("embed -d cpu -m " + folder.path().string() + " x", "for vkformer generate and chat");
}

TEST_CASE("without a Vulkan loader the program says so and the CPU still works", "[cli][errors]") {
    // an ICD list without any driver: the loader is there, devices are not
    const std::string no_driver = "VK_ICD_FILENAMES=/nonexistent.json VK_DRIVER_FILES=/nonexistent.json ";
    const TemporaryFolder folder;
    const auto run_without = [&](const std::string& arguments) {
        const std::string command = no_driver + VKFORMER_CLI + " " + arguments + " > " + (folder / "out").string() +
                                    " 2> " + (folder / "err").string();
        const int status = std::system(command.c_str());
        return Outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder / "out"),
                       read_file(folder / "err")};
    };
    const Outcome automatic = run_without("translate 'March 4, 2021'");
    CHECK(automatic.exit_code == 2);
    CHECK_THAT(automatic.err, ContainsSubstring("vkformer: error: ") && ContainsSubstring("(--device cpu)"));
    CHECK(automatic.out.empty());
    const Outcome on_cpu = run_without("translate --device cpu 'March 4, 2021'");
    CHECK(on_cpu.exit_code == 0);
    CHECK(on_cpu.out == "2021-03-04\n");
    CHECK(run_without("info").exit_code == 0);
}

}  // namespace vkformer::tests

#endif
