// SPDX-License-Identifier: MIT
#include "validation/validate.hpp"

#include <functional>

#include "cpu/backend.hpp"
#include "models/marian_case.hpp"
#include "support/backends.hpp"
#include "support/fusions.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

/// A device whose compiler changes the plan before it makes the program: what a broken shader does to one node.
class BrokenBackend final : public graph::Backend {
public:
    using Damage = std::function<void(graph::Op& op, const std::string& node)>;
    explicit BrokenBackend(Damage damage, const graph::FusionRules& fusions = graph::stepwise_fusions())
        : damage_(std::move(damage)), fusions_(fusions) {}

    std::string name() const override { return "broken " + cpu_->name(); }
    std::shared_ptr<graph::TensorStore> make_store() override { return cpu_->make_store(); }
    const graph::FusionRules& fusions() const noexcept override { return fusions_; }
    Result<std::unique_ptr<graph::Program>> compile(graph::Plan plan, std::shared_ptr<graph::TensorStore> weights,
                                                    std::shared_ptr<graph::TensorStore> states) override {
        extras |= extras_in(plan.graph);
        std::vector<graph::Node> nodes(plan.graph.nodes().begin(), plan.graph.nodes().end());
        for (graph::Node& node : nodes) damage_(node.op, node.name);
        plan.graph.set_nodes(std::move(nodes));
        return cpu_->compile(std::move(plan), std::move(weights), std::move(states));
    }

    std::uint32_t extras = 0;  ///< what nodes had besides their ops

private:
    std::unique_ptr<graph::Backend> cpu_ = cpu::make_cpu_backend<float>();
    Damage damage_;
    const graph::FusionRules& fusions_;
};

struct ValidatedCase {
    graph::Graph graph;
    validation::Feeds feeds;
};

ValidatedCase forward_case(DType dtype = DType::f32) {
    const models::Seq2Seq model = load_marian("relu_d30_h5_h3");
    const Golden golden("marian/relu_d30_h5_h3/golden.safetensors");
    const TokenBatch source = token_batch(golden, "input_ids", "attention_mask");
    const TokenBatch target = token_batch(golden, "decoder_input_ids", "");
    auto f = must(model.forward({.batch = source.batch,
                                 .source_len = source.len,
                                 .target_len = target.len,
                                 .dtype = dtype,
                                 .source_mask = models::SourceMask::lengths}));
    return {std::move(f.graph),
            {{"input_ids", source.tokens}, {"decoder_input_ids", target.tokens}, {"source_lengths", source.lengths()}}};
}

validation::Report validate(const ValidatedCase& c, graph::Backend& device) {
    const auto oracle = cpu::make_cpu_backend<double>();
    return must(validation::validate(c.graph, "forward", c.feeds, device, *oracle));
}

}  // namespace

TEST_CASE("every node of a right device is within its bound", "[validation]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    const ValidatedCase c = forward_case(dtype);
    const auto report = validate(c, backend);
    REQUIRE(report.checks.size() > 30);
    if (const auto* first = report.first_divergence())
        FAIL(first->node << ": " << first->error << " > " << first->bound);
    for (const auto& check : report.checks) CHECK(check.bound < (dtype == DType::f16 ? 3e-3 : 1e-4));
}

TEST_CASE("validation runs the nodes that the device takes", "[validation][fusion]") {
    const auto intact = [](graph::Op&, const std::string&) {};
    const Without nothing(~0u);
    BrokenBackend fuses(intact), separates(intact, nothing);
    const ValidatedCase c = forward_case();
    const auto fused = validate(c, fuses), plain = validate(c, separates);
    CHECK(fuses.extras != 0);
    CHECK(separates.extras == 0);
    CHECK(plain.checks.size() > fused.checks.size());
    CHECK_FALSE(plain.first_divergence());
}

