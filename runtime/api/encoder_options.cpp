// SPDX-License-Identifier: MIT
#include "api/encoder_options.hpp"

namespace vkformer::api {

DType dtype_of(const EncoderOptions& options) noexcept {
    return options.precision == Precision::f16 ? DType::f16 : DType::f32;
}

OpenOptions open_options(const EncoderOptions& options) {
    OpenOptions open{.device = options.device,
                     .plain = options.plain_shaders,
                     .variants = options.shader_variants,
                     .should_stop = options.should_stop,
                     .offload = options.offload};
    report_to(options.on_progress, open);
    return open;
}

}  // namespace vkformer::api
