// SPDX-License-Identifier: MIT
#include "models/gguf_export.hpp"

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cpu/backend.hpp"
#include "formats/safetensors.hpp"
#include "formats/weights.hpp"
#include "models/open_model.hpp"
#include "models/run_in_pieces.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "text/gguf_tokenizer.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::tests {
namespace {

using namespace models;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

const std::filesystem::path kTokenizers = std::filesystem::path(VKFORMER_SOURCE_DIR) / "tests/goldens/tokenizers";
constexpr std::uint64_t kLlamaWidth = 64, kFeedForward = 48, kVocabulary = 512;

void write_json(const std::filesystem::path& path, const json& value) { std::ofstream(path) << value.dump(); }

json llama_config() {
    return {{"model_type", "llama"},
            {"hidden_size", kLlamaWidth},
            {"intermediate_size", kFeedForward},
            {"num_hidden_layers", 1},
            {"vocab_size", kVocabulary},
            {"num_attention_heads", 4},
            {"num_key_value_heads", 2},
            {"rms_norm_eps", 1e-5},
            {"rope_theta", 1e6},
            {"max_position_embeddings", 99},
            {"attention_bias", true},
            {"bos_token_id", 0},
            {"eos_token_id", json::array({2, 3})}};
}

/// Element i of tensor t is i + t / 16, so that rows can be told apart.
formats::NamedTensor numbered_tensor(const std::string& name, Shape shape) {
    static int count = 0;
    auto values = std::make_shared<std::vector<float>>(shape.element_count());
    for (std::size_t i = 0; i < values->size(); ++i)
        (*values)[i] = static_cast<float>(i) + static_cast<float>(count % 16) / 16;
    ++count;
    return {name, {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*values)), .owner = values}};
}

std::vector<formats::NamedTensor> llama_tensors() {
    const std::string layer = "model.layers.0.";
    return {numbered_tensor("model.embed_tokens.weight", {kVocabulary, kLlamaWidth}),
            numbered_tensor("model.norm.weight", {kLlamaWidth}),
            numbered_tensor("lm_head.weight", {kVocabulary, kLlamaWidth}),
            numbered_tensor(layer + "input_layernorm.weight", {kLlamaWidth}),
            numbered_tensor(layer + "post_attention_layernorm.weight", {kLlamaWidth}),
            numbered_tensor(layer + "self_attn.q_proj.weight", {64, kLlamaWidth}),
            numbered_tensor(layer + "self_attn.q_proj.bias", {64}),
            numbered_tensor(layer + "self_attn.k_proj.weight", {32, kLlamaWidth}),
            numbered_tensor(layer + "self_attn.k_proj.bias", {32}),
            numbered_tensor(layer + "self_attn.v_proj.weight", {32, kLlamaWidth}),
            numbered_tensor(layer + "self_attn.v_proj.bias", {32}),
            numbered_tensor(layer + "self_attn.o_proj.weight", {kLlamaWidth, 64}),
            numbered_tensor(layer + "self_attn.o_proj.bias", {kLlamaWidth}),
            numbered_tensor(layer + "mlp.gate_proj.weight", {kFeedForward, kLlamaWidth}),
            numbered_tensor(layer + "mlp.up_proj.weight", {kFeedForward, kLlamaWidth}),
            numbered_tensor(layer + "mlp.down_proj.weight", {kLlamaWidth, kFeedForward})};
}

