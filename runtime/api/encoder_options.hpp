// SPDX-License-Identifier: MIT
/// What EncoderOptions say to the layers below.
#pragma once

#include "api/open_backend.hpp"
#include "core/dtype.hpp"
#include "vkformer/embedder.hpp"

namespace vkformer::api {

DType dtype_of(const EncoderOptions& options) noexcept;

/// How a backend is opened that these options ask for.
OpenOptions open_options(const EncoderOptions& options);

}  // namespace vkformer::api
