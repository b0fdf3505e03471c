// SPDX-License-Identifier: MIT
/// vkformer forward: one forward pass from a file to a file, for scripts.
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "api/default_workloads.hpp"
#include "cli.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "device.hpp"
#include "formats/safetensors.hpp"
#include "models/adapter.hpp"
#include "models/open_model.hpp"
#include "named_file.hpp"

namespace vkformer::cli {
namespace {

struct ForwardCommand {
    DeviceOptions device;
    ModelOption model;
    LoraOption lora;
    std::string input, output;
};

/// A [batch, len] tensor of integers.
struct IntegerMatrix {
    std::uint32_t batch = 0, len = 0;
    std::vector<std::int32_t> values;

    std::span<const std::int32_t> row(std::size_t b) const { return std::span(values).subspan(b * len, len); }
};

Result<IntegerMatrix> matrix(const std::string& name, const TensorData& data) {
    const auto invalid = [&](const std::string& what) { return Error{ErrorCode::InvalidArgument, name + " " + what}; };
    if (data.dtype != DType::i64 && data.dtype != DType::i32)
        return invalid("holds " + std::string(to_string(data.dtype)) + ", expected int64 or int32");
    if (data.shape.rank() != 2 || data.shape.element_count() == 0 ||
        data.shape.element_count() > graph::Graph::kMaxElements)
        return invalid("has shape " + to_string(data.shape) + ", expected [batch, length], neither 0");
    IntegerMatrix m{.batch = static_cast<std::uint32_t>(data.shape[0]),
                    .len = static_cast<std::uint32_t>(data.shape[1])};
    m.values.resize(data.shape.element_count());
    VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, std::span<std::int32_t>(m.values)));
    return m;
}

Result<IntegerMatrix> tokens(const formats::Safetensors& file, const std::string& name, std::uint64_t vocab,
                             std::uint64_t max_len, const std::string& what = "token") {
    const TensorData* data = file.find(name);
    if (!data) return Error{ErrorCode::MissingTensor, "the input has no tensor " + name};
    VKFORMER_TRY(IntegerMatrix m, matrix(name, *data));
    if (m.len > max_len)
        return Error{ErrorCode::InvalidArgument, name + " has sequences of " + std::to_string(m.len) +
                                                     " tokens, the model takes at most " + std::to_string(max_len)};
    for (const std::int32_t token : m.values)
        if (token < 0 || static_cast<std::uint64_t>(token) >= vocab)
            return Error{ErrorCode::InvalidArgument, name + " has " + what + " " + std::to_string(token) +
                                                         ", the model knows 0 to " + std::to_string(vocab - 1)};
    return m;
}

/// A mask of ones and zeros; ones where the file has none.
Result<IntegerMatrix> mask(const formats::Safetensors& file, const std::string& name, const IntegerMatrix& like) {
    const TensorData* data = file.find(name);
    if (!data) return IntegerMatrix{like.batch, like.len, std::vector<std::int32_t>(like.values.size(), 1)};
    VKFORMER_TRY(IntegerMatrix m, matrix(name, *data));
    if (m.batch != like.batch || m.len != like.len)
        return Error{ErrorCode::ShapeMismatch, name + " has shape " + to_string(data->shape) + ", its tokens [" +
                                                   std::to_string(like.batch) + ", " + std::to_string(like.len) + "]"};
    if (std::ranges::any_of(m.values, [](std::int32_t v) { return v != 0 && v != 1; }))
        return Error{ErrorCode::InvalidArgument, name + " must hold zeros and ones"};
    return m;
}

bool all_ones(const IntegerMatrix& m) { return std::ranges::find(m.values, 0) == m.values.end(); }

/// Ones, then zeros, in every row.
bool padded_on_the_right(const IntegerMatrix& m) {
    for (std::size_t b = 0; b < m.batch; ++b)
        if (!std::ranges::is_sorted(m.row(b), std::greater<>())) return false;
    return true;
}