/// A folder as Hugging Face writes it, with the tokenizer of tests/goldens/tokenizers/NAME.
struct LlamaFolder : TemporaryFolder {
    explicit LlamaFolder(const std::string& tokenizer, const json& config = llama_config()) {
        write_json(path() / "config.json", config);
        json root = read_json(kTokenizers / tokenizer / "tokenizer.json");
        if (tokenizer == "bpe-bytes") root["pre_tokenizer"]["add_prefix_space"] = false;
        write_json(path() / "tokenizer.json", root);
        write_json(path() / "tokenizer_config.json",
                   {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", "{{ messages }}"}});
        const auto tensors = llama_tensors();
        REQUIRE(formats::write_safetensors(path() / "model.safetensors", tensors));
    }
};

GgufContents exported(const LlamaFolder& folder, DType dtype) {
    auto contents = exported_to_gguf(folder.path(), dtype);
    if (!contents) FAIL(contents.error().message);
    return std::move(contents).value();
}

formats::Gguf written(const LlamaFolder& folder, const GgufContents& contents) {
    // Another name each time: what is mapped is not replaced on Windows.
    static int count = 0;
    const std::string name = "x" + std::to_string(count++) + ".gguf";
    REQUIRE(formats::write_gguf(folder / name.c_str(), contents.metadata, contents.tensors));
    auto file = formats::Gguf::open(folder / name.c_str());
    if (!file) FAIL(file.error().message);
    return std::move(file).value();
}

std::string refused_export(json config) {
    const LlamaFolder folder("bpe-pieces", config);
    const auto contents = exported_to_gguf(folder.path(), DType::f32);
    REQUIRE_FALSE(contents);
    CHECK(contents.error().code == ErrorCode::UnsupportedConfig);
    return contents.error().message;
}

/// Without those of gguf_vocabulary_test.cpp: the vocabularies here lack bytes, and many of the folders say no end.
std::vector<std::string> other_notes(GgufContents contents) {
    std::erase_if(contents.notes, [](const std::string& note) {
        return note.starts_with("the vocabulary has ") || note.starts_with("a GGUF file's generations end") ||
               note.starts_with("what generation_config.json says");
    });
    return contents.notes;
}

/// A folder of tests/goldens with a tokenizer of a few pieces, which every vocabulary has room for.
void copy_model(const std::string& name, const std::filesystem::path& to) {
    std::filesystem::copy(goldens_dir() / name, to);
    const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
    const json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {"\u2581", 3}, {"a", 4}, {"\u2581a", 5}};
    const json end = {{"id", 2},         {"content", "</s>"}, {"special", true},    {"single_word", false},
                      {"lstrip", false}, {"rstrip", false},   {"normalized", false}};
    write_json(to / "tokenizer.json", {{"version", "1.0"},
                                       {"added_tokens", json::array({end})},
                                       {"normalizer", replace},
                                       {"pre_tokenizer", nullptr},
                                       {"post_processor", nullptr},
                                       {"decoder", nullptr},
                                       {"model",
                                        {{"type", "BPE"},
                                         {"unk_token", "<unk>"},
                                         {"fuse_unk", true},
                                         {"byte_fallback", true},
                                         {"vocab", vocabulary},
                                         {"merges", json::array({"\u2581 a"})}}}});
}

/// The same with another config.json, and tensors under the names that `rename` gives theirs, if it gives one.
void copy_model_with(const std::string& name, const std::filesystem::path& to, const json& config, auto&& rename) {
    copy_model(name, to);
    const auto weights = must(formats::open_weights(goldens_dir() / name));
    std::vector<formats::NamedTensor> tensors;
    for (const auto& [tensor, data] : weights.tensors())
        if (std::string renamed = rename(tensor); !renamed.empty()) tensors.push_back({std::move(renamed), data});
    must(formats::write_safetensors(to / "model.safetensors", tensors));
    write_json(to / "config.json", config);
}

/// A folder of tests/goldens as a GGUF file.
formats::Gguf exported_file(const std::string& name, DType dtype, const TemporaryFolder& folder) {
    const std::string type(to_string(dtype));
    copy_model(name, folder.path() / type);
    const auto contents = must(exported_to_gguf(folder.path() / type, dtype));
    must(formats::write_gguf(folder.path() / (type + ".gguf"), contents.metadata, contents.tensors));
    return must(formats::Gguf::open(folder.path() / (type + ".gguf")));
}

}  // namespace

TEST_CASE("a Llama folder becomes a GGUF file as llama.cpp's converter writes it", "[models][gguf]") {
    const LlamaFolder folder("bpe-pieces");
    const auto file = written(folder, exported(folder, DType::f32));
    CHECK(file.string("general.architecture").value() == "llama");
    CHECK(file.unsigned_integer("llama.embedding_length").value() == kLlamaWidth);
    CHECK(file.unsigned_integer("llama.attention.head_count_kv").value() == 2);
    CHECK(file.unsigned_integer("llama.rope.dimension_count").value() == 16);
    CHECK(file.real("llama.rope.freq_base").value() == 1e6);
    CHECK(file.tensors().size() == 16);
    CHECK(file.weights().get("output.weight").value().shape == Shape{kVocabulary, kLlamaWidth});
    CHECK(file.weights().get("blk.0.ffn_down.weight").value().shape == Shape{kLlamaWidth, kFeedForward});
    // Rows of a query head of 16: 0, 8, 1, 9, … (Hugging Face turns halves, llama.cpp neighbours); of values as they were.
    const auto before = formats::Safetensors::open(folder / "model.safetensors").value();
    const auto rows = [](const std::vector<float>& values) {
        std::vector<float> firsts;
        for (std::size_t i = 0; i < values.size(); i += kLlamaWidth) firsts.push_back(values[i]);
        return firsts;
    };
    const auto query = rows(values_in(*before.find("model.layers.0.self_attn.q_proj.weight")));
    const auto permuted = rows(values_in(file.weights().get("blk.0.attn_q.weight").value()));
    const auto bias = values_in(*before.find("model.layers.0.self_attn.q_proj.bias"));
    const auto permuted_bias = values_in(file.weights().get("blk.0.attn_q.bias").value());
    for (std::size_t head = 0; head < 4; ++head)
        for (std::size_t i = 0; i < 8; ++i)
            for (std::size_t half = 0; half < 2; ++half) {
                const std::size_t to = head * 16 + 2 * i + half, from = head * 16 + half * 8 + i;
                CHECK(permuted[to] == query[from]);
                CHECK(permuted_bias[to] == bias[from]);
            }
    CHECK(values_in(file.weights().get("blk.0.attn_v.weight").value()) ==
          values_in(*before.find("model.layers.0.self_attn.v_proj.weight")));
}

