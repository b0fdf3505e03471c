// SPDX-License-Identifier: MIT
/// One pass of a model of any kind, for vkformer forward.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device.hpp"
#include "formats/safetensors.hpp"
#include "models/open_model.hpp"
#include "tensor_inputs.hpp"

namespace vkformer::cli {

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
void add_numbered(NamedValues& values, const std::string& name, std::span<const graph::Value> numbered);
/// `owner`: what comes before their names.
void add_layers(NamedValues& values, const std::string& owner, const models::LayerValues& layers);

/// That a pass can give so many numbers: they are held all at once, in a file too. Errors: InvalidArgument.
Result<void> check_outputs(std::uint64_t numbers);

/// What a pass is made of besides the model.
struct ForwardRequest {
    const DeviceOptions& device;
    const models::OpenedModel& opened;
    const TensorInputs& inputs;
    DType dtype;
    models::LayerChoice layers;
    std::vector<float> adapters{};  // scales of the model's
};

/// The backend of the request; where two may be, the one that a run of a few of `len` tokens, images or texts takes less time on.
/// run_of(few) gives one with its graph.
Result<std::unique_ptr<graph::Backend>> open_for(const ForwardRequest& request, std::uint32_t len, const auto& run_of) {
    constexpr std::uint32_t kMeasured = 16;
    return open_backend(request.device, [&]() -> Result<std::vector<tuning::Workload>> {
        VKFORMER_TRY(auto few, run_of(std::min(len, kMeasured)));
        std::vector<tuning::Workload> workloads(1);
        workloads[0].graph = std::move(few.graph);
        return workloads;
    });
}

struct ForwardOutputs {
    std::string device;
    std::vector<formats::NamedTensor> tensors{};
};

/// Runs the graph once, with what `write` writes, and reads the values. Errors: those of check_outputs, and of the device.
Result<ForwardOutputs> run_once(graph::Backend& backend, graph::Graph graph, const NamedValues& read,
                                const std::function<Result<void>(graph::Program&)>& write);

Result<ForwardOutputs> pass_of(const models::EncoderDecoder& model, const ForwardRequest& request);
Result<ForwardOutputs> pass_of(const models::SpeechModel& speech, const ForwardRequest& request);
Result<ForwardOutputs> pass_of(const models::VisionEncoder& model, const ForwardRequest& request);
/// Images, texts or both.
Result<ForwardOutputs> pass_of(const models::Clip& clip, const ForwardRequest& request);
/// In runs of so many tokens that what they give stays small beside a device's memory; what lies behind a sequence's end is not seen by it.
Result<ForwardOutputs> pass_of(const models::Decoder& model, const ForwardRequest& request);
Result<ForwardOutputs> pass_of(const models::Encoder& model, const ForwardRequest& request);

}  // namespace vkformer::cli
