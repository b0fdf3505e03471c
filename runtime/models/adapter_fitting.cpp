// SPDX-License-Identifier: MIT
// Adapters put beside the weights of a model that they add to.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "core/ceil_div.hpp"
#include "core/try.hpp"
#include "formats/weights.hpp"
#include "models/adapter.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

/// Columns in multiples of this: what products like.
constexpr std::uint32_t kColumnsMultiple = 16;

/// Weights that are multiplied with the same input, some of them together.
using Group = std::vector<Projection*>;

std::vector<Group> groups_of(DecoderWeights::Layer& layer) {
    LatentWeights& latent = layer.latent;
    return {{&layer.query, &layer.key, &layer.value},
            {&latent.query_down, &latent.latent, &latent.rotary_key},
            {&latent.plain_query, &latent.rotary_query},
            {&layer.mixed_gate},
            {&layer.output},
            {&layer.state.input},
            {&layer.state.beta, &layer.state.step},
            {&layer.gate, &layer.up},
            {&layer.down},
            {&layer.embedding_gate},
            {&layer.embedding_output},
            {&layer.streams.left},
            {&layer.streams.right}};
}

std::vector<Group> groups_of(EncoderLayerWeights& layer) {
    return {{&layer.query, &layer.key, &layer.value},
            {&layer.relative_query, &layer.relative_key},
            {&layer.output},
            {&layer.gate, &layer.up},
            {&layer.down}};
}

/// Of all layers, and behind others.
template <class Layer>
std::vector<Group> with_layers(std::vector<Group> groups, std::vector<Layer>& layers) {
    for (Layer& layer : layers)
        for (Group& group : groups_of(layer)) groups.push_back(std::move(group));
    return groups;
}

/// A table whose rows are chosen.
struct Table {
    std::string_view name;
    const TensorData* weight;
    LowRank* adapters;
};

/// What an encoder has, or the decoder whose layers it has.
template <class Weights>
std::vector<Table> tables_of(const Weights& weights, AdapterSet& set) {
    return {{"embeddings.word_embeddings.weight", &weights.embedding, &set.word_adapters},
            {"embeddings.token_type_embeddings.weight", &weights.types, &set.type_adapters}};
}

/// A tensor's name, of packed weights their matrix's (packed_weights.hpp).
std::string matrix_of(std::string_view name) {
    for (const std::string_view packed : {"qweight", "weight_packed"})
        if (name.ends_with(packed)) return std::string(name.substr(0, name.size() - packed.size())) + "weight";
    return std::string(name);
}

/// A weight's name without what stands before it in some files and not in others, and in the names that PEFT has for modules.
std::string_view bare(std::string_view name) {
    constexpr auto kPrefixes =
        std::to_array<std::string_view>({"model.", "language_model.", "transformer.", "backbone.", "bert.", "roberta.",
                                         "mpnet.", "distilbert.", "deberta.", "nomic_bert."});
    const auto prefix = std::ranges::find_if(kPrefixes, [&](std::string_view one) { return name.starts_with(one); });
    return prefix == kPrefixes.end() ? name : bare(name.substr(prefix->size()));
}

constexpr float kMostFloat16 = 65504;

class Fitting {
public:
    /// Of products and tables some may be absent.
    Fitting(const formats::Gguf* gguf, const std::filesystem::path& files, const std::vector<Adapter>& adapters,
            AdapterSet& set, std::vector<Group> groups, std::vector<Table> tables = {})
        : gguf_(gguf),
          files_(files),
          adapters_(adapters),
          set_(set),
          groups_(std::move(groups)),
          tables_(std::move(tables)) {}