TEST_CASE("the tokenizer of a folder survives the way into a GGUF file", "[models][gguf]") {
    const std::string name = GENERATE(as<std::string>(), "bpe-pieces", "bpe-bytes");
    CAPTURE(name);
    const LlamaFolder folder(name);
    const auto file = written(folder, exported(folder, DType::f16));
    const auto before = text::load_tokenizer(folder.path());
    REQUIRE(before);
    const auto after = text::load_gguf_tokenizer(file);
    if (!after) FAIL(after.error().message);
    CHECK(after->tokenizer->vocab_size() == kVocabulary);
    CHECK(after->chat_template == "{{ messages }}");
    CHECK(after->bos == (*before)->find("<s>"));
    CHECK(after->eos == (*before)->find("</s>"));
    CHECK(after->adds_bos);
    std::size_t compared = 0;
    for (const std::string line : read_json(kTokenizers / "lines.json")) {
        CAPTURE(line);
        if (line.find("<mask>") != line.npos)
            continue;  // takes the spaces before it along, which the format cannot say
        const auto expected = (*before)->encode(line).value(), found = after->tokenizer->encode(line).value();
        // This vocabulary has not all bytes; Hugging Face makes one unknown token of several, SentencePiece does not.
        if (name == "bpe-pieces" && std::ranges::find(expected, 0) != expected.end()) continue;
        CHECK(found == expected);
        ++compared;
    }
    CHECK(compared > 300);
}

TEST_CASE("the name in a GGUF file is that of the folder, however its path ends", "[models][gguf][vocabulary]") {
    const LlamaFolder folder("bpe-pieces");
    const auto name_by = [](const std::filesystem::path& path) -> std::string {
        const auto contents = must(exported_to_gguf(path, DType::f32));
        for (const auto& field : contents.metadata.fields())
            if (field.key == "general.name") return field.encoded.substr(4 + 8);
        return "none";
    };
    const std::string name = folder.path().filename().string();
    CHECK(name_by(folder.path()) == name);
    CHECK(name_by(folder.path() / "") == name);
    CHECK(name_by(folder.path() / ".") == name);
#ifndef _WIN32
    const auto odd = folder.path() / "m\xFF";  // no UTF-8
    copy_model("decoders/qwen2", odd);
    CHECK(name_by(odd) == "none");
#endif
}

TEST_CASE("what GGUF tensors are stored as", "[models][gguf]") {
    const LlamaFolder folder("bpe-pieces");
    const auto dtypes = [&](DType dtype) {
        const auto contents = exported(folder, dtype);
        const auto file = written(folder, contents);
        return std::pair([weights = file.weights()](const char* name) { return weights.get(name).value().dtype; },
                         other_notes(contents));
    };
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const auto [of, notes] = dtypes(dtype);
        CHECK(of("output_norm.weight") == DType::f32);
        CHECK(of("blk.0.attn_q.bias") == DType::f32);
        CHECK(of("blk.0.attn_q.weight") == dtype);
        CHECK(of("output.weight") == dtype);
        CHECK(notes.empty());
    }
    const auto [q8, q8_notes] = dtypes(DType::q8_0);
    CHECK(q8("blk.0.attn_q.weight") == DType::q8_0);
    CHECK(q8("blk.0.ffn_down.weight") == DType::f16);  // rows of 48
    REQUIRE(q8_notes.size() == 1);
    CHECK_THAT(q8_notes[0], ContainsSubstring("blk.0.ffn_down.weight is stored as f16: its rows of 48"));
    const auto [q4, q4_notes] = dtypes(DType::q4_0);
    CHECK(q4("blk.0.attn_q.weight") == DType::q4_0);
    CHECK(q4("token_embd.weight") == DType::q4_0);
    CHECK(q4("output.weight") == DType::q8_0);  // q6_k needs rows of 256
    const auto [q4k, q4k_notes] = dtypes(DType::q4_k);
    CHECK(q4k("blk.0.attn_q.weight") == DType::q5_0);
    CHECK(dtypes(DType::q5_k).first("blk.0.attn_q.weight") == DType::q5_1);
    CHECK(dtypes(DType::q6_k).first("blk.0.attn_q.weight") == DType::q8_0);
    CHECK(dtypes(DType::iq4_xs).first("blk.0.attn_q.weight") == DType::iq4_nl);
    CHECK(dtypes(DType::q2_k).first("blk.0.attn_q.weight") == DType::q4_0);
    CHECK(dtypes(DType::q5_1).first("blk.0.attn_q.weight") == DType::q5_1);
}

TEST_CASE("what hybrids convolve and norm with stays float32 in GGUF files", "[models][gguf]") {
    for (const auto& [name, taps] :
         {std::pair{"granite_hybrid", "blk.0.ssm_conv1d.weight"}, std::pair{"lfm2", "blk.0.shortconv.conv.weight"}}) {
        const auto file = must(formats::Gguf::open(goldens_dir() / "gguf_decoders" / (std::string(name) + ".gguf")));
        const auto contents = must(models::requantized(file, DType::f16));
        const auto stored = [&](std::string_view tensor) {
            const auto found = std::ranges::find(contents.tensors, tensor, &formats::OutputTensor::name);
            REQUIRE(found != contents.tensors.end());
            return found->dtype;
        };
        CAPTURE(name);
        CHECK(stored(taps) == DType::f32);
        CHECK(stored("blk.0.ffn_down.weight") == DType::f16);
        if (name == std::string_view("granite_hybrid"))
            for (const char* const part : {"blk.0.ssm_norm.weight", "blk.0.ssm_d", "blk.0.ssm_a", "blk.0.ssm_dt.bias"})
                CHECK(stored(part) == DType::f32);
    }
}

