// SPDX-License-Identifier: MIT
/// Adapters that are refused, and what is not a reason to.
#include <algorithm>
#include <array>
#include <limits>

#include "formats/gguf_writer.hpp"
#include "models/adapter_case.hpp"
#include "models/changed_golden.hpp"
#include "models/gguf_export.hpp"
#include "support/goldens.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {

TEST_CASE("an adapter's config that asks for something else is refused by the field's name", "[models][adapter]") {
    const auto [fields, words] = GENERATE(table<nlohmann::json, std::string>({
        {{{"peft_type", "ADALORA"}}, "\"peft_type\" is \"ADALORA\", supported: LORA"},
        {{{"peft_type", nullptr}}, "\"peft_type\" is missing"},
        {{{"bias", "all"}}, "\"bias\" is \"all\", supported: none"},
        {{{"use_dora", true}}, "\"use_dora\" is true, supported: false"},
        {{{"lora_bias", true}}, "\"lora_bias\" is true, supported: false"},
        {{{"use_qalora", true}}, "\"use_qalora\""},
        {{{"ensure_weight_tying", true}}, "\"ensure_weight_tying\""},
        {{{"modules_to_save", {"lm_head"}}}, "\"modules_to_save\""},
        {{{"target_parameters", {"experts.gate_up_proj"}}}, "\"target_parameters\""},
        {{{"trainable_token_indices", {1, 2}}}, "\"trainable_token_indices\""},
        {{{"alora_invocation_tokens", {1, 2}}}, "\"alora_invocation_tokens\""},
        {{{"layer_replication", {{0, 2}}}}, "\"layer_replication\""},
        {{{"kasa_config", {{"beta", 1}}}}, "\"kasa_config\""},
        {{{"a_field_of_tomorrow", 3}}, "\"a_field_of_tomorrow\" is 3, supported: no such field"},
        {{{"init_lora_weights", "pissa"}}, "\"init_lora_weights\" is \"pissa\""},
        {{{"lora_alpha", nullptr}}, "\"lora_alpha\" is missing"},
        {{{"lora_alpha", "much"}}, "\"lora_alpha\""},
        {{{"alpha_pattern", {{"q_proj|k_proj", 3}}}}, "\"q_proj|k_proj\""},
        {{{"alpha_pattern", {{"mlp.up_proj", 12}, {"up_proj", 99}}}}, "\"up_proj\" is 99, supported: one number"},
    }));
    CAPTURE(fields.dump());
    const TemporaryFolder folder;
    write_adapter(folder / "adapter", modules_of_decoder_text(), 4, 1, fields);
    const auto opened = models::open_adapter(folder / "adapter");
    REQUIRE_FALSE(opened);
    CHECK_THAT(opened.error().message, Catch::Matchers::ContainsSubstring(words));
    CHECK_THAT(opened.error().message, Catch::Matchers::ContainsSubstring("adapter_config.json"));
}

TEST_CASE("fields that say nothing, or how an adapter was made, are no reason to refuse it", "[models][adapter]") {
    const TemporaryFolder folder;
    write_adapter(folder / "adapter", modules_of_decoder_text(), 4, 1,
                  {{"init_lora_weights", "gaussian"},
                   {"modules_to_save", nlohmann::json::array()},
                   {"loftq_config", nlohmann::json::object()},
                   {"use_dora", false},
                   {"revision", "main"},
                   {"target_modules", "all-linear"},
                   {"alpha_pattern", {{"mlp.up_proj", 12}, {"up_proj", 12}, {"n_proj", 7}}}});
    const auto adapter = must(models::open_adapter(folder / "adapter"));
    CHECK(adapter.updates.size() == 4);
    CHECK(adapter.updates.at("model.layers.0.mlp.up_proj.weight").scale == 3);
    CHECK(adapter.updates.at("model.layers.1.mlp.down_proj.weight").scale == 2);  // n_proj is no name of it
    CHECK(adapter.updates.at("model.layers.0.self_attn.q_proj.weight").scale == 2);
}

namespace {

/// A golden adapter with tensors taken out and put in.
std::filesystem::path changed_adapter(const TemporaryFolder& folder, const std::string& without,
                                      const std::vector<formats::NamedTensor>& further) {
    const auto path = folder / "adapter";
    std::filesystem::create_directory(path);
    std::filesystem::copy_file(adapter_folder("llama_gqa_odd") / "adapter_config.json", path / "adapter_config.json");
    const auto file = must(formats::Safetensors::open(adapter_folder("llama_gqa_odd") / "adapter_model.safetensors"));
    std::vector<formats::NamedTensor> tensors = further;
    for (const auto& [name, data] : file.tensors())
        if (name != without && std::ranges::none_of(further, [&](const auto& other) { return other.name == name; }))
            tensors.push_back({name, data});
    must(formats::write_safetensors(path / "adapter_model.safetensors", tensors));
    return path;
}

}  // namespace

