// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/shape.hpp"

namespace vkformer::cli {

/// What `vkformer inspect` found.
struct Listing {
    struct Value {
        std::string key;
        std::string type;
        nlohmann::ordered_json value;
    };
    struct Tensor {
        std::string name;
        std::string type;
        Shape shape;
        std::uint64_t bytes = 0;
    };
    std::string title;  ///< the format
    std::vector<Value> values;
    std::vector<Tensor> tensors;
};

/// Lists are cut to `max_elements`, texts to some lines; totals by type at the end.
std::string as_text(const Listing& listing, const std::string& path, std::size_t max_elements);
/// The same as one JSON object; a cut list becomes {"length", "first"}.
std::string as_json(const Listing& listing, const std::string& path, std::size_t max_elements);

}  // namespace vkformer::cli
