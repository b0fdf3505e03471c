// SPDX-License-Identifier: MIT
#include "vkformer/transcriber.hpp"

#include "convert.hpp"

namespace vkformer::python {

void bind_transcriber(nb::module_& module) {
    using HeldTranscriber = Held<Transcriber>;
    bind_held<Transcriber>(module, "Transcriber")
        .def(
            "__init__",
            [](HeldTranscriber* self, const nb::bytes& path, const CommonOptions& common, const nb::object& on_progress,
               bool convert_weights, const nb::str& language, const nb::str& task, bool timestamps,
               std::uint32_t max_length, std::uint32_t batch, std::optional<bool> condition_on_previous,
               std::vector<float> temperatures, std::optional<double> compression_ratio_threshold,
               std::optional<double> log_prob_threshold, std::optional<double> no_speech_threshold, std::uint64_t seed,
               bool word_timestamps) {
                new (self) HeldTranscriber(
                    path_of(path),
                    common.in(TranscriberOptions{.weights = storage_of(convert_weights),
                                                 .language = text_of(language),
                                                 .task = text_of(task),
                                                 .timestamps = timestamps,
                                                 .max_length = max_length,
                                                 .batch = batch,
                                                 .condition_on_previous = condition_on_previous,
                                                 .temperatures = std::move(temperatures),
                                                 .compression_ratio_threshold = compression_ratio_threshold,
                                                 .log_prob_threshold = log_prob_threshold,
                                                 .no_speech_threshold = no_speech_threshold,
                                                 .seed = seed,
                                                 .word_timestamps = word_timestamps}),
                    on_progress);
            },
            nb::arg("path"), nb::arg("common"), nb::arg("on_progress").none(), nb::kw_only(),
            nb::arg("convert_weights"), nb::arg("language"), nb::arg("task"), nb::arg("timestamps"),
            nb::arg("max_length"), nb::arg("batch"), nb::arg("condition_on_previous").none(), nb::arg("temperatures"),
            nb::arg("compression_ratio_threshold").none(), nb::arg("log_prob_threshold").none(),
            nb::arg("no_speech_threshold").none(), nb::arg("seed"), nb::arg("word_timestamps"))
        .def(
            "transcribe",
            [](HeldTranscriber& self, const Samples& samples, const nb::object& on_progress, const Stop& stop) {
                const std::span<const float> values(samples.data(), samples.size());
                Transcriber::Progress progress;
                if (!on_progress.is_none())
                    progress = [&](double done, double total) {
                        self.watch().call(true, [&] { return on_progress(done, total), true; });
                    };
                const auto found = self.run(&stop, [&](Transcriber& t) { return t.transcribe(values, progress); });
                nb::list segments;
                for (const SpeechSegment& s : found.segments) {
                    nb::list words;
                    for (const SpokenWord& word : s.words)
                        words.append(nb::make_tuple(text(word.text), word.start, word.end, word.probability));
                    segments.append(nb::make_tuple(s.start, s.end, text(s.text), s.tokens, s.temperature,
                                                   s.average_log_prob, s.no_speech, s.compression_ratio, words));
                }
                return nb::make_tuple(text(found.text), text(found.language), segments);
            },
            nb::arg("samples").noconvert(), nb::arg("on_progress").none(), nb::arg("stop"))
        .def("sample_rate", [](HeldTranscriber& self) { return self.model().sample_rate(); });
}

}  // namespace vkformer::python
