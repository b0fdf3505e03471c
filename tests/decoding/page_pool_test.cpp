// SPDX-License-Identifier: MIT
#include "decoding/page_pool.hpp"

#include <numeric>

#include "support/catch.h"

namespace vkformer::tests {
namespace {

using decoding::PagePool;

constexpr std::uint32_t kLen = 4;

std::vector<std::int32_t> page_from(std::int32_t first) {
    std::vector<std::int32_t> tokens(kLen);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

}  // namespace

TEST_CASE("pages are lent until all are, and page 0 never is", "[decoding][pages]") {
    PagePool pool(4, kLen);
    std::vector<std::uint32_t> pages;
    while (const auto page = pool.take()) pages.push_back(*page);
    CHECK(pages == std::vector<std::uint32_t>{1, 2, 3});
    CHECK((pool.used() == 3 && pool.free() == 0 && pool.kept() == 0));
    pool.give_back(2);
    CHECK(pool.take() == 2u);
    CHECK_FALSE(pool.take());
}

TEST_CASE("a page is found by its tokens and all that are before it", "[decoding][pages]") {
    PagePool pool(6, kLen);
    const std::uint32_t first = *pool.take(), second = *pool.take();
    const PagePool::Chain one = pool.keep(first, PagePool::kBeginning, page_from(10));
    const PagePool::Chain two = pool.keep(second, one, page_from(20));
    CHECK_FALSE(pool.find(PagePool::kBeginning, page_from(20)));  // the same tokens at another place
    CHECK_FALSE(pool.find(one, page_from(21)));

    const auto found = pool.find(PagePool::kBeginning, page_from(10));
    REQUIRE(found);
    CHECK((found->page == first && found->chain == one));
    const auto next = pool.find(found->chain, page_from(20));
    REQUIRE(next);
    CHECK((next->page == second && next->chain == two));

    pool.give_back(second);
    pool.give_back(first);
    CHECK(pool.used() == 2);  // the finder has them yet
    pool.give_back(second);
    pool.give_back(first);
    CHECK((pool.used() == 0 && pool.kept() == 2 && pool.available() == 5));
    CHECK(pool.find(PagePool::kBeginning, page_from(10))->page == first);  // kept, and lent again
    CHECK((pool.used() == 1 && pool.kept() == 1));
}

TEST_CASE("what was kept longest gives way first, the end of a sequence before its beginning", "[decoding][pages]") {
    PagePool pool(4, kLen);
    const std::uint32_t first = *pool.take(), second = *pool.take(), third = *pool.take();
    const PagePool::Chain one = pool.keep(first, PagePool::kBeginning, page_from(10));
    pool.keep(second, one, page_from(20));
    pool.keep(third, PagePool::kBeginning, page_from(30));
    pool.give_back(third);
    pool.give_back(second);
    pool.give_back(first);
    CHECK(pool.take() == third);
    CHECK_FALSE(pool.find(PagePool::kBeginning, page_from(30)));
    CHECK(pool.take() == second);
    CHECK(pool.find(PagePool::kBeginning, page_from(10)));
    CHECK_FALSE(pool.find(one, page_from(20)));
    CHECK_FALSE(pool.take());
}

TEST_CASE("of two pages with the same tokens one is found, and what follows either has one chain",
          "[decoding][pages]") {
    PagePool pool(5, kLen);
    const std::uint32_t mine = *pool.take(), other = *pool.take(), next = *pool.take();
    const PagePool::Chain one = pool.keep(mine, PagePool::kBeginning, page_from(10));
    CHECK(pool.keep(other, PagePool::kBeginning, page_from(10)) == one);
    pool.keep(next, one, page_from(20));
    CHECK(pool.find(PagePool::kBeginning, page_from(10))->page == mine);
    CHECK(pool.find(one, page_from(20))->page == next);
    pool.give_back(other);
    CHECK(pool.free() == 2);  // nobody will look for it
}

}  // namespace vkformer::tests