std::vector<std::int32_t> lengths(const IntegerMatrix& m) {
    std::vector<std::int32_t> result;
    for (std::size_t b = 0; b < m.batch; ++b)
        result.push_back(static_cast<std::int32_t>(std::ranges::count(m.row(b), 1)));
    return result;
}

std::vector<float> additive(const IntegerMatrix& m) {
    std::vector<float> result(m.values.size());
    std::ranges::transform(m.values, result.begin(),
                           [](std::int32_t v) { return v ? 0 : -std::numeric_limits<float>::infinity(); });
    return result;
}

/// A float32 tensor of its own memory.
struct FloatTensor {
    FloatTensor(std::string name, const Shape& shape)
        : values(std::make_shared<std::vector<float>>(shape.element_count())),
          tensor{std::move(name),
                 {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*values)), .owner = values}} {}

    std::shared_ptr<std::vector<float>> values;
    formats::NamedTensor tensor;
};

Result<formats::NamedTensor> read_output(graph::Program& program, std::string name, graph::Value tensor) {
    FloatTensor output(std::move(name), program.plan().graph.shape(tensor));
    VKFORMER_CHECK(program.read(tensor, std::span<float>(*output.values)));
    return std::move(output.tensor);
}

/// That the file has no other tensors.
Result<void> check_names(const formats::Safetensors& file, std::initializer_list<std::string_view> taken) {
    for (const std::string_view name : file.names())
        if (std::ranges::find(taken, name) == taken.end())
            return Error{ErrorCode::InvalidArgument,
                         "the input has a tensor " + std::string(name) + ", which the model does not take"};
    return {};
}

/// A mask of sequences whose padding lies behind them.
Result<IntegerMatrix> right_padding(const formats::Safetensors& file, const IntegerMatrix& tokens) {
    VKFORMER_TRY(IntegerMatrix m, mask(file, "attention_mask", tokens));
    if (!padded_on_the_right(m))
        return Error{ErrorCode::InvalidArgument,
                     "attention_mask has zeros before ones; this model takes padding behind the tokens alone"};
    return m;
}

/// What a pass is made of besides the model.
struct Request {
    const DeviceOptions& device;
    const models::OpenedModel& opened;
    const formats::Safetensors& file;
    DType dtype;
    std::vector<float> adapters;  // scales of the model's
};

/// The backend of the request; where two may be, the one that a run of a few of `len` tokens takes less time on. run_of(tokens) gives one
/// with its graph.
Result<std::unique_ptr<graph::Backend>> open_for(const Request& request, std::uint32_t len, const auto& run_of) {
    constexpr std::uint32_t kMeasuredTokens = 16;
    return open_backend(request.device, [&]() -> Result<std::vector<tuning::Workload>> {
        VKFORMER_TRY(auto few, run_of(std::min(len, kMeasuredTokens)));
        std::vector<tuning::Workload> workloads(1);
        workloads[0].graph = std::move(few.graph);
        return workloads;
    });
}

struct Outputs {
    std::string device;
    std::vector<formats::NamedTensor> tensors{};
};

