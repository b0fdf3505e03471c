// SPDX-License-Identifier: MIT
#include "models/adapter.hpp"

#include <algorithm>

#include "cpu/backend.hpp"
#include "formats/gguf_writer.hpp"
#include "models/adapter_case.hpp"
#include "models/decoder_case.hpp"
#include "models/gguf_export.hpp"
#include "models/model_case.hpp"
#include "models/run_in_pieces.hpp"
#include "models/tiny_llama.hpp"
#include "models/weight_reader.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

/// The golden adapters with the golden decoders that they are of.
std::vector<std::pair<std::string, std::string>> adapter_cases() {
    std::vector<std::pair<std::string, std::string>> cases;
    for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / "adapters")) {
        const std::string base = read_json(entry.path() / "adapter_config.json")["base_model_name_or_path"];
        cases.emplace_back(entry.path().filename().string(), base);
    }
    std::ranges::sort(cases);
    return cases;
}

PiecewiseRun run_with(const models::Decoder& model, graph::Backend& backend, const Golden& golden, DType dtype,
                      const std::vector<std::uint32_t>& pieces, const std::vector<std::vector<float>>& scales) {
    return run_in_pieces(model, backend, golden.ints("input_ids"),
                         static_cast<std::uint32_t>(golden.shape("input_ids")[0]), dtype, pieces,
                         models::WeightFormat::as_computed, scales);
}

}  // namespace

TEST_CASE("a decoder with an adapter gives what PEFT gives, in one go, in chunks and token by token",
          "[models][adapter][golden]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    const auto [name, base] = GENERATE(from_range(adapter_cases()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), name, to_string(dtype));
    if (!takes_case(backend, 3)) return;
    const models::Decoder model = must(with_adapters(base_folder(base), {adapter_folder(name)}));
    const Golden golden("adapters/" + name + "/golden.safetensors");
    const double bound = rotary_bound(backend, dtype);
    for (const auto& pieces : {std::vector{12u}, std::vector{3u, 1u, 8u}, std::vector(12, 1u)}) {
        CAPTURE(pieces);
        const PiecewiseRun run = run_with(model, backend, golden, dtype, pieces, {{1}, {1}});
        check_golden(run.logits, golden, "logits", bound);
        check_golden(run.hidden, golden, "last_hidden_state", bound);
        if (dtype == DType::f16) break;  // the caches' rounding is in all of them
    }
}

TEST_CASE("a weight knows which rows of the file's tensor it has, taken apart twice", "[models][adapter]") {
    std::mt19937 random(3);
    const models::Projection whole = {.weight = random_matrix(10, 3, random),
                                      .origin = {.tensor = "w", .rows = 10, .ranges = {{0, 10}}}};
    const models::Projection turned = models::gathered_rows(models::rows_of(whole, 1, 9), {{5, 3}, {0, 2}, {4, 1}});
    const models::Projection part = models::rows_of(turned, 2, 3);
    const std::vector<float> all = must(models::floats_of(whole.weight)), found = must(models::floats_of(part.weight));
    CHECK(part.origin.tensor == "w");
    CHECK(part.origin.rows == 10);
    std::vector<float> expected;
    for (const models::RowRange& range : part.origin.ranges)
        expected.insert(expected.end(), all.begin() + static_cast<std::ptrdiff_t>(3 * range.first),
                        all.begin() + static_cast<std::ptrdiff_t>(3 * (range.first + range.count)));
    CHECK(found == expected);
    CHECK(part.origin.ranges.size() == 2);  // row 8, rows 1 and 2
}

TEST_CASE("adapters of a GGUF file give what those of the folder give", "[models][adapter][gguf]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    const std::string name = GENERATE("llama_gqa_odd", "qwen3_next");
    CAPTURE(backend.name(), name);
    const models::Decoder model = must(with_adapters(base_file(name), {adapter_folder(name) / "adapter.gguf"}));
    const Golden golden("adapters/" + name + "/golden.safetensors");
    const PiecewiseRun run = run_with(model, backend, golden, DType::f32, {12}, {{1}, {1}});
    check_golden(run.logits, golden, "logits", rotary_bound(backend, DType::f32));
}

