// SPDX-License-Identifier: MIT
#include "cli.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/paths.hpp"
#include "core/platform/files.hpp"
#include "core/platform/process.hpp"
#include "core/platform/system.hpp"
#include "core/platform/terminal.hpp"
#include "core/try.hpp"
#include "text/unicode.hpp"

namespace vkformer::cli {

namespace {

/// "cpu" and "auto" in small letters, other names as they are.
std::string reserved_name(std::string device) {
    std::string lower = device;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return lower == "cpu" || lower == "auto" ? lower : device;
}

/// What --offload says.
std::uint64_t bytes_to_offload(std::string text) {
    if (text == "auto") return Offload::kRest;
    const std::string given = text;
    std::uint64_t bytes = 0;
    const bool is_size = CLI::AsSizeValue(false)(text).empty();  // which writes it as a number of bytes
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    if (!is_size || error != std::errc() || end != text.data() + text.size() || bytes == Offload::kRest)
        throw CLI::ValidationError("--offload", given + " is neither a size, as 2G, nor auto");
    return bytes;
}

}  // namespace

CLI::Option* DeviceOptions::add_device_name(CLI::App& command) {
    return command
        .add_option("-d,--device", device,
                    "Device: index, UUID or part of the name as `vkformer info` shows them, cpu, or auto")
        ->capture_default_str()
        ->transform(reserved_name);
}

void DeviceOptions::add_device(CLI::App& command) {
    add_device_name(command);
    command.parse_complete_callback([this] {
        if (!quiet && device != "cpu") warn_of_cache_folder();
    });
    command.add_flag("-q,--quiet", quiet, "Do not say on standard error which device is used");
    command.add_flag(
        "--plain", plain,
        "The plain variant of every shader: no measuring, no optional features; on the CPU: no 8-bit activations");
    command
        .add_option("--variant", variants, "Force a shader variant, as OP=NAME (see: vkformer tune --list); repeatable")
        ->allow_extra_args(false)  // what follows is no further variant but the text
        ->type_name("OP=NAME");
    command
        .add_option_function<std::string>(
            "--offload", [this](const std::string& text) { offloaded_bytes = bytes_to_offload(text); },
            "Weights that stay in the host's memory, where a GPU reads them over its bus: so many bytes, as 2G, or "
            "auto, those that do not fit the device (default: none)")
        ->type_name("SIZE|auto");
}

Offload DeviceOptions::offload() const {
    Offload result{.bytes = offloaded_bytes};
    if (!quiet)
        result.report = [](const std::string& text) {
            show_progress("");
            std::fprintf(stderr, "vkformer: offload: %s\n", text.c_str());
        };
    return result;
}

Result<std::map<std::string, std::string>> DeviceOptions::variants_by_op() const {
    std::map<std::string, std::string> by_op;
    for (const std::string& text : variants) {
        const std::size_t equals = text.find('=');
        if (equals == text.npos || equals == 0 || equals + 1 == text.size())
            return Error{ErrorCode::InvalidArgument,
                         "--variant takes OP=NAME, as in linear=tile, not \"" + text + "\""};
        by_op[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return by_op;
}

void DeviceOptions::add_dtype(CLI::App& command) {
    command
        .add_option("--dtype", dtype,
                    "Storage of activations, and of weights that are converted; sums are always float32")
        ->check(CLI::IsMember({"f32", "f16"}))
        ->capture_default_str();
}

void DeviceOptions::add_strict(CLI::App& command) {
    command.add_flag("--strict", strict,
                     "Refuse a model whose files have fields, keys or tensors that nobody knows; else they are named");
}

Result<void> DeviceOptions::heed(const std::vector<std::string>& notes) const {
    if (strict && !notes.empty())
        return Error{ErrorCode::UnsupportedConfig, notes.front() + "; without --strict it is only told of"};
    if (quiet) return {};
    for (const std::string& note : notes) std::fprintf(stderr, "vkformer: note: %s\n", printable(note).c_str());
    return {};
}

void WeightsOption::add(CLI::App& command) {
    command.add_option("--weights", dtype, "How matrices are stored: as in the model's file, or as --dtype says")
        ->check(CLI::IsMember({"model", "dtype"}))
        ->capture_default_str();
}

void CacheOption::add(CLI::App& command) {
    command
        .add_option("--cache-dtype", dtype,
                    "Storage of a decoder-only model's keys and values: as --dtype says, or in 8-bit blocks")
        ->check(CLI::IsMember({"dtype", "q8_0"}))
        ->capture_default_str();
}

void LoraOption::add(CLI::App& command) {
    command
        .add_option("--lora", given,
                    "A low-rank adapter that counts: a folder of PEFT's, or a GGUF file for a GGUF model; with =NUMBER "
                    "behind it, so much; repeatable")
        ->take_all()
        ->allow_extra_args(false)
        ->type_name("PATH[=SCALE]");
}

Result<std::vector<LoraOption::Counting>> LoraOption::adapters() const {
    std::vector<Counting> found;
    for (const std::string& text : given) {
        std::string name = std::to_string(found.size() + 1);
        std::error_code ignored;
        const std::size_t equals = text.rfind('=');
        if (equals == text.npos || equals == 0 || std::filesystem::exists(utf8_path(text), ignored)) {
            found.push_back({std::move(name), utf8_path(text), 1});
            continue;
        }
        float scale = 1;
        const std::string_view number = std::string_view(text).substr(equals + 1);
        const auto read =
            std::from_chars(number.data() + (number.starts_with('+') ? 1 : 0), number.data() + number.size(), scale);
        if (read.ec != std::errc{} || read.ptr != number.data() + number.size())
            return Error{ErrorCode::InvalidArgument, "--lora " + text + ": \"" + std::string(number) +
                                                         "\" is no number, and there is no file of that whole name"};
        found.push_back({std::move(name), utf8_path(text.substr(0, equals)), scale});
    }
    return found;
}

Result<std::map<std::string, float>> LoraOption::ask(std::vector<Adapter>& loaded) const {
    std::map<std::string, float> asked;
    VKFORMER_TRY(const auto counting, adapters());
    for (const Counting& one : counting) {
        loaded.push_back({.name = one.name, .path = one.path});
        asked.emplace(one.name, one.scale);
    }
    return asked;
}

void ModelOption::add(CLI::App& command) {
    command.add_option("-m,--model", folder, "Model folder of the Hugging Face layout (default: the shipped model)");
}

Result<std::filesystem::path> ModelOption::find() const {
    namespace fs = std::filesystem;
    std::error_code ignored;
    if (!folder.empty()) {
        if (fs::path path = utf8_path(folder); fs::exists(path, ignored)) return path;
        return Error{ErrorCode::FileNotFound, "there is no model " + folder};
    }
    VKFORMER_TRY(const fs::path config, find_shipped("date-normalizer/config.json"));
    return config.parent_path();
}

Result<std::filesystem::path> find_shipped(const std::filesystem::path& file) {
    namespace fs = std::filesystem;
    std::vector<fs::path> places;
    if (const fs::path program = platform::program_path(); !program.empty())
        places.push_back(program.parent_path().parent_path() / VKFORMER_MODELS_INSTALL_DIR / file);
    places.push_back(utf8_path(VKFORMER_MODELS_SOURCE_DIR) / file);
    std::error_code ignored;
    for (const fs::path& place : places)
        if (fs::exists(place, ignored)) return place;
    return Error{ErrorCode::FileNotFound,
                 "the shipped model is not at " + places.front().string() + "; say --model MODEL"};
}

namespace {

std::string hex(const char* format, unsigned number) {
    char text[16];
    std::snprintf(text, sizeof text, format, number);
    return text;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string shown;
    while (!text.empty()) {
        const std::size_t length = std::min(text::sequence_length(text[0]), text.size());
        const std::string_view spelled = text.substr(0, length);
        if (!text::is_utf8(spelled)) {
            shown += hex("\\x%02x", static_cast<unsigned char>(text[0]));
            text.remove_prefix(1);
            continue;
        }
        const char32_t code = text::first_character(spelled).code;
        const bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
        if (is_control && code != '\n' && code != '\t')
            shown += hex("\\u%04x", static_cast<unsigned>(code));  // as in JSON, which stays JSON
        else
            shown += spelled;
        text.remove_prefix(length);
    }
    return shown;
}

void print_error(const std::string& message) {
    constexpr std::size_t kMostBytes = 4000;
    std::string_view kept = std::string_view(message).substr(0, kMostBytes);
    if (message.size() > kMostBytes) kept.remove_suffix(text::incomplete_end(kept));
    std::string shown = printable(kept);
    if (message.size() > kMostBytes) shown += "… (" + std::to_string(message.size()) + " bytes in all)";
    std::fprintf(stderr, "vkformer: error: %s\n", shown.c_str());
}

Result<void> print(const std::string& text) {
    const std::string& written = platform::is_terminal(platform::Stream::output) ? printable(text) : text;
    if (std::fwrite(written.data(), 1, written.size(), stdout) == written.size() && std::fflush(stdout) == 0) return {};
    return Error{ErrorCode::InvalidArgument, std::string("cannot write to standard output: ") + std::strerror(errno)};
}

Result<void> print_json(const nlohmann::json& document) {
    return print(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void warn_of_cache_folder() {
    const auto warn = [](const std::string& what) {
        std::fprintf(stderr, "vkformer: nothing is kept for the next run, which will measure anew: %s\n",
                     printable(what).c_str());
    };
    const std::filesystem::path folder = platform::cache_folder();
    if (folder.empty()) return warn(platform::kFolderAdvice);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!error && !platform::may_write(folder)) error.assign(errno, std::generic_category());
    if (error) warn("cannot write to " + folder.string() + ": " + error.message());
}

void show_progress(const std::string& text) {
    if (!platform::is_terminal(platform::Stream::error)) return;
    constexpr std::size_t kColumns = 118;
    std::string line = text.empty() ? text : "vkformer: " + text;
    line.resize(kColumns, ' ');
    std::fprintf(stderr, "\r%s%s", line.c_str(), text.empty() ? "\r" : "");
}

std::string command_line() {
    std::string text;
    for (const std::string& word : platform::command_line())
        text += text.empty() ? utf8_path(word).filename().string() : " " + word;
    return text;
}

}  // namespace vkformer::cli
