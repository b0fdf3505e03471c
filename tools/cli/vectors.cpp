// SPDX-License-Identifier: MIT
#include "vectors.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/config.hpp"
#include "formats/gguf.hpp"

namespace vkformer::cli {
namespace {

/// As few digits as give the same float back.
std::string digits(float value) {
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return {buffer.data(), end};
}

}  // namespace

std::string as_text(const std::vector<float>& values) {
    std::string line;
    for (const float value : values) line += (line.empty() ? "" : " ") + digits(value);
    return line;
}

std::string to_line(const nlohmann::json& object) {
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A header of a multiple of 64 bytes, then little-endian numbers.
Result<void> write_npy(const std::string& path, std::size_t width, const std::vector<float>& values) {
    static_assert(std::endian::native == std::endian::little);
    constexpr std::size_t kStart = 10, kAlignment = 64;
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(values.size() / width) +
                         ", " + std::to_string(width) + "), }";
    while ((kStart + header.size() + 1) % kAlignment != 0) header += ' ';
    header += '\n';
    std::string start("\x93NUMPY\x01\x00", kStart - 2);
    start += static_cast<char>(header.size() & 0xFF);
    start += static_cast<char>(header.size() >> 8);
    std::ofstream file(path, std::ios::binary);
    file << start << header;
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
    file.close();
    if (!file) return Error{ErrorCode::InvalidArgument, "cannot write " + path};
    return {};
}

Result<std::string> model_type(const std::filesystem::path& folder) {
    if (formats::is_file(folder)) {
        VKFORMER_TRY(const auto file, formats::Gguf::open(folder));
        return file.string("general.architecture");
    }
    VKFORMER_TRY(const auto config, formats::Config::open_if_present(folder / "config.json"));
    return config.string("model_type", "");
}

}  // namespace vkformer::cli
