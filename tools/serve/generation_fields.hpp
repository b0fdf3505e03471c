// SPDX-License-Identifier: MIT
/// What the APIs of language models have in common in their requests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/adapter_fields.hpp"
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

/// A text, or a list of parts of which each has a type of `types` and a text,
/// one behind the other. Throws Refusal (400).
std::string read_content(Fields& fields, std::string_view name, std::initializer_list<std::string_view> types);

/// Fields of OpenAI's APIs that change no answer.
void pass_over_bookkeeping(Fields& fields);

/// "chatcmpl-", say, and 24 hexadecimal digits that are drawn.
std::string new_id(std::string_view prefix);

}  // namespace vkformer::serve
