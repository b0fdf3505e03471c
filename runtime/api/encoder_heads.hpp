// SPDX-License-Identifier: MIT
/// What Embedder, CrossEncoder, ImageClassifier and ImageEmbedder put behind their encoders.
#pragma once

#include <filesystem>

#include "decoding/encoder_session.hpp"
#include "decoding/image_session.hpp"
#include "models/encoder.hpp"
#include "models/sentence.hpp"
#include "models/vision_loading.hpp"

namespace vkformer::api {

// A head has a copy of the model that it needs, whose weights are the same memory.

/// Pooling and what follows it.
decoding::EncoderHead embedding_head(models::SentenceModel sentence);
/// A cross-encoder's scores, through the activation that the folder at `path` says, or as a GGUF file's. Errors: UnsupportedConfig.
Result<decoding::EncoderHead> score_head(const std::filesystem::path& path, const models::Encoder& encoder);

/// An image's logits.
decoding::ImageHead label_head(const models::VisionEncoder& encoder);
/// Vectors, whose length is 1 if `normalize`: of images, and of texts that CLIP and SigLIP read.
decoding::ImageHead image_vector_head(const models::VisionEncoder& encoder, bool normalize);
decoding::EncoderHead clip_text_head(const models::Clip& clip, bool normalize);

}  // namespace vkformer::api
