// SPDX-License-Identifier: MIT
/// Decoders and encoders of texts.
#include <algorithm>
#include <iterator>

#include "core/try.hpp"
#include "forward_pass.hpp"

namespace vkformer::cli {
namespace {

/// The same scales for all sequences, if there is such a tensor.
Result<void> write_adapters(graph::Program& program, graph::Value tensor, const models::AdapterSet& set,
                            const ForwardRequest& request, std::uint32_t rows) {
    if (!tensor) return {};
    return program.write(tensor, std::span<const float>(set.adapter_numbers(request.adapters, rows)));
}

/// What a decoder gives in runs of some tokens each, all of them together.
struct WholeOutput {
    /// `part`: of a run of `len` tokens, of `whole_len`: [batch, heads, len, …], [batch, len, …] or [batch · len, …].
    WholeOutput(const std::string& name, const Shape& part, std::uint32_t batch, std::uint32_t len,
                std::uint32_t whole_len)
        : outer(part.row_count() / len),
          inner(part.back()),
          all(whole_len),
          whole(name, whole_shape(part, batch, all)) {}

    /// Of a run of `len` tokens behind `done` others.
    Result<void> take(graph::Program& program, graph::Value value, std::size_t done, std::size_t len) {
        std::vector<float> values(outer * len * inner);
        VKFORMER_CHECK(program.read(value, std::span(values)));
        for (std::size_t i = 0; i < outer; ++i)
            std::ranges::copy(std::span(values).subspan(i * len * inner, len * inner),
                              whole.values->data() + (i * all + done) * inner);
        return {};
    }

    std::size_t outer, inner, all;
    FloatTensor whole;

private:
    static Shape whole_shape(const Shape& part, std::uint64_t batch, std::uint64_t len) {
        return part.rank() == 4 ? Shape{batch, part[1], len, part[3]} : Shape{batch, len, part.back()};
    }
};

}  // namespace

Result<ForwardOutputs> pass_of(const models::Decoder& model, const ForwardRequest& request) {
    const TensorInputs& file = request.inputs;
    const DType dtype = request.dtype;
    const models::DecoderConfig& config = model.config();
    VKFORMER_TRY(const auto ids, file.tokens("input_ids", config.vocab_size, config.most_positions()));
    VKFORMER_CHECK(file.right_padding(ids));
    VKFORMER_CHECK(file.check_names({"input_ids", "attention_mask"}));

    const std::uint64_t width = std::max(config.vocab_size, config.hidden_size);
    if (std::uint64_t{ids.batch} * ids.len * width > graph::Graph::kMaxElements)
        return Error{ErrorCode::InvalidArgument, "input_ids has " + std::to_string(std::uint64_t{ids.batch} * ids.len) +
                                                     " tokens, and of this model " +
                                                     std::to_string(graph::Graph::kMaxElements / width) +
                                                     " go through at a time"};
    if (request.layers.attention &&
        std::uint64_t{ids.batch} * ids.len * config.heads * ids.len > graph::Graph::kMaxElements)
        return Error{ErrorCode::InvalidArgument,
                     "--attentions: a layer has " + std::to_string(config.heads) + " weights for each of " +
                         std::to_string(ids.batch) + " x " + std::to_string(ids.len) + " x " + std::to_string(ids.len) +
                         " tokens, and up to " + std::to_string(graph::Graph::kMaxElements) +
                         " can be given: take shorter or fewer sequences"};

    struct Run {
        std::uint32_t len = 0;
        graph::Graph graph;
        graph::Value tokens, starts, adapters;
        models::DecoderPass pass;
        std::unique_ptr<graph::Program> program;
    };
    const auto run_of = [&](std::uint32_t len) -> Result<Run> {
        Run run{.len = len};
        VKFORMER_TRY(run.tokens, run.graph.input("tokens", DType::i32, {ids.batch, len}));
        VKFORMER_TRY(run.starts, run.graph.input("starts", DType::i32, {ids.batch}));
        if (!request.adapters.empty()) {
            VKFORMER_TRY(run.adapters,
                         run.graph.input("adapters", DType::f32, {ids.batch, model.weights().adapter_columns}));
        }
        VKFORMER_TRY(run.pass, model.add_pass(run.graph,
                                              {.rows = ids.batch,
                                               .len = len,
                                               .capacity = ids.len,
                                               .dtype = dtype,
                                               .weights = models::WeightFormat::as_filed,
                                               .extended = ids.len > config.max_positions,
                                               .adapter_scales = run.adapters,
                                               .layers = request.layers},
                                              run.tokens, run.starts, models::Logits::all));
        run.graph.mark_output(run.pass.logits);
        run.graph.mark_output(run.pass.hidden);
        return run;
    };
    // Of a run, all sequences together: 128 MiB of what is given.
    constexpr std::uint64_t kMostNumbers = 1 << 25, kMostTokens = 512;
    std::uint64_t numbers = config.vocab_size;  // of a token
    if (request.layers.hidden) numbers += (config.layers.size() + 1) * config.hidden_size;
    if (request.layers.attention) numbers += config.attention_layers() * config.heads * ids.len;
    const auto at_a_time = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(std::min(kMostNumbers / numbers, kMostTokens) / ids.batch, 1, ids.len));
    VKFORMER_CHECK(check_outputs((numbers + config.hidden_size) * ids.batch * ids.len));
    VKFORMER_TRY(const auto backend, open_for(request, at_a_time, run_of));

