// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace vkformer::models {

/// What a model's files say that was passed over in loading it, because nobody knows what it does: one sentence each, with the file's
/// name first. None for files that are understood to the last field (passed_over.hpp).
struct FileNotes {
    std::vector<std::string> notes;
};

}  // namespace vkformer::models
