// SPDX-License-Identifier: MIT
#include "vectors.hpp"

#include <array>
#include <bit>
#include <charconv>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/output_file.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"

namespace vkformer::cli {
namespace {

/// As few digits as give the same float back.
std::string digits(float value) {
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return {buffer.data(), end};
}

}  // namespace

std::string spaced(const std::vector<float>& values) {
    std::string line;
    for (const float value : values) line += (line.empty() ? "" : " ") + digits(value);
    return line;
}

std::string to_line(const nlohmann::json& object) {
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string on_one_line(const std::string& name) {
    const std::string quoted = nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return printable(std::string_view(quoted).substr(1, quoted.size() - 2));
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
    VKFORMER_TRY(auto file, OutputFile::create(utf8_path(path)));
    start += header;
    VKFORMER_CHECK(file.write(std::as_bytes(std::span(start))));
    VKFORMER_CHECK(file.write(std::as_bytes(std::span(values))));
    return file.commit();
}

}  // namespace vkformer::cli
