// SPDX-License-Identifier: MIT
#include "models/adapter.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/try.hpp"
#include "formats/safetensors.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Gguf;
using std::filesystem::path;

constexpr double kMostAlpha = 1e6;

/// What cannot be looked at is not there.
bool is_there(const path& where) {
    std::error_code ignored;
    return std::filesystem::exists(where, ignored);
}

/// Of names of tensors behind the weight's, down and up.
using Ends = std::array<std::string_view, 2>;

/// Both halves of each update by their names, of products and, where there are such, of tables. Each tensor has to be one of them, or a weight
/// of the model that is repeated, which ends with `repeated_end`; empty: none is.
Result<Adapter> read_updates(const formats::Weights& weights, std::string_view begin, const Ends& product_ends,
                             std::string_view weight_end, const Ends& table_ends = {},
                             std::string_view repeated_end = {}) {
    const WeightReader read(weights, "");
    Adapter adapter;
    adapter.source = weights.source();
    const auto matrix = [&](const std::string& name) -> Result<TensorData> {
        VKFORMER_TRY(const TensorData data, weights.get(name));
        if (data.shape.rank() != 2)
            return Error{ErrorCode::ShapeMismatch, weights.source() + ": " + name + " has shape " +
                                                       to_string(data.shape) + ", expected a matrix"};
        return read.tensor(name, data.shape);
    };
    for (const std::string_view name : weights.names()) {
        if (name.starts_with(begin) && !repeated_end.empty() && name.ends_with(repeated_end)) {
            const std::string_view module = name.substr(begin.size(), name.size() - begin.size() - repeated_end.size());
            VKFORMER_TRY(adapter.repeated[std::string(module) + std::string(weight_end)], weights.get(name));
            continue;
        }
        const bool is_table =
            !table_ends[0].empty() && (name.ends_with(table_ends[0]) || name.ends_with(table_ends[1]));
        const Ends& ends = is_table ? table_ends : product_ends;
        const bool is_up = name.ends_with(ends[1]);
        if (!name.starts_with(begin) || !(is_up || name.ends_with(ends[0])))
            return Error{ErrorCode::UnsupportedConfig,
                         weights.source() + ": " + std::string(name) + " is no part of a low-rank adapter (" +
                             std::string(begin) + "…" + std::string(ends[0]) + ", …" + std::string(ends[1]) +
                             "); only those are supported, without biases, magnitudes or whole modules"};
        const std::string_view end = ends[is_up ? 1 : 0];
        const std::string whole(name.substr(0, name.size() - end.size()));
        Adapter::Update& update = adapter.updates[whole.substr(begin.size()) + std::string(weight_end)];
        if (is_up) continue;  // read with the other one, without which there is an error below
        if (!update.down.bytes.empty())
            return Error{ErrorCode::UnsupportedConfig,
                         weights.source() + ": the adapter changes " + whole + " as a product and as a table"};
        update.is_table = is_table;
        VKFORMER_TRY(update.down, matrix(whole + std::string(ends[0])));
        VKFORMER_TRY(update.up, matrix(whole + std::string(ends[1])));
    }
    for (const auto& [name, update] : adapter.updates) {
        if (update.down.bytes.empty())
            return Error{ErrorCode::MissingTensor,
                         weights.source() + ": of the two matrices that change " + name + " one is missing"};
        if (update.down.shape[0] != update.up.shape[1])
            return Error{ErrorCode::ShapeMismatch, weights.source() + ": the matrices that change " + name +
                                                       " have shapes " + to_string(update.down.shape) + " and " +
                                                       to_string(update.up.shape) + ", which have no rank in common"};
    }
    if (adapter.updates.empty())
        return Error{ErrorCode::MissingTensor, weights.source() + ": the adapter has no tensors"};
    return adapter;
}

// ---- PEFT's folders -------------------------------------------------------------------------------------------------

constexpr std::string_view kConfigFile = "adapter_config.json", kWeightsFile = "adapter_model.safetensors";

