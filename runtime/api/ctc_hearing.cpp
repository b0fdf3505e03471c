// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <numeric>

#include "api/hearing.hpp"
#include "core/try.hpp"
#include "decoding/recent_programs.hpp"
#include "decoding/rounded_len.hpp"
#include "decoding/speech_segments.hpp"
#include "text/ctc_vocabulary.hpp"

namespace vkformer::api {
namespace {

constexpr double kWindow = 20;         // seconds that are heard at a time: the largest tensor then has 2^25 elements
constexpr std::uint64_t kMargins = 6;  // a sixth of a window at either side is heard and not written down
constexpr double kPause = 1;           // seconds between words that end a segment
constexpr double kLongSegment = 10;    // seconds from which on a segment ends with a word

/// preprocessor_config.json, or in newer folders a part of processor_config.json.
struct SoundOptions {
    std::uint32_t sample_rate = 16000;
    bool normalizes = true;
};

Result<SoundOptions> read_sound_options(const std::filesystem::path& folder) {
    constexpr const char* kSoundExtractor = "Wav2Vec2FeatureExtractor";
    VKFORMER_TRY(auto config, formats::Config::open_if_present(folder / "preprocessor_config.json"));
    if (config.is_empty()) {
        VKFORMER_TRY(const auto all, formats::Config::open_if_present(folder / "processor_config.json"));
        VKFORMER_TRY(config, all.object("feature_extractor"));
    }
    SoundOptions o;
    VKFORMER_TRY(const std::string type, config.string("feature_extractor_type", kSoundExtractor));
    if (type != kSoundExtractor) return config.unsupported("feature_extractor_type", kSoundExtractor);
    VKFORMER_TRY(const std::uint32_t features, config.unsigned_integer("feature_size", {.fallback = 1}));
    if (features != 1) return config.unsupported("feature_size", "1");
    VKFORMER_TRY(o.sample_rate,
                 config.unsigned_integer("sampling_rate", {.fallback = 16000, .min = 1000, .max = 1u << 20}));
    VKFORMER_TRY(o.normalizes, config.boolean("do_normalize", true));
    return o;
}

/// Frames of a window, from one to the next; in the last ones, within its margin, a frame's samples may go on beyond its end.
std::uint64_t frames_of_window(const models::CtcModel& model, const SoundOptions& sound) {
    return static_cast<std::uint64_t>(kWindow * sound.sample_rate) / model.config().samples_per_frame();
}

/// What Whisper alone can be asked for.
Result<void> refuse_options(const TranscriberOptions& options) {
    const TranscriberOptions usual;
    const bool is_cold = options.temperatures == usual.temperatures || options.temperatures == std::vector<float>{0};
    const std::pair<bool, const char*> given[] = {
        {!options.language.empty(), "language"},
        {!options.task.empty() && options.task != "transcribe", "task"},
        {options.max_length > 0, "max_length"},
        {options.condition_on_previous.has_value(), "condition_on_previous"},
        {!is_cold, "temperatures"},
        {options.compression_ratio_threshold.has_value(), "compression_ratio_threshold"},
        {options.log_prob_threshold.has_value(), "log_prob_threshold"},
        {options.no_speech_threshold.has_value(), "no_speech_threshold"},
        {options.seed != 0, "seed"}};
    for (const auto& [is_given, name] : given)
        if (is_given)
            return Error{ErrorCode::InvalidArgument,
                         std::string("the model writes what it hears, without a decoder: leave out ") + name};
    return {};
}

/// A token of the text, heard from one frame to another.
struct HeardToken {
    std::int32_t id;
    std::uint64_t begin, end;
    double log_prob;  // the best of its frames'
};

/// A word with what stands before it.
struct HeardWord {
    std::string text;         // as the tokens spell it
    std::size_t first, last;  // of its tokens; those of its characters
};

struct SoundsGraph {
    graph::Graph graph;
    models::CtcTensors pass;
};

Result<SoundsGraph> sounds_graph(const models::CtcModel& model, const models::CtcLayout& layout) {
    SoundsGraph made;
    VKFORMER_TRY(made.pass, model.add_encoder(made.graph, layout));
    made.graph.mark_output(made.pass.logits);
    return made;
}

struct CtcParts {
    TranscriberOptions options;
    std::shared_ptr<const models::CtcModel> model;
    std::shared_ptr<const text::CtcVocabulary> vocabulary;
    SoundOptions sound;
};

class CtcHearing final : public Hearing, private CtcParts {
public:
    CtcHearing(CtcParts parts, OpenedBackend opened, std::shared_ptr<graph::TensorStore> weights)
        : CtcParts(std::move(parts)), backend_(std::move(opened)), programs_(*backend_.backend, std::move(weights)) {}

