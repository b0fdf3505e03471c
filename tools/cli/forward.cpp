// SPDX-License-Identifier: MIT
/// vkformer forward: one forward pass from a file to a file, for scripts.
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/default_workloads.hpp"
#include "api/encoder_heads.hpp"
#include "audio/mel.hpp"
#include "cli.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "device.hpp"
#include "formats/safetensors.hpp"
#include "models/adapter.hpp"
#include "models/ctc.hpp"
#include "models/open_model.hpp"
#include "named_file.hpp"
#include "tensor_inputs.hpp"

namespace vkformer::cli {
namespace {

struct ForwardCommand {
    DeviceOptions device;
    ModelOption model;
    LoraOption lora;
    std::string input, output;
    models::LayerChoice layers;
};

/// A float32 tensor of its own memory.
struct FloatTensor {
    FloatTensor(std::string name, const Shape& shape)
        : values(std::make_shared<std::vector<float>>(shape.element_count())),
          tensor{std::move(name),
                 {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*values)), .owner = values}} {}

    std::shared_ptr<std::vector<float>> values;
    formats::NamedTensor tensor;
};

/// What is read of a program, in this order.
using NamedValues = std::vector<std::pair<std::string, graph::Value>>;

/// "attentions.3" of layer 3, where it has any.
void add_numbered(NamedValues& values, const std::string& name, std::span<const graph::Value> numbered) {
    for (std::size_t i = 0; i < numbered.size(); ++i)
        if (numbered[i]) values.emplace_back(name + "." + std::to_string(i), numbered[i]);
}

/// `owner`: what comes before their names.
void add_layers(NamedValues& values, const std::string& owner, const models::LayerValues& layers) {
    add_numbered(values, owner + "hidden_states", layers.hidden);
    add_numbered(values, owner + "attentions", layers.attention);
}

std::uint64_t numbers_of(const graph::Graph& graph, const NamedValues& values) {
    std::uint64_t numbers = 0;
    for (const auto& [name, value] : values) numbers += graph.shape(value).element_count();
    return numbers;
}

