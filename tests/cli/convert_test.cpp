// SPDX-License-Identifier: MIT
/// vkformer inspect and convert.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "core/block_format.hpp"
#include "formats/gguf.hpp"
#include "formats/gguf_writer.hpp"
#include "formats/safetensors.hpp"
#include "support/files.hpp"
#include "support/gguf_bytes.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "support/wav.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

}  // namespace

TEST_CASE("inspect shows metadata and tensors", "[cli][gguf]") {
    const Outcome text = run("inspect " + quoted(goldens_dir() / "gguf/types.gguf"));
    CHECK(text.exit_code == 0);
    CHECK_THAT(text.out, ContainsSubstring("GGUF version 3, alignment 32"));
    CHECK_THAT(text.out, ContainsSubstring(R"(["one", "", "zwölf"])"));
    CHECK_THAT(text.out, ContainsSubstring("Q5_0"));
    CHECK_THAT(text.out, ContainsSubstring("all      13 tensors, 2496 elements"));
    CHECK_THAT(run("inspect " + quoted(goldens_dir() / "gguf/llama.gguf")).out, ContainsSubstring(", … ("));

    const Outcome split = run("inspect --json " + quoted(goldens_dir() / "gguf/split-00002-of-00003.gguf"));
    CHECK(split.exit_code == 0);
    const json document = json::parse(split.out);
    CHECK(document["metadata"]["general.name"] == "split");
    CHECK(document["tensors"].size() == 5);
    CHECK(document["tensors"][1] == json{{"name", "t1"}, {"type", "F32"}, {"shape", {2, 3}}, {"bytes", 24}});
    CHECK(document["types"]["F32"]["elements"] == 30);

    const json cut = json::parse(run("inspect --json " + quoted(goldens_dir() / "gguf/llama.gguf")).out);
    CHECK(cut["metadata"]["tokenizer.ggml.tokens"]["first"].size() == 8);
    const json full = json::parse(run("inspect --json --full " + quoted(goldens_dir() / "gguf/llama.gguf")).out);
    CHECK(full["metadata"]["tokenizer.ggml.tokens"].size() == cut["metadata"]["tokenizer.ggml.tokens"]["length"]);

    const fs::path folder = goldens_dir() / "marian/relu_d30_h5_h3";
    CHECK_THAT(run("inspect " + quoted(folder)).out, ContainsSubstring("model_type"));
    CHECK_THAT(run("inspect " + quoted(folder / "model.safetensors")).out, ContainsSubstring("f32"));
    refuses("inspect /nonexistent.gguf", "/nonexistent.gguf");
    refuses("inspect " + quoted(folder.parent_path()), "has no config.json; give a Hugging Face folder");
    refuses("inspect " + quoted(folder / "config.json"), "it is no GGUF file");
}

TEST_CASE("inspect shows what controls a terminal as text, in names as in values", "[cli][gguf]") {
    const TemporaryFolder folder;
    const std::string name = "a\x1b[2Jb", number(1, '\7');
    const auto count = [](char value, std::size_t bytes) {
        return std::string(1, value) + std::string(bytes - 1, '\0');
    };
    std::ofstream(folder / "keys.gguf", std::ios::binary)
        << "GGUF" << count(3, 4) << count(0, 8) << count(2, 8)                    // version, tensors, metadata
        << count(6, 8) << name << count(4, 4) << count(7, 4)                      // a u32
        << count(1, 8) << "c" << count(8, 4) << count(2, 8) << "\x1b" << number;  // a string
    const Outcome found = run("inspect " + quoted(folder / "keys.gguf"));
    CHECK(found.exit_code == 0);
    CHECK_THAT(found.out, ContainsSubstring(R"(a\u001b[2Jb)"));
    CHECK_THAT(found.out, ContainsSubstring(R"("\u001b\u0007")"));
    CHECK(found.out.find_first_of("\x1b\7") == std::string::npos);
}

