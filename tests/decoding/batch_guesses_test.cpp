// SPDX-License-Identifier: MIT
#include "decoding/batch_guesses.hpp"

#include <array>
#include <cmath>
#include <functional>
#include <random>

#include "decoding/batch_case.hpp"
#include "decoding/timed_session.hpp"
#include "models/adapter_case.hpp"
#include "models/tiny_llama.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using decoding::BatchGuesses;
using decoding::GuessRecord;
using Tokens = std::vector<std::int32_t>;

/// Sequences whose guesses are right with some probability, on a device whose steps take as long as `seconds` says.
struct ImaginedBatch {
    std::vector<double> right;  // how likely a guess of each sequence is right; negative: it has none
    std::function<double(std::uint32_t rows)> seconds;
    BatchGuesses guesses{};
    std::vector<GuessRecord> records{std::vector<GuessRecord>(right.size())};
    std::vector<double> tokens{std::vector<double>(right.size())};  // of which each would have been a step
    double time = 0;
    std::size_t checks = 0, most_checked = 0;
    std::mt19937 random{7};

    std::uint32_t step_rows() const { return static_cast<std::uint32_t>(right.size()); }
    void step() {
        const double took = seconds(step_rows());
        time += took;
        guesses.took_steps(step_rows(), 1, took);
        for (std::size_t i = 0; i < right.size(); ++i) {
            records[i].all += took;
            ++tokens[i];
        }
    }
    void step_or_check() {
        if (guesses.is_step_due(step_rows())) return step();
        std::vector<BatchGuesses::Candidate> candidates;
        for (std::size_t i = 0; i < right.size(); ++i)
            candidates.push_back({&records[i], right[i] >= 0 && records[i].may_guess() ? 15u : 0u});
        const std::vector<std::size_t> counts = guesses.counts(step_rows(), candidates, 64);
        std::size_t used = right.size();
        for (const std::size_t count : counts) used += count;
        if (used == right.size()) return step();
        const auto rows = static_cast<std::uint32_t>(std::bit_ceil(used));
        const double took = seconds(rows);
        time += took;
        ++checks;
        most_checked = std::max(most_checked, used);
        std::vector<BatchGuesses::Checked> checked;
        for (std::size_t i = 0; i < right.size(); ++i) {
            std::size_t given = 1;
            while (given <= counts[i] && std::uniform_real_distribution<>()(random) < right[i]) ++given;
            tokens[i] += static_cast<double>(given);
            checked.push_back({&records[i], counts[i], given});
        }
        guesses.took_check(step_rows(), rows, took, checked);
    }
    /// How much sooner a sequence's tokens are there than without guesses.
    double gain(std::size_t i) const { return tokens[i] * seconds(step_rows()) / time; }
};

/// Where each row costs, and where all rows cost no more than one.
double costly_rows(std::uint32_t rows) { return 0.5 + 0.5 * rows; }
double cheap_rows(std::uint32_t rows) { return 1 + 0.001 * rows; }

/// A device that has memory for programs of so many rows beside the weights: those of more are not made, or not run.
class ScarceBackend final : public graph::Backend {
public:
    ScarceBackend(graph::Backend& device, std::uint32_t most_rows, bool compiles)
        : device_(device), most_rows_(most_rows), compiles_(compiles) {}

    std::string name() const override { return device_.name(); }
    std::shared_ptr<graph::TensorStore> make_store() override { return device_.make_store(); }
    const graph::FusionRules& fusions() const noexcept override { return device_.fusions(); }
    Result<std::unique_ptr<graph::Program>> compile(graph::Plan plan, std::shared_ptr<graph::TensorStore> weights,
                                                    std::shared_ptr<graph::TensorStore> states) override {
        const bool is_large = rows_of(plan.graph) > most_rows_;
        if ((is_large && !compiles_) || (!is_large && large > 0)) return too_little();
        auto made = device_.compile(std::move(plan), std::move(weights), std::move(states));
        if (!made || !is_large) return made;
        return std::unique_ptr<graph::Program>(std::make_unique<Unrunnable>(*this, *std::move(made)));
    }