/// Fields of PEFT's LoraConfig (0.18) that say how an adapter is made, or what its tensors' names say already.
constexpr auto kHarmlessFields = std::to_array<std::string_view>({"auto_mapping",
                                                                  "base_model_name_or_path",
                                                                  "corda_config",
                                                                  "eva_config",
                                                                  "exclude_modules",
                                                                  "fan_in_fan_out",
                                                                  "inference_mode",
                                                                  "layers_pattern",
                                                                  "layers_to_transform",
                                                                  "loftq_config",
                                                                  "lora_dropout",
                                                                  "lora_ga_config",
                                                                  "megatron_config",
                                                                  "megatron_core",
                                                                  "peft_version",
                                                                  "qalora_group_size",
                                                                  "revision",
                                                                  "runtime_config",
                                                                  "target_modules",
                                                                  "task_type"});
/// What is read here.
constexpr auto kReadFields = std::to_array<std::string_view>(
    {"alpha_pattern", "bias", "init_lora_weights", "lora_alpha", "peft_type", "r", "rank_pattern", "use_rslora"});
/// Fields that change the arithmetic: they have to be as if they were not there.
constexpr auto kSwitches =
    std::to_array<std::string_view>({"ensure_weight_tying", "lora_bias", "use_bdlora", "use_dora", "use_qalora"});

/// Switches that are on, and fields that are not known, as those are that only the adapters have which need them.
Result<void> refuse_further_fields(const Config& config) {
    std::vector<std::string_view> known(kHarmlessFields.begin(), kHarmlessFields.end());
    known.insert(known.end(), kReadFields.begin(), kReadFields.end());
    for (const std::string& name : config.unknown_names(known)) {
        const bool is_switch = std::ranges::count(kSwitches, name) > 0;
        const auto value = config.boolean(name, false);
        if (value && !*value) continue;
        if (is_switch && !value) return value.error();
        if (const auto list = config.strings(name); list && list->empty()) continue;
        if (const auto object = config.object(name); object && object->is_empty()) continue;
        return config.unsupported(name, is_switch ? "false" : "no such field, or nothing in it");
    }
    return {};
}

/// PEFT's other beginnings change the model's weights, which those that are loaded here are not.
Result<void> check_beginning(const Config& config) {
    if (!config.has("init_lora_weights") || config.boolean("init_lora_weights")) return {};
    VKFORMER_TRY(const std::string beginning, config.string("init_lora_weights"));
    std::string small = beginning;
    for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (small == "gaussian" || beginning == "eva" || beginning == "orthogonal") return {};
    return config.unsupported(
        "init_lora_weights",
        "true, false, gaussian, eva, orthogonal; of others, pissa, olora, corda and loftq change the "
        "model's own weights: save the adapter with PEFT's "
        "path_initial_model_for_weight_conversion");
}

/// Whether PEFT applies a pattern's entry to a module: its whole name or the end of it behind a dot. An expression that is more than a
/// name gives nothing.
std::optional<bool> names_module(std::string_view pattern, std::string_view module) {
    const bool is_name = std::ranges::all_of(pattern, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    });
    if (!is_name) return std::nullopt;
    if (!module.ends_with(pattern)) return false;
    const std::size_t before = module.size() - pattern.size();
    return before == 0 || module[before - 1] == '.';
}

/// α of a module. Errors: also UnsupportedConfig (an expression; two entries for a module that say different things, of which PEFT takes the
/// first in the file).
Result<double> alpha_of(const Config& patterns, double usual, std::string_view module) {
    std::optional<double> own;
    for (const std::string& pattern : patterns.names()) {
        const auto found = names_module(pattern, module);
        if (!found) return patterns.unsupported(pattern, "names of modules or ends of them, no expressions");
        if (!*found) continue;
        VKFORMER_TRY(const double alpha, patterns.real(pattern, {.min = -kMostAlpha, .max = kMostAlpha}));
        if (own && *own != alpha)
            return patterns.unsupported(pattern, "one number for " + std::string(module) + ", which others name too");
        own = alpha;
    }
    return own.value_or(usual);
}

