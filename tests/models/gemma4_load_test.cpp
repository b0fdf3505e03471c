// SPDX-License-Identifier: MIT
// Gemma 4: what follows from its config, and what its files say that is not done.
#include <cstring>

#include <nlohmann/json.hpp>

#include "models/changed_golden.hpp"
#include "models/decoder_case.hpp"
#include "models/gemma4.hpp"
#include "models/model_case.hpp"
#include "models/run_in_pieces.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;
using enum ErrorCode;

/// The elements of columns first … first + count − 1, row by row.
std::vector<std::byte> columns(const TensorData& matrix, std::size_t first, std::size_t count) {
    const std::size_t element = bytes_of(matrix.dtype, 1), row = matrix.shape[1] * element;
    std::vector<std::byte> bytes;
    for (std::size_t r = 0; r < matrix.shape[0]; ++r) {
        const auto part = matrix.bytes.subspan(r * row + first * element, count * element);
        bytes.insert(bytes.end(), part.begin(), part.end());
    }
    return bytes;
}

}  // namespace

TEST_CASE("layers of Gemma 4 have heads, ropes and caches by what they are", "[models][decoder]") {
    const models::Decoder model = load_decoder_case("gemma4");
    const models::DecoderConfig& c = model.config();
    REQUIRE(c.layers.size() == 5);
    for (const std::size_t i : {0u, 1u, 3u}) {
        CAPTURE(i);
        CHECK(c.layers[i].window == 5);
        CHECK(c.head_dim_of(c.layers[i]) == 12);
        CHECK(c.layers[i].rope == 1u);
    }
    for (const std::size_t i : {2u, 4u}) {
        CAPTURE(i);
        CHECK(c.layers[i].window == 0);
        CHECK(c.head_dim_of(c.layers[i]) == 20);
        CHECK(c.layers[i].rope == 0u);
    }
    for (std::size_t i = 0; i < 3; ++i) CHECK(!c.layers[i].shared_cache);
    CHECK(c.layers[3].shared_cache == 1u);
    CHECK(c.layers[4].shared_cache == 2u);
    CHECK(c.cached_numbers(true) == 2 * 2 * 2 * 12);  // keys and values of two layers, two heads each
    CHECK(c.cached_numbers(false) == 2 * 2 * 20);
    // A quarter of ten frequencies turns.
    const auto& full = c.ropes[0].frequencies;
    REQUIRE(full.size() == 10);
    for (std::size_t k = 0; k < full.size(); ++k) CHECK((full[k] != 0) == (k < 2));
    CHECK(c.ropes[1].frequencies.size() == 6);

    const models::DecoderConfig dense = load_decoder_case("gemma4_dense").config();
    CHECK(dense.kv_heads_of(dense.layers[0]) == 2);
    CHECK(dense.kv_heads_of(dense.layers[3]) == 1);
    check_refused(model.check_cache(models::CacheFormat::q8_0), InvalidArgument, "2 key heads of 12");
}

TEST_CASE("Gemma 4 is refused by the field that asks for something else", "[models][decoder][errors]") {
    const auto refused = [](const char* golden, const json& fields, ErrorCode code, const std::string& words) {
        CAPTURE(golden, fields.dump());
        check_refused(load_golden_with(golden, fields), code, words);
    };
    refused("gemma4", {{"use_bidirectional_attention", "all"}}, UnsupportedConfig, R"("use_bidirectional_attention")");
    refused("gemma4", {{"num_kv_shared_layers", 4}}, UnsupportedConfig, R"("num_kv_shared_layers" is 4)");
    refused("gemma4", {{"num_kv_shared_layers", 5}}, CorruptFile, "num_kv_shared_layers");
    refused("gemma4", {{"num_kv_shared_layers", 1}}, MissingTensor, "layers.3.self_attn.k_proj");
    refused("gemma4", {{"use_double_wide_mlp", false}}, ShapeMismatch, "mlp.gate_proj");
    refused("gemma4", {{"vocab_size_per_layer_input", 60}}, UnsupportedConfig, R"("vocab_size_per_layer_input" is 60)");
    refused("gemma4", {{"hidden_size_per_layer_input", 5}}, ShapeMismatch, "per_layer");
    refused("gemma4", {{"global_head_dim", 16}}, ShapeMismatch, "q_proj");
    refused("gemma4", {{"layer_types", json::array_t(5, "chunked_attention")}}, UnsupportedConfig, "layer_types");
    refused("gemma4", {{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}, UnsupportedConfig,
            R"("rope_type" is "default")");
    const json long_rope = {{"rope_type", "longrope"},
                            {"rope_theta", 1e4},
                            {"short_factor", json::array_t(6, 1)},
                            {"long_factor", json::array_t(6, 2)},
                            {"original_max_position_embeddings", 4}};
    refused("gemma4", {{"rope_parameters", {{"sliding_attention", long_rope}}}}, UnsupportedConfig, "rope_parameters");
    refused("gemma3", {{"rope_parameters", {{"sliding_attention", long_rope}}}, {"rope_scaling", nullptr}},
            UnsupportedConfig, "rope_type");
    refused("gemma4", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}}, UnsupportedConfig, "rope_scaling");
    refused("gemma4_dense", {{"num_global_key_value_heads", 3}}, UnsupportedConfig,
            R"("num_global_key_value_heads" is 3)");
    refused("gemma4_dense", {{"num_global_key_value_heads", nullptr}}, CorruptFile, "num_global_key_value_heads");
    refused("gemma4_dense", {{"attention_k_eq_v", false}}, ShapeMismatch, "k_proj");
    refused("gemma4_moe", {{"num_experts", 5}}, ShapeMismatch, "router");
    refused("gemma4_moe", {{"top_k_experts", 7}}, CorruptFile, "top_k_experts");
    refused("gemma4_moe", {{"num_experts", 64}, {"top_k_experts", 33}}, CorruptFile, "top_k_experts");
    refused("gemma4_whole", {{"text_config", {{"global_head_dim", 16}}}}, ShapeMismatch, "q_proj");
    check_refused(load_renamed("gemma4",
                               [](std::string name) {
                                   const auto found = name.find("layer_scalar");
                                   return found == std::string::npos
                                              ? name
                                              : name.replace(found, std::strlen("layer_scalar"), "layer_factor");
                               }),
                  MissingTensor, "layer_scalar");
}