Result<Outputs> pass_of(const models::EncoderDecoder& model, const Request& request) {
    const formats::Safetensors& file = request.file;
    const DType dtype = request.dtype;
    const auto limits = model.limits();
    VKFORMER_TRY(const auto source, tokens(file, "input_ids", limits.source_vocab, limits.source_len));
    VKFORMER_TRY(const auto target, tokens(file, "decoder_input_ids", limits.target_vocab, limits.target_len));
    VKFORMER_TRY(const auto source_mask, mask(file, "attention_mask", source));
    VKFORMER_TRY(const auto target_mask, mask(file, "decoder_attention_mask", target));
    if (source.batch != target.batch)
        return Error{ErrorCode::ShapeMismatch, "input_ids has a batch of " + std::to_string(source.batch) +
                                                   ", decoder_input_ids of " + std::to_string(target.batch)};
    VKFORMER_CHECK(check_names(file, {"input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"}));

    VKFORMER_TRY(const auto backend,
                 open_backend(request.device, [&] { return api::default_workloads(request.opened, dtype); }));
    VKFORMER_TRY(auto f,
                 model.forward({.batch = source.batch,
                                .source_len = source.len,
                                .target_len = target.len,
                                .dtype = dtype,
                                .source_mask = all_ones(source_mask)              ? models::SourceMask::none
                                               : padded_on_the_right(source_mask) ? models::SourceMask::lengths
                                                                                  : models::SourceMask::additive,
                                .target_mask = !all_ones(target_mask)}));
    VKFORMER_TRY(const auto program, backend->compile(graph::make_plan_for(*backend, std::move(f.graph)),
                                                      backend->make_store(), backend->make_store()));
    VKFORMER_CHECK(program->write(f.source_tokens, std::span<const std::int32_t>(source.values)));
    VKFORMER_CHECK(program->write(f.target_tokens, std::span<const std::int32_t>(target.values)));
    if (f.source_lengths)
        VKFORMER_CHECK(program->write(f.source_lengths, std::span<const std::int32_t>(lengths(source_mask))));
    if (f.source_mask) VKFORMER_CHECK(program->write(f.source_mask, std::span<const float>(additive(source_mask))));
    if (f.target_mask) VKFORMER_CHECK(program->write(f.target_mask, std::span<const float>(additive(target_mask))));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());

    Outputs outputs{backend->name()};
    for (const auto& [name, tensor] :
         {std::pair{"logits", f.logits}, std::pair{"encoder_last_hidden_state", f.encoder_hidden},
          std::pair{"last_hidden_state", f.decoder_hidden}}) {
        VKFORMER_TRY(auto output, read_output(*program, name, tensor));
        outputs.tensors.push_back(std::move(output));
    }
    return outputs;
}

/// The same scales for all sequences.
Result<void> write_adapters(graph::Program& program, graph::Value tensor, const models::Decoder& model,
                            const Request& request, std::uint32_t rows) {
    std::vector<float> scales;
    for (const std::int32_t word : model.adapter_words(std::vector<std::span<const float>>(rows, request.adapters)))
        scales.push_back(std::bit_cast<float>(word));
    return program.write(tensor, std::span<const float>(scales));
}

