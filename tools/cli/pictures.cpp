// SPDX-License-Identifier: MIT
#include "pictures.hpp"

#include "core/paths.hpp"
#include "core/try.hpp"

namespace vkformer::cli {

Result<std::vector<Image>> load_images(std::span<const std::string> paths) {
    std::vector<Image> images;
    for (const std::string& path : paths) {
        VKFORMER_TRY(auto image, load_image(utf8_path(path)));
        images.push_back(std::move(image));
    }
    return images;
}

}  // namespace vkformer::cli
