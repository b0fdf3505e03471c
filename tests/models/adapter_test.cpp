// SPDX-License-Identifier: MIT
#include "models/adapter.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "cpu/backend.hpp"
#include "decoding/batch_script.hpp"
#include "decoding/beam_session.hpp"
#include "decoding/decoder_session.hpp"
#include "decoding/run_script.hpp"
#include "formats/gguf_writer.hpp"
#include "models/adapter_case.hpp"
#include "models/changed_golden.hpp"
#include "models/decoder_case.hpp"
#include "models/model_case.hpp"
#include "models/run_in_pieces.hpp"
#include "models/tiny_llama.hpp"
#include "models/weight_reader.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/refused.hpp"

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

std::filesystem::path folder_of(const std::string& model) { return goldens_dir() / "decoders" / model; }
std::filesystem::path file_of(const std::string& model) { return goldens_dir() / "gguf_decoders" / (model + ".gguf"); }

models::Decoder two_adapters() {
    return must(with_adapters(folder_of("llama_gqa_odd"),
                              {adapter_folder("llama_gqa_odd"), adapter_folder("llama_gqa_odd_second")}));
}

PiecewiseRun run_with(const models::Decoder& model, graph::Backend& backend, const Golden& golden, DType dtype,
                      const std::vector<std::uint32_t>& pieces, const std::vector<std::vector<float>>& scales) {
    return run_in_pieces(model, backend, golden.ints("input_ids"),
                         static_cast<std::uint32_t>(golden.shape("input_ids")[0]), dtype, pieces,
                         models::WeightFormat::as_computed, scales);
}

/// A backend of the tests that keeps the activations as they are.
graph::Backend& exact(graph::Backend* backend) {
    static const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    return backend == test_backends()[0] ? *floats_on_cpu : *backend;
}

}  // namespace

TEST_CASE("a decoder with an adapter gives what PEFT gives, in one go, in chunks and token by token",
          "[models][adapter][golden]") {
    graph::Backend& backend = exact(GENERATE(from_range(test_backends())));
    const auto [name, base] = GENERATE(from_range(adapter_cases()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), name, to_string(dtype));
    const models::Decoder model = must(with_adapters(folder_of(base), {adapter_folder(name)}));
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
    graph::Backend& backend = exact(GENERATE(from_range(test_backends())));
    const std::string name = GENERATE("llama_gqa_odd", "qwen3_next");
    CAPTURE(backend.name(), name);
    const models::Decoder model = must(with_adapters(file_of(name), {adapter_folder(name) / "adapter.gguf"}));
    const Golden golden("adapters/" + name + "/golden.safetensors");
    const PiecewiseRun run = run_with(model, backend, golden, DType::f32, {12}, {{1}, {1}});
    check_golden(run.logits, golden, "logits", rotary_bound(backend, DType::f32));
}

TEST_CASE("adapters count as much as is said, each row's by itself", "[models][adapter]") {
    graph::Backend& backend = exact(GENERATE(from_range(test_backends())));
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

// ---- generation -----------------------------------------------------------------------------------------------------

namespace {

std::vector<std::int32_t> generated(decoding::DecoderSession& session, const Greedy& greedy,
                                    std::vector<float> adapters) {
    const decoding::Request request = {.prompt = greedy.prompt, .max_tokens = 24, .adapters = std::move(adapters)};
    return must(session.run({&request, 1}))[0].tokens;
}

Greedy greedy_of_adapter(const std::string& name) {
    const nlohmann::json golden = read_json(adapter_folder(name) / "greedy.json");
    return {golden["prompt"].get<std::vector<std::int32_t>>(), golden["continuation"].get<std::vector<std::int32_t>>()};
}

std::vector<std::int32_t> first_of(const std::vector<std::int32_t>& tokens, std::size_t count) {
    return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(std::min(count, tokens.size()))};
}

}  // namespace