TEST_CASE("a GGUF file at another dtype keeps its metadata", "[models][gguf]") {
    const LlamaFolder folder("bpe-pieces");
    const auto file = written(folder, exported(folder, DType::f32));
    const auto contents = requantized(file, DType::q8_0);
    REQUIRE(contents);
    REQUIRE(formats::write_gguf(folder / "y.gguf", contents->metadata, contents->tensors));
    const auto again = formats::Gguf::open(folder / "y.gguf");
    REQUIRE(again);
    CHECK(again->unsigned_integer("general.file_type").value() == 7);
    CHECK(again->unsigned_integer("general.quantization_version").value() == 2);
    CHECK(again->values().size() == file.values().size());
    CHECK(again->strings("tokenizer.ggml.tokens").value() == file.strings("tokenizer.ggml.tokens").value());
    CHECK(again->weights().get("blk.0.attn_q.weight").value().dtype == DType::q8_0);
    CHECK(again->weights().get("blk.0.attn_norm.weight").value().dtype == DType::f32);
}

TEST_CASE("Llama 3's scaling becomes factors", "[models][gguf]") {
    json config = llama_config();
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", 8.0},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 64}};
    const LlamaFolder folder("bpe-pieces", config);
    const auto file = written(folder, exported(folder, DType::q8_0));
    const auto factors = values_in(file.weights().get("rope_freqs.weight").value());
    REQUIRE(factors.size() == 8);
    CHECK(factors[0] == 1);  // a wavelength of 2 π
    // 2 π · 10⁶^(1/8) = 35.3, between 64/4 and 64: smooth = (64/35.33 − 1)/3, 1/((1 − smooth)/8 + smooth)
    CHECK(factors[1] == Approx(2.7652).epsilon(1e-4));
    CHECK(factors[7] == 8);
}

TEST_CASE("a decoder's folder gives the same logits as a GGUF file", "[models][decoder][gguf][golden]") {
    const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    graph::Backend* const tested = GENERATE(from_range(test_backends()));
    graph::Backend& backend = tested == test_backends()[0] ? *floats_on_cpu : *tested;
    const std::string name = GENERATE(
        "decoders/llama_gqa_odd", "decoders/llama3_scaled_bf16", "decoders/mistral_window", "decoders/qwen2",
        "decoders/qwen3", "decoders/smollm3", "decoders/gemma", "decoders/gemma2", "decoders/gemma3_scaled",
        "decoders/phi3", "decoders/phi3_longrope", "decoders/gpt2", "transformers_5/llama_own_head",
        "transformers_5/phi3_partial", "transformers_5/llama_linear_beside", "decoders/mixtral",
        "decoders/mixtral_window_odd", "decoders/qwen2_moe", "decoders/qwen3_moe", "decoders/olmoe",
        "transformers_5/mixtral_in_memory", "transformers_5/olmoe", "transformers_5/qwen3_moe", "decoders/gpt_oss",
        "decoders/gpt_oss_mxfp4", "decoders/granite", "decoders/granite_tied_biased_bf16", "decoders/granite_moe",
        "decoders/granite_moe_shared", "decoders/granite_hybrid", "decoders/granite_hybrid_moe", "decoders/nemotron_h",
        "decoders/nemotron_h_moe", "decoders/lfm2", "decoders/lfm2_moe", "decoders/qwen3_5", "decoders/qwen3_5_moe",
        "decoders/qwen3_next", "decoders/deepseek_v2", "decoders/deepseek_v3", "decoders/olmo2",
        "decoders/olmo3_listed", "decoders/olmo3_yarn", "decoders/starcoder2", "decoders/phi", "decoders/gpt_neox_tanh",
        "decoders/gpt_neox_serial", "decoders/glm4", "decoders/glm4_plain", "decoders/glm4_moe",
        "decoders/glm4_moe_groups", "decoders/seed_oss", "decoders/seed_oss_biased", "decoders/exaone4",
        "decoders/exaone4_full", "decoders/exaone4_listed", "decoders/hunyuan_dense", "decoders/ernie4_5",
        "decoders/ernie4_5_moe", "decoders/cohere", "decoders/cohere2");
    CAPTURE(backend.name(), name);
    const TemporaryFolder folder;
    copy_model(name, folder.path() / "model");
    const auto contents = must(exported_to_gguf(folder.path() / "model", DType::f32));
    must(formats::write_gguf(folder / "model.gguf", contents.metadata, contents.tensors));
    const Decoder model = must(load_decoder(folder / "model.gguf"));
    const Golden golden(name + "/golden.safetensors");
    const auto len = static_cast<std::uint32_t>(golden.shape("input_ids")[1]);
    const auto run = run_in_pieces(model, backend, golden, DType::f32, {len});
    const std::vector<double> expected = golden.doubles("logits");
    CHECK(relative_error(std::span<const double>(run.logits), std::span<const double>(expected)) < kModelBound);
    CHECK(model.config().max_positions == must(load_decoder(folder.path() / "model")).config().max_positions);
}

