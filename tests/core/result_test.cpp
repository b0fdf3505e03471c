// SPDX-License-Identifier: MIT
/// Result and Failure: values and errors that are copied, moved, assigned over each other and handed on.
#include "vkformer/result.hpp"

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "core/try.hpp"
#include "support/catch.h"

namespace {
thread_local bool has_no_memory = false;  // for what asks without an exception
}

// By which the library makes its errors.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    if (has_no_memory) return nullptr;
    try {
        return ::operator new(size);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

namespace vkformer::tests {
namespace {

using Number = std::unique_ptr<int>;

const std::string kLong(100, 'x');  // which no string keeps within itself

Error long_error() { return {.code = ErrorCode::CorruptFile, .message = kLong, .vk = -3, .hint = Hint::beams}; }

Result<Number> made(bool works) {
    if (works) return std::make_unique<int>(7);
    return long_error();
}
Result<std::string> text_of(bool works) {
    VKFORMER_TRY(const Number number, made(works));
    return std::to_string(*number);
}
Result<void> checked(bool works) {
    VKFORMER_CHECK(text_of(works));
    return {};
}
Result<std::vector<int>> after(bool works) {
    VKFORMER_CHECK(checked(works));
    return std::vector<int>{1, 2, 3};
}

/// Of which it is known how many there are.
struct Counted {
    static inline int count = 0;
    Counted() { ++count; }
    Counted(const Counted&) { ++count; }
    Counted(Counted&&) noexcept { ++count; }
    Counted& operator=(const Counted&) = default;
    Counted& operator=(Counted&&) = default;
    ~Counted() { --count; }
};
Result<Counted> counted(bool works) {
    if (works) return Counted();
    return long_error();
}
/// How many there are where one was declared and another one assigned to.
Result<int> count_of_two(bool works) {
    VKFORMER_TRY(Counted one, counted(true));
    Counted two;
    VKFORMER_TRY(two, counted(true));
    VKFORMER_TRY(one, counted(works));
    VKFORMER_CHECK(counted(works));
    return Counted::count;
}
Counted& no_place() { throw std::bad_alloc(); }
Result<void> into_no_place() {
    VKFORMER_TRY(no_place(), counted(true));
    return {};
}

}  // namespace

TEST_CASE("an error goes through any number of results as it was made", "[core][result]") {
    CHECK(after(true).value() == std::vector<int>{1, 2, 3});
    const auto failed = after(false);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code == ErrorCode::CorruptFile);
    CHECK(failed.error().message == kLong);
    CHECK(failed.error().vk == -3);
    CHECK(failed.error().hint == Hint::beams);
}

TEST_CASE("nothing is left of a result whose value was taken", "[core][result]") {
    CHECK(count_of_two(true).value() == 2);
    CHECK(Counted::count == 0);
    CHECK_FALSE(count_of_two(false));
    CHECK(Counted::count == 0);
    CHECK_THROWS_AS(into_no_place(), std::bad_alloc);
    CHECK(Counted::count == 0);
}

TEST_CASE("a copy of a result has a value or an error of its own", "[core][result]") {
    Result<std::string> failed = long_error();
    Result<std::string> copy = failed;
    copy = failed;
    const Error taken = std::move(failed).error();
    CHECK(taken.message == kLong);
    CHECK(copy.error().message == kLong);
    Result<void> nothing = long_error();
    const Result<void> same = nothing;
    nothing = {};
    CHECK(nothing);
    CHECK(same.error().message == kLong);
    const Result<std::string> value = kLong;
    Result<std::string> other = value;
    other->front() = 'y';
    CHECK(value->front() == 'x');
}

TEST_CASE("values and errors are assigned over each other", "[core][result]") {
    Result<Number> result = made(true);
    CHECK(**result == 7);
    result = made(false);
    REQUIRE_FALSE(result);
    CHECK(result.error().message == kLong);
    result = made(false);
    CHECK_FALSE(result);
    result = made(true);
    REQUIRE(result);
    CHECK(**result == 7);
    Result<Number> moved = std::move(result);
    CHECK(**moved == 7);
    moved = Error{.message = "short"};
    CHECK(moved.error().message == "short");
    Result<Number>& self = moved;
    moved = std::move(self);
    CHECK(moved.error().message == "short");
    static_assert(!std::is_copy_constructible_v<Result<Number>>);
    static_assert(std::is_copy_constructible_v<Result<std::string>>);
    static_assert(std::is_nothrow_move_constructible_v<Result<Number>>);
}

TEST_CASE("a result whose error was handed on can be assigned to and destroyed", "[core][result]") {
    Result<std::string> failed = long_error();
    const Result<int> next = std::move(failed).failure();
    CHECK(next.error().message == kLong);
    CHECK_FALSE(failed);  // it has no value either
    failed = std::string("value");
    CHECK(failed.value() == "value");
    Result<void> nothing = long_error();
    const Result<int> last = std::move(nothing).failure();
    CHECK(last.error().message == kLong);
}

TEST_CASE("an error without memory for it says so, as often as it is asked", "[core][result]") {
    const Error before = long_error();
    has_no_memory = true;
    Result<Number> failed = made(false);
    Result<Number> second = made(false);
    has_no_memory = false;
    for (Result<Number>* const result : {&failed, &second}) {
        REQUIRE_FALSE(*result);
        CHECK(result->error().code == ErrorCode::OutOfHostMemory);
        CHECK(result->error().message == "out of memory");
        CHECK(std::move(*result).error().message == "out of memory");  // which takes it from nobody
    }
    const Result<void> handed_on = std::move(failed).failure();
    CHECK(handed_on.error().message == "out of memory");
    const Result<void> known = long_error();
    has_no_memory = true;
    const Result<void> copy = known;
    has_no_memory = false;
    CHECK(copy.error().code == ErrorCode::OutOfHostMemory);
    CHECK(known.error().message == before.message);
    second = made(true);
    CHECK(second);
}

}  // namespace vkformer::tests
