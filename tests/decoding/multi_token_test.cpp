// SPDX-License-Identifier: MIT
// Heads that guess the token after the next one (tests/goldens/make_multi_token.py): what they compute, and that only speed depends on it.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <ranges>

#include <nlohmann/json.hpp>

#include "cpu/backend.hpp"
#include "decoding/draft_session.hpp"
#include "decoding/timed_session.hpp"
#include "formats/safetensors.hpp"
#include "models/changed_golden.hpp"
#include "models/model_case.hpp"
#include "models/run_in_pieces.hpp"
#include "models/weight_reader.hpp"
#include "support/bounds.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"
#include "vkformer/generation_engine.hpp"
#include "vkformer/generator.hpp"

namespace vkformer::tests {
namespace {

using decoding::DecoderSessionOptions;
using decoding::DraftSession;
using Tokens = std::vector<std::int32_t>;
using enum ErrorCode;

std::filesystem::path golden_head(const std::string& name) { return goldens_dir() / "multi_token" / name; }

struct Loaded {
    models::Decoder model, head;
};
Result<Loaded> load_both(const std::filesystem::path& path) {
    auto opened = models::open_decoder(path);
    if (!opened) return opened.error();
    auto model = opened->load();
    if (!model) return model.error();
    auto head = models::load_head(*opened, *model);
    if (!head) return head.error();
    return Loaded{std::move(*model), std::move(*head)};
}
Loaded load_golden_head(const std::string& name) { return must(load_both(golden_head(name))); }

struct Case {
    Tokens prompt, continuation;
    std::vector<std::int32_t> right;  // whether the head would have guessed the continuation, but for its first token
};
Case case_of(const std::string& name) {
    const std::string folder = name.substr(0, name.find('.'));
    const nlohmann::json greedy = read_json(golden_head(folder) / "greedy.json");
    return {greedy["prompt"].get<Tokens>(), greedy["continuation"].get<Tokens>(),
            Golden("multi_token/" + folder + "/golden.safetensors").ints("right")};
}

/// A head's runs, each of some tokens with what is handed over to them; the caches go on.
class HeadRun {
public:
    HeadRun(const models::Decoder& head, graph::Backend& backend, DType dtype, std::uint32_t capacity)
        : head_(head),
          backend_(backend),
          dtype_(dtype),
          capacity_(capacity),
          weights_(backend.make_store()),
          states_(backend.make_store()) {}

    struct Given {
        std::vector<double> logits, handed;
    };
    Given run(const Tokens& tokens, const std::vector<double>& hidden) {
        const auto len = static_cast<std::uint32_t>(tokens.size()), width = head_.config().hidden_size;
        graph::Graph g;
        const graph::Value ids = must(g.input("tokens", DType::i32, {1, len}));
        const graph::Value starts = must(g.input("starts", DType::i32, {1}));
        const graph::Value handed = must(g.input("handed", dtype_, {1, len, width}));
        const models::DecoderLayout layout = {.len = len, .capacity = capacity_, .dtype = dtype_, .handed = handed};
        const auto pass = must(head_.add_pass(g, layout, ids, starts, models::Logits::all));
        g.mark_output(pass.hidden);
        g.mark_output(pass.logits);
        const auto program = must(backend_.compile(graph::make_plan(std::move(g)), weights_, states_));
        const Tokens at = {done_};
        must(program->write(ids, std::span<const std::int32_t>(tokens)));
        must(program->write(starts, std::span<const std::int32_t>(at)));
        const std::vector<float> given_hidden(hidden.begin(), hidden.end());
        must(program->write(handed, std::span<const float>(given_hidden)));
        must(program->submit());
        must(program->wait());
        done_ += static_cast<std::int32_t>(len);
        Given given{std::vector<double>(std::size_t{len} * head_.config().vocab_size),
                    std::vector<double>(std::size_t{len} * width)};
        must(program->read(pass.logits, std::span<double>(given.logits)));
        must(program->read(pass.hidden, std::span<double>(given.handed)));
        return given;
    }

private:
    const models::Decoder& head_;
    graph::Backend& backend_;
    DType dtype_;
    std::uint32_t capacity_;
    std::shared_ptr<graph::TensorStore> weights_, states_;
    std::int32_t done_ = 0;
};

/// A session whose model guesses by its head.
struct GuessingSession {
    TimedSession checking;
    std::unique_ptr<DraftSession> draft;

