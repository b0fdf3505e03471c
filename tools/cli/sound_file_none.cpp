// SPDX-License-Identifier: MIT
/// sound_file.hpp in a build without libsndfile and libsamplerate.
#include "sound_file.hpp"

#include <string>

namespace vkformer::cli {
namespace {

Error refusal(const std::string& name) {
    return Error{ErrorCode::InvalidArgument,
                 name + ": this build of vkformer reads no sound files; it was built with VKFORMER_WITH_SOUND=OFF"};
}

}  // namespace

Result<std::vector<float>> read_sound_file(const std::filesystem::path& path, std::uint32_t) {
    return refusal(path.string());
}

Result<std::vector<float>> read_sound(std::string_view, std::uint32_t) { return refusal("the sound"); }

}  // namespace vkformer::cli
