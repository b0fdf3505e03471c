// SPDX-License-Identifier: MIT
#include "named_file.hpp"

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/mapped_file.hpp"
#include "core/paths.hpp"
#include "core/platform/files.hpp"
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

Result<void> check_may_be_written(const std::string& output, std::initializer_list<std::string> inputs) {
    namespace fs = std::filesystem;
    const fs::path path = utf8_path(output);
    std::error_code ignored;
    for (const std::string& input : inputs)
        if (fs::equivalent(path, utf8_path(input), ignored))
            return Error{ErrorCode::InvalidArgument, output + " is what is read: name another file to write"};
    const auto cannot_write = [&](const std::string& why) {
        return Error{ErrorCode::FileNotFound, "cannot write " + output + ": " + why};
    };
    if (fs::is_directory(path, ignored)) return cannot_write("it is a folder");
    const fs::path folder = fs::absolute(path, ignored).parent_path();
    if (!fs::is_directory(folder, ignored)) return cannot_write("there is no folder " + folder.string());
    const bool is_special = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
    if (!platform::may_write(is_special ? path : folder))
        return cannot_write(std::error_code(errno, std::generic_category()).message());
    return {};
}

}  // namespace vkformer::cli
