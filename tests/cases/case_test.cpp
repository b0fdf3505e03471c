// SPDX-License-Identifier: MIT
#include "cases/case.hpp"

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
cases::Family::Dims small(const cases::Family& family) {
    cases::Family::Dims shape(family.rank(), 4);
    if (family.dims.starts_with("queries x keys x capacity")) shape[0] = 1;  // a decode step
    if (family.op.find("attention") != std::string_view::npos) shape.back() = 64;  // two blocks of a cache
    if (family.name == "cache_append" || family.name == "cache_reorder") shape.back() = 64;
    return shape;
}

TEST_CASE("every op of the graph has a case, in all the types that it names", "[cases]") {
    std::set<std::string_view> missing = names_of(static_cast<const graph::Op*>(nullptr));
    std::set<std::string_view> names;
    for (const cases::Family& family : cases::families()) {
        CAPTURE(family.name);
        CHECK(names.insert(family.name).second);
        REQUIRE_FALSE(family.types.empty());
        for (const cases::Types& types : family.types) {
            CAPTURE(types.name());
            const cases::Case c = must(family.make(small(family), types));
            CHECK(c.op == family.name);
            cases::CaseBuilder builder, empty(cases::CaseBuilder::Contents::none);
            must(c.build(builder));
            must(c.build(empty));
            CHECK_FALSE(builder.results().empty());
            CHECK(empty.graph.nodes().size() == builder.graph.nodes().size());
            CHECK(c.work.bytes() > 0);
            bool has_op = false;
            for (const graph::Node& node : builder.graph.nodes()) has_op |= graph::op_name(node.op) == family.op;
            CHECK(has_op);
        }
        missing.erase(family.op);
    }
    CHECK(missing == std::set<std::string_view>{});
}

TEST_CASE("types are called by what is not said otherwise", "[cases]") {
    using cases::Types;
    CHECK(Types(DType::f16).name() == "f16");
    CHECK(Types(DType::q8_0) == Types(DType::f32, DType::q8_0, DType::f32));
    CHECK(Types(DType::q8_0).name() == "q8_0");
    CHECK(Types(DType::f16, DType::q8_0).name() == "f16_q8_0");
    CHECK(Types(DType::f16, DType::f16, DType::f32).name() == "f16_to_f32");
    CHECK(Types(DType::f32, DType::f16).name() == "f32_f16");
}

TEST_CASE("a form that no model has a shape of is made with one", "[cases]") {
    CHECK(cases::choose_cases({.ops = {"gated_linear"}}).error().message ==
          "no model has a shape of its own for gated_linear; name one with --shape");
    const auto chosen = must(cases::choose_cases({.ops = {"gated_linear"}, .shapes = {"3x32x5"}, .dtypes = {"q4_0"}}));
    REQUIRE(chosen.size() == 1);
    CHECK(chosen[0].name() == "gated_linear 3x32x5 q4_0");
    const std::string refused = cases::choose_cases({.ops = {"add"}, .shapes = {}, .dtypes = {"q8_0"}}).error().message;
    CHECK(refused == "add has no dtype q8_0; it has: f32, f16");
}

}  // namespace
}  // namespace vkformer::tests