TEST_CASE("a GGUF file of Gemma 4 lacks nothing in silence", "[models][decoder][gguf][errors]") {
    for (const std::string missing :
         {"blk.0.post_attention_norm.weight", "blk.1.post_ffw_norm.weight", "blk.0.attn_q_norm.weight",
          "blk.2.attn_k_norm.weight", "blk.4.layer_output_scale.weight", "blk.3.inp_gate.weight"}) {
        CAPTURE(missing);
        const auto lacking = load_gguf_with("gemma4", [&](models::GgufContents& contents) {
            std::erase_if(contents.tensors, [&](const auto& tensor) { return tensor.name == missing; });
        });
        check_refused(lacking, MissingTensor, missing);
    }
    check_refused(load_gguf_with("gemma4_moe",
                                 [](models::GgufContents& contents) {
                                     std::erase_if(contents.tensors, [](const auto& tensor) {
                                         return tensor.name == "blk.0.ffn_gate_inp.scale";
                                     });
                                 }),
                  MissingTensor, "ffn_gate_inp.scale");
}

TEST_CASE("sequences beyond the context need positions of every kind for them", "[models][decoder][errors]") {
    const models::Decoder model = load_decoder_case("gemma4");
    models::DecoderConfig config = model.config();
    config.extended_positions = 2 * config.max_positions;
    config.extended_ropes = {config.ropes.front()};
    const models::Decoder other(std::move(config), model.weights());
    graph::Graph graph;
    const auto tokens = must(graph.input("tokens", DType::i32, {1, 1}));
    const auto starts = must(graph.input("starts", DType::i32, {1}));
    check_refused(other.add_pass(graph, {.capacity = 4, .extended = true}, tokens, starts, models::Logits::all),
                  UnsupportedConfig, "take shorter ones");
}

TEST_CASE("Gemma 4's last layer sees all tokens, whatever its list says", "[models][decoder]") {
    const auto types = [](const char* last) {
        const char *const s = "sliding_attention", *const f = "full_attention";
        return json{{"layer_types", {s, s, f, s, last}}};
    };
    const auto windows = [&](const char* last) {
        std::vector<std::uint32_t> all;
        const models::Decoder model = must(load_golden_with("gemma4", types(last)));
        for (const auto& layer : model.config().layers) all.push_back(layer.window);
        return all;
    };
    CHECK(windows("sliding_attention") == windows("full_attention"));
}

TEST_CASE("tables of layers' embeddings are cut between layers", "[models][decoder]") {
    const models::Decoder whole = load_decoder_case("gemma4");
    const auto& all = whole.weights().layer_embeddings;
    REQUIRE(all.size() == 1);
    REQUIRE(all[0].table.shape == Shape{61, 70});
    const auto parts = must(models::split_layer_embeddings(all[0].table, all[0].projection, 14, 61 * 29));
    REQUIRE(parts.size() == 3);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        CAPTURE(i);
        const std::size_t width = i < 2 ? 28 : 14;
        CHECK(parts[i].table.shape == Shape{61, width});
        CHECK(parts[i].projection.weight.shape == Shape{width, 30});
        const auto expected = columns(all[0].table, i * 28, width);
        CHECK(std::ranges::equal(parts[i].table.bytes, expected));
    }
    CHECK(must(models::split_layer_embeddings(all[0].table, all[0].projection, 14, 1)).size() == 5);

    TensorData blocks = all[0].table;
    blocks.dtype = DType::q8_0;
    check_refused(models::split_layer_embeddings(blocks, all[0].projection, 14, 1), UnsupportedDtype, "14 elements");

    models::DecoderWeights weights = whole.weights();
    weights.layer_embeddings = parts;
    const models::Decoder cut(whole.config(), std::move(weights));
    const Golden golden("decoders/gemma4/golden.safetensors");
    const auto len = static_cast<std::uint32_t>(golden.shape("input_ids")[1]);
    for (graph::Backend* const backend : test_backends()) {
        CAPTURE(backend->name());
        const PiecewiseRun run = run_in_pieces(cut, *backend, golden, DType::f32, {3, len - 3});
        check_golden(run.logits, golden, "logits", rotary_bound(*backend, DType::f32));
    }
}

}  // namespace vkformer::tests
