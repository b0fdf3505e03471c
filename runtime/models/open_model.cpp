// SPDX-License-Identifier: MIT
#include "models/open_model.hpp"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "core/try.hpp"
#include "formats/weights.hpp"
#include "models/ctc_loading.hpp"
#include "models/decoder_loading.hpp"
#include "models/encoder_loading.hpp"
#include "models/gguf_architecture.hpp"
#include "models/packed_weights.hpp"
#include "models/passed_over.hpp"
#include "models/recurrent_seq2seq.hpp"
#include "models/sentence.hpp"
#include "models/seq2seq_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Gguf;
using formats::Weights;
using std::filesystem::path;

/// How the models of a family are read: a folder with this model_type, and a GGUF file of this architecture. Several families may share
/// an architecture; the first of them that names it reads the files.
template <class Model>
struct Family {
    using Type = Model;
    std::string_view model_type;
    Result<Model> (*from_folder)(const Config&, const Weights&);
    std::string_view architecture = {};  ///< empty: there are no such files
    Result<Model> (*from_file)(const Gguf&) = nullptr;
};

using Seq2SeqPointer = std::unique_ptr<EncoderDecoder>;

template <auto Load>
Result<Seq2SeqPointer> seq2seq(const Config& config, const Weights& weights) {
    VKFORMER_TRY(auto model, Load(config, weights));
    return Seq2SeqPointer(std::make_unique<decltype(model)>(std::move(model)));
}

// The functions of the families only name what is theirs: there are dozens, and the code behind is there once.

using LoadParts = Result<DecoderParts> (*)(const Config&, const Weights&);

Result<Decoder> decoder_by(LoadParts load, const Config& config, const Weights& weights) {
    VKFORMER_TRY(DecoderParts loaded, load(config, weights));
    VKFORMER_TRY(DecoderParts parts, language_model(config, weights, std::move(loaded)));
    return Decoder(std::move(parts.config), std::move(parts.weights));
}
template <LoadParts kLoad>
Result<Decoder> decoder(const Config& config, const Weights& weights) {
    return decoder_by(kLoad, config, weights);
}

Result<Decoder> decoder_of(const Gguf& file, const GgufArchitecture& architecture) {
    VKFORMER_TRY(DecoderParts parts, load_gguf_decoder(file, architecture));
    VKFORMER_CHECK(read_causality(file, architecture, parts.config));
    if (!parts.config.is_causal) return file.unsupported(std::string(architecture.name) + ".attention.causal", "true");
    VKFORMER_CHECK(check_attention(file.file_name(), parts.config));
    return Decoder(std::move(parts.config), std::move(parts.weights));
}
template <const GgufArchitecture& kArchitecture>
Result<Decoder> decoder_file(const Gguf& file) {
    return decoder_of(file, kArchitecture);
}

template <auto Load>
Result<Encoder> decoder_as_encoder(const Config& config, const Weights& weights) {
    VKFORMER_TRY(DecoderParts parts, Load(config, weights));
    return encoder_of(config, weights, std::move(parts));
}

Result<Encoder> encoder_of(const Gguf& file, const GgufArchitecture& architecture) {
    const std::string key = std::string(architecture.name) + ".pooling_type";
    VKFORMER_TRY(const auto pooling, file.unsigned_integer(key, {.fallback = 0}));
    if (pooling > 3) return file.unsupported(key, "1 (mean), 2 (cls), 3 (last)");
    VKFORMER_TRY(DecoderParts parts, load_gguf_decoder(file, architecture));
    VKFORMER_CHECK(read_causality(file, architecture, parts.config));
    const EncoderConfig config = encoder_config_of(parts.config);
    return encoder_over(std::move(parts), config, {});
}
template <const GgufArchitecture& kArchitecture>
Result<Encoder> decoder_file_as_encoder(const Gguf& file) {
    return encoder_of(file, kArchitecture);
}