TEST_CASE("convert writes other dtypes", "[cli][gguf]") {
    const TemporaryFolder folder;
    const fs::path marian = goldens_dir() / "marian/relu_d30_h5_h3";
    const Outcome half = run("convert --dtype f16 " + quoted(marian) + " " + quoted(folder / "half"));
    CHECK(half.exit_code == 0);
    const auto before = formats::Safetensors::open(marian / "model.safetensors");
    const auto after = formats::Safetensors::open(folder / "half/model.safetensors");
    REQUIRE((before && after));
    CHECK(before->names() == after->names());
    for (const auto& [name, tensor] : after->tensors()) CHECK(tensor.dtype == DType::f16);
    std::ifstream file(folder / "half/config.json");
    const json config = json::parse(file);
    CHECK((config.contains("dtype") ? config["dtype"] : config["torch_dtype"]) == "float16");
    CHECK(fs::exists(folder / "half/generation_config.json"));

    const fs::path types = goldens_dir() / "gguf/types.gguf";
    GgufBytes unread;
    unread.tensors = {gguf_tensor("w", {128}, 41, 0)};
    unread.data = std::string(18, '\1');
    std::ofstream(folder / "q1_0.gguf", std::ios::binary) << unread.file();
    refuses("convert --dtype q8_0 " + quoted(folder / "q1_0.gguf") + " " + quoted(folder / "x.gguf"),
            "of the type Q1_0, which vkformer does not read; llama.cpp's llama-quantize makes a file that it reads "
            "(llama-quantize --allow-requantize FILE NEW.gguf Q8_0)");
    CHECK_FALSE(fs::exists(folder / "x.gguf"));
    const fs::path split = goldens_dir() / "gguf/split-00001-of-00003.gguf";
    CHECK(run("convert --dtype f16 " + quoted(split) + " " + quoted(folder / "joined.gguf")).exit_code == 0);
    const auto joined = formats::Gguf::open(folder / "joined.gguf");
    REQUIRE(joined);
    CHECK(joined->part_count() == 1);
    CHECK_FALSE(joined->has("split.count"));
    CHECK(joined->tensors().size() == 5);

    refuses("convert --dtype q4_0 " + quoted(marian) + " " + quoted(folder / "y.safetensors"),
            "safetensors hold no q4_0 blocks");
    refuses("convert --dtype f16 " + quoted(marian / "model.safetensors") + " " + quoted(folder / "y"),
            "name one that ends in .safetensors");
    refuses("convert --dtype f16 " + quoted(marian) + " " + quoted(folder / "y.gguf"), "\"marian\", supported: llama");
    refuses("convert --dtype f16 " + quoted(types) + " " + quoted(folder / "y"), "ends in .gguf");
    refuses("convert --dtype f17 a b", "f17");
    refuses("convert --dtype f16 /nonexistent " + quoted(folder / "y"), "/nonexistent");
    refuses("convert --dtype f16 " + quoted(types) + " " + quoted(types), "the same");
    refuses("convert " + quoted(types) + " " + quoted(folder / "y.gguf"), "--dtype");
}