    std::size_t refused = 0;
    std::size_t large = 0;  // programs that there are, beside which no further one of fewer rows is made
    bool runs_large = false;

private:
    Error too_little() {
        ++refused;
        return {ErrorCode::OutOfDeviceMemory, "too many rows"};
    }
    static std::uint64_t rows_of(const graph::Graph& graph) { return graph.shape(*graph.find("pages"))[0]; }

    /// Made, but for what a run takes.
    class Unrunnable final : public graph::Program {
    public:
        Unrunnable(ScarceBackend& backend, std::unique_ptr<graph::Program> program)
            : backend_(backend), program_(std::move(program)) {
            ++backend_.large;
        }
        ~Unrunnable() override { --backend_.large; }
        Result<void> write(graph::Value tensor, std::span<const float> values) override {
            return program_->write(tensor, values);
        }
        Result<void> write(graph::Value tensor, std::span<const std::int32_t> values) override {
            return program_->write(tensor, values);
        }
        Result<void> read(graph::Value tensor, std::span<float> values) override {
            return program_->read(tensor, values);
        }
        Result<void> read(graph::Value tensor, std::span<double> values) override {
            return program_->read(tensor, values);
        }
        Result<void> read(graph::Value tensor, std::span<std::int32_t> values) override {
            return program_->read(tensor, values);
        }
        Result<void> submit(std::uint32_t runs) override {
            return backend_.runs_large ? program_->submit(runs) : backend_.too_little();
        }
        Result<void> wait() override { return program_->wait(); }
        const graph::Plan& plan() const noexcept override { return program_->plan(); }

    private:
        ScarceBackend& backend_;
        std::unique_ptr<graph::Program> program_;
    };

    graph::Backend& device_;
    std::uint32_t most_rows_;
    bool compiles_;
};

/// What comes of the sequences together, without guesses and with them; each check takes as long as a step.
void check_same_texts(graph::Backend& backend, const models::Decoder& model, BatchOptions options,
                      const std::vector<BatchSequence>& asked, Batch& guessing) {
    options.guesses = 0;
    Batch plain(backend, model, options);
    for (Batch* batch : {&plain, &guessing}) {
        for (std::size_t i = 0; i < asked.size(); ++i) batch->script.add(i, asked[i]);
        batch->run_all();
        CHECK(batch->script.pages().used() == 0);
    }
    CHECK(plain.checks == 0);
    for (std::size_t i = 0; i < asked.size(); ++i) {
        CAPTURE(i);
        check_alike(guessing.ended.at(i), plain.ended.at(i));
        CHECK(guessing.streamed[i] == guessing.ended.at(i).tokens);
        const auto &told = guessing.told[i], &expected = plain.told[i];
        REQUIRE(told.size() == expected.size());
        for (std::size_t t = 0; t < told.size(); ++t) {
            CHECK(told[t].chosen.token == expected[t].chosen.token);
            CHECK(std::abs(told[t].chosen.log_prob - expected[t].chosen.log_prob) < 2e-4);
            REQUIRE(told[t].likeliest.size() == expected[t].likeliest.size());
            for (std::size_t k = 0; k < told[t].likeliest.size(); ++k)
                CHECK(std::abs(told[t].likeliest[k].log_prob - expected[t].likeliest[k].log_prob) < 2e-4);
        }
    }
}

}  // namespace

TEST_CASE("wrong guesses cost no sequence of a batch more than a hundredth", "[decoding][batch][lookup]") {
    const std::size_t sequences = GENERATE(1u, 3u, 8u);
    const bool costly = GENERATE(true, false);
    const double right = GENERATE(0.0, 0.3);
    CAPTURE(sequences, costly, right);
    ImaginedBatch batch{std::vector<double>(sequences, right), costly ? costly_rows : cheap_rows};
    while (batch.time < 3000 * batch.seconds(batch.step_rows())) batch.step_or_check();
    CHECK(batch.checks > 0);
    for (std::size_t i = 0; i < sequences; ++i) CHECK(batch.gain(i) > 0.985);
    if (!costly && right > 0) CHECK(batch.gain(0) > 1.2);
}

