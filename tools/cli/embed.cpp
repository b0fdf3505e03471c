// SPDX-License-Identifier: MIT
/// vkformer embed: texts in, vectors out, many at a time.
#include <cstdio>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "encoder_options.hpp"
#include "line_reader.hpp"
#include "pictures.hpp"
#include "vectors.hpp"
#include "vkformer/vision.hpp"

namespace vkformer::cli {
namespace {

struct EmbedCommand {
    EncoderCommand encoder;
    std::vector<std::string> texts, images;
    std::string input, output;
    std::string pooling, prompt, prompt_name;
    CLI::Option* prompt_option = nullptr;
    CLI::Option* normalize_option = nullptr;
    bool normalize = true;
    bool json = false;
};

std::string as_json(const std::string& text, const Embedding& embedding) {
    nlohmann::json object = {{"text", text}, {"tokens", embedding.tokens}, {"embedding", embedding.values}};
    if (embedding.cut > 0) object["cut"] = embedding.cut;
    return to_line(object);
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
                out += (command_.json ? as_json(texts[i], embedding) : as_text(embedding.values)) + "\n";
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

// ---- CLIP -----------------------------------------------------------------------------------------------------------

/// The texts of the command line or, where there are neither texts nor images, the lines of the input.
Result<std::vector<std::string>> read_texts(const EmbedCommand& command) {
    std::vector<std::string> texts = command.texts;
    if (!texts.empty() || (command.input.empty() && !command.images.empty())) return texts;
    VKFORMER_TRY(LineReader reader, LineReader::open(command.input));
    for (auto lines = reader.next(); !lines.empty(); lines = reader.next())
        texts.insert(texts.end(), lines.begin(), lines.end());
    return texts;
}

/// What is printed or written: a line or a row for each image, then for each text.
struct ClipOutput {
    std::string lines;
    std::vector<float> values;

    void add(const std::vector<float>& vector, const std::string& line) {
        values.insert(values.end(), vector.begin(), vector.end());
        lines += line + "\n";
    }
};

Result<ClipOutput> embed_with(ClipEncoder& encoder, const EmbedCommand& command) {
    VKFORMER_TRY(const auto images, load_images(command.images));
    VKFORMER_TRY(const auto texts, read_texts(command));
    VKFORMER_TRY(const auto vectors, encoder.embed_images(images, show_done("images", 0, images.size())));
    VKFORMER_TRY(const auto embeddings, encoder.embed_texts(texts, show_done("texts", 0, texts.size())));
    ClipOutput out;
    CutReport cut;
    for (std::size_t i = 0; i < vectors.size(); ++i)
        out.add(vectors[i], command.json ? to_line({{"image", command.images[i]}, {"embedding", vectors[i]}})
                                         : as_text(vectors[i]));
    for (std::size_t i = 0; i < embeddings.size(); ++i) {
        out.add(embeddings[i].values, command.json ? as_json(texts[i], embeddings[i]) : as_text(embeddings[i].values));
        cut.add(embeddings[i].cut);
    }
    cut.show("text", encoder.max_length());
    return out;
}

Result<int> run_clip(const EmbedCommand& command, const std::filesystem::path& folder, ClipOptions options) {
    if (!command.pooling.empty() || command.prompt_option->count() > 0 || !command.prompt_name.empty())
        return Error{ErrorCode::InvalidArgument, "CLIP models have no poolings and no prompts to choose from"};
    if (command.normalize_option->count() > 0) options.normalize = command.normalize;
    VKFORMER_TRY(ClipEncoder encoder, ClipEncoder::load(folder, options));
    if (!command.encoder.device.quiet)
        std::fprintf(stderr, "vkformer: device: %s\nvkformer: %zu numbers; at most %zu tokens\n",
                     encoder.device().c_str(), encoder.dimension(), encoder.max_length());
    VKFORMER_TRY(const ClipOutput out, embed_with(encoder, command));
    if (!command.output.empty()) {
        VKFORMER_CHECK(write_npy(command.output, encoder.dimension(), out.values));
    } else {
        VKFORMER_CHECK(print(out.lines));
    }
    return kOk;
}

Result<int> run(const EmbedCommand& command) {
    EmbedderOptions options;
    VKFORMER_TRY(const auto folder, command.encoder.apply(options));
    VKFORMER_TRY(const std::string type, model_type(folder));
    if (type == "clip") {
        ClipOptions clip;
        static_cast<EncoderOptions&>(clip) = options;
        return run_clip(command, folder, std::move(clip));
    }
    if (!command.images.empty())
        return Error{ErrorCode::InvalidArgument, "images need a CLIP model; this one is \"" + type + "\""};
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
    CLI::App& command = *app.add_subcommand("embed", "Turn texts, the lines of a file, or images into vectors");
    auto* const texts = command.add_option("text", options->texts, "Texts, one vector each; none: lines of the input");
    options->encoder.add(command);
    command
        .add_option("--image", options->images,
                    "A PNG or JPEG file, for CLIP models; several: again, or one after the other")
        ->type_name("FILE");
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
        "  vkformer embed --model all-MiniLM-L6-v2 --json < lines.txt\n"
        "  vkformer embed --model clip-vit-base-patch32 --image cat.jpg --image dog.png \"a cat\"");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
