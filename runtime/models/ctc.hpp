// SPDX-License-Identifier: MIT
/// Models that hear and write a token, or none, for each fiftieth of a second: Wav2Vec 2.0 (Baevski et al. 2020) and HuBERT (Hsu et al.
/// 2021) with a head for connectionist temporal classification (Graves et al. 2006). wav2vec2.cpp reads their files.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/program.hpp"
#include "models/encoder_layers.hpp"
#include "models/file_notes.hpp"

namespace vkformer::models {

struct CtcConfig : EncoderLayerConfig {
    struct Convolution {
        std::uint32_t channels = 0, taps = 1, stride = 1;
        /// Positions that it makes of so many.
        std::uint64_t length_of(std::uint64_t len) const noexcept { return len < taps ? 0 : (len - taps) / stride + 1; }
    };
    std::vector<Convolution> stem;  ///< over the samples, one after the other; one or more
    /// The first one's channels are normed over time, by a mean and a variance of each; else all have a norm over their channels.
    bool norms_over_time = true;
    graph::Activation stem_activation = graph::Activation::gelu_erf;
    std::uint32_t position_taps = 128, position_groups = 16;
    std::uint32_t vocab_size = 0;

    /// Frames of so many samples; 0: they are too few for one.
    std::uint64_t frames_of(std::uint64_t samples) const noexcept {
        for (const Convolution& convolution : stem) samples = convolution.length_of(samples);
        return samples;
    }
    /// Samples from one frame to the next.
    std::uint64_t samples_per_frame() const noexcept {
        std::uint64_t samples = 1;
        for (const Convolution& convolution : stem) samples *= convolution.stride;
        return samples;
    }
};

/// Kernels are cut along their taps, so that what is gathered for one product stays small: matrices [groups, out, taps · in], or of
/// one group [out, taps · in]; of the stem the first has the bias, if there is one.
struct CtcConvolution {
    std::vector<Projection> parts;
    NormWeights norm;  ///< over the channels; optional
};

struct CtcWeights {
    std::vector<CtcConvolution> stem;
    NormWeights feature_norm;  ///< optional
    Projection features;
    CtcConvolution positions;
    TensorData position_bias;  ///< [1, hidden_size]
    NormWeights norm;  ///< before the first layer or behind the last, as the layers have theirs behind or before
    std::vector<EncoderLayerWeights> layers;
    Projection head;
};

struct CtcLayout {
    std::uint32_t batch = 1;
    std::uint32_t samples = 0;  ///< of each sound, padding included; enough for a frame
    DType dtype = DType::f32;   ///< of weights and activations: f32 or f16
    LayerChoice layers{};
};

/// Rows that a graph gathers, which differ with its layout and its sounds' lengths: an input i32 [groups, batch · len, taps].
struct CtcPlaces {
    graph::Value rows;
    std::uint64_t groups = 1, width = 0, from_len = 0, len = 0, stride = 1, taps = 1;  ///< width: of a row
    std::int64_t begin = 0;   ///< where the first tap of position 0 lies
    bool is_padded = false;   ///< what lies outside of a sound is the row behind all others
    bool is_joining = false;  ///< the groups of a position, one behind the other; as taps
};

/// CtcModel::write fills all inputs.
struct CtcTensors {
    graph::Value windows, first, lengths;
    std::vector<CtcPlaces> places;
    graph::Value hidden;  ///< [batch, frames, hidden_size], behind all norms
    graph::Value logits;  ///< f32 [batch, frames, vocab_size]
    LayerValues layers;
};

struct CtcSounds {
    std::span<const float> samples;          ///< [batch, layout.samples], normalised as the model wants it
    std::span<const std::uint32_t> lengths;  ///< samples of each that are no padding
    bool norms_padding = false;              ///< padding counts in norms over time, as in transformers
};

/// The model: weights in files and how they are put together, as load_wav2vec2 gives them.
struct CtcModel : FileNotes {
    CtcConfig config;
    CtcWeights weights;

    /// Adds the forward pass. Frames that lie in padding mean nothing. Errors: the builders'; InvalidArgument (samples for no frame).
    Result<CtcTensors> add_encoder(graph::Graph& graph, const CtcLayout& layout) const;

    /// Fills the inputs of that graph, of which visit(value, values) takes each, floats or integers.
    void for_each_input(const CtcTensors& tensors, const CtcLayout& layout, const CtcSounds& sounds,
                        auto&& visit) const {
        const std::vector<std::int32_t> lengths = lengths_of(sounds);
        visit(tensors.lengths, std::span(lengths));
        visit(tensors.windows, std::span<const float>(windows(layout, sounds)));
        visit(tensors.first, std::span<const float>(first_weights(layout, sounds)));
        for (const CtcPlaces& places : tensors.places)
            visit(places.rows, std::span<const std::int32_t>(rows_of(places, lengths)));
    }
    /// The same of a program. Errors: Program::write's.
    Result<void> write(graph::Program& program, const CtcTensors& tensors, const CtcLayout& layout,
                       const CtcSounds& sounds) const;

private:
    std::vector<std::int32_t> lengths_of(const CtcSounds& sounds) const;
    std::vector<float> windows(const CtcLayout& layout, const CtcSounds& sounds) const;
    std::vector<float> first_weights(const CtcLayout& layout, const CtcSounds& sounds) const;
    static std::vector<std::int32_t> rows_of(const CtcPlaces& places, std::span<const std::int32_t> lengths);
};

/// Taps of a convolution over so many channels that are gathered at a time.
inline std::uint64_t taps_at_a_time(std::uint64_t channels) noexcept {
    constexpr std::uint64_t kGathered = 1024;
    return channels < kGathered ? kGathered / channels : 1;
}

}  // namespace vkformer::models
