// SPDX-License-Identifier: MIT
/// vkformer embed: texts in, vectors out, many at a time.
#include <array>
#include <bit>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "encoder_options.hpp"
#include "line_reader.hpp"

namespace vkformer::cli {
namespace {

struct EmbedCommand {
    EncoderCommand encoder;
    std::vector<std::string> texts;
    std::string input, output;
    std::string pooling, prompt, prompt_name;
    CLI::Option* prompt_option = nullptr;
    CLI::Option* normalize_option = nullptr;
    bool normalize = true;
    bool json = false;
};

/// As few digits as give the same float back.
std::string digits(float value) {
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return {buffer.data(), end};
}

std::string as_text(const Embedding& embedding) {
    std::string line;
    for (const float value : embedding.values) line += (line.empty() ? "" : " ") + digits(value);
    return line;
}

std::string as_json(const std::string& text, const Embedding& embedding) {
    nlohmann::json object = {{"text", text}, {"tokens", embedding.tokens}, {"embedding", embedding.values}};
    if (embedding.cut > 0) object["cut"] = embedding.cut;
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// NumPy's format, version 1.0: a header of a multiple of 64 bytes, then little-endian float32 [rows, width].
Result<void> write_npy(const std::string& path, std::size_t width, const std::vector<float>& values) {
    static_assert(std::endian::native == std::endian::little);
    constexpr std::size_t kStart = 10, kAlignment = 64;
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(values.size() / width) +
                         ", " + std::to_string(width) + "), }";
    while ((kStart + header.size() + 1) % kAlignment != 0) header += ' ';
    header += '\n';
    std::string start("\x93NUMPY\x01\x00", kStart - 2);
    start += static_cast<char>(header.size() & 0xFF);
    start += static_cast<char>(header.size() >> 8);
    std::ofstream file(path, std::ios::binary);
    file << start << header;
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
    file.close();
    if (!file) return Error{ErrorCode::InvalidArgument, "cannot write " + path};
    return {};
}

/// Embeds texts as they come and prints them, or keeps them for the file.
class Run {
public:
    Run(const EmbedCommand& command, Embedder& embedder) : command_(command), embedder_(embedder) {}

    Result<void> add(const std::vector<std::string>& texts) {
        auto embeddings = embedder_.embed(texts, show_done("texts", done_, texts.size()));
        if (!embeddings) {
            Error error = std::move(embeddings).error();
            if (done_ > 0) error.message += " (texts are counted from line " + std::to_string(done_ + 1) + ")";
            return error;
        }
        done_ += texts.size();
        std::string out;
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const Embedding& embedding = (*embeddings)[i];
            cut_.add(embedding.cut);
            if (!command_.output.empty())
                values_.insert(values_.end(), embedding.values.begin(), embedding.values.end());
            else
                out += (command_.json ? as_json(texts[i], embedding) : as_text(embedding)) + "\n";
        }
        return print(out);
    }

    Result<void> finish() const {
        cut_.show("text", embedder_.max_length());
        if (command_.output.empty()) return {};
        return write_npy(command_.output, embedder_.dimension(), values_);
    }

private:
    const EmbedCommand& command_;
    Embedder& embedder_;
    std::vector<float> values_;
    std::size_t done_ = 0;
    CutReport cut_;
};

Result<int> run(const EmbedCommand& command) {
    EmbedderOptions options;
    VKFORMER_TRY(const auto folder, command.encoder.apply(options));
    options.pooling = command.pooling;
    options.prompt_name = command.prompt_name;
    if (command.prompt_option->count() > 0) options.prompt = command.prompt;
    if (command.normalize_option->count() > 0) options.normalize = command.normalize;
    VKFORMER_TRY(Embedder embedder, Embedder::load(folder, options));
    if (!command.encoder.device.quiet)
        std::fprintf(stderr, "vkformer: device: %s\nvkformer: pooling: %s; %zu numbers; at most %zu tokens\n",
                     embedder.device().c_str(), embedder.pooling().c_str(), embedder.dimension(),
                     embedder.max_length());
    Run texts(command, embedder);
    if (!command.texts.empty()) {
        VKFORMER_CHECK(texts.add(command.texts));
    } else {
        VKFORMER_TRY(LineReader reader, LineReader::open(command.input));
        for (auto lines = reader.next(); !lines.empty(); lines = reader.next()) VKFORMER_CHECK(texts.add(lines));
    }
    VKFORMER_CHECK(texts.finish());
    return kOk;
}

}  // namespace

void add_embed(CLI::App& app, Action& action) {
    auto options = std::make_shared<EmbedCommand>();
    CLI::App& command = *app.add_subcommand("embed", "Turn texts, or the lines of a file, into vectors");
    auto* const texts = command.add_option("text", options->texts, "Texts, one vector each; none: lines of the input");
    options->encoder.add(command);
    command.add_option("-i,--input", options->input, "A file with a text on each line (default: standard input)")
        ->excludes(texts);
    command.add_option("-o,--output", options->output, "A file for NumPy (.npy, float32 [texts, numbers])");
    command.add_option("--pooling", options->pooling, "How a text's tokens become one vector (default: the model's)")
        ->check(CLI::IsMember({"cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken"}));
    options->normalize_option = command.add_flag("--normalize,!--no-normalize", options->normalize,
                                                 "Vectors of length 1, or not (default: as the model says)");
    options->prompt_option = command.add_option(
        "--prompt", options->prompt, "Put before every text, as in \"query: \" (default: the model's, if any)");
    command.add_option("--prompt-name", options->prompt_name, "The model folder's prompt of that name, as in query")
        ->excludes(options->prompt_option);
    command.add_flag("--json", options->json, "One JSON object per line: text, tokens, embedding, cut")
        ->excludes("--output");
    command.footer(
        "One line of numbers for each text, in order. Longer texts than the model takes are cut, which is said on\n"
        "standard error.\n"
        "Examples:\n"
        "  vkformer embed --model all-MiniLM-L6-v2 \"A cat on a mat.\" \"Eine Katze.\"\n"
        "  vkformer embed --model e5-small --prompt \"passage: \" --input passages.txt --output passages.npy\n"
        "  vkformer embed --model all-MiniLM-L6-v2 --json < lines.txt");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
