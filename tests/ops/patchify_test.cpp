// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

TEST_CASE("patchify agrees with double precision", "[op][patchify]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    struct Sizes {
        Shape pixels;
        std::uint32_t patch_height, patch_width, prefix;
    };
    // a workgroup writes 512 elements; the last ones leave pixels over at the bottom and on the right
    for (const Sizes& s : {Sizes{{1, 1, 1, 1}, 1, 1, 0},
                           {{1, 1, 1, 511}, 1, 1, 0},
                           {{1, 1, 512, 1}, 2, 1, 1},
                           {{2, 3, 8, 12}, 4, 4, 1},
                           {{3, 2, 15, 21}, 5, 3, 2},
                           {{1, 3, 33, 47}, 16, 8, 0},
                           {{2, 1, 7, 11}, 7, 11, 3}}) {
        CAPTURE(backend.name(), to_string(dtype), to_string(s.pixels), s.patch_height, s.patch_width, s.prefix);
        OpCase c;
        const Value pixels = c.floats("pixels", DType::f32, s.pixels);
        c.expect(patchify(
            c.graph, pixels,
            {.patch_height = s.patch_height, .patch_width = s.patch_width, .prefix = s.prefix, .result = dtype}));
        c.check(backend);
    }
}

TEST_CASE("patchify puts channels, then lines, then columns of a patch into a row", "[op][patchify]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    // two channels of 2 × 5; the fifth column belongs to no patch
    const Value pixels = c.floats("pixels", DType::f32, {1, 2, 2, 5},
                                  {1, 2, 3, 4, 90, 5, 6, 7, 8, 91, 11, 12, 13, 14, 92, 15, 16, 17, 18, 93});
    const Value y = c.expect(patchify(c.graph, pixels, {.patch_height = 2, .patch_width = 2, .prefix = 1}));
    CHECK(c.graph.shape(y) == Shape{1, 3, 8});
    CHECK(c.run(backend, y) ==
          std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 5, 6, 11, 12, 15, 16, 3, 4, 7, 8, 13, 14, 17, 18});
}

TEST_CASE("patchify leaves a NaN in its place", "[op][patchify]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    OpCase c;
    const Value pixels =
        c.floats("pixels", DType::f32, {1, 1, 1, 4}, {1, std::numeric_limits<float>::quiet_NaN(), 3, 4});
    c.expect(patchify(c.graph, pixels, {.patch_width = 2, .prefix = 1, .result = dtype}));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