Result<SpeechModel> speech(const Config& config, const Weights& weights) {
    VKFORMER_TRY(Seq2Seq model, load_whisper(config, weights));
    const std::uint32_t mel_bins = model.config().mel_bins;
    return SpeechModel{std::make_unique<Seq2Seq>(std::move(model)), mel_bins};
}
Result<SpeechModel> ctc(const Config& config, const Weights& weights) {
    SpeechModel speech;
    VKFORMER_TRY(speech.ctc, load_wav2vec2(config, weights));
    return speech;
}

constexpr Family<Seq2SeqPointer> kEncoderDecoders[] = {
    {"marian", &seq2seq<load_marian>},
    {"bart", &seq2seq<load_bart>},
    {"mbart", &seq2seq<load_bart>},
    {"m2m_100", &seq2seq<load_m2m100>},
    {"pegasus", &seq2seq<load_pegasus>},
    {"t5", &seq2seq<load_t5>},
    {"mt5", &seq2seq<load_t5>},
    {"umt5", &seq2seq<load_t5>},
    {"t5gemma", &load_t5gemma},  // two stacks of decoder.hpp
    {"recurrent_seq2seq", &seq2seq<load_recurrent_seq2seq>},
};
constexpr Family<Decoder> kDecoders[] = {
    {"llama", &decoder<load_llama>, kGgufLlama.name, &decoder_file<kGgufLlama>},
    {"mistral", &decoder<load_llama>, kGgufLlama.name, &decoder_file<kGgufLlama>},
    {"smollm3", &decoder<load_llama>, kGgufSmolLm3.name, &decoder_file<kGgufSmolLm3>},
    {"qwen2", &decoder<load_qwen>, kGgufQwen2.name, &decoder_file<kGgufQwen2>},
    {"qwen3", &decoder<load_qwen>, kGgufQwen3.name, &decoder_file<kGgufQwen3>},
    {"gemma", &decoder<load_gemma>, kGgufGemma.name, &decoder_file<kGgufGemma>},
    {"gemma2", &decoder<load_gemma>, kGgufGemma2.name, &decoder_file<kGgufGemma2>},
    {"gemma3_text", &decoder<load_gemma>, kGgufGemma3.name, &decoder_file<kGgufGemma3>},
    {"gemma3", &decoder<load_gemma>, kGgufGemma3.name, &decoder_file<kGgufGemma3>},
    {"gemma3n_text", &decoder<load_gemma3n>, kGgufGemma3n.name, &decoder_file<kGgufGemma3n>},
    {"gemma3n", &decoder<load_gemma3n>, kGgufGemma3n.name, &decoder_file<kGgufGemma3n>},
    {"gemma4_text", &decoder<load_gemma4>, kGgufGemma4.name, &decoder_file<kGgufGemma4>},
    {"gemma4", &decoder<load_gemma4>, kGgufGemma4.name, &decoder_file<kGgufGemma4>},
    {"phi3", &decoder<load_phi3>, kGgufPhi3.name, &decoder_file<kGgufPhi3>},
    {"gpt2", &decoder<load_gpt2>, kGgufGpt2.name, &decoder_file<kGgufGpt2>},
    {"gpt_neox", &decoder<load_gpt_neox>, kGgufGptNeox.name, &decoder_file<kGgufGptNeox>},
    {"gptj", &decoder<load_gptj>},
    {"phi", &decoder<load_phi>, kGgufPhi2.name, &decoder_file<kGgufPhi2>},
    {"opt", &decoder<load_opt>},
    {"starcoder2", &decoder<load_starcoder2>, kGgufStarcoder2.name, &decoder_file<kGgufStarcoder2>},
    {"olmo2", &decoder<load_olmo>, kGgufOlmo2.name, &decoder_file<kGgufOlmo2>},
    {"olmo3", &decoder<load_olmo>, kGgufOlmo2.name, &decoder_file<kGgufOlmo2>},
    {"mixtral", &decoder<load_mixtral>},  // its files are Llama's
    {"qwen2_moe", &decoder<load_qwen_moe>, kGgufQwen2Moe.name, &decoder_file<kGgufQwen2Moe>},
    {"qwen3_moe", &decoder<load_qwen_moe>, kGgufQwen3Moe.name, &decoder_file<kGgufQwen3Moe>},
    {"olmoe", &decoder<load_olmoe>, kGgufOlmoe.name, &decoder_file<kGgufOlmoe>},
    {"phimoe", &decoder<load_mixtral>},
    {"gpt_oss", &decoder<load_gpt_oss>, kGgufGptOss.name, &decoder_file<kGgufGptOss>},
    {"granite", &decoder<load_granite>, kGgufGranite.name, &decoder_file<kGgufGranite>},
    {"granitemoe", &decoder<load_granite>, kGgufGraniteMoe.name, &decoder_file<kGgufGraniteMoe>},
    {"granitemoeshared", &decoder<load_granite>},  // its files are granitemoe's
    {"granitemoehybrid", &decoder<load_granite>, kGgufGraniteHybrid.name, &decoder_file<kGgufGraniteHybrid>},
    {"bamba", &decoder<load_granite>},
    {"lfm2", &decoder<load_lfm2>, kGgufLfm2.name, &decoder_file<kGgufLfm2>},
    {"lfm2_moe", &decoder<load_lfm2>, kGgufLfm2Moe.name, &decoder_file<kGgufLfm2Moe>},
    {"nemotron_h", &decoder<load_nemotron_h>, kGgufNemotronH.name, &decoder_file<kGgufNemotronH>},
    {"nemotron_h", &decoder<load_nemotron_h>, kGgufNemotronHMoe.name, &decoder_file<kGgufNemotronHMoe>},
    {"qwen3_next", &decoder<load_qwen_hybrid>, kGgufQwen3Next.name, &decoder_file<kGgufQwen3Next>},
    {"qwen3_5_text", &decoder<load_qwen_hybrid>},
    {"qwen3_5", &decoder<load_qwen_hybrid>, kGgufQwen35.name, &decoder_file<kGgufQwen35>},
    {"qwen3_5_moe_text", &decoder<load_qwen_hybrid>},
    {"qwen3_5_moe", &decoder<load_qwen_hybrid>, kGgufQwen35Moe.name, &decoder_file<kGgufQwen35Moe>},
    {"deepseek_v2", &decoder<load_deepseek>, kGgufDeepseek2.name, &decoder_file<kGgufDeepseek2>},
    {"deepseek_v3", &decoder<load_deepseek>, kGgufDeepseek2.name, &decoder_file<kGgufDeepseek2>},
    {"glm4", &decoder<load_glm>, kGgufGlm4.name, &decoder_file<kGgufGlm4>},
    {"glm4_moe", &decoder<load_glm>, kGgufGlm4Moe.name, &decoder_file<kGgufGlm4Moe>},
    {"seed_oss", &decoder<load_llama>, kGgufSeedOss.name, &decoder_file<kGgufSeedOss>},
    {"exaone4", &decoder<load_olmo>, kGgufExaone4.name, &decoder_file<kGgufExaone4>},
    {"hunyuan_v1_dense", &decoder<load_llama>, kGgufHunyuanDense.name, &decoder_file<kGgufHunyuanDense>},
    {"ernie4_5", &decoder<load_llama>, kGgufErnie.name, &decoder_file<kGgufErnie>},
    {"ernie4_5_moe", &decoder<load_ernie_moe>, kGgufErnieMoe.name, &decoder_file<kGgufErnieMoe>},
    {"cohere", &decoder<load_cohere>, kGgufCommandR.name, &decoder_file<kGgufCommandR>},
    {"cohere2", &decoder<load_cohere>, kGgufCohere2.name, &decoder_file<kGgufCohere2>},
};
constexpr Family<Encoder> kEncoders[] = {
    {"bert", &load_bert, kGgufBert, &load_gguf_encoder},
    {"roberta", &load_roberta, kGgufBert, &load_gguf_encoder},
    {"xlm-roberta", &load_roberta, kGgufBert, &load_gguf_encoder},
    {"camembert", &load_roberta},
    {"distilbert", &load_distilbert},
    {"deberta-v2", &load_deberta},
    {"modernbert", &load_modernbert},
    {"nomic_bert", &load_nomic_bert},
    {"jina_embeddings_v3", &load_jina_embeddings},
    {"mpnet", &load_mpnet},
    {"llama", &decoder_as_encoder<load_llama>, kGgufLlama.name, &decoder_file_as_encoder<kGgufLlama>},
    {"mistral", &decoder_as_encoder<load_llama>, kGgufLlama.name, &decoder_file_as_encoder<kGgufLlama>},
    {"qwen2", &decoder_as_encoder<load_qwen>, kGgufQwen2.name, &decoder_file_as_encoder<kGgufQwen2>},
    {"qwen3", &decoder_as_encoder<load_qwen>, kGgufQwen3.name, &decoder_file_as_encoder<kGgufQwen3>},
    {"gemma3_text", &decoder_as_encoder<load_gemma>},
};
constexpr Family<VisionEncoder> kVisionEncoders[] = {{"vit", &load_vit},
                                                     {"deit", &load_vit},
                                                     {"dinov2", &load_dinov2},
                                                     {"dinov2_with_registers", &load_dinov2},
                                                     {"dinov3_vit", &load_dinov3}};
