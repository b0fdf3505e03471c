// SPDX-License-Identifier: MIT
#include <cstdint>
#include <future>
#include <numeric>
#include <utility>
#include <vector>

#include "models/tiny_llama.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "vkformer/generation_engine.hpp"

namespace vkformer::tests {
namespace {

/// Of an engine over a Llama with that window, behind a prompt of 300 tokens and an answer.
EngineStats stats_behind_prompt(TinyLlama model) {
    const TemporaryFolder folder;
    model.positions = 512;
    write_tiny_llama(folder.path(), model);
    GenerationEngine engine = must(GenerationEngine::load(
        folder.path(), {.generator = {.device = "cpu", .batch = 2}, .cache_tokens = 1024, .prompt_chunk = 64}));
    const EngineStats before = engine.stats();
    std::vector<std::int32_t> prompt(300);
    for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<std::int32_t>(7 * i % model.vocab);
    std::promise<Result<Generation>> end;
    must(engine.submit({.prompt = prompt, .options = {.max_tokens = 4}},
                       [&](std::string_view, std::int32_t) {
                           const EngineStats now = engine.stats();
                           CHECK(now.pages == before.pages);
                           return true;
                       },
                       [&](Result<Generation> result) { end.set_value(std::move(result)); }));
    must(end.get_future().get());
    const EngineStats after = engine.stats();
    CHECK((before.pages == after.pages && before.window_pages == after.window_pages));
    CHECK((before.kept_pages == 0 && before.kept_window_pages == 0));
    CHECK((after.used_pages == 0 && after.used_window_pages == 0));
    return after;
}

}  // namespace

TEST_CASE("an engine's statistics tell the pages of windows from the others", "[api][engine][pages]") {
    const EngineStats whole = stats_behind_prompt({});
    CHECK((whole.pages == 16 && whole.kept_pages == 4));
    CHECK((whole.window_pages == 0 && whole.kept_window_pages == 0));

    const EngineStats mixed = stats_behind_prompt({.window = 64, .every_layer = false});
    CHECK((mixed.pages == 16 && mixed.kept_pages == 4));
    CHECK((mixed.window_pages > 0 && mixed.window_pages < 16));
    CHECK((mixed.kept_window_pages > 0 && mixed.kept_window_pages <= mixed.window_pages));

    const EngineStats windowed = stats_behind_prompt({.window = 64, .every_layer = true});
    CHECK((windowed.pages == 16 && windowed.window_pages == 0));
}

}  // namespace vkformer::tests
