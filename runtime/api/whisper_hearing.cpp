// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "api/generation_workload.hpp"
#include "api/hearing.hpp"
#include "api/weight_storage.hpp"
#include "audio/mel.hpp"
#include "core/try.hpp"
#include "decoding/speech_segments.hpp"
#include "decoding/speech_session.hpp"
#include "decoding/token_words.hpp"
#include "models/speech_config.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::api {
namespace {

constexpr std::size_t kDefaultWindowBatch = 8;
constexpr float kForgets = 0.5f;  // the temperature from which on the text of a window is no help for the next
// What OpenAI's and Hugging Face's examples use.
constexpr double kCompressionRatio = 1.35, kLogProb = -1, kNoSpeech = 0.6;

/// How many samples the first window takes: all, or so many that the cut lies in the middle of the quietest tenth of a
/// second in the last fifth of the longest window.
std::size_t first_window(std::span<const float> samples, std::size_t longest, std::uint32_t sample_rate) {
    if (samples.size() <= longest) return samples.size();
    const std::size_t stretch = std::clamp<std::size_t>(sample_rate / 10, 1, std::max<std::size_t>(longest / 10, 1));
    const std::size_t step = std::max<std::size_t>(stretch / 4, 1);
    std::size_t cut = longest;
    double quietest = std::numeric_limits<double>::infinity();
    for (std::size_t at = longest - longest / 5; at + stretch <= longest; at += step) {
        double energy = 0;
        for (const float sample : samples.subspan(at, stretch)) energy += double{sample} * sample;
        if (energy > quietest) continue;
        quietest = energy;
        cut = at + stretch / 2;
    }
    return cut;
}

/// Where in a window that lies between two times, seconds, its tokens begin, and what follows them.
struct TimedTokens {
    std::span<const std::uint32_t> positions;  // of the encoder; empty: not known
    std::span<const double> log_probs;         // of each of the tokens
    double start, end;
};

/// What a decoder made of a window.
struct Heard {
    SpeechSegment window;                  // all its tokens, but for the end
    std::vector<double> log_probs;         // of each of them, and of the end
    std::vector<std::uint32_t> positions;  // of the encoder, at which each begins, and of the end; empty: not asked for
};

/// What all the model's hearings share.
struct WhisperParts {
    std::filesystem::path folder;
    std::unique_ptr<const models::EncoderDecoder> model;
    std::shared_ptr<const text::Tokenizer> tokenizer;
    audio::LogMel mel;
};

class WhisperHearing final : public Hearing {
public:
    WhisperHearing(HearingOptions given, std::shared_ptr<const WhisperParts> shared, models::SpeechConfig config)
        : Hearing(std::move(given)), parts(std::move(shared)), speech(std::move(config)) {}

    Result<std::vector<tuning::Workload>> workload() const override {
        return generation_workload(*parts->model, speech.generation, dtype(), format_of(options->weights));
    }
    Result<Transcription> hear(std::span<const float> samples, const Transcriber::Progress& progress) override {
        return options->timestamps ? transcribe_segments(samples, progress) : transcribe_windows(samples, progress);
    }
    std::unique_ptr<Hearing> twin() const override {
        auto other = std::make_unique<WhisperHearing>(options, parts, speech);
        other->prompt = prompt;
        other->chosen_language = chosen_language;
        other->chosen_task = chosen_task;
        return other;
    }
    Result<void> choose(const std::string& language, const std::string& task) override;
    Result<void> choose_prompt(const std::string& prompt) override;
    Result<void> check_word_times() const override {
        const auto limits = parts->model->limits();
        return models::check_alignment(speech, limits.decoder_layers, limits.decoder_heads);
    }
    std::string language() const override { return language_of(speech.prefix); }
    std::uint32_t sample_rate() const noexcept override { return parts->mel.options().sample_rate; }
    const std::vector<std::string>& notes() const noexcept override { return parts->model->notes; }

private:
    /// Spectrogram frames of a window; two make a position of the encoder.
    std::size_t frames() const { return 2 * parts->model->limits().source_len; }
    double seconds(std::size_t sample) const { return static_cast<double>(sample) / parts->mel.options().sample_rate; }

