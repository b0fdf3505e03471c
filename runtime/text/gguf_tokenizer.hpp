// SPDX-License-Identifier: MIT
/// The tokenizer that a GGUF file carries in its metadata (`tokenizer.ggml.*`).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "formats/gguf.hpp"
#include "text/tokenizer.hpp"
#include "vkformer/result.hpp"

namespace vkformer::text {

struct GgufTokenizer {
    std::unique_ptr<Tokenizer> tokenizer;
    std::optional<std::int32_t> bos, eos, eot, unknown, separator, padding, mask;
    /// Every token that ends a generation: eos, eot, eom, and those that are spelled as such ("<|im_end|>"). Sorted.
    std::vector<std::int32_t> end_ids;
    bool adds_bos = false;  ///< encode puts bos before the text
    bool adds_eos = false;
    std::string chat_template;  ///< `tokenizer.chat_template`, empty where absent
};

/// tokenizer.ggml.model: "gpt2" (byte-level BPE, its words by tokenizer.ggml.pre), "llama" (SentencePiece BPE), "gemma4" (BPE over ▁), "t5"
/// (SentencePiece Unigram), "bert" (WordPiece). Errors: CorruptFile, UnsupportedConfig (a model or pre-tokenizer that is not
/// implemented, by name), OutOfHostMemory.
Result<GgufTokenizer> load_gguf_tokenizer(const formats::Gguf& file);

/// llama.cpp's name (tokenizer.ggml.pre) for the `pre_tokenizer` of a tokenizer.json; nothing where none of those that
/// load_gguf_tokenizer knows cuts text like it, and takes words that are tokens whole as said.
std::optional<std::string> gguf_pre_name(const nlohmann::json& pre_tokenizer, std::optional<bool> ignore_merges = {});

/// Whether a token so spelled ends a generation whatever the metadata say, unless it is a normal one.
bool is_gguf_end(std::string_view token);

}  // namespace vkformer::text
