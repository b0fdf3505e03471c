// SPDX-License-Identifier: MIT
#include "serve/server.hpp"

#include <atomic>
#include <optional>
#include <thread>

#include "core/try.hpp"
#include "serve/encoder_routes.hpp"
#include "serve/listener.hpp"
#include "serve/router.hpp"
#include "serve/service_routes.hpp"
#include "serve/speech_routes.hpp"
#include "serve/translation_routes.hpp"

namespace vkformer::serve {
namespace {

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
        {"vkformer_resident_bytes", "Memory of this process on the host", gauge},
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

}  // namespace

Result<void> run_server(const ServerOptions& options) {
    VKFORMER_CHECK(check_exposure(options));
    Log log(options.log_style);
    Metrics metrics(families());
    std::atomic<bool> is_stopping{false};
    Router router(options.access, options.limits, metrics, log);
    VKFORMER_TRY(Listener listener, Listener::open(options.address, options.port, options.limits, router));
    // After the listener, whose sockets the requests at work hold.
    VKFORMER_TRY(ModelSet models, ModelSet::find(options.models, options.model_options, metrics, log));
    router.add(service_routes(models, metrics, is_stopping));
    router.add(encoder_routes(models, options.limits));
    router.add(translation_routes(models, options.access, options.limits));
    router.add(speech_routes(models, options.limits));
    router.add(openapi_route(router));
    log.say("listening",
            {{"address", options.address}, {"port", listener.port()}, {"keys", options.access.keys.size()}});

    Result<void> loaded;
    std::thread loader([&] {
        loaded = models.load();
        if (loaded)
            log.say("ready");
        else
            listener.stop();
    });
    listener.run([&] {
        is_stopping = true;
        log.say("stopping");
    });
    loader.join();
    return loaded;
}

}  // namespace vkformer::serve
