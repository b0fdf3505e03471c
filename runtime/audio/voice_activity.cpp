// SPDX-License-Identifier: MIT
#include "vkformer/voice_activity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "core/ceil_div.hpp"
#include "core/finite.hpp"
#include "core/try.hpp"
#include "cpu/float_product.hpp"
#include "cpu/recurrent_cell.hpp"
#include "formats/safetensors.hpp"

namespace vkformer {
namespace {

constexpr std::size_t kMirrored = 64;     // samples behind the frame's, which are the frame's last in reverse
constexpr std::size_t kFourierHop = 128;  // samples from one position of the frame to the next
constexpr std::size_t kFrequencies = 129;
constexpr std::size_t kTaps = 3;  // of the convolutions
constexpr std::size_t kHidden = 128;
constexpr std::size_t kAskEvery = 512;  // frames between two questions whether to stop

/// What the file has, a bias behind its weight.
enum Place : std::size_t {
    kFourier,
    kConv1,
    kConv1Bias,
    kConv2,
    kConv2Bias,
    kConv3,
    kConv3Bias,
    kConv4,
    kConv4Bias,
    kInput,
    kInputBias,
    kState,
    kStateBias,
    kFinal,
    kFinalBias,
    kPlaces
};

struct Layout {
    char name[20];
    std::uint16_t dims[3];  // 0 behind the last
};
constexpr Layout kLayouts[kPlaces] = {{"stft_conv.weight", {2 * kFrequencies, 1, 256}},
                                      {"conv1.weight", {128, kFrequencies, kTaps}},
                                      {"conv1.bias", {128}},
                                      {"conv2.weight", {64, 128, kTaps}},
                                      {"conv2.bias", {64}},
                                      {"conv3.weight", {64, 64, kTaps}},
                                      {"conv3.bias", {64}},
                                      {"conv4.weight", {kHidden, 64, kTaps}},
                                      {"conv4.bias", {kHidden}},
                                      {"lstm_cell.weight_ih", {4 * kHidden, kHidden}},
                                      {"lstm_cell.bias_ih", {4 * kHidden}},
                                      {"lstm_cell.weight_hh", {4 * kHidden, kHidden}},
                                      {"lstm_cell.bias_hh", {4 * kHidden}},
                                      {"final_conv.weight", {1, kHidden, 1}},
                                      {"final_conv.bias", {1}}};

/// y += x · wᵀ for rows of x that may overlap.
void add_rows_product(std::size_t rows, std::size_t depth, const float* x, std::size_t x_stride,
                      const std::vector<float>& w, float* y) {
    const std::size_t columns = w.size() / depth;
    cpu::float_panel_kernels().add_transposed({.rows = rows,
                                               .columns = columns,
                                               .depth = depth,
                                               .x = x,
                                               .x_stride = x_stride,
                                               .w = w.data(),
                                               .w_stride = depth,
                                               .y = y,
                                               .y_stride = columns});
}

}  // namespace

struct VoiceActivityDetector::Network {
    /// Of convolutions by taps and then channels: [out, taps, in].
    std::array<std::vector<float>, kPlaces> weights;

    struct State {
        std::array<float, kHidden> hidden{}, cell{};
    };

    /// relu(convolution + bias) with one position of zeros at either side: x [positions + 2, in], the result [rows + 2, out].
    std::vector<float> convolved(const std::vector<float>& x, Place weight, std::size_t stride) const {
        const std::size_t out = kLayouts[weight].dims[0], in = kLayouts[weight].dims[1];
        const std::size_t rows = (x.size() / in - kTaps) / stride + 1;
        const std::vector<float>& bias = weights[weight + 1];
        std::vector<float> y((rows + 2) * out, 0.0f);
        for (std::size_t row = 1; row <= rows; ++row) std::ranges::copy(bias, &y[row * out]);
        add_rows_product(rows, kTaps * in, x.data(), stride * in, weights[weight], &y[out]);
        for (float& value : y) value = std::max(value, 0.0f);  // the zeros at the sides stay what they are
        return y;
    }

    /// bias + w · x of all four gates.
    std::vector<float> gates(const float* x, Place weight) const {
        std::vector<float> y = weights[weight + 1];
        add_rows_product(1, kHidden, x, kHidden, weights[weight], y.data());
        return y;
    }