    GuessingSession(graph::Backend& backend, const Loaded& loaded, DecoderSessionOptions options)
        : checking(backend, loaded.model, handing(options)),
          draft(must(DraftSession::create(backend, loaded.head, handing(options), checking.stores))) {
        must(draft->set_sample(options.sample));
        checking.script.guess_by(&draft->guesser());
        checking.check_seconds = 0.5;  // long beside guesses
    }
    Tokens run(const decoding::Sequence& sequence) { return checking.run(sequence).tokens; }
    const decoding::DecoderTimings& timings() const { return checking.script.timings(); }

    static DecoderSessionOptions handing(DecoderSessionOptions options) {
        options.hands_over = true;
        return options;
    }
};

/// Tensors of the golden changed, or left out.
struct Changed {
    TemporaryFolder folder;
    std::filesystem::path model;
    explicit Changed(const std::string& name, auto&& change) : model(folder.path() / name) {
        std::filesystem::create_directory(model);
        for (const char* const file : {"config.json", "generation_config.json"})
            std::filesystem::copy_file(golden_head(name) / file, model / file);
        const auto file = must(formats::Safetensors::open(golden_head(name) / "model.safetensors"));
        std::vector<formats::NamedTensor> tensors;
        for (const auto& [tensor, data] : file.tensors()) {
            std::optional<TensorData> changed = change(std::string(tensor), data);
            if (changed) tensors.push_back({tensor, std::move(*changed)});
        }
        must(formats::write_safetensors(model / "model.safetensors", tensors));
    }
};

}  // namespace

TEST_CASE("a multi-token head gives the reference's logits", "[models][decoder][golden][multi_token]") {
    const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    graph::Backend* const tested = GENERATE(from_range(test_backends()));
    graph::Backend& backend = tested == test_backends()[0] ? *floats_on_cpu : *tested;
    const std::string name = GENERATE("deepseek_v3", "glm4_moe", "qwen3_5", "qwen3_next");
    const std::string end = GENERATE("", ".gguf");
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), name, end, to_string(dtype));
    const Loaded loaded = load_golden_head(name + end);
    const Golden golden("multi_token/" + name + "/golden.safetensors");
    const Tokens ids = golden.ints("input_ids");
    const auto len = static_cast<std::uint32_t>(ids.size());
    const std::size_t width = loaded.head.config().hidden_size;
    const double bound = rotary_bound(backend, dtype);
    if (dtype == DType::f32)  // what the model hands over
        check_golden(run_in_pieces(loaded.model, backend, ids, 1, dtype, {len}).hidden, golden, "hidden", bound);
    const std::vector<double> hidden = golden.doubles("hidden");

    HeadRun head(loaded.head, backend, dtype, len);
    std::vector<double> logits, handed;
    std::size_t done = 0;
    for (const std::size_t piece : {std::size_t{3}, std::size_t{1}, std::size_t{len} - 5}) {
        const auto at = static_cast<std::ptrdiff_t>(done), behind = static_cast<std::ptrdiff_t>(done + piece);
        const auto wide = static_cast<std::ptrdiff_t>(width);
        const auto given = head.run(Tokens(ids.begin() + 1 + at, ids.begin() + 1 + behind),
                                    {hidden.begin() + at * wide, hidden.begin() + behind * wide});
        logits.insert(logits.end(), given.logits.begin(), given.logits.end());
        handed.insert(handed.end(), given.handed.begin(), given.handed.end());
        done += piece;
    }
    check_golden(logits, golden, "logits", bound);
    check_golden(handed, golden, "handed", bound);
    const std::vector<double> expected = golden.doubles("logits"), own = golden.doubles("handed");
    const auto last = expected.end() - static_cast<std::ptrdiff_t>(loaded.head.config().vocab_size);
    const Tokens chosen = {static_cast<std::int32_t>(std::max_element(last, expected.end()) - last)};
    const auto second = head.run(chosen, {own.end() - static_cast<std::ptrdiff_t>(width), own.end()});
    check_golden(second.logits, golden, "second_logits", bound);
}