TEST_CASE("right guesses are found out to be worth more rows", "[decoding][batch][lookup]") {
    ImaginedBatch batch{{0.95}, [](std::uint32_t rows) { return 0.8 + 0.2 * rows; }};
    while (batch.time < 300) batch.step_or_check();
    CHECK(batch.gain(0) > 2.2);  // with 7 guesses: 6.7 tokens in 2.4 seconds
    ImaginedBatch cheap{{0.95, 0.95, 0.95, 0.95}, cheap_rows};
    while (cheap.time < 300) cheap.step_or_check();
    CHECK(cheap.most_checked == 64);  // 15 guesses and a token of each
    for (std::size_t i = 0; i < 4; ++i) CHECK(cheap.gain(i) > 8);
}

TEST_CASE("a sequence without guesses is not slower for those beside it", "[decoding][batch][lookup]") {
    ImaginedBatch batch{{0.99, 0.99, -1, 0.0}, costly_rows};
    while (batch.time < 5000) batch.step_or_check();
    for (std::size_t i = 0; i < 4; ++i) {
        CAPTURE(i);
        CHECK(batch.gain(i) > 0.985);
    }
    ImaginedBatch cheap{{0.95, 0.95, -1, 0.0}, cheap_rows};
    while (cheap.time < 1000) cheap.step_or_check();
    CHECK((cheap.gain(0) > 2 && cheap.gain(1) > 2 && cheap.gain(2) > 0.985 && cheap.gain(3) > 0.985));
}

TEST_CASE("where many sequences fill a device nothing more is guessed", "[decoding][batch][lookup]") {
    // Up to eight rows cost as much as one, each further one an eighth.
    const auto seconds = [](std::uint32_t rows) { return std::max(1.0, rows / 8.0); };
    ImaginedBatch few{std::vector<double>(2, 0.9), seconds}, many{std::vector<double>(24, 0.9), seconds};
    while (few.time < 500) few.step_or_check();
    while (many.time < 1500) many.step_or_check();
    CHECK(few.gain(0) > 2);
    CHECK(many.checks < 20);
    for (std::size_t i = 0; i < 24; ++i) CHECK(many.gain(i) > 0.985);
}

TEST_CASE("guesses change no text of a batch", "[decoding][batch][lookup]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("llama_gqa_odd", "gemma3", "mistral_window", "gpt2", "qwen3_moe");
    const std::uint32_t guesses = GENERATE(3u, 8u);
    if (!takes_case(backend, 3)) return;
    CAPTURE(backend.name(), name, guesses);
    const models::Decoder model = load_decoder_case(name);
    BatchOptions options = batch_options_of(4, 12);
    options.context = model.config().max_positions;
    options.guesses = guesses;
    const decoding::Sequence text = repeating(name, 24);
    std::vector<BatchSequence> asked(6, {.sequence = text});
    asked[1].sample = {.temperature = 0.7f, .top_k = 2};
    asked[2].frequency = 0.3f;
    asked[2].bias = {{3, -2.0f}};
    asked[3].log_probs = 2;
    asked[3].sample = {.temperature = 0.5f, .min_p = 0.1f};
    asked[4].sequence.prompt.resize(30);
    asked[4].repetition = 1.1f;
    asked[4].log_probs = 0;
    asked[5].sequence.stop_tokens = {greedy_golden(name).continuation[12]};
    Batch guessing(backend, model, options);
    check_same_texts(backend, model, options, asked, guessing);
    const decoding::BatchCounts& counts = guessing.script.counts();
    CHECK(guessing.checks > 0);
    CHECK(counts.guessed_tokens > counts.accepted_tokens);
}

TEST_CASE("a text that repeats itself takes fewer steps in a batch", "[decoding][batch][lookup]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = long_model();
    BatchOptions options = batch_options_of(3, 9);
    options.guesses = 6;
    // Bans and biases of the model's own, which look at a row's place.
    options.rules = {.banned = {3, 20}, .banned_first = {5}, .biases = {{{9}, 1.5f}}, .forced_last = 2};
    std::vector<BatchSequence> asked;
    for (std::size_t i = 0; i < 3; ++i) {
        asked.push_back(greedy_sequence(prompt_of(9 + i), 120));
        asked[i].bias = {{4, 30.0f}};  // again and again
    }
    asked[1].min_tokens = 20;
    asked[1].sequence.stop_tokens = options.ends = {4};
    asked[2].frequency = 0.1f;
    Batch guessing(backend, model, options);
    check_same_texts(backend, model, options, asked, guessing);
    const decoding::BatchCounts& counts = guessing.script.counts();
    CHECK(guessing.ended.at(1).tokens.size() == 21);
    CHECK(counts.accepted_tokens > 150);
    CHECK(counts.steps < 60);  // of 120
}

