// SPDX-License-Identifier: MIT
// Files with one value that is no number, in each of their tensors in turn.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "formats/gguf.hpp"
#include "formats/gguf_writer.hpp"
#include "formats/safetensors.hpp"
#include "models/encoder_loading.hpp"
#include "models/gguf_export.hpp"
#include "models/open_model.hpp"
#include "models/sentence.hpp"
#include "models/vision_loading.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

namespace fs = std::filesystem;

/// Why a model was not loaded; none: it was.
using Load = std::optional<Error> (*)(const fs::path&);

template <class T>
std::optional<Error> error_of(Result<T> result) {
    if (result) return std::nullopt;
    return std::move(result).error();
}

std::optional<Error> decoder_error(const fs::path& path) { return error_of(models::load_decoder(path)); }
std::optional<Error> encoder_error(const fs::path& path) { return error_of(models::load_encoder(path)); }
/// Decoders that serve as encoders are among them; one is a language model that scores.
std::optional<Error> modern_encoder_error(const fs::path& path) {
    return path.filename() == "qwen3_reranker" ? decoder_error(path) : encoder_error(path);
}
std::optional<Error> encoder_decoder_error(const fs::path& path) {
    return error_of(models::load_encoder_decoder(path));
}
std::optional<Error> speech_error(const fs::path& path) { return error_of(models::load_speech_model(path)); }
std::optional<Error> sentences_error(const fs::path& path) { return error_of(models::load_sentence_model(path)); }
std::optional<Error> vision_error(const fs::path& path) {
    const std::string name = path.filename().string();
    const bool is_clip = name.starts_with("clip") || name.starts_with("siglip");
    return is_clip ? error_of(models::load_clip(path)) : error_of(models::load_vision_encoder(path));
}

void overwrite(const fs::path& path, std::span<const std::byte> bytes) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(file.good());
}

struct LastBlock {
    std::string name;
    std::span<std::byte> block;  ///< the tensor's last
};

std::vector<LastBlock> places_in(std::span<std::byte> file, bool is_gguf) {
    formats::TensorMap tensors;
    if (is_gguf) {
        const auto parsed = must(formats::Gguf::parse(file, nullptr, "file"));
        for (const auto& tensor : parsed.tensors())
            tensors.emplace(tensor.name, must(parsed.weights().get(tensor.name)));
    } else {
        tensors = must(formats::Safetensors::parse(file, nullptr, "file")).tensors();
    }
    std::vector<LastBlock> places;
    for (const auto& [name, tensor] : tensors) {
        if (!is_float(tensor.dtype) && !is_quantized(tensor.dtype)) continue;  // integers are always numbers
        if (tensor.bytes.empty()) continue;
        const auto first = static_cast<std::size_t>(tensor.bytes.data() - file.data());
        const std::size_t block = bytes_of(tensor.dtype, block_elements(tensor.dtype));
        places.push_back({name, file.subspan(first + tensor.bytes.size() - block, block)});
    }
    return places;
}

/// Heads for training, and towers of pictures beside a language model, that files have and none of the graphs reads.
bool is_of_other_graphs(const std::string& name, bool has_head) {
    return (name.starts_with("pooler.") && !has_head) || name.starts_with("cls.predictions.") ||
           name.starts_with("model.visual.") || name.ends_with("embeddings.mask_token") ||
           name.ends_with(".masked_spec_embed");
}

/// The tensors of a file that may hold what is no number; all others must be refused by name.
std::vector<std::string> unread_in(const fs::path& model, const fs::path& weights, Load load) {
    const fs::path config = model / "config.json";
    const bool has_head =
        fs::exists(config) && read_file(config).find("ForSequenceClassification") != std::string::npos;
    const std::vector<std::byte> original = read_bytes(weights);
    REQUIRE_FALSE(load(model));
    std::vector<std::byte> changed = original;
    std::vector<std::string> unread;
    for (const LastBlock& place : places_in(changed, weights.extension() == ".gguf")) {
        const std::vector<std::byte> kept(place.block.begin(), place.block.end());
        std::ranges::fill(place.block, std::byte{0xFF});  // as a float of any size, and as a block's scale, no number
        overwrite(weights, changed);
        std::ranges::copy(kept, place.block.begin());
        const std::optional<Error> error = load(model);
        if (!error) {
            if (!is_of_other_graphs(place.name, has_head)) unread.push_back(place.name);
            continue;
        }
        CAPTURE(place.name, error->message);
        CHECK(error->code == ErrorCode::CorruptFile);
        CHECK(error->message.find(place.name + " has a value that is infinite or no number") != std::string::npos);
    }
    overwrite(weights, original);
    return unread;
}

struct Family {
    std::string folder;  ///< of the goldens
    Load load;
};

std::vector<std::pair<fs::path, Load>> models_of(const std::vector<Family>& families) {
    std::vector<std::pair<fs::path, Load>> found;
    for (const Family& family : families)
        for (const auto& entry : fs::directory_iterator(goldens_dir() / family.folder))
            if (entry.path().extension() == ".gguf" || fs::exists(entry.path() / "model.safetensors"))
                found.emplace_back(entry.path(), family.load);
    REQUIRE(found.size() >= families.size());
    return found;
}

}  // namespace

TEST_CASE("every tensor that a graph reads is refused with a value that is no number", "[models][errors]") {
    const auto cases = models_of({{"decoders", &decoder_error},
                                  {"gguf_decoders", &decoder_error},
                                  {"encoders", &encoder_error},
                                  {"modern_encoders", &modern_encoder_error},
                                  {"sentences", &encoder_error},
                                  {"encoder_decoders", &encoder_decoder_error},
                                  {"marian", &encoder_decoder_error},
                                  {"seq2seq", &encoder_decoder_error},
                                  {"speech", &speech_error},
                                  {"ctc", &speech_error},
                                  {"vision/models", &vision_error},
                                  {"modern_vision/models", &vision_error}});
    for (const auto& [source, load] : cases) {
        CAPTURE(source);
        const TemporaryFolder folder;
        const fs::path model = folder.path() / source.filename();
        fs::copy(source, model, fs::copy_options::recursive);
        const fs::path weights = fs::is_directory(model) ? model / "model.safetensors" : model;
        CHECK(unread_in(model, weights, load) == std::vector<std::string>{});
    }
}

TEST_CASE("every tensor in blocks is refused with a scale that is no number", "[models][gguf][errors]") {
    const DType dtype = GENERATE(DType::q8_0, DType::q4_0, DType::mxfp4);
    const TemporaryFolder folder;
    const auto source = must(formats::Gguf::open(goldens_dir() / "gguf_decoders" / "llama3_scaled_bf16.gguf"));
    const auto contents = must(models::requantized(source, dtype));
    const fs::path model = folder.path() / "blocks.gguf";
    must(formats::write_gguf(model, contents.metadata, contents.tensors));
    {  // what is mapped is not written anew on Windows
        const auto written = must(formats::Gguf::open(model));
        REQUIRE(must(written.weights().get("blk.0.attn_q.weight")).dtype == dtype);
    }
    CHECK(unread_in(model, model, &decoder_error) == std::vector<std::string>{});
}

TEST_CASE("a layer behind the pooling is refused with a value that is no number", "[models][sentence][errors]") {
    const TemporaryFolder folder;
    const fs::path model = folder.path() / "embedder";
    fs::copy(goldens_dir() / "sentences" / "embedder", model, fs::copy_options::recursive);
    CHECK(unread_in(model, model / "2_Dense" / "model.safetensors", &sentences_error) == std::vector<std::string>{});
}

}  // namespace vkformer::tests