TEST_CASE("a multi-token head changes no token", "[decoding][decoder][multi_token]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("deepseek_v3", "glm4_moe", "qwen3_5", "qwen3_next.gguf");
    const float temperature = GENERATE(0.0f, 0.7f);
    const std::uint32_t guesses = GENERATE(1u, 5u);
    if (!takes_case(backend, 3)) return;
    CAPTURE(backend.name(), name, temperature, guesses);
    const Loaded loaded = load_golden_head(name);
    const Case golden = case_of(name);
    const decoding::Sequence sequence = {.prompt = golden.prompt, .max_tokens = 40, .seed = 11};
    DecoderSessionOptions options = {.context = loaded.model.config().max_positions,
                                     .sample = {.temperature = temperature}};
    TimedSession plain(backend, loaded.model, options);
    const Tokens expected = plain.run(sequence).tokens;
    REQUIRE(expected.size() == 40);
    if (temperature == 0) CHECK(std::ranges::equal(expected, golden.continuation | std::views::take(40)));

    options.guesses = guesses;
    GuessingSession guessing(backend, loaded, options);
    for (int i = 0; i < 2; ++i) {
        CHECK(guessing.run(sequence) == expected);
        const decoding::DecoderTimings& timings = guessing.timings();
        CHECK(timings.decode_steps + timings.accepted_tokens == expected.size());
        CHECK(timings.guessed_tokens > 0);
        if (temperature == 0) {
            CHECK(timings.accepted_tokens > 0);
            CHECK(timings.accepted_tokens < timings.guessed_tokens);
        }
    }
    // The answer goes on: what was chosen, the draws counted, is the beginning of another sequence's prompt.
    decoding::Sequence onward = sequence;
    onward.prompt.insert(onward.prompt.end(), expected.begin(), expected.begin() + 9);
    onward.answered = 9;
    onward.max_tokens = 31;
    CHECK(guessing.run(onward) == Tokens(expected.begin() + 9, expected.end()));
}

// By the golden's account of what the head would have guessed, whatever was guessed before.
TEST_CASE("of a multi-token head as many guesses are right as the reference has", "[decoding][decoder][multi_token]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("deepseek_v3", "glm4_moe.gguf", "qwen3_5", "qwen3_next", "deepseek_v3.gguf");
    if (!takes_case(backend, 3)) return;
    CAPTURE(backend.name(), name);
    const Loaded loaded = load_golden_head(name);
    const Case golden = case_of(name);
    const std::uint32_t count = 48;
    std::size_t accepted = 0, guessed = 0;
    for (std::size_t i = 2; i + 1 < count;
         ++i) {  // behind two steps, of which one is measured; the last token has no guess
        ++guessed;
        if (golden.right[i - 1] == 0) continue;
        ++accepted;
        ++i;
    }
    REQUIRE(accepted > 5);
    GuessingSession guessing(backend, loaded, {.context = loaded.model.config().max_positions, .guesses = 1});
    const Tokens found = guessing.run({.prompt = golden.prompt, .max_tokens = count});
    CHECK(std::ranges::equal(found, golden.continuation | std::views::take(count)));
    CHECK(guessing.timings().accepted_tokens == accepted);
    CHECK(guessing.timings().guessed_tokens == guessed);
    // What the head has read of another text counts no more where that begins otherwise, though the rest is the same.
    decoding::Sequence other = {.prompt = golden.prompt, .max_tokens = count};
    other.prompt[0] = (other.prompt[0] + 1) % 61;
    guessing.run(other);
    const auto after = guessing.timings();
    GuessingSession fresh(backend, loaded, {.context = loaded.model.config().max_positions, .guesses = 1});
    fresh.run({.prompt = {1, 2, 3}, .max_tokens = 2});  // its two steps
    fresh.run(other);
    CHECK(after.accepted_tokens == fresh.timings().accepted_tokens);
}

