// SPDX-License-Identifier: MIT
/// vkformer embed: texts in, vectors out, many at a time.
#include <array>
#include <cstdio>
#include <limits>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "encoder_options.hpp"
#include "inputs.hpp"
#include "models/open_model.hpp"
#include "pictures.hpp"
#include "vectors.hpp"
#include "vkformer/vision.hpp"

namespace vkformer::cli {
namespace {

struct EmbedCommand {
    EncoderCommand encoder;
    LoraOption lora;
    std::vector<std::string> texts, images;
    BadInputs bad;
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
template <class Embed, class Check>
class Texts {
public:
    Texts(EmbedCommand& command, std::size_t dimension, Embed embed, Check check)
        : command_(command), dimension_(dimension), embed_(std::move(embed)), check_(std::move(check)) {}

    Result<void> run() {
        VKFORMER_TRY(Inputs inputs, Inputs::open("text", command_.texts, command_.input));
        command_.bad.begin(inputs);
        while (!command_.bad.has_ended()) {
            VKFORMER_TRY(auto some, inputs.next());
            if (some.empty()) break;
            VKFORMER_CHECK(add(std::move(some)));
        }
        return {};
    }

    const std::vector<float>& values() const noexcept { return values_; }
    const CutReport& cut() const noexcept { return cut_; }

private:
    Result<void> add(std::vector<Input<std::string>> inputs) {
        const auto progress = show_done("texts", inputs.front().number - 1, inputs.size());
        const auto embed = [&](const std::vector<std::string>& texts) { return embed_(texts, progress); };
        VKFORMER_TRY(const auto embeddings, command_.bad.results(inputs, embed, check_));
        std::string out;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const auto& embedding = embeddings[i];
            if (embedding) cut_.add(embedding->cut);
            if (!command_.output.empty()) {
                // A row that is visibly none, so that the others keep their numbers.
                const std::vector<float> none(embedding ? 0 : dimension_, std::numeric_limits<float>::quiet_NaN());
                const std::vector<float>& row = embedding ? embedding->values : none;
                values_.insert(values_.end(), row.begin(), row.end());
            } else if (command_.json) {
                out += (embedding ? as_json(inputs[i].value, *embedding) : command_.bad.as_json(inputs[i])) + "\n";
            } else {
                out += (embedding ? spaced(embedding->values) : "") + "\n";
            }
        }
        return print(out);
    }

