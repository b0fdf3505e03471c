// SPDX-License-Identifier: MIT
/// Files that the command line names. They may be pipes, which are read to their end; the files of a model's folder may not.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "formats/safetensors.hpp"

namespace vkformer::cli {

/// Errors: as of MappedFile::read, and of the format.
Result<formats::Safetensors> read_safetensors(const std::string& path);
Result<nlohmann::json> read_json(const std::string& path);

/// Whether its name says nothing about the format: a pipe's does not.
bool is_stream(const std::string& path) noexcept;

}  // namespace vkformer::cli