TEST_CASE("a folder becomes what the converter's conventions make of it, tensor by tensor", "[models][decoder][gguf]") {
    const std::string name = GENERATE(
        "llama_gqa_odd", "llama3_scaled_bf16", "smollm3", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_scaled", "phi3",
        "phi3_longrope", "gpt2", "mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss", "gpt_oss_mxfp4", "granite",
        "granite_moe", "granite_moe_shared", "granite_hybrid", "granite_hybrid_moe", "nemotron_h", "nemotron_h_moe",
        "lfm2", "lfm2_moe", "qwen3_5", "qwen3_5_moe", "qwen3_next", "deepseek_v2_groups", "deepseek_v3", "olmo2",
        "olmo3_listed", "starcoder2", "phi", "gpt_neox_tanh", "glm4", "glm4_plain", "glm4_moe", "seed_oss",
        "seed_oss_biased", "exaone4", "exaone4_full", "ernie4_5", "ernie4_5_moe", "cohere", "cohere2");
    CAPTURE(name);
    const TemporaryFolder folder;
    const auto found = exported_file("decoders/" + name, DType::f32, folder);
    const auto wanted = must(formats::Gguf::open(goldens_dir() / "gguf_decoders" / (name + ".gguf")));
    // What the converter writes too, of fields that the goldens' script passes over, and what GGUF readers need no key for.
    const std::set<std::string_view> further = {
        "rope.freq_base_swa",       "rope.scaling.yarn_truncate", "rope.scaling.finetuned", "rope.dimension_sections",
        "attention.sliding_window", "attention.head_count_kv",    "feed_forward_length",    "rope.dimension_count",
        "attention.key_length",     "attention.value_length",     "rope.freq_base"};
    // What it writes though it is so anyway.
    const std::set<std::string_view> needless = {"rope.scaling.type", "expert_group_count", "expert_group_used_count"};
    const auto own_key = [&](std::string_view key) { return key.substr(key.find('.') + 1); };
    for (const formats::GgufValue& value : wanted.values()) {
        if (value.key.starts_with("tokenizer.") || own_key(value.key) == "rope.dimension_sections") continue;
        if (value.key.starts_with("general.") && value.key != "general.architecture") continue;
        CAPTURE(value.key);
        const formats::GgufValue* const own = found.find(value.key);
        if (!own && needless.contains(own_key(value.key))) continue;
        REQUIRE(own);
        CHECK(own->type == value.type);
        CHECK(std::ranges::equal(own->encoded, value.encoded));
    }
    for (const formats::GgufValue& value : found.values()) {
        CAPTURE(value.key);
        CHECK((value.key.starts_with("general.") || value.key.starts_with("tokenizer.") || wanted.has(value.key) ||
               further.contains(own_key(value.key))));
    }
    CHECK(found.tensors().size() == wanted.tensors().size());
    for (const formats::GgufTensor& tensor : wanted.tensors()) {
        CAPTURE(tensor.name);
        const TensorData golden = must(wanted.weights().get(tensor.name)), own = must(found.weights().get(tensor.name));
        CHECK(own.shape == golden.shape);
        CHECK(own.dtype == (golden.dtype == DType::mxfp4 ? DType::mxfp4 : DType::f32));
        const std::vector<float> values = values_in(own), expected = values_in(golden);
        REQUIRE(values.size() == expected.size());
        for (std::size_t i = 0; i < values.size(); ++i)
            REQUIRE(values[i] == Approx(expected[i]).epsilon(1e-6));  // exponentials are rounded by other libraries
    }
}

TEST_CASE("stacks and joined rows are stored in blocks as whole tensors are", "[models][decoder][gguf]") {
    const std::string name = GENERATE("mixtral", "qwen2_moe", "gpt_oss", "granite_moe_shared", "granite_hybrid_moe",
                                      "nemotron_h_moe", "lfm2_moe", "qwen3_5", "qwen3_5_moe", "qwen3_next", "phi3");
    const DType dtype = GENERATE(DType::q8_0, DType::q4_0);
    CAPTURE(name, to_string(dtype));
    const TemporaryFolder folder;
    const auto plain = exported_file("decoders/" + name, DType::f32, folder);
    const auto expected = must(requantized(plain, dtype));
    must(formats::write_gguf(folder / "blocks.gguf", expected.metadata, expected.tensors));
    const auto wanted = must(formats::Gguf::open(folder / "blocks.gguf"));
    const auto found = exported_file("decoders/" + name, dtype, folder);
    bool has_blocks = false;
    for (const formats::GgufTensor& tensor : wanted.tensors()) {
        CAPTURE(tensor.name);
        const TensorData golden = must(wanted.weights().get(tensor.name)), own = must(found.weights().get(tensor.name));
        CHECK(own.dtype == golden.dtype);
        CHECK(own.shape == golden.shape);
        CHECK(std::ranges::equal(own.bytes, golden.bytes));
        has_blocks |= is_quantized(own.dtype);
    }
    CHECK(has_blocks == (name.starts_with("qwen3_") || name == "phi3"));
}

TEST_CASE("experts in MXFP4 stay what they are, whatever the others become", "[models][decoder][gguf]") {
    const DType dtype = GENERATE(DType::f16, DType::q8_0);
    const TemporaryFolder folder;
    const auto found = exported_file("decoders/gpt_oss_mxfp4", dtype, folder);
    const auto wanted = must(formats::Gguf::open(goldens_dir() / "gguf_decoders" / "gpt_oss_mxfp4.gguf"));
    for (const char* const name :
         {"blk.0.ffn_gate_exps.weight", "blk.3.ffn_up_exps.weight", "blk.2.ffn_down_exps.weight"}) {
        const TensorData own = must(found.weights().get(name));
        CHECK(own.dtype == DType::mxfp4);
        CHECK(std::ranges::equal(own.bytes, must(wanted.weights().get(name)).bytes));
    }
    CHECK(must(found.weights().get("blk.0.attn_q.weight")).dtype == dtype);
}