constexpr Family<Clip> kClips[] = {{"clip", &load_clip}, {"siglip", &load_siglip}};
constexpr Family<SpeechModel> kSpeechModels[] = {{"whisper", &speech}, {"wav2vec2", &ctc}, {"hubert", &ctc}};

/// Calls `visit` with the families of each kind, in the order of ModelKind.
void for_each_kind(auto&& visit) {
    visit(std::span(kEncoderDecoders));
    visit(std::span(kDecoders));
    visit(std::span(kEncoders));
    visit(std::span(kVisionEncoders));
    visit(std::span(kClips));
    visit(std::span(kSpeechModels));
}

void set_notes(FileNotes& model, std::vector<std::string> notes) { model.notes = std::move(notes); }
void set_notes(Clip& model, std::vector<std::string> notes) { model.notes = std::move(notes); }
void set_notes(Seq2SeqPointer& model, std::vector<std::string> notes) { model->notes = std::move(notes); }
void set_notes(SpeechModel& speech, std::vector<std::string> notes) {
    (speech.ctc ? speech.ctc->notes : speech.model->notes) = std::move(notes);
}

template <class Model>
std::function<Result<Model>()> loader(const path& folder, const Config& config, const Family<Model>& family) {
    return [folder, config, &family]() -> Result<Model> {
        VKFORMER_TRY(const Weights weights, open_folder_weights(config, folder));
        VKFORMER_TRY(Model model, family.from_folder(config, weights));
        set_notes(model, passed_over(config, weights));
        return model;
    };
}

