// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "api/c/handles.hpp"
#include "api/decoder_text.hpp"
#include "core/try.hpp"
#include "models/encoder_loading.hpp"
#include "models/load.hpp"
#include "models/vision_loading.hpp"

using namespace vkformer;

namespace {

using c::Model;
using c::NamedTensors;

constexpr vkf_pass_info kDefaultPass = VKF_PASS_INFO_INIT;

/// Some models know no longest sequence.
std::uint32_t saturated(std::uint64_t value) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, std::numeric_limits<std::uint32_t>::max()));
}

void take(Model& model, models::DecoderDefaults defaults) {
    model.end_tokens = std::move(defaults.end_tokens);
    model.beams = std::move(defaults.beams);
    model.generation.length_penalty = static_cast<double>(defaults.length_penalty);
    model.generation.early_stopping = defaults.early_stopping;
}

Result<void> load_decoder(Model& model, const std::filesystem::path& path) {
    VKFORMER_TRY(model.decoder, models::load_decoder(path));
    auto text = api::load_decoder_text(path);
    if (text) {
        model.tokenizer = std::move(text->tokenizer);
        take(model, std::move(text->defaults));
    } else if (text.error().code == ErrorCode::FileNotFound) {  // tokens will do without a tokenizer
        model.tokenizer = text.error();
        VKFORMER_TRY(auto defaults, models::load_decoder_defaults(path));
        take(model, std::move(defaults));
    } else {
        return text.error();
    }
    return {};
}

Result<void> load_encoder_decoder(Model& model, const std::filesystem::path& path) {
    VKFORMER_TRY(model.encoder_decoder, models::load_encoder_decoder(path));
    VKFORMER_TRY(model.generation, models::load_generation_config(path, model.encoder_decoder->limits().target_len));
    model.beams = model.generation.beams;
    if (model.generation.eos >= 0) model.end_tokens = {model.generation.eos};
    auto tokenizer = text::load_tokenizer(path);
    if (!tokenizer && tokenizer.error().code != ErrorCode::FileNotFound) return tokenizer.error();
    model.tokenizer = std::move(tokenizer);
    return {};
}

Result<void> load_encoder(Model& model, const std::filesystem::path& path) {
    VKFORMER_TRY(model.encoder, models::load_encoder(path));
    auto tokenizer = text::load_tokenizer(path);
    if (!tokenizer && tokenizer.error().code != ErrorCode::FileNotFound) return tokenizer.error();
    model.tokenizer = std::move(tokenizer);
    return {};
}

Result<void> load_vision(Model& model, const std::filesystem::path& path) {
    VKFORMER_TRY(model.vision, models::load_vision_encoder(path));
    model.tokenizer = Error{ErrorCode::InvalidArgument, "a vision model sees images: it has no tokenizer here"};
    const auto processor = images::ImageProcessor::open(path);
    if (!processor && processor.error().code != ErrorCode::FileNotFound) return processor.error();
    if (processor) model.normalization = processor->normalization();
    return {};
}

Result<void> load(Model& model, const std::filesystem::path& path) {
    VKFORMER_TRY(const bool is_decoder, models::is_decoder(path));
    if (is_decoder) return load_decoder(model, path);
    VKFORMER_TRY(const bool is_encoder, models::is_encoder(path));
    if (is_encoder) return load_encoder(model, path);
    VKFORMER_TRY(const bool is_vision, models::is_vision_encoder(path));
    if (is_vision) return load_vision(model, path);
    return load_encoder_decoder(model, path);
}

vkf_model_properties properties_of(const Model& model) {
    vkf_model_properties answer = VKF_MODEL_PROPERTIES_INIT;
    if (model.decoder) {
        answer.vocab_size = model.decoder->config().vocab_size;
        answer.max_len = model.decoder->config().max_positions;
    } else if (model.encoder) {
        answer.kind = VKF_MODEL_ENCODER;
        answer.vocab_size = model.encoder->config().vocab_size;
        answer.max_len = model.encoder->config().max_positions;
    } else if (model.vision) {
        answer.kind = VKF_MODEL_VISION;
        const models::VisionConfig& config = model.vision->config();
        answer.labels = config.labels;
        answer.image_height = config.image_height;
        answer.image_width = config.image_width;
        answer.patch_rows = config.patch_rows();
        answer.patch_columns = config.patch_columns();
        answer.special_tokens = config.special_tokens;
    } else {
        const auto limits = model.encoder_decoder->limits();
        answer.kind = VKF_MODEL_ENCODER_DECODER;
        answer.vocab_size = saturated(limits.target_vocab);
        answer.source_vocab = saturated(limits.source_vocab);
        answer.max_len = saturated(limits.target_len);
        answer.max_source_len = saturated(limits.source_len);
        answer.start_token = model.generation.decoder_start;
    }
    if (!model.end_tokens.empty()) answer.end_token = model.end_tokens.front();
    return answer;
}

