// SPDX-License-Identifier: MIT
/// The model that a request asks, and which of its adapters count.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serve/fields.hpp"
#include "serve/model_set.hpp"

namespace vkformer::serve {

/// A model by its own name, by that of one of its adapters, which counts then, or the only one.
template <class Model>
struct AskedModel {
    Model* model = nullptr;
    std::string name;  ///< as the answer calls it
};
/// The field "model". Throws what ModelSet::get throws.
template <class Model>
AskedModel<Model> read_model(Fields& fields, const ModelSet& models, const Call& call) {
    const auto name = fields.text("model");
    Model& model = models.get<Model>(call, name);
    return {&model, name.value_or(model.name())};
}

/// The field "lora": a list of objects with "id", llama-server's, or "name", and "scale"; null without it. Throws Refusal (400).
std::optional<AdapterScales> read_scales(Fields& fields, const std::vector<std::string>& adapters);

/// Which adapters count, and how much: the one that the model was called by, or those of "lora"; then the answer calls the model by its
/// own name. Throws Refusal (400).
template <class Model>
AdapterScales read_adapters(Fields& fields, AskedModel<Model>& asked) {
    auto scales = read_scales(fields, asked.model->adapters());
    const bool is_own = asked.name == asked.model->name();
    if (!scales) return is_own ? AdapterScales() : AdapterScales{{asked.name, 1}};
    asked.name = asked.model->name();  // the adapter that it may have been called by is not what counts
    return *std::move(scales);
}

}  // namespace vkformer::serve