    std::vector<WholeOutput> outputs;  // made once it is known that the model takes the tokens
    const auto weights = backend->make_store(), states = backend->make_store();
    Run run;
    for (std::uint32_t done = 0; done < ids.len; done += run.len) {
        const std::uint32_t len = std::min(at_a_time, ids.len - done);
        if (len != run.len) {
            run.program.reset();  // before there is memory for another
            VKFORMER_TRY(run, run_of(len));
            VKFORMER_TRY(run.program,
                         backend->compile(graph::make_plan_for(*backend, std::move(run.graph)), weights, states));
            VKFORMER_CHECK(write_adapters(*run.program, run.adapters, model.weights(), request, ids.batch));
        }
        std::vector<std::int32_t> part;
        for (std::size_t b = 0; b < ids.batch; ++b)
            std::ranges::copy(ids.row(b).subspan(done, len), std::back_inserter(part));
        const std::vector<std::int32_t> starts(ids.batch, static_cast<std::int32_t>(done));
        VKFORMER_CHECK(run.program->write(run.tokens, std::span<const std::int32_t>(part)));
        VKFORMER_CHECK(run.program->write(run.starts, std::span<const std::int32_t>(starts)));
        VKFORMER_CHECK(run.program->submit());
        VKFORMER_CHECK(run.program->wait());
        NamedValues values = {{"logits", run.pass.logits}, {"last_hidden_state", run.pass.hidden}};
        add_layers(values, "", run.pass.layers);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto& [name, value] = values[i];
            const Shape shape = run.program->plan().graph.shape(value);
            if (i == outputs.size()) outputs.push_back(WholeOutput(name, shape, ids.batch, len, ids.len));
            VKFORMER_CHECK(outputs[i].take(*run.program, value, done, len));
        }
    }
    ForwardOutputs result{backend->name()};
    for (WholeOutput& output : outputs) result.tensors.push_back(std::move(output.whole.tensor));
    return result;
}

Result<ForwardOutputs> pass_of(const models::Encoder& model, const ForwardRequest& request) {
    const TensorInputs& file = request.inputs;
    const DType dtype = request.dtype;
    const models::EncoderConfig& config = model.config();
    VKFORMER_TRY(const auto ids, file.tokens("input_ids", config.vocab_size, config.max_positions));
    VKFORMER_TRY(const auto padding, file.right_padding(ids));
    const bool has_types = config.types > 0 && file.find("token_type_ids");
    if (!has_types) VKFORMER_CHECK(file.check_names({"input_ids", "attention_mask"}));
    IntegerMatrix types;
    if (has_types) {
        VKFORMER_CHECK(file.check_names({"input_ids", "attention_mask", "token_type_ids"}));
        VKFORMER_TRY(types, file.tokens("token_type_ids", config.types, config.max_positions, "type"));
        if (types.batch != ids.batch || types.len != ids.len)
            return Error{ErrorCode::ShapeMismatch, "token_type_ids and input_ids must have the same shape"};
    }
    struct Run {
        graph::Graph graph;
        models::EncoderTensors pass;
        graph::Value logits;
    };
    const auto run_of = [&](std::uint32_t len) -> Result<Run> {
        Run run;
        VKFORMER_TRY(run.pass, model.add_encoder(run.graph, {.batch = ids.batch,
                                                             .len = len,
                                                             .dtype = dtype,
                                                             .token_types = has_types,
                                                             .adapters = !request.adapters.empty(),
                                                             .layers = request.layers}));
        run.graph.mark_output(run.pass.hidden);
        if (config.labels > 0) {
            VKFORMER_TRY(run.logits, model.add_classifier(run.graph, run.pass));
            run.graph.mark_output(run.logits);
        }
        return run;
    };
    VKFORMER_TRY(const auto backend, open_for(request, ids.len, run_of));
    VKFORMER_TRY(Run run, run_of(ids.len));
    const auto& pass = run.pass;
    NamedValues read;
    if (run.logits) read.emplace_back("logits", run.logits);
    read.emplace_back("last_hidden_state", pass.hidden);
    add_layers(read, "", pass.layers);
    return run_once(*backend, std::move(run.graph), read, [&](graph::Program& program) -> Result<void> {
        VKFORMER_CHECK(program.write(pass.tokens, std::span<const std::int32_t>(ids.values)));
        VKFORMER_CHECK(program.write(pass.lengths, std::span<const std::int32_t>(padding.lengths())));
        if (has_types) VKFORMER_CHECK(program.write(pass.types, std::span<const std::int32_t>(types.values)));
        return write_adapters(program, pass.adapters, model.weights(), request, ids.batch);
    });
}

}  // namespace vkformer::cli
