// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "api/c/handles.hpp"
#include "api/decoder_text.hpp"
#include "api/image_runner.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "models/adapter.hpp"
#include "models/open_model.hpp"

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
    model.generation.rules = std::move(defaults.rules);
    model.generation.stop_strings = std::move(defaults.stop_strings);
    model.generation.no_repeat_ngram = defaults.no_repeat_ngram;
    model.generation.min_steps = defaults.min_new_tokens;
    model.repetition_penalty = defaults.repetition_penalty;
}

/// Encoders and decoders do without a tokenizer as long as nobody asks for text; a broken one is told.
Result<void> load_tokenizer(Model& model, const std::filesystem::path& path) {
    auto tokenizer = text::load_tokenizer(path);
    if (!tokenizer && tokenizer.error().code != ErrorCode::FileNotFound) return tokenizer.error();
    model.tokenizer = std::move(tokenizer);
    return {};
}

Result<void> load(Model& model, const models::Opened<models::Decoder>& opened) {
    VKFORMER_TRY(auto loaded, opened.load());
    VKFORMER_TRY(auto text, api::load_decoder_text(opened, loaded.config().vocab_size));
    model.model = std::move(loaded);
    model.tokenizer = std::move(text.tokenizer);
    take(model, std::move(text.defaults));
    return {};
}

Result<void> load(Model& model, const models::Opened<std::unique_ptr<models::EncoderDecoder>>& opened) {
    VKFORMER_TRY(auto loaded, opened.load());
    const auto limits = loaded->limits();
    VKFORMER_TRY(model.generation, models::load_generation_config(opened.path, limits.target_len, limits.target_vocab));
    model.beams = model.generation.beams;
    if (model.generation.eos >= 0) model.end_tokens = {model.generation.eos};
    model.model = std::move(loaded);
    return load_tokenizer(model, opened.path);
}

Result<void> load(Model& model, const models::Opened<models::Encoder>& opened) {
    VKFORMER_TRY(model.model, opened.load());
    return load_tokenizer(model, opened.files);
}

Result<void> take_vision(Model& model, models::VisionEncoder encoder, const std::filesystem::path& path) {
    model.tokenizer = Error{ErrorCode::InvalidArgument, "a vision model sees images: it has no tokenizer here"};
    const auto processor = images::ImageProcessor::open(path);
    if (!processor && processor.error().code != ErrorCode::FileNotFound) return processor.error();
    if (processor) {
        model.normalization = processor->normalization();
        if (encoder.is_resizable()) {
            VKFORMER_TRY(encoder, api::fitted_to(*processor, std::move(encoder)));
        }
    }
    model.model = std::move(encoder);
    return {};
}

Result<void> load(Model& model, const models::Opened<models::VisionEncoder>& opened) {
    VKFORMER_TRY(auto encoder, opened.load());
    return take_vision(model, std::move(encoder), opened.path);
}

Result<void> load(Model& model, const models::Opened<models::Clip>& opened) {
    VKFORMER_TRY(auto clip, opened.load());
    clip.vision.notes = std::move(clip.notes);
    return take_vision(model, std::move(clip.vision), opened.path);
}

/// No function here takes sound.
constexpr std::array kKinds = {models::ModelKind::decoder, models::ModelKind::encoder_decoder,
                               models::ModelKind::encoder, models::ModelKind::vision, models::ModelKind::clip};
Result<void> load(Model&, const models::Opened<models::SpeechModel>&) {
    return Error{ErrorCode::UnsupportedConfig, "expected " + models::list_types(kKinds)};
}

void describe(const models::Decoder& decoder, vkf_model_properties& answer) {
    answer.kind = VKF_MODEL_DECODER;
    answer.vocab_size = decoder.config().vocab_size;
    answer.max_len = decoder.config().max_positions;
}

void describe(const models::Encoder& encoder, vkf_model_properties& answer) {
    answer.kind = VKF_MODEL_ENCODER;
    answer.vocab_size = encoder.config().vocab_size;
    answer.max_len = encoder.config().max_positions;
}

void describe(const models::VisionEncoder& encoder, vkf_model_properties& answer) {
    const models::VisionConfig& config = encoder.config();
    answer.kind = VKF_MODEL_VISION;
    answer.labels = config.labels;
    answer.image_height = config.image_height;
    answer.image_width = config.image_width;
    answer.patch_rows = config.patch_rows();
    answer.patch_columns = config.patch_columns();
    answer.special_tokens = config.special_tokens;
}

