// SPDX-License-Identifier: MIT
/// Where the program writes: what is there already, what is no file, and what an interruption leaves.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "cli/run_program.hpp"
#include "formats/safetensors.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

/// Lets go who still waits for the other end of a FIFO, because the program never opened it.
void release(const fs::path& fifo) {
    const int both = ::open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (both >= 0) ::close(both);
}

/// Whatever writes a file, up to the name of the file. What it needs is in `folder`.
std::vector<std::string> writers(const TemporaryFolder& folder) {
    const Golden golden("marian/relu_d30_h5_h3/golden.safetensors");
    std::vector<formats::NamedTensor> inputs;
    for (const char* input : {"input_ids", "attention_mask", "decoder_input_ids"})
        inputs.push_back({input, golden.tensor(input)});
    must(formats::write_safetensors(folder / "in", inputs));
    const fs::path marian = goldens_dir() / "marian/relu_d30_h5_h3";
    const fs::path gguf = goldens_dir() / "gguf/split-00001-of-00003.gguf";
    return {
        "forward -q -d cpu --model " + quoted(marian) + " -i " + quoted(folder / "in") + " -o ",
        "convert --dtype f16 " + quoted(marian) + " ",
        "convert --dtype f16 " + quoted(gguf) + " ",
        "embed -q -d cpu --model " + quoted(goldens_dir() / "sentences/embedder") + " text -o ",
        "attention -q -d cpu 'March 4, 2021' -o ",
        "attention -q -d cpu 'March 4, 2021' -o ",
        "attention -q -d cpu 'March 4, 2021' -o ",
        "bench ops -q -d cpu --op linear --shape 2x8x4 --seconds 0.01 --html ",
    };
}
constexpr const char* kEndings[] = {"safetensors", "safetensors", "gguf", "npy", "png", "svg", "json", "html"};

}  // namespace

TEST_CASE("commands write where links lead, into FIFOs, and say why they cannot", "[cli][output]") {
    const TemporaryFolder folder;
    const auto commands = writers(folder);
    for (std::size_t i = 0; i < commands.size(); ++i) {
        const std::string ending = std::string(".") + kEndings[i];
        CAPTURE(commands[i]);
        const fs::path out = folder.path() / ("out" + std::to_string(i));
        fs::create_directory(out);
        std::ofstream(out / ("target" + ending)) << "old";
        fs::create_symlink("target" + ending, out / ("link" + ending));
        const Outcome linked = run(commands[i] + quoted(out / ("link" + ending)));
        CHECK(linked.err == "");
        CHECK(linked.exit_code == 0);
        CHECK(fs::is_symlink(out / ("link" + ending)));
        CHECK(fs::file_size(out / ("target" + ending)) > 64);

        const fs::path fifo = out / ("fifo" + ending);
        REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
        auto reader = std::async(std::launch::async, [&] { return read_file(fifo); });
        CHECK(run(commands[i] + quoted(fifo)).exit_code == 0);
        release(fifo);
        CHECK(fs::is_fifo(fifo));
        const std::string written = reader.get();
        if (ending != ".html" && ending != ".svg") CHECK(written == read_file(out / ("target" + ending)));
        CHECK(written.size() > 64);

        const fs::path nowhere = out / "nowhere" / ("file" + ending);
        const Outcome refused = run(commands[i] + quoted(nowhere));
        CHECK(refused.exit_code == 2);
        CHECK(refused.err == "vkformer: error: cannot write " + nowhere.string() + ": No such file or directory\n");

        // As on a disk that is full: no file may have more than one block, which the message fits in.
        const fs::path full = out / ("full" + ending);
        if (written.size() > 1024) {
            const Outcome ended = run(commands[i] + quoted(full), "", "ulimit -f 1; ");
            CHECK(ended.exit_code == 2);
            CHECK(ended.err == "vkformer: error: cannot write " + full.string() + ": File too large\n");
        }
        CHECK(file_count(out) == 3);
    }
}

