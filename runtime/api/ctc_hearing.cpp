// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "api/hearing.hpp"
#include "core/first_error.hpp"
#include "core/try.hpp"
#include "decoding/rounded_len.hpp"
#include "decoding/speech_segments.hpp"
#include "text/ctc_vocabulary.hpp"

namespace vkformer::api {
namespace {

constexpr std::uint32_t kUsualRate = 16000;
constexpr std::uint64_t kWindow = 20;  // seconds that are heard at a time: the largest tensor then has 2^25 elements
constexpr std::uint64_t kMargins = 6;  // a sixth of a window at either side is heard and not written down
constexpr double kPause = 1;           // seconds between words that end a segment
constexpr double kLongSegment = 10;    // seconds from which on a segment ends with a word

/// What the model's hearings share.
struct CtcParts {
    std::shared_ptr<const models::CtcModel> model;
    text::CtcVocabulary vocabulary;
    std::uint32_t sample_rate = kUsualRate;
    bool normalizes = true;

    std::uint64_t ratio() const { return model->config.samples_per_frame(); }
    /// Frames of a window, from one to the next.
    std::uint64_t longest() const { return kWindow * sample_rate / ratio(); }
};

/// preprocessor_config.json, or in newer folders a part of processor_config.json.
Result<void> read_sound_options(const std::filesystem::path& folder, CtcParts& parts) {
    constexpr const char* kSoundExtractor = "Wav2Vec2FeatureExtractor";
    VKFORMER_TRY(auto config, formats::Config::open_if_present(folder / "preprocessor_config.json"));
    FirstError first;
    if (config.is_empty()) {
        first.set(config, formats::Config::open_if_present(folder / "processor_config.json"));
        first.set(config, config.object("feature_extractor"));
    }
    std::string type = kSoundExtractor;
    first.set(type, config.string("feature_extractor_type", kSoundExtractor));
    if (type != kSoundExtractor) return config.unsupported("feature_extractor_type", kSoundExtractor);
    first.set(parts.sample_rate,
              config.unsigned_integer("sampling_rate", {.fallback = kUsualRate, .min = 1000, .max = 1u << 20}));
    first.set(parts.normalizes, config.boolean("do_normalize", true));
    const std::uint64_t longest = parts.longest();
    if (longest < kMargins || parts.model->config.frames_of(longest * parts.ratio()) + longest / kMargins < longest)
        return config.unsupported("sampling_rate", "that of frames which hear less than three seconds of sound");
    return first.status();
}

Error without_decoder(const char* option) {
    return {.code = ErrorCode::InvalidArgument,
            .message = std::string("the model writes what it hears, without a decoder: leave out ") + option};
}

/// What Whisper alone can be asked for.
Result<void> refuse_options(const TranscriberOptions& options) {
    const std::pair<bool, const char*> given[] = {
        {!options.language.empty(), "language"},
        {!options.task.empty() && options.task != "transcribe", "task"},
        {options.max_length > 0, "max_length"},
        {options.beams > 1, "beams"},
        {!options.prompt.empty(), "prompt"},
        {options.condition_on_previous.has_value(), "condition_on_previous"},
        {options.temperatures[0] != 0, "temperatures"},
        {options.compression_ratio_threshold.has_value(), "compression_ratio_threshold"},
        {options.log_prob_threshold.has_value(), "log_prob_threshold"},
        {options.no_speech_threshold.has_value(), "no_speech_threshold"},
        {options.seed != 0, "seed"},
        {options.batch > 1, "batch"}};
    for (const auto& [is_given, name] : given)
        if (is_given) return without_decoder(name);
    return {};
}

/// A token of the text, heard from one frame to another.
struct HeardToken {
    std::int32_t id;
    std::uint64_t begin, end;
    double log_prob;  // the best of its frames'
};

/// A word among the tokens: what stands before it, and its own first and last one.
struct HeardWord {
    std::size_t begin, first, last;
};

class CtcHearing final : public Hearing {
public:
    CtcHearing(HearingOptions given, std::shared_ptr<const CtcParts> shared)
        : Hearing(std::move(given)), parts_(std::move(shared)) {}