    Result<void> make_session(std::size_t windows);
    std::vector<std::int32_t> given_before(std::span<const std::vector<std::int32_t>> texts) const;
    Result<std::vector<std::int32_t>> prefix_of(const std::vector<std::int32_t>& known);
    Result<std::vector<Heard>> write_down(std::span<const std::int32_t> given, std::span<const std::size_t> frames);
    Result<void> align(std::span<const std::int32_t> given, std::span<const std::size_t> frames, std::span<Heard> heard,
                       std::span<const std::vector<std::int32_t>> tokens);
    void finish(SpeechSegment& segment, double start, double end) const;
    std::vector<SpokenWord> words_of(const SpeechSegment& segment, const TimedTokens& timed) const;
    Result<Transcription> transcribe_segments(std::span<const float> samples, const Transcriber::Progress& progress);
    Result<Transcription> transcribe_windows(std::span<const float> samples, const Transcriber::Progress& progress);
    std::string language_of(std::span<const std::int32_t> prefix) const;

    std::shared_ptr<const WhisperParts> parts;
    models::SpeechConfig speech;
    std::vector<std::int32_t> prompt;                                 // text before what is said
    std::string chosen_language = options->language, chosen_task = options->task;  // of the prefix
    std::optional<decoding::SpeechSession> session;                   // made by the first call
    decoding::WordBounds word_bounds = decoding::WordBounds::spaces;  // of the language of the prefix
};

Result<void> WhisperHearing::make_session(std::size_t windows) {
    const std::size_t batch = options->batch > 0 ? options->batch : std::min(windows, kDefaultWindowBatch);
    if (session) {
        session->grow(static_cast<std::uint32_t>(batch));
        return {};
    }
    decoding::SpeechSessionOptions wanted = {.rules = {.generation = speech.generation, .timestamps = {}},
                                             .batch = static_cast<std::uint32_t>(batch),
                                             .beams = speech.generation.beams,
                                             .dtype = dtype(),
                                             .weights = format_of(options->weights),
                                             .alignment_heads = speech.alignment_heads,
                                             .median_width = speech.median_filter_width};
    if (options->timestamps)
        wanted.rules.timestamps = {
            .first = speech.first_timestamp, .eos = speech.generation.eos, .latest_initial = speech.latest_initial};
    VKFORMER_TRY(auto made, decoding::SpeechSession::create(*backend.backend, *parts->model, wanted, weights));
    session.emplace(std::move(made));
    return {};
}

/// `known`, with the language that is heard in the first window in place of one that is to be heard.
Result<std::vector<std::int32_t>> WhisperHearing::prefix_of(const std::vector<std::int32_t>& known) {
    std::vector<std::int32_t> prefix = known;
    std::vector<std::int32_t> choices;
    for (const auto& [name, token] : speech.languages) choices.push_back(token);
    for (std::int32_t& token : prefix) {
        if (token >= 0) continue;
        VKFORMER_TRY(token, session->likeliest(choices));
    }
    word_bounds = decoding::word_bounds(language_of(prefix));
    return prefix;
}

/// What the decoder makes of each of the windows that were heard, so many frames of which are sound: all its tokens and what they are
/// worth; none where nobody speaks.
Result<std::vector<Heard>> WhisperHearing::write_down(std::span<const std::int32_t> given,
                                                      std::span<const std::size_t> sound_frames) {
    const std::uint64_t vocab = parts->model->limits().target_vocab;
    const std::size_t windows = sound_frames.size();
    std::vector<Heard> results(windows);
    std::vector<std::vector<std::int32_t>> written(windows);  // with the end token, where one came
    std::vector<bool> is_good(windows, false);
    const auto before =
        static_cast<std::size_t>(std::ranges::find(given, speech.generation.decoder_start) - given.begin());
    decoding::SpeechRequest request = {.given = {given.begin(), given.end()},
                                       .max_length = speech.length_for(given.size(), before),
                                       .seed = options->seed,
                                       .no_speech = speech.no_speech};
    for (const float temperature : options->temperatures) {
        request.temperature = temperature;
        VKFORMER_TRY(const auto utterances, session->write_down(request));
        for (std::size_t i = 0; i < windows; ++i) {
            if (is_good[i]) continue;
            SpeechSegment& result = results[i].window;
            result.tokens = written[i] = utterances[i].tokens;
            results[i].log_probs = utterances[i].log_probs;
            result.temperature = temperature;
            result.average_log_prob =
                utterances[i].log_prob / static_cast<double>(std::max<std::size_t>(result.tokens.size(), 1));
            result.compression_ratio = decoding::compression_ratio(result.tokens, vocab);
            result.no_speech = utterances[i].no_speech;
            if (!result.tokens.empty() && result.tokens.back() == speech.generation.eos) result.tokens.pop_back();
            const bool is_unlikely = utterances[i].score < *speech.log_prob_threshold;
            const bool is_silent = is_unlikely && result.no_speech > *speech.no_speech_threshold;
            if (is_silent) {
                result.tokens.clear();
                written[i].clear();
            }
            is_good[i] =
                is_silent || (!is_unlikely && !(result.compression_ratio > *speech.compression_ratio_threshold));
        }
        if (std::ranges::find(is_good, false) == is_good.end()) break;
        request.seed += speech.generation.beams;  // rows have one each
    }
    if (times_words) VKFORMER_CHECK(align(given, sound_frames, results, written));
    return results;
}

/// Says of windows that were written down when their tokens begin.
Result<void> WhisperHearing::align(std::span<const std::int32_t> given, std::span<const std::size_t> sound_frames,
                                   std::span<Heard> heard, std::span<const std::vector<std::int32_t>> tokens) {
    if (std::ranges::all_of(tokens, [](const auto& of_window) { return of_window.empty(); })) return {};
    std::vector<std::uint32_t> positions;  // two frames make one
    for (const std::size_t count : sound_frames)
        positions.push_back(static_cast<std::uint32_t>(std::max<std::size_t>(count / 2, 1)));
    VKFORMER_TRY(auto begins,
                 session->align({.given = {given.begin(), given.end()}, .tokens = tokens, .positions = positions}));
    for (std::size_t i = 0; i < heard.size(); ++i) {
        heard[i].positions = std::move(begins[i]);
        const bool has_end = tokens[i].size() > heard[i].window.tokens.size();
        if (!has_end && !tokens[i].empty()) heard[i].positions.push_back(positions[i]);
    }
    return {};
}

void WhisperHearing::finish(SpeechSegment& segment, double start, double end) const {
    std::vector<std::int32_t> spoken;
    for (const std::int32_t token : segment.tokens)
        if (speech.first_timestamp < 0 || token < speech.first_timestamp) spoken.push_back(token);
    segment.start = start;
    segment.end = end;
    segment.text = parts->tokenizer->decode(spoken);
}

std::vector<SpokenWord> WhisperHearing::words_of(const SpeechSegment& segment, const TimedTokens& timed) const {
    std::vector<std::int32_t> spoken;
    std::vector<std::size_t> place;  // of each in the segment's tokens
    for (std::size_t i = 0; i < segment.tokens.size() && !timed.positions.empty(); ++i) {
        if (speech.first_timestamp >= 0 && segment.tokens[i] >= speech.first_timestamp) continue;
        spoken.push_back(segment.tokens[i]);
        place.push_back(i);
    }
    const auto at = [&](std::size_t token) {
        return std::min(timed.start + seconds(2 * parts->mel.options().hop * timed.positions[token]), timed.end);
    };
    const auto probability = [&](const decoding::TokenWord& word) {
        double sum = 0;
        for (std::size_t i = word.first; i <= word.last; ++i) sum += std::exp(timed.log_probs[place[i]]);
        return sum / static_cast<double>(word.last + 1 - word.first);
    };
    std::vector<SpokenWord> words;
    for (const auto& word : decoding::words_of(
             spoken, [&](std::span<const std::int32_t> tokens) { return parts->tokenizer->decode(tokens); },
             word_bounds))
        words.push_back({word.text, at(place[word.first]), at(place[word.last] + 1), probability(word)});
    return words;
}

/// What stands before the start token: the end of the texts, and the token that says what they are. Nothing without a text.
std::vector<std::int32_t> WhisperHearing::given_before(std::span<const std::vector<std::int32_t>> texts) const {
    const auto text = decoding::previous_text(texts, speech.first_timestamp, speech.generation.max_steps / 2 - 1);
    std::vector<std::int32_t> given;
    if (text.empty()) return given;
    if (speech.previous >= 0) given.push_back(speech.previous);
    given.insert(given.end(), text.begin(), text.end());
    return given;
}

/// Window after window, each from the last whole segment of the one before.
Result<Transcription> WhisperHearing::transcribe_segments(std::span<const float> samples,
                                                          const Transcriber::Progress& progress) {
    VKFORMER_CHECK(make_session(1));
    const std::size_t hop = parts->mel.options().hop, bins = parts->mel.options().bins, window = frames();
    const std::size_t total = std::max(samples.size() / hop, window), heard_until = (samples.size() + hop - 1) / hop;
    const auto spectrogram = parts->mel.spectrogram(samples, total);
    const auto seconds_at = [&](std::size_t frame) { return std::min(seconds(frame * hop), seconds(samples.size())); };

    Transcription result;
    std::vector<std::int32_t> prefix;
    // Tokens of the segments so far, behind the prompt, which is given where they are not.
    std::vector<std::vector<std::int32_t>> before(prompt.empty() ? 0 : 1, prompt);
    bool remembers = *speech.conditions_on_previous;
    for (std::size_t at = 0; at < std::min(total, heard_until);) {
        const std::size_t count = std::min(total - at, window);
        std::vector<float> part(window * bins, 0);
        std::copy_n(spectrogram.begin() + static_cast<std::ptrdiff_t>(at * bins), count * bins, part.begin());
        const std::vector<float> features[] = {audio::windows_of(part, bins)};
        VKFORMER_CHECK(session->hear(features));
        if (at == 0) {
            VKFORMER_TRY(prefix, prefix_of(speech.prefix));
        }
        std::vector<std::int32_t> given = remembers ? given_before(before) : given_before({&prompt, 1});
        given.push_back(speech.generation.decoder_start);
        given.insert(given.end(), prefix.begin(), prefix.end());
        const std::size_t sound_frames[] = {std::min(heard_until - at, window)};
        VKFORMER_TRY(const auto heard, write_down(given, sound_frames));
        const auto& [whole, log_probs, positions] = heard[0];
        remembers = *speech.conditions_on_previous && whole.temperature < kForgets;

        auto cut = decoding::cut_into_segments(whole.tokens, speech.first_timestamp, static_cast<std::uint32_t>(count));
        std::size_t first = 0;  // of the segment's tokens among the window's
        for (auto& piece : cut.segments) {
            SpeechSegment segment = whole;
            segment.tokens = std::move(piece.tokens);
            finish(segment, seconds_at(at + piece.start), seconds_at(at + piece.end));
            segment.words = words_of(segment, {std::span(positions).subspan(std::min(first, positions.size())),
                                               std::span(log_probs).subspan(std::min(first, log_probs.size())),
                                               seconds(at * hop), seconds(samples.size())});
            segment.heard_from = seconds(at * hop);
            first += segment.tokens.size();
            before.push_back(segment.tokens);
            result.text += segment.text;
            result.segments.push_back(std::move(segment));
        }
        at += cut.advance;
        if (progress) progress(seconds_at(at), seconds(samples.size()));
    }
    result.language = language_of(prefix);
    return result;
}

/// Windows that know nothing of each other, some at a time.
Result<Transcription> WhisperHearing::transcribe_windows(std::span<const float> samples,
                                                         const Transcriber::Progress& progress) {
    const std::size_t longest = frames() * parts->mel.options().hop;
    std::vector<std::size_t> starts;
    for (std::size_t first = 0; first < samples.size();) {
        starts.push_back(first);
        first += first_window(samples.subspan(first), longest, parts->mel.options().sample_rate);
    }
    const auto end_of = [&](std::size_t i) { return i + 1 < starts.size() ? starts[i + 1] : samples.size(); };

    VKFORMER_CHECK(make_session(starts.size()));
    const std::size_t batch = session->options().batch;
    Transcription result;
    std::vector<std::int32_t> prefix;
    for (std::size_t first = 0; first < starts.size(); first += batch) {
        const std::size_t last = std::min(first + batch, starts.size());
        std::vector<std::vector<float>> features;
        std::vector<std::size_t> sound_frames;
        for (std::size_t i = first; i < last; ++i) {
            sound_frames.push_back((end_of(i) - starts[i] + parts->mel.options().hop - 1) / parts->mel.options().hop);
            features.push_back(
                audio::windows_of(parts->mel.spectrogram(samples.subspan(starts[i], end_of(i) - starts[i]), frames()),
                                  parts->mel.options().bins));
        }
        VKFORMER_CHECK(session->hear(features));
        if (first == 0) {
            VKFORMER_TRY(prefix, prefix_of(speech.prefix));
        }
        std::vector<std::int32_t> given = given_before({&prompt, 1});
        given.push_back(speech.generation.decoder_start);
        given.insert(given.end(), prefix.begin(), prefix.end());
        VKFORMER_TRY(auto heard, write_down(given, sound_frames));
        for (std::size_t i = first; i < last; ++i) {
            auto& [segment, log_probs, positions] = heard[i - first];
            finish(segment, seconds(starts[i]), seconds(end_of(i)));
            segment.heard_from = segment.start;
            segment.words = words_of(segment, {positions, log_probs, seconds(starts[i]), seconds(end_of(i))});
            result.text += segment.text;
            result.segments.push_back(std::move(segment));
        }
        if (progress) progress(seconds(end_of(last - 1)), seconds(samples.size()));
    }
    result.language = language_of(prefix);
    return result;
}

std::string WhisperHearing::language_of(std::span<const std::int32_t> prefix) const {
    for (const auto& [name, token] : speech.languages)
        if (!prefix.empty() && prefix[0] == token) return name;
    return {};
}

Result<models::SpeechConfig> whisper_config(const std::filesystem::path& folder, const models::EncoderDecoder& model,
                                            const std::string& language, const std::string& task, bool timestamps) {
    return models::load_speech_config(folder, model.limits().target_len, model.limits().target_vocab,
                                      {.language = language, .task = task, .timestamps = timestamps});
}

Result<void> WhisperHearing::choose(const std::string& language, const std::string& task) {
    if (language == chosen_language && task == chosen_task) return {};  // the folder is not asked again
    VKFORMER_TRY(auto chosen, whisper_config(parts->folder, *parts->model, language, task, options->timestamps));
    speech.prefix = std::move(chosen.prefix);
    chosen_language = language;
    chosen_task = task;
    return {};
}

/// The text behind a space, as OpenAI's code and transformers' get_prompt_ids() have it.
Result<void> WhisperHearing::choose_prompt(const std::string& text) {
    const std::string own = without_space_around(text);
    if (own.empty()) {
        prompt.clear();
        return {};
    }
    if (speech.previous < 0)
        return Error{
            ErrorCode::InvalidArgument,
            "generation_config.json has no \"prev_sot_token_id\", the token that a prompt follows: leave it out"};
    VKFORMER_TRY(auto tokens, parts->tokenizer->encode(" " + own, {.add_special = false}));
    // The tokens that are no text are the end and those behind it.
    if (std::ranges::any_of(tokens, [&](std::int32_t token) { return token >= speech.generation.eos; }))
        return Error{ErrorCode::InvalidArgument, "the prompt has special tokens: give text alone"};
    prompt = std::move(tokens);
    return {};
}

}  // namespace

