// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

TEST_CASE("log_softmax bears elements of any size", "[op][log_softmax]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const auto [rows, vocab] = GENERATE(table<std::uint64_t, std::uint64_t>({{3, 129}, {4, 30'011}}));
    const float magnitude = GENERATE(1.0f, 30.0f, 20'000.0f);
    CAPTURE(backend.name(), to_string(dtype), rows, vocab, magnitude);

    OpCase c;
    c.expect(log_softmax(c.graph, c.floats("x", dtype, {rows, vocab}, magnitude)));
    c.check(backend);
}

TEST_CASE("log_softmax meets infinities and NaN", "[op][log_softmax]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    constexpr std::uint64_t kVocab = 300;
    OpCase c;
    std::vector<float> rows = c.random_floats(4 * kVocab);
    for (const std::size_t i : {0u, 1u, 128u, 299u}) rows[i] = -kInfinity;  // forbidden tokens
    rows[kVocab + 200] = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(rows.begin() + 2 * kVocab, kVocab, -kInfinity);  // no distribution
    std::fill_n(rows.begin() + 3 * kVocab, kVocab, -kInfinity);  // a forced token
    rows[3 * kVocab + 131] = 0;
    const Value y = c.expect(log_softmax(c.graph, c.floats("x", DType::f32, {4, kVocab}, rows)));
    c.check(backend);
    const std::vector<float> found = c.run(backend, y);
    for (std::size_t i = 0; i < kVocab; ++i) CHECK(std::isnan(found[kVocab + i]));
    CHECK(found[3 * kVocab + 131] == 0);
}

}  // namespace
}  // namespace vkformer::tests
