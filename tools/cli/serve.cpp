// SPDX-License-Identifier: MIT
/// vkformer serve: models for many clients, over HTTP.
#include <algorithm>
#include <vector>

#include "cli.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "serve/server.hpp"
#include "sound_file.hpp"
#include "vad_options.hpp"

namespace vkformer::cli {
namespace {

struct ServeCommand {
    DeviceOptions device;
    CacheOption cache;
    WeightsOption weights;
    VadOption vad;
    serve::ServerOptions server;
    std::vector<std::string> models, languages, adapters;
    std::string key_file, load = "at-start";
    unsigned request_seconds = 600, grace_seconds = 30;
    bool json_logs = false, checks = false, json = false;
};

struct Named {
    std::string name, value;
};

/// NAME=VALUE. Errors: InvalidArgument.
Result<Named> split_named(const std::string& option, const std::string& text, const std::string& value) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos || equals == 0 || equals + 1 == text.size())
        return Error{ErrorCode::InvalidArgument, option + " takes NAME=" + value + ", not \"" + text + "\""};
    return Named{text.substr(0, equals), text.substr(equals + 1)};
}

Result<serve::ServerOptions> server_options(const ServeCommand& command) {
    serve::ServerOptions options = command.server;
    for (const std::string& text : command.models) {
        VKFORMER_TRY(const Named model, split_named("--model", text, "PATH"));
        VKFORMER_TRY(auto path, ModelOption{model.value}.find());
        options.models.push_back({model.name, std::move(path)});
    }
    for (const std::string& text : command.adapters) {
        VKFORMER_TRY(const Named of_model, split_named("--lora", text, "NAME=PATH"));
        VKFORMER_TRY(const Named adapter, split_named("--lora " + of_model.name + "=…", of_model.value, "PATH"));
        const auto model = std::ranges::find(options.models, of_model.name, &serve::ModelSpec::name);
        if (model == options.models.end())
            return Error{ErrorCode::InvalidArgument,
                         "--lora " + text + ": no --model is called \"" + of_model.name + "\""};
        model->adapters.push_back({.name = adapter.name, .path = utf8_path(adapter.value)});
    }
    for (const std::string& text : command.languages) {
        VKFORMER_TRY(const Named pair, split_named("--languages", text, "FROM:TO"));
        const std::size_t colon = pair.value.find(':');
        if (colon == pair.value.npos || colon == 0 || colon + 1 == pair.value.size())
            return Error{ErrorCode::InvalidArgument, "--languages takes NAME=FROM:TO, not \"" + text + "\""};
        options.model_options.languages[pair.name] = {pair.value.substr(0, colon), pair.value.substr(colon + 1)};
    }
    if (!command.key_file.empty()) {
        VKFORMER_TRY(options.access.keys, serve::Access::read_keys(utf8_path(command.key_file)));
    }
    serve::ModelOptions& model = options.model_options;
    model.device = command.device.device;
    model.precision = command.device.dtype_value() == DType::f16 ? Precision::f16 : Precision::f32;
    model.weights = command.weights.storage();
    model.cache = command.cache.is_q8_0() ? CacheStorage::q8_0 : CacheStorage::precision;
    model.plain_shaders = command.device.plain;
    model.strict = command.device.strict;
    model.on_demand = command.load == "on-demand";
    VKFORMER_TRY(model.shader_variants, command.device.variants_by_op());
    model.offload = command.device.offload();
    model.vad = utf8_path(command.vad.file);
    model.vad_parameters = command.vad.parameters;
    if (!command.device.quiet) model.on_progress = show_progress;
    model.read_sound = [](std::string_view bytes, std::uint32_t rate) { return read_sound(bytes, rate); };
    options.limits.request_time = std::chrono::seconds(command.request_seconds);
    options.limits.grace = std::chrono::seconds(command.grace_seconds);
    options.log_style = command.json_logs ? serve::Log::Style::json : serve::Log::Style::text;
    return options;
}

Result<int> run(const ServeCommand& command) {
    VKFORMER_TRY(const auto options, server_options(command));
    if (command.checks) {
        VKFORMER_TRY(const std::string text, serve::describe_server(options, command.json));
        VKFORMER_CHECK(print(text));
        return kOk;
    }
    VKFORMER_CHECK(serve::run_server(options));
    return kOk;
}

