// SPDX-License-Identifier: MIT
/// The whole: models behind routes behind a listener.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/access.hpp"
#include "serve/limits.hpp"
#include "serve/log.hpp"
#include "serve/model_options.hpp"
#include "serve/model_set.hpp"
#include "vkformer/result.hpp"

namespace vkformer::serve {

struct ServerOptions {
    std::string address = "127.0.0.1";
    std::uint16_t port = 8080;
    std::vector<ModelSpec> models;
    ModelOptions model_options;
    Access access;
    Limits limits;
    Log::Style log_style = Log::Style::text;
};

/// What would be loaded, a line for each model: its name, its kind, the bytes of its weights, those of a language model's cache as
/// run_server would make it, and what its steps, or a translation model's caches, come to at most. Errors: as of run_server, as far as
/// nothing is loaded.
Result<std::string> describe_server(const ServerOptions& options, bool as_json);

/// Serves until SIGINT or SIGTERM. Errors: InvalidArgument (no model; an address beyond the loopback without a key), and those of
/// ModelSet::find, Listener::open and ModelSet::load.
Result<void> run_server(const ServerOptions& options);

}  // namespace vkformer::serve
