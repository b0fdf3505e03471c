// SPDX-License-Identifier: MIT
#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {
namespace {

/// Whether `values` are the top k of logits that have no more than k elements per row.
bool is_whole_vocabulary(const Graph& graph, Value values) {
    return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
        const auto* op = std::get_if<TopK>(&node.op);
        return op && op->values == values && graph.shape(op->x) == graph.shape(values);
    });
}

}  // namespace

Result<void> greedy_step(Graph& graph, Value next, const GreedyStates& states, std::int32_t eos, std::int32_t pad,
                         const GreedyExtras& extras) {
    const OperandCheck check(graph, GreedyStep::kName);
    VKFORMER_CHECK(check.dtype("next", next, DType::i32));
    VKFORMER_CHECK(check.rank("next", next, "[rows]"));
    const std::uint64_t rows = graph.shape(next)[0];
    VKFORMER_CHECK(check.i32_state("tokens", states.tokens, {rows, 1}, "rows of next"));
    VKFORMER_CHECK(check.i32_state("starts", states.starts, {rows}, "rows of next"));
    VKFORMER_CHECK(check.i32_state("finished", states.finished, {rows}, "rows of next"));
    VKFORMER_CHECK(check.rank("history", states.history, "[capacity, rows]"));
    VKFORMER_CHECK(
        check.i32_state("history", states.history, graph.shape(states.history).with_back(rows), "rows of next"));
    VKFORMER_CHECK(check.distinct({{"next", next},
                                   {"tokens", states.tokens},
                                   {"starts", states.starts},
                                   {"finished", states.finished},
                                   {"history", states.history}}));
    if (extras.given) {
        VKFORMER_CHECK(check.dtype("given", extras.given, DType::i32));
        VKFORMER_CHECK(check.rank("given", extras.given, "[rows, positions]"));
        VKFORMER_CHECK(check.shape("given", extras.given, {rows, graph.shape(extras.given)[1]}, "rows of next"));
    }
    if (extras.log_probs || extras.scores) {
        VKFORMER_CHECK(check.dtype("log_probs", extras.log_probs, DType::f32));
        VKFORMER_CHECK(check.rank("log_probs", extras.log_probs, "[rows, vocab]"));
        VKFORMER_CHECK(
            check.shape("log_probs", extras.log_probs, {rows, graph.shape(extras.log_probs)[1]}, "rows of next"));
        VKFORMER_CHECK(check.dtype("scores", extras.scores, DType::f32));
        VKFORMER_CHECK(check.state("scores", extras.scores));
        VKFORMER_CHECK(check.shape("scores", extras.scores, graph.shape(states.history), "as history"));
    }
    graph.add_node(GreedyStep{.next = next,
                              .given = extras.given,
                              .log_probs = extras.log_probs,
                              .tokens = states.tokens,
                              .starts = states.starts,
                              .finished = states.finished,
                              .history = states.history,
                              .scores = extras.scores,
                              .eos = eos,
                              .pad = pad});
    return {};
}