/// In runs of so many tokens that their logits stay small beside a device's memory; what lies behind a sequence's end is not seen by it.
Result<Outputs> pass_of(const models::Decoder& model, const Request& request) {
    const formats::Safetensors& file = request.file;
    const DType dtype = request.dtype;
    const models::DecoderConfig& config = model.config();
    VKFORMER_TRY(const auto ids, tokens(file, "input_ids", config.vocab_size, config.most_positions()));
    VKFORMER_CHECK(right_padding(file, ids));
    VKFORMER_CHECK(check_names(file, {"input_ids", "attention_mask"}));

    const std::uint64_t width = std::max(config.vocab_size, config.hidden_size);
    if (std::uint64_t{ids.batch} * ids.len * width > graph::Graph::kMaxElements)
        return Error{ErrorCode::InvalidArgument, "input_ids has " + std::to_string(std::uint64_t{ids.batch} * ids.len) +
                                                     " tokens, and of this model " +
                                                     std::to_string(graph::Graph::kMaxElements / width) +
                                                     " go through at a time"};

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
                                               .adapter_scales = run.adapters},
                                              run.tokens, run.starts, models::Logits::all));
        run.graph.mark_output(run.pass.logits);
        run.graph.mark_output(run.pass.hidden);
        return run;
    };
    constexpr std::uint64_t kMostLogits = 1 << 25, kMostTokens = 512;  // of a run, all sequences together; 128 MiB
    const auto at_a_time = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(std::min(kMostLogits / config.vocab_size, kMostTokens) / ids.batch, 1, ids.len));
    VKFORMER_TRY(const auto backend, open_for(request, at_a_time, run_of));

    std::optional<FloatTensor> logits, hidden;  // made once it is known that the model takes the tokens
    const auto weights = backend->make_store(), states = backend->make_store();
    Run run;
    for (std::uint32_t done = 0; done < ids.len; done += run.len) {
        const std::uint32_t len = std::min(at_a_time, ids.len - done);
        if (len != run.len) {
            run.program.reset();  // before there is memory for another
            VKFORMER_TRY(run, run_of(len));
            VKFORMER_TRY(run.program,
                         backend->compile(graph::make_plan_for(*backend, std::move(run.graph)), weights, states));
            if (run.adapters) VKFORMER_CHECK(write_adapters(*run.program, run.adapters, model, request, ids.batch));
        }
        if (!logits) {
            logits.emplace("logits", Shape{ids.batch, ids.len, config.vocab_size});
            hidden.emplace("last_hidden_state", Shape{ids.batch, ids.len, config.hidden_size});
        }
        std::vector<std::int32_t> part;
        for (std::size_t b = 0; b < ids.batch; ++b)
            std::ranges::copy(ids.row(b).subspan(done, len), std::back_inserter(part));
        const std::vector<std::int32_t> starts(ids.batch, static_cast<std::int32_t>(done));
        VKFORMER_CHECK(run.program->write(run.tokens, std::span<const std::int32_t>(part)));
        VKFORMER_CHECK(run.program->write(run.starts, std::span<const std::int32_t>(starts)));
        VKFORMER_CHECK(run.program->submit());
        VKFORMER_CHECK(run.program->wait());
        for (const auto& [value, whole] :
             {std::pair{run.pass.logits, &*logits}, std::pair{run.pass.hidden, &*hidden}}) {
            const std::size_t columns = whole->tensor.data.shape.back();
            std::vector<float> values(std::size_t{ids.batch} * len * columns);
            VKFORMER_CHECK(run.program->read(value, std::span(values)));
            for (std::size_t b = 0; b < ids.batch; ++b)
                std::ranges::copy(std::span(values).subspan(b * len * columns, len * columns),
                                  whole->values->data() + (b * ids.len + done) * columns);
        }
    }
    return Outputs{backend->name(), {std::move(logits->tensor), std::move(hidden->tensor)}};
}

Result<Outputs> pass_of(const models::Encoder& model, const Request& request) {
    const formats::Safetensors& file = request.file;
    const DType dtype = request.dtype;
    const models::EncoderConfig& config = model.config();
    VKFORMER_TRY(const auto ids, tokens(file, "input_ids", config.vocab_size, config.max_positions));
    VKFORMER_TRY(const auto padding, right_padding(file, ids));
    const bool has_types = config.types > 0 && file.find("token_type_ids");
    if (!has_types) VKFORMER_CHECK(check_names(file, {"input_ids", "attention_mask"}));
    IntegerMatrix types;
    if (has_types) {
        VKFORMER_CHECK(check_names(file, {"input_ids", "attention_mask", "token_type_ids"}));
        VKFORMER_TRY(types, tokens(file, "token_type_ids", config.types, config.max_positions, "type"));
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
        VKFORMER_TRY(
            run.pass,
            model.add_encoder(run.graph, {.batch = ids.batch, .len = len, .dtype = dtype, .token_types = has_types}));
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
    VKFORMER_TRY(const auto program, backend->compile(graph::make_plan_for(*backend, std::move(run.graph)),
                                                      backend->make_store(), backend->make_store()));
    VKFORMER_CHECK(program->write(pass.tokens, std::span<const std::int32_t>(ids.values)));
    VKFORMER_CHECK(program->write(pass.lengths, std::span<const std::int32_t>(lengths(padding))));
    if (has_types) VKFORMER_CHECK(program->write(pass.types, std::span<const std::int32_t>(types.values)));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());
    Outputs outputs{backend->name()};
    if (run.logits) {
        VKFORMER_TRY(auto scores, read_output(*program, "logits", run.logits));
        outputs.tensors.push_back(std::move(scores));
    }
    VKFORMER_TRY(auto hidden, read_output(*program, "last_hidden_state", pass.hidden));
    outputs.tensors.push_back(std::move(hidden));
    return outputs;
}

