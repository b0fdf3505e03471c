// SPDX-License-Identifier: MIT
// DeBERTa-v2 and -v3 (He et al. 2021, "DeBERTa" and "DeBERTaV3"): BERT whose scores have terms that go by the distance of query and key.
#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/try.hpp"
#include "models/encoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr EncoderNames kDebertaNames = {
    .prefix = "deberta.",
    .words = "embeddings.word_embeddings.weight",
    .positions = "embeddings.position_embeddings.weight",
    .types = "embeddings.token_type_embeddings.weight",
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "encoder.layer.",
    .query = "attention.self.query_proj",
    .key = "attention.self.key_proj",
    .value = "attention.self.value_proj",
    .output = "attention.output.dense",
    .attention_norm = "attention.output.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .feed_forward_norm = "output.LayerNorm",
    .head_dense = "pooler.dense",
    .head_output = "classifier",
};

/// Bits for the words of a field: those of a list as they are, or of a text with "|" between them, where case and spaces around them do
/// not count. Errors also: UnsupportedConfig, for other words.
Result<std::uint32_t> read_words(const Config& config, std::string_view name, std::span<const std::string_view> words) {
    std::vector<std::string> found;
    if (auto list = config.strings(name)) {
        found = std::move(*list);
    } else {
        VKFORMER_TRY(const std::string text, config.string(name));
        std::string word;
        for (const char c : text + "|") {
            if (c != '|') {
                word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
                continue;
            }
            word.erase(0, word.find_first_not_of(' '));
            word.erase(word.find_last_not_of(' ') + 1);
            if (!word.empty()) found.push_back(std::exchange(word, {}));
        }
    }
    std::uint32_t named = 0;
    for (const std::string& word : found) {
        const auto known = std::ranges::find(words, word);
        if (known == words.end()) {
            std::string supported;
            for (const std::string_view other : words)
                supported += (supported.empty() ? "" : ", ") + std::string(other);
            return config.unsupported(name, supported);
        }
        named |= 1u << std::distance(words.begin(), known);
    }
    return named;
}

/// An integer that a config may have and that has to be `value`.
Result<void> expect_equal(const Config& config, std::string_view name, std::uint32_t value, std::string_view what) {
    VKFORMER_TRY(const auto found, config.unsigned_integer(name, {.fallback = value}));
    if (found == value) return {};
    return config.unsupported(name, std::string(what) + " = " + std::to_string(value));
}

/// 0 where the field is -1, 0 or absent: there is none.
Result<std::uint32_t> read_optional_count(const Config& config, std::string_view name) {
    VKFORMER_TRY(const auto value, config.integer(name, {.fallback = -1, .min = -1, .max = 1 << 20}));
    return static_cast<std::uint32_t>(std::max<std::int64_t>(value, 0));
}

Result<RelativeTable> read_relative_table(const Config& config, const EncoderConfig& c) {
    RelativeTable table;
    VKFORMER_TRY(table.buckets, read_optional_count(config, "position_buckets"));
    VKFORMER_TRY(table.max_distance, read_optional_count(config, "max_relative_positions"));
    if (table.max_distance == 0) table.max_distance = c.max_positions;
    table.span = table.buckets > 0 ? table.buckets : table.max_distance;
    return table;
}

/// That the buckets of all distances are numbers: up to half of them are distances one by one, the others go by a logarithm.
Result<void> check_buckets(const Config& config, const RelativeTable& table, std::uint32_t positions) {
    if (table.buckets == 1) return config.unsupported("position_buckets", "-1, and from 2 on");
    const bool has_logarithm = table.buckets > 0 && positions - 1 > table.buckets / 2;
    if (has_logarithm && table.max_distance <= table.buckets / 2 + 1)
        return config.unsupported("max_relative_positions", "more than half of position_buckets and 1");
    return {};
}

/// The table of distances and what it is projected with.
Result<void> read_relative_weights(const Config& config, const WeightReader& read, bool has_norm, EncoderConfig& c,
                                   EncoderWeights& w) {
    VKFORMER_TRY(const bool is_relative, config.boolean("relative_attention", false));
    VKFORMER_TRY(const bool shares_keys, config.boolean("share_att_key", false));
    VKFORMER_TRY(const RelativeTable table, read_relative_table(config, c));
    const bool counts = is_relative && (c.c2p || c.p2c);
    if (counts) VKFORMER_CHECK(check_buckets(config, table, c.max_positions));
    // A file has both where the config says so, used or not.
    const std::uint64_t d = c.hidden_size;
    if (has_norm && (is_relative || read.has("encoder.LayerNorm.weight"))) {
        VKFORMER_TRY(w.relative_norm, read.norm("encoder.LayerNorm", d, true));
    }
    if (!is_relative) return {};
    VKFORMER_TRY(w.relative, read.tensor("encoder.rel_embeddings.weight", {2 * std::uint64_t{table.span}, d}));
    if (!counts) return {};
    c.relative = table;
    for (std::size_t i = 0; i < w.layers.size() && !shares_keys; ++i) {
        const std::string name = "encoder.layer." + std::to_string(i) + ".attention.self.pos_";
        if (c.c2p) {
            VKFORMER_TRY(w.layers[i].relative_key, read.projection(name + "key_proj", d, d, true));
        }
        if (c.p2c) {
            VKFORMER_TRY(w.layers[i].relative_query, read.projection(name + "query_proj", d, d, true));
        }
    }
    return {};
}

}  // namespace

Result<Encoder> load_deberta(const Config& config, const Weights& weights) {
    constexpr std::string_view kTerms[] = {"c2p", "p2c"}, kNorms[] = {"none", "layer_norm"};
    VKFORMER_TRY(
        EncoderConfig c,
        read_bert_config(config, {.norm_eps = 1e-7, .types = 0, .least_types = 0, .has_embedding_size = true}));
    VKFORMER_CHECK(
        expect_equal(config, "attention_head_size", c.hidden_size / c.heads, "hidden_size / num_attention_heads"));
    VKFORMER_CHECK(expect_equal(config, "pooler_hidden_size", c.hidden_size, "hidden_size"));
    VKFORMER_TRY(const auto kernel_size, read_optional_count(config, "conv_kernel_size"));
    if (kernel_size > 0) return config.unsupported("conv_kernel_size", "0");
    VKFORMER_TRY(c.head_activation, read_activation(config, "pooler_hidden_act", "gelu"));
    VKFORMER_TRY(const bool has_positions, config.boolean("position_biased_input", true));
    VKFORMER_TRY(const std::uint32_t terms, read_words(config, "pos_att_type", kTerms));
    VKFORMER_TRY(const std::uint32_t norms, read_words(config, "norm_rel_ebd", kNorms));
    c.c2p = (terms & 1) != 0;
    c.p2c = (terms & 2) != 0;

    EncoderNames names = kDebertaNames;
    if (!has_positions) names.positions = {};
    VKFORMER_TRY(EncoderWeights w, read_encoder_weights(weights, c, names));
    const WeightReader read(weights, find_prefix(weights, std::string(names.prefix), std::string(names.words)));
    if (c.embedding_size != c.hidden_size) {
        VKFORMER_TRY(w.embedding_projection,
                     read.projection("embeddings.embed_proj", c.hidden_size, c.embedding_size, false));
    }
    VKFORMER_CHECK(read_relative_weights(config, read, (norms & 2) != 0, c, w));
    return Encoder(c, std::move(w));
}

}  // namespace vkformer::models