TEST_CASE("a multi-token head goes on from its own hidden states", "[decoding][decoder][multi_token]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("deepseek_v3", "qwen3_next.gguf");
    if (!takes_case(backend, 2)) return;
    CAPTURE(backend.name(), name);
    const Loaded loaded = load_golden_head(name);
    const Case golden = case_of(name);
    GuessingSession guessing(backend, loaded, {.context = 128, .guesses = 5});
    for (const std::ptrdiff_t count : {20, 21, 24}) {  // parts of them are known from one to the next
        CAPTURE(count);
        Tokens longer = golden.prompt;
        longer.insert(longer.end(), golden.continuation.begin(), golden.continuation.begin() + count);
        const Tokens read(longer.begin(), longer.end() - 1);  // all but the token that a check would begin with
        guessing.run({.prompt = read, .max_tokens = 1});
        const auto found = must(guessing.draft->guesser()({.prompt = longer}, 5));

        const auto len = static_cast<std::uint32_t>(read.size());
        HeadRun head(loaded.head, backend, DType::f32, len + 5);
        Tokens next(longer.begin() + 1, longer.end()), expected;
        std::vector<double> hidden = run_in_pieces(loaded.model, backend, read, 1, DType::f32, {len}).hidden;
        while (expected.size() < 5) {
            const auto given = head.run(next, hidden);
            const auto last = given.logits.end() - static_cast<std::ptrdiff_t>(loaded.head.config().vocab_size);
            next = {static_cast<std::int32_t>(std::max_element(last, given.logits.end()) - last)};
            hidden = {given.handed.end() - static_cast<std::ptrdiff_t>(loaded.head.config().hidden_size),
                      given.handed.end()};
            expected.push_back(next[0]);
        }
        CHECK(found.tokens == expected);
    }
}

TEST_CASE("states that wrong guesses have gone through are taken back", "[decoding][decoder][multi_token]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const Loaded loaded = load_golden_head("qwen3_5");
    const std::uint32_t context = loaded.model.config().max_positions;
    TimedSession plain(backend, loaded.model, {.context = context});
    GuessingSession guessing(backend, loaded, {.context = context, .guesses = 3});
    // Conversations with a checkpoint before the end of a long prompt: it stays, whatever is guessed behind it.
    Tokens talk = prompt_of(70);
    for (int turn = 0; turn < 3; ++turn) {
        const decoding::Sequence sequence = {.prompt = talk, .max_tokens = 14};
        const auto expected = plain.run(sequence), found = guessing.checking.run(sequence);
        CHECK(found.tokens == expected.tokens);
        CHECK(found.reused == expected.reused);
        CHECK(guessing.timings().prompt_tokens == plain.script.timings().prompt_tokens);
        if (turn == 1) CHECK(found.reused > 0);
        talk.resize(talk.size() - 2);
        talk.insert(talk.end(), {5, static_cast<std::int32_t>(turn), 9});
    }
    // A text that becomes long, whose answer then goes on otherwise and as it was.
    const Tokens start = {7, 8, 9, 1, 7, 8, 9, 1, 7, 8, 9, 1};
    const auto check = [&](const Tokens& prompt, std::uint32_t count) {
        const Tokens answer = plain.run({.prompt = prompt, .max_tokens = count}).tokens;
        CHECK(guessing.run({.prompt = prompt, .max_tokens = count}) == answer);
        CHECK(guessing.timings().guessed_tokens > 0);
        return answer;
    };
    const Tokens answer = check(start, 70);
    const auto going_on = [&](std::ptrdiff_t kept) {
        Tokens prompt = start;
        prompt.insert(prompt.end(), answer.begin(), answer.begin() + kept);
        prompt.push_back(4);
        return prompt;
    };
    check(going_on(70), 20);
    check(going_on(60), 20);
    // What it takes to read right tokens once more is part of what guesses cost.
    GuessingSession slow(backend, loaded, {.context = context, .guesses = 3});
    slow.checking.read_seconds = 50;
    CHECK(slow.run({.prompt = start, .max_tokens = 70}) == answer);
    CHECK(slow.checking.checks <= 3);
    guessing.checking.script.guess_by(nullptr);  // looked-up guesses may be checked as well
    check(start, 60);
}

