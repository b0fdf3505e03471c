// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>

#include "decoding/batch_pages.hpp"
#include "support/catch.h"

namespace vkformer::tests {
namespace {

using decoding::BatchPages;
using decoding::PageChains;
using decoding::PageKind;
using decoding::PagePool;
using decoding::SequencePages;
using Chain = PageChains::Chain;

constexpr std::uint32_t kLen = 4;

std::vector<std::int32_t> page_from(std::int32_t first) {
    std::vector<std::int32_t> tokens(kLen);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

}  // namespace

TEST_CASE("pages are lent until all are, and page 0 never is", "[decoding][pages]") {
    PagePool pool(4);
    std::vector<std::uint32_t> pages;
    while (const auto page = pool.take()) pages.push_back(*page);
    CHECK(pages == std::vector<std::uint32_t>{1, 2, 3});
    CHECK((pool.used() == 3 && pool.free() == 0 && pool.kept() == 0));
    pool.give_back(2);
    CHECK(pool.take() == 2u);
    CHECK_FALSE(pool.take());
}

TEST_CASE("a page is found by its tokens and all that are before it", "[decoding][pages]") {
    PageChains chains;
    PagePool pool(6);
    const std::uint32_t first = *pool.take(), second = *pool.take();
    const Chain one = chains.next({}, page_from(10)), two = chains.next(one, page_from(20));
    pool.keep(first, one);
    pool.keep(second, two);
    CHECK_FALSE(chains.find({}, page_from(20)));  // the same tokens at another place
    CHECK_FALSE(chains.find(one, page_from(21)));
    CHECK_FALSE(pool.find(chains.next({}, page_from(20))));

    CHECK(chains.find({}, page_from(10)) == one);
    CHECK(chains.find(one, page_from(20)) == two);
    CHECK(pool.find(one) == first);
    CHECK(pool.find(two) == second);

    pool.give_back(second);
    pool.give_back(first);
    CHECK(pool.used() == 2);  // the finder has them yet
    pool.give_back(second);
    pool.give_back(first);
    CHECK((pool.used() == 0 && pool.kept() == 2 && pool.available() == 5));
    CHECK(pool.find(one) == first);  // kept, and lent again
    CHECK((pool.used() == 1 && pool.kept() == 1));
}

TEST_CASE("what was kept longest gives way first, the end of a sequence before its beginning", "[decoding][pages]") {
    PageChains chains;
    PagePool pool(4);
    const std::uint32_t first = *pool.take(), second = *pool.take(), third = *pool.take();
    const Chain one = chains.next({}, page_from(10)), two = chains.next(one, page_from(20));
    const Chain other = chains.next({}, page_from(30));
    pool.keep(first, one);
    pool.keep(second, two);
    pool.keep(third, other);
    pool.give_back(third);
    pool.give_back(second);
    pool.give_back(first);
    CHECK(pool.take() == third);
    CHECK_FALSE(pool.find(other));
    CHECK(pool.take() == second);
    CHECK(pool.has(one));
    CHECK(pool.find(one));
    CHECK_FALSE(pool.has(two));
    CHECK_FALSE(pool.find(two));
    CHECK_FALSE(pool.take());
}

TEST_CASE("of two pages with the same tokens one is found, and what follows either has one chain",
          "[decoding][pages]") {
    PageChains chains;
    PagePool pool(5);
    const std::uint32_t mine = *pool.take(), other = *pool.take();
    const Chain one = chains.next({}, page_from(10));
    CHECK(chains.next({}, page_from(10)) == one);
    pool.keep(mine, one);
    pool.keep(other, one);
    CHECK(pool.find(one) == mine);
    pool.give_back(other);
    CHECK(pool.free() == 3);  // nobody will look for it
}

TEST_CASE("a beginning is known while anybody has it or what goes on from it", "[decoding][pages]") {
    PageChains chains;
    PagePool pool(3);
    Chain last;
    constexpr std::int32_t kPages = 400'000;  // more than calls may be deep
    for (std::int32_t i = 0; i < kPages; ++i) last = chains.next(last, page_from(i));
    const std::uint32_t page = *pool.take();
    pool.keep(page, last);
    last.reset();
    const auto at_end = [&] {
        Chain chain;
        for (std::int32_t i = 0; i < kPages; ++i) {
            chain = chains.find(chain, page_from(i));
            if (!chain) return false;
        }
        return pool.has(chain);
    };
    CHECK(at_end());
    pool.give_back(page);
    CHECK(at_end());
    CHECK((pool.take() && pool.take() == page));
    CHECK_FALSE(at_end());
    CHECK_FALSE(chains.find({}, page_from(0)));
}

TEST_CASE("a sequence has of a window what the next token sees, and room for what is computed", "[decoding][pages]") {
    const std::uint32_t window = GENERATE(1u, 5u, 63u, 64u, 65u, 66u, 128u, 200u);
    const std::uint32_t ahead = GENERATE(1u, 16u, 100u);
    CAPTURE(window, ahead);
    const PageKind kind = {.pages = 20, .window = window};
    std::size_t most = 0;
    for (std::size_t tokens = 0; tokens < 600; ++tokens) {
        const std::size_t first_seen = tokens + 1 < window ? 0 : tokens + 1 - window;
        CHECK(kind.passed(tokens) == first_seen / 64);
        most = std::max(most, (tokens + ahead + 63) / 64 - kind.passed(tokens));
    }
    CHECK(kind.most(ahead) == most);
    CHECK(PageKind{.pages = 20}.passed(1000) == 0);
}

TEST_CASE("there is room for a sequence where those before it have theirs for the next page", "[decoding][pages]") {
    const std::uint32_t window = GENERATE(0u, 64u);  // of which a sequence has two pages
    CAPTURE(window);
    const PageKind kinds[] = {{.pages = 5, .window = window}};  // four of them are lent
    BatchPages pages(kinds, 64);
    SequencePages running;
    const SequencePages next;
    const SequencePages* const others[] = {&running};
    CHECK(pages.have(running, 64));
    CHECK(pages.has_room(next, 2 * 64, others));
    CHECK_FALSE(pages.has_room(next, 3 * 64, others));
    CHECK(pages.has_room(next, 3 * 64, {}));
    CHECK(pages.have(running, 2 * 64));
    CHECK(pages.has_room(next, 2 * 64, others) == (window > 0));
    pages.release(running);
}

TEST_CASE("a beginning is found where all is there that a token behind it sees", "[decoding][pages]") {
    const PageKind kinds[] = {{.pages = 13}, {.pages = 7, .window = 100}};
    BatchPages pages(kinds, 64);
    const auto key = [](std::size_t page) { return page_from(static_cast<std::int32_t>(page)); };
    const auto other_key = [](std::size_t page) { return page_from(1000 + static_cast<std::int32_t>(page)); };
    SequencePages first;
    CHECK(pages.find(first, 8, key) == 0);
    for (std::size_t tokens = 64; tokens <= 8 * 64; tokens += 64) {
        CHECK(pages.have(first, tokens));
        pages.keep(first, tokens, key);
        pages.pass(first, tokens);
    }
    CHECK((pages.pool(0).used() == 8 && pages.pool(1).used() == 2 && pages.pool(1).kept() == 4));
    CHECK(first.held[1].pages[5] == 0);
    SequencePages found;  // the window's first two pages had to go
    CHECK(pages.find(found, 3, key) == 0);
    CHECK(pages.find(found, 4, key) == 4);
    CHECK((found.held[0].count() == 4 && found.held[1].count() == 2 && found.held[1].passed == 2));
    CHECK(found.held[1].pages[2] > 0);
    pages.release(found);
    pages.release(first);
    CHECK((pages.pool(0).used() == 0 && pages.pool(1).used() == 0));
    // Of windows, what was given back first goes first.
    SequencePages next;
    pages.find(next, 0, other_key);
    CHECK(pages.have(next, 4 * 64));
    CHECK(pages.find(found, 8, key) == 8);
    pages.release(found);
    CHECK(pages.find(found, 7, key) == 0);
    pages.release(next);
}

}  // namespace vkformer::tests