/// That a pass can give so many numbers: they are held all at once, in a file too.
Result<void> check_outputs(std::uint64_t numbers) {
    constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 32;
    if (numbers <= kMostNumbers) return {};
    return Error{ErrorCode::InvalidArgument,
                 "what is asked for has " + std::to_string(numbers) + " numbers, and up to " +
                     std::to_string(kMostNumbers) +
                     " (16 GiB) are given at a time: take fewer or shorter sequences, or less with them (--attentions, "
                     "--hidden-states)"};
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

/// What a pass is made of besides the model.
struct Request {
    const DeviceOptions& device;
    const models::OpenedModel& opened;
    const TensorInputs& inputs;
    DType dtype;
    models::LayerChoice layers;
    std::vector<float> adapters{};  // scales of the model's
};

/// The backend of the request; where two may be, the one that a run of a few of `len` tokens, images or texts takes less time on.
/// run_of(few) gives one with its graph.
Result<std::unique_ptr<graph::Backend>> open_for(const Request& request, std::uint32_t len, const auto& run_of) {
    constexpr std::uint32_t kMeasured = 16;
    return open_backend(request.device, [&]() -> Result<std::vector<tuning::Workload>> {
        VKFORMER_TRY(auto few, run_of(std::min(len, kMeasured)));
        std::vector<tuning::Workload> workloads(1);
        workloads[0].graph = std::move(few.graph);
        return workloads;
    });
}

struct Outputs {
    std::string device;
    std::vector<formats::NamedTensor> tensors{};
};

/// What an encoder–decoder is given to read or to hear.
struct Source {
    std::uint32_t batch = 0, len = 0;
    models::SourceMask mask = models::SourceMask::none;
    std::function<Result<void>(graph::Program&, const models::ForwardGraph&)> write;
};

/// "encoder_attentions.3", as Hugging Face calls that layer's.
std::string attention_name(const models::ForwardGraph::AttentionMap& map) {
    constexpr std::array kKinds = {"encoder", "decoder", "cross"};  // of AttentionKind
    return kKinds.at(static_cast<std::size_t>(map.kind)) + ("_attentions." + std::to_string(map.layer));
}

Result<Outputs> pass_from(const models::EncoderDecoder& model, const Request& request, const Source& source) {
    const TensorInputs& file = request.inputs;
    const auto limits = model.limits();
    VKFORMER_TRY(const auto target, file.tokens("decoder_input_ids", limits.target_vocab, limits.target_len));
    VKFORMER_TRY(const auto target_mask, file.mask("decoder_attention_mask", target));
    if (source.batch != target.batch)
        return Error{ErrorCode::ShapeMismatch, "the encoder's input has a batch of " + std::to_string(source.batch) +
                                                   ", decoder_input_ids of " + std::to_string(target.batch)};

    VKFORMER_TRY(const auto backend,
                 open_backend(request.device, [&] { return api::default_workloads(request.opened, request.dtype); }));
    VKFORMER_TRY(auto f, model.forward({.batch = source.batch,
                                        .source_len = source.len,
                                        .target_len = target.len,
                                        .dtype = request.dtype,
                                        .source_mask = source.mask,
                                        .target_mask = !target_mask.all_ones(),
                                        .layers = request.layers}));
    if (request.layers.attention && f.attention.empty())
        return Error{ErrorCode::UnsupportedConfig, "--attentions: the model has no attention"};
    NamedValues read = {
        {"logits", f.logits}, {"encoder_last_hidden_state", f.encoder_hidden}, {"last_hidden_state", f.decoder_hidden}};
    add_numbered(read, "encoder_hidden_states", f.encoder_states);
    add_numbered(read, "decoder_hidden_states", f.decoder_states);
    for (const auto& map : f.attention) read.emplace_back(attention_name(map), map.weights);
    VKFORMER_CHECK(check_outputs(numbers_of(f.graph, read)));
    VKFORMER_TRY(const auto program, backend->compile(graph::make_plan_for(*backend, std::move(f.graph)),
                                                      backend->make_store(), backend->make_store()));
    VKFORMER_CHECK(source.write(*program, f));
    VKFORMER_CHECK(program->write(f.target_tokens, std::span<const std::int32_t>(target.values)));
    if (f.target_mask) VKFORMER_CHECK(program->write(f.target_mask, std::span<const float>(target_mask.additive())));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());

    VKFORMER_TRY(auto outputs, read_outputs(*program, read));
    return Outputs{backend->name(), std::move(outputs)};
}

Result<Outputs> pass_of(const models::EncoderDecoder& model, const Request& request) {
    const auto limits = model.limits();
    VKFORMER_TRY(const auto ids, request.inputs.tokens("input_ids", limits.source_vocab, limits.source_len));
    VKFORMER_TRY(const auto padding, request.inputs.mask("attention_mask", ids));
    VKFORMER_CHECK(
        request.inputs.check_names({"input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"}));
    const auto write = [&](graph::Program& program, const models::ForwardGraph& f) -> Result<void> {
        VKFORMER_CHECK(program.write(f.source_tokens, std::span<const std::int32_t>(ids.values)));
        if (f.source_lengths)
            VKFORMER_CHECK(program.write(f.source_lengths, std::span<const std::int32_t>(padding.lengths())));
        if (f.source_mask) VKFORMER_CHECK(program.write(f.source_mask, std::span<const float>(padding.additive())));
        return {};
    };
    return pass_from(model, request,
                     {.batch = ids.batch,
                      .len = ids.len,
                      .mask = padding.all_ones()           ? models::SourceMask::none
                              : padding.is_padded_behind() ? models::SourceMask::lengths
                                                           : models::SourceMask::additive,
                      .write = write});
}