Result<void> beam_step(Graph& graph, Value candidate_scores, Value candidate_tokens, const BeamStates& states,
                       const BeamOptions& options) {
    const OperandCheck check(graph, BeamStep::kName);
    VKFORMER_CHECK(check.range("beams", options.beams, 1, kMaxBeams));
    VKFORMER_CHECK(check.range("max_steps", options.max_steps, 1, std::numeric_limits<std::int32_t>::max()));
    VKFORMER_CHECK(check.dtype("candidate_scores", candidate_scores, DType::f32));
    VKFORMER_CHECK(check.rank("candidate_scores", candidate_scores, "[rows, k]"));
    const std::uint64_t rows = graph.shape(candidate_scores)[0];
    const std::uint64_t k = graph.shape(candidate_scores)[1];
    if (rows % options.beams != 0)
        return check.error(ErrorCode::ShapeMismatch,
                           "candidate_scores has shape " + to_string(graph.shape(candidate_scores)) +
                               ", expected a multiple of beams, " + std::to_string(options.beams) + ", as its rows");
    VKFORMER_CHECK(check.dtype("state", states.state, DType::i32));
    VKFORMER_CHECK(check.rank("state", states.state, "[batch + 3]"));
    const std::uint64_t flags = rows / options.beams + 3, flags_and_ends = graph.shape(states.state)[0];
    const std::uint64_t ends = flags_and_ends - std::min(flags_and_ends, flags);  // besides eos
    const std::uint64_t wanted = (2 + ends) * options.beams;
    if (k < 2 + ends || (k < wanted && !is_whole_vocabulary(graph, candidate_scores)))
        return check.error(ErrorCode::ShapeMismatch,
                           "candidate_scores has shape " + to_string(graph.shape(candidate_scores)) +
                               ", expected at least " + std::to_string(wanted) + " candidates per row (" +
                               std::to_string(2 + ends) + " · beams)");
    VKFORMER_CHECK(check.dtype("candidate_tokens", candidate_tokens, DType::i32));
    VKFORMER_CHECK(check.shape("candidate_tokens", candidate_tokens, {rows, k}, "as candidate_scores"));

    constexpr std::string_view kRows = "rows of candidate_scores";
    const Shape row{rows};
    VKFORMER_CHECK(check.rank("token_history", states.token_history, "[max_steps, rows]"));
    const Shape history{std::max<std::uint64_t>(options.max_steps, graph.shape(states.token_history)[0]), rows};
    VKFORMER_CHECK(check.i32_state("tokens", states.tokens, {rows, 1}, kRows));
    VKFORMER_CHECK(check.i32_state("starts", states.starts, row, kRows));
    VKFORMER_CHECK(check.i32_state("parents", states.parents, row, kRows));
    VKFORMER_CHECK(check.i32_state("token_history", states.token_history, history, "max_steps and rows"));
    VKFORMER_CHECK(check.i32_state("parent_history", states.parent_history, history, "max_steps and rows"));
    VKFORMER_CHECK(check.i32_state("final_steps", states.final_steps, row, kRows));
    VKFORMER_CHECK(check.i32_state("final_rows", states.final_rows, row, kRows));
    VKFORMER_CHECK(check.i32_state("final_tokens", states.final_tokens, row, kRows));
    VKFORMER_CHECK(check.i32_state("state", states.state, {flags + ends}, "batch + 3"));
    for (const auto& [name, value] :
         {std::pair{"running_scores", states.running_scores}, std::pair{"final_scores", states.final_scores}}) {
        VKFORMER_CHECK(check.dtype(name, value, DType::f32));
        VKFORMER_CHECK(check.state(name, value));
        VKFORMER_CHECK(check.shape(name, value, row, kRows));
    }
    VKFORMER_CHECK(check.distinct({{"candidate_scores", candidate_scores},
                                   {"candidate_tokens", candidate_tokens},
                                   {"tokens", states.tokens},
                                   {"starts", states.starts},
                                   {"parents", states.parents},
                                   {"running_scores", states.running_scores},
                                   {"token_history", states.token_history},
                                   {"parent_history", states.parent_history},
                                   {"final_scores", states.final_scores},
                                   {"final_steps", states.final_steps},
                                   {"final_rows", states.final_rows},
                                   {"final_tokens", states.final_tokens},
                                   {"state", states.state}}));
    graph.add_node(BeamStep{.candidate_scores = candidate_scores,
                            .candidate_tokens = candidate_tokens,
                            .tokens = states.tokens,
                            .starts = states.starts,
                            .parents = states.parents,
                            .running_scores = states.running_scores,
                            .token_history = states.token_history,
                            .parent_history = states.parent_history,
                            .final_scores = states.final_scores,
                            .final_steps = states.final_steps,
                            .final_rows = states.final_rows,
                            .final_tokens = states.final_tokens,
                            .state = states.state,
                            .beams = options.beams,
                            .max_steps = options.max_steps,
                            .eos = options.eos,
                            .length_penalty = options.length_penalty,
                            .early_stopping = options.early_stopping});
    return {};
}

}  // namespace vkformer::graph
