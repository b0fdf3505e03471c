// SPDX-License-Identifier: MIT
#include "serve/adapter_fields.hpp"

#include <algorithm>

#include "models/layer_weights.hpp"

namespace vkformer::serve {

std::optional<AdapterScales> read_scales(Fields& fields, const std::vector<std::string>& adapters) {
    const auto* const given = fields.take("lora");
    if (!given) return std::nullopt;
    if (!given->is_array() || given->size() > adapters.size())
        fields.refuse("lora", "it is no list of at most " + std::to_string(adapters.size()) +
                                  " objects, for so many adapters the model has");
    AdapterScales scales;
    for (std::size_t i = 0; i < given->size(); ++i) {
        Fields one((*given)[i], "lora[" + std::to_string(i) + "]");
        const auto id = one.integer("id", 0, static_cast<std::int64_t>(adapters.size()) - 1);
        auto name = one.text("name");
        if (id.has_value() == name.has_value()) one.refuse("id", "an adapter is told by its \"id\" or its \"name\"");
        if (id) name = adapters[static_cast<std::size_t>(*id)];
        if (std::ranges::find(adapters, *name) == adapters.end()) one.refuse("name", "the model has no such adapter");
        if (scales.contains(*name)) one.refuse("name", "the adapter is in the list twice");
        constexpr float kMost = models::AdapterSet::kMostAdapterScale;
        scales[*name] = static_cast<float>(one.number("scale", -kMost, kMost).value_or(1));
        one.finish();
    }
    return scales;
}

}  // namespace vkformer::serve