TEST_CASE("convert rounds by an importance matrix", "[cli][gguf]") {
    const TemporaryFolder folder;
    const fs::path model = folder / "model.gguf", importance = folder / "imatrix.dat";
    const auto values = std::make_shared<std::vector<float>>(64 * 32);
    for (std::size_t i = 0; i < values->size(); ++i) (*values)[i] = std::sin(static_cast<float>(i * i));
    const auto tensor = [&](const char* name) {
        return formats::OutputTensor{
            .name = name,
            .dtype = DType::f32,
            .source = {
                .dtype = DType::f32, .shape = {64, 32}, .bytes = std::as_bytes(std::span(*values)), .owner = values}};
    };
    REQUIRE(formats::write_gguf(model, {}, std::vector{tensor("a.weight"), tensor("b.weight")}));
    const auto write_importance = [&](const std::string& name, float of_rest) {
        std::ofstream file(importance, std::ios::binary);
        const auto put = [&](auto value) { file.write(reinterpret_cast<const char*>(&value), sizeof value); };
        put(std::int32_t{1});
        put(static_cast<std::int32_t>(name.size()));
        file << name;
        put(std::int32_t{1});
        put(std::int32_t{32});
        put(100.0f);  // the first input is much larger than the others
        for (int i = 1; i < 32; ++i) put(of_rest);
    };
    write_importance("a.weight", 0.01f);
    const std::string convert = "convert --dtype q4_0 " + quoted(model) + " ";
    const Outcome made = run(convert + quoted(folder / "weighed.gguf") + " --imatrix " + quoted(importance));
    CHECK(made.exit_code == 0);
    CHECK_THAT(made.err, ContainsSubstring("no importance of the inputs of b.weight"));
    CHECK(run(convert + quoted(folder / "alike.gguf")).exit_code == 0);
    const auto weighed = formats::Gguf::open(folder / "weighed.gguf"),
               alike = formats::Gguf::open(folder / "alike.gguf");
    REQUIRE((weighed && alike));
    const auto bytes_of = [](const formats::Gguf& file, const char* name) {
        const auto bytes = file.weights().find(name)->bytes;
        return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    CHECK(bytes_of(*weighed, "a.weight") != bytes_of(*alike, "a.weight"));
    CHECK(bytes_of(*weighed, "b.weight") == bytes_of(*alike, "b.weight"));

    const auto by_importance = [&](const std::string& arguments) {
        return "convert " + arguments + " --imatrix " + quoted(importance);
    };
    const std::string to_file = quoted(model) + " " + quoted(folder / "y.gguf");
    refuses(by_importance("--dtype f16 " + to_file), "--imatrix is for block formats");
    refuses(by_importance("--dtype q4_0 " + quoted(goldens_dir() / "marian") + " " + quoted(folder / "y")),
            "--imatrix");
    refuses(by_importance("--dtype q8_0 " + to_file), "not needed");
    write_importance("c.weight", 1);
    refuses(by_importance("--dtype q4_0 " + to_file), "another model");
    write_importance("a.weight", -1);
    refuses(by_importance("--dtype q4_0 " + to_file), "no means of squares");
    fs::remove(importance);
    refuses(by_importance("--dtype q4_0 " + to_file), "imatrix.dat");
    CHECK_FALSE(fs::exists(folder / "y.gguf"));
}

TEST_CASE("convert reads and writes every block format", "[cli][gguf][quantized]") {
    const TemporaryFolder folder;
    const std::string mixed = GENERATE("q4_k_m", "q5_k_m", "iq4_xs", "q2_k", "q3_k_m");
    CAPTURE(mixed);
    const fs::path source = goldens_dir() / "gguf_mixtures" / (mixed + ".gguf");
    const auto values_of = [](const fs::path& path, const char* name) {
        const auto file = formats::Gguf::open(path);
        REQUIRE(file);
        const auto tensor = file->weights().get(name);
        REQUIRE(tensor);
        std::vector<float> values(tensor->shape.element_count());
        REQUIRE(convert(tensor->dtype, tensor->bytes, 0, std::span(values)));
        return values;
    };
    const fs::path floats = folder / "f32.gguf";
    CHECK(run("convert --quiet --dtype f32 " + quoted(source) + " " + quoted(floats)).exit_code == 0);
    CHECK(values_of(floats, "blk.1.ffn_down.weight") == values_of(source, "blk.1.ffn_down.weight"));
    for (const DType dtype : kBlockFormats) {
        CAPTURE(to_string(dtype));
        const std::string name(to_string(dtype));
        const fs::path there = folder.path() / (name + ".gguf"), back = folder / "back.gguf";
        CHECK(run("convert --quiet --dtype " + name + " " + quoted(source) + " " + quoted(there)).exit_code == 0);
        const auto file = formats::Gguf::open(there);
        REQUIRE(file);
        CHECK(file->weights().get("blk.1.ffn_down.weight")->dtype == dtype);  // rows of 256
        CHECK(run("convert --quiet --dtype f32 " + quoted(there) + " " + quoted(back)).exit_code == 0);
        CHECK(values_of(back, "blk.1.ffn_down.weight") == values_of(there, "blk.1.ffn_down.weight"));
    }
}

TEST_CASE("convert writes folders in block formats, which all commands take", "[cli][quantized][folder]") {
    const TemporaryFolder folder;
    const fs::path dates = fs::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer";
    const fs::path blocks = folder / "blocks";
    const std::string dtype = GENERATE("q8_0", "q5_k");
    CAPTURE(dtype);
    const Outcome converted = run("convert --dtype " + dtype + " " + quoted(dates) + " " + quoted(blocks));
    CHECK(converted.exit_code == 0);
    CHECK(converted.err.empty() == (dtype == "q8_0"));
    if (dtype != "q8_0")
        CHECK_THAT(converted.err, ContainsSubstring("shared.weight is stored as q8_0: its rows of 128"));
    CHECK_FALSE(fs::exists(blocks / "model.safetensors"));
    CHECK(fs::file_size(blocks / "model.gguf") < fs::file_size(dates / "model.safetensors") / 3);
    CHECK(read_file(blocks / "config.json") == read_file(dates / "config.json"));

    std::ifstream file(dates / "eval.tsv");
    std::string texts, expected;
    for (std::string line; std::getline(file, line) && std::ranges::count(texts, '\n') < 40;) {
        const std::size_t tab = line.find('\t');
        texts += line.substr(0, tab) + "\n";
        expected += line.substr(tab + 1) + "\n";
    }
    const std::string translate = "translate -q -d cpu -m " + quoted(blocks);
    for (const char* options : {"", " --weights dtype", " --plain", " --dtype f16 --beams 1"})
        CHECK(run(translate + options, texts).out == expected);
    refuses(translate + " --weights f32", "--weights");
    const Outcome program = run("bench model -q --json --runs 1 -d cpu -m " + quoted(blocks));
    CHECK(json::parse(program.out)["weights"] == "model");
    CHECK(run("validate -q -d cpu -m " + quoted(blocks)).exit_code == 0);
    CHECK_THAT(run("inspect " + quoted(blocks)).out, ContainsSubstring(dtype == "q8_0" ? "q8_0" : "q5_k"));

    // Blocks become floats again, and blocks.
    CHECK(run("convert --dtype f32 " + quoted(blocks) + " " + quoted(folder / "floats")).exit_code == 0);
    CHECK(run("translate -q -d cpu -m " + quoted(folder / "floats"), texts).out == expected);
    refuses("convert --dtype q4_0 " + quoted(blocks) + " " + quoted(folder / "floats"),
            "would be read in place of the new model.gguf");
    CHECK(run("convert -q --dtype q4_0 " + quoted(blocks) + " " + quoted(folder / "again")).exit_code == 0);
    CHECK(fs::file_size(folder / "again/model.gguf") < fs::file_size(blocks / "model.gguf"));
    // The file alone keeps its names, and what is stored how.
    CHECK(run("convert -q --dtype q4_0 " + quoted(blocks / "model.gguf") + " " + quoted(folder / "alone.gguf"))
              .exit_code == 0);
    CHECK(read_file(folder / "alone.gguf") == read_file(folder / "again/model.gguf"));
}

TEST_CASE("convert writes a Whisper in block formats", "[cli][quantized][folder][speech]") {
    const TemporaryFolder folder;
    const fs::path blocks = folder / "blocks", sound = folder / "sound.wav";
    CHECK(run("convert -q --dtype q8_0 " + quoted(speech_folder("whisper_texts")) + " " + quoted(blocks)).exit_code ==
          0);
    CHECK_THAT(run("inspect " + quoted(blocks)).out,
               ContainsSubstring("q8_0"));  // fc2 alone: no other rows are a block long
    std::ofstream(sound, std::ios::binary)
        << wav(Golden("speech/whisper_texts/golden.safetensors").floats("clip0"), 8000);
    for (const char* options : {"", " --weights dtype"})
        CHECK(run("transcribe -q -d cpu --no-timestamps --max-length 24 -m " + quoted(blocks) + " " + quoted(sound) +
                  options)
                  .out == "The cat sat on the mat.\n");
}

TEST_CASE("convert says what has no blocks", "[cli][quantized][folder][errors]") {
    const TemporaryFolder folder;
    const fs::path blocks = folder / "blocks";
    const auto convert = [&](const fs::path& source) {
        return "convert --dtype q8_0 " + quoted(source) + " " + quoted(blocks);
    };
    refuses(convert(goldens_dir() / "decoders/qwen2"), "is a language model: name a .gguf file to write");
    refuses(convert(goldens_dir() / "seq2seq/gru_dot_local_p"), "supported: that of a Transformer (for block formats)");
    refuses(convert(goldens_dir() / "seq2seq"), "config.json");
    const fs::path embedder = goldens_dir() / "sentences/embedder", apart = folder / "apart";
    fs::create_directories(apart / "0_Transformer");
    for (const char* file : {"config.json", "model.safetensors"})
        fs::copy_file(embedder / file, apart / "0_Transformer" / file);
    fs::copy(embedder / "1_Pooling", apart / "1_Pooling");
    folder.write("apart/modules.json",
                 R"([{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
                                           {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
    refuses(convert(folder / "apart"), "0_Transformer: convert that folder");
    fs::copy(goldens_dir() / "encoders/bert_h20", folder / "bert");
    refuses("convert --dtype q8_0 " + quoted(folder / "bert") + " " + quoted(folder / "bert/blocks"),
            "the destination is in the source's folder");
    CHECK_FALSE(fs::exists(blocks));
}

TEST_CASE("convert writes over nothing that it reads", "[cli][gguf][folder][errors]") {
    const TemporaryFolder folder;
    const fs::path source = folder / "source", other = folder / "other";
    fs::copy(goldens_dir() / "encoders/bert_h20", source);
    const std::string weights = read_file(source / "model.safetensors");
    const auto convert = [](const fs::path& from, const fs::path& to) {
        return "convert -q --dtype bf16 " + quoted(from) + " " + quoted(to);
    };
    refuses(convert(source, source / "model.safetensors"), "model.safetensors is the source's");
    refuses(convert(source / "model.safetensors", source / "model.safetensors"), "are the same");
    fs::create_directory(other);
    fs::create_symlink(source / "model.safetensors", other / "model.safetensors");
    refuses(convert(source, other), "model.safetensors is the source's");
    CHECK(read_file(source / "model.safetensors") == weights);

    for (const char* part : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) folder.write(part, "is not looked at");
    refuses(convert(folder / "m-00001-of-00002.gguf", folder / "m-00002-of-00002.gguf"), "is the source's");
}

TEST_CASE("convert names a file by its ending, however that is written", "[cli][gguf]") {
    const TemporaryFolder folder;
    REQUIRE(
        run("convert -q --dtype f16 " + quoted(goldens_dir() / "decoder_text") + " " + quoted(folder / "model.GGUF"))
            .exit_code == 0);
    CHECK(fs::is_regular_file(folder / "model.GGUF"));
}

TEST_CASE("convert keeps Python's Infinity as the source has it", "[cli][folder]") {
    const TemporaryFolder folder;
    const fs::path source = folder / "source";
    fs::copy(goldens_dir() / "decoders/nemotron_h", source);
    std::string config = read_file(source / "config.json");
    CHECK(config.find("__float__") != config.npos);
    const auto words = [](const fs::path& model) {
        return run("generate -q -d cpu -n 8 --prompt-tokens 1,2,3 -m " + quoted(model)).out;
    };
    const std::string expected = words(source);
    CHECK_FALSE(expected.empty());
    REQUIRE(run("convert -q --dtype f32 " + quoted(source) + " " + quoted(folder / "named")).exit_code == 0);
    CHECK(read_file(folder / "named/config.json").find("__float__") != std::string::npos);
    const std::size_t begin = config.rfind('{', config.find("__float__")), end = config.find('}', begin);
    config.replace(begin, end + 1 - begin, "Infinity");
    folder.write("source/config.json", config);
    CHECK(words(source) == expected);
    CHECK(run("inspect " + quoted(source)).exit_code == 0);
    REQUIRE(run("convert -q --dtype f32 " + quoted(source) + " " + quoted(folder / "bare")).exit_code == 0);
    const std::string written = read_file(folder / "bare/config.json");
    CHECK(written.find("Infinity") != written.npos);
    CHECK(written.find("__float__") == written.npos);
    CHECK(words(folder / "bare") == expected);
}

TEST_CASE("convert tells which files it leaves out, and which were there before", "[cli][folder]") {
    const TemporaryFolder folder;
    const fs::path source = folder / "source", there = folder / "there";
    fs::copy(goldens_dir() / "encoders/bert_h20", source);
    fs::create_directory(source / "onnx");
    fs::create_directory(source / "additional_chat_templates");
    folder.write("source/additional_chat_templates/tool.jinja", "x");
    fs::create_directory(there);
    folder.write("there/generation_config.json", "{}");
    fs::create_symlink("loop", source / "loop");  // to itself
    const Outcome outcome = run("convert --dtype f16 " + quoted(source) + " " + quoted(there));
    CHECK(outcome.exit_code == 0);
    CHECK_THAT(outcome.err, ContainsSubstring("not copied: onnx\n"));
    CHECK_THAT(outcome.err, ContainsSubstring("count for the model now: generation_config.json;"));
    CHECK(read_file(there / "additional_chat_templates/tool.jinja") == "x");
}

TEST_CASE("convert rounds no weights that were packed by a method without a name", "[cli][quantized][folder][errors]") {
    const TemporaryFolder folder;
    fs::copy(goldens_dir() / "encoders/bert_h20", folder / "source");
    json config = json::parse(read_file(folder / "source/config.json"));
    config["quantization_config"] = {{"load_in_4bit", true}};
    folder.write("source/config.json", config.dump());
    refuses("convert --dtype f16 " + quoted(folder / "source") + " " + quoted(folder / "f16"),
            "the weights are packed");
    CHECK_FALSE(fs::exists(folder / "f16"));
}

TEST_CASE("convert leaves nothing of a folder that it refuses", "[cli][quantized][folder][errors]") {
    const std::string dtype = GENERATE("f16", "q8_0");
    const TemporaryFolder folder;
    const fs::path source = folder / "source";
    fs::copy(goldens_dir() / "encoders/bert_h20", source);
    const auto file = must(formats::Safetensors::open(source / "model.safetensors"));
    std::vector<float> odd(20 * 20, 1);
    odd[7] = std::numeric_limits<float>::infinity();
    std::vector<formats::NamedTensor> tensors;
    for (const auto& [name, data] : file.tensors()) tensors.push_back({name, data});
    tensors.push_back({"odd", {.dtype = DType::f32, .shape = {20, 20}, .bytes = std::as_bytes(std::span(odd))}});
    must(formats::write_safetensors(folder / "odd.safetensors", tensors));
    fs::rename(folder / "odd.safetensors", source / "model.safetensors");
    const auto convert = [&](const fs::path& destination) {
        return "convert -q --dtype " + dtype + " " + quoted(source) + " " + quoted(destination);
    };
    refuses(convert(folder / "new"), "odd");
    refuses(convert(folder / "deeper/new/"), "odd");
    CHECK_FALSE(fs::exists(folder / "new"));
    CHECK_FALSE(fs::exists(folder / "deeper"));
    fs::create_directory(folder / "there");
    folder.write("there/note.txt", "kept");
    refuses(convert(folder / "there/"), "odd");
    refuses(convert(folder / "there/new"), "odd");
    CHECK(read_file(folder / "there/note.txt") == "kept");
    CHECK(std::distance(fs::directory_iterator(folder / "there"), fs::directory_iterator()) == 1);
}

TEST_CASE("convert takes the stages of a sentence model along", "[cli][quantized][folder]") {
    const TemporaryFolder folder;
    const fs::path source = goldens_dir() / "sentences" / "embedder", blocks = folder / "blocks",
                   floats = folder / "f32";
    CHECK(run("convert -q --dtype q8_0 " + quoted(source) + " " + quoted(blocks)).exit_code == 0);
    CHECK(run("convert --dtype f32 " + quoted(source) + " " + quoted(floats)).exit_code == 0);
    const std::string before = run("embed -q -d cpu -m " + quoted(source) + " one two").out;
    CHECK(!before.empty());
    CHECK(run("embed -q -d cpu -m " + quoted(floats) + " one two").out == before);
    CHECK(run("embed -q -d cpu -m " + quoted(blocks) + " one two").out == before);  // no row of it is a block long
    CHECK(fs::exists(blocks / "2_Dense/model.safetensors"));
    CHECK(fs::exists(blocks / "1_Pooling/config.json"));
}

}  // namespace vkformer::tests

#endif
