// SPDX-License-Identifier: MIT
#include "convert.hpp"
#include "vkformer/embedder.hpp"

namespace vkformer::python {
namespace {

std::vector<TextPair> pairs_of(const nb::list& pairs) {
    std::vector<TextPair> result;
    for (const nb::handle pair : pairs) result.push_back({text_of(pair[0]), text_of(pair[1])});
    return result;
}

}  // namespace

void bind_encoders(nb::module_& module) {
    using HeldEmbedder = Held<Embedder>;
    bind_held<Embedder>(module, "Embedder")
        .def(
            "__init__",
            [](HeldEmbedder* self, const nb::bytes& path, const CommonOptions& common, const nb::object& on_progress,
               std::uint32_t batch, std::uint32_t max_length, const nb::str& pooling, std::optional<bool> normalize,
               const nb::object& prompt, const nb::str& prompt_name, const nb::list& adapters) {
                EmbedderOptions options;
                options.batch = batch;
                options.max_length = max_length;
                options.pooling = text_of(pooling);
                options.normalize = normalize;
                if (!prompt.is_none()) options.prompt = text_of(prompt);
                options.prompt_name = text_of(prompt_name);
                options.adapters = adapters_of(adapters);
                new (self) HeldEmbedder(path_of(path), common.in(std::move(options)), on_progress);
            },
            nb::arg("path"), nb::arg("common"), nb::arg("on_progress").none(), nb::kw_only(), nb::arg("batch"),
            nb::arg("max_length"), nb::arg("pooling"), nb::arg("normalize").none(), nb::arg("prompt").none(),
            nb::arg("prompt_name"), nb::arg("adapters"))
        .def(
            "embed",
            [](HeldEmbedder& self, const nb::list& given, const nb::list& adapters, const nb::object& on_progress,
               const Stop& stop) {
                const auto scales = scales_of(adapters);
                const auto sources = texts_of(given);
                const auto progress = progress_of(self.watch(), on_progress);
                const auto found = self.run(&stop, [&](Embedder& e) { return e.embed(sources, progress, scales); });
                return embeddings(found, self.model().dimension());
            },
            nb::arg("texts"), nb::arg("adapters"), nb::arg("on_progress").none(), nb::arg("stop"))
        .def("check",
             [](HeldEmbedder& self, const nb::str& given) {
                 const auto checked = self.model().check(text_of(given));
                 if (!checked) raise(checked.error());
             })
        .def("dimension", [](HeldEmbedder& self) { return self.model().dimension(); })
        .def("max_length", [](HeldEmbedder& self) { return self.model().max_length(); })
        .def("pooling", [](HeldEmbedder& self) { return text(self.model().pooling()); });

    using HeldScorer = Held<CrossEncoder>;
    bind_held<CrossEncoder>(module, "CrossEncoder")
        .def(
            "__init__",
            [](HeldScorer* self, const nb::bytes& path, const CommonOptions& common, const nb::object& on_progress,
               std::uint32_t batch, std::uint32_t max_length, const nb::list& adapters) {
                EncoderOptions options{.batch = batch, .max_length = max_length};
                options.adapters = adapters_of(adapters);
                new (self) HeldScorer(path_of(path), common.in(std::move(options)), on_progress);
            },
            nb::arg("path"), nb::arg("common"), nb::arg("on_progress").none(), nb::kw_only(), nb::arg("batch"),
            nb::arg("max_length"), nb::arg("adapters"))
        .def(
            "score",
            [](HeldScorer& self, const nb::list& given, const nb::list& adapters, const nb::object& on_progress,
               const Stop& stop) {
                const auto scales = scales_of(adapters);
                const auto pairs = pairs_of(given);
                const auto progress = progress_of(self.watch(), on_progress);
                const auto found = self.run(&stop, [&](CrossEncoder& c) { return c.score(pairs, progress, scales); });
                std::vector<std::span<const float>> scores;
                for (const PairScore& one : found) scores.emplace_back(one.scores);
                return rows(scores, self.model().labels());
            },
            nb::arg("pairs"), nb::arg("adapters"), nb::arg("on_progress").none(), nb::arg("stop"))
        .def("check",
             [](HeldScorer& self, const nb::str& first, const nb::str& second) {
                 const auto checked = self.model().check({text_of(first), text_of(second)});
                 if (!checked) raise(checked.error());
             })
        .def("labels", [](HeldScorer& self) { return self.model().labels(); })
        .def("max_length", [](HeldScorer& self) { return self.model().max_length(); });
}

}  // namespace vkformer::python
