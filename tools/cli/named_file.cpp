// SPDX-License-Identifier: MIT
#include "named_file.hpp"

#include <filesystem>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/mapped_file.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "formats/json.hpp"

namespace vkformer::cli {

bool is_stream(const std::string& path) noexcept {
    std::error_code ignored;
    const auto status = std::filesystem::status(utf8_path(path), ignored);
    return std::filesystem::is_fifo(status) || std::filesystem::is_character_file(status);
}

Result<formats::Safetensors> read_safetensors(const std::string& path) {
    if (!is_stream(path)) return formats::Safetensors::open(utf8_path(path));
    VKFORMER_TRY(const auto file, MappedFile::read(utf8_path(path)));
    return formats::Safetensors::parse(file->bytes(), file, path);
}

Result<nlohmann::json> read_json(const std::string& path) {
    if (!is_stream(path)) return formats::read_json(utf8_path(path));
    VKFORMER_TRY(const auto file, MappedFile::read(utf8_path(path)));
    const auto bytes = file->bytes();
    return formats::parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace vkformer::cli
