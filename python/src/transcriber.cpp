// SPDX-License-Identifier: MIT
#include "vkformer/transcriber.hpp"

#include "convert.hpp"

namespace vkformer::python {
namespace {

std::span<const float> span_of(const Samples& samples) { return {samples.data(), samples.size()}; }

void bind_voice_activity(nb::module_& module) {
    nb::class_<VadOptions>(module, "VadOptions")
        .def(
            "__init__",
            [](VadOptions* self, double threshold, std::optional<double> neg_threshold,
               std::uint32_t min_speech_duration_ms, double max_speech_duration_s,
               std::uint32_t min_silence_duration_ms, std::uint32_t speech_pad_ms) {
                new (self) VadOptions{.threshold = threshold,
                                      .neg_threshold = neg_threshold,
                                      .min_speech_duration_ms = min_speech_duration_ms,
                                      .max_speech_duration_s = max_speech_duration_s,
                                      .min_silence_duration_ms = min_silence_duration_ms,
                                      .speech_pad_ms = speech_pad_ms};
            },
            nb::kw_only(), nb::arg("threshold"), nb::arg("neg_threshold").none(), nb::arg("min_speech_duration_ms"),
            nb::arg("max_speech_duration_s"), nb::arg("min_silence_duration_ms"), nb::arg("speech_pad_ms"));

    // Calls are no model's: each has a watch of its own.
    const auto stoppable = [](const auto& call) {
        Watch watch;
        return watched(watch, nullptr, [&] { return call([&] { return watch.should_stop(); }); });
    };
    using Detector = VoiceActivityDetector;
    nb::class_<Detector>(module, "VoiceActivityDetector")
        .def("__init__", [](Detector* self,
                            const nb::bytes& path) { new (self) Detector(value_of(Detector::load(path_of(path)))); })
        .def(
            "probabilities",
            [stoppable](const Detector& self, const Samples& samples) {
                auto found = stoppable([&](const auto& stop) { return self.probabilities(span_of(samples), stop); });
                const std::size_t frames = found.size();
                return array(std::move(found), {frames});
            },
            nb::arg("samples").noconvert())
        .def(
            "speech_timestamps",
            [stoppable](const Detector& self, const Samples& samples, const VadOptions& options) {
                const auto found = stoppable(
                    [&](const auto& stop) { return self.speech_timestamps(span_of(samples), options, stop); });
                nb::list regions;
                for (const SampleRange& region : found) regions.append(nb::make_tuple(region.start, region.end));
                return regions;
            },
            nb::arg("samples").noconvert(), nb::arg("options"));
}

}  // namespace

void bind_transcriber(nb::module_& module) {
    bind_voice_activity(module);
    using HeldTranscriber = Held<Transcriber>;
    bind_held<Transcriber>(module, "Transcriber")
        .def(
            "__init__",
            [](HeldTranscriber* self, const nb::bytes& path, const CommonOptions& common, const nb::object& on_progress,
               bool convert_weights, const nb::str& language, const nb::str& task, bool timestamps,
               std::uint32_t max_length, std::uint32_t batch, std::uint32_t beams, const nb::str& prompt,
               std::optional<bool> condition_on_previous, std::vector<float> temperatures,
               std::optional<double> compression_ratio_threshold, std::optional<double> log_prob_threshold,
               std::optional<double> no_speech_threshold, std::uint64_t seed, bool word_timestamps,
               const nb::bytes& vad, const VadOptions& vad_parameters) {
                new (self) HeldTranscriber(
                    path_of(path),
                    common.in(TranscriberOptions{.weights = storage_of(convert_weights),
                                                 .language = text_of(language),
                                                 .task = text_of(task),
                                                 .timestamps = timestamps,
                                                 .max_length = max_length,
                                                 .batch = batch,
                                                 .beams = beams,
                                                 .condition_on_previous = condition_on_previous,
                                                 .prompt = text_of(prompt),
                                                 .temperatures = std::move(temperatures),
                                                 .compression_ratio_threshold = compression_ratio_threshold,
                                                 .log_prob_threshold = log_prob_threshold,
                                                 .no_speech_threshold = no_speech_threshold,
                                                 .seed = seed,
                                                 .word_timestamps = word_timestamps,
                                                 .vad = path_of(vad),
                                                 .vad_parameters = vad_parameters}),
                    on_progress);
            },
            nb::arg("path"), nb::arg("common"), nb::arg("on_progress").none(), nb::kw_only(),
            nb::arg("convert_weights"), nb::arg("language"), nb::arg("task"), nb::arg("timestamps"),
            nb::arg("max_length"), nb::arg("batch"), nb::arg("beams"), nb::arg("prompt"),
            nb::arg("condition_on_previous").none(), nb::arg("temperatures"),
            nb::arg("compression_ratio_threshold").none(), nb::arg("log_prob_threshold").none(),
            nb::arg("no_speech_threshold").none(), nb::arg("seed"), nb::arg("word_timestamps"), nb::arg("vad"),
            nb::arg("vad_parameters"))
        .def(
            "transcribe",
            [](HeldTranscriber& self, const Samples& samples, const nb::object& on_progress, const Stop& stop,
               const nb::str& given_language, const nb::str& given_task, const nb::str& given_prompt,
               const std::optional<VadOptions>& vad) {
                const auto values = span_of(samples);
                const std::string language = text_of(given_language), task = text_of(given_task),
                                  prompt = text_of(given_prompt);
                Transcriber::Progress progress;
                if (!on_progress.is_none())
                    progress = [&](double done, double total) {
                        self.watch().call(true, [&] { return on_progress(done, total), true; });
                    };
                const auto found = self.run(&stop, [&](Transcriber& t) -> Result<Transcription> {
                    if (auto chosen = t.choose(language, task); !chosen) return std::move(chosen).error();
                    if (auto chosen = t.choose_prompt(prompt); !chosen) return std::move(chosen).error();
                    if (auto chosen = t.choose_vad(vad); !chosen) return std::move(chosen).error();
                    return t.transcribe(values, progress);
                });
                nb::list segments;
                for (const SpeechSegment& s : found.segments) {
                    nb::list words;
                    for (const SpokenWord& word : s.words)
                        words.append(nb::make_tuple(text(word.text), word.start, word.end, word.probability));
                    segments.append(nb::make_tuple(s.start, s.end, text(s.text), s.tokens, s.temperature,
                                                   s.average_log_prob, s.no_speech, s.compression_ratio, words,
                                                   s.heard_from));
                }
                return nb::make_tuple(text(found.text), text(found.language), segments);
            },
            nb::arg("samples").noconvert(), nb::arg("on_progress").none(), nb::arg("stop"), nb::arg("language"),
            nb::arg("task"), nb::arg("prompt"), nb::arg("vad").none())
        .def("sample_rate", [](HeldTranscriber& self) { return self.model().sample_rate(); });
}

}  // namespace vkformer::python
