// SPDX-License-Identifier: MIT
// Batches of models whose layers, all or some, see a window of a sequence: what lies before it is given back.
#include <algorithm>
#include <cmath>

#include "decoding/batch_case.hpp"
#include "decoding/log_probs_case.hpp"
#include "models/tiny_llama.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

constexpr std::uint32_t kWindowedContext = 640, kWindow = 100, kWindowedChunk = 64;

/// Every layer has the window, or every second one.
models::Decoder windowed_model(bool every, std::uint32_t window = kWindow) {
    const TemporaryFolder folder;
    write_tiny_llama(folder.path(),
                     {.layers = 3, .positions = kWindowedContext, .window = window, .every_layer = every});
    return must(models::load_decoder(folder.path()));
}

/// So many pages of layers with a window; of those without one, if there are any, as many as whole sequences have.
BatchOptions windowed_options(bool every, std::uint32_t rows, std::uint32_t pages) {
    BatchOptions options = {.rows = rows, .context = kWindowedContext, .chunk = kWindowedChunk};
    options.pages = every ? pages + 1 : rows * kWindowedContext / 64 + 11;
    if (!every) options.window_pages = pages + 1;
    return options;
}

struct WindowedBatch : Batch {
    WindowedBatch(graph::Backend& on, const models::Decoder& model, const BatchOptions& options)
        : Batch(on, model, options), kinds(decoding::page_kinds(model, options).size()) {}

    const decoding::PagePool& windows() const { return script.pages(kinds - 1); }
    void add(const std::vector<BatchSequence>& asked, std::size_t first = 0) {
        for (std::size_t i = first; i < asked.size(); ++i) {
            must(script.check(asked[i]));
            script.add(i, asked[i]);
        }
    }
    void check_alone(const models::Decoder& model, const std::vector<BatchSequence>& asked) {
        for (std::size_t i = 0; i < asked.size(); ++i) {
            CAPTURE(i);
            REQUIRE(ended.contains(i));
            check_alike(ended.at(i), answer_alone(backend, model, asked[i], kWindowedContext));
        }
        for (std::size_t kind = 0; kind < kinds; ++kind) CHECK(script.pages(kind).used() == 0);
    }

    std::size_t kinds;
};

/// Each second one begins as the one before, for less than a window or for more.
std::vector<BatchSequence> windowed_sequences(std::size_t count, std::uint32_t tokens) {
    std::vector<BatchSequence> asked;
    for (std::size_t i = 0; i < count; ++i) {
        asked.push_back(greedy_sequence(prompt_of(20 + 71 * i, static_cast<std::int32_t>(i / 2 + 3)), tokens));
        asked[i].sequence.seed = i;
        asked[i].sample = {.temperature = 0.7f, .top_k = 20};
    }
    return asked;
}

std::size_t most_pages_of(std::uint32_t window, std::size_t ahead) {
    return decoding::PageKind{.window = window}.most(ahead);
}

}  // namespace

TEST_CASE("a sequence has no more pages than its window and a chunk take", "[decoding][batch][windows]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool every = GENERATE(true, false);
    const auto [window, prompt] =
        GENERATE(table<std::uint32_t, std::size_t>({{kWindow, 10}, {kWindow, 500}, {1, 300}}));
    CAPTURE(backend.name(), every, window, prompt);
    if (!takes_case(backend, 4)) return;
    const models::Decoder model = windowed_model(every, window);
    const std::size_t most = most_pages_of(window, kWindowedChunk);
    WindowedBatch batch(backend, model, windowed_options(every, 1, static_cast<std::uint32_t>(most) + 4));
    const std::vector<BatchSequence> asked = {greedy_sequence(prompt_of(prompt), kWindowedContext)};
    batch.add(asked);
    std::size_t used = 0;
    while (!batch.script.is_idle()) {
        const bool has_begun = !batch.streamed[0].empty();
        REQUIRE(batch.run(3));
        if (batch.script.is_idle()) break;
        used = std::max<std::size_t>(used, batch.windows().used());
        if (has_begun) CHECK(batch.windows().used() <= most_pages_of(window, 3));
        const std::size_t all = (prompt + batch.streamed[0].size() + 63) / 64;
        if (!every) CHECK((batch.script.pages().used() == all || batch.script.pages().used() + 1 == all));
    }
    CHECK(used <= most);
    CHECK(used >= (window + 62) / 64);
    batch.check_alone(model, asked);
    CHECK(batch.script.counts().preempted == 0);
}