/// Sounds as Hugging Face's Wav2Vec2FeatureExtractor gives them, [batch, samples]. What norms over time make of padding is as there.
Result<Outputs> pass_of(const models::CtcModel& model, const Request& request) {
    const TensorData* data = request.inputs.find("input_values");
    const Shape of_one = {data && data->shape.rank() == 2 ? data->shape[1] : 1};
    VKFORMER_TRY(const auto sounds, request.inputs.floats("input_values", of_one));
    const IntegerMatrix like = {.batch = sounds.batch,
                                .len = static_cast<std::uint32_t>(of_one[0]),
                                .values = std::vector<std::int32_t>(sounds.values.size())};
    VKFORMER_TRY(const auto padding, request.inputs.right_padding(like));
    VKFORMER_CHECK(request.inputs.check_names({"input_values", "attention_mask"}));
    std::vector<std::uint32_t> lengths;
    for (const std::int32_t length : padding.lengths()) lengths.push_back(static_cast<std::uint32_t>(length));
    models::CtcLayout layout = {
        .batch = sounds.batch, .samples = like.len, .dtype = request.dtype, .layers = request.layers};
    struct Run {
        graph::Graph graph;
        models::CtcTensors pass;
    } run;
    VKFORMER_TRY(run.pass, model.add_encoder(run.graph, layout));
    run.graph.mark_output(run.pass.hidden);
    run.graph.mark_output(run.pass.logits);
    NamedValues read = {{"logits", run.pass.logits}, {"last_hidden_state", run.pass.hidden}};
    add_layers(read, "", run.pass.layers);
    VKFORMER_CHECK(check_outputs(numbers_of(run.graph, read)));
    VKFORMER_TRY(const auto backend,
                 open_backend(request.device, [&] { return api::default_workloads(request.opened, request.dtype); }));
    VKFORMER_TRY(const auto program, backend->compile(graph::make_plan_for(*backend, std::move(run.graph)),
                                                      backend->make_store(), backend->make_store()));
    const models::CtcSounds heard = {.samples = sounds.values, .lengths = lengths, .norms_padding = true};
    VKFORMER_CHECK(model.write(*program, run.pass, layout, heard));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());
    VKFORMER_TRY(auto outputs, read_outputs(*program, read));
    return Outputs{backend->name(), std::move(outputs)};
}

/// Spectrograms as Hugging Face's WhisperFeatureExtractor gives them, [batch, bins, frames]; two frames are a position of the encoder.
Result<Outputs> pass_of(const models::SpeechModel& speech, const Request& request) {
    if (speech.ctc) return pass_of(*speech.ctc, request);
    const std::uint64_t most_frames = 2 * speech.model->limits().source_len;
    const TensorData* data = request.inputs.find("input_features");
    const std::uint64_t frames = data && data->shape.rank() == 3 ? data->shape[2] : most_frames;
    if (frames == 0 || frames % 2 != 0 || frames > most_frames)
        return Error{ErrorCode::ShapeMismatch, "input_features has " + std::to_string(frames) +
                                                   " frames, the model takes an even number up to " +
                                                   std::to_string(most_frames)};
    VKFORMER_TRY(const auto sounds, request.inputs.floats("input_features", {speech.mel_bins, frames}));
    VKFORMER_CHECK(request.inputs.check_names({"input_features", "decoder_input_ids", "decoder_attention_mask"}));
    const std::uint64_t features = speech.model->limits().source_features * (frames / 2);  // of one
    if (features * sounds.batch > graph::Graph::kMaxElements)
        return Error{ErrorCode::InvalidArgument,
                     "input_features has a batch of " + std::to_string(sounds.batch) + ", and of this model " +
                         std::to_string(graph::Graph::kMaxElements / features) + " go through at a time"};
    std::vector<float> windows, spectrogram(frames * speech.mel_bins);
    windows.reserve(features * sounds.batch);
    for (std::size_t b = 0; b < sounds.batch; ++b) {
        for (std::size_t bin = 0; bin < speech.mel_bins; ++bin)
            for (std::size_t frame = 0; frame < frames; ++frame)
                spectrogram[frame * speech.mel_bins + bin] =
                    sounds.values[(b * speech.mel_bins + bin) * frames + frame];
        std::ranges::copy(audio::windows_of(spectrogram, speech.mel_bins), std::back_inserter(windows));
    }
    const auto write = [&](graph::Program& program, const models::ForwardGraph& f) {
        return program.write(f.source_features, std::span<const float>(windows));
    };
    return pass_from(*speech.model, request,
                     {.batch = sounds.batch, .len = static_cast<std::uint32_t>(frames / 2), .write = write});
}

