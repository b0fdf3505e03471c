// SPDX-License-Identifier: MIT
#include "models/gguf_export.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/try.hpp"
#include "models/gguf_dtypes.hpp"
#include "models/gguf_export_keys.hpp"
#include "models/gguf_export_layers.hpp"
#include "models/gguf_vocabulary.hpp"
#include "models/open_model.hpp"
#include "text/unicode.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::OutputTensor;

void set_file_type(GgufContents& contents, DType dtype) {
    contents.metadata.set("general.file_type", gguf_file_type(dtype));
    contents.metadata.set("general.quantization_version", std::uint32_t{2});
}

/// Empty where it has none that a GGUF file can say.
std::string name_of_folder(const std::filesystem::path& folder) {
    std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // "model/" and "."
    std::string name = path.filename().string();
    return text::is_utf8(name) ? name : std::string();
}

/// What a folder holds besides the language model.
Result<void> add_notes(const std::filesystem::path& folder, const GgufSourceModel& model,
                       std::vector<std::string>& notes) {
    const DecoderConfig& c = model.config;
    notes.insert(notes.end(), model.decoder.notes.begin(), model.decoder.notes.end());
    VKFORMER_TRY(const auto weights, formats::open_weights(folder));
    const auto has = [&](std::initializer_list<std::string_view> words) {
        return std::ranges::any_of(weights.names(), [&](std::string_view name) {
            return std::ranges::any_of(words, [&](std::string_view word) { return name.find(word) != name.npos; });
        });
    };
    if (has({"vision_tower.", "multi_modal_projector.", "visual."}))
        notes.push_back("the vision tower is left out: the file is the language model alone");
    const std::string behind = "layers." + std::to_string(c.layers.size()) + ".";
    if (model.architecture.has_grouped_experts && has({behind}))
        notes.push_back("the layers that predict the token after the next one (from " + behind + " on) are left out");
    if (has({"mtp."})) notes.push_back("the layers that predict the token after the next one (mtp.) are left out");
    const bool is_other_exaone = model.is("exaone4") && c.layers.size() != 64;
    if (model.window() > 0 && (model.architecture.window_pattern == 1 || is_other_exaone))
        notes.push_back("the attention window of " + std::to_string(model.window()) +
                        " is written down, but llama.cpp does not heed it for this architecture" +
                        (is_other_exaone ? " but with 64 layers" : ""));
    const bool needs_experts = model.is("qwen2moe") || model.is("qwen3moe") || model.is("qwen3next");
    const bool lacks_some = !std::ranges::all_of(c.layers, &DecoderConfig::Layer::has_experts);
    const bool shares_keys = model.is("olmoe") && c.kv_heads != c.heads;
    const DecoderWeights::Layer& layer = model.decoder.weights().layers.front();
    const bool has_biases = model.is("seed_oss") && !(layer.output.bias.bytes.empty() && layer.up.bias.bytes.empty());
    if ((needs_experts && lacks_some) || shares_keys || has_biases)
        notes.push_back("llama.cpp loads no file of the architecture " + std::string(model.architecture.name) +
                        (shares_keys  ? " whose heads share keys"
                         : has_biases ? " with other biases than those of query, key and value"
                                      : " some of whose layers have no experts"));
    return {};
}

}  // namespace

Result<GgufContents> requantized(const formats::Gguf& file, DType dtype) {
    GgufContents contents;
    for (const formats::GgufValue& value : file.values())
        if (!value.key.starts_with("split.")) contents.metadata.set(value);
    set_file_type(contents, dtype);
    for (const formats::GgufTensor& tensor : file.tensors()) {
        if (!file.weights().has(tensor.name)) continue;  // scales of another tensor, which are in its values
        VKFORMER_TRY(auto source, file.weights().get(tensor.name));
        contents.tensors.push_back(
            {.name = std::string(tensor.name), .dtype = source.dtype, .source = std::move(source)});
    }
    VKFORMER_TRY(const std::string architecture, file.string("general.architecture", ""));
    if (architecture == formats::kBlockArchitecture)
        choose_folder_dtypes(contents.tensors, dtype, contents.notes);
    else
        choose_gguf_dtypes(contents.tensors, dtype, contents.notes);
    return contents;
}