template <class Model>
std::function<Result<Model>()> loader(const path&, const Gguf& file, const Family<Model>& family) {
    return [file, &family]() -> Result<Model> {
        VKFORMER_TRY(Model model, family.from_file(file));
        set_notes(model, passed_over(file));
        return model;
    };
}

/// Of each kind, the first family of that name. `files` as of Opened.
std::vector<OpenedModel> find_families(const auto& name_of, std::string_view name, const path& given, const path& files,
                                       const auto& head) {
    std::vector<OpenedModel> models;
    if (name.empty()) return models;  // what a family without GGUF files has
    for_each_kind([&](auto families) {
        const auto found = std::ranges::find(families, name, name_of);
        using Model = typename std::remove_cvref_t<decltype(*found)>::Type;
        if (found != families.end()) models.push_back(Opened<Model>{given, files, head, loader(files, head, *found)});
    });
    return models;
}

/// Which of them it is. A decoder is an encoder where its files say that it `encodes`, unless a language model is asked for and no encoder.
std::optional<OpenedModel> choose(std::vector<OpenedModel> models, bool encodes, std::span<const ModelKind> wanted) {
    const bool takes_encoders = std::ranges::count(wanted, ModelKind::encoder) > 0;
    const bool takes_decoders = std::ranges::count(wanted, ModelKind::decoder) > 0;
    const bool prefers_last = encodes && (takes_encoders || !takes_decoders);
    if (models.empty()) return {};
    return prefers_last ? std::move(models.back()) : std::move(models.front());
}