TEST_CASE("a hybrid whose layers all attend is a file of the plain architecture", "[models][decoder][gguf]") {
    // The layer of granite_hybrid that attends, alone.
    const TemporaryFolder folder;
    json config = read_json(goldens_dir() / "decoders/granite_hybrid/config.json");
    config["num_hidden_layers"] = 1;
    config["layer_types"] = {"attention"};
    config["position_embedding_type"] = GENERATE("rope", "nope");
    copy_model_with("decoders/granite_hybrid", folder.path() / "one", config, [](const std::string& name) {
        const std::size_t at = name.find("layers.2.");
        if (at == name.npos) return name.find("layers.") == name.npos ? name : std::string();
        return std::string(name).replace(at, 9, "layers.0.");
    });
    const auto contents = must(exported_to_gguf(folder.path() / "one", DType::f32));
    must(formats::write_gguf(folder / "one.gguf", contents.metadata, contents.tensors));
    const auto file = must(formats::Gguf::open(folder / "one.gguf"));
    CHECK(must(file.string("general.architecture")) == "granite");
    const Decoder model = must(load_decoder(folder / "one.gguf")), before = must(load_decoder(folder.path() / "one"));
    CHECK(model.config().layers[0].rope == before.config().layers[0].rope);
    const std::vector<std::int32_t> ids = {5, 3, 9, 1, 7, 7};
    graph::Backend& backend = *test_backends().front();
    const auto found = run_in_pieces(model, backend, ids, 1, DType::f32, {6});
    const auto expected = run_in_pieces(before, backend, ids, 1, DType::f32, {6});
    CHECK(relative_error(std::span<const double>(found.logits), std::span<const double>(expected.logits)) <
          kModelBound);
}

TEST_CASE("what llama.cpp asks for and a model has not is written all the same", "[models][decoder][gguf]") {
    const auto stored = [](const std::string& name, const json& fields, std::string_view left_out, const char* tensor) {
        const TemporaryFolder folder;
        json config = read_json(goldens_dir() / name / "config.json");
        config.update(fields);
        copy_model_with(name, folder.path() / "model", config,
                        [&](const std::string& old) { return old.find(left_out) == old.npos ? old : std::string(); });
        const auto contents = must(exported_to_gguf(folder.path() / "model", DType::q8_0));
        CAPTURE(name, tensor);
        const auto found = std::ranges::find(contents.tensors, tensor, &formats::OutputTensor::name);
        REQUIRE(found != contents.tensors.end());
        return values_in(found->source);
    };
    const auto zeros = [](std::size_t size) { return std::vector<float>(size); };
    CHECK(stored("decoders/nemotron_h", {{"use_conv_bias", false}}, "conv1d.bias", "blk.0.ssm_conv1d.bias") ==
          zeros(6 * 9 + 2 * 3 * 7));
    CHECK(stored("decoders/lfm2_moe", {{"use_expert_bias", false}}, "expert_bias", "blk.1.exp_probs_b.bias") ==
          zeros(7));
    CHECK(stored("decoders/gpt_oss", {{"attention_bias", false}}, "_proj.bias", "blk.3.attn_k.bias") == zeros(2 * 10));
    CHECK(stored("decoders/gpt_oss", {{"attention_bias", false}}, "_proj.bias", "blk.0.attn_output.bias") == zeros(23));
    for (const char* const name : {"decoders/gpt_oss", "decoders/olmoe", "decoders/qwen2_moe"})
        CHECK(stored(name, {{"tie_word_embeddings", true}}, "lm_head", "output.weight") ==
              values_in(must(must(formats::open_weights(goldens_dir() / name)).get("model.embed_tokens.weight"))));
}

TEST_CASE("attention of a hybrid in no regular layers is refused by name", "[models][decoder][gguf][errors]") {
    // qwen3_5 with its second layer and its fourth, which attends, in each other's place.
    const TemporaryFolder folder;
    json config = read_json(goldens_dir() / "decoders/qwen3_5/config.json");
    std::swap(config["layer_types"][1], config["layer_types"][3]);
    copy_model_with("decoders/qwen3_5", folder.path() / "model", config, [](std::string name) {
        if (const std::size_t at = name.find("layers."); at != name.npos && name[at + 8] == '.') {
            char& layer = name[at + 7];
            layer = layer == '1' ? '3' : layer == '3' ? '1' : layer;
        }
        return name;
    });
    const auto contents = exported_to_gguf(folder.path() / "model", DType::f32);
    REQUIRE_FALSE(contents);
    CHECK_THAT(contents.error().message, ContainsSubstring("in the layers whose number is a multiple of 2"));
}

