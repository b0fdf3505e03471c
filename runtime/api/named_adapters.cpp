// SPDX-License-Identifier: MIT
#include "api/named_adapters.hpp"

#include <algorithm>

#include "core/try.hpp"

namespace vkformer::api {

Result<std::vector<models::Adapter>> open_adapters(const std::vector<Adapter>& adapters) {
    std::vector<models::Adapter> opened;
    for (const Adapter& adapter : adapters) {
        if (adapter.name.empty() || std::ranges::count(adapters, adapter.name, &Adapter::name) > 1)
            return Error{ErrorCode::InvalidArgument, "adapters need names of their own, and \"" + adapter.name +
                                                         "\" is " + (adapter.name.empty() ? "none" : "two's")};
        VKFORMER_TRY(opened.emplace_back(), models::open_adapter(adapter.path));
    }
    return opened;
}

std::vector<std::string> names_of(const std::vector<Adapter>& adapters) {
    std::vector<std::string> names;
    for (const Adapter& adapter : adapters) names.push_back(adapter.name);
    return names;
}

Result<std::vector<float>> scales_of(const models::AdapterSet& set, const std::vector<std::string>& names,
                                     const std::map<std::string, float>& asked) {
    std::vector<float> scales(names.size(), 0.0f);
    for (const auto& [name, scale] : asked) {
        const auto found = std::ranges::find(names, name);
        if (found == names.end()) {
            std::string list;
            for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
            return Error{ErrorCode::InvalidArgument, "no adapter \"" + name + "\" is loaded; " +
                                                         (list.empty() ? "there are none" : "there are: " + list)};
        }
        scales[static_cast<std::size_t>(found - names.begin())] = scale;
    }
    VKFORMER_CHECK(set.check_adapters(scales));
    if (std::ranges::all_of(scales, [](float scale) { return scale == 0; })) scales.clear();
    return scales;
}

}  // namespace vkformer::api
