// SPDX-License-Identifier: MIT
/// vkformer inspect: what a model file or folder holds.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/mapped_file.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "formats/config.hpp"
#include "formats/gguf.hpp"
#include "formats/json.hpp"
#include "formats/safetensors.hpp"
#include "formats/weights.hpp"
#include "listing.hpp"
#include "named_file.hpp"

namespace vkformer::cli {
namespace {

using formats::Gguf;
using formats::GgufType;
using formats::GgufValue;
using nlohmann::ordered_json;

struct InspectCommand {
    std::string path;
    bool json = false;
    bool full = false;
};

template <class List>
ordered_json as_list(const List& elements) {
    ordered_json list = ordered_json::array();
    for (const auto& element : elements) list.push_back(element);
    return list;
}

ordered_json list_of(const Gguf& file, const GgufValue& value) {
    if (const auto texts = file.strings(value.key)) return as_list(*texts);
    if (const auto integers = file.integers(value.key)) return as_list(*integers);
    if (const auto floats = file.floats(value.key)) return as_list(*floats);
    return file.shown(value, 0);  // arrays of arrays
}

ordered_json value_of(const Gguf& file, const GgufValue& value) {
    if (value.type == GgufType::array) return list_of(file, value);
    if (auto text = file.string(value.key)) return *std::move(text);
    if (const auto flag = file.boolean(value.key)) return *flag;
    if (const auto number = file.integer(value.key)) return *number;
    const std::string shown = file.shown(value, 0);  // a number by its shortest digits
    return ordered_json::accept(shown) ? ordered_json::parse(shown) : ordered_json(shown);
}

std::string type_of(const GgufValue& value) {
    return value.type == GgufType::array ? "[" + std::string(to_string(value.element)) + "]"
                                         : std::string(to_string(value.type));
}

Listing list_of(const Gguf& file) {
    Listing listing;
    listing.title =
        "GGUF version " + std::to_string(file.version()) + ", alignment " + std::to_string(file.alignment());
    if (file.part_count() > 1) listing.title += ", " + std::to_string(file.part_count()) + " parts";
    for (const GgufValue& value : file.values())
        listing.values.push_back({std::string(value.key), type_of(value), value_of(file, value)});
    for (const formats::GgufTensor& tensor : file.tensors())
        listing.tensors.push_back({std::string(tensor.name), std::string(formats::ggml_type_name(tensor.type)),
                                   tensor.shape, tensor.bytes.size()});
    return listing;
}

void append_tensors(const formats::TensorMap& tensors, Listing& listing) {
    for (const auto& [name, data] : tensors)
        listing.tensors.push_back({name, std::string(to_string(data.dtype)), data.shape, data.bytes.size()});
}

Listing list_of(const formats::Safetensors& file) {
    Listing listing{.title = "safetensors"};
    for (const auto& [key, text] : file.metadata()) listing.values.push_back({key, "string", text});
    append_tensors(file.tensors(), listing);
    return listing;
}

Result<Listing> list_folder(const std::filesystem::path& folder) {
    Listing listing{.title = "Hugging Face folder"};
    std::error_code ignored;
    if (!std::filesystem::exists(folder / "config.json", ignored))
        return Error{ErrorCode::FileNotFound, folder.string() +
                                                  " has no config.json; give a Hugging Face folder (with config.json "
                                                  "and weights), a GGUF file or a .safetensors file"};
    VKFORMER_TRY(const auto config, formats::read_python_json(folder / "config.json"));
    for (const auto& [key, value] : config.items()) listing.values.push_back({key, value.type_name(), value});
    VKFORMER_TRY(const auto weights, formats::open_weights(folder));
    append_tensors(weights.tensors(), listing);
    return listing;
}

/// A pipe, whose name says nothing: a GGUF file by how it begins, or a .safetensors file.
Result<Listing> list_stream(const std::string& path) {
    VKFORMER_TRY(const auto input, MappedFile::read(utf8_path(path)));
    const auto bytes = input->bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.starts_with("GGUF")) {
        VKFORMER_TRY(const auto file, Gguf::parse(bytes, input, path));
        return list_of(file);
    }
    VKFORMER_TRY(const auto file, formats::Safetensors::parse(bytes, input, path));
    return list_of(file);
}

Result<Listing> list(const std::string& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(utf8_path(path), ignored)) return list_folder(utf8_path(path));
    if (is_stream(path)) return list_stream(path);
    if (path.ends_with(".safetensors")) {
        VKFORMER_TRY(const auto file, formats::Safetensors::open(utf8_path(path)));
        return list_of(file);
    }
    VKFORMER_TRY(const auto file, Gguf::open(utf8_path(path)));
    return list_of(file);
}

Result<int> run(const InspectCommand& command) {
    VKFORMER_TRY(const Listing listing, list(command.path));
    const std::size_t max_elements = command.full ? SIZE_MAX : 8;
    VKFORMER_CHECK(print(command.json ? as_json(listing, command.path, max_elements)
                                      : as_text(listing, command.path, max_elements)));
    return kOk;
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
    auto options = std::make_shared<InspectCommand>();
    CLI::App* command = app.add_subcommand("inspect", "Show the metadata and tensors of a model file or folder");
    command
        ->add_option("path", options->path, "A .gguf file (of a split one any part), a .safetensors file, or a folder")
        ->required();
    command->add_flag("--json", options->json, "As JSON, for scripts");
    command->add_flag("--full", options->full, "Lists and texts in full length");
    command->footer(
        "Examples:\n"
        "  vkformer inspect model.gguf\n"
        "  vkformer inspect ./smollm2 --json");
    command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
