// SPDX-License-Identifier: MIT
/// How commands write what they found.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "vkformer/result.hpp"

namespace vkformer::cli {

/// Numbers with a space between them, each with as few digits as give the same float back.
std::string spaced(const std::vector<float>& values);

/// JSON on one line; what is no UTF-8 is replaced.
std::string to_line(const nlohmann::json& object);

/// A name out of a file, such as a label, without line feeds and other control characters: they are escaped, as in JSON.
std::string on_one_line(const std::string& name);

/// NumPy's format, version 1.0: float32 [rows, width]. Errors: InvalidArgument (the file cannot be written).
Result<void> write_npy(const std::string& path, std::size_t width, const std::vector<float>& values);

}  // namespace vkformer::cli