TEST_CASE("guesses take no page from others, and nobody finds wrong ones", "[decoding][batch][lookup]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    if (!takes_case(backend, 2)) return;
    const models::Decoder model = long_model();
    BatchOptions options = batch_options_of(4, 4);
    options.guesses = 12;
    std::vector<BatchSequence> asked;
    for (std::uint32_t i = 0; i < 5; ++i) {
        asked.push_back(greedy_sequence(prompt_of(50, static_cast<std::int32_t>(i + 1)), 90 + 3 * i));
        asked[i].sequence.seed = i;
        asked[i].sample = {.temperature = 0.4f, .top_k = 3};
        asked[i].frequency = -0.5f;  // what was said is said again
    }
    Batch guessing(backend, model, options);
    check_same_texts(backend, model, options, asked, guessing);
    const decoding::BatchCounts& counts = guessing.script.counts();
    CHECK(counts.preempted > 0);
    CHECK(counts.guessed_tokens > counts.accepted_tokens + 10);
    // Whoever goes on with a text finds what is its own in the pages.
    options.pages = 16;
    Batch roomy(backend, model, options);
    check_same_texts(backend, model, options, asked, roomy);
    for (BatchScript::Id id = 0; id < asked.size(); ++id) {
        CAPTURE(id);
        BatchSequence onward = asked[id];
        const auto& answer = roomy.ended.at(id).tokens;
        onward.sequence.prompt.insert(onward.sequence.prompt.end(), answer.begin(), answer.begin() + 85);
        onward.sequence.max_tokens = 20;
        roomy.script.add(10 + id, onward);
        roomy.run_all();
        check_alike(roomy.ended.at(10 + id), answer_alone(backend, model, onward, kBatchContext));
        CHECK(roomy.ended.at(10 + id).reused == 128);
    }
}

TEST_CASE("a sequence keeps no page for guesses that were wrong", "[decoding][batch][lookup]") {
    const models::Decoder model = long_model();
    BatchOptions options = batch_options_of(1, 3);
    options.guesses = 40;
    Batch batch(*test_backends().front(), model, options);
    BatchSequence asked = greedy_sequence(prompt_of(30), 110);
    asked.sample = {.temperature = 0.9f, .top_k = 4};
    asked.frequency = -0.4f;  // what was said is said again
    batch.script.add(1, asked);
    std::size_t far = 0;  // checks with rows in a page that is not the last token's
    while (!batch.script.is_idle()) {
        const std::size_t checks = batch.checks;
        const std::uint64_t guessed = batch.script.counts().guessed_tokens;
        const std::size_t before = 30 + batch.streamed[1].size();
        REQUIRE(batch.run(1));
        if (batch.checks == checks || batch.script.is_idle()) continue;
        const std::size_t after = 30 + batch.streamed[1].size();
        const std::size_t reached = before + batch.script.counts().guessed_tokens - guessed;
        far += (reached + 63) / 64 > (after + 63) / 64;
        CHECK(batch.script.pages().used() == (after + 63) / 64);
    }
    CHECK(far > 0);
    check_alike(batch.ended.at(1), answer_alone(*test_backends().front(), model, asked, kBatchContext));
}