Result<GgufContents> exported_to_gguf(const std::filesystem::path& folder, DType dtype) {
    VKFORMER_TRY(const auto json, Config::open(folder / "config.json"));
    VKFORMER_TRY(const GgufSource* const source, gguf_source_of(json));
    const bool sees = json.has("text_config");
    VKFORMER_TRY(const Config decoder_json, sees ? json.object("text_config") : Result<Config>(json));
    VKFORMER_TRY(const RopeSource rope, representable_rope(*source, decoder_json));
    VKFORMER_TRY(const auto vocab_size, decoder_json.unsigned_integer("vocab_size", {.min = 1}));
    GgufContents contents;
    contents.metadata.set("general.architecture", source->architecture.name);
    contents.metadata.set("general.type", "model");
    if (const std::string name = name_of_folder(folder); !name.empty()) contents.metadata.set("general.name", name);
    set_file_type(contents, dtype);
    VKFORMER_CHECK(add_gguf_vocabulary(folder, json, vocab_size, contents));

    // The model as vkformer runs it says what the folder's fields come to, and that it is whole.
    VKFORMER_TRY(const Decoder decoder, load_decoder(folder));
    const GgufArchitecture& architecture = gguf_architecture_of(*source, decoder.config());
    const GgufSourceModel model = {
        .source = *source, .architecture = architecture, .json = decoder_json, .rope = rope, .decoder = decoder};
    VKFORMER_CHECK(check_representable(model));
    VKFORMER_CHECK(set_metadata(model, contents.metadata));
    VKFORMER_CHECK(add_ropes(model, contents));
    VKFORMER_TRY(auto tensors, gguf_tensors(decoder, architecture, source->has_biases, folder.string()));
    std::ranges::move(tensors, std::back_inserter(contents.tensors));
    VKFORMER_CHECK(add_notes(folder, model, contents.notes));
    // gpt-oss's experts are what they were trained as.
    const bool keeps_mxfp4 = architecture.is_gpt_oss;
    choose_gguf_dtypes(contents.tensors, dtype, contents.notes,
                       keeps_mxfp4 ? std::optional(DType::mxfp4) : std::nullopt);
    return contents;
}

Result<std::vector<OutputTensor>> tensors_as_exported(const std::filesystem::path& folder, const Decoder& decoder) {
    VKFORMER_TRY(const auto json, Config::open(folder / "config.json"));
    VKFORMER_TRY(const GgufSource* const source, gguf_source_of(json));
    return gguf_tensors(decoder, gguf_architecture_of(*source, decoder.config()), source->has_biases, folder.string());
}

Result<void> weigh(GgufContents& contents, const formats::Importance& importance) {
    std::vector<std::string> without;
    bool has_any = false;
    for (formats::OutputTensor& tensor : contents.tensors) {
        // What is copied as it is, is not rounded.
        if (!is_quantized(tensor.dtype) || tensor.dtype == DType::q8_0 || tensor.dtype == tensor.source.dtype) continue;
        const auto found = importance.find(tensor.name);
        if (found == importance.end()) {
            without.push_back(tensor.name);
            continue;
        }
        has_any = true;
        tensor.importance = found->second;
        VKFORMER_CHECK(formats::check_output(tensor));
    }
    if (!has_any)
        return Error{
            ErrorCode::InvalidArgument,
            "the importance matrix has none of the matrices that are rounded to blocks of less than eight bits: "
            "it is of another model, or it is not needed"};
    if (!without.empty())
        contents.notes.push_back("no importance of the inputs of " + without.front() +
                                 (without.size() > 1 ? " and " + std::to_string(without.size() - 1) + " more" : "") +
                                 ": they count alike");
    return {};
}

}  // namespace vkformer::models
