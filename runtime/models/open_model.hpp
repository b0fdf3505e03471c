// SPDX-License-Identifier: MIT
/// What a model's files are, found once: its config.json or its GGUF file is opened, its family looked up, and what comes of it says
/// which kind of model it is and can load it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/config.hpp"
#include "formats/gguf.hpp"
#include "models/decoder.hpp"
#include "models/encoder.hpp"
#include "models/encoder_decoder.hpp"
#include "models/vision_loading.hpp"

namespace vkformer::models {

struct CtcModel;
struct SentenceModel;

/// A model that hears in place of reading, one of two kinds; the other's pointer is null.
struct SpeechModel {
    std::unique_ptr<EncoderDecoder> model;  ///< Whisper
    std::uint32_t mel_bins = 0;  ///< of the spectrogram that audio::windows_of makes its features from; 0 with `ctc`
    std::shared_ptr<CtcModel> ctc{};  ///< Wav2Vec 2.0, HuBERT
};

/// A model of a known family whose weights are not read yet.
template <class Model>
struct Opened {
    std::filesystem::path path;  ///< as it was given
    std::filesystem::path
        files;  ///< a folder with config.json and weights, which may lie within `path`, or the GGUF file
    std::variant<formats::Config, formats::Gguf> head;  ///< config.json or the GGUF file
    /// Every weight is there with the shape that the config gives it; fields that would change the arithmetic and are not done are
    /// refused by name. Errors: FileNotFound, CorruptFile, UnsupportedConfig, UnsupportedDtype, MissingTensor, ShapeMismatch.
    std::function<Result<Model>()> load;

    /// nullptr where the model is a folder.
    const formats::Gguf* gguf() const noexcept { return std::get_if<formats::Gguf>(&head); }
};

/// In the order of ModelKind.
using OpenedModel = std::variant<Opened<std::unique_ptr<EncoderDecoder>>, Opened<Decoder>, Opened<Encoder>,
                                 Opened<VisionEncoder>, Opened<Clip>, Opened<SpeechModel>>;

enum class ModelKind : std::uint8_t { encoder_decoder, decoder, encoder, vision, clip, speech };
inline constexpr std::array kModelKinds = {ModelKind::encoder_decoder, ModelKind::decoder, ModelKind::encoder,
                                           ModelKind::vision,          ModelKind::clip,    ModelKind::speech};
static_assert(std::variant_size_v<OpenedModel> == kModelKinds.size());

/// FileNotes of a model of any kind.
inline const std::vector<std::string>& notes_of(const FileNotes& model) noexcept { return model.notes; }
inline const std::vector<std::string>& notes_of(const Clip& model) noexcept { return model.notes; }
const std::vector<std::string>& notes_of(const SpeechModel& speech) noexcept;
inline const std::vector<std::string>& notes_of(const std::unique_ptr<EncoderDecoder>& model) noexcept {
    return model->notes;
}

inline ModelKind kind_of(const OpenedModel& model) noexcept { return static_cast<ModelKind>(model.index()); }

/// The model of a folder, by the `model_type` of its config.json (without any it is an old opus-mt's; without the file, but with
/// modules.json, it is that of the encoder which the latter names), or of a GGUF file, by its general.architecture. A decoder is an
/// encoder of texts where there is a modules.json or a head "…ForSequenceClassification", or the file says a pooling, unless a
/// language model is asked for and no encoder. Errors:
/// UnsupportedConfig, where it is none of `wanted`, with their types and, if that is known, what it is (Error::hint says it too);
/// FileNotFound, CorruptFile.
Result<OpenedModel> open_model(const std::filesystem::path& path, std::span<const ModelKind> wanted = kModelKinds);

// Those of one kind, opened and loaded. Errors: those of open_model and of Opened::load.
Result<Opened<Decoder>> open_decoder(const std::filesystem::path& path);
Result<Opened<Encoder>> open_encoder(const std::filesystem::path& path);
/// That of the sentence model's folder, which a decoder is too where a modules.json names it.
Result<Opened<Encoder>> open_encoder(const SentenceModel& sentence);
Result<Decoder> load_decoder(const std::filesystem::path& path);
/// What files have beside the model's own layers to guess by, for multi-token prediction: a model with a handover. `model`: what was loaded
/// of them. Errors: those of Opened::load, and UnsupportedConfig (they have no such head, or one of a family that is not known).
Result<Decoder> load_head(const Opened<Decoder>& opened, const Decoder& model);
Result<std::unique_ptr<EncoderDecoder>> load_encoder_decoder(const std::filesystem::path& path);
Result<Encoder> load_encoder(const std::filesystem::path& path);
Result<VisionEncoder> load_vision_encoder(const std::filesystem::path& path);
Result<Clip> load_clip(const std::filesystem::path& path);
Result<SpeechModel> load_speech_model(const std::filesystem::path& path);

/// The values of model_type that are loaded as models of the kind.
std::vector<std::string_view> model_types(ModelKind kind);
/// "an encoder–decoder"
std::string_view kind_name(ModelKind kind) noexcept;
/// "encoder–decoders (marian, bart, …), language models (llama, …)": the kinds with every model_type that is loaded.
std::string list_types(std::span<const ModelKind> kinds);

}  // namespace vkformer::models
