// SPDX-License-Identifier: MIT
// Ops that choose and move, checked by hand: no oracle can vouch for the oracle.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string_view>

#include "cpu/arg_max.hpp"
#include "cpu/attention.hpp"
#include "cpu/cache_append.hpp"
#include "cpu/cache_places.hpp"
#include "cpu/cache_reorder.hpp"
#include "cpu/embedding.hpp"
#include "cpu/greedy_step.hpp"
#include "cpu/log_softmax.hpp"
#include "cpu/mask_logits.hpp"
#include "cpu/positional_embedding.hpp"
#include "cpu/top_k.hpp"
#include "support/catch.h"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

TEST_CASE("embeddings give NaN for what the table lacks", "[cpu][embedding]") {
    const Floats table = {1, 2, 3, 4, 5, 6};  // [3, 2]
    Floats y(8);
    cpu::embedding<float>(Ints{2, 0, 3, -1}, table, 2, 10.0f, y);
    CHECK(Floats(y.begin(), y.begin() + 4) == Floats{50, 60, 10, 20});
    CHECK(std::all_of(y.begin() + 4, y.end(), [](float x) { return std::isnan(x); }));

    Floats z(8);  // [2, 2, 2]: positions 1, 2 and −1, 0
    cpu::positional_embedding<float>(Floats{0, 0, 0, 0, 100, 100, 100, 100}, table, Ints{1, -1}, 2, 2, z);
    CHECK(Floats(z.begin(), z.begin() + 4) == Floats{3, 4, 5, 6});
    CHECK(std::isnan(z[4]));
    CHECK(std::isnan(z[5]));
    CHECK(Floats(z.begin() + 6, z.end()) == Floats{101, 102});
    cpu::positional_embedding<float>(Floats(8, 0), table, Ints{2, 0}, 2, 2, z);
    CHECK(std::isnan(z[2]));  // position 3 of 3
}

TEST_CASE("arg_max and top_k take the lower index on ties; of a NaN one chooses nothing, the other it before all",
          "[cpu][top_k]") {
    CHECK(cpu::arg_max<float>(Floats{1, 3, 3, 2}) == 1);
    CHECK(cpu::arg_max<float>(Floats{kInfinity, kNaN, kNaN}) == -1);
    CHECK(cpu::arg_max<float>(Floats{-kInfinity, -kInfinity}) == 0);
    Floats many(200, -1);  // several of the blocks that it walks by
    CHECK(cpu::arg_max<float>(many) == 0);
    many[67] = many[70] = many[130] = 2;
    CHECK(cpu::arg_max<float>(many) == 67);
    many[199] = 3;
    CHECK(cpu::arg_max<float>(many) == 199);
    many[100] = kNaN;
    CHECK(cpu::arg_max<float>(many) == -1);

    Floats values(4);
    Ints indices(4);
    cpu::top_k<float>(Floats{2, -kInfinity, 5, 2, 5, kNaN}, values, indices);
    CHECK(indices == Ints{5, 2, 4, 0});
    CHECK(std::isnan(values[0]));
    CHECK(Floats(values.begin() + 1, values.end()) == Floats{5, 5, 2});
    Floats all(3);
    Ints all_indices(3);
    cpu::top_k<float>(Floats{-kInfinity, 1, -kInfinity}, all, all_indices);
    CHECK(all_indices == Ints{1, 0, 2});
    CHECK(all == Floats{1, -kInfinity, -kInfinity});
}

TEST_CASE("top_k chooses from long rows what a stable sort puts first", "[cpu][top_k]") {
    const std::size_t size = GENERATE(1u, 63u, 64u, 65u, 200u, 1000u), k = GENERATE(1u, 2u, 8u, 63u, 64u, 66u, 1000u);
    if (k > size) return;
    const auto kind = GENERATE(as<std::string_view>(), "scattered", "rising", "falling", "level", "NaN now and then");
    CAPTURE(size, k, kind);
    Floats x(size);
    for (std::size_t i = 0; i < size; ++i) {
        const std::size_t place = i * 389 % 251;  // each number several times
        x[i] = kind == "level" ? 1.0f : static_cast<float>(kind == "rising" ? i : kind == "falling" ? size - i : place);
        if (kind == "NaN now and then" && place % 10 == 0) x[i] = kNaN;
    }
    Ints expected(size);
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::stable_sort(expected, [&](std::int32_t a, std::int32_t b) {
        return cpu::ranks_above(x[static_cast<std::size_t>(a)], x[static_cast<std::size_t>(b)]);
    });
    expected.resize(k);
    Floats values(k);
    Ints indices(k);
    cpu::top_k<float>(x, values, indices);
    CHECK(indices == expected);
    for (std::size_t i = 0; i < k; ++i) {
        const float value = x[static_cast<std::size_t>(indices[i])];
        CHECK((values[i] == value || (std::isnan(values[i]) && std::isnan(value))));
    }
}