    Result<void> run() {
        for (const Adapter& adapter : adapters_) VKFORMER_CHECK(check_kind(adapter));
        std::uint64_t columns = 0;
        for (const Adapter& adapter : adapters_) {
            std::uint64_t rank = 0;
            float scale = 0;  // of all, but for those that differ
            Updates updates;
            for (const auto& one : adapter.updates) {
                rank = std::max(rank, one.second.down.shape[0]);
                if (std::abs(one.second.scale) > std::abs(scale)) scale = one.second.scale;
                if (!updates.emplace(bare(one.first), &one).second)
                    return Error{ErrorCode::UnsupportedConfig,
                                 adapter.source + ": the adapter changes " + one.first + " under two names"};
            }
            if (!(std::abs(scale) <= kMostFloat16))
                return Error{ErrorCode::UnsupportedConfig, adapter.source + ": alpha / rank is " +
                                                               std::to_string(scale) + ", at most 65504 is supported"};
            first_columns_.push_back(columns);
            columns += rank;
            if (columns > kMostAdapterColumns)
                return Error{ErrorCode::UnsupportedConfig, adapter.source + ": with this adapter the ranks are " +
                                                               std::to_string(columns) + " together, at most " +
                                                               std::to_string(kMostAdapterColumns) +
                                                               " are supported; load fewer adapters at a time"};
            set_.adapters.push_back({static_cast<std::uint32_t>(rank), scale == 0 ? 1 : scale});
            updates_.push_back(std::move(updates));
        }
        set_.adapter_columns = static_cast<std::uint32_t>(ceil_div(columns, kColumnsMultiple) * kColumnsMultiple);
        fitted_rows_.resize(adapters_.size());
        for (const Group& group : groups_) VKFORMER_CHECK(fit(group));
        for (const Table& table : tables_) VKFORMER_CHECK(fit(table));
        VKFORMER_CHECK(check_all_fitted());
        return check_repeated();
    }

private:
    using Updates = std::map<std::string_view, const std::pair<const std::string, Adapter::Update>*>;

    /// Errors: UnsupportedConfig (of another kind of file or architecture than the model).
    Result<void> check_kind(const Adapter& adapter) const {
        if (adapter.is_file != (gguf_ != nullptr))
            return Error{
                ErrorCode::UnsupportedConfig,
                adapter.source + (adapter.is_file ? " is an adapter of GGUF models, and the model is a folder; "
                                                    "give the adapter's folder"
                                                  : " is an adapter of a Hugging Face folder, and the model "
                                                    "is a GGUF file; convert the adapter with llama.cpp's "
                                                    "convert_lora_to_gguf.py, or give the model's folder")};
        if (!adapter.is_file) return {};
        VKFORMER_TRY(const std::string architecture, gguf_->string("general.architecture"));
        if (architecture == adapter.architecture) return {};
        return Error{ErrorCode::UnsupportedConfig, adapter.source + ": the adapter is of \"" + adapter.architecture +
                                                       "\" models, this one is \"" + architecture + "\""};
    }

    /// nullptr: the adapter does not change the weight, a table or none.
    const Adapter::Update* find(std::size_t adapter, std::string_view tensor, bool is_table) const {
        const auto found = updates_[adapter].find(bare(tensor));
        if (found == updates_[adapter].end() || found->second->second.is_table != is_table) return nullptr;
        return &found->second->second;
    }

    /// By which of its names the adapter changes the weight; nullptr: by none. What changes it by both is found to be left over.
    const Origin* changed_as(std::size_t adapter, const Projection& projection) const {
        for (const Origin* origin : {&projection.origin, &projection.other_origin})
            if (find(adapter, origin->tensor, false)) return origin;
        return nullptr;
    }

    bool is_changed(const Projection& projection) const {
        for (std::size_t a = 0; a < adapters_.size(); ++a)
            if (projection && changed_as(a, projection)) return true;
        return false;
    }

    static Result<void> check_shapes(const Adapter& adapter, const Adapter::Update& update, std::string_view tensor,
                                     std::uint64_t out, std::uint64_t in) {
        if (update.down.shape[1] == in && update.up.shape[0] == out) return {};
        return Error{ErrorCode::ShapeMismatch, adapter.source + ": the matrices that change " + std::string(tensor) +
                                                   " have shapes " + to_string(update.down.shape) + " and " +
                                                   to_string(update.up.shape) + ", the model's weight has " +
                                                   to_string(update.is_table ? Shape{in, out} : Shape{out, in}) +
                                                   ": the adapter is of another model"};
    }

