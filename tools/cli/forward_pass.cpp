// SPDX-License-Identifier: MIT
#include "forward_pass.hpp"

#include "core/try.hpp"

namespace vkformer::cli {
namespace {

std::uint64_t numbers_of(const graph::Graph& graph, const NamedValues& values) {
    std::uint64_t numbers = 0;
    for (const auto& [name, value] : values) numbers += graph.shape(value).element_count();
    return numbers;
}

Result<std::vector<formats::NamedTensor>> read_outputs(graph::Program& program, const NamedValues& values) {
    std::vector<formats::NamedTensor> outputs;
    for (const auto& [name, value] : values) {
        FloatTensor output(name, program.plan().graph.shape(value));
        VKFORMER_CHECK(program.read(value, std::span<float>(*output.values)));
        outputs.push_back(std::move(output.tensor));
    }
    return outputs;
}

}  // namespace

void add_numbered(NamedValues& values, const std::string& name, std::span<const graph::Value> numbered) {
    for (std::size_t i = 0; i < numbered.size(); ++i)
        if (numbered[i]) values.emplace_back(name + "." + std::to_string(i), numbered[i]);
}

void add_layers(NamedValues& values, const std::string& owner, const models::LayerValues& layers) {
    add_numbered(values, owner + "hidden_states", layers.hidden);
    add_numbered(values, owner + "attentions", layers.attention);
}

Result<void> check_outputs(std::uint64_t numbers) {
    constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 32;
    if (numbers <= kMostNumbers) return {};
    return Error{ErrorCode::InvalidArgument,
                 "what is asked for has " + std::to_string(numbers) + " numbers, and up to " +
                     std::to_string(kMostNumbers) +
                     " (16 GiB) are given at a time: take fewer or shorter sequences, or less with them (--attentions, "
                     "--hidden-states)"};
}

Result<ForwardOutputs> run_once(graph::Backend& backend, graph::Graph graph, const NamedValues& read,
                                const std::function<Result<void>(graph::Program&)>& write) {
    VKFORMER_CHECK(check_outputs(numbers_of(graph, read)));
    VKFORMER_TRY(const auto program, backend.compile(graph::make_plan_for(backend, std::move(graph)),
                                                     backend.make_store(), backend.make_store()));
    VKFORMER_CHECK(write(*program));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());
    VKFORMER_TRY(auto outputs, read_outputs(*program, read));
    return ForwardOutputs{backend.name(), std::move(outputs)};
}

}  // namespace vkformer::cli