TEST_CASE("log_softmax bears −∞ and large numbers", "[cpu][log_softmax]") {
    Floats y(3);
    cpu::log_softmax<float>(Floats{1e30f, -kInfinity, 1e30f}, y);
    CHECK(y[0] == Approx(-std::log(2.0)));
    CHECK(y[1] == -kInfinity);
    cpu::log_softmax<float>(Floats{-kInfinity, 0, -kInfinity}, y);
    CHECK(y == Floats{-kInfinity, 0, -kInfinity});
    cpu::log_softmax<float>(Floats(3, -kInfinity), y);
    CHECK(std::isnan(y[0]));
    cpu::log_softmax<float>(Floats{0, kNaN, 0}, y);
    CHECK((std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[2])));
}

TEST_CASE("mask_logits bans, forces the first and the last token, the last one first", "[cpu][mask_logits]") {
    const Floats x = {1, 2, 3};
    const cpu::ForcedTokens forced{.first = 1, .last = 2, .last_start = 4};
    Floats y(3);
    cpu::mask_logits<float>(x, 2, Ints{0}, forced, y);
    CHECK(y == Floats{-kInfinity, 2, 3});
    cpu::mask_logits<float>(x, 0, Ints{1}, forced, y);  // a forced token comes out even if it is banned
    CHECK(y == Floats{-kInfinity, 0, -kInfinity});
    cpu::mask_logits<float>(x, 4, {}, forced, y);
    CHECK(y == Floats{-kInfinity, -kInfinity, 0});
    cpu::mask_logits<float>(x, 0, {}, {.first = 1, .last = 2, .last_start = 0}, y);
    CHECK(y == Floats{-kInfinity, -kInfinity, 0});
    cpu::mask_logits<float>(x, 0, {}, {.first = -1, .last = -1, .last_start = 0}, y);
    CHECK(y == x);
}

TEST_CASE("cache_append writes where `starts` says, and nothing outside", "[cpu][cache]") {
    Floats cache(3 * 4, 0);  // 3 rows, 4 positions, width 1
    const cpu::CachePlaces places(4);
    cpu::cache_append<float>(Floats{1, 2, 3, 4, 5, 6}, Ints{1, 3, -1}, 2, 1, places, std::span(cache), [](auto) {});
    CHECK(cache == Floats{0, 1, 2, 0, 0, 0, 0, 3, 6, 0, 0, 0});
}

TEST_CASE("positions in pages are where the table says, for who reads and for who writes", "[cpu][cache][pages]") {
    const Ints table = {1, 0, -1, 2};  // two rows of two pages; there are two pages
    const cpu::CachePlaces places(table, 128, 2);
    CHECK(places.row_of(0, 63) == 127);
    CHECK(places.row_of(0, 64) == 0);
    CHECK_FALSE(places.row_of(0, 128));
    CHECK_FALSE(places.row_of(0, -1));
    CHECK_FALSE(places.row_of(1, 0));
    CHECK_FALSE(places.row_of(1, 127));
    std::vector<std::array<std::size_t, 3>> runs;
    const auto visit = [&](std::size_t first, std::size_t last, std::size_t row) {
        runs.push_back({first, last, row});
    };
    places.for_each_run(0, 60, 70, visit);
    places.for_each_run(1, 1, 65, visit);
    CHECK(runs == std::vector<std::array<std::size_t, 3>>{{60, 64, 124}, {64, 70, 0}, {1, 64, 65}, {64, 65, 64}});
}

