// SPDX-License-Identifier: MIT
#include "models/adapter.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/ceil_div.hpp"
#include "core/try.hpp"
#include "formats/safetensors.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Gguf;
using std::filesystem::path;

constexpr double kMostAlpha = 1e6;

/// Both halves of each update by their names: `ends` are those of a tensor's name behind the weight's, down and up. Each tensor has to be one
/// of them, or a weight of the model that is repeated, which ends with `repeated_end`; empty: none is.
Result<Adapter> read_updates(const formats::Weights& weights, std::string_view begin,
                             const std::array<std::string_view, 2>& ends, std::string_view weight_end,
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
        const bool is_up = name.ends_with(ends[1]);
        if (!name.starts_with(begin) || !(is_up || name.ends_with(ends[0])))
            return Error{ErrorCode::UnsupportedConfig,
                         weights.source() + ": " + std::string(name) + " is no part of a low-rank adapter (" +
                             std::string(begin) + "…" + std::string(ends[0]) + ", …" + std::string(ends[1]) +
                             "); only those are supported, without biases, magnitudes, embeddings or whole modules"};
        const std::string_view end = ends[is_up ? 1 : 0];
        const std::string whole(name.substr(0, name.size() - end.size()));
        Adapter::Update& update = adapter.updates[whole.substr(begin.size()) + std::string(weight_end)];
        if (is_up) continue;  // read with the other one, without which there is an error below
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
        if (const auto object = config.object(name); object && object->names().empty()) continue;
        return config.unsupported(name, is_switch ? "false" : "no such field, or nothing in it");
    }
    return {};
}

/// PEFT's other beginnings change the model's weights, which those that are loaded here are not.
Result<void> check_beginning(const Config& config) {
    if (!config.has("init_lora_weights") || config.boolean("init_lora_weights")) return {};
    VKFORMER_TRY(const std::string beginning, config.string("init_lora_weights"));
    if (beginning == "gaussian" || beginning == "eva") return {};
    return config.unsupported("init_lora_weights",
                              "true, false, gaussian, eva; others change the model's own weights: convert the adapter "
                              "with PEFT (save_pretrained with path_initial_model_for_weight_conversion)");
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
    const std::string name = (folder / kConfigFile).string();
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

    if (!std::filesystem::exists(folder / kWeightsFile) && std::filesystem::exists(folder / "adapter_model.bin"))
        return Error{ErrorCode::FileNotFound,
                     folder.string() +
                         " has an adapter_model.bin, which runs code when it is read; save the adapter "
                         "again as " +
                         std::string(kWeightsFile) + " (PEFT's save_pretrained does)"};
    VKFORMER_TRY(auto file, formats::Safetensors::open(folder / kWeightsFile));
    const formats::Weights weights((folder / kWeightsFile).string(), std::move(file).tensors());
    VKFORMER_TRY(Adapter adapter, read_updates(weights, "base_model.model.", {".lora_A.weight", ".lora_B.weight"},
                                               ".weight", ".base_layer.weight"));
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
    const std::string_view invocation = "adapter.alora.invocation_tokens";
    if (file.has(invocation)) return file.unsupported(invocation, "no such key: an adapter counts for all tokens");
    VKFORMER_TRY(const double alpha,
                 file.real("adapter.lora.alpha", {.fallback = 0, .min = -kMostAlpha, .max = kMostAlpha}));
    VKFORMER_TRY(Adapter adapter, read_updates(file.weights(), "", {".lora_a", ".lora_b"}, ""));
    VKFORMER_TRY(adapter.architecture, file.string("general.architecture"));
    adapter.is_file = true;
    for (auto& [weight, update] : adapter.updates)
        update.scale = alpha == 0 ? 1 : static_cast<float>(alpha / static_cast<double>(update.down.shape[0]));
    return adapter;
}

// ---- beside the weights ---------------------------------------------------------------------------------------------

/// Columns in multiples of this: what products like.
constexpr std::uint32_t kColumnsMultiple = 16;

using Group = std::vector<Projection*>;

/// Weights of a layer that are multiplied with the same input, some of them together.
std::vector<Group> groups_of(DecoderWeights::Layer& layer) {
    return {{&layer.query, &layer.key, &layer.value}, {&layer.mixed_gate},      {&layer.output}, {&layer.state.input},
            {&layer.state.beta, &layer.state.step},   {&layer.gate, &layer.up}, {&layer.down}};
}

class Fitting {
public:
    Fitting(const std::vector<Adapter>& adapters, DecoderWeights& weights) : adapters_(adapters), weights_(weights) {}

