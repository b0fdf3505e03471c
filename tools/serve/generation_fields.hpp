// SPDX-License-Identifier: MIT
/// What the APIs of language models have in common in their requests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/fields.hpp"
#include "serve/model_set.hpp"
#include "vkformer/generator.hpp"

namespace vkformer::serve {

/// temperature (0 to `hottest`), top_p, top_k, min_p, repetition_penalty,
/// presence_penalty, frequency_penalty, logit_bias, seed, ignore_eos. Without
/// any of the rules for drawing the model's own hold; with one of them, the
/// temperature is 1 unless it is given. Without a seed, one is drawn. Throws
/// Refusal (400).
GenerateOptions read_sampling(Fields& fields, double hottest);

/// The language model that a request asks: by its own name, by that of one of its adapters, which counts then, or the only one.
struct AskedModel {
    TextModel* model = nullptr;
    std::string name;  ///< as the answer calls it
};
/// The field "model". Throws what ModelSet::get throws.
AskedModel read_model(Fields& fields, const ModelSet& models, const Call& call);

/// Which adapters count: the one that the model was called by, or those of "lora", a list of objects with "id", llama-server's, or "name", and
/// "scale"; then the answer calls the model by its own name. Throws Refusal (400).
void read_adapters(Fields& fields, AskedModel& asked, GenerateOptions& options);

/// A text, or a list of parts of which each has a type of `types` and a text,
/// one behind the other. Throws Refusal (400).
std::string read_content(Fields& fields, std::string_view name, std::initializer_list<std::string_view> types);

/// Fields of OpenAI's APIs that change no answer.
void pass_over_bookkeeping(Fields& fields);

/// "chatcmpl-", say, and 24 hexadecimal digits that are drawn.
std::string new_id(std::string_view prefix);

}  // namespace vkformer::serve
