// SPDX-License-Identifier: MIT
/// What turns an encoder's output into the vector of a text, as a folder of the sentence-transformers library describes it (Reimers
/// and Gurevych 2019): modules.json and the folders that it names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "formats/config.hpp"
#include "formats/gguf.hpp"
#include "models/encoder.hpp"

namespace vkformer::models {

/// y = f(weight · x + bias); no bytes in bias: none.
struct DenseStage {
    TensorData weight, bias;  ///< [out, in], [out]
    graph::Activation activation = graph::Activation::tanh;
};
struct NormalizeStage {};

struct SentenceModel {
    std::filesystem::path encoder_folder;
    bool is_listed = false;                                        ///< a modules.json names the encoder
    std::vector<graph::Pooling> pooling = {graph::Pooling::mean};  ///< their results follow one another
    std::vector<std::variant<DenseStage, NormalizeStage>> stages;  ///< behind the pooling, in this order
    std::uint32_t max_length = 0;                                  ///< tokens of a text at most; 0: nothing is said
    bool lower_case = false;
    std::map<std::string, std::string> prompts;  ///< what is put before a text, by name: "query", "passage", …
    std::string default_prompt;                  ///< a name in prompts; empty: none
    bool pools_prompt = true;                    ///< false: the prompt's tokens are left out of the pooling

    bool normalizes() const noexcept;
    /// Replaces whatever the stages do about it.
    void set_normalize(bool normalize);
    std::uint64_t dimension(std::uint64_t hidden_size) const noexcept;
};

/// A GGUF file says the pooling, and its vectors are normalised, as llama.cpp's programs do it. A folder without modules.json gets
/// what sentence-transformers gives it: the mean of the last hidden states. Errors: FileNotFound, CorruptFile, UnsupportedConfig (a
/// module that is not implemented, by name; a folder of another kind of model, Hint::cross_encoder where it is one), MissingTensor,
/// ShapeMismatch.
Result<SentenceModel> load_sentence_model(const std::filesystem::path& path);

/// The folders in `folder` that its modules.json gives to stages, relative to it; none without the file. Errors: CorruptFile.
Result<std::vector<std::filesystem::path>> stage_folders(const std::filesystem::path& folder);
/// The same of an open file, which is one of an encoder.
Result<SentenceModel> load_gguf_sentence_model(const formats::Gguf& file);

/// By the logits of which tokens behind the last one a language model scores.
struct ScoreTokens {
    std::int32_t yes = 0;
    std::int32_t no = -1;  ///< −1: the other's logit alone
    bool operator==(const ScoreTokens&) const = default;
};
/// Those of the LogitScore in a folder's modules.json; none where there is no such module or file. Errors: CorruptFile.
Result<std::optional<ScoreTokens>> read_score_tokens(const std::filesystem::path& folder);

/// What a folder with a LogitScore says of its texts.
struct ScoreTexts {
    std::uint32_t max_length = 0;  ///< as SentenceModel::max_length
    std::string prompt;            ///< the default one; empty: none
};
/// Errors: CorruptFile, UnsupportedConfig (texts become lower case).
Result<ScoreTexts> read_score_texts(const std::filesystem::path& folder);

/// Adds pooling and stages: f32 [batch, dimension].
Result<graph::Value> add_sentence(graph::Graph& graph, const SentenceModel& model, const EncoderTensors& encoder);

/// Which names the poolings have, in messages and options: "cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken".
std::string_view pooling_name(graph::Pooling pooling) noexcept;
/// Errors: InvalidArgument, with the names that there are.
Result<graph::Pooling> parse_pooling(std::string_view name);

/// What a cross-encoder's scores go through: the "activation_fn" of config_sentence_transformers.json, which is `library`, else its
/// config.json's activation ("sentence_transformers", older "sbert_ce_default_activation_function"), else a sigmoid where there is one score
/// and nothing where there are several.
Result<graph::Activation> read_score_activation(const formats::Config& library, const formats::Config& config,
                                                std::uint32_t labels);
/// The same of a folder, whose config_sentence_transformers.json counts where there is a modules.json, as in sentence-transformers.
Result<graph::Activation> read_score_activation(const std::filesystem::path& folder, std::uint32_t labels);

}  // namespace vkformer::models