TEST_CASE("adapters count as much as is said, each row's by itself", "[models][adapter]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder model = two_adapters();
    CHECK(model.adapters() == 2);
    const double bound = rotary_bound(backend, DType::f32);
    const Golden mixed("adapters/llama_gqa_odd_second/mixed.safetensors");
    check_golden(run_with(model, backend, mixed, DType::f32, {12}, {{0.5f, -1.25f}, {0.5f, -1.25f}}).logits, mixed,
                 "logits", bound);

    const Golden first("adapters/llama_gqa_odd/golden.safetensors"),
        second("adapters/llama_gqa_odd_second/golden.safetensors");
    const std::size_t row = first.doubles("logits").size() / 2;
    const auto check_row = [&](const PiecewiseRun& run, const Golden& golden, std::size_t r) {
        const std::vector<double> expected = golden.doubles("logits");
        CHECK(relative_error(std::span<const double>(run.logits).subspan(r * row, row),
                             std::span<const double>(expected).subspan(r * row, row)) < bound);
    };
    check_row(run_with(model, backend, first, DType::f32, {5, 7}, {{1, 0}, {0, 1}}), first, 0);
    check_row(run_with(model, backend, second, DType::f32, {5, 7}, {{1, 0}, {0, 1}}), second, 1);

    const Golden none("decoders/llama_gqa_odd/golden.safetensors");
    const auto len = static_cast<std::uint32_t>(none.shape("input_ids")[1]);
    check_golden(run_with(model, backend, none, DType::f32, {len}, {{0, 0}, {0, 0}}).logits, none, "logits", bound);
    check_golden(run_with(model, backend, none, DType::f32, {len}, {}).logits, none, "logits", bound);
}

TEST_CASE("an adapter adds to weights that stay in blocks", "[models][adapter][gguf]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    if (is_double(backend)) return;  // the others' answers are held against its
    const bool is_mixed = GENERATE(false, true);
    CAPTURE(backend.name(), is_mixed);
    if (!takes_case(backend, 2)) return;
    const TemporaryFolder folder;
    models::GgufContents contents = must(models::exported_to_gguf(goldens_dir() / "decoder_text", DType::q8_0));
    if (is_mixed)  // values of another dtype: nothing is joined
        for (auto& tensor : contents.tensors)
            if (tensor.name.ends_with("attn_v.weight")) tensor.dtype = DType::f16;
    must(formats::write_gguf(folder / "base.gguf", contents.metadata, contents.tensors));
    formats::GgufMetadata metadata;
    metadata.set("general.type", "adapter");
    metadata.set("general.architecture", "qwen2");
    metadata.set("adapter.type", "lora");
    metadata.set("adapter.lora.alpha", 6.0f);
    std::mt19937 random(4);
    std::vector<formats::OutputTensor> tensors;
    const auto add = [&](const std::string& weight, std::uint64_t out, std::uint64_t in) {
        tensors.push_back({weight + ".lora_a", DType::f32, random_matrix(3, in, random)});
        tensors.push_back({weight + ".lora_b", DType::f32, random_matrix(out, 3, random)});
    };
    add("blk.0.attn_q.weight", 32, 32);
    add("blk.0.attn_v.weight", 16, 32);
    add("blk.1.ffn_up.weight", 40, 32);
    add("blk.1.ffn_down.weight", 32, 40);
    must(formats::write_gguf(folder / "adapter.gguf", metadata, tensors));
    const models::Decoder model = must(with_adapters(folder / "base.gguf", {folder / "adapter.gguf"}));
    const std::vector<std::int32_t> ids = prompt_of(10);
    const auto logits = [&](graph::Backend& on, models::WeightFormat format, float scale) {
        return run_in_pieces(model, on, ids, 1, DType::f32, {6, 1, 3}, format, {{scale}}).logits;
    };
    const auto oracle = cpu::make_cpu_backend<double>();
    for (const float scale : {0.0f, 1.0f}) {
        const std::vector<double> expected = logits(*oracle, models::WeightFormat::as_computed, scale),
                                  found = logits(backend, models::WeightFormat::as_filed, scale);
        CHECK(relative_error(std::span<const double>(found), std::span<const double>(expected)) < kModelBound);
    }
    const std::vector<double> with = logits(*oracle, models::WeightFormat::as_computed, 1),
                              without = logits(*oracle, models::WeightFormat::as_computed, 0);
    CHECK(relative_error(std::span<const double>(with), std::span<const double>(without)) > 0.05);
}