Result<int> run(const ForwardCommand& command) {
    using enum models::ModelKind;
    VKFORMER_TRY(const auto folder, command.model.find());
    VKFORMER_TRY(const auto opened, models::open_model(folder, std::array{encoder_decoder, decoder, encoder}));
    VKFORMER_TRY(const auto file, read_safetensors(command.input));
    Request request{command.device, opened, file, command.device.dtype_value(), {}};
    std::vector<models::Adapter> adapters;
    VKFORMER_TRY(const auto counting, command.lora.adapters());
    for (const auto& adapter : counting) {
        VKFORMER_TRY(adapters.emplace_back(), models::open_adapter(adapter.path));
        request.adapters.push_back(adapter.scale);
    }
    if (!adapters.empty() && kind_of(opened) != decoder)
        return Error{ErrorCode::UnsupportedConfig, "--lora: only decoder-only language models take adapters"};
    const auto outputs_of = [&](const auto& of_kind) -> Result<Outputs> {
        VKFORMER_TRY(auto model, of_kind.load());
        VKFORMER_CHECK(command.device.heed(models::notes_of(model)));
        if constexpr (std::is_same_v<decltype(model), models::Decoder>) {
            VKFORMER_TRY(model, models::with_adapters(of_kind, model, adapters));
            VKFORMER_CHECK(model.check_adapters(request.adapters));
        }
        if constexpr (requires { pass_of(*model, request); })
            return pass_of(*model, request);
        else if constexpr (requires { pass_of(model, request); })
            return pass_of(model, request);
        else
            return Error{ErrorCode::UnsupportedConfig,
                         "forward takes encoder-decoders, decoder-only language models and text encoders"};
    };
    VKFORMER_TRY(const Outputs outputs, std::visit(outputs_of, opened));
    VKFORMER_CHECK(
        formats::write_safetensors(utf8_path(command.output), outputs.tensors, {{"device", outputs.device}}));
    return kOk;
}

}  // namespace

void add_forward(CLI::App& app, Action& action) {
    auto options = std::make_shared<ForwardCommand>();
    CLI::App& command = *app.add_subcommand("forward", "One forward pass from a safetensors file to another");
    options->model.add(command);
    options->lora.add(command);
    command
        .add_option(
            "-i,--input", options->input,
            "Tensors input_ids [batch, length] and, of an encoder-decoder, decoder_input_ids, int64 or int32; if "
            "wanted attention_mask, decoder_attention_mask, and of a text encoder token_type_ids")
        ->required();
    command
        .add_option("-o,--output", options->output,
                    "Receives float32 tensors: last_hidden_state, logits (of a text encoder those of its "
                    "classification head, if "
                    "it has one) and, of an encoder-decoder, encoder_last_hidden_state")
        ->required();
    options->device.add_device(command);
    options->device.add_strict(command);
    options->device.add_dtype(command);
    command.footer(
        "Takes encoder-decoders, decoder-only language models (folders and GGUF files) and text encoders. Where a mask "
        "has "
        "zeros, the last two take them behind the ones, and what is written for them means nothing.\n"
        "Examples:\n"
        "  vkformer forward --model opus-mt-en-de --input in.safetensors --output out.safetensors --dtype f16\n"
        "  vkformer forward --model smollm-135m.gguf --input ids.safetensors --output logits.safetensors");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