void add_access(CLI::App& command, ServeCommand& options) {
    command
        .add_option("--host", options.server.address, "The address to listen at; beyond the loopback, a key is needed")
        ->capture_default_str();
    command.add_option("--port", options.server.port, "The port; 0: one that is free, which is said")
        ->capture_default_str();
    command.add_option("--api-key-file", options.key_file, "A file with the keys that clients may have, one a line");
    command
        .add_option("--allow-host", options.server.access.hosts,
                    "A name besides localhost under which clients reach the server; repeatable")
        ->allow_extra_args(false)
        ->transform(serve::lower);
    command
        .add_option("--allow-origin", options.server.access.origins,
                    "An origin whose pages may ask the server, as https://a.example; repeatable")
        ->allow_extra_args(false);
}

void add_limits(CLI::App& command, ServeCommand& options) {
    const std::string group = "Limits";
    command
        .add_option("--max-requests", options.server.limits.requests,
                    "Requests at work or waiting for a model; beyond, the answer is 503")
        ->check(CLI::Range(1u, 100'000u))
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--max-connections", options.server.limits.connections,
                    "Connections; beyond, the one that has waited longest is closed")
        ->check(CLI::Range(1u, 100'000u))
        ->capture_default_str()
        ->group(group);
    command.add_option("--request-seconds", options.request_seconds, "Time for a request, its waiting included")
        ->check(CLI::Range(1u, 86'400u))
        ->capture_default_str()
        ->group(group);
    command.add_option("--grace-seconds", options.grace_seconds, "Time for what runs when the server is told to end")
        ->check(CLI::Range(0u, 86'400u))
        ->capture_default_str()
        ->group(group);
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
    auto options = std::make_shared<ServeCommand>();
    CLI::App& command = *app.add_subcommand("serve", "Serve models over HTTP, to the clients of known APIs");
    command
        .add_option("-m,--model", options->models,
                    "A model and the name that clients call it by, as NAME=PATH; repeatable")
        ->required()
        ->allow_extra_args(false)
        ->type_name("NAME=PATH");
    command
        .add_option("--lora", options->adapters,
                    "A low-rank adapter of the language model or encoder of that name, and the name that clients call "
                    "the two by, as "
                    "MODEL=NAME=PATH; repeatable")
        ->allow_extra_args(false)
        ->type_name("MODEL=NAME=PATH");
    command
        .add_option("--languages", options->languages,
                    "What a translation model translates, as NAME=FROM:TO (default: what its folder says); repeatable")
        ->allow_extra_args(false)
        ->type_name("NAME=FROM:TO");
    command
        .add_option("--load", options->load,
                    "When models are loaded: before the first request, or with each one's first")
        ->check(CLI::IsMember({"at-start", "on-demand"}))
        ->capture_default_str();
    command
        .add_option("--memory", options->server.model_options.memory,
                    "With --load on-demand: what weights and caches of the loaded models may take together, as 8G; for "
                    "another one, that goes which was used least recently (default: what the devices have)")
        ->transform(CLI::AsSizeValue(false))
        ->type_name("SIZE");
    add_access(command, *options);
    add_limits(command, *options);
    auto* const check =
        command.add_flag("--check", options->checks, "Say what would be loaded and what memory it takes, and end");
    command.add_flag("--json", options->json, "With --check: print JSON")->needs(check);
    command.add_flag("--json-logs", options->json_logs, "Log lines as JSON objects");
    options->weights.add(command);
    command.add_option("--context", options->server.model_options.context,
                       "Tokens of a language model's prompt and answer at most (default: the model's, at most 4096)");
    command
        .add_option("--sequences", options->server.model_options.sequences,
                    "Sequences that a language model decodes together")
        ->check(CLI::Range(1u, 64u))
        ->capture_default_str();
    command
        .add_option(
            "--cache-tokens", options->server.model_options.cache_tokens,
            "Tokens that a language model's cache holds in all; 0: as many as --sequences contexts have, at most 32768")
        ->capture_default_str();
    command
        .add_option("--prompt-lookup", options->server.model_options.prompt_lookup,
                    "Guess so many tokens at a time from what a request's prompt and answer have said before, and let "
                    "a language model check them together: the same texts, sooner where they repeat what they have "
                    "read; 0: none")
        ->check(CLI::Range(0u, 64u))
        ->capture_default_str();
    options->vad.add(command);
    options->cache.add(command);
    options->device.add_device(command);
    options->device.add_strict(command);
    options->device.add_dtype(command);
    command.footer(
        "Examples:\n"
        "  vkformer serve --model chat=qwen2.5-0.5b-instruct-q8_0.gguf\n"
        "  vkformer serve --model minilm=all-MiniLM-L6-v2 --model en-de=opus-mt-en-de --port 9000");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