    Result<Transcription> hear(std::span<const float> samples, const Transcriber::Progress& progress) override;
    Result<std::unique_ptr<Hearing>> twin() const override {
        VKFORMER_TRY(auto other, backend_.twin());
        return std::unique_ptr<Hearing>(
            std::make_unique<CtcHearing>(static_cast<const CtcParts&>(*this), std::move(other), programs_.weights()));
    }
    Result<void> choose(const std::string& language, const std::string& task) override {
        return refuse_options({.language = language, .task = task});
    }
    Result<void> choose_word_timestamps(bool are_wanted) override {
        options.word_timestamps = are_wanted;
        return {};
    }
    std::string language() const override { return {}; }
    std::uint32_t sample_rate() const noexcept override { return sound.sample_rate; }
    const std::vector<std::string>& notes() const noexcept override { return model->notes; }
    const OpenedBackend& device() const noexcept override { return backend_; }

private:
    /// Samples of it, from a frame on, and the frames of these that count.
    struct Window {
        std::uint64_t begin, end, first, last;
    };

    std::uint64_t ratio() const { return model->config().samples_per_frame(); }
    double seconds(std::uint64_t frame) const { return static_cast<double>(frame * ratio()) / sound.sample_rate; }
    std::vector<Window> windows_of(std::uint64_t samples, std::uint64_t longest) const;
    Result<void> hear_windows(std::span<const float> samples, std::span<const Window> windows,
                              const models::CtcLayout& layout, std::vector<HeardToken>& tokens);
    void take_frame(std::span<const float> logits, std::uint64_t frame, std::vector<HeardToken>& tokens) const;
    std::vector<HeardWord> words_of(std::span<const HeardToken> tokens) const;
    SpeechSegment segment_of(std::span<const HeardToken> tokens, std::span<const HeardWord> words, double end) const;

    OpenedBackend backend_;
    decoding::RecentPrograms<std::pair<std::uint32_t, std::uint32_t>, SoundsGraph, 2> programs_;
};

/// A window has a margin at either side where it is not the sound's first or last one.
std::vector<CtcHearing::Window> CtcHearing::windows_of(std::uint64_t samples, std::uint64_t longest) const {
    const std::uint64_t margin = longest / kMargins, step = longest - 2 * margin;
    std::vector<Window> windows;
    for (std::uint64_t first = 0;; first += step) {
        const std::uint64_t begin = first * ratio(), end = std::min(begin + longest * ratio(), samples);
        const bool is_last = end == samples;
        windows.push_back(
            {begin, end, first == 0 ? 0 : margin, is_last ? model->config().frames_of(end - begin) : longest - margin});
        if (is_last) return windows;
    }
}

/// Greedy decoding: the likeliest token of each frame, of neighbours that are the same one, and without blanks (Graves et al. 2006,
/// section 3.2). A blank stands in the list, empty, until it is over, so that it parts tokens.
void CtcHearing::take_frame(std::span<const float> logits, std::uint64_t frame, std::vector<HeardToken>& tokens) const {
    const auto best = std::ranges::max_element(logits);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit} - *best);
    const auto id = static_cast<std::int32_t>(best - logits.begin());
    const double log_prob = -std::log(sum);
    if (!tokens.empty() && tokens.back().id == id) {
        tokens.back().end = frame + 1;
        tokens.back().log_prob = std::max(tokens.back().log_prob, log_prob);
        return;
    }
    if (!tokens.empty() && vocabulary->is_blank[static_cast<std::size_t>(tokens.back().id)]) tokens.pop_back();
    // What was before the blank may be the same token again.
    tokens.push_back({id, frame, frame + 1, log_prob});
}

