// SPDX-License-Identifier: MIT
#include "vkformer/embedder.hpp"

#include <array>

#include "api/encoder_heads.hpp"
#include "api/encoder_runner.hpp"
#include "api/named_adapters.hpp"
#include "api/yes_no_reranker.hpp"
#include "core/try.hpp"
#include "models/open_model.hpp"
#include "models/sentence.hpp"
#include "text/normalizers.hpp"
#include "text/unicode.hpp"

namespace vkformer {
namespace {

/// The text to put before every text.
Result<std::string> find_prompt(const models::SentenceModel& model, const EmbedderOptions& options) {
    if (options.prompt && !options.prompt_name.empty())
        return Error{ErrorCode::InvalidArgument, "a prompt and the name of another one exclude each other"};
    if (options.prompt) return *options.prompt;
    const std::string& name = options.prompt_name.empty() ? model.default_prompt : options.prompt_name;
    if (name.empty()) return std::string();
    const auto found = model.prompts.find(name);
    if (found != model.prompts.end()) return found->second;
    std::string names;
    for (const auto& [known, prompt] : model.prompts) names += (names.empty() ? "" : ", ") + known;
    return Error{ErrorCode::InvalidArgument,
                 "the model has no prompt \"" + name + "\"; " +
                     (names.empty() ? "it has none by name: give the text itself" : "it has " + names)};
}

std::string describe(const models::SentenceModel& model) {
    std::string text;
    for (const graph::Pooling pooling : model.pooling)
        text += (text.empty() ? "" : " + ") + std::string(models::pooling_name(pooling));
    for (const auto& stage : model.stages)
        text += std::holds_alternative<models::NormalizeStage>(stage) ? ", normalised" : ", dense layer";
    return text;
}

Result<models::SentenceModel> sentence_model(const std::filesystem::path& folder, const EmbedderOptions& options) {
    VKFORMER_TRY(auto model, models::load_sentence_model(folder));
    if (!options.pooling.empty()) {
        VKFORMER_TRY(const auto pooling, models::parse_pooling(options.pooling));
        model.pooling = {pooling};
    }
    if (options.normalize && *options.normalize != model.normalizes()) model.set_normalize(*options.normalize);
    return model;
}

/// A dense layer takes what the poolings give, in width.
Result<void> check_widths(const models::SentenceModel& model, std::uint64_t hidden_size) {
    std::uint64_t width = hidden_size * model.pooling.size();
    for (const auto& stage : model.stages) {
        const auto* const dense = std::get_if<models::DenseStage>(&stage);
        if (!dense) continue;
        if (dense->weight.shape[1] != width)
            return Error{ErrorCode::ShapeMismatch, "the dense layer takes " + std::to_string(dense->weight.shape[1]) +
                                                       " numbers, the pooling gives " + std::to_string(width)};
        width = dense->weight.shape[0];
    }
    return {};
}

/// With the adapters of the options beside its weights.
Result<models::Encoder> load_adapted(const models::Opened<models::Encoder>& opened, const EncoderOptions& options) {
    VKFORMER_TRY(const auto adapters, api::open_adapters(options.adapters));
    VKFORMER_TRY(auto encoder, opened.load());
    if (adapters.empty()) return encoder;
    return models::with_adapters(opened, encoder, adapters);
}

}  // namespace

struct Embedder::Impl {
    api::EncoderRunner runner;
    std::string prompt, pooling;
    bool lower_case;
    std::size_t dimension;

