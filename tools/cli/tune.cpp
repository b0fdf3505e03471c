// SPDX-License-Identifier: MIT
/// vkformer tune: tries every shader variant on the shapes of a model, and keeps what was found.
#include <cstdio>
#include <set>

#include <nlohmann/json.hpp>

#include "core/platform/system.hpp"
#include "core/try.hpp"
#include "device.hpp"
#include "model_plans.hpp"
#include "tuning/ladder.hpp"
#include "tuning/trial_case.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;

struct TuneCommand {
    std::string device = "auto", dtype = "f32";
    ModelOption model;
    CacheOption cache;
    std::uint32_t batch = 1, beams = 0, length = 32, steps = 32;
    bool list = false, json = false;

    PlanOptions plans() const {
        return {.batch = batch,
                .beams = beams,
                .length = length,
                .steps = steps,
                .dtype = dtype == "f16" ? DType::f16 : DType::f32,
                .cache = cache.format()};
    }
};

Result<int> list(bool as_json) {
    if (as_json) {
        json object = json::object();
        for (const auto& [op, kernels] : vulkan::kernel_catalogue()) {
            if (kernels.size() < 2) continue;
            json& names = object[std::string(op)] = json::array();
            for (const vulkan::KernelTraits* kernel : kernels) names.push_back(kernel->name);
        }
        VKFORMER_CHECK(print_json(object));
        return kOk;
    }
    std::string out;
    for (const auto& [op, kernels] : vulkan::kernel_catalogue())
        if (kernels.size() > 1) out += std::string(op) + ": " + vulkan::names_of(kernels) + "\n";
    VKFORMER_CHECK(print(out));
    return kOk;
}

json as_json(const tuning::Trial& trial) {
    if (!trial.fault.empty())
        return {{"variant", trial.variant}, {"fault", trial.fault}, {"lacked_memory", trial.lacked_memory}};
    return {{"variant", trial.variant}, {"us", trial.us}, {"error", trial.error}, {"bound", trial.bound}};
}

json as_json(const std::string& key, const tuning::Verdict& verdict) {
    json trials = json::array();
    for (const tuning::Trial& trial : verdict.trials) trials.push_back(as_json(trial));
    return {{"case", key}, {"variant", verdict.variant}, {"trials", std::move(trials)}};
}

std::string as_text(const std::string& key, const tuning::Verdict& verdict) {
    std::string out = key + "\n";
    for (const tuning::Trial& trial : verdict.trials) {
        char line[160];
        if (trial.fault.empty())
            std::snprintf(line, sizeof line, "  %c %-12s %12.1f us   error %.1e of %.1e allowed\n",
                          trial.variant == verdict.variant ? '*' : ' ', trial.variant.c_str(), trial.us, trial.error,
                          trial.bound);
        else
            std::snprintf(line, sizeof line, "  - %-12s %s: %.110s\n", trial.variant.c_str(),
                          trial.lacked_memory ? "not tried" : "never used", trial.fault.c_str());
        out += line;
    }
    return out;
}

Result<int> run(const TuneCommand& command) {
    if (command.list) return list(command.json);
    if (command.device == "cpu")
        return Error{ErrorCode::InvalidArgument, "the CPU backend has no shader variants; choose a Vulkan device"};
    warn_of_cache_folder();
    VKFORMER_TRY(const auto folder, command.model.find());
    VKFORMER_TRY(const auto model, models::open_model(folder));
    const auto ladder = std::make_shared<tuning::Ladder>(
        tuning::LadderOptions{.folder = platform::cache_folder(),
                              .progress = [](const tuning::Progress& p) { show_progress(to_string(p)); },
                              .thorough = true});
    VKFORMER_TRY(const auto backend, vulkan::VulkanBackend::create(command.device));
    PlanOptions options = command.plans();
    options.fusions = &backend->fusions();
    VKFORMER_TRY(const auto plans, plans_of(model, options));
    const vulkan::Capabilities& device = backend->capabilities();
    for (const graph::Plan& plan : plans) VKFORMER_CHECK(ladder->choose(*backend, plan));

    std::set<std::string> keys;
    for (const graph::Plan& plan : plans)
        for (const graph::Node& node : plan.graph.nodes()) keys.insert(tuning::case_key(plan.graph, node, true));
    json verdicts = json::array(), not_kept = json::array();
    std::string text, unkept_text;
    for (const auto& [key, verdict] : ladder->file(device).verdicts()) {
        if (!keys.contains(key)) continue;
        verdicts.push_back(as_json(key, verdict));
        text += as_text(key, verdict);
    }
    for (const auto& [key, verdict] : ladder->given_up(device)) {
        not_kept.push_back(as_json(key, verdict));
        unkept_text += as_text(key, verdict);
    }
    if (!unkept_text.empty()) unkept_text = "not kept, for there was no memory to try all of it:\n" + unkept_text;
    tuning::VerdictFile& file = ladder->file(device);
    file.save();  // there may have been nothing to try
    const std::string failure = file.path().empty() ? platform::kFolderAdvice : file.failure();
    if (command.json) {
        if (!failure.empty()) std::fprintf(stderr, "vkformer: not kept: %s\n", printable(failure).c_str());
        VKFORMER_CHECK(print_json({{"device", device.name},
                                   {"driver", device.driver},
                                   {"model", folder.string()},
                                   {"file", failure.empty() ? json(file.path().string()) : json()},
                                   {"verdicts", verdicts},
                                   {"not_kept", not_kept}}));
    } else {
        const std::string kept = failure.empty() ? "kept in " + file.path().string() : "not kept: " + failure;
        VKFORMER_CHECK(print(device.name + "\n" + text + kept + "\n" + unkept_text));
    }
    return kOk;
}

}  // namespace

void add_tune(CLI::App& app, Action& action) {
    auto options = std::make_shared<TuneCommand>();
    CLI::App& command = *app.add_subcommand("tune", "Check and time every shader variant on the shapes of a model");
    options->model.add(command);
    command.add_option("-d,--device", options->device, "Device, as for the other commands")->capture_default_str();
    command.add_option("--dtype", options->dtype, "Storage of weights and activations")
        ->check(CLI::IsMember({"f32", "f16"}))
        ->capture_default_str();
    options->cache.add(command);
    command.add_option("--batch", options->batch, "Sequences")->check(CLI::Range(1u, 1024u))->capture_default_str();
    command.add_option("-b,--beams", options->beams, "Beams (default: what the model folder says)")
        ->check(CLI::Range(1u, graph::kMaxBeams));
    command.add_option("--length", options->length, "Tokens of the source or the prompt")
        ->check(CLI::Range(1u, 65536u))
        ->capture_default_str();
    command.add_option("--steps", options->steps, "Tokens to generate")
        ->check(CLI::Range(1u, 65536u))
        ->capture_default_str();
    command.add_flag("--list", options->list, "List the ops that have variants, and their names");
    command.add_flag("--json", options->json, "Print JSON");
    command.footer(
        "The other commands try what they meet for the first time, quickly and with sizes rounded up to powers of "
        "two;\n"
        "this one tries the very shapes of the model, longer. The verdicts are kept per device, driver and build of\n"
        "the shaders; a variant that is wrong, or that the driver refuses, is never used.\n"
        "Examples:\n"
        "  vkformer tune --model opus-mt-en-de --dtype f16 --batch 8\n"
        "  vkformer tune --list");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
