// SPDX-License-Identifier: MIT
#include "models/load.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/encoder_loading.hpp"
#include "models/model_type.hpp"
#include "models/recurrent_seq2seq.hpp"
#include "models/seq2seq_loading.hpp"

namespace vkformer::models {
namespace {

Result<std::unique_ptr<EncoderDecoder>> load_recurrent(const std::filesystem::path& folder) {
    VKFORMER_TRY(auto model, RecurrentSeq2Seq::load(folder));
    return std::unique_ptr<EncoderDecoder>(std::make_unique<RecurrentSeq2Seq>(std::move(model)));
}

template <auto Load>
Result<std::unique_ptr<EncoderDecoder>> load_seq2seq(const std::filesystem::path& folder) {
    VKFORMER_TRY(const formats::Config config, formats::Config::open(folder / "config.json"));
    VKFORMER_TRY(const formats::Weights weights, formats::open_weights(folder));
    VKFORMER_TRY(Seq2Seq model, Load(config, weights));
    return std::unique_ptr<EncoderDecoder>(std::make_unique<Seq2Seq>(std::move(model)));
}

constexpr std::string_view kSpeechType = "whisper";

struct Architecture {
    std::string_view model_type;
    Result<std::unique_ptr<EncoderDecoder>> (*load)(const std::filesystem::path&);
};
constexpr std::array<Architecture, 8> kArchitectures = {{
    {"marian", &load_seq2seq<load_marian>},
    {"bart", &load_seq2seq<load_bart>},
    {"mbart", &load_seq2seq<load_bart>},
    {"m2m_100", &load_seq2seq<load_m2m100>},
    {"t5", &load_seq2seq<load_t5>},
    {"mt5", &load_seq2seq<load_t5>},
    {"umt5", &load_seq2seq<load_t5>},
    {"recurrent_seq2seq", &load_recurrent},
}};

struct DecoderArchitecture {
    std::string_view model_type;
    Result<DecoderParts> (*load)(const formats::Config&, const formats::Weights&);
};
constexpr std::array<DecoderArchitecture, 11> kDecoders = {{
    {"llama", &load_llama},
    {"mistral", &load_llama},
    {"smollm3", &load_llama},
    {"qwen2", &load_qwen},
    {"qwen3", &load_qwen},
    {"gemma", &load_gemma},
    {"gemma2", &load_gemma},
    {"gemma3_text", &load_gemma},
    {"gemma3", &load_gemma},
    {"phi3", &load_phi3},
    {"gpt2", &load_gpt2},
}};

}  // namespace

Result<std::unique_ptr<EncoderDecoder>> load_encoder_decoder(const std::filesystem::path& folder) {
    VKFORMER_TRY(const formats::Config config, formats::Config::open(folder / "config.json"));
    // Old opus-mt folders lack the field.
    VKFORMER_TRY(const std::string type, config.string("model_type", "marian"));
    std::string supported;
    for (const Architecture& architecture : kArchitectures) {
        if (architecture.model_type == type) return architecture.load(folder);
        supported += (supported.empty() ? "" : ", ") + std::string(architecture.model_type);
    }
    return unknown_model_type(folder, config, supported);
}

Result<bool> is_encoder_decoder(const std::filesystem::path& folder) {
    VKFORMER_TRY(const formats::Config config, formats::Config::open(folder / "config.json"));
    VKFORMER_TRY(const std::string type, config.string("model_type", "marian"));
    return std::ranges::find(kArchitectures, type, &Architecture::model_type) != kArchitectures.end();
}

Result<bool> is_speech_model(const std::filesystem::path& folder) {
    VKFORMER_TRY(const formats::Config config, formats::Config::open(folder / "config.json"));
    VKFORMER_TRY(const std::string type, config.string("model_type", ""));
    return type == kSpeechType;
}

Result<SpeechModel> load_speech_model(const std::filesystem::path& folder) {
    VKFORMER_TRY(const formats::Config config, formats::Config::open(folder / "config.json"));
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    if (type != kSpeechType) return unknown_model_type(folder, config, std::string(kSpeechType));
    VKFORMER_TRY(const formats::Weights weights, formats::open_weights(folder));
    VKFORMER_TRY(Seq2Seq model, load_whisper(config, weights));
    const std::uint32_t mel_bins = model.config().mel_bins;
    return SpeechModel{std::make_unique<Seq2Seq>(std::move(model)), mel_bins};
}

Result<Decoder> load_decoder(const std::filesystem::path& path) {
    if (formats::is_file(path)) {
        VKFORMER_TRY(const formats::Gguf file, formats::Gguf::open(path));
        VKFORMER_TRY(DecoderParts parts, load_gguf_decoder(file));
        return Decoder(std::move(parts.config), std::move(parts.weights));
    }
    VKFORMER_TRY(const formats::Config config, formats::Config::open(path / "config.json"));
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    std::string supported;
    for (const DecoderArchitecture& architecture : kDecoders) {
        if (architecture.model_type == type) {
            VKFORMER_TRY(const formats::Weights weights, formats::open_weights(path));
            VKFORMER_TRY(DecoderParts parts, architecture.load(config, weights));
            return Decoder(std::move(parts.config), std::move(parts.weights));
        }
        supported += (supported.empty() ? "" : ", ") + std::string(architecture.model_type);
    }
    return unknown_model_type(path, config, supported);
}

Result<bool> is_decoder(const std::filesystem::path& path) {
    if (formats::is_file(path)) {
        VKFORMER_TRY(const bool encodes, is_encoder(path));
        return !encodes;
    }
    VKFORMER_TRY(const formats::Config config, formats::Config::open(path / "config.json"));
    VKFORMER_TRY(const std::string type, config.string("model_type", ""));
    return std::ranges::find(kDecoders, type, &DecoderArchitecture::model_type) != kDecoders.end();
}

}  // namespace vkformer::models