void describe(const std::unique_ptr<models::EncoderDecoder>& model, vkf_model_properties& answer) {
    const auto limits = model->limits();
    answer.kind = VKF_MODEL_ENCODER_DECODER;
    answer.vocab_size = saturated(limits.target_vocab);
    answer.source_vocab = saturated(limits.source_vocab);
    answer.max_len = saturated(limits.target_len);
    answer.max_source_len = saturated(limits.source_len);
}

vkf_model_properties properties_of(const Model& model) {
    vkf_model_properties answer = VKF_MODEL_PROPERTIES_INIT;
    std::visit([&](const auto& one) { describe(one, answer); }, model.model);
    if (answer.kind == VKF_MODEL_ENCODER_DECODER) answer.start_token = model.generation.decoder_start;
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

Result<void> check_target(const vkf_pass_info& info) {
    if (info.target_len > 0) return {};
    return Error{ErrorCode::InvalidArgument, "vkf_pass_info::target_len must be at least 1"};
}

Result<graph::Graph> pass_of(const std::unique_ptr<models::EncoderDecoder>& model, const vkf_pass_info& info,
                             DType dtype, NamedTensors& tensors) {
    VKFORMER_CHECK(check_target(info));
    if (info.source_len == 0)
        return Error{ErrorCode::InvalidArgument, "vkf_pass_info::source_len must be at least 1 for this model"};
    VKFORMER_TRY(auto forward, model->forward({.source_len = info.source_len,
                                               .target_len = info.target_len,
                                               .dtype = dtype,
                                               .source_mask = models::SourceMask::lengths,
                                               .layers = {.attention = info.attention_weights != VK_FALSE}}));
    if (info.attention_weights != VK_FALSE && forward.attention.empty())
        return Error{ErrorCode::UnsupportedConfig, "the model has no attention, so no weights of it"};
    tensors.add("source", forward.source_tokens);
    tensors.add("source_lengths", forward.source_lengths);
    tensors.add("target", forward.target_tokens);
    tensors.add("logits", forward.logits);
    for (const auto& map : forward.attention)
        tensors.add(std::string("weights/") + kind_name(map.kind) + "/" + std::to_string(map.layer), map.weights);
    return std::move(forward.graph);
}

/// Of the layers that have attention.
void add_weights(NamedTensors& tensors, const std::string& kind, const models::LayerValues& layers) {
    for (std::size_t layer = 0; layer < layers.attention.size(); ++layer)
        if (const graph::Value weights = layers.attention[layer])
            tensors.add("weights/" + kind + "/" + std::to_string(layer), weights);
}

Result<graph::Graph> pass_of(const models::Decoder& model, const vkf_pass_info& info, DType dtype,
                             NamedTensors& tensors) {
    VKFORMER_CHECK(check_target(info));
    if (model.adapters() > 0)
        return Error{
            ErrorCode::UnsupportedConfig,
            "a pass has no adapters: load the model without them, or make a session, whose sequences have some"};
    graph::Graph graph;
    VKFORMER_TRY(const auto tokens, graph.input("tokens", DType::i32, {1, info.target_len}));
    VKFORMER_TRY(const auto starts, graph.input("starts", DType::i32, {1}));
    // The pass is over the whole sequence, so its length says which positions a model with two kinds of them takes.
    const bool is_long = info.target_len > model.config().max_positions;
    VKFORMER_TRY(const auto pass, model.add_pass(graph,
                                                 {.len = info.target_len,
                                                  .capacity = info.target_len,
                                                  .dtype = dtype,
                                                  .weights = models::WeightFormat::as_filed,
                                                  .extended = is_long && model.config().extended_positions > 0,
                                                  .layers = {.attention = info.attention_weights != VK_FALSE}},
                                                 tokens, starts, models::Logits::all));
    graph.mark_output(pass.logits);
    tensors.add("tokens", tokens);
    tensors.add("starts", starts);
    tensors.add("logits", pass.logits);
    add_weights(tensors, "decoder", pass.layers);
    return graph;
}

Result<graph::Graph> pass_of(const models::Encoder& model, const vkf_pass_info& info, DType dtype,
                             NamedTensors& tensors) {
    VKFORMER_CHECK(check_target(info));
    graph::Graph graph;
    VKFORMER_TRY(const auto pass,
                 model.add_encoder(graph, {.len = info.target_len,
                                           .dtype = dtype,
                                           .layers = {.attention = info.attention_weights != VK_FALSE}}));
    graph.mark_output(pass.hidden);
    tensors.add("tokens", pass.tokens);
    tensors.add("lengths", pass.lengths);
    tensors.add("hidden", pass.hidden);
    add_weights(tensors, "encoder", pass.layers);
    return graph;
}

Result<graph::Graph> pass_of(const models::VisionEncoder& model, const vkf_pass_info& info, DType dtype,
                             NamedTensors& tensors) {
    graph::Graph graph;
    VKFORMER_TRY(
        const auto pass,
        model.add_encoder(graph, {.dtype = dtype, .layers = {.attention = info.attention_weights != VK_FALSE}}));
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
    add_weights(tensors, "vision", pass.layers);
    return graph;
}

}  // namespace

