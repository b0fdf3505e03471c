// SPDX-License-Identifier: MIT
/// vkformer convert: a model at another dtype or in another format.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/block_format.hpp"
#include "core/mapped_file.hpp"
#include "core/output_file.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "formats/gguf.hpp"
#include "formats/gguf_writer.hpp"
#include "formats/json.hpp"
#include "formats/safetensors.hpp"
#include "formats/weights.hpp"
#include "importance.hpp"
#include "line_reader.hpp"
#include "named_file.hpp"
#include "models/gguf_export.hpp"
#include "models/sentence.hpp"

namespace vkformer::cli {
namespace {

namespace fs = std::filesystem;
using formats::OutputTensor;

struct ConvertCommand {
    std::string source, destination;
    std::string dtype;
    std::string importance, importance_text;  // paths; empty: none
    DeviceOptions device;                     // for the text

    bool is_weighed() const noexcept { return !importance.empty() || !importance_text.empty(); }
};

/// However it is written: "MODEL.GGUF" is such a file, too.
bool has_ending(std::string path, std::string_view ending) {
    std::ranges::transform(path, path.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return path.ends_with(ending);
}

std::vector<DType> dtypes() {
    std::vector<DType> all = {DType::f32, DType::f16, DType::bf16};
    for (const DType format : kBlockFormats) all.push_back(format);
    return all;
}

DType dtype_of(const std::string& name) {
    const std::vector<DType> all = dtypes();
    return *std::ranges::find(all, std::string_view(name), [](DType dtype) { return to_string(dtype); });
}

formats::WriteProgress progress(const std::string& destination) {
    return [destination](std::uint64_t done, std::uint64_t total) {
        show_progress("writing " + destination + ", " + std::to_string(done * 100 / std::max<std::uint64_t>(total, 1)) +
                      " %");
    };
}

void say(const ConvertCommand& command, const std::string& text) {
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: %s\n", text.c_str());
}

Result<void> write(const ConvertCommand& command, const fs::path& path, const models::GgufContents& contents) {
    for (const std::string& note : contents.notes) say(command, note);
    auto written = formats::write_gguf(path, contents.metadata, contents.tensors, progress(path.string()));
    show_progress("");
    return written;
}

/// What the source's inputs are on the text.
Result<formats::Importance> measured(const ConvertCommand& command) {
    VKFORMER_CHECK(check_may_be_written(command.destination, {command.importance_text}));
    VKFORMER_TRY(std::string text, read_text(command.importance_text));
    VKFORMER_TRY(const auto found, importance_of_text(command.device, {.model = utf8_path(command.source),
                                                                       .text = std::move(text),
                                                                       .name = command.importance_text}));
    const std::string unmet = unmet_experts(found.sums);
    if (!unmet.empty()) say(command, "no token came to " + unmet + ": their inputs count alike");
    return means_of(found.sums);
}

/// Where an importance matrix was named, or a text to make it of, blocks are made by it.
Result<void> write_weighed(const ConvertCommand& command, models::GgufContents contents) {
    if (command.is_weighed()) {
        VKFORMER_TRY(const auto importance, command.importance.empty()
                                                ? measured(command)
                                                : formats::read_importance(utf8_path(command.importance)));
        VKFORMER_CHECK(models::weigh(contents, importance));
    }
    return write(command, utf8_path(command.destination), contents);
}

// ---- safetensors

Result<std::vector<OutputTensor>> converted(const formats::TensorMap& tensors, DType dtype) {
    std::vector<OutputTensor> output;
    for (const auto& [name, data] : tensors) {
        const bool is_real = is_float(data.dtype) || is_quantized(data.dtype);
        output.push_back({.name = name, .dtype = is_real ? dtype : data.dtype, .source = data});
    }
    return output;
}

Result<void> write_safetensors(const fs::path& path, const formats::TensorMap& tensors, DType dtype) {
    VKFORMER_TRY(const auto output, converted(tensors, dtype));
    auto written = formats::write_safetensors(path, output, {{"format", "pt"}}, progress(path.string()));
    show_progress("");
    return written;
}

/// Scales of packed weights would be rounded. MXFP4 of gpt-oss has none that are floats. Errors: UnsupportedConfig.
Result<void> refuse_packed(const fs::path& folder) {
    VKFORMER_TRY(const auto config, formats::Config::open_if_present(folder / "config.json"));
    VKFORMER_TRY(const auto quantization, config.object("quantization_config"));
    if (quantization.is_empty()) return {};
    VKFORMER_TRY(const std::string method, quantization.string("quant_method", "by no method that is named"));
    if (method == "mxfp4") return {};
    return Error{ErrorCode::UnsupportedConfig,
                 "the weights are packed (" + method + "): they can be written as a .gguf file, or stay as they are"};
}

/// What belongs to the weights themselves, in the old form.
bool is_weights_file(const fs::path& path) {
    const std::string name = path.filename().string();
    return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") || name.ends_with(".bin") ||
           name.ends_with(".bin.index.json") || name.ends_with(".gguf");
}

Error cannot_write(const fs::path& path, const std::error_code& error) {
    return {ErrorCode::FileNotFound, "cannot write " + path.string() + ": " + error.message()};
}

Error cannot_read(const fs::path& path, const std::error_code& error) {
    return {ErrorCode::FileNotFound, "cannot read " + path.string() + ": " + error.message()};
}

/// config.json names the dtype that the weights have now. Infinity stays as the source has it: older transformers read no {"__float__": …}.
Result<void> write_config(const fs::path& source, const fs::path& destination, DType dtype) {
    VKFORMER_TRY(nlohmann::json config, formats::read_python_json(source));
    const bool has_names{formats::read_json(source)};  // or none is infinite
    const char* name = dtype == DType::f32 ? "float32" : dtype == DType::f16 ? "float16" : "bfloat16";
    config[config.contains("dtype") ? "dtype" : "torch_dtype"] = name;
    std::string text = config.dump(2) + "\n";
    static const std::regex kNamed(R"re(\{\s*"__float__":\s*"(-?Infinity|NaN)"\s*\})re");
    if (!has_names) text = std::regex_replace(text, kNamed, "$1");
    return write_file(destination, std::as_bytes(std::span(text)));
}

Result<void> create_folder(const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return cannot_write(folder, error);
    return {};
}

/// Makes a folder that `fill` writes to. Of what is refused nothing is left, but of a folder that was there before.
Result<void> filled_folder(const fs::path& folder, auto&& fill) {
    std::error_code ignored;
    fs::path outermost;  // that is made here
    for (fs::path at = fs::weakly_canonical(folder / "", ignored).parent_path();
         !at.empty() && !fs::exists(fs::symlink_status(at, ignored)); at = at.parent_path())
        outermost = at;
    Result<void> filled = create_folder(folder);
    if (filled) filled = fill();
    if (!filled && !outermost.empty()) fs::remove_all(outermost, ignored);
    return filled;
}

Result<void> copy_contents(const fs::path& from, const fs::path& to) {
    VKFORMER_TRY(const auto file, MappedFile::open(from));
    return write_file(to, file->bytes());
}

/// A stage of a sentence model lies in a folder of its own, and stays as it is.
Result<void> copy_folder(const fs::path& source, const fs::path& destination) {
    VKFORMER_CHECK(create_folder(destination));
    std::error_code error;
    const fs::directory_iterator files(source, error);
    if (error) return cannot_read(source, error);
    for (const auto& entry : files)
        if (entry.is_regular_file(error))
            VKFORMER_CHECK(copy_contents(entry.path(), destination / entry.path().filename()));
    return {};
}

/// "a, b": of what lies in the folder and `is_left`; hidden files are passed over.
std::string names_of(const fs::path& folder, const auto& is_left) {
    std::set<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
        if (const std::string name = entry.path().filename().string(); !name.starts_with('.') && is_left(entry))
            names.insert(name);
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

/// What the model is besides its weights.
Result<void> copy_other_files(const ConvertCommand& command, const fs::path& source, const fs::path& destination) {
    constexpr const char* kTemplates = "additional_chat_templates";
    const DType dtype = dtype_of(command.dtype);
    std::error_code error;
    VKFORMER_TRY(auto folders, models::stage_folders(source));
    if (fs::is_directory(source / kTemplates, error)) folders.emplace_back(kTemplates);
    const std::string left = names_of(source, [&](const fs::directory_entry& entry) {
        return entry.is_directory(error) &&
               std::ranges::none_of(folders, [&](const fs::path& taken) { return taken == entry.path().filename(); });
    });
    if (!left.empty()) say(command, "folders that are no part of the model were not copied: " + left);
    const std::string strange = names_of(destination, [&](const fs::directory_entry& entry) {
        return entry.is_regular_file(error) && !is_weights_file(entry.path()) &&
               !fs::exists(source / entry.path().filename(), error);
    });
    if (!strange.empty())
        say(command, destination.string() + " has files that the source has not, which count for the model now: " +
                         strange + "; remove what is not its own");
    for (const fs::path& folder : folders) VKFORMER_CHECK(copy_folder(source / folder, destination / folder));
    const fs::directory_iterator files(source, error);
    if (error) return cannot_read(source, error);
    for (const auto& entry : files) {
        const fs::path to = destination / entry.path().filename();
        if (!entry.is_regular_file(error) || is_weights_file(entry.path())) {
            continue;
        } else if (entry.path().filename() == "config.json" && !is_quantized(dtype)) {
            VKFORMER_CHECK(write_config(entry.path(), to, dtype));
        } else {
            VKFORMER_CHECK(copy_contents(entry.path(), to));
        }
    }
    return {};
}

/// A folder of matrices in block formats. One that has other weights already would be read in their place.
Result<int> to_blocks(const ConvertCommand& command, const fs::path& source) {
    const fs::path destination = utf8_path(command.destination);
    std::error_code ignored;
    for (const char* const other : {"model.safetensors", "model.safetensors.index.json"})
        if (fs::exists(destination / other, ignored))
            return Error{ErrorCode::InvalidArgument, (destination / other).string() +
                                                         " would be read in place of the new model.gguf: remove it, or "
                                                         "name another folder"};
    VKFORMER_CHECK(models::stage_folders(source));  // what is wrong there is said before anything is written
    VKFORMER_TRY(const auto contents, models::quantized_folder(source, dtype_of(command.dtype)));
    const auto fill = [&]() -> Result<void> {
        VKFORMER_CHECK(write(command, destination / formats::kBlockFile, contents));
        return copy_other_files(command, source, destination);
    };
    VKFORMER_CHECK(filled_folder(destination, fill));
    return kOk;
}

Result<int> to_safetensors(const ConvertCommand& command, const fs::path& source) {
    const DType dtype = dtype_of(command.dtype);
    const fs::path destination = utf8_path(command.destination);
    const bool is_file = has_ending(command.destination, ".safetensors");
    if (is_quantized(dtype) && is_file)
        return Error{
            ErrorCode::InvalidArgument,
            "safetensors hold no " + command.dtype +
                " blocks; name a .gguf file (of a language model) or a folder to write, or say f32, f16 or bf16"};
    if (!fs::is_directory(source)) {
        if (!is_file)
            return Error{ErrorCode::InvalidArgument,
                         "a .safetensors file becomes another one: name one that ends in .safetensors"};
        VKFORMER_TRY(const auto file, formats::Safetensors::open(source));
        VKFORMER_CHECK(write_safetensors(destination, file.tensors(), dtype));
        return kOk;
    }
    if (is_quantized(dtype)) return to_blocks(command, source);
    VKFORMER_CHECK(refuse_packed(source));
    VKFORMER_TRY(const auto weights, formats::open_weights(source));
    if (is_file) {
        VKFORMER_CHECK(write_safetensors(destination, weights.tensors(), dtype));
        return kOk;
    }
    VKFORMER_CHECK(models::stage_folders(source));
    const auto fill = [&]() -> Result<void> {
        VKFORMER_CHECK(write_safetensors(destination / "model.safetensors", weights.tensors(), dtype));
        return copy_other_files(command, source, destination);
    };
    VKFORMER_CHECK(filled_folder(destination, fill));
    return kOk;
}

/// A folder's regular files, those of its folders too, links resolved.
std::set<fs::path> files_in(const fs::path& folder) {
    std::set<fs::path> files;
    std::error_code error;
    for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
        if (std::error_code ignored; at->is_regular_file(ignored)) files.insert(fs::canonical(at->path(), ignored));
    return files;
}

/// What is read of the source: a folder's files, or a file; a part of a split one stands for all its parts.
std::set<fs::path> files_of(const fs::path& source) {
    static const std::regex kPart("(.*)-[0-9]{5}(-of-[0-9]{5}[.]gguf)");
    std::error_code ignored;
    if (fs::is_directory(source, ignored)) return files_in(source);
    std::set<fs::path> files = {fs::canonical(source, ignored)};
    std::smatch part, other;
    const std::string name = source.filename().string();
    if (!std::regex_match(name, part, kPart)) return files;
    for (const auto& entry : fs::directory_iterator(fs::absolute(source, ignored).parent_path(), ignored)) {
        const std::string of_entry = entry.path().filename().string();
        if (std::regex_match(of_entry, other, kPart) && other[1] == part[1] && other[2] == part[2])
            files.insert(fs::canonical(entry.path(), ignored));
    }
    return files;
}

/// The source is read while the destination is written. Errors: InvalidArgument (it would be written over, or into).
Result<void> check_apart(const fs::path& source, const fs::path& destination, bool is_one_file) {
    std::error_code ignored, error;
    if (fs::equivalent(source, destination, ignored))
        return Error{ErrorCode::InvalidArgument, "source and destination are the same"};
    const std::set<fs::path> read = files_of(source);
    const std::set<fs::path> there =
        is_one_file ? std::set{fs::canonical(destination, ignored)} : files_in(destination);
    for (const fs::path& file : there)
        if (read.contains(file))
            return Error{ErrorCode::InvalidArgument,
                         file.string() + " is the source's, and would be written over: name another destination"};
    if (is_one_file) return {};
    const fs::path inner = fs::weakly_canonical(fs::absolute(destination, error), error),
                   outer = fs::canonical(source, error);
    if (!error && fs::is_directory(outer, error) && std::ranges::mismatch(outer, inner).in1 == outer.end())
        return Error{ErrorCode::InvalidArgument, "the destination is in the source's folder: name one elsewhere"};
    return {};
}

Result<int> run(const ConvertCommand& command) {
    const fs::path source = utf8_path(command.source);
    std::error_code ignored;
    if (!fs::exists(source, ignored)) return Error{ErrorCode::FileNotFound, "there is no " + command.source};
    const bool to_gguf = has_ending(command.destination, ".gguf");
    const bool is_one_file = to_gguf || has_ending(command.destination, ".safetensors");
    VKFORMER_CHECK(check_apart(source, utf8_path(command.destination), is_one_file));
    if (command.is_weighed() && (!to_gguf || !is_quantized(dtype_of(command.dtype))))
        return Error{ErrorCode::InvalidArgument,
                     std::string(command.importance.empty() ? "--imatrix-text" : "--imatrix") +
                         " is for block formats in a .gguf file: name such a destination, and --dtype q4_k, say"};
    const bool is_folder = fs::is_directory(source, ignored);
    if (!is_folder && !has_ending(command.source, ".safetensors")) {
        if (!to_gguf)
            return Error{ErrorCode::InvalidArgument,
                         "a GGUF file becomes another GGUF file: name one that ends in .gguf"};
        VKFORMER_TRY(const auto file, formats::Gguf::open(source));
        VKFORMER_TRY(auto contents, models::requantized(file, dtype_of(command.dtype)));
        VKFORMER_CHECK(write_weighed(command, std::move(contents)));
        return kOk;
    }
    if (!to_gguf) return to_safetensors(command, source);
    if (!is_folder)
        return Error{ErrorCode::InvalidArgument,
                     "a GGUF file needs the configuration and the tokenizer: name the model's folder"};
    VKFORMER_TRY(auto contents, models::exported_to_gguf(source, dtype_of(command.dtype)));
    VKFORMER_CHECK(write_weighed(command, std::move(contents)));
    return kOk;
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
    auto options = std::make_shared<ConvertCommand>();
    CLI::App* command = app.add_subcommand("convert", "Write a model at another dtype or quantisation, or as GGUF");
    command->add_option("source", options->source, "A Hugging Face folder, a .safetensors file or a .gguf file")
        ->required();
    command
        ->add_option("destination", options->destination,
                     "A .gguf file, a .safetensors file, or (from a folder) a folder; written when it is complete")
        ->required();
    std::vector<std::string> names;
    for (const DType dtype : dtypes()) names.emplace_back(to_string(dtype));
    command
        ->add_option("--dtype", options->dtype,
                     "What matrices are stored as; in block formats, vectors and norms stay what they are")
        ->check(CLI::IsMember(names))
        ->required();
    auto* const importance =
        command
            ->add_option("--imatrix", options->importance,
                         "llama.cpp's importance matrix of the model (GGUF, or the older form): products err least on "
                         "what it was made of")
            ->type_name("FILE");
    auto* const text =
        command
            ->add_option("--imatrix-text", options->importance_text,
                         "A text that the source reads first: products err least on it (as with --imatrix and the file "
                         "that `vkformer imatrix` makes of it)")
            ->type_name("FILE")
            ->excludes(importance);
    options->device.add_device_name(*command)->needs(text);
    command->add_flag("-q,--quiet", options->device.quiet, "Do not say on standard error what is stored otherwise");
    command->footer(
        "Examples:\n"
        "  vkformer convert ./smollm2 smollm2-q8_0.gguf --dtype q8_0\n"
        "  vkformer convert smollm2-f16.gguf smollm2-q4_k.gguf --dtype q4_k --imatrix smollm2.imatrix.gguf\n"
        "  vkformer convert smollm2-f16.gguf smollm2-q3_k.gguf --dtype q3_k --imatrix-text texts.txt\n"
        "  vkformer convert ./opus-mt-en-de ./opus-mt-en-de-q8_0 --dtype q8_0\n"
        "  vkformer convert ./smollm2 ./smollm2-f16 --dtype f16");
    command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
