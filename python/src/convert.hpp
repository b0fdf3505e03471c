// SPDX-License-Identifier: MIT
/// Values of Python as the library takes them, and back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "held.hpp"
#include "vkformer/adapter.hpp"
#include "vkformer/attention_weights.hpp"
#include "vkformer/embedder.hpp"
#include "vkformer/image.hpp"
#include "vkformer/log_probs.hpp"
#include "vkformer/precision.hpp"
#include "vkformer/weight_storage.hpp"

namespace vkformer::python {

/// UTF-8. Raises UnicodeEncodeError for surrogates.
std::string text_of(nb::handle text);
std::vector<std::string> texts_of(const nb::list& texts);
/// A path as os.fsencode gives it.
std::string path_of(const nb::bytes& path);

/// What is no UTF-8 becomes U+FFFD.
nb::str text(std::string_view utf8);
nb::list texts(std::span<const std::string> utf8);

/// (name, path) of each.
std::vector<Adapter> adapters_of(const nb::list& given);
/// (name, scale) of each.
std::map<std::string, float> scales_of(const nb::list& given);

using Floats = nb::ndarray<nb::numpy, float>;
using Bytes = nb::ndarray<nb::numpy, std::uint8_t>;

/// An array that owns its values, without a copy.
Floats array(std::vector<float> values, std::vector<std::size_t> shape);
/// The rows under each other, each `width` long.
Floats rows(const std::vector<std::span<const float>>& rows, std::size_t width);

using Pixels = nb::ndarray<const std::uint8_t, nb::shape<-1, -1, 3>, nb::c_contig, nb::device::cpu>;
using Samples = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
std::vector<Image> images_of(const std::vector<Pixels>& pixels);
/// [height, width, 3]
Bytes pixels_of(const Image& image);

/// (vectors [texts, width], tokens that were read of each text, tokens that were left out)
nb::tuple embeddings(const std::vector<Embedding>& found, std::size_t width);
/// on_progress(done, total); None: nobody is told. Lives no longer than both.
Embedder::Progress progress_of(Watch& watch, const nb::object& on_progress);

/// (token, log-probability, [(token, log-probability) of the likeliest]) of each.
nb::list log_probs(std::span<const StepLogProbs> steps);
/// (tokens, log_probs) of each.
nb::list scores(const std::vector<TextScores>& texts);

/// (kind, layer, weights [heads, queries, keys]) of each.
nb::list attention(std::vector<AttentionWeights> layers);

inline WeightStorage storage_of(bool converts) { return converts ? WeightStorage::precision : WeightStorage::model; }

/// What the options of all models have.
struct CommonOptions {
    std::string device;
    bool f16 = false;
    bool plain_shaders = false;
    std::map<std::string, std::string> shader_variants;
    std::uint64_t offload_bytes = 0;

    template <class Options>
    Options in(Options options) const {
        options.device = device;
        options.precision = f16 ? Precision::f16 : Precision::f32;
        options.plain_shaders = plain_shaders;
        options.shader_variants = shader_variants;
        options.offload.bytes = offload_bytes;
        return options;
    }
};

/// What all models have.
template <class Model>
nb::class_<Held<Model>> bind_held(nb::module_& module, const char* name) {
    return nb::class_<Held<Model>>(module, name, nb::type_slots(Held<Model>::slots()))
        .def(
            "twin", [](Held<Model>& held) { return new Held<Model>(typename Held<Model>::TwinOf{held}); },
            nb::rv_policy::take_ownership)
        .def("close", &Held<Model>::close)
        .def("is_closed", &Held<Model>::is_closed)
        .def("device", [](Held<Model>& held) { return text(held.model().device()); })
        .def("notes", [](Held<Model>& held) {
            nb::list notes;
            for (const std::string& note : held.model().notes()) notes.append(text(note));
            return notes;
        });
}

void bind_translator(nb::module_& module);
void bind_generator(nb::module_& module);
void bind_encoders(nb::module_& module);
void bind_images(nb::module_& module);
void bind_transcriber(nb::module_& module);
void bind_graph(nb::module_& module);

}  // namespace vkformer::python