TEST_CASE("sequences of a batch with guesses end where they are told to", "[decoding][batch][lookup]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = load_decoder_case("phi3");
    BatchOptions options = {.rows = 4, .context = 96, .guesses = 6};
    const BatchSequence asked = {.sequence = repeating("phi3", 0)};
    const SequenceResult whole = answer_alone(backend, model, asked, 96);
    Batch batch(backend, model, options);
    const auto begins_as_whole = [&](BatchScript::Id id, FinishReason finish, std::size_t count) {
        CAPTURE(id);
        const SequenceResult& found = batch.ended.at(id);
        CHECK(found.finish == finish);
        CHECK(found.tokens == Tokens(whole.tokens.begin(), whole.tokens.begin() + static_cast<std::ptrdiff_t>(count)));
    };
    batch.script.add(0, asked);
    batch.run_all();  // and now the times of a step are known
    begins_as_whole(0, FinishReason::context, whole.tokens.size());
    const std::size_t checks = batch.checks;  // none for who wants but one token: that behind a guess is one more
    for (BatchScript::Id id = 1; id <= 4; ++id) {
        BatchSequence single = asked;
        single.sequence.max_tokens = 1;
        batch.script.add(id, single);
        batch.run_all();
    }
    CHECK(batch.checks == checks);
    for (std::size_t count = 1; count <= 12; ++count) {
        BatchSequence limited = asked, stopped = asked;
        limited.sequence.max_tokens = static_cast<std::uint32_t>(count);
        stopped.sequence.stop_tokens = {whole.tokens[count]};
        const auto first = std::ranges::find(whole.tokens, whole.tokens[count]) - whole.tokens.begin();
        batch.wanted[100 * count + 2] = count;
        batch.script.add(100 * count, limited);
        batch.script.add(100 * count + 1, stopped);
        batch.script.add(100 * count + 2, asked);
        batch.script.add(100 * count + 3, asked);
        while (batch.streamed[100 * count + 3].size() < count) REQUIRE(batch.run(1));
        batch.script.cancel(100 * count + 3);
        CHECK(batch.ended.at(100 * count + 3).finish == FinishReason::caller);
        batch.run_all();
        begins_as_whole(100 * count, FinishReason::length, count);
        begins_as_whole(100 * count + 1, FinishReason::stop, static_cast<std::size_t>(first) + 1);
        begins_as_whole(100 * count + 2, FinishReason::caller, count);
        begins_as_whole(100 * count + 3, FinishReason::caller, batch.streamed[100 * count + 3].size());
    }
    CHECK(batch.script.counts().accepted_tokens > 0);
    CHECK(batch.script.pages().used() == 0);
}

TEST_CASE("texts that come while others are guessed, with adapters and caches of 8 bits, are what they are without",
          "[decoding][batch][lookup][adapter]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const bool adapts = GENERATE(true, false);
    if (!takes_case(backend, 2)) return;
    const TemporaryFolder folder;
    write_tiny_llama(folder.path(), {});
    const models::Decoder model = adapts ? two_adapters() : must(models::load_decoder(folder.path()));
    BatchOptions options = {.rows = 3, .context = 96, .guesses = 5};
    if (!adapts) options.cache = models::CacheFormat::q8_0;
    const decoding::Sequence text = repeating("llama_gqa_odd", 40);
    std::vector<BatchSequence> asked(5, adapts ? BatchSequence{.sequence = text} : greedy_sequence(prompt_of(40), 40));
    for (std::size_t i = 0; i < asked.size(); ++i) {
        asked[i].sequence.prompt.push_back(static_cast<std::int32_t>(i));
        asked[i].frequency = -0.15f;  // what was said is said again
    }
    if (adapts) {
        asked[1].sequence.adapters = {1, 0};
        asked[3].sequence.adapters = {0.5f, 1};
    }
    const auto texts = [&](std::uint32_t guesses) {
        options.guesses = guesses;
        Batch batch(backend, model, options);
        batch.script.add(0, asked[0]);
        batch.script.add(1, asked[1]);
        for (std::size_t i = 2; i < asked.size(); ++i) {
            for (const std::size_t had = batch.checks; batch.checks == had && guesses > 0 && !batch.script.is_idle();)
                REQUIRE(batch.run(1));
            batch.script.add(i, asked[i]);
        }
        batch.run_all();
        CHECK((batch.checks > 2) == (guesses > 0));
        return batch.ended;
    };
    const auto plain = texts(0), guessed = texts(5);
    for (const auto& [id, expected] : plain) {
        CAPTURE(id);
        check_alike(guessed.at(id), expected);
    }
    CHECK(plain.at(0).tokens != plain.at(1).tokens);
}

TEST_CASE("where checks cost too much a batch soon makes none", "[decoding][batch][lookup]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = long_model();
    BatchOptions options = batch_options_of(2, 6);
    options.guesses = 6;
    Batch guessing(backend, model, options);
    guessing.check_seconds = 1000;
    check_same_texts(backend, model, options, std::vector(2, greedy_sequence(prompt_of(9), 140)), guessing);
    CHECK(guessing.checks == 2);  // one that is not counted, and one that was too long
}