TEST_CASE("a multi-token head may have tables of its own", "[models][decoder][multi_token]") {
    graph::Backend& backend = *test_backends().front();
    CHECK_FALSE(load_golden_head("deepseek_v3").head.weights().handover.has_own_table);
    CHECK_FALSE(load_golden_head("deepseek_v3").head.weights().handover.has_own_head);
    const bool has_table = GENERATE(false, true);
    const std::string own = has_table ? "model.layers.2.embed_tokens.weight" : "model.layers.2.shared_head.head.weight";
    const Changed changed("deepseek_v3", [&](const std::string& name, const TensorData& data) {
        if (name != own) return std::optional(data);
        auto values = must(models::floats_of(data));
        std::ranges::reverse(values);  // no token finds its own row
        return std::optional(models::float_tensor(data.shape, std::move(values)));
    });
    const Loaded loaded = must(load_both(changed.model));
    CHECK(loaded.head.weights().handover.has_own_table == has_table);
    CHECK(loaded.head.weights().handover.has_own_head != has_table);
    const Case golden = case_of("deepseek_v3");
    GuessingSession guessing(backend, loaded, {.context = 128, .guesses = 2});
    const Tokens found = guessing.run({.prompt = golden.prompt, .max_tokens = 30});
    CHECK(std::ranges::equal(found, golden.continuation | std::views::take(30)));
    CHECK(guessing.timings().guessed_tokens > 0);
    const Loaded usual = load_golden_head("deepseek_v3");
    GuessingSession shared(backend, usual, {.context = 128, .guesses = 2});
    shared.run({.prompt = golden.prompt, .max_tokens = 30});
    CHECK(guessing.timings().accepted_tokens < shared.timings().accepted_tokens / 2);
}

TEST_CASE("a multi-token head whose files do not fit is refused by name", "[models][decoder][multi_token][errors]") {
    const auto keep = [](const std::string&, const TensorData& data) { return std::optional(data); };
    const auto without = [](const std::string& part) {
        return [part](const std::string& name, const TensorData& data) {
            return name.find(part) == name.npos ? std::optional(data) : std::nullopt;
        };
    };
    const auto cut = [](const std::string& which) {
        return [which](const std::string& name, const TensorData& data) {
            return std::optional(name == which ? models::rows_of(data, 0, data.shape[0] - 1) : data);
        };
    };
    const auto refused = [](const std::string& name, auto&& change, ErrorCode code, const std::string& message) {
        const Changed changed(name, change);
        REQUIRE(models::load_decoder(changed.model));  // which goes on without
        CHECK(must(models::load_decoder(changed.model)).notes.empty());
        check_refused(load_both(changed.model), code, message);
    };
    refused("deepseek_v3", without("layers.2."), UnsupportedConfig, "no multi-token head");
    refused("qwen3_next", without("mtp."), UnsupportedConfig, "no multi-token head");
    refused("deepseek_v3", without("layers.2.eh_proj"), MissingTensor, "model.layers.2.eh_proj.weight");
    refused("deepseek_v3", without("layers.2.mlp.experts.3.up_proj"), MissingTensor, "layers.2.mlp.experts.3.up_proj");
    refused("deepseek_v3", without("layers.2.shared_head.norm"), MissingTensor, "layers.2.shared_head.norm");
    refused("qwen3_5", without("mtp.pre_fc_norm_hidden"), MissingTensor, "mtp.pre_fc_norm_hidden");
    refused("qwen3_5", without("mtp.layers.0.self_attn.q_norm"), MissingTensor, "mtp.layers.0.self_attn.q_norm");
    refused("deepseek_v3", cut("model.layers.2.eh_proj.weight"), ShapeMismatch, "model.layers.2.eh_proj.weight");
    refused("deepseek_v3", cut("model.layers.2.shared_head.head.weight"), ShapeMismatch, "shared_head.head.weight");
    refused("qwen3_next", cut("mtp.fc.weight"), ShapeMismatch, "mtp.fc.weight");
    {
        const Changed changed("deepseek_v3", keep);
        write_config_with(changed.model, {{"num_nextn_predict_layers", 0}});
        check_refused(load_both(changed.model), UnsupportedConfig, "no multi-token head");
    }
    check_refused(load_both(goldens_dir() / "decoders/llama_gqa_odd"), UnsupportedConfig, "no multi-token head");
    check_refused(load_both(goldens_dir() / "decoders/deepseek_v2"), UnsupportedConfig, "no multi-token head");
    check_refused(load_both(goldens_dir() / "gguf_decoders/qwen3_5.gguf"), UnsupportedConfig, "no multi-token head");
    check_refused(load_both(goldens_dir() / "gguf_decoders/qwen3.gguf"), UnsupportedConfig, "no multi-token head");
    CHECK(must(models::load_decoder(golden_head("qwen3_5.gguf"))).notes.empty());
    CHECK(must(models::load_decoder(golden_head("qwen3_5.gguf"))).config().layers.size() == 2);
    const Loaded loaded = load_golden_head("deepseek_v3");
    graph::Graph g;
    const graph::Value tokens = must(g.input("tokens", DType::i32, {1, 2})),
                       starts = must(g.input("s", DType::i32, {1}));
    check_refused(loaded.head.add_pass(g, {.len = 2, .capacity = 8}, tokens, starts, models::Logits::all),
                  InvalidArgument, "handed over");
}