    bool changes_texts() const noexcept { return !prompt.empty() || lower_case; }
    /// The text as the model reads it.
    std::string changed(const std::string& text) const {
        const std::string prompted = prompt + text;
        const bool lowers = lower_case && text::is_utf8(prompted);  // what is no UTF-8 is refused later
        return lowers ? text::lower_case(prompted) : prompted;
    }
};

Embedder::Embedder(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Embedder::Embedder(Embedder&&) noexcept = default;
Embedder& Embedder::operator=(Embedder&&) noexcept = default;
Embedder::~Embedder() = default;

std::size_t Embedder::dimension() const noexcept { return impl_->dimension; }
std::size_t Embedder::max_length() const noexcept { return impl_->runner.max_length(); }
const std::string& Embedder::pooling() const noexcept { return impl_->pooling; }
const std::string& Embedder::device() const noexcept { return impl_->runner.device()->description; }
const std::vector<std::string>& Embedder::notes() const noexcept { return impl_->runner.encoder().notes; }
DeviceMemory Embedder::memory() const { return impl_->runner.memory(); }

Result<Embedder> Embedder::load(const std::filesystem::path& folder, const EmbedderOptions& options) {
    VKFORMER_TRY(auto sentence, sentence_model(folder, options));
    VKFORMER_TRY(std::string prompt, find_prompt(sentence, options));
    if (!prompt.empty() && !sentence.pools_prompt)
        return Error{
            ErrorCode::UnsupportedConfig,
            "the model leaves its prompts out of the pooling (include_prompt is false), which vkformer does not"};
    VKFORMER_TRY(const auto opened, models::open_encoder(sentence));
    VKFORMER_TRY(auto encoder, load_adapted(opened, options));
    const std::uint64_t hidden_size = encoder.config().hidden_size;
    VKFORMER_CHECK(check_widths(sentence, hidden_size));
    const std::size_t dimension = sentence.dimension(hidden_size);
    const std::uint32_t max_length = sentence.max_length;
    const bool lower_case = sentence.lower_case;
    std::string pooling = describe(sentence);
    const std::filesystem::path encoder_folder = sentence.encoder_folder;
    VKFORMER_TRY(auto runner, api::EncoderRunner::load(encoder_folder, std::move(encoder),
                                                       api::embedding_head(std::move(sentence)), max_length, options));
    return Embedder(std::make_unique<Impl>(Impl{.runner = std::move(runner),
                                                .prompt = std::move(prompt),
                                                .pooling = std::move(pooling),
                                                .lower_case = lower_case,
                                                .dimension = dimension}));
}

Result<Embedder> Embedder::twin() const {
    VKFORMER_TRY(auto device, api::twin_of(impl_->runner.device()));
    return Embedder(std::make_unique<Impl>(Impl{.runner = impl_->runner.twin(std::move(device)),
                                                .prompt = impl_->prompt,
                                                .pooling = impl_->pooling,
                                                .lower_case = impl_->lower_case,
                                                .dimension = impl_->dimension}));
}

Result<std::vector<Embedding>> Embedder::embed(std::span<const std::string> texts, const Progress& progress,
                                               const std::map<std::string, float>& adapters) {
    std::vector<std::string> changed;
    if (impl_->changes_texts()) {
        for (const std::string& text : texts) changed.push_back(impl_->changed(text));
        texts = changed;
    }
    std::vector<api::EncoderInput> inputs;
    for (const std::string& text : texts) inputs.push_back({.first = text});
    VKFORMER_TRY(auto outputs, impl_->runner.run(inputs, "text", progress, adapters));
    std::vector<Embedding> embeddings;
    for (api::EncoderOutput& output : outputs)
        embeddings.push_back({.values = std::move(output.values), .tokens = output.tokens, .cut = output.cut});
    return embeddings;
}

Result<void> Embedder::check(const std::string& text) const {
    return impl_->runner.check({.first = impl_->changed(text)});
}

// ---- cross-encoders -------------------------------------------------------------------------------------------------

struct CrossEncoder::Impl {
    api::EncoderRunner runner;
};

CrossEncoder::CrossEncoder(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
CrossEncoder::CrossEncoder(CrossEncoder&&) noexcept = default;
CrossEncoder& CrossEncoder::operator=(CrossEncoder&&) noexcept = default;
CrossEncoder::~CrossEncoder() = default;

std::size_t CrossEncoder::labels() const noexcept { return impl_->runner.encoder().config().labels; }
std::size_t CrossEncoder::max_length() const noexcept { return impl_->runner.max_length(); }
const std::string& CrossEncoder::device() const noexcept { return impl_->runner.device()->description; }
const std::vector<std::string>& CrossEncoder::notes() const noexcept { return impl_->runner.encoder().notes; }
DeviceMemory CrossEncoder::memory() const { return impl_->runner.memory(); }

namespace {

/// A language model's scores.
Result<api::EncoderRunner> load_yes_no_runner(const models::Opened<models::Decoder>& opened,
                                              const EncoderOptions& options) {
    if (!options.adapters.empty())
        return Error{ErrorCode::UnsupportedConfig,
                     opened.path.string() + ": a language model that answers \"yes\" or \"no\" takes no adapters here"};
    VKFORMER_TRY(api::YesNoReranker model, api::load_yes_no_reranker(opened));
    VKFORMER_TRY(auto head, api::score_head(opened.path, model.encoder));
    VKFORMER_TRY(auto runner, api::EncoderRunner::load(opened.path, std::move(model.encoder), std::move(head),
                                                       model.max_length, options));
    VKFORMER_CHECK(runner.set_prompt(model.prompt));
    return runner;
}

}  // namespace

Result<CrossEncoder> CrossEncoder::load(const std::filesystem::path& folder, const EncoderOptions& options) {
    constexpr std::array kKinds = {models::ModelKind::encoder, models::ModelKind::decoder};
    const auto opened = models::open_model(folder, kKinds);
    if (opened && models::kind_of(*opened) == models::ModelKind::decoder) {
        VKFORMER_TRY(auto runner, load_yes_no_runner(std::get<models::Opened<models::Decoder>>(*opened), options));
        return CrossEncoder(std::make_unique<Impl>(Impl{.runner = std::move(runner)}));
    }
    VKFORMER_TRY(const auto opened_encoder, models::open_encoder(folder));
    VKFORMER_TRY(auto encoder, load_adapted(opened_encoder, options));
    if (encoder.config().labels == 0)
        return Error{ErrorCode::UnsupportedConfig,
                     folder.string() + ": the model has no classification head (" +
                         (formats::is_file(folder) ? "there is no tensor cls.output.weight"
                                                   : "its \"architectures\" name no \"…ForSequenceClassification\"") +
                         "): it gives embeddings, not scores"};
    VKFORMER_TRY(auto head, api::score_head(folder, encoder));
    VKFORMER_TRY(auto runner, api::EncoderRunner::load(folder, std::move(encoder), std::move(head), 0, options));
    return CrossEncoder(std::make_unique<Impl>(Impl{.runner = std::move(runner)}));
}

Result<CrossEncoder> CrossEncoder::twin() const {
    VKFORMER_TRY(auto device, api::twin_of(impl_->runner.device()));
    return CrossEncoder(std::make_unique<Impl>(Impl{.runner = impl_->runner.twin(std::move(device))}));
}

Result<void> CrossEncoder::check(const TextPair& pair) const {
    return impl_->runner.check({.first = pair.first, .second = pair.second});
}

Result<std::vector<PairScore>> CrossEncoder::score(std::span<const TextPair> pairs, const Progress& progress,
                                                   const std::map<std::string, float>& adapters) {
    std::vector<api::EncoderInput> inputs;
    for (const TextPair& pair : pairs) inputs.push_back({.first = pair.first, .second = pair.second});
    VKFORMER_TRY(auto outputs, impl_->runner.run(inputs, "pair", progress, adapters));
    std::vector<PairScore> scores;
    for (api::EncoderOutput& output : outputs)
        scores.push_back({.scores = std::move(output.values), .tokens = output.tokens, .cut = output.cut});
    return scores;
}

}  // namespace vkformer
