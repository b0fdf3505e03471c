// SPDX-License-Identifier: MIT
#include "models/passed_over.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/json.hpp"
#include "models/generation_config.hpp"

namespace vkformer::models {
namespace {

/// Words, in which '*' stands for any characters, that hold for some types of models: all of them where `types` is empty.
struct Known {
    std::string_view types;
    std::string_view words;
};

/// Fields of config.json. Those that some configurations ask for (of experts, of windows) are here for the others.
constexpr Known kModelFields[] = {
    // Who wrote the file, with what, and for whom.
    {"",
     "_name_or_path name_or_path _commit_hash architectures model_type transformers_version adapters_version "
     "auto_map tokenizer_class dtype torch_dtype torchscript use_bfloat16 tf_legacy_loss transformers.js_config "
     "unsloth_fixed unsloth_version _attn_implementation _attn_implementation_autoset attn_implementation "
     "_flash_attn_2_enabled use_flash_attn _experts_implementation use_return_dict return_dict use_cache "
     "output_attentions output_hidden_states output_past"},
    // Heads of other tasks, and what pipelines put before texts.
    {"",
     "id2label id2label.* label2id num_labels _num_labels problem_type finetuning_task task_specific_params prefix "
     "sep_token_id mask_token_id tie_encoder_decoder cross_attention_hidden_size "
     "sbert_ce_default_activation_function sentence_transformers sentence_transformers.*"},
    // Training and the weights that it begins with.
    {"",
     "attention_dropout attention_probs_dropout_prob activation_dropout classifier_dropout hidden_dropout "
     "hidden_dropout_prob dropout dropout_rate attn_pdrop embd_pdrop resid_pdrop embedding_dropout mlp_dropout "
     "qa_dropout seq_classif_dropout classif_dropout encoder_layerdrop decoder_layerdrop initializer_range "
     "initializer_factor initializer_cutoff_factor init_std gradient_checkpointing chunk_size_feed_forward "
     "output_router_logits router_aux_loss_coef"},
    // A decoder's own: there is no encoder that it could look at, and rows of attention heads that are gone would not fit their shapes.
    {"llama mistral smollm3 qwen2 qwen3 gemma gemma2 gemma3_text gemma3 gemma3n_text gemma3n gemma4_text gemma4 "
     "phi3 mixtral qwen2_moe qwen3_moe olmoe "
     "gpt_oss granite granitemoe granitemoeshared granitemoehybrid lfm2 lfm2_moe nemotron_h qwen3_next qwen3_5 "
     "qwen3_5_text qwen3_5_moe qwen3_5_moe_text deepseek_v2 deepseek_v3 phimoe bamba gpt_neox gptj phi opt "
     "starcoder2 olmo2 olmo3 glm4 glm4_moe seed_oss exaone4 hunyuan_v1_dense ernie4_5 ernie4_5_moe cohere cohere2",
     "is_decoder is_encoder_decoder add_cross_attention pruned_heads"},
    {"gpt2", "is_decoder is_encoder_decoder pruned_heads"},  // its heads' rows lie together: the shapes tell
    {"marian bart mbart m2m_100 pegasus t5 mt5 umt5 t5gemma whisper",
     "is_decoder is_encoder_decoder add_cross_attention"},
    {"vit deit dinov2 dinov2_with_registers dinov3_vit clip siglip",
     "is_decoder is_encoder_decoder add_cross_attention"},

    {"marian bart mbart m2m_100 pegasus whisper", "num_hidden_layers"},  // that of the encoder again
    {"marian bart mbart pegasus", "add_bias_logits force_bos_token_to_be_generated extra_pos_embeddings save_step"},
    {"umt5", "scalable_attention"},  // as it always is
    {"t5", "n_positions"},           // there are none
    // Of the stacks what the model itself says, and of the model what they say.
    {"t5gemma", "tie_word_embeddings vocab_size pruned_heads classifier_dropout_rate hidden_act"},
    {"whisper",
     "apply_spec_augment mask_time_prob mask_time_length mask_time_min_masks mask_feature_prob mask_feature_length "
     "mask_feature_min_masks use_weighted_layer_sum classifier_proj_size median_filter_width"},  // the last: speech_config.hpp

    {"wav2vec2 hubert",
     "is_decoder is_encoder_decoder add_cross_attention tie_word_embeddings pad_token_id bos_token_id eos_token_id "
     "num_feat_extract_layers feat_extract_dropout feat_proj_dropout feat_quantizer_dropout final_dropout layerdrop "
     "apply_spec_augment mask_* num_codevector* contrastive_logits_temperature num_negatives codevector_dim "
     "proj_codevector_dim diversity_loss_weight ctc_loss_reduction ctc_zero_infinity use_weighted_layer_sum "
     "classifier_proj_size tdnn_* xvector_output_dim adapter_kernel_size adapter_stride num_adapter_layers "
     "output_hidden_size"},

    {"bert roberta xlm-roberta camembert",
     "tie_word_embeddings directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers "
     "pooler_size_per_head pooler_type"},
    {"mpnet jina_embeddings_v3", "tie_word_embeddings"},
    {"distilbert",
     "tie_word_embeddings sinusoidal_pos_embds tie_weights_"},  // positions are in the file, whatever they began with
    {"deberta-v2", "tie_word_embeddings legacy pooler_dropout cls_dropout conv_act conv_groups"},
    {"modernbert",  // position_embedding_type is BERT's word for what it has not, layer_norm_eps that of norm_eps
     "tie_word_embeddings position_embedding_type layer_norm_eps cls_token_id decoder_bias deterministic_flash_attn "
     "reference_compile repad_logits_with_grad sparse_prediction sparse_pred_ignore_index "
     "global_attn_every_n_layers classifier_pooling classifier_bias classifier_activation"},
    {"vit deit", "tie_word_embeddings encoder_stride pooler_act pooler_output_size"},
    {"clip siglip", "tie_word_embeddings pruned_heads logit_scale_init_value projection_dim text_config vision_config"},
    {"siglip", "pad_token_id bos_token_id eos_token_id"},  // of the text tower; the tokenizer says what it reads
    {"dinov2 dinov2_with_registers dinov3_vit",
     "tie_word_embeddings layerscale_value drop_path_rate apply_layernorm reshape_hidden_states *out_features "
     "*out_indices stage_names use_mask_token return_class_token pos_embed_shift pos_embed_jitter pos_embed_rescale"},

    {"llama", "rope_interleaved is_llama_config"},  // of another program
    {"qwen2 qwen3 qwen2_moe qwen3_moe",
     "max_window_layers sliding_window use_mrope"},                            // where use_sliding_window is true
    {"smollm3", "max_window_layers"},                                          // layer_types say it
    {"gemma", "hidden_activation"},                                            // hidden_act is what counts
    {"gemma2 gemma3_text gemma3", "hidden_act sliding_window_size"},           // hidden_activation, sliding_window
    {"gemma3_text gemma3", "_sliding_window_pattern sliding_window_pattern"},  // where layer_types are
    {"gemma3",
     "tie_word_embeddings boi_token_index eoi_token_index image_token_index mm_tokens_per_image vision_config*"},
    {"gemma3n_text gemma3n", "altup_coef_clip"},  // of training
    {"gemma3n",
     "tie_word_embeddings boi_token_id eoi_token_id boa_token_id eoa_token_id image_token_id audio_token_id "
     "vision_soft_tokens_per_image audio_soft_tokens_per_image vision_config* audio_config*"},
    // Where there are experts, keys that are values, and layers with embeddings.
    {"gemma4_text gemma4",
     "num_experts top_k_experts moe_intermediate_size num_global_key_value_heads vocab_size_per_layer_input"},
    {"gemma4",
     "tie_word_embeddings boa_token_id boi_token_id eoa_token_index eoi_token_id audio_token_id image_token_id "
     "video_token_id vision_config* audio_config*"},
    {"phi3 phimoe",
     "original_max_position_embeddings rope_scaling.original_max_position_embeddings "
     "rope_parameters.original_max_position_embeddings interpolate_factor full_attn_mod"},  // LongRoPE asks for one
    {"gpt2",
     "n_ctx reorder_and_upcast_attn summary_activation summary_first_dropout summary_proj_to_labels summary_type "
     "summary_use_proj predict_special_tokens n_special"},
    {"gpt_neox", "rope_theta"},                       // rotary_emb_base again
    {"gptj", "rotary scale_attn_weights summary_*"},  // as they always are
    {"opt", "layerdrop"},
    {"phi", "partial_rotary_factor"},                                           // where rope_parameters have one
    {"starcoder2", "residual_dropout activation_function mlp_type norm_type"},  // hidden_act, and as they always are
    {"mixtral", "router_jitter_noise"},
    {"phimoe", "input_jitter_noise"},
    {"gpt_oss", "initial_context_length experts_per_token"},  // rope_scaling says it
    {"granitemoe granitemoeshared", "position_embedding_type"},
    {"granitemoehybrid",
     "init_method mamba_chunk_size time_step_min time_step_max rope_parameters rope_theta num_experts_per_tok"},
    {"bamba",  // rope_parameters have a partial_rotary_factor, too
     "partial_rotary_factor mamba_chunk_size time_step_min time_step_max num_logits_to_keep z_loss_coefficient "
     "use_mamba_kernels"},
    {"lfm2 lfm2_moe",
     "block_multiple_of block_ffn_dim_multiplier block_dim block_mlp_init_scale block_norm_eps block_out_init_scale "
     "block_use_swiglu block_use_xavier_init conv_dim conv_dim_out conv_use_xavier_init use_pos_enc num_heads"},
    {"nemotron_h",
     "attention_bias expand mamba_proj_bias chunk_size mamba_ssm_cache_dtype use_mamba_kernels time_step_min "
     "time_step_max time_step_floor rescale_prenorm_residual residual_in_fp32 num_logits_to_keep "
     "num_nextn_predict_layers mtp_layers_block_type mtp_hybrid_override_pattern moe_intermediate_size "
     "moe_shared_expert_intermediate_size moe_shared_expert_overlap n_routed_experts n_shared_experts n_group "
     "topk_group norm_topk_prob num_experts_per_tok routed_scaling_factor"},
    {"qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text",
     "partial_rotary_factor mtp_* mamba_ssm_dtype rope_parameters.mrope_section rope_parameters.mrope_interleaved"},  // rope_parameters have it
    {"qwen3_5_moe qwen3_5_moe_text", "mlp_only_layers"},  // there are none
    {"qwen3_next", "use_sliding_window"},
    {"qwen3_5 qwen3_5_moe",
     "text_config.tie_word_embeddings image_token_id video_token_id vision_start_token_id vision_end_token_id "
     "vision_config*"},
    {"deepseek_v2 deepseek_v3",  // topk_method says whether there are groups
     "pretraining_tp ep_size seq_aux aux_loss_alpha num_nextn_predict_layers qk_head_dim n_group topk_group"},
    {"glm4 glm4_moe", "partial_rotary_factor"},  // where rope_parameters have one
    {"glm4_moe", "num_nextn_predict_layers n_group topk_group"},
    {"seed_oss", "residual_dropout"},
    {"exaone4", "sliding_window_pattern layer_norm_epsilon"},  // where layer_types are; rms_norm_eps
    {"hunyuan_v1_dense",                                       // as they always are, or of other models of the family
     "eod_token_id rope_scaling.factor rope_parameters.factor rope_scaling.mscale* rope_scaling.beta_* "
     "add_classification_head class_num pool_type mask_init_id im_*_id text_*_id *_token_id org_vocab_size norm_type "
     "attention_head_dim num_media_embeds"},
    {"ernie4_5 ernie4_5_moe", "use_flash_attention"},
    {"cohere cohere2",  // as they always are
     "model_max_length position_embedding_type use_parallel_embedding use_embedding_sharing "
     "order_of_interleaved_layers layer_switch cache_implementation"},
    {"cohere2", "sliding_window_pattern _sliding_window_pattern"},  // where layer_types are
    {"nomic_bert",
     "tie_word_embeddings dense_seq_output fused_bias_fc fused_dropout_add_ln max_trained_positions "
     "parallel_block_tied_norm pad_vocab_size_multiple reorder_and_upcast_attn summary_* use_xentropy"},
};

/// Fields of a quantization_config: the tensors tell what of them counts. Activations and caches are not rounded as it says.
constexpr std::string_view kQuantization =
    "sym method act_group_aware disable_exllama damp_percent damp_auto_increment true_sequential static_groups "
    "lm_head model_seqlen block_name_to_quantize batch_size module_name_preceding_first_block "
    "modules_in_block_to_quantize pad_token_id use_cuda_fp16 use_exllama exllama_config cache_block_outputs "
    "max_input_length tokenizer dataset backend meta* model_name_or_path model_file_base_name zero_point do_fuse "
    "fuse_max_seq_len modules_to_fuse modules_to_not_convert ignored_layers ignore scale_fmt dequantize "
    "global_compression_ratio kv_cache_scheme version run_compressed config_groups.*.weights.observer "
    "config_groups.*.weights.observer_kwargs config_groups.*.weights.actorder config_groups.*.weights.scale_dtype "
    "config_groups.*.weights.zp_dtype config_groups.*.input_activations config_groups.*.output_activations "
    "config_groups.*.targets config_groups.*.format sparsity_config.*";

/// Tensors of folders, with what may stand before their names.
constexpr Known kTensors[] = {
    {"", "*rotary_emb.inv_freq *position_ids"},  // made from the config
    // Towers for other inputs, and heads of other tasks.
    {"gemma3 qwen3_5 qwen3_5_moe", "*vision_tower.* *multi_modal_projector.* *visual.*"},
    {"gemma3n gemma4", "model.vision_tower.* model.audio_tower.* model.embed_vision.* model.embed_audio.*"},
    {"qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text nemotron_h", "mtp.*"},
    {"bert roberta xlm-roberta camembert mpnet jina_embeddings_v3 vit deit", "*pooler.dense.*"},
    {"dinov2 dinov2_with_registers dinov3_vit", "*embeddings.mask_token"},  // of training
    {"dinov3_vit", "embeddings.register_tokens"},                           // there where there are none
    {"bert", "cls.*"},
    {"roberta xlm-roberta camembert mpnet jina_embeddings_v3", "lm_head.*"},
    {"distilbert", "vocab_transform.* vocab_layer_norm.* vocab_projector.* pre_classifier.*"},
    {"deberta-v2", "*pooler.dense.* *embeddings.position_embeddings.* cls.* lm_predictions.* mask_predictions.*"},
    {"modernbert", "head.* decoder.*"},
    {"ernie4_5_moe", "model.mtp_*"},                  // layers that predict the token after the next one
    {"gpt2 gptj", "*.attn.bias *.attn.masked_bias"},  // the causal mask
    {"gpt_neox", "*.attention.bias *.attention.masked_bias"},
    {"marian m2m_100", "*embed_positions.weight*"},  // sinusoids
    {"bart mbart", "*classification_head.*"},
    {"wav2vec2 hubert", "*masked_spec_embed"},                                             // of training
    {"t5 mt5", "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"},  // which no version reads
};

/// Keys of GGUF files without their architecture's prefix.
constexpr std::string_view kKeys =
    "vocab_size "  // the table of tokens has it
    "full_attention_interval leading_dense_block_count interleave_moe_layer_step expert_shared_count "
    "expert_group_used_count "                              // what tensors there are says it
    "rope.dimension_sections "                              // of images; texts count alike in all of them
    "rope.scaling.finetuned attention.layer_norm_epsilon "  // beside others that count
    "classifier.output_labels pooling_type";                // read by those who ask for them
/// Prefixes of what says nothing of the arithmetic, or is read with the tokenizer.
constexpr std::string_view kPrefixes = "general.* tokenizer.* split.* quantize.*";

/// '*' matches any characters, none too.
bool matches(std::string_view pattern, std::string_view name) {
    const std::size_t star = pattern.find('*');
    if (star == pattern.npos) return pattern == name;
    if (!name.starts_with(pattern.substr(0, star))) return false;
    name.remove_prefix(star);
    pattern.remove_prefix(star + 1);
    for (std::size_t skipped = 0; skipped <= name.size(); ++skipped)
        if (matches(pattern, name.substr(skipped))) return true;
    return false;
}

bool any_matches(std::string_view words, std::string_view name) {
    while (!words.empty()) {
        const std::size_t end = std::min(words.find(' '), words.size());
        if (end > 0 && matches(words.substr(0, end), name)) return true;
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return false;
}

bool is_known(std::span<const Known> lists, std::string_view type, std::string_view name) {
    return std::ranges::any_of(lists, [&](const Known& known) {
        return (known.types.empty() || any_matches(known.types, type)) && any_matches(known.words, name);
    });
}

/// A bias that adds nothing, as AutoGPTQ writes them.
bool is_zero(const formats::TensorMap& tensors, const std::string& name) {
    const auto found = tensors.find(name);
    return found != tensors.end() &&
           std::ranges::all_of(found->second.bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

/// Whether a tensor is of one of `count` layers from `first` on, whose number follows the prefix.
bool is_of_layers(std::string_view tensor, std::string_view prefix, std::uint32_t first, std::uint32_t count) {
    if (!tensor.starts_with(prefix)) return false;
    std::uint32_t layer = 0;
    std::from_chars(tensor.data() + prefix.size(), tensor.data() + tensor.size(), layer);
    return layer - first < count;
}

/// Of layers that see others' caches, tensors that files of Gemma 4 may have all the same.
constexpr std::string_view kOfOwnCaches =
    "*.self_attn.k_proj.* *.self_attn.v_proj.* *.self_attn.k_norm.* *.attn_k.weight *.attn_v.weight "
    "*.attn_k_norm.weight";

/// Whether a tensor is one of those. `prefix` stands before a layer's number.
bool is_of_shared_cache(std::string_view tensor, std::string_view prefix, std::uint32_t layers, std::uint32_t shared) {
    const std::size_t begin = std::min(tensor.find(prefix), tensor.size());
    return any_matches(kOfOwnCaches, tensor) &&
           is_of_layers(tensor.substr(begin), prefix, layers - std::min(shared, layers), shared);
}

/// A sentence on tensors that nobody has read; none where there are none.
void add_tensors(const std::string& file, std::vector<std::string> names, std::vector<std::string>& notes) {
    if (names.empty()) return;
    const std::string further = names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : std::string();
    notes.push_back(file + ": the model goes on without the tensor" + (further.empty() ? " " : "s ") +
                    formats::quote(names.front()) + further + ", which nobody knows the use of");
}

std::string unknown(const std::string& file, std::string_view name, const std::string& value) {
    return file + ": the model goes on without " + formats::quote(name) + ", which is " + value +
           ": nobody knows what it does";
}

}  // namespace

bool is_of_no_account(std::string_view model_type, std::string_view path) {
    for (const std::string_view nested :
         {"text_config.", "vision_config.", "text_config_dict.", "vision_config_dict.", "encoder.", "decoder."}) {
        if (path.starts_with(nested) && is_of_no_account(model_type, path.substr(nested.size()))) return true;
    }
    constexpr std::string_view kObject = "quantization_config.";
    if (path.starts_with(kObject)) return any_matches(kQuantization, path.substr(kObject.size()));
    return is_known(kModelFields, model_type, path) || is_generation_field(path);
}

std::vector<std::string> passed_over(const formats::Config& config, const formats::Weights& weights) {
    std::vector<std::string> notes;
    const auto type_field = config.string("model_type", "marian");
    const std::string type = type_field ? *type_field : "";
    for (const std::string& field : config.unasked())
        if (!is_of_no_account(type, field)) notes.push_back(unknown(config.file_name(), field, config.shown(field)));
    std::vector<std::string> tensors = weights.unasked();
    const auto layers = config.unsigned_integer("num_hidden_layers", {.fallback = 0});
    const auto predicting = config.unsigned_integer("num_nextn_predict_layers", {.fallback = 0});
    const auto inner = config.object("text_config");
    const formats::Config& text = inner && !inner->is_empty() ? *inner : config;
    const auto text_layers = text.unsigned_integer("num_hidden_layers", {.fallback = 0});
    const auto shared = text.unsigned_integer("num_kv_shared_layers", {.fallback = 0});
    std::erase_if(tensors, [&](const std::string& name) {
        return (text_layers && shared && is_of_shared_cache(name, "layers.", *text_layers, *shared)) ||
               is_known(kTensors, type, name) || (name.ends_with(".bias") && is_zero(weights.tensors(), name)) ||
               (layers && predicting && is_of_layers(name, "model.layers.", *layers, *predicting));
    });
    add_tensors(weights.source(), std::move(tensors), notes);
    return notes;
}

std::vector<std::string> passed_over(const formats::Gguf& file) {
    constexpr std::size_t kShownElements = 5;
    std::vector<std::string> notes;
    const auto architecture = file.string("general.architecture", "");
    const std::string prefix = (architecture ? *architecture : "") + ".";
    const auto layers = file.unsigned_integer(prefix + "block_count", {.fallback = 0});
    const auto predicting = file.unsigned_integer(prefix + "nextn_predict_layers", {.fallback = 0});
    for (const formats::GgufValue* const value : file.unasked()) {
        const bool is_own = value->key.starts_with(prefix) && any_matches(kKeys, value->key.substr(prefix.size()));
        if (!is_own && !any_matches(kPrefixes, value->key))
            notes.push_back(unknown(file.file_name(), value->key, file.shown(*value, kShownElements)));
    }
    // llama.cpp takes nothing but a model's name from it.
    const auto* const tokens = file.weights().find("token_embd.weight");
    const auto vocabulary = file.unsigned_integer(prefix + "vocab_size", {.fallback = 0});
    if (tokens && file.has(prefix + "vocab_size") &&
        !(vocabulary && tokens->shape.rank() == 2 && *vocabulary == tokens->shape[0]))
        notes.push_back(file.file_name() + ": the model goes on without " + formats::quote(prefix + "vocab_size") +
                        ", since the table of tokens has the shape " + to_string(tokens->shape));
    std::vector<std::string> tensors = file.weights().unasked();
    // Behind the layers of the model there may be some that predict the token after the next one, which are counted here.
    const auto shared = file.unsigned_integer(prefix + "attention.shared_kv_layers", {.fallback = 0});
    std::erase_if(tensors, [&](const std::string& name) {
        return (layers && shared && is_of_shared_cache(name, "blk.", *layers, *shared)) ||
               (layers && predicting &&
                is_of_layers(name, "blk.", *layers - std::min(*predicting, *layers), *predicting));
    });
    add_tensors(file.file_name(), std::move(tensors), notes);
    return notes;
}

}  // namespace vkformer::models
