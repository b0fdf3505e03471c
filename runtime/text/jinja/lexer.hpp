// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.hpp"

namespace vkformer::text::jinja {

struct Token {
    enum class Kind {
        Data,           ///< text outside tags
        BeginVariable,  ///< {{
        EndVariable,
        BeginBlock,  ///< {%
        EndBlock,
        Name,
        Text,  ///< a literal; its value is in `text`
        Integer,
        Float,
        Sign,  ///< an operator or a bracket
        End,
    };
    Kind kind = Kind::End;
    std::string text;
    std::size_t line = 1;
};

/// What lexer and parser throw where a template is none.
[[noreturn]] inline void broken(std::string what) { throw Failure{ErrorCode::CorruptFile, std::move(what)}; }

/// Cuts a template into tokens, white space around tags treated as transformers has it (trim_blocks, lstrip_blocks). Comments
/// leave none. Throws Failure (CorruptFile) and leaves the line in `line`.
std::vector<Token> tokenize(std::string_view source, std::size_t& line);

}  // namespace vkformer::text::jinja