/// Images as Hugging Face's processors give them, normalised.
Result<Floats> images(const TensorInputs& file, const models::VisionConfig& config) {
    return file.floats("pixel_values", {config.channels, config.image_height, config.image_width});
}

/// The model for images of the input's size, where it takes several.
Result<models::VisionEncoder> fitted_to(const TensorInputs& file, const models::VisionEncoder& model) {
    const TensorData* const pixels = file.find("pixel_values");
    if (!pixels || pixels->shape.rank() != 4 || !model.is_resizable()) return model;
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
    return model.at_size(static_cast<std::uint32_t>(std::min(pixels->shape[2], kMost)),
                         static_cast<std::uint32_t>(std::min(pixels->shape[3], kMost)));
}

Result<Outputs> pass_of(const models::VisionEncoder& given, const Request& request) {
    VKFORMER_TRY(const models::VisionEncoder model, fitted_to(request.inputs, given));
    VKFORMER_TRY(const auto pixels, images(request.inputs, model.config()));
    VKFORMER_CHECK(request.inputs.check_names({"pixel_values"}));
    struct Run {
        graph::Graph graph;
        models::VisionTensors pass;
        graph::Value logits;
    };
    const auto run_of = [&](std::uint32_t batch) -> Result<Run> {
        Run run;
        VKFORMER_TRY(run.pass,
                     model.add_encoder(run.graph, {.batch = batch, .dtype = request.dtype, .layers = request.layers}));
        run.graph.mark_output(run.pass.hidden);
        if (model.config().labels > 0) {
            VKFORMER_TRY(run.logits, model.add_classifier(run.graph, run.pass.hidden));
            run.graph.mark_output(run.logits);
        }
        return run;
    };
    VKFORMER_TRY(const auto backend, open_for(request, pixels.batch, run_of));
    VKFORMER_TRY(Run run, run_of(pixels.batch));
    NamedValues read = {{"last_hidden_state", run.pass.hidden}};
    if (run.logits) read.emplace_back("logits", run.logits);
    add_layers(read, "", run.pass.layers);
    VKFORMER_CHECK(check_outputs(numbers_of(run.graph, read)));
    VKFORMER_TRY(const auto program, backend->compile(graph::make_plan_for(*backend, std::move(run.graph)),
                                                      backend->make_store(), backend->make_store()));
    VKFORMER_CHECK(program->write(run.pass.pixels, std::span<const float>(pixels.values)));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());
    VKFORMER_TRY(auto outputs, read_outputs(*program, read));
    return Outputs{backend->name(), std::move(outputs)};
}

/// Up to the first end token of each text, which stands for it, and which there must be.
Result<std::vector<std::int32_t>> lengths_to_end(const IntegerMatrix& ids, std::int32_t end) {
    std::vector<std::int32_t> result;
    for (std::size_t b = 0; b < ids.batch; ++b) {
        const auto row = ids.row(b);
        const auto found = std::ranges::find(row, end);
        if (found == row.end())
            return Error{ErrorCode::InvalidArgument,
                         "input_ids has a text without the end token " + std::to_string(end)};
        result.push_back(static_cast<std::int32_t>(found - row.begin()) + 1);
    }
    return result;
}

