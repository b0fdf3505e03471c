// SPDX-License-Identifier: MIT
#include "serve/service_routes.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "core/platform/process.hpp"
#include "core/platform/system.hpp"
#include "serve/page.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

/// "2026-01-31T12:00:00Z"
std::string iso_time(std::time_t seconds) {
    const std::tm parts = platform::utc_time(seconds);
    char text[40];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

/// With the fields of both OpenAI's and Anthropic's lists: either's clients pass over the other's.
json describe_model(const ModelSet& models, const ModelSet::Entry& entry, const std::string& name,
                    std::time_t created) {
    const ModelState state = models.state(entry);
    json model = {{"id", name},
                  {"object", "model"},
                  {"created", created},
                  {"owned_by", "vkformer"},
                  {"type", "model"},
                  {"display_name", name},
                  {"created_at", iso_time(created)},
                  {"kind", to_string(entry.kind)},
                  {"state", to_string(state)},
                  {"ready", state == ModelState::ready}};
    if (name != entry.spec.name) model["parent"] = entry.spec.name;  // an adapter, as vLLM lists them
    return model;
}

void list_models(const ModelSet& models, std::time_t created, const Call& call) {
    json data = json::array();
    for (const auto& entry : models.entries())
        for (const std::string& name : entry->spec.names())
            data.push_back(describe_model(models, *entry, name, created));
    const json first = data.empty() ? json() : data.front()["id"], last = data.empty() ? json() : data.back()["id"];
    call.reply({{"object", "list"}, {"data", data}, {"first_id", first}, {"last_id", last}, {"has_more", false}});
}

void show_model(const ModelSet& models, std::time_t created, std::string_view path, const Call& call) {
    const std::string name = call.path_behind(path);
    for (const auto& entry : models.entries())
        if (std::ranges::count(entry->spec.names(), name) > 0)
            return call.reply(describe_model(models, *entry, name, created));
    throw Refusal(404, "there is no such model here; /v1/models lists those that there are", "model",
                  "model_not_found");
}

std::uint64_t sum_of(const DeviceMemory& memory) { return memory.weights + memory.caches + memory.other; }

/// What each model has of its device, and of each device what all of them have and may have.
void show_memory(const ModelSet& models, Metrics& metrics) {
    struct Device {
        std::uint64_t used = 0;
        std::optional<std::uint64_t> left;
    };
    std::map<std::string, Device> devices;
    for (const auto& entry : models.entries()) {
        const ModelSet::Held held = models.hold(*entry);
        if (!held) continue;
        const auto [name, memory] =
            std::visit([](const auto& model) { return std::pair(model->device(), model->memory()); }, *held);
        const auto show = [&](const char* kind, std::uint64_t bytes) {
            metrics.set("vkformer_model_memory_bytes", {{"model", entry->spec.name}, {"kind", kind}},
                        static_cast<double>(bytes));
        };
        show("weights", memory.weights);
        show("caches", memory.caches);
        show("other", memory.other);
        Device& device = devices[name];
        device.used += sum_of(memory);
        if (!memory.budget) continue;
        const std::uint64_t left = *memory.budget - std::min(*memory.budget, sum_of(memory));
        device.left = std::min(device.left.value_or(left), left);
    }
    for (const auto& [name, device] : devices) {
        const Labels labels = {{"device", name}};
        metrics.set("vkformer_device_memory_used_bytes", labels, static_cast<double>(device.used));
        if (device.left)
            metrics.set("vkformer_device_memory_budget_bytes", labels, static_cast<double>(device.used + *device.left));
    }
}

void show_metrics(const ModelSet& models, Metrics& metrics, const Call& call) {
    static std::mutex one;  // at a time: gauges of models that are not there any more are left out
    const std::lock_guard lock(one);
    for (const char* name : {"vkformer_queue_requests", "vkformer_running_sequences", "vkformer_cache_pages",
                             "vkformer_cache_window_pages", "vkformer_model_memory_bytes",
                             "vkformer_device_memory_used_bytes", "vkformer_device_memory_budget_bytes"})
        metrics.clear(name);
    metrics.set("vkformer_resident_bytes", {}, static_cast<double>(platform::resident_bytes()));
    for (const auto& entry : models.entries()) {
        if (const ModelSet::Held held = models.hold(*entry))
            std::visit([&](const auto& model) { model->show(metrics); }, *held);
    }
    show_memory(models, metrics);
    call.exchange().reply({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics.text()});
}

void health(const ModelSet& models, const std::atomic<bool>& is_stopping, const Call& call) {
    const ModelState state = models.state();
    const std::string_view told = state == ModelState::ready ? "ok" : to_string(state);
    call.reply({{"status", is_stopping ? "stopping" : told}}, told == "ok" && !is_stopping ? 200 : 503);
}

Route page_route(const PageFile& file) {
    return {
        .method = "GET",
        .path = file.path,
        .needs_key = false,
        .summary = "A file of the page",
        .gives = {file.content_type},
        .answer = [&file](const Call& call) {
            call.exchange().reply(
                {.content_type = std::string(file.content_type),
                 .body = std::string(file.text),
                 .headers = {{"content-security-policy",
                              "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
                              "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                             {"x-content-type-options", "nosniff"},
                             {"referrer-policy", "no-referrer"},
                             {"cross-origin-opener-policy", "same-origin"},
                             {"cross-origin-resource-policy", "same-origin"},
                             {"cache-control", "no-cache"}}});
        }};
}

json content_of(const std::vector<std::string_view>& types) {
    json content = json::object();
    for (const std::string_view type : types) content[std::string(type)] = {{"schema", json::object()}};
    return content;
}

json describe(const Route& route) {
    json operation = {{"summary", route.summary},
                      {"responses",
                       {{"200", {{"description", "The answer"}, {"content", content_of(route.gives)}}},
                        {"default",
                         {{"description", "What is wrong with the request, or the server"},
                          {"content", content_of({"application/json"})}}}}}};
    if (route.body_bytes > 0) operation["requestBody"] = {{"required", true}, {"content", content_of(route.takes)}};
    if (route.is_prefix)
        operation["parameters"] = {
            {{"name", "name"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}};
    if (!route.needs_key) operation["security"] = json::array();
    return operation;
}

}  // namespace

std::vector<Route> service_routes(const ModelSet& models, Metrics& metrics, const std::atomic<bool>& is_stopping) {
    static constexpr std::string_view kModels = "/v1/models/";
    const std::time_t created = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::vector<Route> routes = {
        {.method = "GET",
         .path = "/v1/models",
         .summary = "The models that there are",
         .answer = [&models, created](const Call& call) { list_models(models, created, call); }},
        {.method = "GET",
         .path = kModels,
         .is_prefix = true,
         .summary = "One model",
         .answer = [&models, created](const Call& call) { show_model(models, created, kModels, call); }},
        {.method = "GET",
         .path = "/health",
         .needs_key = false,
         .summary = "Whether all models are loaded: 200, or 503",
         .answer = [&models, &is_stopping](const Call& call) { health(models, is_stopping, call); }},
        {.method = "GET",
         .path = "/metrics",
         .summary = "Counts and times for Prometheus",
         .gives = {"text/plain"},
         .answer = [&models, &metrics](const Call& call) { show_metrics(models, metrics, call); }},
    };
    for (const PageFile& file : page_files()) routes.push_back(page_route(file));
    return routes;
}

Route openapi_route(const Router& router) {
    return {.method = "GET",
            .path = "/openapi.json",
            .needs_key = false,
            .summary = "This description",
            .answer = [&router](const Call& call) {
                json paths = json::object();
                for (const Route& route : router.routes()) {
                    std::string method(route.method);
                    for (char& c : method) c = static_cast<char>(c + 32);
                    paths[std::string(route.path) + (route.is_prefix ? "{name}" : "")][method] = describe(route);
                }
                call.reply({{"openapi", "3.1.0"},
                            {"info", {{"title", "vkformer serve"}, {"version", VKFORMER_VERSION}}},
                            {"components", {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}},
                            {"security", {{{"key", json::array()}}}},
                            {"paths", std::move(paths)}});
            }};
}

}  // namespace vkformer::serve
