// SPDX-License-Identifier: MIT
/// vkformer forward: one forward pass from a file to a file, for scripts.
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "api/default_workloads.hpp"
#include "cli.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "device.hpp"
#include "formats/safetensors.hpp"
#include "models/open_model.hpp"
#include "named_file.hpp"

namespace vkformer::cli {
namespace {

struct ForwardCommand {
    DeviceOptions device;
    ModelOption model;
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
                             std::uint64_t max_len) {
    const TensorData* data = file.find(name);
    if (!data) return Error{ErrorCode::MissingTensor, "the input has no tensor " + name};
    VKFORMER_TRY(IntegerMatrix m, matrix(name, *data));
    if (m.len > max_len)
        return Error{ErrorCode::InvalidArgument, name + " has sequences of " + std::to_string(m.len) +
                                                     " tokens, the model takes at most " + std::to_string(max_len)};
    for (const std::int32_t token : m.values)
        if (token < 0 || static_cast<std::uint64_t>(token) >= vocab)
            return Error{ErrorCode::InvalidArgument, name + " has token " + std::to_string(token) +
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

Result<formats::NamedTensor> read_output(graph::Program& program, std::string name, graph::Value tensor) {
    const Shape shape = program.plan().graph.shape(tensor);
    auto values = std::make_shared<std::vector<float>>(shape.element_count());
    VKFORMER_CHECK(program.read(tensor, std::span<float>(*values)));
    return formats::NamedTensor{
        std::move(name),
        {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*values)), .owner = values}};
}

Result<int> run(const ForwardCommand& command) {
    VKFORMER_TRY(const auto folder, command.model.find());
    VKFORMER_TRY(const auto opened, models::open_model(folder, std::array{models::ModelKind::encoder_decoder}));
    VKFORMER_TRY(const auto model, std::get<models::Opened<std::unique_ptr<models::EncoderDecoder>>>(opened).load());
    VKFORMER_TRY(const auto file, read_safetensors(command.input));
    const auto limits = model->limits();
    VKFORMER_TRY(const auto source, tokens(file, "input_ids", limits.source_vocab, limits.source_len));
    VKFORMER_TRY(const auto target, tokens(file, "decoder_input_ids", limits.target_vocab, limits.target_len));
    VKFORMER_TRY(const auto source_mask, mask(file, "attention_mask", source));
    VKFORMER_TRY(const auto target_mask, mask(file, "decoder_attention_mask", target));
    if (source.batch != target.batch)
        return Error{ErrorCode::ShapeMismatch, "input_ids has a batch of " + std::to_string(source.batch) +
                                                   ", decoder_input_ids of " + std::to_string(target.batch)};
    for (const std::string_view name : file.names())
        if (name != "input_ids" && name != "attention_mask" && name != "decoder_input_ids" &&
            name != "decoder_attention_mask")
            return Error{ErrorCode::InvalidArgument,
                         "the input has a tensor " + std::string(name) + ", which the model does not take"};

    VKFORMER_TRY(const auto backend, open_backend(command.device, [&] {
                     return api::default_workloads(opened, command.device.dtype_value());
                 }));
    VKFORMER_TRY(auto f,
                 model->forward({.batch = source.batch,
                                 .source_len = source.len,
                                 .target_len = target.len,
                                 .dtype = command.device.dtype_value(),
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

    std::vector<formats::NamedTensor> outputs;
    for (const auto& [name, tensor] :
         {std::pair{"logits", f.logits}, std::pair{"encoder_last_hidden_state", f.encoder_hidden},
          std::pair{"last_hidden_state", f.decoder_hidden}}) {
        VKFORMER_TRY(auto output, read_output(*program, name, tensor));
        outputs.push_back(std::move(output));
    }
    VKFORMER_CHECK(formats::write_safetensors(utf8_path(command.output), outputs, {{"device", backend->name()}}));
    return kOk;
}

}  // namespace

void add_forward(CLI::App& app, Action& action) {
    auto options = std::make_shared<ForwardCommand>();
    CLI::App& command = *app.add_subcommand("forward", "One forward pass from a safetensors file to another");
    options->model.add(command);
    command
        .add_option("-i,--input", options->input,
                    "Tensors input_ids, decoder_input_ids [batch, length], int64 or int32; attention_mask and "
                    "decoder_attention_mask if wanted")
        ->required();
    command
        .add_option("-o,--output", options->output,
                    "Receives logits, encoder_last_hidden_state and last_hidden_state, float32")
        ->required();
    options->device.add_device(command);
    options->device.add_dtype(command);
    command.footer(
        "Example:\n  vkformer forward --model opus-mt-en-de --input in.safetensors --output out.safetensors --dtype "
        "f16");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