TEST_CASE("a head that is the table of tokens has an adapter, and the table none", "[models][adapter]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder / "base");
    write_tiny_llama(folder / "base", {});
    write_adapter(folder / "adapter", {{"lm_head", 61, 48}}, 3);
    const models::Decoder model = must(with_adapters(folder / "base", {folder / "adapter"}));
    const std::vector<std::int32_t> ids = prompt_of(7);
    const auto run = [&](float scale) {
        return run_in_pieces(model, backend, ids, 1, DType::f32, {7}, models::WeightFormat::as_computed, {{scale}});
    };
    const PiecewiseRun with = run(1), without = run(0);
    CHECK(relative_error(std::span<const double>(with.hidden), std::span<const double>(without.hidden)) < 1e-6);
    const auto file = must(formats::Safetensors::open((folder / "adapter") / "adapter_model.safetensors"));
    const std::vector<float> a = must(models::floats_of(*file.find(peft_name("lm_head", 'A')))),
                             b = must(models::floats_of(*file.find(peft_name("lm_head", 'B'))));
    std::vector<double> expected = without.logits;
    for (std::size_t t = 0; t < 7; ++t)
        for (std::size_t k = 0; k < 3; ++k) {
            double inner = 0;
            for (std::size_t i = 0; i < 48; ++i) inner += double{a[k * 48 + i]} * with.hidden[t * 48 + i];
            for (std::size_t v = 0; v < 61; ++v) expected[t * 61 + v] += 2.0 * double{b[v * 3 + k]} * inner;
        }
    CHECK(relative_error(std::span<const double>(with.logits), std::span<const double>(expected)) < 1e-5);
}

TEST_CASE("names of modules and of a file's tensors may differ in what stands before them", "[models][adapter]") {
    const std::string name = GENERATE("gpt2", "llama_gqa_odd");
    const TemporaryFolder folder;
    const auto model = folder / "model";
    std::filesystem::create_directory(model);
    std::filesystem::copy_file(base_folder(name) / "config.json", model / "config.json");
    const auto file = must(formats::Safetensors::open(base_folder(name) / "model.safetensors"));
    std::vector<formats::NamedTensor> tensors;
    for (const auto& [tensor, data] : file.tensors()) {
        const std::size_t prefix = tensor.starts_with("transformer.") ? 12 : tensor.starts_with("model.") ? 6 : 0;
        tensors.push_back({tensor.substr(prefix), data});
    }
    must(formats::write_safetensors(model / "model.safetensors", tensors));
    const std::string adapter = name == "gpt2" ? "gpt2_by_root" : name;
    const models::Decoder bare = must(with_adapters(model, {adapter_folder(adapter)}));
    const Golden golden("adapters/" + adapter + "/golden.safetensors");
    graph::Backend& backend = exact_backend(test_backends()[0]);
    check_golden(run_with(bare, backend, golden, DType::f32, {12}, {{1}, {1}}).logits, golden, "logits",
                 rotary_bound(backend, DType::f32));
}

}  // namespace vkformer::tests