    Result<std::vector<tuning::Workload>> workload() const override { return ctc_workload(*parts_->model, dtype()); }
    Result<Transcription> hear(std::span<const float> samples, const Transcriber::Progress& progress) override;
    std::unique_ptr<Hearing> twin() const override { return std::make_unique<CtcHearing>(options, parts_); }
    Result<void> choose(const std::string& language, const std::string& task) override {
        if (!language.empty()) return without_decoder("language");
        if (task == "translate") return without_decoder("task");
        return {};
    }
    Result<void> choose_prompt(const std::string& prompt) override {
        if (!prompt.empty()) return without_decoder("prompt");
        return {};
    }
    std::uint32_t sample_rate() const noexcept override { return parts_->sample_rate; }
    const std::vector<std::string>& notes() const noexcept override { return parts_->model->notes; }

private:
    double seconds(std::uint64_t frame) const {
        return static_cast<double>(frame * parts_->ratio()) / parts_->sample_rate;
    }
    /// A window's samples, normalised.
    void put(std::span<const float> window, float* sound) const;
    Result<void> prepare(const models::CtcLayout& layout);
    void take_frame(const float* logits, std::uint64_t frame);
    void drop_blank() {
        if (!tokens_.empty() && tokens_.back().id == parts_->vocabulary.blank) tokens_.pop_back();
    }
    std::string spelt(std::size_t begin, std::size_t end) const;
    std::vector<HeardWord> spoken_words() const;
    SpeechSegment segment_of(std::span<const HeardWord> words) const;

