// SPDX-License-Identifier: MIT
/// What `vkformer forward` takes of a speech golden.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "formats/safetensors.hpp"
#include "support/goldens.hpp"

namespace vkformer::tests {

/// [batch, frames, bins] of a golden as [batch, bins, frames], which is how Hugging Face's processor gives it.
inline formats::NamedTensor features_of(const Golden& golden) {
    const Shape shape = golden.shape("input_features");
    const auto values = golden.floats("input_features");
    const auto turned = std::make_shared<std::vector<float>>(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t bin = i % shape[2], frame = i / shape[2] % shape[1], b = i / shape[2] / shape[1];
        (*turned)[(b * shape[2] + bin) * shape[1] + frame] = values[i];
    }
    return {"input_features",
            {.dtype = DType::f32,
             .shape = {shape[0], shape[2], shape[1]},
             .bytes = std::as_bytes(std::span(*turned)),
             .owner = turned}};
}

}  // namespace vkformer::tests
