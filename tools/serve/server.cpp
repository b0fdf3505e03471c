// SPDX-License-Identifier: MIT
#include "serve/server.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "serve/chat_routes.hpp"
#include "serve/encoder_routes.hpp"
#include "serve/listener.hpp"
#include "serve/messages_routes.hpp"
#include "serve/responses_routes.hpp"
#include "serve/router.hpp"
#include "serve/service_routes.hpp"
#include "serve/speech_routes.hpp"
#include "serve/token_routes.hpp"
#include "serve/translation_routes.hpp"
#include "serve/work_pool.hpp"
#include "serve/work_thread.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kWorkers = 3;  // that read bodies: what each may be bounds what they hold

std::vector<Metrics::Family> families() {
    using enum Metrics::Family::Kind;
    const std::vector<double> seconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
    return {
        {"vkformer_http_requests_total", "Requests that were answered, by route and status", counter},
        {"vkformer_http_request_seconds", "From a whole request to the end of its reply", histogram, seconds},
        {"vkformer_model_loaded", "1 for each model that is ready", gauge},
        {"vkformer_queue_requests", "Requests that wait for a model or are at work", gauge},
        {"vkformer_batch_inputs",
         "Texts, pairs or files that one call of a model had",
         histogram,
         {1, 2, 4, 8, 16, 32}},
        {"vkformer_running_sequences", "Sequences that a language model decodes now", gauge},
        {"vkformer_decode_steps_total", "Steps of a language model, each a token for every sequence in it", counter},
        {"vkformer_guessed_tokens_total", "Tokens that --prompt-lookup guessed and steps checked", counter},
        {"vkformer_accepted_tokens_total", "Guessed tokens that were right", counter},
        {"vkformer_preempted_total", "Times that a sequence gave its pages of the cache to others", counter},
        {"vkformer_cache_pages", "Pages of 64 tokens in a language model's cache", gauge},
        {"vkformer_cache_window_pages", "Those of layers with a window where these have pages of their own", gauge},
        {"vkformer_prompt_tokens_total", "Tokens of prompts, those from the cache too", counter},
        {"vkformer_cached_tokens_total", "Tokens of prompts that were in the cache", counter},
        {"vkformer_generated_tokens_total", "Tokens that were written", counter},
        {"vkformer_first_token_seconds", "From a request to its first token, the waiting included", histogram, seconds},
        {"vkformer_next_token_seconds", "From a token to the next one of its sequence", histogram, seconds},
        {"vkformer_resident_bytes", "Memory of this process on the host", gauge},
        {"vkformer_model_memory_bytes",
         "Memory that a model has on its device: weights, caches of keys and values, and other things", gauge},
        {"vkformer_device_memory_used_bytes", "Memory that all models have on a device", gauge},
        {"vkformer_device_memory_budget_bytes", "What that may come to, by what the driver says is left", gauge},
    };
}

Result<void> check_exposure(const ServerOptions& options) {
    if (options.models.empty()) return Error{ErrorCode::InvalidArgument, "there is no model to serve"};
    if (!is_address(options.address))
        return Error{ErrorCode::InvalidArgument, "\"" + options.address + "\" is no IPv4 or IPv6 address to listen at"};
    if (options.access.keys.empty() && !is_loopback(options.address))
        return Error{ErrorCode::InvalidArgument,
                     options.address + " can be reached from other machines: that needs a key"};
    return {};
}