TEST_CASE("notes say what a file is without, and what llama.cpp makes of it", "[models][decoder][gguf]") {
    const auto notes_of_export = [](const std::string& name, const auto& change) {
        const TemporaryFolder folder;
        copy_model(name, folder.path() / "model");
        json config = read_json(folder.path() / "model/config.json");
        change(config);
        write_json(folder.path() / "model/config.json", config);
        std::string all;
        for (const std::string& note : other_notes(must(exported_to_gguf(folder.path() / "model", DType::f32))))
            all += note + "\n";
        return all;
    };
    const auto as_it_is = [](json&) {};
    CHECK(notes_of_export("decoders/qwen3_moe", as_it_is).empty());
    CHECK(notes_of_export("decoders/granite_hybrid_moe", as_it_is).empty());
    CHECK_THAT(notes_of_export("decoders/qwen2_moe", as_it_is),
               ContainsSubstring("loads no file of the architecture qwen2moe"));
    CHECK_THAT(notes_of_export("transformers_5/olmoe", as_it_is), ContainsSubstring("olmoe whose heads share keys"));
    CHECK_THAT(notes_of_export("decoders/seed_oss_biased", as_it_is), ContainsSubstring("with other biases"));
    CHECK(notes_of_export("decoders/seed_oss", as_it_is).empty());
    CHECK_THAT(notes_of_export("decoders/exaone4", as_it_is), ContainsSubstring("but with 64 layers"));
    CHECK(notes_of_export("decoders/cohere2", as_it_is).empty());
    CHECK_THAT(notes_of_export("decoders/mixtral_window_odd", as_it_is),
               ContainsSubstring("the attention window of 5"));
    CHECK_THAT(notes_of_export("decoders/qwen3_5_with_vision",
                               [](json& config) { config["text_config"]["attention_bias"] = false; }),
               ContainsSubstring("the vision tower is left out") && ContainsSubstring("self_attn.k_proj.bias\" and"));
    // A head that is one of the layers behind the model.
    const TemporaryFolder folder;
    json config = read_json(goldens_dir() / "decoders/qwen3_5/config.json");
    config["tie_word_embeddings"] = true;
    copy_model_with("decoders/qwen3_5", folder.path() / "model", config, [](const std::string& name) {
        return name == "lm_head.weight" ? std::string("mtp.fc.weight") : name;
    });
    const auto contents = must(exported_to_gguf(folder.path() / "model", DType::f32));
    const auto notes = other_notes(contents);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], ContainsSubstring("(mtp.) are left out"));
}

TEST_CASE("Gemma 3's language model is exported without its vision tower", "[models][decoder][gguf]") {
    const TemporaryFolder folder;
    const auto text = folder.path() / "text", whole = folder.path() / "whole";
    copy_model("decoders/gemma3_scaled", text);
    copy_model("decoders/gemma3_scaled", whole);
    write_json(whole / "config.json", {{"model_type", "gemma3"},
                                       {"text_config", read_json(text / "config.json")},
                                       {"vision_config", json::object()}});
    std::vector<formats::NamedTensor> tensors = {numbered_tensor("vision_tower.post_layernorm.weight", {4})};
    const auto weights = must(formats::open_weights(text));
    for (const auto& [name, data] : weights.tensors()) tensors.push_back({"language_model." + std::string(name), data});
    must(formats::write_safetensors(whole / "model.safetensors", tensors));
    const auto alone = must(exported_to_gguf(text, DType::f32)), part = must(exported_to_gguf(whole, DType::f32));
    CHECK(other_notes(alone).empty());
    REQUIRE(other_notes(part).size() == 1);
    CHECK_THAT(other_notes(part)[0], ContainsSubstring("the vision tower is left out"));
    REQUIRE(part.tensors.size() == alone.tensors.size());
    for (std::size_t i = 0; i < part.tensors.size(); ++i) {
        CHECK(part.tensors[i].name == alone.tensors[i].name);
        CHECK(values_in(part.tensors[i].source) == values_in(alone.tensors[i].source));
    }
}