struct KindWords {
    std::string_view name, plural;
    Hint hint;
};
constexpr std::array<KindWords, kModelKinds.size()> kWords = {{
    {"an encoder–decoder", "encoder–decoders", Hint::encoder_decoder},
    {"a language model", "language models", Hint::language_model},
    {"an encoder of texts", "encoders of texts", Hint::text_encoder},
    {"a vision model", "vision models", Hint::vision_model},
    {"a CLIP or SigLIP", "models of images and texts", Hint::clip_model},
    {"a speech model", "speech models", Hint::speech_model},
}};
const KindWords& words_of(ModelKind kind) noexcept { return kWords[static_cast<std::size_t>(kind)]; }

std::string joined(std::span<const std::string_view> names) {
    std::string text;
    for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
    return text;
}

std::string architectures(std::span<const ModelKind> kinds) {
    std::vector<std::string_view> names;
    std::size_t index = 0;
    for_each_kind([&](auto families) {
        const bool is_asked = std::ranges::count(kinds, kModelKinds[index++]) > 0;
        for (const auto& family : families)
            if (is_asked && !family.architecture.empty() && std::ranges::count(names, family.architecture) == 0)
                names.push_back(family.architecture);
    });
    return joined(names);
}

Result<OpenedModel> open_file(const path& path, std::span<const ModelKind> wanted) {
    VKFORMER_TRY(const Gguf file, Gguf::open(path));
    VKFORMER_TRY(const std::string name, file.string("general.architecture"));
    VKFORMER_TRY(const auto pooling, file.unsigned_integer(name + ".pooling_type", {.fallback = 0}));
    const auto model =
        choose(find_families([](const auto& family) { return family.architecture; }, name, path, path, file),
               pooling > 0, wanted);
    if (!model) return file.unsupported("general.architecture", architectures(wanted));
    const ModelKind kind = kind_of(*model);
    if (std::ranges::count(wanted, kind) > 0) return *model;
    return Error{.code = ErrorCode::UnsupportedConfig,
                 .message = path.string() + ": is a GGUF file of " + std::string(words_of(kind).name) +
                            ", supported: " + list_types(wanted),
                 .hint = words_of(kind).hint};
}

/// The folder that config.json is in.
Result<path> folder_of(const path& folder) {
    std::error_code ignored;
    const auto has = [&](const char* name) { return std::filesystem::exists(folder / name, ignored); };
    if (has("config.json") || !has("modules.json")) return folder;
    VKFORMER_TRY(const SentenceModel sentence, load_sentence_model(folder));
    return sentence.encoder_folder;
}

/// Whether the files of a decoder say that it gives vectors or scores.
Result<bool> is_encoder(const path& given, const Config& config) {
    std::error_code ignored;
    if (std::filesystem::exists(given / "modules.json", ignored)) {
        VKFORMER_TRY(const auto tokens, read_score_tokens(given));
        return !tokens;  // with such, a language model whose logits are read
    }
    VKFORMER_TRY(const std::uint32_t labels, read_labels(config));
    return labels > 0;
}