    /// Each weight of the group that something changes has columns of its own, all of which each of them has: the others' are zeros.
    Result<void> fit(const Group& group) {
        const auto changed = static_cast<std::uint64_t>(
            std::ranges::count_if(group, [&](const Projection* part) { return is_changed(*part); }));
        if (changed == 0) return {};
        const std::uint64_t columns = changed * set_.adapter_columns;
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
                const Origin* const origin = changed_as(a, *part);
                if (!origin) continue;
                const Adapter::Update& update = *find(a, origin->tensor, false);
                VKFORMER_CHECK(check_shapes(adapters_[a], update, origin->tensor, origin->rows, in));
                const std::uint64_t column = first + first_columns_[a];
                VKFORMER_TRY(const std::vector<float> below, numbers_of(adapters_[a], update.down, origin->tensor));
                VKFORMER_TRY(const std::vector<float> above, numbers_of(adapters_[a], update.up, origin->tensor));
                std::ranges::copy(below, down.begin() + static_cast<std::ptrdiff_t>(column * in));
                place_up(above, update.scale / set_.adapters[a].scale, *origin, column, columns, up);
                for (const RowRange& range : origin->ranges) fitted_rows_[a][&update] += range.count;
            }
            if (is_changed(*part)) first += set_.adapter_columns;
            part->adapters.up = float_tensor({out, columns}, std::move(up));
        }
        const TensorData shared = float_tensor({columns, in}, std::move(down));
        for (Projection* const part : group)
            if (*part) part->adapters.down = shared;
        return {};
    }

    Result<void> fit(const Table& table) {
        const std::uint64_t columns = set_.adapter_columns;
        for (std::size_t a = 0; a < adapters_.size(); ++a) {
            const Adapter::Update* const update = find(a, table.name, true);
            if (!update || table.weight->bytes.empty()) continue;
            VKFORMER_TRY(const bool is_there, has_tensor(table.name));
            if (!is_there) continue;  // the model's table has another name
            const std::uint64_t rows = table.weight->shape[0], width = table.weight->shape[1];
            VKFORMER_CHECK(check_shapes(adapters_[a], *update, table.name, width, rows));
            VKFORMER_TRY(const std::vector<float> below, numbers_of(adapters_[a], update->down, table.name));
            VKFORMER_TRY(const std::vector<float> above, numbers_of(adapters_[a], update->up, table.name));
            std::vector<float> down(rows * columns, 0.0f), up(width * columns, 0.0f);
            if (*table.adapters) {
                VKFORMER_TRY(down, floats_of(table.adapters->down));
                VKFORMER_TRY(up, floats_of(table.adapters->up));
            }
            for (std::uint64_t k = 0; k < update->down.shape[0]; ++k)
                for (std::uint64_t row = 0; row < rows; ++row)
                    down[row * columns + first_columns_[a] + k] = below[k * rows + row];
            place_up(above, update->scale / set_.adapters[a].scale,
                     {.tensor = {}, .rows = width, .ranges = {{0, width}}}, first_columns_[a], columns, up);
            *table.adapters = {float_tensor({rows, columns}, std::move(down)),
                               float_tensor({width, columns}, std::move(up))};
            fitted_rows_[a][update] = width;
        }
        return {};
    }

    /// Errors: UnsupportedConfig (numbers that float16 has not, with which one adapter would make those NaN that do not ask for it).
    static Result<std::vector<float>> numbers_of(const Adapter& adapter, const TensorData& matrix,
                                                 std::string_view tensor) {
        VKFORMER_TRY(std::vector<float> values, floats_of(matrix));
        if (std::ranges::any_of(values, [](float value) { return std::abs(value) > kMostFloat16; }))
            return Error{ErrorCode::UnsupportedConfig, adapter.source + ": the matrices that change " +
                                                           std::string(tensor) +
                                                           " have numbers above 65504, which no adapter needs"};
        return values;
    }

    /// The rows that the weight has of an update's `above` [rows, rank], times a factor, from that column on.
    static void place_up(const std::vector<float>& above, float factor, const Origin& origin, std::uint64_t column,
                         std::uint64_t columns, std::vector<float>& up) {
        const std::uint64_t rank = above.size() / origin.rows;
        std::uint64_t to = 0;
        for (const RowRange& range : origin.ranges)
            for (std::uint64_t row = range.first; row < range.first + range.count; ++row, ++to)
                for (std::uint64_t k = 0; k < rank; ++k) up[to * columns + column + k] = factor * above[row * rank + k];
    }

    /// Nothing that an adapter changes may be left as it is.
    Result<void> check_all_fitted() const {
        for (std::size_t a = 0; a < adapters_.size(); ++a)
            for (const auto& [name, update] : adapters_[a].updates) {
                const auto found = fitted_rows_[a].find(&update);
                if (found != fitted_rows_[a].end() && found->second == update.up.shape[0]) continue;
                // An encoder's pooler is not read where no head is behind it.
                if (!tables_.empty() && bare(name) == "pooler.dense.weight") continue;
                VKFORMER_TRY(const bool is_there, has_tensor(name));
                return Error{
                    ErrorCode::UnsupportedConfig,
                    adapters_[a].source + ": the adapter changes " + name +
                        (is_there ? ", which takes none here: adapters are for the products of attention, of "
                                    "layers with a state, of feed-forward layers that all tokens go through, of "
                                    "heads, and for an encoder's tables of words and types, not for experts, routers "
                                    "and other embeddings"
                                  : ", which the model has not: it is of another one")};
            }
        return {};
    }

    /// Whether the model's files have it.
    Result<bool> has_tensor(std::string_view name) const {
        const auto has = [&](const formats::Weights& weights) {
            return std::ranges::any_of(weights.names(),
                                       [&](std::string_view own) { return bare(matrix_of(own)) == bare(name); });
        };
        if (gguf_) return has(gguf_->weights());
        VKFORMER_TRY(const formats::Weights weights, formats::open_weights(files_));
        return has(weights);
    }

    /// The model's weight of that name, where it is one as a whole.
    const TensorData* find_whole(std::string_view tensor) const {
        for (const Group& group : groups_)
            for (const Projection* const part : group)
                for (const Origin* const origin : {&part->origin, &part->other_origin})
                    if (*part && bare(origin->tensor) == bare(tensor) && part->weight.shape[0] == origin->rows)
                        return &part->weight;
        for (const Table& table : tables_)
            if (table.name == bare(tensor)) return table.weight;
        return nullptr;
    }

    /// What an adapter repeats has to be what the model has.
    Result<void> check_repeated() {
        for (const Adapter& adapter : adapters_)
            for (const auto& [name, repeated] : adapter.repeated) {
                const TensorData* const own = find_whole(name);
                bool is_same = own && own->shape == repeated.shape;
                if (is_same) {
                    VKFORMER_TRY(const std::vector<float> expected, floats_of(*own));
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

    const formats::Gguf* gguf_;
    const std::filesystem::path& files_;
    const std::vector<Adapter>& adapters_;
    AdapterSet& set_;
    std::vector<Group> groups_;
    std::vector<Table> tables_;
    // Of each adapter:
    std::vector<Updates> updates_;  // by bare names
    std::vector<std::uint64_t> first_columns_;
    std::vector<std::map<const Adapter::Update*, std::uint64_t>> fitted_rows_;
};

}  // namespace

Result<Decoder> with_adapters(const Opened<Decoder>& opened, const Decoder& model,
                              const std::vector<Adapter>& adapters) {
    DecoderWeights weights = model.weights();
    std::vector<Group> groups = {{&weights.lm_head}};
    for (LayerEmbeddings& part : weights.layer_embeddings) groups.push_back({&part.projection});
    for (auto* const streams : {&weights.stream_inputs, &weights.stream_outputs})
        for (Projection& one : *streams) groups.push_back({&one});
    VKFORMER_CHECK(
        Fitting(opened.gguf(), opened.files, adapters, weights, with_layers(std::move(groups), weights.layers)).run());
    Decoder adapted(model.config(), std::move(weights));
    adapted.notes = model.notes;
    return adapted;
}

Result<Encoder> with_adapters(const Opened<Encoder>& opened, const Encoder& model,
                              const std::vector<Adapter>& adapters) {
    EncoderWeights head = model.weights();
    std::vector<Group> groups = {{&head.embedding_projection}, {&head.head_dense}, {&head.head_output}};
    const auto fit = [&](std::vector<Group> all, std::vector<Table> tables) {
        return Fitting(opened.gguf(), opened.files, adapters, head, std::move(all), std::move(tables)).run();
    };
    if (!model.decoder()) {
        VKFORMER_CHECK(fit(with_layers(std::move(groups), head.layers), tables_of(head, head)));
        Encoder adapted(model.config(), std::move(head));
        adapted.notes = model.notes;
        return adapted;
    }
    DecoderWeights weights = model.decoder()->weights();
    VKFORMER_CHECK(fit(with_layers(std::move(groups), weights.layers), tables_of(weights, head)));
    static_cast<AdapterSet&>(weights) = head;
    Encoder adapted(model.config(), std::move(head),
                    std::make_shared<const Decoder>(model.decoder()->config(), std::move(weights)));
    adapted.notes = model.notes;
    return adapted;
}

}  // namespace vkformer::models