TEST_CASE("a broken node is named, and only that one", "[validation]") {
    const std::string broken = "encoder.1.self_attn.attention";
    BrokenBackend device([&](graph::Op& op, const std::string& node) {
        if (node == broken) std::get<graph::Attention>(op).scale *= 1.001f;
    });
    const auto report = validate(forward_case(), device);
    const auto* first = report.first_divergence();
    REQUIRE(first);
    CHECK(first->node == broken);
    CHECK(first->op == "attention");
    CHECK(std::ranges::count_if(report.checks, &validation::NodeCheck::diverges) == 1);
    // what comes later is right by itself, though its inputs are not
    CHECK(report.checks.back().error <= report.checks.back().bound);
    CHECK(report.checks.back().accumulated > 10 * report.checks.back().bound);
}

TEST_CASE("a node that ignores an operand is named", "[validation]") {
    BrokenBackend device([](graph::Op& op, const std::string& node) {
        if (node == "decoder.0.fc1.linear") std::get<graph::Linear>(op).epilogue.bias = {};
    });
    const auto report = validate(forward_case(), device);
    REQUIRE(report.first_divergence());
    CHECK(report.first_divergence()->node == "decoder.0.fc1.linear");
}

TEST_CASE("NaN is a divergence where it first appears", "[validation]") {
    BrokenBackend device([](graph::Op& op, const std::string& node) {
        if (node == "encoder.0.fc2.linear") std::get<graph::Linear>(op).epilogue.activation = graph::Activation::none;
        if (node == "encoder.0.self_attn_layer_norm.layer_norm") std::get<graph::LayerNorm>(op).eps = -1e9f;
    });
    const auto report = validate(forward_case(), device);
    const auto* first = report.first_divergence();
    REQUIRE(first);
    CHECK(first->node == "encoder.0.self_attn_layer_norm.layer_norm");
    CHECK(std::isnan(first->error));
}

TEST_CASE("states: the first wrong update is named", "[validation]") {
    // append to a cache, read it, reorder it: the cache is updated twice
    graph::Graph g;
    const Value x = must(g.input("x", DType::f32, {4, 1, 2, 3}));
    const Value starts = must(g.input("starts", DType::i32, {4}));
    const Value parents = must(g.input("parents", DType::i32, {4}));
    const Value lengths = must(g.input("lengths", DType::i32, {4}));
    const Value cache = must(g.state("cache", DType::f32, {4, 5, 2, 3}));
    must(graph::cache_append(g, x, starts, cache));
    const Value y = must(graph::decode_attention(g, x, cache, cache, {.causal = true, .starts = starts}, 1.0f));
    g.mark_output(y);
    must(graph::cache_reorder(g, cache, parents, lengths, 2));
    std::vector<float> values(24), filled(120);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * static_cast<float>(i % 7) - 0.2f;
    for (std::size_t i = 0; i < filled.size(); ++i) filled[i] = 0.1f * static_cast<float>(i % 11) - 0.4f;
    const ValidatedCase c = {g,
                             {{"x", values},
                              {"cache", filled},
                              {"starts", std::vector<std::int32_t>{2, 2, 1, 4}},
                              {"parents", std::vector<std::int32_t>{1, 0, 3, 3}},
                              {"lengths", std::vector<std::int32_t>{3, 3, 2, 5}}}};

    for (graph::Backend* backend : test_backends()) {
        CAPTURE(backend->name());
        const auto report = validate(c, *backend);
        CHECK_FALSE(report.first_divergence());
        CHECK(std::ranges::count(report.checks, "cache", &validation::NodeCheck::tensor) == 1);
    }
    BrokenBackend device([](graph::Op& op, const std::string&) {
        if (auto* reorder = std::get_if<graph::CacheReorder>(&op)) std::swap(reorder->parents, reorder->lengths);
    });
    const auto report = validate(c, device);
    REQUIRE(report.first_divergence());
    CHECK(report.first_divergence()->op == "cache_reorder");
}

TEST_CASE("an input without values is an error", "[validation][errors]") {
    ValidatedCase c = forward_case();
    c.feeds.erase("input_ids");
    const auto oracle = cpu::make_cpu_backend<double>();
    const auto result = validation::validate(c.graph, "forward", c.feeds, *oracle, *oracle);
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, Catch::Matchers::ContainsSubstring("input_ids"));
}

}  // namespace vkformer::tests