TEST_CASE("an interrupted conversion leaves nothing", "[cli][output]") {
    const int ending = GENERATE(SIGINT, SIGTERM);
    const TemporaryFolder folder;
    // A quarter of a gigabyte of zeros that takes no place on the disk.
    constexpr std::uint64_t kBytes = std::uint64_t{1} << 28;
    const std::string header = R"({"w":{"dtype":"F32","shape":[67108864],"data_offsets":[0,268435456]}})";
    const std::uint64_t header_bytes = header.size();
    std::ofstream(folder / "in.safetensors", std::ios::binary)
        .write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes)
        .write(header.data(), static_cast<std::streamsize>(header.size()));
    fs::resize_file(folder / "in.safetensors", sizeof header_bytes + header.size() + kBytes);

    const std::string in = (folder / "in.safetensors").string(), out = (folder / "out.safetensors").string();
    const ::pid_t program = ::fork();
    if (program == 0) {
        ::execl(VKFORMER_CLI, VKFORMER_CLI, "convert", in.c_str(), out.c_str(), "--dtype", "f16", nullptr);
        ::_exit(127);
    }
    REQUIRE(program > 0);
    while (file_count(folder.path()) == 1 && ::waitpid(program, nullptr, WNOHANG) == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    REQUIRE(file_count(folder.path()) == 2);
    REQUIRE_FALSE(fs::exists(out));
    REQUIRE(::kill(program, ending) == 0);
    int status = 0;
    REQUIRE(::waitpid(program, &status, 0) == program);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == ending);
    CHECK(file_count(folder.path()) == 1);
}

TEST_CASE("files that the command line names may be pipes", "[cli][input]") {
    const TemporaryFolder folder;
    const fs::path fifo = folder / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const auto piped = [&](const std::string& command, const fs::path& file) {
        auto writer = std::async(std::launch::async, [&] { std::ofstream(fifo, std::ios::binary) << read_file(file); });
        const Outcome outcome = run(command + " " + quoted(fifo));
        release(fifo);
        return outcome;
    };
    const fs::path gguf = goldens_dir() / "gguf/types.gguf",
                   weights = goldens_dir() / "marian/relu_d30_h5_h3/model.safetensors";
    for (const fs::path& file : {gguf, weights}) {
        const std::string direct = run("inspect " + quoted(file)).out;
        const Outcome through = piped("inspect", file);
        CHECK(through.exit_code == 0);
        CHECK(through.out.substr(through.out.find(": ")) == direct.substr(direct.find(": ")));
    }
    const std::string classify = "classify -q -d cpu --model " + quoted(goldens_dir() / "vision/vit");
    const fs::path picture = goldens_dir() / "vision/pictures/colour.png";
    const std::string direct = run(classify + " " + quoted(picture)).out;
    const Outcome through = piped(classify, picture);
    CHECK(through.exit_code == 0);
    CHECK(through.out.substr(through.out.find('\n')) == direct.substr(direct.find('\n')));

    // Random access is a must, or no end is in sight.
    const Outcome converted = run("convert --dtype f16 " + quoted(fifo) + " " + quoted(folder / "x.gguf"));
    CHECK(converted.exit_code == 2);
    CHECK_THAT(converted.err, ContainsSubstring("it is a FIFO, where a regular file is expected"));
}

TEST_CASE("an endless file has an end", "[cli][input][errors]") {
    const TemporaryFolder folder;
    // The test's own, as in output_file_test.cpp; it is only read here.
    const fs::path zero = folder / "zero";
    if (::mknod(zero.c_str(), S_IFCHR | 0600, makedev(1, 5)) != 0 || std::ifstream(zero).get() != 0) {
        WARN("not tested: making device nodes takes privileges");
        return;
    }
    const std::string classify = "classify -q -d cpu --model " + quoted(goldens_dir() / "vision/vit") + " ";
    for (const std::string& command : {std::string("inspect "), classify, std::string("bench compare x ")}) {
        CAPTURE(command);
        const Outcome outcome = run(command + quoted(zero));
        CHECK(outcome.exit_code == 2);
        if (command != "bench compare x ")
            CHECK_THAT(outcome.err, ContainsSubstring("gives more than 268435456 bytes and is no regular file"));
    }
    refuses("bench compare " + quoted(zero) + " x", "gives more than 268435456 bytes");
    refuses("transcribe -q -d cpu --model " + quoted(goldens_dir() / "speech/whisper_texts") + " " + quoted(zero),
            "libsndfile");
}