TEST_CASE("a session goes from one adapter to another, and keeps nothing of the one before",
          "[models][adapter][decoding]") {
    graph::Backend& backend = exact(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder model = two_adapters();
    auto session = must(decoding::DecoderSession::create(backend, model, {.context = 96}));
    const Greedy none = greedy_golden("llama_gqa_odd"), first = greedy_of_adapter("llama_gqa_odd"),
                 second = greedy_of_adapter("llama_gqa_odd_second");
    for (int round = 0; round < 2; ++round) {
        CHECK(generated(session, first, {1, 0}) == first_of(first.continuation, 24));
        CHECK(generated(session, none, {}) == first_of(none.continuation, 24));
        CHECK(generated(session, second, {0, 1}) == first_of(second.continuation, 24));
    }
    // The same prompt, whose keys are other ones.
    const Greedy same = {prompt_of(20), {}};
    const std::vector<std::int32_t> with = generated(session, same, {1, 1}), without = generated(session, same, {});
    CHECK(generated(session, same, {1, 1}) == with);
    auto fresh = must(decoding::DecoderSession::create(backend, model, {.context = 96}));
    CHECK(generated(fresh, same, {}) == without);
    CHECK(with != without);

    const decoding::Request wrong = {.prompt = {1}, .max_tokens = 1, .adapters = {1}};
    check_refused(session.run({&wrong, 1}), ErrorCode::InvalidArgument, "2 adapters are loaded");
    const decoding::Request endless = {
        .prompt = {1}, .max_tokens = 1, .adapters = {1, std::numeric_limits<float>::quiet_NaN()}};
    check_refused(session.run({&endless, 1}), ErrorCode::InvalidArgument, "−1000 to 1000");
}

TEST_CASE("rows of a session have adapters of their own", "[models][adapter][decoding]") {
    graph::Backend& backend = exact(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder model = two_adapters();
    auto session = must(decoding::DecoderSession::create(backend, model, {.rows = 2, .context = 96}));
    std::vector<decoding::Request> requests;
    std::vector<std::vector<std::int32_t>> expected;
    const auto add = [&](const Greedy& greedy, std::vector<float> adapters, std::uint32_t tokens) {
        requests.push_back({.prompt = greedy.prompt, .max_tokens = tokens, .adapters = std::move(adapters)});
        expected.push_back(first_of(greedy.continuation, tokens));
    };
    add(greedy_of_adapter("llama_gqa_odd"), {1, 0}, 20);
    add(greedy_golden("llama_gqa_odd"), {}, 6);
    add(greedy_of_adapter("llama_gqa_odd_second"), {0, 1}, 9);
    add(greedy_golden("llama_gqa_odd"), {}, 20);
    const auto results = must(session.run(requests));
    for (std::size_t i = 0; i < results.size(); ++i) CHECK(results[i].tokens == expected[i]);
}

TEST_CASE("guesses are checked with the sequence's adapters", "[models][adapter][decoding][lookup]") {
    graph::Backend& backend = exact(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder model = two_adapters();
    const Greedy second = greedy_of_adapter("llama_gqa_odd_second"), none = greedy_golden("llama_gqa_odd");
    auto session = must(decoding::DecoderSession::create(backend, model, {.context = 128, .lookup = 4}));
    std::vector<std::int32_t> twice = second.prompt;  // what comes has been there before
    twice.insert(twice.end(), second.continuation.begin(), second.continuation.begin() + 20);
    twice.insert(twice.end(), second.prompt.begin(), second.prompt.end());
    auto plain = must(decoding::DecoderSession::create(backend, model, {.context = 128}));
    for (const std::vector<float>& scales : {std::vector<float>{0, 1}, {}, {1, 0}}) {
        CAPTURE(scales);
        CHECK(generated(session, {twice, {}}, scales) == generated(plain, {twice, {}}, scales));
    }
}

TEST_CASE("beams have the sequence's adapters", "[models][adapter][decoding][beam]") {
    graph::Backend& backend = exact(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder both = two_adapters(),
                          one =
                              must(with_adapters(folder_of("llama_gqa_odd"), {adapter_folder("llama_gqa_odd_second")})),
                          bare = load_decoder_case("llama_gqa_odd");
    const std::vector<std::int32_t> prompt = prompt_of(9);
    const auto search = [&](decoding::BeamSession& session, std::vector<float> adapters) {
        const decoding::Request request = {.prompt = prompt, .max_tokens = 12, .adapters = std::move(adapters)};
        return must(session.run({&request, 1}))[0].best;
    };
    const decoding::DecoderSessionOptions options = {.context = 64};
    auto session = must(decoding::BeamSession::create(backend, both, options, {.beams = 3}));
    auto alone = must(decoding::BeamSession::create(backend, one, options, {.beams = 3}));
    auto without = must(decoding::BeamSession::create(backend, bare, options, {.beams = 3}));
    const auto expected = search(without, {}), adapted = search(alone, {1});
    for (int round = 0; round < 2; ++round) {
        const auto with = search(session, {0, 1});
        CHECK(with.tokens == adapted.tokens);
        CHECK(with.score == Approx(adapted.score).epsilon(1e-4));
        CHECK(search(session, {}).tokens == expected.tokens);
    }
    CHECK(adapted.score != Approx(expected.score).epsilon(1e-3));
}

TEST_CASE("sequences of a batch have adapters of their own, and share beginnings with those of the same alone",
          "[models][adapter][decoding][batch]") {
    graph::Backend& backend = exact(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder model = two_adapters();
    const decoding::BatchOptions options =
        must(decoding::checked_batch_options(model, {.rows = 4, .context = 128, .chunk = 64}));
    std::map<decoding::BatchScript::Id, decoding::SequenceResult> ended;
    decoding::BatchScript script(
        model, options, [](auto, auto, auto*) { return true; },
        [&](auto id, decoding::SequenceResult result) { ended[id] = std::move(result); }, [](auto, auto) {});
    script.plan_for(backend.fusions());
    decoding::SessionStores stores(backend);
    const auto run_all = [&] {
        while (!script.is_idle()) must(decoding::run_job(script, *must(script.next(3)), backend, stores));
    };
    const std::vector<std::vector<float>> scales = {{}, {1, 0}, {0, 1}, {1, 0.5f}};
    const std::vector<std::int32_t> prompt = prompt_of(80);
    const auto asked = [&](const std::vector<float>& adapters) {
        return decoding::BatchSequence{.sequence = {.prompt = prompt, .max_tokens = 7, .adapters = adapters}};
    };
    // All at a time, then each once more, which finds its own beginning and no other's.
    for (int round = 0; round < 2; ++round) {
        ended.clear();
        for (std::size_t i = 0; i < scales.size(); ++i) {
            must(script.check(asked(scales[i])));
            script.add(i, asked(scales[i]));
            if (round == 1) run_all();
        }
        run_all();
        for (std::size_t i = 0; i < scales.size(); ++i) {
            CAPTURE(round, i);
            auto session = must(decoding::DecoderSession::create(backend, model, {.context = 128}));
            const decoding::Request alone = asked(scales[i]).sequence;
            CHECK(ended[i].tokens == must(session.run({&alone, 1}))[0].tokens);
            CHECK(ended[i].reused == (round == 0 ? 0 : 64));
        }
    }
    CHECK(ended[0].tokens != ended[1].tokens);
    CHECK(ended[1].tokens != ended[2].tokens);
    check_refused(script.check(asked({1})), ErrorCode::InvalidArgument, "2 adapters are loaded");

    // What a prompt's tokens are like depends on them too.
    std::map<decoding::BatchScript::Id, std::vector<StepLogProbs>> told;
    decoding::BatchScript scoring(
        model, options, [](auto, auto, auto*) { return true; }, [](auto, auto) {},
        [&](auto id, std::vector<StepLogProbs> prompt_scores) { told[id] = std::move(prompt_scores); });
    scoring.plan_for(backend.fusions());
    for (std::size_t i = 0; i < 2; ++i) {
        auto sequence = asked(scales[i]);
        sequence.prompt_log_probs = 0;
        sequence.is_prompt_alone = true;
        scoring.add(i, sequence);
    }
    while (!scoring.is_idle()) must(decoding::run_job(scoring, *must(scoring.next(3)), backend, stores));
    REQUIRE(told.size() == 2);
    CHECK(told[0].back().chosen.log_prob != Approx(told[1].back().chosen.log_prob).epsilon(1e-3));
}

TEST_CASE("states of layers are those of the adapters that read them", "[models][adapter][decoding]") {
    graph::Backend& backend = exact(GENERATE(from_range(test_backends())));
    const std::string name = GENERATE("qwen3_next", "granite_hybrid", "lfm2");
    CAPTURE(backend.name(), name);
    const models::Decoder model = must(with_adapters(folder_of(name), {adapter_folder(name)}));
    const Greedy prompt = {prompt_of(75), {}};  // long enough for a state that is kept
    const decoding::DecoderSessionOptions options = {.context = 110, .chunk = 32};
    const auto fresh = [&](std::vector<float> adapters) {
        auto session = must(decoding::DecoderSession::create(backend, model, options));
        return generated(session, prompt, std::move(adapters));
    };
    const std::vector<std::int32_t> with = fresh({1}), without = fresh({});
    auto session = must(decoding::DecoderSession::create(backend, model, options));
    for (int round = 0; round < 2; ++round) {
        CHECK(generated(session, prompt, {1}) == with);
        CHECK(generated(session, prompt, {}) == without);
    }
}

TEST_CASE("a sequence that gave its pages away is read again with its adapters", "[models][adapter][decoding][batch]") {
    graph::Backend& backend = exact(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder model = two_adapters();
    const decoding::BatchOptions options =
        must(decoding::checked_batch_options(model, {.rows = 3, .context = 128, .pages = 4, .chunk = 64}));
    std::map<decoding::BatchScript::Id, decoding::SequenceResult> ended;
    decoding::BatchScript script(
        model, options, [](auto, auto, auto*) { return true; },
        [&](auto id, decoding::SequenceResult result) { ended[id] = std::move(result); }, [](auto, auto) {});
    script.plan_for(backend.fusions());
    decoding::SessionStores stores(backend);
    const std::vector<std::vector<float>> scales = {{1, 0}, {0, 1}, {}};
    const auto asked = [&](std::size_t i) {
        return decoding::BatchSequence{.sequence = {.prompt = prompt_of(60, static_cast<std::int32_t>(i) + 3),
                                                    .max_tokens = 20,
                                                    .adapters = scales[i]}};
    };
    for (std::size_t i = 0; i < scales.size(); ++i) script.add(i, asked(i));
    while (!script.is_idle()) must(decoding::run_job(script, *must(script.next(3)), backend, stores));
    CHECK(script.counts().preempted > 0);
    for (std::size_t i = 0; i < scales.size(); ++i) {
        CAPTURE(i);
        auto session = must(decoding::DecoderSession::create(backend, model, {.context = 128}));
        const decoding::Request alone = asked(i).sequence;
        CHECK(ended[i].tokens == must(session.run({&alone, 1}))[0].tokens);
    }
}

TEST_CASE("an adapter adds to weights that stay in blocks", "[models][adapter][gguf]") {
    graph::Backend& backend = exact(GENERATE(from_range(test_backends())));
    if (is_double(backend)) return;  // the others' answers are held against its
    const bool is_mixed = GENERATE(false, true);
    CAPTURE(backend.name(), is_mixed);
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
    std::filesystem::copy_file(folder_of(name) / "config.json", model / "config.json");
    const auto file = must(formats::Safetensors::open(folder_of(name) / "model.safetensors"));
    std::vector<formats::NamedTensor> tensors;
    for (const auto& [tensor, data] : file.tensors()) {
        const std::size_t prefix = tensor.starts_with("transformer.") ? 12 : tensor.starts_with("model.") ? 6 : 0;
        tensors.push_back({tensor.substr(prefix), data});
    }
    must(formats::write_safetensors(model / "model.safetensors", tensors));
    const std::string adapter = name == "gpt2" ? "gpt2_by_root" : name;
    const models::Decoder bare = must(with_adapters(model, {adapter_folder(adapter)}));
    const Golden golden("adapters/" + adapter + "/golden.safetensors");
    graph::Backend& backend = exact(test_backends()[0]);
    check_golden(run_with(bare, backend, golden, DType::f32, {12}, {{1}, {1}}).logits, golden, "logits",
                 rotary_bound(backend, DType::f32));
}

// ---- what is refused ------------------------------------------------------------------------------------------------

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
        return with_adapters(folder_of("llama_gqa_odd"), {path});
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
            GENERATE("base_model.model.model.embed_tokens.lora_embedding_A",
                     "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
                     "base_model.model.lm_head.weight", "model.layers.0.self_attn.q_proj.lora_A.weight");
        check_refused(load(changed_adapter(folder, "", {{name, random_matrix(2, 21, random)}})),
                      ErrorCode::UnsupportedConfig, name);
    }
    SECTION("a head that was trained itself") {
        const TemporaryFolder folder;
        write_adapter(folder / "adapter", {{"lm_head", 61, 21}});
        const auto own = must(formats::Safetensors::open(folder_of("llama_gqa_odd") / "model.safetensors"));
        const auto file = must(formats::Safetensors::open((folder / "adapter") / "adapter_model.safetensors"));
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
        check_refused(with_adapters(folder_of("mixtral"), {folder / "adapter"}), ErrorCode::UnsupportedConfig,
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
        check_refused(load(file_of("llama_gqa_odd")), ErrorCode::UnsupportedConfig, "general.type");
        folder.write("adapter_config.json", R"({"peft_type": "LORA", "lora_alpha": 1})");
        folder.write("adapter_model.bin", "pickled");
        check_refused(load(folder.path()), ErrorCode::FileNotFound, "save the adapter again");
    }
    SECTION("another kind of file, or another architecture") {
        check_refused(load(adapter_folder("llama_gqa_odd") / "adapter.gguf"), ErrorCode::UnsupportedConfig,
                      "is an adapter of GGUF models");
        check_refused(with_adapters(file_of("llama_gqa_odd"), {adapter_folder("llama_gqa_odd")}),
                      ErrorCode::UnsupportedConfig, "convert_lora_to_gguf.py");
        check_refused(with_adapters(file_of("qwen2"), {adapter_folder("llama_gqa_odd") / "adapter.gguf"}),
                      ErrorCode::UnsupportedConfig, "of \"llama\" models, this one is \"qwen2\"");
    }
    SECTION("an adapter that counts from a token on") {
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