Result<void> CtcHearing::hear_windows(std::span<const float> samples, std::span<const Window> windows,
                                      const models::CtcLayout& layout, std::vector<HeardToken>& tokens) {
    std::vector<float> sounds(std::size_t{layout.batch} * layout.samples);
    std::vector<std::uint32_t> lengths(layout.batch);
    for (std::size_t i = 0; i < windows.size(); ++i) {
        const auto part = samples.subspan(windows[i].begin, windows[i].end - windows[i].begin);
        const auto count = static_cast<double>(part.size());
        double mean = 0, scale = 1;
        if (sound.normalizes) {
            mean = std::accumulate(part.begin(), part.end(), 0.0) / count;
            double squares = 0;
            for (const float sample : part) squares += (sample - mean) * (sample - mean);
            scale = 1 / std::sqrt(squares / count + 1e-7);
        }
        std::ranges::transform(part, sounds.begin() + static_cast<std::ptrdiff_t>(i * layout.samples),
                               [&](float sample) { return static_cast<float>((sample - mean) * scale); });
        lengths[i] = static_cast<std::uint32_t>(part.size());
    }
    VKFORMER_TRY(const auto prepared,
                 programs_.get({layout.batch, layout.samples}, [&] { return sounds_graph(*model, layout); }));
    const auto& pass = prepared->tensors.pass;
    graph::Program& program = *prepared->program;
    VKFORMER_CHECK(model->inputs(pass, layout, {.samples = sounds, .lengths = lengths}).write_to(program));
    VKFORMER_CHECK(program.submit());
    VKFORMER_CHECK(program.wait());
    const std::size_t vocab = model->config().vocab_size, frames = model->config().frames_of(layout.samples);
    std::vector<float> logits(layout.batch * frames * vocab);
    VKFORMER_CHECK(program.read(pass.logits, std::span(logits)));
    for (std::size_t i = 0; i < windows.size(); ++i)
        for (std::uint64_t frame = windows[i].first; frame < windows[i].last; ++frame)
            take_frame(std::span(logits).subspan((i * frames + frame) * vocab, vocab),
                       windows[i].begin / ratio() + frame, tokens);
    return {};
}

std::vector<HeardWord> CtcHearing::words_of(std::span<const HeardToken> tokens) const {
    std::vector<HeardWord> words;
    std::string text;
    bool is_within = false;
    const bool is_white = vocabulary->space == " ";  // and not shown at either end of the text
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const std::string& piece = vocabulary->pieces[static_cast<std::size_t>(tokens[i].id)];
        if (piece == vocabulary->space) {
            is_within = false;
            if (!words.empty() || !is_white) text += piece;
            continue;
        }
        if (!std::exchange(is_within, true)) words.push_back({std::exchange(text, {}), i, i});
        words.back().text += piece;
        words.back().last = i;
    }
    if (!is_white && !words.empty()) words.back().text += text;
    return words;
}

/// `end`: of the sound.
SpeechSegment CtcHearing::segment_of(std::span<const HeardToken> tokens, std::span<const HeardWord> words,
                                     double end) const {
    SpeechSegment segment;
    if (words.empty()) return segment;
    const auto end_of = [&](std::size_t token) { return std::min(seconds(tokens[token].end), end); };
    segment.start = seconds(tokens[words.front().first].begin);
    segment.end = end_of(words.back().last);
    double sum = 0;
    for (std::size_t i = words.front().first; i <= words.back().last; ++i) {
        segment.tokens.push_back(tokens[i].id);
        sum += tokens[i].log_prob;
    }
    segment.average_log_prob = sum / static_cast<double>(segment.tokens.size());
    segment.compression_ratio = decoding::compression_ratio(segment.tokens, model->config().vocab_size);
    for (const HeardWord& word : words) {
        segment.text += word.text;
        double probability = 0;
        for (std::size_t i = word.first; i <= word.last; ++i) probability += std::exp(tokens[i].log_prob);
        if (options.word_timestamps)
            segment.words.push_back({vocabulary->as_text(word.text), seconds(tokens[word.first].begin),
                                     end_of(word.last), probability / static_cast<double>(word.last + 1 - word.first)});
    }
    segment.text = vocabulary->as_text(std::move(segment.text));
    return segment;
}