    /// The probability of one frame. `samples`: its own and the context before them, kMirrored free ones behind.
    float run(std::span<float> samples, State& state) const {
        const std::size_t heard = samples.size() - kMirrored, positions = heard / kFourierHop;
        for (std::size_t i = 0; i < kMirrored; ++i) samples[heard + i] = samples[heard - 2 - i];
        std::vector<float> waves(positions * 2 * kFrequencies, 0.0f);  // cosines and sines of each position
        add_rows_product(positions, 256, samples.data(), kFourierHop, weights[kFourier], waves.data());
        std::vector<float> x((positions + 2) * kFrequencies, 0.0f);
        for (std::size_t p = 0; p < positions; ++p) {
            const float* wave = &waves[p * 2 * kFrequencies];
            for (std::size_t k = 0; k < kFrequencies; ++k)
                x[(p + 1) * kFrequencies + k] =
                    std::sqrt(wave[k] * wave[k] + wave[kFrequencies + k] * wave[kFrequencies + k]);
        }
        x = convolved(convolved(convolved(convolved(x, kConv1, 1), kConv2, 2), kConv3, 2), kConv4, 1);

        const auto input = gates(&x[kHidden], kInput), before = gates(state.hidden.data(), kState);
        float sum = weights[kFinalBias][0];
        for (std::size_t k = 0; k < kHidden; ++k) {
            cpu::lstm_unit(&input[k], &before[k], kHidden, state.hidden[k], state.cell[k]);
            sum += weights[kFinal][k] * std::max(state.hidden[k], 0.0f);
        }
        return cpu::sigmoid(sum);
    }
};

Result<VoiceActivityDetector> VoiceActivityDetector::load(const std::filesystem::path& file) {
    VKFORMER_TRY(const auto tensors, formats::Safetensors::open(file));
    Error wrong{ErrorCode::MissingTensor, ""};  // and what is, behind the tensor's name
    std::string_view wrong_name;
    auto network = std::make_shared<Network>();
    for (std::size_t place = 0; place < kPlaces; ++place) {
        const auto& [name, dims] = kLayouts[place];
        const TensorData* const tensor = tensors.find(name);
        std::uint64_t known[3], rank = 0;
        while (rank < 3 && dims[rank] > 0) known[rank] = dims[rank], ++rank;
        const Shape shape(std::span(known, rank));
        wrong_name = name;
        if (tensor == nullptr)
            wrong.message = " is missing for Silero VAD";
        else if (!(tensor->shape == shape))
            wrong = {ErrorCode::ShapeMismatch,
                     " has shape " + to_string(tensor->shape) + ", expected " + to_string(shape)};
        else if (tensor->dtype != DType::f32)
            wrong = {ErrorCode::UnsupportedDtype, " is not of float32"};
        else if (first_not_finite(tensor->dtype, tensor->bytes))
            wrong = {ErrorCode::CorruptFile, " is not finite"};
        if (!wrong.message.empty()) break;
        std::vector<float>& weight = network->weights[place];
        weight.resize(tensor->bytes.size() / sizeof(float));
        const std::size_t in = rank > 1 ? dims[1] : 1, taps = rank > 2 ? dims[2] : 1;
        for (std::size_t i = 0; i < weight.size(); ++i)  // [out, in, taps] → [out, taps, in]
            std::memcpy(&weight[(i / (in * taps) * taps + i % taps) * in + i / taps % in],
                        &tensor->bytes[i * sizeof(float)], sizeof(float));
    }
    if (wrong.message.empty() && tensors.tensors().size() > kPlaces) {
        for (const auto& [name, tensor] : tensors.tensors())
            if (std::ranges::none_of(kLayouts, [&](const Layout& layout) { return name == layout.name; }))
                wrong_name = name;
        wrong = {ErrorCode::UnsupportedConfig, " is no tensor of Silero VAD: take silero_vad_16k.safetensors"};
    }
    if (!wrong.message.empty()) {
        wrong.message = (file.string() + ": ").append(wrong_name) + wrong.message;
        return wrong;
    }
    return VoiceActivityDetector(std::move(network));
}

Result<std::vector<float>> VoiceActivityDetector::probabilities(std::span<const float> samples,
                                                                const std::function<bool()>& should_stop) const {
    std::vector<float> found(ceil_div(samples.size(), kFrameSamples));
    Network::State state;
    for (std::size_t frame = 0; frame < found.size(); ++frame) {
        const std::size_t first = frame * kFrameSamples;
        if (frame % kAskEvery == 0 && should_stop && should_stop())
            return Error{ErrorCode::Cancelled, "the call was stopped by its caller"};
        const auto given = samples.subspan(first, std::min(kFrameSamples, samples.size() - first));
        if (!std::ranges::all_of(given, [](float sample) { return std::isfinite(sample); }))
            return Error{ErrorCode::InvalidArgument, "there are samples that are no finite numbers"};
        std::array<float, kContextSamples + kFrameSamples + kMirrored> heard{};
        const std::size_t context = std::min(kContextSamples, first);
        std::ranges::copy(samples.subspan(first - context, context + given.size()),
                          heard.begin() + static_cast<std::ptrdiff_t>(kContextSamples - context));
        found[frame] = network_->run(heard, state);
        if (std::isnan(found[frame]))
            return Error{ErrorCode::InvalidArgument,
                         "samples are too large for speech to be told: full scale is 1, divide by the largest"};
    }
    return found;
}

Result<std::vector<SampleRange>> VoiceActivityDetector::speech_timestamps(
    std::span<const float> samples, const VadOptions& options, const std::function<bool()>& should_stop) const {
    VKFORMER_TRY(const auto found, probabilities(samples, should_stop));
    return vkformer::speech_timestamps(found, samples.size(), options);
}

}  // namespace vkformer