/// How much of each text the model reads: up to what stands for it.
Result<std::vector<std::int32_t>> read_lengths(const models::Clip& clip, const TensorInputs& file,
                                               const IntegerMatrix& ids) {
    VKFORMER_TRY(const auto padding, file.right_padding(ids));
    const auto seen = padding.lengths();
    std::vector<std::int32_t> ends(ids.batch, static_cast<std::int32_t>(ids.len));
    if (!clip.pads_texts) {
        VKFORMER_TRY(ends, lengths_to_end(ids, clip.text.config().end_token));  // which sees nothing behind it
    }
    for (std::size_t b = 0; b < ends.size(); ++b)
        if (seen[b] < ends[b])
            return Error{ErrorCode::InvalidArgument,
                         clip.pads_texts
                             ? "attention_mask has a zero, and this model reads texts with their padding: leave it out"
                             : "attention_mask has a zero before or at the end token of a text, which stands for it"};
    return ends;
}

/// logits_per_image, [images, texts].
FloatTensor logits_per_image(const FloatTensor& image_embeds, const FloatTensor& text_embeds,
                             const models::Clip& clip) {
    const std::size_t width = image_embeds.tensor.data.shape.back();
    const std::size_t images = image_embeds.values->size() / width, texts = text_embeds.values->size() / width;
    FloatTensor logits("logits_per_image", {images, texts});
    for (std::size_t i = 0; i < images; ++i)
        for (std::size_t t = 0; t < texts; ++t)
            (*logits.values)[i * texts + t] = static_cast<float>(
                clip.logit_bias +
                clip.logit_scale *
                    std::inner_product(image_embeds.values->begin() + static_cast<std::ptrdiff_t>(i * width),
                                       image_embeds.values->begin() + static_cast<std::ptrdiff_t>((i + 1) * width),
                                       text_embeds.values->begin() + static_cast<std::ptrdiff_t>(t * width), 0.0));
    return logits;
}

