// SPDX-License-Identifier: MIT
/// Files that the command line names. They may be pipes, which are read to their end; the files of a model's folder may not.
#pragma once

#include <initializer_list>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "formats/safetensors.hpp"

namespace vkformer::cli {

/// Errors: as of MappedFile::read, and of the format.
Result<formats::Safetensors> read_safetensors(const std::string& path);
Result<nlohmann::json> read_json(const std::string& path);

/// Whether its name says nothing about the format: a pipe's does not.
bool is_stream(const std::string& path) noexcept;

/// Whether a file can be written there and is none of the inputs: said before work that is long, and not behind it. Errors: InvalidArgument,
/// FileNotFound.
Result<void> check_may_be_written(const std::string& output, std::initializer_list<std::string> inputs);

}  // namespace vkformer::cli