Result<std::unique_ptr<Hearing>> make_whisper_hearing(const std::filesystem::path& folder, models::SpeechModel loaded,
                                                      const HearingOptions& given) {
    const TranscriberOptions& options = *given;
    VKFORMER_TRY(auto speech,
                 whisper_config(folder, *loaded.model, options.language, options.task, options.timestamps));
    VKFORMER_TRY(auto tokenizer, text::load_tokenizer(folder));
    VKFORMER_TRY(const auto mel, audio::read_mel_options(folder, loaded.mel_bins));
    if (options.max_length > 0) speech.max_new_tokens = options.max_length;
    if (options.beams > graph::kMaxBeams)
        return Error{ErrorCode::InvalidArgument, std::to_string(options.beams) +
                                                     " beams were asked for, there are 1 to " +
                                                     std::to_string(graph::kMaxBeams)};
    if (options.beams > 0) speech.generation.beams = options.beams;
    const auto choose = [](auto& known, const auto& asked, auto fallback) {
        if (asked) known = asked;
        if (!known) known = fallback;
    };
    choose(speech.compression_ratio_threshold, options.compression_ratio_threshold, kCompressionRatio);
    choose(speech.log_prob_threshold, options.log_prob_threshold, kLogProb);
    choose(speech.no_speech_threshold, options.no_speech_threshold, kNoSpeech);
    choose(speech.conditions_on_previous, options.condition_on_previous, false);
    auto parts = std::make_shared<const WhisperParts>(
        WhisperParts{folder, std::move(loaded.model), std::move(tokenizer), audio::LogMel(mel)});
    auto hearing = std::make_unique<WhisperHearing>(given, std::move(parts), std::move(speech));
    VKFORMER_CHECK(hearing->choose_prompt(options.prompt));
    return std::unique_ptr<Hearing>(std::move(hearing));
}

}  // namespace vkformer::api