TEST_CASE("generators guess by their model's multi-token head", "[generator][multi_token]") {
    const std::string name = GENERATE("deepseek_v3", "qwen3_next");
    const std::string path = golden_head(name).string();
    const std::vector<Tokens> prompts = {case_of(name).prompt, {1, 2, 3}};
    auto plain = must(Generator::load(path, {.device = "cpu"}));
    auto guessing = must(Generator::load(path, {.device = "cpu", .multi_token = true}));
    auto twin = must(guessing.twin());
    const GenerateOptions drawn = {.max_tokens = 40, .sampling = Sampling{.temperature = 0.9f}, .seed = 5};
    for (GenerateOptions asked : {GenerateOptions{.max_tokens = 40}, drawn}) {
        const auto expected = must(plain.generate_tokens(prompts, asked));
        for (Generator* const one : {&guessing, &twin}) {
            const auto found = must(one->generate_tokens(prompts, asked));
            for (std::size_t i = 0; i < prompts.size(); ++i) CHECK(found[i].tokens == expected[i].tokens);
            CHECK(one->timings().guessed_tokens > 0);
        }
        asked.draft_tokens = 0;
        CHECK(must(guessing.generate_tokens(prompts, asked))[0].tokens == expected[0].tokens);
        CHECK(guessing.timings().guessed_tokens == 0);
    }
    CHECK(must(guessing.generate_tokens(prompts, {.max_tokens = 8, .log_probs = 1}))[0].log_probs.size() == 8);

    const auto refused = [&](const std::string& model, GeneratorOptions options, ErrorCode code, const char* message) {
        options.device = "cpu";
        options.multi_token = true;
        check_refused(Generator::load(model, options), code, message);
    };
    refused(path, {.batch = 2}, InvalidArgument, "one sequence at a time");
    refused(path, {.beam_search = {.beams = 2}}, InvalidArgument, "one sequence at a time");
    refused(path, {.draft = path}, InvalidArgument, "one of the two");
    refused((goldens_dir() / "decoders/llama_gqa_odd").string(), {}, UnsupportedConfig, "no multi-token head");
    check_refused(GenerationEngine::load(path, {.generator = {.device = "cpu", .multi_token = true}}), InvalidArgument,
                  "one text at a time");
    check_refused(plain.generate_tokens(prompts, {.draft_tokens = 2}), InvalidArgument, "multi_token");
}

}  // namespace vkformer::tests