    std::shared_ptr<const CtcParts> parts_;
    models::CtcLayout layout_;  // of the program; no samples: there is none
    models::CtcTensors pass_;
    std::unique_ptr<graph::Program> program_;
    std::vector<HeardToken> tokens_;  // of the sound
};

void CtcHearing::put(std::span<const float> window, float* sound) const {
    double mean = 0, variance = 0;
    const double share = 1.0 / static_cast<double>(window.size());
    if (parts_->normalizes) {
        for (const float sample : window) mean += share * sample;
        for (const float sample : window) variance += share * (sample - mean) * (sample - mean);
    }
    const double scale = parts_->normalizes ? 1 / std::sqrt(variance + 1e-7) : 1;
    for (const float sample : window) *sound++ = static_cast<float>((sample - mean) * scale);
}

/// The last layout's program is there: sounds of a length have one, and all long ones.
Result<void> CtcHearing::prepare(const models::CtcLayout& layout) {
    if (layout.samples == layout_.samples) return {};
    program_.reset();  // before there is memory for another
    layout_.samples = 0;
    graph::Graph graph;
    VKFORMER_TRY(pass_, parts_->model->add_encoder(graph, layout));
    graph.mark_output(pass_.logits);
    graph::Backend& device = *backend.backend;
    VKFORMER_TRY(program_,
                 device.compile(graph::make_plan_for(device, std::move(graph)), weights, device.make_store()));
    layout_ = layout;
    return {};
}

/// Greedy decoding: the likeliest token of each frame, of neighbours that are the same one, and without blanks (Graves et al. 2006,
/// section 3.2). A blank stands in the list, empty, until it is over, so that it parts tokens.
void CtcHearing::take_frame(const float* logits, std::uint64_t frame) {
    const float* const end = logits + parts_->model->config.vocab_size;
    const float* const best = std::max_element(logits, end);
    double sum = 0;
    for (const float* logit = logits; logit != end; ++logit) sum += std::exp(double{*logit} - *best);
    const HeardToken heard = {static_cast<std::int32_t>(best - logits), frame, frame + 1, -std::log(sum)};
    if (tokens_.empty() || tokens_.back().id != heard.id) {
        drop_blank();
        tokens_.push_back(heard);
        return;
    }
    tokens_.back().end = heard.end;
    tokens_.back().log_prob = std::max(tokens_.back().log_prob, heard.log_prob);
}

/// Some of the tokens as a text.
std::string CtcHearing::spelt(std::size_t begin, std::size_t end) const {
    std::string text;
    for (; begin < end; ++begin) text += parts_->vocabulary.pieces[static_cast<std::size_t>(tokens_[begin].id)];
    return parts_->vocabulary.as_text(std::move(text));
}

std::vector<HeardWord> CtcHearing::spoken_words() const {
    std::vector<HeardWord> words;
    bool is_within = false;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
        if (parts_->vocabulary.pieces[static_cast<std::size_t>(tokens_[i].id)] == parts_->vocabulary.space) {
            is_within = false;
            continue;
        }
        if (!is_within) words.push_back({words.empty() ? i : words.back().last + 1, i, i});
        words.back().last = i;
        is_within = true;
    }
    return words;
}

SpeechSegment CtcHearing::segment_of(std::span<const HeardWord> words) const {
    SpeechSegment segment;
    const HeardWord &first = words.front(), &last = words.back();
    segment.start = segment.heard_from = seconds(tokens_[first.first].begin);
    segment.end = seconds(tokens_[last.last].end);
    segment.text = spelt(first.begin, last.last + 1);
    for (const HeardWord& word : words) {
        if (!times_words) break;
        double probability = 0;
        for (std::size_t i = word.first; i <= word.last; ++i) probability += std::exp(tokens_[i].log_prob);
        segment.words.push_back({spelt(word.begin, word.last + 1), seconds(tokens_[word.first].begin),
                                 seconds(tokens_[word.last].end),
                                 probability / static_cast<double>(word.last + 1 - word.first)});
    }
    for (std::size_t i = first.first; i <= last.last; ++i) {
        segment.tokens.push_back(tokens_[i].id);
        segment.average_log_prob += tokens_[i].log_prob;
    }
    segment.average_log_prob /= static_cast<double>(segment.tokens.size());
    segment.compression_ratio = decoding::compression_ratio(segment.tokens, parts_->model->config.vocab_size);
    return segment;
}

/// Window after window. One has a margin at either side where it is not the sound's first or last.
Result<Transcription> CtcHearing::hear(std::span<const float> samples, const Transcriber::Progress& progress) {
    const models::CtcModel& model = *parts_->model;
    const std::uint64_t ratio = parts_->ratio(), longest = parts_->longest(), margin = longest / kMargins,
                        vocab = model.config.vocab_size;
    const models::CtcLayout layout = {.samples = static_cast<std::uint32_t>(
                                          decoding::rounded_len((samples.size() + ratio - 1) / ratio, longest) * ratio),
                                      .dtype = dtype()};
    std::vector<float> sound(layout.samples), logits(model.config.frames_of(layout.samples) * vocab);
    tokens_.clear();
    bool is_last = model.config.frames_of(samples.size()) == 0;
    for (std::uint64_t begin = 0; !is_last; begin += longest - 2 * margin) {
        const auto rest = samples.subspan(begin * ratio);
        is_last = rest.size() <= longest * ratio;
        const auto window = is_last ? rest : rest.first(longest * ratio);
        const std::uint32_t length = static_cast<std::uint32_t>(window.size());
        put(window, sound.data());
        VKFORMER_CHECK(prepare(layout));
        VKFORMER_CHECK(model.write(*program_, pass_, layout, {.samples = sound, .lengths = std::span(&length, 1)}));
        VKFORMER_CHECK(program_->submit());
        VKFORMER_CHECK(program_->wait());
        VKFORMER_CHECK(program_->read(pass_.logits, std::span(logits)));
        const std::uint64_t last = is_last ? model.config.frames_of(length) : longest - margin;
        for (std::uint64_t frame = begin > 0 ? margin : 0; frame < last; ++frame)
            take_frame(&logits[frame * vocab], begin + frame);
        if (progress)
            progress((static_cast<double>(begin * ratio) + length) / parts_->sample_rate,
                     static_cast<double>(samples.size()) / parts_->sample_rate);
    }
    drop_blank();

    Transcription result;
    const std::vector<HeardWord> all = spoken_words();
    for (std::size_t first = 0, i = 0; i < all.size(); ++i) {
        if (i + 1 < all.size()) {
            const double end = seconds(tokens_[all[i].last].end);
            if (!options->timestamps || (end - seconds(tokens_[all[first].first].begin) < kLongSegment &&
                                         seconds(tokens_[all[i + 1].first].begin) - end < kPause))
                continue;
        }
        result.segments.push_back(segment_of(std::span(all).subspan(first, i + 1 - first)));
        first = i + 1;
    }
    result.text = spelt(0, tokens_.size());
    return result;
}

}  // namespace

Result<std::vector<tuning::Workload>> ctc_workload(const models::CtcModel& model, DType dtype) {
    std::vector<tuning::Workload> workload(1);
    VKFORMER_TRY(const auto pass, model.add_encoder(workload[0].graph, {.samples = kUsualRate, .dtype = dtype}));
    workload[0].graph.mark_output(pass.logits);
    workload[0].inputs["lengths"] = {static_cast<std::int32_t>(model.config.frames_of(kUsualRate))};
    return workload;
}

Result<std::unique_ptr<Hearing>> make_ctc_hearing(const std::filesystem::path& folder, models::SpeechModel speech,
                                                  const HearingOptions& options) {
    VKFORMER_CHECK(refuse_options(*options));
    auto parts = std::make_shared<CtcParts>();
    parts->model = std::move(speech.ctc);
    VKFORMER_CHECK(read_sound_options(folder, *parts));
    VKFORMER_CHECK(text::load_ctc_vocabulary(folder, parts->model->config.vocab_size, parts->vocabulary));
    return std::unique_ptr<Hearing>(std::make_unique<CtcHearing>(options, std::move(parts)));
}

}  // namespace vkformer::api
