// SPDX-License-Identifier: MIT
/// Why a request is not answered as asked, in the shape that its client knows.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "serve/http.hpp"
#include "vkformer/result.hpp"

namespace vkformer::serve {

/// Whose shape a route's errors have.
enum class Family : std::uint8_t { openai, anthropic, libretranslate };

/// Thrown by what reads requests, dozens of fields each, and caught by the router alone.
struct Refusal : std::exception {
    Refusal(int status_of_it, std::string what_is_wrong, std::string field = {}, std::string code_of_it = {})
        : status(status_of_it),
          message(std::move(what_is_wrong)),
          param(std::move(field)),
          code(std::move(code_of_it)) {}
    const char* what() const noexcept override { return message.c_str(); }

    int status;
    std::string message;  ///< of the request, never of the machine
    std::string param;    ///< the field; may be empty
    std::string code;     ///< "model_not_found"; may be empty
};

/// The JSON text of an error.
std::string error_body(Family family, const Refusal& refusal);
Response as_response(Family family, const Refusal& refusal);

/// What a client may know of a library's error: InvalidArgument is about the request and is told; the rest stays in the log.
Refusal told(const Error& error);

}  // namespace vkformer::serve
