// SPDX-License-Identifier: MIT
/// Adapters on the command line.
#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "formats/safetensors.hpp"
#include "models/adapter_case.hpp"
#include "models/model_case.hpp"
#include "support/bounds.hpp"
#include "support/goldens.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

std::string joined(const nlohmann::json& numbers, std::size_t count) {
    std::ostringstream text;
    for (std::size_t i = 0; i < count; ++i) text << (i ? "," : "") << numbers[i].get<int>();
    return text.str();
}

const std::string kBase = " -q -d cpu -m " + quoted(goldens_dir() / "decoders" / "llama_gqa_odd");

std::string lora(const std::string& name, const std::string& scale = "") {
    return " --lora " + quoted(adapter_folder(name)) + scale;
}

}  // namespace

TEST_CASE("generate: adapters count as much as is said", "[cli][generate][adapter]") {
    for (const std::string name : {"llama_gqa_odd", "llama_gqa_odd_second"}) {
        const nlohmann::json golden = read_json(adapter_folder(name) / "greedy.json");
        const std::string prompt =
            "generate -n 24 --prompt-tokens " + joined(golden["prompt"], golden["prompt"].size()) + kBase;
        const std::string expected = joined(golden["continuation"], 24) + "\n";
        CHECK(run(prompt + lora(name)).out == expected);
        CHECK(run(prompt + lora(name, "=1.0")).out == expected);
        CHECK(run(prompt + lora("llama_gqa_odd_second", name == "llama_gqa_odd" ? "=0" : "=1") +
                  lora("llama_gqa_odd", name == "llama_gqa_odd" ? "" : "=0"))
                  .out == expected);
        CHECK(run(prompt + lora(name, "=0")).out == run(prompt).out);
        CHECK(run(prompt).out != expected);
    }
    refuses("generate --prompt-tokens 1" + kBase + lora("llama_gqa_odd", "=1e9"), "an adapter's scale is");
    refuses("generate --prompt-tokens 1" + kBase + " --lora /nowhere", "/nowhere is no adapter");
    refuses("generate --prompt-tokens 1" + kBase + lora("gpt2_by_root"),
            "adapter_model.safetensors: the adapter changes");
    refuses("generate --prompt-tokens 1" + kBase + lora("llama_gqa_odd", "=0,5"), "\"0,5\" is no number");
    refuses("generate --prompt-tokens 1" + kBase + lora("llama_gqa_odd", "=1e99"), "\"1e99\" is no number");
    const TemporaryFolder folder;
    std::filesystem::copy(adapter_folder("gpt2_by_root"), folder / "run=0");  // a name, not a scale
    refuses("generate --prompt-tokens 1" + kBase + " --lora " + quoted(folder / "run=0"), "the adapter changes");
    refuses("chat" + kBase + " --lora /nowhere", "/nowhere is no adapter");
}

TEST_CASE("forward: with adapters, what PEFT gives", "[cli][forward][adapter]") {
    const TemporaryFolder folder;
    const Golden golden("adapters/llama_gqa_odd_second/mixed.safetensors");
    const auto file = must(formats::Safetensors::open(adapter_folder("llama_gqa_odd_second") / "mixed.safetensors"));
    must(formats::write_safetensors(folder / "in.safetensors",
                                    std::vector<formats::NamedTensor>{{"input_ids", *file.find("input_ids")}}));
    const std::string from =
        "forward" + kBase + " -i " + quoted(folder / "in.safetensors") + " -o " + quoted(folder / "out.safetensors");
    const Outcome outcome = run(from + lora("llama_gqa_odd", "=0.5") + lora("llama_gqa_odd_second", "=-1.25"));
    CHECK(outcome.err.empty());
    REQUIRE(outcome.exit_code == 0);
    const auto result = must(formats::Safetensors::open(folder / "out.safetensors"));
    std::vector<float> found(result.find("logits")->shape.element_count());
    must(convert(DType::f32, result.find("logits")->bytes, 0, std::span(found)));
    const std::vector<double> wide(found.begin(), found.end()), expected = golden.doubles("logits");
    CHECK(relative_error(std::span<const double>(wide), std::span<const double>(expected)) < kModelBound);
    refuses("forward -q -d cpu -m " + quoted(goldens_dir() / "marian" / "relu_d30_h5_h3") + " -i " +
                quoted(folder / "in.safetensors") + " -o /dev/null" + lora("llama_gqa_odd"),
            "only decoder-only language models and encoders of texts take adapters");
}

TEST_CASE("forward, embed and rerank: text encoders have adapters", "[cli][forward][adapter]") {
    const TemporaryFolder folder;
    const auto adapters = goldens_dir() / "encoder_adapters";
    const Golden golden("encoder_adapters/jina_passage/mixed.safetensors");
    const auto file = must(formats::Safetensors::open(adapters / "jina_passage" / "mixed.safetensors"));
    std::vector<formats::NamedTensor> inputs;
    for (const char* const name : {"input_ids", "attention_mask", "token_type_ids"})
        inputs.push_back({name, *file.find(name)});
    must(formats::write_safetensors(folder / "in.safetensors", inputs));
    const Outcome outcome =
        run("forward -q -d cpu -m " + quoted(goldens_dir() / "modern_encoders" / "jina_v3_h24") + " -i " +
            quoted(folder / "in.safetensors") + " -o " + quoted(folder / "out.safetensors") + " --lora " +
            quoted(adapters / "jina_query") + "=0.5 --lora " + quoted(adapters / "jina_passage") + "=-1.25");
    CHECK(outcome.err.empty());
    REQUIRE(outcome.exit_code == 0);
    const auto result = must(formats::Safetensors::open(folder / "out.safetensors"));
    std::vector<float> found(result.find("last_hidden_state")->shape.element_count());
    must(convert(DType::f32, result.find("last_hidden_state")->bytes, 0, std::span(found)));
    std::vector<double> wide(found.begin(), found.end());
    const std::vector<std::int32_t> mask = golden.ints("attention_mask");
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] *= mask[i / (wide.size() / mask.size())];
    check_golden(wide, golden, "last_hidden_state", kModelBound);

    write_adapter(folder / "adapter", {{"encoder.layer.0.attention.self.query", 20, 20}});
    for (const auto& [command, words] :
         {std::pair{"embed", "embedder\" \"a cat\""}, std::pair{"rerank", "cross_encoder\" \"a cat\" \"the mat\""}}) {
        const std::string base =
            std::string(command) + " -q -d cpu -m \"" + (goldens_dir() / "sentences").string() + "/" + words;
        const std::string with = " --lora " + quoted(folder / "adapter");
        const std::string plain = run(base).out;
        CHECK_FALSE(plain.empty());
        CHECK(run(base + with + "=0").out == plain);
        CHECK(run(base + with).out != plain);
        refuses(base + with + "=1e9", "an adapter's scale is");
        refuses(base + " --lora /nowhere", "/nowhere is no adapter");
    }
}

}  // namespace vkformer::tests

#endif
