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

Error in_image(Error error, std::size_t index) {
    error.message = "image " + std::to_string(index + 1) + ": " + error.message;
    return error;
}

}  // namespace

Result<models::VisionEncoder> fitted_to(const images::ImageProcessor& processor, models::VisionEncoder encoder) {
    const auto made = processor.output_size();
    if (!made) return encoder;
    auto fitted = encoder.at_size(made->height, made->width);
    if (fitted) return fitted;
    const ErrorCode code = encoder.is_resizable() ? ErrorCode::UnsupportedConfig : fitted.error().code;
    return Error{code, "preprocessor_config.json: " + fitted.error().message};
}

Result<models::VisionEncoder> fitted_to(const std::filesystem::path& folder, models::VisionEncoder encoder) {
    if (!encoder.is_resizable()) return encoder;
    const auto processor = images::ImageProcessor::open(folder);
    if (processor) return fitted_to(*processor, std::move(encoder));
    if (processor.error().code != ErrorCode::FileNotFound) return processor.error();
    return encoder;
}

Result<ImageRunner> ImageRunner::load(const std::filesystem::path& folder, models::VisionEncoder encoder,
                                      decoding::ImageHead head, const EncoderOptions& options) {
    if (!options.adapters.empty())
        return Error{ErrorCode::UnsupportedConfig, folder.string() + ": models of images take no adapters"};
    VKFORMER_TRY(auto processor, images::ImageProcessor::open(folder));
    if (encoder.config().channels != 3)
        return Error{ErrorCode::UnsupportedConfig, "the model takes images of " +
                                                       std::to_string(encoder.config().channels) +
                                                       " channels; pictures are read with three"};
    VKFORMER_TRY(auto fitted, fitted_to(processor, std::move(encoder)));
    ImageRunner runner(std::move(processor));
    runner.encoder_ = std::make_shared<const models::VisionEncoder>(std::move(fitted));
    const DType dtype = dtype_of(options);
    VKFORMER_TRY(auto device,
                 open_backend(open_options(options), [&] { return image_workload(*runner.encoder_, head, dtype); }));
    runner.device_ = std::make_shared<OpenedBackend>(std::move(device));
    runner.session_.emplace(*runner.device_->backend, *runner.encoder_, std::move(head),
                            decoding::ImageSessionOptions{.batch = std::max(options.batch, 1u), .dtype = dtype});
    return runner;
}

ImageRunner ImageRunner::twin(std::shared_ptr<OpenedBackend> twin) const {
    ImageRunner made(processor_);
    made.encoder_ = encoder_;
    made.session_.emplace(session_->twin(*twin->backend));
    made.device_ = std::move(twin);
    return made;
}

Result<std::vector<decoding::ImageResult>> ImageRunner::run(std::span<const Image> images,
                                                            const Embedder::Progress& progress) {
    const auto pixels = [&](std::size_t index) -> Result<std::vector<float>> {
        auto values = process(images[index]);
        if (!values) return in_image(std::move(values).error(), index);
        return values;
    };
    return session_->run(images.size(), pixels, progress);
}

Result<std::vector<float>> ImageRunner::process(const Image& image) const {
    VKFORMER_TRY(auto pixels, processor_.process(image));
    const images::TargetSize made = processor_.size_of(image);
    const models::VisionConfig& config = encoder_->config();
    if (made.height == config.image_height && made.width == config.image_width) return pixels;
    return Error{ErrorCode::InvalidArgument, "preprocessor_config.json makes " + std::to_string(made.height) + " × " +
                                                 std::to_string(made.width) + " pixels of it, the model takes " +
                                                 std::to_string(config.image_height) + " × " +
                                                 std::to_string(config.image_width)};
}

Result<decoding::ImageResult> ImageRunner::run_with_attention(const Image& image) {
    VKFORMER_TRY(const std::vector<float> pixels, process(image));
    return session_->run_with_attention(pixels);
}

}  // namespace vkformer::api