TEST_CASE("sequences run together that would not with pages of all their tokens", "[decoding][batch][windows]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool every = GENERATE(true, false);
    CAPTURE(backend.name(), every);
    const models::Decoder model = windowed_model(every);
    // Whole ones have ten pages each.
    WindowedBatch batch(backend, model, windowed_options(every, 4, 16));
    std::vector<BatchSequence> asked;
    for (std::int32_t i = 0; i < 4; ++i)
        asked.push_back(greedy_sequence(prompt_of(static_cast<std::size_t>(420 + 50 * i), i + 3), 60));
    batch.add(asked);
    std::size_t together = 0;
    while (!batch.script.is_idle()) {
        REQUIRE(batch.run());
        together = std::max(together, batch.script.running());
    }
    CHECK(together == 4);
    CHECK(batch.script.counts().preempted == 0);
    batch.check_alone(model, asked);
}

TEST_CASE("where pages of windows run out, who came last waits, and loses nothing", "[decoding][batch][windows]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool every = GENERATE(true, false);
    const std::uint32_t guesses = GENERATE(0u, 9u);
    CAPTURE(backend.name(), every, guesses);
    if (!takes_case(backend, 3)) return;
    const models::Decoder model = windowed_model(every);
    BatchOptions options = windowed_options(every, 4, 6);  // of four for one that reads its prompt
    options.guesses = guesses;
    WindowedBatch batch(backend, model, options);
    std::vector<BatchSequence> asked = windowed_sequences(6, 170);
    if (guesses > 0)
        for (BatchSequence& one : asked) one.frequency = -0.5f;  // what was said is said again
    batch.add(asked);
    batch.run_all();
    CHECK(batch.script.counts().preempted > 0);
    // What one read itself before it gave way is not found: two pairs have beginnings in common, of 162 and 304 tokens.
    CHECK(batch.script.counts().reused_tokens <= 128 + 256);
    CHECK((batch.script.counts().accepted_tokens > 0) == (guesses > 0));
    batch.check_alone(model, asked);
}

TEST_CASE("guesses reach beyond a window's pages, and leave no more of them", "[decoding][batch][windows][lookup]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool every = GENERATE(true, false);
    CAPTURE(backend.name(), every);
    if (!takes_case(backend, 2)) return;
    const models::Decoder model = windowed_model(every);
    BatchOptions options = windowed_options(every, 2, 9);
    options.guesses = 40;
    WindowedBatch batch(backend, model, options);
    std::vector<BatchSequence> asked = windowed_sequences(2, 400);
    for (BatchSequence& one : asked) one.frequency = -0.4f;
    batch.add(asked);
    while (!batch.script.is_idle()) {
        const std::size_t checks = batch.checks;
        REQUIRE(batch.run());
        if (batch.checks > checks) CHECK(batch.windows().used() <= 2 * most_pages_of(kWindow, 1));
    }
    CHECK(batch.script.counts().accepted_tokens > 100);
    batch.check_alone(model, asked);
}