// An archive can hold FIFOs: whatever opens one waits for ever.
TEST_CASE("FIFOs among the files of a model are refused at once", "[cli][input][errors]") {
    const fs::path samples = fs::path(VKFORMER_SOURCE_DIR) / "samples/models";
    const auto [model, command, files] = GENERATE_COPY(table<fs::path, std::string, std::vector<std::string>>(
        {{samples / "date-normalizer",
          "translate -q -d cpu text --model ",
          {"config.json", "generation_config.json", "model.safetensors", "source.spm", "vocab.json"}},
         {goldens_dir() / "decoder_text",
          "chat -q -d cpu hello -n 1 --model ",
          {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
           "chat_template.jinja"}},
         {goldens_dir() / "sentences/embedder",
          "embed -q -d cpu text --model ",
          {"modules.json", "sentence_bert_config.json", "1_Pooling/config.json", "2_Dense/model.safetensors"}},
         {goldens_dir() / "vision/vit", "classify -q -d cpu picture.png --model ", {"preprocessor_config.json"}}}));
    const TemporaryFolder folder;
    fs::copy(model, folder / "model", fs::copy_options::recursive);
    for (const std::string& name : files) {
        CAPTURE(command, name);
        const fs::path file = folder.path() / "model" / name;
        fs::rename(file, folder / "kept");
        REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
        const Outcome outcome = run(command + quoted(folder / "model"), "", "timeout 60 ");
        CHECK(outcome.exit_code == 2);
        CHECK_THAT(outcome.err, ContainsSubstring("it is a FIFO, where a regular file is expected"));
        fs::rename(folder / "kept", file);
    }
}

TEST_CASE("what an unwritable cache folder costs is said, once", "[cli][cache]") {
    const TemporaryFolder folder;
    std::ofstream(folder / "file") << "no folder";
    const std::string command = "translate --model /nonexistent text ";
    const std::string unwritable = "XDG_CACHE_HOME=" + quoted(folder / "file/cache") + " ";
    const std::string said = "vkformer: nothing is kept for the next run, which will measure anew: cannot write to " +
                             (folder / "file/cache/vkformer").string() + ": Not a directory\n";
    const Outcome outcome = run(command, "", unwritable);
    CHECK(outcome.err.starts_with(said));
    CHECK(outcome.err.find(said, 1) == std::string::npos);
    for (const std::string& with : {std::string("-q"), std::string("-d cpu")})
        CHECK_THAT(run(command + with, "", unwritable).err, !ContainsSubstring("nothing is kept"));
    CHECK_THAT(run(command, "", "XDG_CACHE_HOME= HOME= ").err, ContainsSubstring("neither XDG_CACHE_HOME"));

    // The specification: a relative path is to be ignored.
    fs::create_directory(folder / "home");
    const Outcome relative = run(
        command, "", "cd " + quoted(folder.path()) + "; XDG_CACHE_HOME=relative HOME=" + quoted(folder / "home") + " ");
    CHECK_THAT(relative.err, !ContainsSubstring("nothing is kept"));
    CHECK_FALSE(fs::exists(folder / "relative"));
    CHECK(fs::exists(folder / "home/.cache/vkformer"));
}

TEST_CASE("a cache of FIFOs is none", "[cli][cache]") {
    if (vulkan_device_indices().empty()) return;
    const TemporaryFolder cache;
    const std::string command = "bench model -q --runs 1 --length 4 --steps 2 --beams 1 -m " +
                                quoted(goldens_dir() / "encoder_decoders/t5_d22_relu") + " -d " +
                                vulkan_device_indices().front();
    const std::string home = "XDG_CACHE_HOME=" + quoted(cache.path()) + " timeout 120 ";
    REQUIRE(run(command, "", home).exit_code == 0);
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(cache / "vkformer")) {
        REQUIRE(entry.is_regular_file());
        fs::remove(entry.path());
        REQUIRE(::mkfifo(entry.path().c_str(), 0600) == 0);
        ++files;
    }
    CHECK(files >= 2);
    CHECK(run(command, "", home).exit_code == 0);
}

}  // namespace vkformer::tests

#endif