TEST_CASE("what llama.cpp computes otherwise than the folder is refused by name", "[models][decoder][gguf][errors]") {
    const auto refused_with = [](const std::string& name, const std::string& field, const json& value) {
        const TemporaryFolder folder;
        copy_model(name, folder.path() / "model");
        json config = read_json(folder.path() / "model/config.json");
        if (!field.empty()) config[field] = value;
        write_json(folder.path() / "model/config.json", config);
        const auto contents = exported_to_gguf(folder.path() / "model", DType::f32);
        REQUIRE_FALSE(contents);
        CHECK(contents.error().code == ErrorCode::UnsupportedConfig);
        return contents.error().message;
    };
    const auto check = [&](const std::string& name, const std::string& words, const std::string& field = "",
                           const json& value = {}) {
        CAPTURE(name, words);
        CHECK_THAT(refused_with(name, field, value), ContainsSubstring(words));
    };
    check("decoders/gemma2_no_caps", "\"query_pre_attn_scalar\" is 22");
    check("decoders/gemma2_no_caps", "\"attn_logit_softcapping\" is missing", "query_pre_attn_scalar", 16);
    check("decoders/gemma3", "\"query_pre_attn_scalar\" is 20");
    std::vector<std::string> kinds(6, "sliding_attention");
    kinds.front() = "full_attention";
    check("decoders/gemma3_scaled", "\"layer_types\"", "layer_types", kinds);
    check("decoders/llama_biased_linear", "\"hidden_act\" is \"gelu\"");
    check("decoders/gpt2_inner_relu", "\"activation_function\" is \"relu\"");
    check("decoders/gpt2", "\"scale_attn_weights\" is false", "scale_attn_weights", false);
    check("decoders/gemma", "\"hidden_act\" is \"gelu\"", "hidden_act", "gelu");
    check("decoders/smollm3", "\"no_rope_layers\"", "no_rope_layers", {0, 1, 1, 0, 1});
    check("decoders/qwen2_tied_window_bf16", "\"layer_types\"");
    check("decoders/llama_yarn", "\"rope_type\" is \"yarn\"");
    check("transformers_5/gemma_exact_gelu", "\"hidden_act\" is \"gelu\"");
    check("decoders/qwen3_tied_biased", "_proj.bias\" has no place in a GGUF file of the architecture qwen3");
    check("decoders/phi3", "\"rope_type\" is \"linear\"", "rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}});
    check("decoders/qwen2_moe_normalised", "\"norm_topk_prob\" is true, supported: false");
    check("decoders/olmoe_grouped", "\"norm_topk_prob\" is true, supported: false");
    check("decoders/qwen3_moe_dense_layers", "\"norm_topk_prob\" is false, supported: true");
    check("decoders/lfm2_moe_unbiased_scaled", "\"norm_topk_prob\" is false, supported: true");
    check("decoders/lfm2_moe", "\"routed_scaling_factor\" is 1.5", "routed_scaling_factor", 1.5);
    check("decoders/granite_hybrid_grouped", "\"time_step_limit\"");
    check("decoders/granite_hybrid_grouped", "\"mamba_n_groups\" is 2", "time_step_limit", nullptr);
    check("decoders/nemotron_h", "\"time_step_limit\" is [0.1,0.5]", "time_step_limit", {0.1, 0.5});
    check("decoders/nemotron_h", "\"mlp_hidden_act\" is \"relu\", supported: relu2", "mlp_hidden_act", "relu");
    check("decoders/nemotron_h_moe_biased", "supported: experts in all feed-forward layers or in none");
    check("decoders/lfm2_biased_bf16", "conv.in_proj.bias\" has no place in a GGUF file of the architecture lfm2");
    check("decoders/qwen3_5_odd_tied", "q_proj.bias\" has no place in a GGUF file of the architecture qwen35");
    check("decoders/gpt_oss_tied_bf16", "\"layer_types\"");
    check("decoders/olmo2_grouped", "_proj.bias\" has no place in a GGUF file of the architecture olmo2");
    check("decoders/gpt_neox", "\"hidden_act\" is \"gelu\", supported: gelu_pytorch_tanh");
    check("decoders/phi_normed_heads", "\"qk_layernorm\" is true");
    check("decoders/hunyuan_dense_biased", "bias\" has no place in a GGUF file of the architecture hunyuan-dense");
    check("decoders/ernie4_5_biased", "bias\" has no place in a GGUF file of the architecture ernie4_5");
    check("decoders/ernie4_5_moe_biased", "\"moe_layer_end_index\" is 4");
    check("decoders/cohere_normed", "bias\" has no place in a GGUF file of the architecture command-r");
    check("decoders/cohere2_listed", "\"layer_types\"");
    kinds.assign(4, "sliding_attention");
    kinds.back() = "full_attention";
    check("decoders/cohere2_listed", "\"tie_word_embeddings\" is false", "layer_types", kinds);
    check(
        "decoders/olmo3_yarn", "\"attention_factor\" is 1.5", "rope_scaling",
        {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}, {"attention_factor", 1.5}});
    json yarn = read_json(goldens_dir() / "decoders/gpt_oss/config.json")["rope_parameters"];
    yarn["attention_factor"] = 1.5;
    check("decoders/gpt_oss", "\"attention_factor\" is 1.5", "rope_parameters", yarn);
    check("decoders/deepseek_v3_halves", "\"rope_interleave\" is false");
    check("decoders/deepseek_v3_halves", "\"mscale\" is 0.7", "rope_interleave", true);
    check("decoders/deepseek_v2_biased_bf16",
          "q_a_proj.bias\" has no place in a GGUF file of the architecture deepseek2");
    check("decoders/deepseek_v2", "\"rms_norm_eps\" is 1e-05, supported: 1e-6", "rms_norm_eps", 1e-5);
    check("decoders/granite_moe", "\"rope_type\" is \"yarn\"", "rope_parameters",
          {{"rope_type", "yarn"}, {"factor", 2.0}});
}

TEST_CASE("what has no place in a GGUF file is refused by name", "[models][gguf]") {
    const auto changed = [](const char* key, json value) {
        json config = llama_config();
        config[key] = std::move(value);
        return config;
    };
    CHECK_THAT(refused_export(changed("model_type", "mamba")),
               ContainsSubstring("\"mamba\", supported: llama, mistral"));
    CHECK_THAT(refused_export(changed("hidden_act", "gelu")), ContainsSubstring("\"hidden_act\" is \"gelu\""));
    CHECK_THAT(refused_export(changed("rope_scaling", {{"rope_type", "yarn"}})), ContainsSubstring("\"yarn\""));
    const auto vocabulary = exported_to_gguf(LlamaFolder("bpe-pieces", changed("vocab_size", 100)).path(), DType::f32);
    REQUIRE_FALSE(vocabulary);
    CHECK_THAT(vocabulary.error().message, ContainsSubstring("config.json says \"vocab_size\" is 100"));
    const auto words = exported_to_gguf(LlamaFolder("bpe-words").path(), DType::f32);
    REQUIRE_FALSE(words);
    CHECK(words.error().code == ErrorCode::UnsupportedConfig);
}

}  // namespace vkformer::tests
