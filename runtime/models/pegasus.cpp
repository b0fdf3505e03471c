// SPDX-License-Identifier: MIT
// PEGASUS (Zhang et al. 2020), which writes summaries: pre-norm layers with a norm behind the last, sinusoidal positions as Marian's.
#include <array>

#include "core/try.hpp"
#include "models/seq2seq_loading.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr std::array<std::string_view, 2> kPegasusArchitectures = {"PegasusForConditionalGeneration", "PegasusModel"};
// What older configs spell out and Hugging Face no longer reads.
constexpr std::array<RequiredFlag, 4> kPegasusFlags = {{
    {"normalize_before", true},
    {"normalize_embedding", false},
    {"add_final_layer_norm", true},
    {"static_position_embeddings", true},
}};

}  // namespace

Result<Seq2Seq> load_pegasus(const Config& config, const Weights& weights) {
    VKFORMER_CHECK(refuse_other_seq2seq(config, kPegasusArchitectures, kPegasusFlags));
    VKFORMER_TRY(Seq2SeqConfig c, read_bart_sizes(config));
    c.norm_place = Seq2SeqConfig::NormPlace::before;

    const std::string prefix = find_prefix(weights, "model.", "encoder.layer_norm.weight");
    VKFORMER_TRY(Seq2SeqWeights w, read_bart_layers(weights, c, {.final_norms = true}, prefix));
    VKFORMER_CHECK(read_bart_tables(config, weights, c, prefix, w));
    VKFORMER_CHECK(read_sinusoids(weights, c, prefix, w));
    return Seq2Seq(c, std::move(w));
}

}  // namespace vkformer::models
