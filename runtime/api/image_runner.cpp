// SPDX-License-Identifier: MIT
#include "api/image_runner.hpp"

#include <algorithm>

#include "api/encoder_options.hpp"
#include "core/try.hpp"

namespace vkformer::api {

Result<std::vector<tuning::Workload>> image_workload(const models::VisionEncoder& encoder,
                                                     const decoding::ImageHead& head, DType dtype) {
    VKFORMER_TRY(auto made, decoding::image_graph(encoder, head, {.dtype = dtype}));
    std::vector<tuning::Workload> workload;
    workload.push_back({.graph = std::move(made.graph), .inputs = {}});
    return workload;
}

namespace {

/// What the processor makes is what the model takes. A CLIP processor without crop gives what the picture's shape says, so it is
/// asked again for each.
Result<void> check_size(const images::ImageProcessor& processor, const models::VisionConfig& config) {
    if (config.channels != 3)
        return Error{ErrorCode::UnsupportedConfig, "the model takes images of " + std::to_string(config.channels) +
                                                       " channels; pictures are read with three"};
    const auto size = processor.output_size();
    if (!size || (size->height == config.image_height && size->width == config.image_width)) return {};
    return Error{ErrorCode::ShapeMismatch, "preprocessor_config.json makes images of " + std::to_string(size->height) +
                                               " × " + std::to_string(size->width) + " pixels, the model takes " +
                                               std::to_string(config.image_height) + " × " +
                                               std::to_string(config.image_width)};
}

Error in_image(Error error, std::size_t index) {
    error.message = "image " + std::to_string(index + 1) + ": " + error.message;
    return error;
}

}  // namespace

Result<ImageRunner> ImageRunner::load(const std::filesystem::path& folder, models::VisionEncoder encoder,
                                      decoding::ImageHead head, const EncoderOptions& options) {
    VKFORMER_TRY(auto processor, images::ImageProcessor::open(folder));
    VKFORMER_CHECK(check_size(processor, encoder.config()));
    ImageRunner runner(std::move(processor));
    runner.encoder_ = std::make_unique<models::VisionEncoder>(std::move(encoder));
    const DType dtype = dtype_of(options);
    VKFORMER_TRY(auto device,
                 open_backend(open_options(options), [&] { return image_workload(*runner.encoder_, head, dtype); }));
    runner.device_ = std::make_shared<OpenedBackend>(std::move(device));
    runner.session_.emplace(*runner.device_->backend, *runner.encoder_, std::move(head),
                            decoding::ImageSessionOptions{.batch = std::max(options.batch, 1u), .dtype = dtype});
    return runner;
}

Result<std::vector<decoding::ImageResult>> ImageRunner::run(std::span<const Image> images,
                                                            const Embedder::Progress& progress) {
    const auto pixels = [&](std::size_t index) -> Result<std::vector<float>> {
        auto values = processor_.process(images[index]);
        if (!values) return in_image(std::move(values).error(), index);
        return values;
    };
    return session_->run(images.size(), pixels, progress);
}

Result<decoding::ImageResult> ImageRunner::run_with_attention(const Image& image) {
    VKFORMER_TRY(const std::vector<float> pixels, processor_.process(image));
    return session_->run_with_attention(pixels);
}

}  // namespace vkformer::api
