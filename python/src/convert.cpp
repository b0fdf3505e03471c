// SPDX-License-Identifier: MIT
#include "convert.hpp"

#include <algorithm>
#include <memory>

namespace vkformer::python {

void raise(const Error& error) {
    const nb::object made = nb::module_::import_("vkformer._errors")
                                .attr("from_library")(text(error.message), text(to_string(error.code)), error.vk);
    PyErr_SetObject(made.type().ptr(), made.ptr());
    throw nb::python_error();
}

std::string text_of(nb::handle text) {
    Py_ssize_t size = 0;
    const char* const utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (!utf8) throw nb::python_error();
    return {utf8, static_cast<std::size_t>(size)};
}

std::vector<std::string> texts_of(const nb::list& texts) {
    std::vector<std::string> result;
    for (const nb::handle text : texts) result.push_back(text_of(text));
    return result;
}

std::string path_of(const nb::bytes& path) { return {path.c_str(), path.size()}; }

nb::str text(std::string_view utf8) {
    return nb::steal<nb::str>(PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "replace"));
}

nb::list texts(std::span<const std::string> utf8) {
    nb::list result;
    for (const std::string& one : utf8) result.append(text(one));
    return result;
}

std::vector<Adapter> adapters_of(const nb::list& given) {
    std::vector<Adapter> adapters;
    for (const nb::handle one : given)
        adapters.push_back({.name = text_of(nb::cast<nb::str>(one[0])), .path = path_of(nb::cast<nb::bytes>(one[1]))});
    return adapters;
}

std::map<std::string, float> scales_of(const nb::list& given) {
    std::map<std::string, float> scales;
    for (const nb::handle one : given)
        scales[text_of(nb::cast<nb::str>(one[0]))] = static_cast<float>(nb::cast<double>(one[1]));
    return scales;
}

namespace {

template <class T>
nb::ndarray<nb::numpy, T> owned(std::vector<T> values, const std::vector<std::size_t>& shape) {
    auto kept = std::make_unique<std::vector<T>>(std::move(values));
    T* const data = kept->data();
    nb::capsule owner(kept.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(data, shape.size(), shape.data(), owner);
}

}  // namespace

Floats array(std::vector<float> values, std::vector<std::size_t> shape) { return owned(std::move(values), shape); }

Floats rows(const std::vector<std::span<const float>>& rows, std::size_t width) {
    std::vector<float> values;
    values.reserve(rows.size() * width);
    for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
    return array(std::move(values), {rows.size(), width});
}

std::vector<Image> images_of(const std::vector<Pixels>& pixels) {
    std::vector<Image> images;
    for (const Pixels& one : pixels)
        images.push_back({.width = static_cast<std::uint32_t>(one.shape(1)),
                          .height = static_cast<std::uint32_t>(one.shape(0)),
                          .rgb = std::vector<std::uint8_t>(one.data(), one.data() + one.size())});
    return images;
}

Bytes pixels_of(const Image& image) { return owned(image.rgb, {image.height, image.width, std::size_t{3}}); }

nb::list log_probs(std::span<const StepLogProbs> steps) {
    nb::list all;
    for (const StepLogProbs& step : steps) {
        nb::list likeliest;
        for (const auto& [token, log_prob] : step.likeliest) likeliest.append(nb::make_tuple(token, log_prob));
        all.append(nb::make_tuple(step.chosen.token, step.chosen.log_prob, likeliest));
    }
    return all;
}

nb::list scores(const std::vector<TextScores>& texts) {
    nb::list all;
    for (const TextScores& one : texts) all.append(nb::make_tuple(one.tokens, log_probs(one.log_probs)));
    return all;
}

nb::tuple embeddings(const std::vector<Embedding>& found, std::size_t width) {
    std::vector<std::span<const float>> vectors;
    std::vector<std::size_t> tokens, cut;
    for (const Embedding& one : found) {
        vectors.emplace_back(one.values);
        tokens.push_back(one.tokens);
        cut.push_back(one.cut);
    }
    return nb::make_tuple(rows(vectors, width), tokens, cut);
}

Embedder::Progress progress_of(Watch& watch, const nb::object& on_progress) {
    if (on_progress.is_none()) return {};
    return [&watch, told = on_progress.ptr()](std::size_t done, std::size_t total) {
        watch.call(true, [&] { return nb::handle(told)(done, total), true; });
    };
}

nb::list attention(std::vector<AttentionWeights> layers) {
    const auto name_of = [](AttentionKind kind) {
        switch (kind) {
        case AttentionKind::encoder: return "encoder";
        case AttentionKind::decoder: return "decoder";
        case AttentionKind::cross: return "cross";
        }
        return "unknown";
    };
    nb::list result;
    for (AttentionWeights& layer : layers)
        result.append(nb::make_tuple(name_of(layer.kind), layer.layer,
                                     array(std::move(layer.values), {layer.heads, layer.queries, layer.keys})));
    return result;
}

}  // namespace vkformer::python