const char* kind_name(AttentionKind kind) {
    switch (kind) {
    case AttentionKind::encoder: return "encoder";
    case AttentionKind::decoder: return "decoder";
    case AttentionKind::cross: return "cross";
    }
    return "?";
}

Result<graph::Graph> encoder_decoder_pass(const models::EncoderDecoder& model, const vkf_pass_info& info, DType dtype,
                                          NamedTensors& tensors) {
    if (info.source_len == 0)
        return Error{ErrorCode::InvalidArgument, "vkf_pass_info::source_len must be at least 1 for this model"};
    VKFORMER_TRY(auto forward, model.forward({.source_len = info.source_len,
                                              .target_len = info.target_len,
                                              .dtype = dtype,
                                              .source_mask = models::SourceMask::lengths,
                                              .attention_weights = info.attention_weights != VK_FALSE}));
    tensors.add("source", forward.source_tokens);
    tensors.add("source_lengths", forward.source_lengths);
    tensors.add("target", forward.target_tokens);
    tensors.add("logits", forward.logits);
    for (const auto& map : forward.attention)
        tensors.add(std::string("weights/") + kind_name(map.kind) + "/" + std::to_string(map.layer), map.weights);
    return std::move(forward.graph);
}

Result<graph::Graph> decoder_pass(const models::Decoder& model, const vkf_pass_info& info, DType dtype,
                                  NamedTensors& tensors) {
    if (info.attention_weights != VK_FALSE)
        return Error{ErrorCode::UnsupportedConfig, "the attention weights of decoder-only models cannot be read yet"};
    graph::Graph graph;
    VKFORMER_TRY(const auto tokens, graph.input("tokens", DType::i32, {1, info.target_len}));
    VKFORMER_TRY(const auto starts, graph.input("starts", DType::i32, {1}));
    VKFORMER_TRY(const auto pass, model.add_pass(graph,
                                                 {.len = info.target_len,
                                                  .capacity = info.target_len,
                                                  .dtype = dtype,
                                                  .weights = models::WeightFormat::as_filed},
                                                 tokens, starts, models::Logits::all));
    graph.mark_output(pass.logits);
    tensors.add("tokens", tokens);
    tensors.add("starts", starts);
    tensors.add("logits", pass.logits);
    return graph;
}

Result<graph::Graph> encoder_pass(const models::Encoder& model, const vkf_pass_info& info, DType dtype,
                                  NamedTensors& tensors) {
    if (info.attention_weights != VK_FALSE)
        return Error{ErrorCode::UnsupportedConfig, "the attention weights of text encoders cannot be read yet"};
    graph::Graph graph;
    VKFORMER_TRY(const auto pass, model.add_encoder(graph, {.len = info.target_len, .dtype = dtype}));
    graph.mark_output(pass.hidden);
    tensors.add("tokens", pass.tokens);
    tensors.add("lengths", pass.lengths);
    tensors.add("hidden", pass.hidden);
    return graph;
}

Result<graph::Graph> vision_pass(const models::VisionEncoder& model, const vkf_pass_info& info, DType dtype,
                                 NamedTensors& tensors) {
    graph::Graph graph;
    VKFORMER_TRY(const auto pass,
                 model.add_encoder(graph, {.dtype = dtype, .attention_weights = info.attention_weights != VK_FALSE}));
    VKFORMER_TRY(const auto embedding, model.add_embedding(graph, pass.hidden));
    graph.mark_output(pass.hidden);
    graph.mark_output(embedding);
    tensors.add("pixels", pass.pixels);
    tensors.add("hidden", pass.hidden);
    tensors.add("embedding", embedding);
    if (model.config().labels > 0) {
        VKFORMER_TRY(const auto logits, model.add_classifier(graph, pass.hidden));
        graph.mark_output(logits);
        tensors.add("logits", logits);
    }
    for (std::size_t layer = 0; layer < pass.attention.size(); ++layer) {
        graph.mark_output(pass.attention[layer]);
        tensors.add("weights/vision/" + std::to_string(layer), pass.attention[layer]);
    }
    return graph;
}

Result<graph::Graph> pass_of(const Model& model, const vkf_pass_info& info, DType dtype, NamedTensors& tensors) {
    if (model.vision) return vision_pass(*model.vision, info, dtype, tensors);
    if (info.target_len == 0) return Error{ErrorCode::InvalidArgument, "vkf_pass_info::target_len must be at least 1"};
    if (model.decoder) return decoder_pass(*model.decoder, info, dtype, tensors);
    if (model.encoder) return encoder_pass(*model.encoder, info, dtype, tensors);
    return encoder_decoder_pass(*model.encoder_decoder, info, dtype, tensors);
}

}  // namespace

