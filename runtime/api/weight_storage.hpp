// SPDX-License-Identifier: MIT
#pragma once

#include "models/weight_format.hpp"
#include "vkformer/weight_storage.hpp"

namespace vkformer::api {

inline models::WeightFormat format_of(WeightStorage storage) noexcept {
    return storage == WeightStorage::model ? models::WeightFormat::as_filed : models::WeightFormat::as_computed;
}

}  // namespace vkformer::api