namespace vkformer::c {

std::shared_ptr<graph::TensorStore> Model::weights(DType dtype, models::WeightFormat format) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<graph::TensorStore>& known = stores_[{dtype, format}];
    if (auto store = known.lock()) return store;
    auto made = device->backend().make_store();
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
        made->device = device->device;
        VKFORMER_TRY(const auto opened, models::open_model(utf8_path(path), kKinds));
        VKFORMER_CHECK(std::visit([&](const auto& one) { return load(*made, one); }, opened));
        *model = new vkf_model{std::move(made)};
        return {};
    });
}

vkf_result vkf_model_load_adapted(vkf_device* device, const char* path, uint32_t adapter_count,
                                  const char* const* adapters, vkf_model** model) {
    if (!device || !path || !model || (adapter_count > 0 && !adapters))
        return c::invalid("device, path, adapters and model are required");
    for (const char* adapter : std::span(adapters, adapter_count))
        if (!adapter) return c::invalid("each adapter needs a path");
    return c::guarded([&]() -> Result<void> {
        auto made = std::make_shared<Model>();
        made->device = device->device;
        VKFORMER_TRY(const auto opened, models::open_model(utf8_path(path), std::array{models::ModelKind::decoder}));
        std::vector<models::Adapter> read;
        for (const char* adapter : std::span(adapters, adapter_count)) {
            VKFORMER_TRY(read.emplace_back(), models::open_adapter(utf8_path(adapter)));
        }
        const auto& decoder = std::get<models::Opened<models::Decoder>>(opened);
        VKFORMER_CHECK(load(*made, decoder));
        VKFORMER_TRY(made->model, models::with_adapters(decoder, *made->decoder(), read));
        *model = new vkf_model{std::move(made)};
        return {};
    });
}

void vkf_model_destroy(vkf_model* model) { delete model; }

const char* vkf_model_note(const vkf_model* model, uint32_t index) {
    if (!model) return nullptr;
    return std::visit(
        [&](const auto& one) {
            const auto& notes = models::notes_of(one);
            return index < notes.size() ? notes[index].c_str() : nullptr;
        },
        model->model->model);
}

vkf_result vkf_model_query(const vkf_model* model, vkf_model_properties* properties) {
    if (!model) return c::invalid("model is required");
    return c::guarded(
        [&] { return c::write_struct(properties, properties_of(*model->model), "vkf_model_properties"); });
}

vkf_result vkf_model_label(const vkf_model* model, uint32_t label, size_t* bytes, char* name) {
    if (!model) return c::invalid("model is required");
    return c::guarded([&] {
        const auto* const vision = model->model->vision();
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
    if (!model->model->vision()) return c::invalid("the model sees no images");
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
        VKFORMER_TRY(const DType dtype, c::activation_dtype(given.dtype, "vkf_pass_info::dtype"));
        Model& m = *model->model;
        NamedTensors tensors;
        VKFORMER_TRY(auto graph,
                     std::visit([&](const auto& one) { return pass_of(one, given, dtype, tensors); }, m.model));
        auto weights = m.weights(dtype, models::WeightFormat::as_filed);
        VKFORMER_TRY(auto made,
                     c::compile(m.device, std::move(graph), std::move(tensors), options, std::move(weights)));
        made->model = model->model;
        *program = made.release();
        return {};
    });
}