TEST_CASE("where memory is too little for guesses there are fewer, and texts stay what they are",
          "[decoding][batch][lookup]") {
    graph::Backend& device = *GENERATE(from_range(test_backends()));
    const std::uint32_t most_rows = GENERATE(2u, 4u, 8u);
    const bool compiles = GENERATE(false, true);
    CAPTURE(device.name(), most_rows, compiles);
    if (!takes_case(device, 3)) return;
    ScarceBackend backend(device, most_rows, compiles);
    const models::Decoder model = long_model();
    BatchOptions options = batch_options_of(2, 6);
    options.guesses = 15;
    Batch guessing(backend, model, options);
    check_same_texts(backend, model, options, std::vector(2, greedy_sequence(prompt_of(9), 140)), guessing);
    CHECK((guessing.passed_over == 1 && backend.refused == 1));
    CHECK((guessing.checks > 0) == (most_rows > 2));  // two rows are no more than the last tokens
}

TEST_CASE("guesses give their memory to what a request needs", "[decoding][batch][lookup]") {
    graph::Backend& device = *GENERATE(from_range(test_backends()));
    CAPTURE(device.name());
    ScarceBackend backend(device, 2, true);
    backend.runs_large = true;
    const models::Decoder model = long_model();
    BatchOptions options = batch_options_of(2, 6);
    options.guesses = 15;
    Batch guessing(backend, model, options);
    const BatchSequence first = greedy_sequence(prompt_of(9), 140);
    BatchSequence second = greedy_sequence({3, 1, 4}, 20);
    second.sequence.seed = 5;
    second.sample = {.temperature = 0.7f};
    guessing.script.add(1, first);
    while (guessing.checks < 3) REQUIRE(guessing.run());
    CHECK(backend.large > 0);
    guessing.script.add(2, second);  // drawn: a step of another kind
    guessing.run_all();
    CHECK(backend.large == 0);
    CHECK((guessing.passed_over == 1 && backend.refused == 1));
    check_alike(guessing.ended.at(1), answer_alone(device, model, first, kBatchContext));
    check_alike(guessing.ended.at(2), answer_alone(device, model, second, kBatchContext));
}

TEST_CASE("what else fails, or a step without guesses, is no job to pass over", "[decoding][batch][lookup]") {
    const models::Decoder model = long_model();
    Batch batch(*test_backends().front(), model, batch_options_of(1, 3));
    batch.script.add(1, greedy_sequence({1}, 2));
    const auto job = must(batch.script.next(1));
    CHECK_FALSE(batch.script.pass_over(*job, {ErrorCode::OutOfDeviceMemory, ""}));
    decoding::Job check = *job;
    check.kind = decoding::Job::Kind::check;
    CHECK_FALSE(batch.script.pass_over(check, {ErrorCode::DeviceLost, ""}));
    // A run that may have begun is repeated, unless it counts tokens: it might count them again.
    for (const bool counts : {false, true}) {
        CAPTURE(counts);
        Batch going(*test_backends().front(), model, batch_options_of(1, 3));
        BatchSequence asked = greedy_sequence(prompt_of(20), 4);
        asked.frequency = counts ? 0.5f : 0;
        going.script.add(1, asked);
        while (going.streamed[1].empty()) REQUIRE(going.run(1));  // and there is a program of the prompt to be dropped
        const auto again = must(going.script.next(1));
        CHECK(going.script.pass_over(*again, {ErrorCode::OutOfDeviceMemory, ""}) == !counts);
    }
}

TEST_CASE("nothing is guessed in a batch where it cannot be taken back", "[decoding][batch][lookup]") {
    graph::Backend& backend = *test_backends().front();
    BatchOptions options = {.rows = 2, .guesses = 4};
    const models::Decoder keeps_states = load_decoder_case("lfm2"), model = long_model();
    Batch states(backend, keeps_states, options);
    BatchSequence asked = greedy_sequence(Tokens(20, 5), 30);
    asked.bias = {{4, 30.0f}};  // again and again
    states.script.add(1, asked);
    states.run_all();
    CHECK(states.checks == 0);
    options.guesses = 65;
    const auto refused = decoding::checked_batch_options(model, options);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find("at most 64") != std::string::npos);
}

}  // namespace vkformer::tests
