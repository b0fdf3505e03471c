// SPDX-License-Identifier: MIT
#include "bench/case.hpp"

#include <set>

#include "graph/ops.hpp"
#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

template <class... Ops>
std::set<std::string_view> names_of(const std::variant<Ops...>*) {
    return {Ops::kName...};
}

/// The smallest shape that a family takes: a few of each dimension.
bench::Family::Dims small(const bench::Family& family) {
    bench::Family::Dims shape = family.shapes.front();
    for (std::uint64_t& number : shape) number = std::min<std::uint64_t>(number, 4);
    return shape;
}

TEST_CASE("every op of the graph has a benchmark case", "[bench][case]") {
    std::set<std::string_view> missing = names_of(static_cast<const graph::Op*>(nullptr));
    for (const bench::Family& family : bench::families())
        for (const std::string_view dtype : family.dtypes) {
            CAPTURE(family.op, dtype);
            bench::Family::Dims shape = small(family);
            if (family.op == "linear") shape[1] = 256;  // a block of every format
            if (family.op == "embedding") shape[2] = 256;
            if (family.op.find("attention") != std::string_view::npos && family.rank() >= 5)
                shape[family.rank() - 2] = 2;
            if (dtype == "q8_0" && family.rank() >= 4) shape.back() = 64;  // two blocks of a cache
            const bench::Case c = must(family.make(shape, dtype));
            bench::CaseBuilder builder;
            must(c.build(builder));
            CHECK_FALSE(builder.results().empty());
            CHECK(c.work.bytes() > 0);
            for (const graph::Node& node : builder.graph.nodes()) missing.erase(graph::op_name(node.op));
        }
    CHECK(missing == std::set<std::string_view>{});
}

}  // namespace
}  // namespace vkformer::tests
