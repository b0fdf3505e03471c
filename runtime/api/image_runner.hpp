// SPDX-License-Identifier: MIT
/// What ImageClassifier and ImageEmbedder share: a vision model and its image processor on a device.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "api/open_backend.hpp"
#include "decoding/image_session.hpp"
#include "images/image_processor.hpp"
#include "vkformer/vision.hpp"

namespace vkformer::api {

/// One image: what the choice between two backends is measured with. Errors: the model's.
Result<std::vector<tuning::Workload>> image_workload(const models::VisionEncoder& encoder,
                                                     const decoding::ImageHead& head, DType dtype);

/// The encoder for images of the size that the processor makes; as it is, where that depends on the picture. Errors: ShapeMismatch (it
/// takes others), UnsupportedConfig (a size that DINO cannot take).
Result<models::VisionEncoder> fitted_to(const images::ImageProcessor& processor, models::VisionEncoder encoder);
/// DINO for what the folder's processor makes; other models, and where there is none, as they are. Errors: also those of
/// ImageProcessor::open.
Result<models::VisionEncoder> fitted_to(const std::filesystem::path& folder, models::VisionEncoder encoder);

class ImageRunner {
public:
    /// Errors: as of ImageClassifier::load.
    static Result<ImageRunner> load(const std::filesystem::path& folder, models::VisionEncoder encoder,
                                    decoding::ImageHead head, const EncoderOptions& options);

    /// Another one of the same model. `twin`: of its device.
    ImageRunner twin(std::shared_ptr<OpenedBackend> twin) const;

    /// Errors: as of ImageClassifier::classify.
    Result<std::vector<decoding::ImageResult>> run(std::span<const Image> images, const Embedder::Progress& progress);
    Result<decoding::ImageResult> run_with_attention(const Image& image);

    const models::VisionEncoder& encoder() const noexcept { return *encoder_; }
    const std::shared_ptr<OpenedBackend>& device() const noexcept { return device_; }

private:
    explicit ImageRunner(images::ImageProcessor processor) : processor_(std::move(processor)) {}

    /// What the model takes. Errors: InvalidArgument (the processor makes something of another size).
    Result<std::vector<float>> process(const Image& image) const;

    std::shared_ptr<const models::VisionEncoder> encoder_;  // what the session borrows stays where it is
    images::ImageProcessor processor_;
    std::shared_ptr<OpenedBackend> device_;
    std::optional<decoding::ImageSession> session_;
};

}  // namespace vkformer::api
