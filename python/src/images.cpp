// SPDX-License-Identifier: MIT
#include "convert.hpp"
#include "vkformer/vision.hpp"

namespace vkformer::python {
namespace {

VisionOptions vision_options(std::uint32_t batch) {
    VisionOptions options;
    options.batch = batch;
    return options;
}

Floats rows_of(const std::vector<std::vector<float>>& vectors, std::size_t width) {
    return rows({vectors.begin(), vectors.end()}, width);
}

}  // namespace

void bind_images(nb::module_& module) {
    module.def("load_image", [](const nb::bytes& given) {
        const std::string path = path_of(given);
        return pixels_of(value_of([&] {
            nb::gil_scoped_release no_gil;
            return load_image(path);
        }()));
    });
    module.def("decode_image", [](const nb::bytes& file) {
        const std::span bytes(reinterpret_cast<const std::byte*>(file.c_str()), file.size());
        return pixels_of(value_of([&] {
            nb::gil_scoped_release no_gil;
            return decode_image(bytes);
        }()));
    });

    using HeldClassifier = Held<ImageClassifier>;
    bind_held<ImageClassifier>(module, "ImageClassifier")
        .def(
            "__init__",
            [](HeldClassifier* self, const nb::bytes& path, const CommonOptions& common, const nb::object& on_progress,
               std::uint32_t batch) {
                new (self) HeldClassifier(path_of(path), common.in(vision_options(batch)), on_progress);
            },
            nb::arg("path"), nb::arg("common"), nb::arg("on_progress").none(), nb::kw_only(), nb::arg("batch"))
        .def(
            "classify",
            [](HeldClassifier& self, const std::vector<Pixels>& given, const nb::object& on_progress,
               const Stop& stop) {
                const auto images = images_of(given);
                const auto progress = progress_of(self.watch(), on_progress);
                const auto found = self.run(&stop, [&](ImageClassifier& c) { return c.classify(images, progress); });
                nb::list results;
                for (const auto& labels : found) {
                    nb::list ranked;
                    for (const ImageLabel& l : labels) ranked.append(nb::make_tuple(l.label, l.logit, l.probability));
                    results.append(ranked);
                }
                return results;
            },
            nb::arg("images").noconvert(), nb::arg("on_progress").none(), nb::arg("stop"))
        .def(
            "attention",
            [](HeldClassifier& self, const Pixels& given, const Stop& stop) {
                const auto images = images_of({given});
                return attention(self.run(&stop, [&](ImageClassifier& c) { return c.attention(images.front()); }));
            },
            nb::arg("image").noconvert(), nb::arg("stop"))
        .def("labels", [](HeldClassifier& self) { return texts(self.model().labels()); })
        .def("patches", [](HeldClassifier& self) {
            return nb::make_tuple(self.model().patch_rows(), self.model().patch_columns());
        });

    using HeldEmbedder = Held<ImageEmbedder>;
    bind_held<ImageEmbedder>(module, "ImageEmbedder")
        .def(
            "__init__",
            [](HeldEmbedder* self, const nb::bytes& path, const CommonOptions& common, const nb::object& on_progress,
               std::uint32_t batch, bool normalize) {
                ImageEmbedderOptions options{vision_options(batch)};
                options.normalize = normalize;
                new (self) HeldEmbedder(path_of(path), common.in(std::move(options)), on_progress);
            },
            nb::arg("path"), nb::arg("common"), nb::arg("on_progress").none(), nb::kw_only(), nb::arg("batch"),
            nb::arg("normalize"))
        .def(
            "embed_images",
            [](HeldEmbedder& self, const std::vector<Pixels>& given, const nb::object& on_progress, const Stop& stop) {
                const auto images = images_of(given);
                const auto progress = progress_of(self.watch(), on_progress);
                return rows_of(self.run(&stop, [&](ImageEmbedder& c) { return c.embed_images(images, progress); }),
                               self.model().dimension());
            },
            nb::arg("images").noconvert(), nb::arg("on_progress").none(), nb::arg("stop"))
        .def(
            "embed_texts",
            [](HeldEmbedder& self, const nb::list& given, const nb::object& on_progress, const Stop& stop) {
                const auto sources = texts_of(given);
                const auto progress = progress_of(self.watch(), on_progress);
                const auto found = self.run(&stop, [&](ImageEmbedder& c) { return c.embed_texts(sources, progress); });
                return embeddings(found, self.model().dimension());
            },
            nb::arg("texts"), nb::arg("on_progress").none(), nb::arg("stop"))
        .def(
            "score",
            [](HeldEmbedder& self, const std::vector<Pixels>& pixels, const nb::list& given, const Stop& stop) {
                const auto images = images_of(pixels);
                const auto sources = texts_of(given);
                return rows_of(self.run(&stop, [&](ImageEmbedder& c) { return c.score(images, sources); }),
                               sources.size());
            },
            nb::arg("images").noconvert(), nb::arg("texts"), nb::arg("stop"))
        .def("check_text",
             [](HeldEmbedder& self, const nb::str& given) {
                 const auto checked = self.model().check_text(text_of(given));
                 if (!checked) raise(checked.error());
             })
        .def("probabilities",
             [](HeldEmbedder& self, const std::vector<float>& scores) { return self.model().probabilities(scores); })
        .def("reads_texts", [](HeldEmbedder& self) { return self.model().reads_texts(); })
        .def("dimension", [](HeldEmbedder& self) { return self.model().dimension(); })
        .def("max_length", [](HeldEmbedder& self) { return self.model().max_length(); });
}

}  // namespace vkformer::python