TEST_CASE("a beginning is found after its pages were given back, while they are kept", "[decoding][batch][windows]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool every = GENERATE(true, false);
    CAPTURE(backend.name(), every);
    if (!takes_case(backend, 2)) return;
    const models::Decoder model = windowed_model(every);
    WindowedBatch batch(backend, model, windowed_options(every, 2, 14));
    const std::vector<std::int32_t> common = prompt_of(450);
    std::vector<BatchSequence> asked;
    const auto add = [&](std::size_t of_common, std::vector<std::int32_t> own, std::uint32_t tokens) {
        own.insert(own.begin(), common.begin(), common.begin() + static_cast<std::ptrdiff_t>(of_common));
        asked.push_back(greedy_sequence(std::move(own), tokens));
        batch.add(asked, asked.size() - 1);
        return asked.size() - 1;
    };
    const auto reused = [&](std::size_t id) {
        batch.run_all();
        return batch.ended.at(id).reused;
    };
    add(450, {}, 150);
    while (batch.streamed[0].size() < 5) REQUIRE(batch.run());
    const std::size_t second = add(150, {1, 2}, 200);  // while the first runs, which has passed these pages
    while (!batch.streamed.contains(second)) REQUIRE(batch.run());
    CHECK(batch.windows().kept() > 0);
    CHECK(reused(second) == 128);
    CHECK(reused(add(450, {5}, 30)) == 448);  // longer than the window
    CHECK(reused(add(200, {6, 7}, 30)) == 192);
    // Of others there are soon as many as are kept.
    for (std::int32_t seed = 20; seed < 24; ++seed) {
        asked.push_back(greedy_sequence(prompt_of(400, seed), 9));
        batch.add(asked, asked.size() - 1);
        batch.run_all();
    }
    CHECK(reused(add(450, {8}, 30)) == 0);
    CHECK(reused(add(450, {9}, 30)) == 448);
    batch.check_alone(model, asked);
}

TEST_CASE("of a prompt longer than its window all is told", "[decoding][batch][windows][log_probs]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool every = GENERATE(true, false);
    CAPTURE(backend.name(), every);
    if (!takes_case(backend, 2)) return;
    const models::Decoder model = windowed_model(every);
    WindowedBatch batch(backend, model, windowed_options(every, 2, 6));
    std::vector<BatchSequence> asked(3, greedy_sequence(prompt_of(333), 40));
    asked[1].prompt_log_probs = 2;
    asked[1].log_probs = 0;
    batch.add(asked);
    batch.run_all();
    const auto& prompt = asked[1].sequence.prompt;
    const auto& told = batch.prompts.at(1);
    REQUIRE(told.size() + 1 == prompt.size());
    const auto expected = log_probs_of(model, {prompt.begin(), prompt.end() - 1}, told.size());
    for (std::size_t t = 0; t < told.size(); ++t)
        CHECK(std::abs(told[t].chosen.log_prob - expected[t][static_cast<std::size_t>(prompt[t + 1])]) < 2e-4);
    batch.check_alone(model, asked);
}

TEST_CASE("how many pages layers with a window have is known before", "[decoding][batch][windows]") {
    const models::Decoder all = windowed_model(true), some = windowed_model(false), none = long_model();
    const auto checked = [](const models::Decoder& model, const BatchOptions& options) {
        return must(decoding::checked_batch_options(model, options));
    };
    BatchOptions options = {.rows = 2, .context = kWindowedContext, .chunk = kWindowedChunk};
    CHECK(checked(all, options).pages == 21);  // as many as whole sequences have: what is more is kept
    CHECK(checked(all, options).window_pages == 0);
    options.pages = 5;
    CHECK(checked(all, options).pages == 5);
    const auto message = [](const models::Decoder& model, const BatchOptions& wrong) {
        const auto refused = decoding::checked_batch_options(model, wrong);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == ErrorCode::InvalidArgument);
        return refused.error().message;
    };
    CHECK(message(some, options).find("256 tokens, fewer than the context of 640") != std::string::npos);
    options.pages = 4;
    CHECK(message(all, options).find("192 tokens, fewer than the 256 that the window of 100 and a chunk of 64") !=
          std::string::npos);
    options.pages = 41;
    CHECK(checked(some, options).window_pages == 17);
    options.pages = 17;
    CHECK(checked(some, options).window_pages == 0);  // no fewer
    options.window_pages = 4;
    CHECK(message(some, options).find("have 3 pages, a sequence takes 4") != std::string::npos);
    options.window_pages = 5;
    CHECK(checked(some, options).window_pages == 5);
    options.context = 128;
    CHECK(checked(some, options).window_pages == 0);  // no more than the window
    options = batch_options_of(2, 8);
    options.window_pages = 3;
    CHECK(checked(none, options).window_pages == 0);
}

}  // namespace vkformer::tests