/// Images, texts or both.
Result<Outputs> pass_of(const models::Clip& clip, const Request& request) {
    const TensorInputs& file = request.inputs;
    const bool has_images = file.find("pixel_values"), has_texts = file.find("input_ids");
    if (!has_images && !has_texts)
        return Error{ErrorCode::MissingTensor, "the input has neither pixel_values nor input_ids"};
    VKFORMER_CHECK(file.check_names({"pixel_values", "input_ids", "attention_mask"}));
    Floats pixels;
    IntegerMatrix ids;
    std::vector<std::int32_t> ends;
    if (has_images) {
        VKFORMER_TRY(pixels, images(file, clip.vision.config()));
    }
    if (has_texts) {
        const models::EncoderConfig& config = clip.text.config();
        VKFORMER_TRY(ids, file.tokens("input_ids", config.vocab_size, config.max_positions));
        VKFORMER_TRY(ends, read_lengths(clip, file, ids));
    }
    struct Run {
        graph::Graph graph;
        models::VisionTensors images;
        models::EncoderTensors texts;
        graph::Value image_embeds, text_embeds;
    };
    const auto run_of = [&](std::uint32_t most) -> Result<Run> {
        Run run;
        if (has_images) {
            VKFORMER_TRY(run.images, clip.vision.add_encoder(run.graph, {.batch = std::min(pixels.batch, most),
                                                                         .dtype = request.dtype,
                                                                         .layers = request.layers}));
            VKFORMER_TRY(run.image_embeds, api::image_vector_head(clip.vision, true)(run.graph, run.images.hidden));
            run.graph.mark_output(run.images.hidden);
            run.graph.mark_output(run.image_embeds);
        }
        if (has_texts) {
            VKFORMER_TRY(run.texts, clip.text.add_encoder(run.graph, {.batch = std::min(ids.batch, most),
                                                                      .len = ids.len,
                                                                      .dtype = request.dtype,
                                                                      .layers = request.layers}));
            VKFORMER_TRY(run.text_embeds, api::clip_text_head(clip, true)(run.graph, run.texts));
            run.graph.mark_output(run.texts.hidden);
            run.graph.mark_output(run.text_embeds);
        }
        return run;
    };
    const std::uint32_t most = std::max(pixels.batch, ids.batch);
    VKFORMER_TRY(const auto backend, open_for(request, most, run_of));
    VKFORMER_TRY(Run run, run_of(most));
    NamedValues read;
    if (has_images)
        read = {{"image_embeds", run.image_embeds}, {"vision_model_output.last_hidden_state", run.images.hidden}};
    add_layers(read, "vision_model_output.", run.images.layers);
    if (has_texts) {
        read.emplace_back("text_embeds", run.text_embeds);
        read.emplace_back("text_model_output.last_hidden_state", run.texts.hidden);
        add_layers(read, "text_model_output.", run.texts.layers);
    }
    VKFORMER_CHECK(check_outputs(numbers_of(run.graph, read)));
    VKFORMER_TRY(const auto program, backend->compile(graph::make_plan_for(*backend, std::move(run.graph)),
                                                      backend->make_store(), backend->make_store()));
    if (has_images) VKFORMER_CHECK(program->write(run.images.pixels, std::span<const float>(pixels.values)));
    if (has_texts) {
        VKFORMER_CHECK(program->write(run.texts.tokens, std::span<const std::int32_t>(ids.values)));
        VKFORMER_CHECK(program->write(run.texts.lengths, std::span<const std::int32_t>(ends)));
    }
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());
    Outputs outputs{backend->name()};
    std::optional<FloatTensor> image_embeds, text_embeds;
    for (const auto& [name, tensor] : read) {
        FloatTensor output(name, program->plan().graph.shape(tensor));
        VKFORMER_CHECK(program->read(tensor, std::span<float>(*output.values)));
        if (name == "image_embeds") image_embeds = output;
        if (name == "text_embeds") text_embeds = output;
        outputs.tensors.push_back(std::move(output.tensor));
    }
    if (image_embeds && text_embeds)
        outputs.tensors.push_back(logits_per_image(*image_embeds, *text_embeds, clip).tensor);
    return outputs;
}