TEST_CASE("an adapter that does not fit the model is refused, and says what it changes", "[models][adapter]") {
    std::mt19937 random(1);
    const std::string q = "model.layers.0.self_attn.q_proj";
    const auto load = [](const std::filesystem::path& path) {
        return with_adapters(base_folder("llama_gqa_odd"), {path});
    };
    SECTION("a half is missing") {
        const TemporaryFolder folder;
        const char half = GENERATE('A', 'B');
        const auto loaded = load(changed_adapter(folder, peft_name(q, half), {}));
        REQUIRE_FALSE(loaded);
        CHECK(loaded.error().code == ErrorCode::MissingTensor);
        CHECK_THAT(loaded.error().message, Catch::Matchers::ContainsSubstring(q));
    }
    SECTION("another shape") {
        const TemporaryFolder folder;
        check_refused(load(changed_adapter(folder, "", {{peft_name(q, 'A'), random_matrix(5, 22, random)}})),
                      ErrorCode::ShapeMismatch, q + ".weight have shapes [5, 22] and [30, 5]");
    }
    SECTION("no rank in common") {
        const TemporaryFolder folder;
        check_refused(load(changed_adapter(folder, "", {{peft_name(q, 'A'), random_matrix(4, 21, random)}})),
                      ErrorCode::ShapeMismatch, "no rank in common");
    }
    SECTION("a vector") {
        const TemporaryFolder folder;
        TensorData vector = random_matrix(5, 21, random);
        vector.shape = {105};
        check_refused(load(changed_adapter(folder, "", {{peft_name(q, 'A'), vector}})), ErrorCode::ShapeMismatch,
                      "expected a matrix");
    }
    SECTION("a number that is none") {
        const TemporaryFolder folder;
        TensorData broken = random_matrix(5, 21, random);
        auto* const values = static_cast<float*>(const_cast<void*>(static_cast<const void*>(broken.bytes.data())));
        values[17] = std::numeric_limits<float>::infinity();
        check_refused(load(changed_adapter(folder, "", {{peft_name(q, 'A'), broken}})), ErrorCode::CorruptFile,
                      "infinite or no number");
    }
    SECTION("a number that only float32 has") {
        const TemporaryFolder folder;
        TensorData large = random_matrix(30, 5, random);
        auto* const values = static_cast<float*>(const_cast<void*>(static_cast<const void*>(large.bytes.data())));
        values[17] = 7e4f;
        check_refused(load(changed_adapter(folder, "", {{peft_name(q, 'B'), large}})), ErrorCode::UnsupportedConfig,
                      "above 65504");
    }
    SECTION("a scale that float16 has not") {
        for (const std::uint32_t alpha : {4 * 65504u, 4 * 65505u}) {
            const TemporaryFolder folder;
            write_adapter(folder / "adapter", {{q, 30, 21}}, 4, 1, {{"lora_alpha", alpha}});
            const auto loaded = load(folder / "adapter");
            if (alpha == 4 * 65504u)
                CHECK(loaded);
            else
                check_refused(loaded, ErrorCode::UnsupportedConfig, "alpha / rank is 65505");
        }
    }
    SECTION("one weight by two names") {
        const TemporaryFolder folder;
        write_adapter(folder / "adapter", {{q, 30, 21}, {"layers.0.self_attn.q_proj", 30, 21}});
        check_refused(load(folder / "adapter"), ErrorCode::UnsupportedConfig, "under two names");
    }
    SECTION("a weight that is not there") {
        const TemporaryFolder folder;
        const std::string other = "model.layers.7.self_attn.q_proj";
        check_refused(load(changed_adapter(folder, "",
                                           {{peft_name(other, 'A'), random_matrix(2, 21, random)},
                                            {peft_name(other, 'B'), random_matrix(30, 2, random)}})),
                      ErrorCode::UnsupportedConfig, "changes " + other + ".weight, which the model has not");
    }
    SECTION("what is no part of an adapter") {
        const TemporaryFolder folder;
        const std::string name =
            GENERATE("base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
                     "base_model.model.lm_head.weight", "model.layers.0.self_attn.q_proj.lora_A.weight");
        check_refused(load(changed_adapter(folder, "", {{name, random_matrix(2, 21, random)}})),
                      ErrorCode::UnsupportedConfig, name);
    }
    SECTION("the table of tokens") {
        const TemporaryFolder folder;
        const std::string table = "base_model.model.model.embed_tokens.lora_embedding_";
        const formats::NamedTensor down = {table + "A", random_matrix(2, 61, random)};
        check_refused(load(changed_adapter(folder, "", {down, {table + "B", random_matrix(21, 2, random)}})),
                      ErrorCode::UnsupportedConfig, "model.embed_tokens.weight");
        const TemporaryFolder half;
        check_refused(load(changed_adapter(half, "", {down})), ErrorCode::MissingTensor, table + "B");
    }
    SECTION("a head that was trained itself") {
        const TemporaryFolder folder;
        // Twice the same: what is mapped is not written anew on Windows.
        write_adapter(folder / "read", {{"lm_head", 61, 21}});
        write_adapter(folder / "adapter", {{"lm_head", 61, 21}});
        const auto own = must(formats::Safetensors::open(base_folder("llama_gqa_odd") / "model.safetensors"));
        const auto file = must(formats::Safetensors::open((folder / "read") / "adapter_model.safetensors"));
        const bool is_other = GENERATE(false, true);
        std::vector<formats::NamedTensor> tensors = {
            {"base_model.model.lm_head.base_layer.weight",
             is_other ? random_matrix(61, 21, random) : *own.find("lm_head.weight")}};
        for (const auto& [name, data] : file.tensors()) tensors.push_back({name, data});
        must(formats::write_safetensors((folder / "adapter") / "adapter_model.safetensors", tensors));
        if (is_other)
            check_refused(load(folder / "adapter"), ErrorCode::UnsupportedConfig,
                          "lm_head.weight is in the adapter's file");
        else
            CHECK(load(folder / "adapter"));
    }
    SECTION("experts and routers") {
        const TemporaryFolder folder;
        const std::string module =
            GENERATE("model.layers.0.block_sparse_moe.experts.1.w1", "model.layers.0.block_sparse_moe.gate");
        const std::uint64_t out = module.ends_with("gate") ? 5 : 27;
        write_adapter(folder / "adapter", {{module, out, 22}});
        check_refused(with_adapters(base_folder("mixtral"), {folder / "adapter"}), ErrorCode::UnsupportedConfig,
                      "changes " + module + ".weight, which takes none here");
    }
    SECTION("ranks beyond what is supported") {
        const TemporaryFolder folder;
        write_adapter(folder / "adapter", {{q, 30, 21}}, 4097);
        check_refused(load(folder / "adapter"), ErrorCode::UnsupportedConfig, "4097 together");
    }
    SECTION("no adapter at all") {
        const TemporaryFolder folder;
        check_refused(load(folder.path()), ErrorCode::FileNotFound, "adapter_config.json");
        check_refused(load(folder / "nothing"), ErrorCode::FileNotFound, "adapter_config.json");
        check_refused(load(base_file("llama_gqa_odd")), ErrorCode::UnsupportedConfig, "general.type");
        folder.write("adapter_config.json", R"({"peft_type": "LORA", "lora_alpha": 1})");
        folder.write("adapter_model.bin", "pickled");
        check_refused(load(folder.path()), ErrorCode::FileNotFound, "save the adapter again");
    }
    SECTION("another kind of file, or another architecture") {
        check_refused(load(adapter_folder("llama_gqa_odd") / "adapter.gguf"), ErrorCode::UnsupportedConfig,
                      "is an adapter of GGUF models");
        check_refused(with_adapters(base_file("llama_gqa_odd"), {adapter_folder("llama_gqa_odd")}),
                      ErrorCode::UnsupportedConfig, "convert_lora_to_gguf.py");
        check_refused(with_adapters(base_file("qwen2"), {adapter_folder("llama_gqa_odd") / "adapter.gguf"}),
                      ErrorCode::UnsupportedConfig, "of \"llama\" models, this one is \"qwen2\"");
    }
    SECTION("a key of adapters that is not known, as of one that counts from a token on") {
        const TemporaryFolder folder;
        const auto file = must(formats::Gguf::open(adapter_folder("llama_gqa_odd") / "adapter.gguf"));
        models::GgufContents contents = must(models::requantized(file, DType::f32));
        contents.metadata.set("adapter.alora.invocation_tokens", std::span<const std::int32_t>(std::array{1, 2}));
        must(formats::write_gguf(folder / "changed.gguf", contents.metadata, contents.tensors));
        check_refused(models::open_adapter(folder / "changed.gguf"), ErrorCode::UnsupportedConfig,
                      "adapter.alora.invocation_tokens");
    }
}

}  // namespace vkformer::tests