    Result<void> run() {
        std::uint64_t columns = 0;
        for (const Adapter& adapter : adapters_) {
            std::uint64_t rank = 0;
            for (const auto& [name, update] : adapter.updates) rank = std::max(rank, update.down.shape[0]);
            weights_.adapter_ranks.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(rank, 1u << 30)));
            first_columns_.push_back(columns);
            columns += rank;
            if (columns > kMostAdapterColumns)
                return Error{ErrorCode::UnsupportedConfig, adapter.source + ": with this adapter the ranks are " +
                                                               std::to_string(columns) + " together, at most " +
                                                               std::to_string(kMostAdapterColumns) +
                                                               " are supported; load fewer adapters at a time"};
        }
        weights_.adapter_columns = static_cast<std::uint32_t>(ceil_div(columns, kColumnsMultiple) * kColumnsMultiple);
        fitted_rows_.resize(adapters_.size());
        for (DecoderWeights::Layer& layer : weights_.layers)
            for (const Group& group : groups_of(layer)) VKFORMER_CHECK(fit(group));
        VKFORMER_CHECK(fit({&weights_.lm_head}));
        VKFORMER_CHECK(check_all_fitted());
        return check_repeated();
    }

private:
    const Adapter::Update* find(std::size_t adapter, const Projection& projection) const {
        const auto& updates = adapters_[adapter].updates;
        const auto found = updates.find(projection.origin.tensor);
        return found == updates.end() ? nullptr : &found->second;
    }

    bool is_changed(const Projection& projection) const {
        for (std::size_t a = 0; a < adapters_.size(); ++a)
            if (projection && find(a, projection)) return true;
        return false;
    }

    static Result<void> check_shapes(const Adapter& adapter, const Adapter::Update& update,
                                     const Projection& projection) {
        const std::uint64_t in = projection.weight.shape.back(), out = projection.origin.rows;
        if (update.down.shape[1] == in && update.up.shape[0] == out) return {};
        return Error{ErrorCode::ShapeMismatch,
                     adapter.source + ": the matrices that change " + projection.origin.tensor + " have shapes " +
                         to_string(update.down.shape) + " and " + to_string(update.up.shape) +
                         ", the model's weight has " + to_string(Shape{out, in}) + ": the adapter is of another model"};
    }

    static TensorData tensor_of(std::vector<float> values, const Shape& shape) {
        const auto kept = std::make_shared<const std::vector<float>>(std::move(values));
        return {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*kept)), .owner = kept};
    }

    /// Each weight of the group that something changes has columns of its own, all of which each of them has: the others' are zeros.
    Result<void> fit(const Group& group) {
        const auto changed = static_cast<std::uint64_t>(
            std::ranges::count_if(group, [&](const Projection* part) { return is_changed(*part); }));
        if (changed == 0) return {};
        const std::uint64_t columns = changed * weights_.adapter_columns;
        std::uint64_t in = 0;
        for (const Projection* const part : group)
            if (*part) in = part->weight.shape.back();
        std::vector<float> down(columns * in, 0.0f);
        std::uint64_t first = 0;
        for (Projection* const part : group) {
            if (!*part) continue;
            const std::uint64_t out = part->weight.shape[0];
            std::vector<float> up(out * columns, 0.0f);
            for (std::size_t a = 0; a < adapters_.size(); ++a) {
                const Adapter::Update* const update = find(a, *part);
                if (!update) continue;
                VKFORMER_CHECK(check_shapes(adapters_[a], *update, *part));
                const std::uint64_t column = first + first_columns_[a];
                VKFORMER_TRY(const std::vector<float> below, floats_of(update->down));
                std::ranges::copy(below, down.begin() + static_cast<std::ptrdiff_t>(column * in));
                VKFORMER_CHECK(place_up(*update, part->origin, column, columns, up));
                for (const RowRange& range : part->origin.ranges) fitted_rows_[a][part->origin.tensor] += range.count;
            }
            if (is_changed(*part)) first += weights_.adapter_columns;
            part->adapters.up = tensor_of(std::move(up), {out, columns});
        }
        const TensorData shared = tensor_of(std::move(down), {columns, in});
        for (Projection* const part : group)
            if (*part) part->adapters.down = shared;
        return {};
    }

    /// The rows that the weight has of the tensor, times the adapter's scale.
    static Result<void> place_up(const Adapter::Update& update, const Origin& origin, std::uint64_t column,
                                 std::uint64_t columns, std::vector<float>& up) {
        const std::uint64_t rank = update.down.shape[0];
        VKFORMER_TRY(const std::vector<float> values, floats_of(update.up));
        std::uint64_t to = 0;
        for (const RowRange& range : origin.ranges)
            for (std::uint64_t row = range.first; row < range.first + range.count; ++row, ++to)
                for (std::uint64_t k = 0; k < rank; ++k)
                    up[to * columns + column + k] = update.scale * values[row * rank + k];
        return {};
    }

    /// Nothing that an adapter changes may be left as it is.
    Result<void> check_all_fitted() const {
        for (std::size_t a = 0; a < adapters_.size(); ++a)
            for (const auto& [name, update] : adapters_[a].updates) {
                const auto found = fitted_rows_[a].find(name);
                if (found != fitted_rows_[a].end() && found->second == update.up.shape[0]) continue;
                return Error{ErrorCode::UnsupportedConfig,
                             adapters_[a].source + ": the adapter changes " + name +
                                 ", which is no weight of this model that takes adapters: those of attention, of "
                                 "layers with a state, of feed-forward layers that all tokens go through, and the "
                                 "head; not experts, routers and embeddings"};
            }
        return {};
    }

    /// The model's weight of that name, where it is one as a whole.
    const Projection* find_whole(std::string_view tensor) {
        std::vector<Group> groups = {{&weights_.lm_head}};
        for (DecoderWeights::Layer& layer : weights_.layers)
            for (Group& group : groups_of(layer)) groups.push_back(std::move(group));
        for (const Group& group : groups)
            for (const Projection* const part : group)
                if (*part && part->origin.tensor == tensor && part->weight.shape[0] == part->origin.rows) return part;
        return nullptr;
    }

    /// What an adapter repeats has to be what the model has.
    Result<void> check_repeated() {
        for (const Adapter& adapter : adapters_)
            for (const auto& [name, repeated] : adapter.repeated) {
                const Projection* const own = find_whole(name);
                bool is_same = own && own->weight.shape == repeated.shape;
                if (is_same) {
                    VKFORMER_TRY(const std::vector<float> expected, floats_of(own->weight));
                    VKFORMER_TRY(const std::vector<float> found, floats_of(repeated));
                    is_same = expected == found;
                }
                if (!is_same)
                    return Error{
                        ErrorCode::UnsupportedConfig,
                        adapter.source + ": " + name +
                            " is in the adapter's file as a whole and differs from the model's: it was trained "
                            "itself, or is another model's, and whole weights are not taken from adapters"};
            }
        return {};
    }

    const std::vector<Adapter>& adapters_;
    DecoderWeights& weights_;
    std::vector<std::uint64_t> first_columns_;  // of each adapter
    std::vector<std::map<std::string, std::uint64_t, std::less<>>>
        fitted_rows_;  // of each adapter, by the tensor's name
};

}  // namespace

