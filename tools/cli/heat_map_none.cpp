// SPDX-License-Identifier: MIT
/// heat_map.hpp in a build without cairo and pango.
#include "heat_map.hpp"

namespace vkformer::cli {

Result<void> draw_heat_maps(const HeatMapPage&, PictureFormat, const std::filesystem::path& path) {
    return Error{ErrorCode::InvalidArgument,
                 "cannot draw " + path.string() +
                     ": this build of vkformer draws no pictures; it was built with VKFORMER_WITH_CAIRO=OFF"};
}

}  // namespace vkformer::cli
