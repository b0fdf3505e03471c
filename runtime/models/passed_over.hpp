// SPDX-License-Identifier: MIT
/// What a model's files say that its loading asked nothing of. The loading functions honour or refuse what they ask for; a field, a key or
/// a tensor that they do not know may change the arithmetic, so it is told of, unless it is known to be of no account.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/config.hpp"
#include "formats/gguf.hpp"
#include "formats/weights.hpp"

namespace vkformer::models {

/// Whether a field of config.json changes nothing that vkformer computes, whatever its value, in models of this `model_type`: how a model
/// was trained, what is returned besides, what tokenizers and generation read of their own files. `path` of a nested object's field is
/// "vision_config.hidden_size".
bool is_of_no_account(std::string_view model_type, std::string_view path);

/// Of a folder whose loading is done.
std::vector<std::string> passed_over(const formats::Config& config, const formats::Weights& weights);
/// Of a file whose loading is done: keys of its architecture and of prefixes that nobody knows, and tensors.
std::vector<std::string> passed_over(const formats::Gguf& file);

}  // namespace vkformer::models