/// `is_module`: a modules.json elsewhere says that the folder has an encoder.
Result<OpenedModel> open_folder(const path& given, std::span<const ModelKind> wanted, bool is_module = false) {
    VKFORMER_TRY(const path folder, folder_of(given));
    VKFORMER_TRY(const Config config, Config::open(folder / "config.json"));
    VKFORMER_TRY(const std::string type, config.string("model_type", "marian"));
    VKFORMER_TRY(const bool encodes, is_module ? Result<bool>(true) : is_encoder(given, config));
    const auto model =
        choose(find_families([](const auto& family) { return family.model_type; }, type, given, folder, config),
               encodes, wanted);
    if (model && std::ranges::count(wanted, kind_of(*model)) > 0) return *model;
    Error error = config.unsupported("model_type", list_types(wanted));
    error.message = folder.string() + "/" + error.message;  // which begins with the file's name
    if (model) {
        error.message += "; this one is " + std::string(words_of(kind_of(*model)).name);
        error.hint = words_of(kind_of(*model)).hint;
    }
    return error;
}

/// The model of one kind.
template <ModelKind kKind>
auto open_as(const path& path) -> Result<std::variant_alternative_t<static_cast<std::size_t>(kKind), OpenedModel>> {
    VKFORMER_TRY(OpenedModel model, open_model(path, std::array{kKind}));
    return std::get<static_cast<std::size_t>(kKind)>(std::move(model));
}

template <ModelKind kKind>
auto load_as(const path& path) -> decltype(open_as<kKind>(path)->load()) {
    VKFORMER_TRY(const auto model, open_as<kKind>(path));
    return model.load();
}

}  // namespace

Result<OpenedModel> open_model(const path& path, std::span<const ModelKind> wanted) {
    return formats::is_file(path) ? open_file(path, wanted) : open_folder(path, wanted);
}

const std::vector<std::string>& notes_of(const SpeechModel& speech) noexcept {
    return speech.ctc ? speech.ctc->notes : speech.model->notes;
}

Result<Opened<Decoder>> open_decoder(const path& path) { return open_as<ModelKind::decoder>(path); }
Result<Opened<Encoder>> open_encoder(const path& path) { return open_as<ModelKind::encoder>(path); }
Result<Opened<Encoder>> open_encoder(const SentenceModel& sentence) {
    if (!sentence.is_listed) return open_encoder(sentence.encoder_folder);
    VKFORMER_TRY(auto model, open_folder(sentence.encoder_folder, std::array{ModelKind::encoder}, true));
    return std::get<Opened<Encoder>>(std::move(model));
}

Result<Decoder> load_decoder(const path& path) { return load_as<ModelKind::decoder>(path); }
Result<std::unique_ptr<EncoderDecoder>> load_encoder_decoder(const path& path) {
    return load_as<ModelKind::encoder_decoder>(path);
}
Result<Encoder> load_encoder(const path& path) { return load_as<ModelKind::encoder>(path); }
Result<VisionEncoder> load_vision_encoder(const path& path) { return load_as<ModelKind::vision>(path); }
Result<Clip> load_clip(const path& path) { return load_as<ModelKind::clip>(path); }
Result<SpeechModel> load_speech_model(const path& path) { return load_as<ModelKind::speech>(path); }

std::vector<std::string_view> model_types(ModelKind kind) {
    std::vector<std::string_view> types;
    std::size_t index = 0;
    for_each_kind([&](auto families) {
        if (kModelKinds[index++] != kind) return;
        for (const auto& family : families)
            if (std::ranges::count(types, family.model_type) == 0) types.push_back(family.model_type);
    });
    return types;
}

std::string_view kind_name(ModelKind kind) noexcept { return words_of(kind).name; }

std::string list_types(std::span<const ModelKind> kinds) {
    std::string text;
    for (const ModelKind kind : kinds)
        text +=
            (text.empty() ? "" : ", ") + std::string(words_of(kind).plural) + " (" + joined(model_types(kind)) + ")";
    return text;
}

}  // namespace vkformer::models