Result<Adapter> open_adapter(const path& where) {
    if (formats::is_file(where)) return open_file(where);
    if (std::filesystem::exists(where / kConfigFile)) return open_folder(where);
    return Error{ErrorCode::FileNotFound, where.string() + " is no adapter: expected a folder with " +
                                              std::string(kConfigFile) + " and " + std::string(kWeightsFile) +
                                              ", or a GGUF file"};
}

Result<Decoder> with_adapters(const Opened<Decoder>& opened, const Decoder& model,
                              const std::vector<Adapter>& adapters) {
    for (const Adapter& adapter : adapters) {
        if (adapter.is_file != (opened.gguf() != nullptr))
            return Error{
                ErrorCode::UnsupportedConfig,
                adapter.source + (adapter.is_file ? " is an adapter of GGUF models, and the model is a folder; "
                                                    "give the adapter's folder"
                                                  : " is an adapter of a Hugging Face folder, and the model "
                                                    "is a GGUF file; convert the adapter with llama.cpp's "
                                                    "convert_lora_to_gguf.py, or give the model's folder")};
        if (!adapter.is_file) continue;
        VKFORMER_TRY(const std::string architecture, opened.gguf()->string("general.architecture"));
        if (architecture != adapter.architecture)
            return Error{ErrorCode::UnsupportedConfig, adapter.source + ": the adapter is of \"" +
                                                           adapter.architecture + "\" models, this one is \"" +
                                                           architecture + "\""};
    }
    DecoderWeights weights = model.weights();
    VKFORMER_CHECK(Fitting(adapters, weights).run());
    return Decoder(model.config(), std::move(weights));
}

}  // namespace vkformer::models