Result<Adapter> open_folder(const path& folder) {
    VKFORMER_TRY(const Config config, Config::open(folder / kConfigFile));
    VKFORMER_TRY(const std::string type, config.string("peft_type"));
    if (type != "LORA") return config.unsupported("peft_type", "LORA");
    VKFORMER_TRY(const std::string bias, config.string("bias", "none"));
    if (bias != "none") return config.unsupported("bias", "none");
    VKFORMER_CHECK(check_beginning(config));
    VKFORMER_CHECK(refuse_further_fields(config));
    VKFORMER_TRY(const double alpha, config.real("lora_alpha", {.min = -kMostAlpha, .max = kMostAlpha}));
    VKFORMER_TRY(const bool by_root, config.boolean("use_rslora", false));
    VKFORMER_TRY(const Config patterns, config.object("alpha_pattern"));

    if (!is_there(folder / kWeightsFile) && is_there(folder / "adapter_model.bin"))
        return Error{ErrorCode::FileNotFound,
                     folder.string() +
                         " has an adapter_model.bin, which runs code when it is read; save the adapter "
                         "again as " +
                         std::string(kWeightsFile) + " (PEFT's save_pretrained does)"};
    VKFORMER_TRY(auto file, formats::Safetensors::open(folder / kWeightsFile));
    const formats::Weights weights((folder / kWeightsFile).string(), std::move(file).tensors());
    VKFORMER_TRY(Adapter adapter,
                 read_updates(weights, "base_model.model.", {".lora_A.weight", ".lora_B.weight"}, ".weight",
                              {".lora_embedding_A", ".lora_embedding_B"}, ".base_layer.weight"));
    for (auto& [weight, update] : adapter.updates) {
        const std::string_view module = std::string_view(weight).substr(0, weight.rfind('.'));
        VKFORMER_TRY(const double own, alpha_of(patterns, alpha, module));
        const auto rank = static_cast<double>(update.down.shape[0]);
        update.scale = static_cast<float>(own / (by_root ? std::sqrt(rank) : rank));
    }
    return adapter;
}

// ---- GGUF -----------------------------------------------------------------------------------------------------------

Result<Adapter> open_file(const path& file_path) {
    VKFORMER_TRY(const Gguf file, Gguf::open(file_path));
    VKFORMER_TRY(const std::string type, file.string("general.type", "model"));
    if (type != "adapter") return file.unsupported("general.type", "adapter, for this is to be one");
    VKFORMER_TRY(const std::string kind, file.string("adapter.type"));
    if (kind != "lora") return file.unsupported("adapter.type", "lora");
    constexpr auto kKnown = std::to_array<std::string_view>(
        {"adapter.type", "adapter.lora.alpha", "adapter.lora.task_name", "adapter.lora.prompt_prefix"});
    for (const formats::GgufValue& value : file.values())  // of aLoRA, say, which counts from some token on
        if (value.key.starts_with("adapter.") && std::ranges::find(kKnown, value.key) == kKnown.end())
            return file.unsupported(value.key, "no such key: an adapter counts for all tokens, as it is");
    VKFORMER_TRY(const double alpha,
                 file.real("adapter.lora.alpha", {.fallback = 0, .min = -kMostAlpha, .max = kMostAlpha}));
    VKFORMER_TRY(Adapter adapter, read_updates(file.weights(), "", {".lora_a", ".lora_b"}, ""));
    VKFORMER_TRY(adapter.architecture, file.string("general.architecture"));
    adapter.is_file = true;
    for (auto& [weight, update] : adapter.updates)
        update.scale = alpha == 0 ? 1 : static_cast<float>(alpha / static_cast<double>(update.down.shape[0]));
    return adapter;
}

}  // namespace

Result<Adapter> open_adapter(const path& where) {
    if (formats::is_file(where)) return open_file(where);
    if (is_there(where / kConfigFile)) return open_folder(where);
    return Error{ErrorCode::FileNotFound, where.string() + " is no adapter: expected a folder with " +
                                              std::string(kConfigFile) + " and " + std::string(kWeightsFile) +
                                              ", or a GGUF file"};
}

}  // namespace vkformer::models