Result<Transcription> CtcHearing::hear(std::span<const float> samples, const Transcriber::Progress& progress) {
    const double total = static_cast<double>(samples.size()) / sound.sample_rate;
    const std::uint64_t longest = frames_of_window(*model, sound);
    std::vector<HeardToken> tokens;
    if (model->config().frames_of(samples.size()) > 0) {
        const auto windows = windows_of(samples.size(), longest);
        const std::size_t batch = std::min<std::size_t>(std::max(options.batch, 1u), windows.size());
        const std::uint64_t len = decoding::rounded_len((samples.size() + ratio() - 1) / ratio(), longest);
        const models::CtcLayout layout = {.batch = static_cast<std::uint32_t>(batch),
                                          .samples = static_cast<std::uint32_t>(len * ratio()),
                                          .dtype = dtype_of(options)};
        for (std::size_t first = 0; first < windows.size(); first += batch) {
            const auto part = std::span(windows).subspan(first, std::min(batch, windows.size() - first));
            VKFORMER_CHECK(hear_windows(samples, part, layout, tokens));
            if (progress) progress(static_cast<double>(part.back().end) / sound.sample_rate, total);
        }
        if (vocabulary->is_blank[static_cast<std::size_t>(tokens.back().id)]) tokens.pop_back();
    }
    const auto words = words_of(tokens);
    Transcription result;
    for (std::size_t first = 0, i = 1; first < words.size() && options.timestamps; ++i) {
        const double begin = seconds(tokens[words[first].first].begin), end = seconds(tokens[words[i - 1].last].end);
        if (i < words.size() && end - begin < kLongSegment && seconds(tokens[words[i].first].begin) - end < kPause)
            continue;
        result.segments.push_back(segment_of(tokens, std::span(words).subspan(first, i - first), total));
        first = i;
    }
    if (!options.timestamps) {
        result.segments.push_back(segment_of(tokens, words, total));
        result.segments[0].start = 0;
        result.segments[0].end = total;
    }
    for (const HeardWord& word : words) result.text += word.text;
    result.text = vocabulary->as_text(std::move(result.text));
    return result;
}

}  // namespace

Result<std::vector<tuning::Workload>> ctc_workload(const models::CtcModel& model, DType dtype) {
    std::uint64_t samples = SoundOptions{}.sample_rate;
    while (model.config().frames_of(samples) == 0) samples *= 2;
    VKFORMER_TRY(auto made, sounds_graph(model, {.samples = static_cast<std::uint32_t>(samples), .dtype = dtype}));
    std::vector<tuning::Workload> workload;
    const auto frames = static_cast<std::int32_t>(model.config().frames_of(samples));
    workload.push_back({.graph = std::move(made.graph), .inputs = {{"lengths", {frames}}}});
    return workload;
}

Result<std::unique_ptr<Hearing>> make_ctc_hearing(const std::filesystem::path& folder, models::SpeechModel speech,
                                                  const TranscriberOptions& options, OpeningBackend& opening) {
    VKFORMER_CHECK(refuse_options(options));
    std::shared_ptr<const models::CtcModel> model = std::move(speech.ctc);
    VKFORMER_TRY(const SoundOptions sound, read_sound_options(folder));
    const std::uint64_t longest = frames_of_window(*model, sound), ratio = model->config().samples_per_frame();
    if (model->config().frames_of(longest * ratio) + longest / kMargins < longest || longest < kMargins)
        return Error{ErrorCode::UnsupportedConfig, "conv_stride, conv_kernel: a frame hears seconds of sound"};
    VKFORMER_TRY(auto vocabulary, text::load_ctc_vocabulary(folder, model->config().vocab_size));
    VKFORMER_TRY(auto device, opening.get([&] { return ctc_workload(*model, dtype_of(options)); }));
    auto weights = device.backend->make_store();
    CtcParts parts = {.options = options,
                      .model = std::move(model),
                      .vocabulary = std::make_shared<const text::CtcVocabulary>(std::move(vocabulary)),
                      .sound = sound};
    return std::unique_ptr<Hearing>(
        std::make_unique<CtcHearing>(std::move(parts), std::move(device), std::move(weights)));
}

}  // namespace vkformer::api