TEST_CASE("cache_reorder moves rows within their group as if at once", "[cpu][cache]") {
    Floats cache = {1, 2, 3, 4, 5, 6, 7, 8};  // 4 rows of 2 positions, groups of 2
    const cpu::CacheDims dims{.rows = 4, .capacity = 2, .width = 1};
    cpu::cache_reorder<float>(Ints{1, 0, 0, 3}, {}, Ints{2, 1, 2, 2}, 2, dims, cache);
    CHECK(cache == Floats{3, 4, 1, 4, 5, 6, 7, 8});  // row 2's parent is not in its group
    cpu::cache_reorder<float>(Ints{1, -1, 99, 2}, {}, Ints{0, 9, 9, 9}, 2, dims, cache);
    CHECK(cache == Floats{3, 4, 1, 4, 5, 6, 5, 6});
    cache = {1, 2, 3, 4, 5, 6, 7, 8};
    cpu::cache_reorder<float>(Ints{1, 0, 3, 2}, Ints{1, 0, -1, 2}, Ints{2, 1, 1, 9}, 2, dims, cache);
    CHECK(cache == Floats{1, 4, 1, 4, 7, 6, 7, 8});
}

TEST_CASE("greedy_step ends rows at eos and fills them with pad", "[cpu][greedy_step]") {
    Ints tokens(3), starts = {0, 0, 1}, finished = {0, 1, 0}, history(2 * 3, -1);
    const Ints next = {7, 8, 1};
    const auto step = [&] {
        cpu::greedy_step({.next = next, .tokens = tokens, .starts = starts, .finished = finished, .history = history},
                         1, 9);
    };
    step();
    CHECK(tokens == Ints{7, 9, 1});
    CHECK(finished == Ints{0, 1, 1});
    CHECK(starts == Ints{1, 1, 2});
    CHECK(history == Ints{7, 9, -1, -1, -1, 1});
    step();  // row 2 is beyond the history
    CHECK(tokens == Ints{7, 9, 9});
    CHECK(history == Ints{7, 9, -1, 7, 9, 1});
}

TEST_CASE("masks: which keys a query sees", "[cpu][attention]") {
    const auto seen = [](const cpu::Mask<float>& mask, std::size_t i) {
        const auto [first, last] = mask.seen_keys(0, i, 10);
        return std::pair{first, last};
    };
    const Ints starts = {3}, length = {5}, none = {-2}, far = {1000};
    CHECK(seen({}, 4) == std::pair<std::size_t, std::size_t>{0, 10});
    CHECK(seen({.causal = true}, 4) == std::pair<std::size_t, std::size_t>{0, 5});
    CHECK(seen({.causal = true, .starts = starts}, 4) == std::pair<std::size_t, std::size_t>{0, 8});
    CHECK(seen({.window = 3}, 4) == std::pair<std::size_t, std::size_t>{2, 7});
    CHECK(seen({.causal = true, .window = 3, .key_lengths = length, .starts = starts}, 3) ==
          std::pair<std::size_t, std::size_t>{4, 5});
    CHECK(seen({.key_lengths = none}, 0) == std::pair<std::size_t, std::size_t>{0, 0});
    CHECK(seen({.key_lengths = far}, 0) == std::pair<std::size_t, std::size_t>{0, 10});
    CHECK(seen({.window = 1, .starts = far}, 0) == std::pair<std::size_t, std::size_t>{0, 0});
}

TEST_CASE("keys that are not seen are not read: NaN there does not matter", "[cpu][attention]") {
    const Ints lengths = {1};
    const Floats query = {1}, key = {1, kNaN}, value = {5, kNaN};
    Floats y(1);
    cpu::attention<float>(
        {.query = query,
         .key = key,
         .value = value,
         .places = cpu::CachePlaces(2),
         .mask = {.key_lengths = lengths},
         .scale = 1,
         .dims = {.batch = 1, .query_len = 1, .key_len = 2, .heads = 1, .kv_heads = 1, .head_dim = 1, .value_dim = 1}},
        y);
    CHECK(y[0] == 5);
}

TEST_CASE("exponentiate: −∞ is unseen, NaN goes on", "[cpu][attention]") {
    Floats scores = {-kInfinity, 0, -kInfinity};
    const auto terms = cpu::exponentiate(std::span(scores));
    CHECK(scores == Floats{0, 1, 0});
    CHECK(terms.max == 0);
    CHECK(terms.sum == 1);
    Floats unseen = {-kInfinity, -kInfinity};
    CHECK(cpu::exponentiate(std::span(unseen)).sum == 0);
    CHECK(unseen == Floats{0, 0});
    for (Floats bad : {Floats{kNaN, -kInfinity}, Floats{-kInfinity, kNaN}, Floats{1, kNaN}, Floats{kNaN, 1}})
        CHECK(std::isnan(cpu::exponentiate(std::span(bad)).sum));
}

}  // namespace
}  // namespace vkformer::tests
