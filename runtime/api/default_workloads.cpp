// SPDX-License-Identifier: MIT
#include "api/default_workloads.hpp"

#include <optional>

#include "api/decoder_workload.hpp"
#include "api/encoder_heads.hpp"
#include "api/encoder_runner.hpp"
#include "api/generation_workload.hpp"
#include "api/hearing.hpp"
#include "api/image_runner.hpp"
#include "core/try.hpp"
#include "models/decoder_defaults.hpp"
#include "models/generation_config.hpp"
#include "models/open_model.hpp"
#include "models/speech_config.hpp"
#include "vkformer/vision.hpp"

namespace vkformer::api {
namespace {

using Workloads = Result<std::vector<tuning::Workload>>;

Workloads workloads_of(const models::Opened<models::Decoder>& opened, DType dtype, models::WeightFormat weights) {
    VKFORMER_TRY(const auto model, opened.load());
    models::DecoderDefaults defaults;
    if (!opened.gguf()) {
        VKFORMER_TRY(defaults, models::load_decoder_defaults(opened.path, model.config().vocab_size));
    }
    VKFORMER_TRY(const std::uint32_t beams, defaults.beams);
    std::optional<decoding::BeamRules> search;
    if (beams > 1) search = decoding::BeamRules{.beams = beams};
    return decoder_workload(model, {.dtype = dtype, .weights = weights}, search);
}

Workloads workloads_of(const models::Opened<models::VisionEncoder>& opened, DType dtype, models::WeightFormat) {
    VKFORMER_TRY(auto loaded, opened.load());
    VKFORMER_TRY(const auto encoder, fitted_to(opened.path, std::move(loaded)));
    const bool has_labels = encoder.config().labels > 0;
    return image_workload(encoder, has_labels ? label_head(encoder) : image_vector_head(encoder, true), dtype);
}

Workloads workloads_of(const models::Opened<models::Clip>& opened, DType dtype, models::WeightFormat) {
    VKFORMER_TRY(const auto clip, opened.load());
    return image_workload(clip.vision, image_vector_head(clip.vision, true), dtype);
}

Workloads workloads_of(const models::Opened<models::SpeechModel>& opened, DType dtype, models::WeightFormat weights) {
    VKFORMER_TRY(const auto speech, opened.load());
    if (speech.ctc) return ctc_workload(*speech.ctc, dtype);
    // What is written of times is no part of what is measured.
    const auto limits = speech.model->limits();
    VKFORMER_TRY(const auto config, models::load_speech_config(opened.path, limits.target_len, limits.target_vocab,
                                                               {.timestamps = false}));
    return generation_workload(*speech.model, config.generation, dtype, weights);
}

Workloads workloads_of(const models::Opened<std::unique_ptr<models::EncoderDecoder>>& opened, DType dtype,
                       models::WeightFormat weights) {
    VKFORMER_TRY(const auto model, opened.load());
    const auto limits = model->limits();
    VKFORMER_TRY(const auto generation,
                 models::load_generation_config(opened.path, limits.target_len, limits.target_vocab));
    return generation_workload(*model, generation, dtype, weights);
}

Workloads workloads_of(const models::Opened<models::Encoder>& opened, DType dtype, models::WeightFormat) {
    VKFORMER_TRY(const auto encoder, opened.load());
    if (encoder.config().labels == 0) {
        VKFORMER_TRY(auto sentence, models::load_sentence_model(opened.path));
        return encoder_workload(encoder, embedding_head(std::move(sentence)), dtype);
    }
    VKFORMER_TRY(const auto head, score_head(opened.files, encoder));
    return encoder_workload(encoder, head, dtype);
}

}  // namespace

Result<std::vector<tuning::Workload>> default_workloads(const models::OpenedModel& model, DType dtype,
                                                        models::WeightFormat weights) {
    return std::visit([&](const auto& opened) { return workloads_of(opened, dtype, weights); }, model);
}

}  // namespace vkformer::api