namespace vkformer::c {

std::shared_ptr<vulkan::VulkanStore> Model::weights(DType dtype, models::WeightFormat format) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<vulkan::VulkanStore>& known = stores_[{dtype, format}];
    if (auto store = known.lock()) return store;
    auto made = std::make_shared<vulkan::VulkanStore>(backend->device());
    known = made;
    return made;
}

}  // namespace vkformer::c

const char* vkf_model_kind_string(vkf_model_kind kind) {
    switch (kind) {
    case VKF_MODEL_DECODER: return "decoder";
    case VKF_MODEL_ENCODER_DECODER: return "encoder_decoder";
    case VKF_MODEL_ENCODER: return "encoder";
    case VKF_MODEL_VISION: return "vision";
    case VKF_MODEL_KIND_MAX_ENUM: break;
    }
    return "?";
}

vkf_result vkf_model_load(vkf_device* device, const char* path, vkf_model** model) {
    if (!device || !path || !model) return c::invalid("device, path and model are required");
    return c::guarded([&]() -> Result<void> {
        auto made = std::make_shared<Model>();
        made->backend = device->backend;
        VKFORMER_CHECK(load(*made, path));
        *model = new vkf_model{std::move(made)};
        return {};
    });
}

void vkf_model_destroy(vkf_model* model) { delete model; }

vkf_result vkf_model_query(const vkf_model* model, vkf_model_properties* properties) {
    if (!model) return c::invalid("model is required");
    return c::guarded(
        [&] { return c::write_struct(properties, properties_of(*model->model), "vkf_model_properties"); });
}

vkf_result vkf_model_label(const vkf_model* model, uint32_t label, size_t* bytes, char* name) {
    if (!model) return c::invalid("model is required");
    return c::guarded([&] {
        const auto& vision = model->model->vision;
        const std::uint32_t labels = vision ? vision->config().labels : 0;
        if (label >= labels)
            return c::fail(
                Error{ErrorCode::InvalidArgument,
                      "label " + std::to_string(label) + " was asked for, the model has " + std::to_string(labels)});
        const auto& names = vision->config().label_names;
        const std::string found = names.empty() ? "LABEL_" + std::to_string(label) : names[label];
        return c::write_text(found, bytes, name);
    });
}

vkf_result vkf_model_image_normalization(const vkf_model* model, float mean[3], float deviation[3]) {
    if (!model || !mean || !deviation) return c::invalid("model, mean and deviation are required");
    if (!model->model->vision) return c::invalid("the model sees no images");
    const auto& known = model->model->normalization;
    for (std::size_t i = 0; i < 3; ++i) {
        mean[i] = known ? known->mean[i] : 0;
        deviation[i] = known ? known->deviation[i] : 1;
    }
    return VKF_SUCCESS;
}

vkf_result vkf_model_tokenize(const vkf_model* model, const char* text, size_t text_bytes, size_t* count,
                              int32_t* tokens) {
    if (!model || (!text && text_bytes > 0)) return c::invalid("model and text are required");
    return c::guarded([&] {
        const auto& tokenizer = model->model->tokenizer;
        if (!tokenizer) return c::fail(tokenizer.error());
        const auto ids = (*tokenizer)->encode(std::string_view(text, text_bytes));
        if (!ids) return c::fail(ids.error());
        return c::write_array(std::span<const int32_t>(*ids), count, tokens);
    });
}

vkf_result vkf_model_piece(const vkf_model* model, int32_t token, size_t* bytes, char* piece) {
    if (!model) return c::invalid("model is required");
    return c::guarded([&] {
        const auto& tokenizer = model->model->tokenizer;
        if (!tokenizer) return c::fail(tokenizer.error());
        if (token < 0 || static_cast<std::size_t>(token) >= (*tokenizer)->vocab_size())
            return c::fail(Error{ErrorCode::InvalidArgument, "token " + std::to_string(token) +
                                                                 " was asked for, the tokenizer has 0 to " +
                                                                 std::to_string((*tokenizer)->vocab_size() - 1)});
        return c::write_text((*tokenizer)->piece(token), bytes, piece);
    });
}

vkf_result vkf_model_pass(vkf_model* model, const vkf_pass_info* info, const vkf_program_options* options,
                          vkf_program** program) {
    if (!model || !program) return c::invalid("model and program are required");
    return c::guarded([&]() -> Result<void> {
        VKFORMER_TRY(const auto given, c::read_struct(info, kDefaultPass, "vkf_pass_info"));
        VKFORMER_TRY(const DType dtype, c::dtype_of(given.dtype));
        Model& m = *model->model;
        NamedTensors tensors;
        VKFORMER_TRY(auto graph, pass_of(m, given, dtype, tensors));
        auto weights = m.weights(dtype, models::WeightFormat::as_filed);
        VKFORMER_TRY(auto made,
                     c::compile(m.backend, std::move(graph), std::move(tensors), options, std::move(weights)));
        made->model = model->model;
        *program = made.release();
        return {};
    });
}