/// The same scales for all sequences, if there is such a tensor.
Result<void> write_adapters(graph::Program& program, graph::Value tensor, const models::AdapterSet& set,
                            const Request& request, std::uint32_t rows) {
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

/// In runs of so many tokens that what they give stays small beside a device's memory; what lies behind a sequence's end is not seen by it.
Result<Outputs> pass_of(const models::Decoder& model, const Request& request) {
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
    Outputs result{backend->name()};
    for (WholeOutput& output : outputs) result.tensors.push_back(std::move(output.whole.tensor));
    return result;
}

Result<Outputs> pass_of(const models::Encoder& model, const Request& request) {
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
    VKFORMER_CHECK(check_outputs(numbers_of(run.graph, read)));
    VKFORMER_TRY(const auto program, backend->compile(graph::make_plan_for(*backend, std::move(run.graph)),
                                                      backend->make_store(), backend->make_store()));
    VKFORMER_CHECK(program->write(pass.tokens, std::span<const std::int32_t>(ids.values)));
    VKFORMER_CHECK(program->write(pass.lengths, std::span<const std::int32_t>(padding.lengths())));
    if (has_types) VKFORMER_CHECK(program->write(pass.types, std::span<const std::int32_t>(types.values)));
    VKFORMER_CHECK(write_adapters(*program, pass.adapters, model.weights(), request, ids.batch));
    VKFORMER_CHECK(program->submit());
    VKFORMER_CHECK(program->wait());
    VKFORMER_TRY(auto outputs, read_outputs(*program, read));
    return Outputs{backend->name(), std::move(outputs)};
}

Result<int> run(const ForwardCommand& command) {
    using enum models::ModelKind;
    VKFORMER_TRY(const auto folder, command.model.find());
    VKFORMER_TRY(const auto opened, open_model(command.device, folder));
    VKFORMER_TRY(auto file, read_safetensors(command.input));
    const TensorInputs inputs(std::move(file));
    Request request{command.device, opened, inputs, command.device.dtype_value(), command.layers};
    std::vector<models::Adapter> adapters;
    VKFORMER_TRY(const auto counting, command.lora.adapters());
    for (const auto& adapter : counting) {
        VKFORMER_TRY(adapters.emplace_back(), models::open_adapter(adapter.path));
        request.adapters.push_back(adapter.scale);
    }
    if (!adapters.empty() && kind_of(opened) != decoder && kind_of(opened) != encoder)
        return Error{ErrorCode::UnsupportedConfig,
                     "--lora: only decoder-only language models and encoders of texts take adapters"};
    const auto outputs_of = [&](const auto& of_kind) -> Result<Outputs> {
        VKFORMER_TRY(auto model, of_kind.load());
        if constexpr (requires { models::with_adapters(of_kind, model, adapters); }) {
            VKFORMER_TRY(model, models::with_adapters(of_kind, model, adapters));
            VKFORMER_CHECK(model.weights().check_adapters(request.adapters));
        }
        if constexpr (requires { pass_of(*model, request); })
            return pass_of(*model, request);
        else
            return pass_of(model, request);
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
            "Tensors by Hugging Face's names: input_ids [batch, length], of an encoder-decoder decoder_input_ids too, "
            "int64 or int32; if wanted attention_mask, decoder_attention_mask, and of a text encoder token_type_ids. "
            "Of a Whisper input_features [batch, mel bins, frames] and decoder_input_ids; of a Wav2Vec 2.0 or HuBERT "
            "input_values [batch, samples] and if wanted attention_mask; of a vision model "
            "pixel_values [batch, channels, height, width]; of CLIP and SigLIP pixel_values, input_ids or both")
        ->required();
    command
        .add_option(
            "-o,--output", options->output,
            "Receives float32 tensors: last_hidden_state, logits (of an encoder those of its classification "
            "head, if it has one) and, where there are two stacks, encoder_last_hidden_state. Of CLIP and SigLIP "
            "image_embeds, text_embeds, of both logits_per_image, and "
            "vision_model_output.last_hidden_state, text_model_output.last_hidden_state")
        ->required();
    command.add_flag(
        "--attentions", options->layers.attention,
        "Also the attention weights of layer N, attentions.N; of an encoder-decoder encoder_attentions.N, "
        "decoder_attentions.N and cross_attentions.N, of CLIP and SigLIP vision_model_output.attentions.N and "
        "text_model_output.attentions.N");
    command.add_flag(
        "--hidden-states", options->layers.hidden,
        "Also the hidden states: hidden_states.0 is what the first layer reads, hidden_states.N what layer "
        "N - 1 gives; prefixes as of the attention weights. Not of recurrent models");
    options->device.add_device(command);
    options->device.add_strict(command);
    options->device.add_dtype(command);
    command.footer(
        "Takes models of every family that the other commands take: folders, and GGUF files of language models and "
        "text encoders. Where a mask has zeros, all but encoder-decoders take them behind the ones, and what is "
        "written for them means nothing. SigLIP reads texts with their padding, and takes no mask with zeros.\n"
        "Examples:\n"
        "  vkformer forward --model opus-mt-en-de --input in.safetensors --output out.safetensors --dtype f16\n"
        "  vkformer forward --model smollm-135m.gguf --input ids.safetensors --output logits.safetensors\n"
        "  vkformer forward --model clip-vit-base-patch32 --input both.safetensors --output out.safetensors");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
