// SPDX-License-Identifier: MIT
/// Encoder–decoders that read or hear, and what hears without a decoder.
#include <algorithm>
#include <array>
#include <iterator>

#include "api/default_workloads.hpp"
#include "audio/mel.hpp"
#include "core/try.hpp"
#include "forward_pass.hpp"
#include "models/ctc.hpp"

namespace vkformer::cli {
namespace {

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

Result<ForwardOutputs> pass_from(const models::EncoderDecoder& model, const ForwardRequest& request,
                                 const Source& source) {
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
    return run_once(*backend, std::move(f.graph), read, [&](graph::Program& program) -> Result<void> {
        VKFORMER_CHECK(source.write(program, f));
        VKFORMER_CHECK(program.write(f.target_tokens, std::span<const std::int32_t>(target.values)));
        if (!f.target_mask) return {};
        return program.write(f.target_mask, std::span<const float>(target_mask.additive()));
    });
}

/// Sounds as Hugging Face's Wav2Vec2FeatureExtractor gives them, [batch, samples]. What norms over time make of padding is as there.
Result<ForwardOutputs> pass_of(const models::CtcModel& model, const ForwardRequest& request) {
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
    graph::Graph graph;
    VKFORMER_TRY(const models::CtcTensors pass, model.add_encoder(graph, layout));
    graph.mark_output(pass.hidden);
    graph.mark_output(pass.logits);
    NamedValues read = {{"logits", pass.logits}, {"last_hidden_state", pass.hidden}};
    add_layers(read, "", pass.layers);
    VKFORMER_TRY(const auto backend,
                 open_backend(request.device, [&] { return api::default_workloads(request.opened, request.dtype); }));
    const models::CtcSounds heard = {.samples = sounds.values, .lengths = lengths, .norms_padding = true};
    return run_once(*backend, std::move(graph), read,
                    [&](graph::Program& program) { return model.write(program, pass, layout, heard); });
}

}  // namespace

Result<ForwardOutputs> pass_of(const models::EncoderDecoder& model, const ForwardRequest& request) {
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

/// Spectrograms as Hugging Face's WhisperFeatureExtractor gives them, [batch, bins, frames]; two frames are a position of the encoder.
Result<ForwardOutputs> pass_of(const models::SpeechModel& speech, const ForwardRequest& request) {
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

}  // namespace vkformer::cli
