// SPDX-License-Identifier: MIT
#include "graph/builders.hpp"
#include "graph/builders/check.hpp"
#include "graph/share.hpp"

namespace vkformer::graph {
namespace {

Result<void> check_share(const OperandCheck& check, std::string_view name, float share) {
    if (std::string wrong = wrong_share(name, share); !wrong.empty())
        return check.error(ErrorCode::InvalidArgument, std::move(wrong));
    return {};
}

Result<void> check_options(const OperandCheck& check, const SampleOptions& options, std::uint64_t vocab) {
    const bool divides = options.temperature >= 1e-4f && options.temperature <= 1e4f;
    if (options.temperature != 0 && !divides)
        return check.error(ErrorCode::InvalidArgument, "temperature is " + std::to_string(options.temperature) +
                                                           ", expected 0, or 0.0001 to 10000");
    if (options.top_k != 0) VKFORMER_CHECK(check.range("top_k", options.top_k, 1, vocab));
    VKFORMER_CHECK(check_share(check, "top_p", options.top_p));
    return check_share(check, "min_p", options.min_p);
}

}  // namespace

Result<Value> sample(Graph& graph, Value x, Value random, const SampleOptions& options, Value settings) {
    const OperandCheck check(graph, Sample::kName);
    VKFORMER_CHECK(check.dtype("x", x, DType::f32));
    VKFORMER_CHECK(check.rank("x", x, "[rows, vocab]"));
    const std::uint64_t rows = graph.shape(x)[0];
    VKFORMER_CHECK(check.i32_state("random", random, {rows, 3}, "rows of x; seed, draws"));
    VKFORMER_CHECK(check_options(check, options, graph.shape(x)[1]));
    if (settings) {
        VKFORMER_CHECK(check.dtype("settings", settings, DType::f32));
        VKFORMER_CHECK(check.shape("settings", settings, {rows, kSampleSettings}, "rows of x"));
        if (options.temperature != 1 || options.top_k != 0 || options.top_p != 1 || options.min_p != 0)
            return check.error(ErrorCode::InvalidArgument,
                               "settings are each row's own, but there are options for all rows, too");
    }

    VKFORMER_TRY(const Value y, graph.activation(Sample::kName, DType::i32, {rows}));
    graph.add_node(Sample{.x = x,
                          .random = random,
                          .settings = settings,
                          .y = y,
                          .temperature = options.temperature,
                          .top_k = options.top_k,
                          .top_p = options.top_p,
                          .min_p = options.min_p});
    return y;
}

}  // namespace vkformer::graph