    EmbedCommand& command_;
    std::size_t dimension_;
    Embed embed_;
    Check check_;
    std::vector<float> values_;
    CutReport cut_;
};

/// The file, if one was asked for and nothing ended the work; then what was wrong with the texts, if anything.
Result<int> finish(const EmbedCommand& command, std::size_t dimension, const std::vector<float>& values) {
    if (!command.output.empty() && !command.bad.has_ended())
        VKFORMER_CHECK(write_npy(command.output, dimension, values));
    return command.bad.finish();
}

// ---- images ---------------------------------------------------------------------------------------------------------

/// A line or a row for each image; the rows are appended to `values`.
Result<void> embed_images(ImageEmbedder& encoder, const EmbedCommand& command, std::vector<float>& values) {
    VKFORMER_TRY(const auto images, load_images(command.images));
    VKFORMER_TRY(const auto vectors, encoder.embed_images(images, show_done("images", 0, images.size())));
    std::string out;
    for (std::size_t i = 0; i < vectors.size(); ++i) {
        if (!command.output.empty())
            values.insert(values.end(), vectors[i].begin(), vectors[i].end());
        else
            out += (command.json ? to_line({{"image", command.images[i]}, {"embedding", vectors[i]}})
                                 : spaced(vectors[i])) +
                   "\n";
    }
    return print(out);
}

Result<int> run_image_model(EmbedCommand& command, const std::filesystem::path& folder, ImageEmbedderOptions options) {
    if (!command.pooling.empty() || command.prompt_option->count() > 0 || !command.prompt_name.empty())
        return Error{ErrorCode::InvalidArgument, "models of images have no poolings and no prompts to choose from"};
    if (command.normalize_option->count() > 0) options.normalize = command.normalize;
    VKFORMER_TRY(ImageEmbedder encoder, ImageEmbedder::load(folder, options));
    VKFORMER_CHECK(command.encoder.device.heed(encoder.notes()));
    if (!encoder.reads_texts() && (command.images.empty() || !command.texts.empty() || !command.input.empty()))
        return Error{ErrorCode::InvalidArgument, "the model sees images only; say --image FILE, and no texts"};
    if (!command.encoder.device.quiet) {
        std::fprintf(stderr, "vkformer: device: %s\nvkformer: %zu numbers", encoder.device().c_str(),
                     encoder.dimension());
        if (encoder.reads_texts()) std::fprintf(stderr, "; at most %zu tokens", encoder.max_length());
        std::fprintf(stderr, "\n");
    }
    std::vector<float> values;
    VKFORMER_CHECK(embed_images(encoder, command, values));
    // Where images are named, standard input is asked for by name only.
    if (!command.images.empty() && command.texts.empty() && command.input.empty())
        return finish(command, encoder.dimension(), values);
    Texts texts(
        command, encoder.dimension(),
        [&](const std::vector<std::string>& some, const auto& progress) { return encoder.embed_texts(some, progress); },
        [&](const std::string& text) { return encoder.check_text(text); });
    VKFORMER_CHECK(texts.run());
    texts.cut().show("text", encoder.max_length());
    values.insert(values.end(), texts.values().begin(), texts.values().end());
    return finish(command, encoder.dimension(), values);
}

Result<int> run(EmbedCommand command) {
    EmbedderOptions options;
    VKFORMER_TRY(const auto folder, command.encoder.apply(options));
    VKFORMER_TRY(const auto adapters, command.lora.ask(options.adapters));
    constexpr std::array kKinds = {models::ModelKind::encoder, models::ModelKind::vision, models::ModelKind::clip};
    VKFORMER_TRY(const auto opened, models::open_model(folder, kKinds));
    if (models::kind_of(opened) != models::ModelKind::encoder) {
        ImageEmbedderOptions images;
        static_cast<EncoderOptions&>(images) = options;
        return run_image_model(command, folder, std::move(images));
    }
    if (!command.images.empty())
        return Error{ErrorCode::InvalidArgument,
                     "images need a vision model, a CLIP or a SigLIP; this one is an encoder of texts"};
    options.pooling = command.pooling;
    options.prompt_name = command.prompt_name;
    if (command.prompt_option->count() > 0) options.prompt = command.prompt;
    if (command.normalize_option->count() > 0) options.normalize = command.normalize;
    VKFORMER_TRY(Embedder embedder, Embedder::load(folder, options));
    VKFORMER_CHECK(command.encoder.device.heed(embedder.notes()));
    if (!command.encoder.device.quiet)
        std::fprintf(stderr, "vkformer: device: %s\nvkformer: pooling: %s; %zu numbers; at most %zu tokens\n",
                     embedder.device().c_str(), embedder.pooling().c_str(), embedder.dimension(),
                     embedder.max_length());
    Texts texts(
        command, embedder.dimension(),
        [&](const std::vector<std::string>& some, const auto& progress) {
            return embedder.embed(some, progress, adapters);
        },
        [&](const std::string& text) { return embedder.check(text); });
    VKFORMER_CHECK(texts.run());
    texts.cut().show("text", embedder.max_length());
    return finish(command, embedder.dimension(), texts.values());
}

}  // namespace

void add_embed(CLI::App& app, Action& action) {
    auto options = std::make_shared<EmbedCommand>();
    CLI::App& command = *app.add_subcommand("embed", "Turn texts, the lines of a file, or images into vectors");
    auto* const texts = command.add_option("text", options->texts, "Texts, one vector each; none: lines of the input");
    options->encoder.add(command);
    options->lora.add(command);
    command
        .add_option("--image", options->images,
                    "A PNG or JPEG file, for vision models, CLIP and SigLIP; several: again")
        ->allow_extra_args(false)  // what follows is a text
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
    options->bad.add(command);
    command.add_flag("--json", options->json, "One JSON object per line: text, tokens, embedding, cut")
        ->excludes("--output");
    command.footer(
        "One line of numbers for each text, in order. Longer texts than the model takes are cut, which is said on\n"
        "standard error.\n"
        "Examples:\n"
        "  vkformer embed --model all-MiniLM-L6-v2 \"A cat on a mat.\" \"Eine Katze.\"\n"
        "  vkformer embed --model e5-small --prompt \"passage: \" --input passages.txt --output passages.npy\n"
        "  vkformer embed --model all-MiniLM-L6-v2 --json < lines.txt\n"
        "  vkformer embed --model clip-vit-base-patch32 --image cat.jpg --image dog.png \"a cat\"\n"
        "  vkformer embed --model dinov2-base --image cat.jpg --image dog.png --output images.npy");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
