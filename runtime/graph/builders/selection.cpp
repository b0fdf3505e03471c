// SPDX-License-Identifier: MIT
#include <cstdio>

#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {
namespace {

constexpr std::uint64_t kMaxTopK = 128;
constexpr std::string_view kLogitsLayout = "[rows, vocab]";

Result<void> check_logits(const OperandCheck& check, Value x) {
    VKFORMER_CHECK(check.dtype("x", x, DType::f32));
    return check.rank("x", x, kLogitsLayout);
}

Result<void> check_token(const OperandCheck& check, std::string_view name, std::int32_t token, std::uint64_t vocab) {
    if (token >= 0 && static_cast<std::uint64_t>(token) < vocab) return {};
    return check.error(ErrorCode::InvalidArgument, std::string(name) + " token is " + std::to_string(token) +
                                                       ", expected 0 to " + std::to_string(vocab - 1));
}

/// Weights are shared by name between graphs, so the name must tell one list from another: FNV-1a of the tokens.
std::string banned_name(std::span<const std::int32_t> banned) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const std::byte byte : std::as_bytes(banned)) {
        hash ^= static_cast<std::uint8_t>(byte);
        hash *= 0x100000001b3u;
    }
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    return "mask_logits.banned." + std::to_string(banned.size()) + "." + text;
}

}  // namespace

Result<Value> log_softmax(Graph& graph, Value x) {
    const OperandCheck check(graph, LogSoftmax::kName);
    VKFORMER_CHECK(check.floats("x", x));
    VKFORMER_CHECK(check.rank("x", x, kLogitsLayout));

    const Shape shape = graph.shape(x);
    VKFORMER_TRY(const Value y, graph.activation(LogSoftmax::kName, DType::f32, shape));
    graph.add_node(LogSoftmax{.x = x, .y = y});
    return y;
}

Result<Value> arg_max(Graph& graph, Value x) {
    const OperandCheck check(graph, ArgMax::kName);
    VKFORMER_CHECK(check_logits(check, x));

    VKFORMER_TRY(const Value y, graph.activation(ArgMax::kName, DType::i32, {graph.shape(x)[0]}));
    graph.add_node(ArgMax{.x = x, .y = y});
    return y;
}

Result<TopKResult> top_k(Graph& graph, Value x, std::uint32_t k) {
    const OperandCheck check(graph, TopK::kName);
    VKFORMER_CHECK(check_logits(check, x));
    VKFORMER_CHECK(check.range("k", k, 1, std::min(graph.shape(x)[1], kMaxTopK)));

    const Shape shape = graph.shape(x).with_back(k);
    VKFORMER_TRY(const Value values, graph.activation("top_k.values", DType::f32, shape));
    VKFORMER_TRY(const Value indices, graph.activation("top_k.indices", DType::i32, shape));
    graph.add_node(TopK{.x = x, .values = values, .indices = indices});
    return TopKResult{.values = values, .indices = indices};
}

Result<Value> mask_logits(Graph& graph, Value x, Value starts, const MaskLogitsOptions& options) {
    const OperandCheck check(graph, MaskLogits::kName);
    VKFORMER_CHECK(check_logits(check, x));
    const Shape shape = graph.shape(x);
    VKFORMER_CHECK(check.dtype("starts", starts, DType::i32));
    VKFORMER_CHECK(check.shape("starts", starts, {shape[0]}, "rows of x"));
    for (const std::int32_t token : options.banned) VKFORMER_CHECK(check_token(check, "banned", token, shape[1]));
    if (options.forced_first != -1) VKFORMER_CHECK(check_token(check, "forced_first", options.forced_first, shape[1]));
    if (options.forced_last != -1) {
        VKFORMER_CHECK(check_token(check, "forced_last", options.forced_last, shape[1]));
        if (options.last_start < 0)
            return check.error(ErrorCode::InvalidArgument,
                               "forced_last needs last_start, which is " + std::to_string(options.last_start));
    }

    Value banned;
    if (!options.banned.empty()) {
        const auto tokens = std::make_shared<std::vector<std::int32_t>>(options.banned);
        TensorData data{.dtype = DType::i32,
                        .shape = {tokens->size()},
                        .bytes = std::as_bytes(std::span(*tokens)),
                        .owner = tokens};
        VKFORMER_TRY(banned, graph.weight(banned_name(*tokens), std::move(data), DType::i32));
    }
    VKFORMER_TRY(const Value y, graph.activation(MaskLogits::kName, DType::f32, shape));
    graph.add_node(MaskLogits{.x = x,
                              .starts = starts,
                              .banned = banned,
                              .y = y,
                              .forced_first = options.forced_first,
                              .forced_last = options.forced_last,
                              .last_start = options.last_start});
    return y;
}

}  // namespace vkformer::graph
