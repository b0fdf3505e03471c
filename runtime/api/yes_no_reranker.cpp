// SPDX-License-Identifier: MIT
#include "api/yes_no_reranker.hpp"

#include <array>
#include <string_view>

#include "core/try.hpp"
#include "models/encoder_loading.hpp"
#include "models/sentence.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::api {
namespace {

constexpr std::string_view kInstruction = "Given a web search query, retrieve relevant passages that answer the query";

/// What the model card of Qwen3-Reranker asks, with its usual instruction.
PairPrompt qwen3_prompt() {
    return {.prefix =
                "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
                "Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
                "<|im_start|>user\n",
            .before = "<Instruct>: " + std::string(kInstruction) + "\n<Query>: ",
            .between = "\n<Document>: ",
            .suffix = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"};
}

Result<bool> is_qwen3(const models::Opened<models::Decoder>& opened) {
    if (const formats::Gguf* const file = opened.gguf()) {
        VKFORMER_TRY(const std::string architecture, file->string("general.architecture"));
        return architecture == "qwen3";
    }
    VKFORMER_TRY(const std::string type, std::get<formats::Config>(opened.head).string("model_type"));
    return type == "qwen3";
}

Result<models::ScoreTokens> find_score_tokens(const std::filesystem::path& path) {
    VKFORMER_TRY(const auto tokenizer, text::load_tokenizer(path));
    const auto yes = tokenizer->find("yes"), no = tokenizer->find("no");
    if (yes && no) return models::ScoreTokens{*yes, *no};
    return Error{ErrorCode::UnsupportedConfig,
                 path.string() + ": the tokenizer has no tokens \"yes\" and \"no\", by which the model would score"};
}

}  // namespace

Result<YesNoReranker> load_yes_no_reranker(const models::Opened<models::Decoder>& opened) {
    VKFORMER_TRY(const bool is_known, is_qwen3(opened));
    if (!is_known) return models::open_model(opened.path, std::array{models::ModelKind::encoder}).error();
    VKFORMER_TRY(const models::ScoreTokens tokens, find_score_tokens(opened.path));
    VKFORMER_TRY(const auto said, models::read_score_tokens(opened.path));
    if (said && *said != tokens)
        return Error{
            ErrorCode::UnsupportedConfig,
            opened.path.string() +
                ": its LogitScore is not that of \"yes\" against \"no\", as Qwen3-Reranker's: how it puts query "
                "and document together is not known"};
    VKFORMER_TRY(const models::ScoreTexts texts, models::read_score_texts(opened.path));
    if (!texts.prompt.empty() && texts.prompt != kInstruction)
        return Error{ErrorCode::UnsupportedConfig,
                     opened.path.string() +
                         ": config_sentence_transformers.json: the prompt of \"default_prompt_name\" is "
                         "another instruction than Qwen3-Reranker's usual one, \"" +
                         std::string(kInstruction) + "\""};
    VKFORMER_TRY(models::Decoder decoder, opened.load());
    std::vector<std::string> notes = decoder.notes;
    VKFORMER_TRY(models::Encoder encoder, models::scorer_of(std::move(decoder), tokens));
    encoder.notes = std::move(notes);
    return YesNoReranker{.encoder = std::move(encoder), .prompt = qwen3_prompt(), .max_length = texts.max_length};
}

}  // namespace vkformer::api