std::string megabytes(const json& bytes) {
    return std::to_string((bytes.get<std::uint64_t>() + 500'000) / 1'000'000) + " MB";
}

Result<json> describe_entry(const ModelSet::Entry& entry, const ModelOptions& options) {
    json model = {{"name", entry.spec.name}, {"kind", to_string(entry.kind)}, {"weights_bytes", entry.bytes}};
    if (entry.kind == ModelKind::language) {
        VKFORMER_TRY(const auto cache, TextModel::cache_of(entry.spec.path, options));
        model["cache_bytes"] = cache.bytes;
        model["cache_tokens"] = cache.tokens;
        model["context"] = cache.context;
        model["most_step_bytes"] = cache.most_step_bytes;
    }
    if (entry.kind == ModelKind::translation) {
        VKFORMER_TRY(model["most_cache_bytes"], TranslationModel::most_cache_bytes(entry.spec.path, options));
    }
    model["adapters"] = names_of(entry.spec.adapters);
    return model;
}

std::string as_text(const json& described) {
    std::string text;
    const auto number = [](const json& value) { return std::to_string(value.get<std::uint64_t>()); };
    for (const json& model : described["models"]) {
        text += model["name"].get<std::string>() + ": " + model["kind"].get<std::string>() + ", weights of " +
                megabytes(model["weights_bytes"]);
        if (model.contains("cache_bytes"))
            text += ", a cache of " + megabytes(model["cache_bytes"]) + " for " + number(model["cache_tokens"]) +
                    " tokens, of which a request has at most " + number(model["context"]) +
                    ", programs of steps of at most " + megabytes(model["most_step_bytes"]);
        if (model.contains("most_cache_bytes")) text += ", caches of at most " + megabytes(model["most_cache_bytes"]);
        for (const json& adapter : model["adapters"]) text += "; " + adapter.get<std::string>();
        text += "\n";
    }
    if (described["on_demand"].get<bool>())
        text += "loaded on demand" +
                (described.contains("memory_bytes") ? ", within " + megabytes(described["memory_bytes"]) : "") + "\n";
    return text;
}

}  // namespace

Result<std::string> describe_server(const ServerOptions& options, bool as_json) {
    VKFORMER_CHECK(check_exposure(options));
    Log log(options.log_style);
    Metrics metrics(families());
    VKFORMER_TRY(const ModelSet models, ModelSet::find(options.models, options.model_options, metrics, log));
    json described = {{"models", json::array()}, {"on_demand", options.model_options.on_demand}};
    if (options.model_options.memory > 0) described["memory_bytes"] = options.model_options.memory;
    for (const auto& entry : models.entries()) {
        VKFORMER_TRY(json model, describe_entry(*entry, options.model_options));
        described["models"].push_back(std::move(model));
    }
    if (!as_json) return as_text(described);
    return described.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<void> run_server(const ServerOptions& options) {
    VKFORMER_CHECK(check_exposure(options));
    Log log(options.log_style);
    Metrics metrics(families());
    std::atomic<bool> is_stopping{false};
    WorkPool workers(kWorkers);
    Router router(options.access, options.limits, metrics, log, workers);
    VKFORMER_TRY(Listener listener, Listener::open(options.address, options.port, options.limits, router));
    WorkThread writers;
    // After the listener, whose sockets the requests at work hold.
    VKFORMER_TRY(ModelSet models, ModelSet::find(options.models, options.model_options, metrics, log));
    router.add(service_routes(models, metrics, is_stopping));
    router.add(chat_routes(models, options.limits, writers));
    router.add(responses_routes(models, options.limits));
    router.add(messages_routes(models, options.limits));
    router.add(token_routes(models, options.limits));
    router.add(encoder_routes(models, options.limits));
    router.add(translation_routes(models, options.access, options.limits));
    router.add(speech_routes(models, options.limits));
    router.add(openapi_route(router));
    log.say("listening",
            {{"address", options.address}, {"port", listener.port()}, {"keys", options.access.keys.size()}});

    Result<void> loaded;
    std::thread loader([&] {
        loaded = models.run([&] { log.say("ready"); });
        if (!loaded && !is_stopping) listener.stop();
    });
    listener.run([&] {
        is_stopping = true;
        log.say("stopping");
        models.stop();
    });
    loader.join();
    workers.finish();  // while there are the models
    writers.finish();
    return loaded;
}

}  // namespace vkformer::serve
