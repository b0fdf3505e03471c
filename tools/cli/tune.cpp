// SPDX-License-Identifier: MIT
/// vkformer tune: tries every shader variant on the shapes of a model, and keeps what was found.
#include <cstdio>
#include <set>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "decoding/beam_session.hpp"
#include "decoding/decoder_steps.hpp"
#include "decoding/speech_steps.hpp"
#include "decoding/steps.hpp"
#include "device.hpp"
#include "models/generation_config.hpp"
#include "models/load.hpp"
#include "models/model_type.hpp"
#include "passes.hpp"
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

    DType dtype_value() const { return dtype == "f16" ? DType::f16 : DType::f32; }
};

std::string joined(const vulkan::VariantNames& names) {
    std::string text;
    for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
    return text;
}

Result<int> list(bool as_json) {
    if (as_json) {
        json object = json::object();
        for (const auto& [op, names] : vulkan::variant_catalogue()) object[std::string(op)] = names;
        VKFORMER_CHECK(print(object.dump(2) + "\n"));
        return kOk;
    }
    std::string out;
    for (const auto& [op, names] : vulkan::variant_catalogue()) out += std::string(op) + ": " + joined(names) + "\n";
    VKFORMER_CHECK(print(out));
    return kOk;
}

/// The programs of a generation.
Result<std::vector<graph::Plan>> plans_of(const models::EncoderDecoder& model, models::GenerationConfig generation,
                                          const TuneCommand& command) {
    const auto limits = model.limits();
    if (command.beams > 0) generation.beams = command.beams;
    generation.max_steps = static_cast<std::uint32_t>(std::min<std::uint64_t>(command.steps, limits.target_len));
    const auto source_len = static_cast<std::uint32_t>(std::min<std::uint64_t>(command.length, limits.source_len));
    const models::DecodeLayout layout = {.batch = command.batch,
                                         .beams = generation.beams,
                                         .source_len = source_len,
                                         .max_steps = generation.max_steps,
                                         .dtype = command.dtype_value()};
    VKFORMER_TRY(auto encoder, decoding::encoder_graph(model, layout));
    VKFORMER_TRY(auto step, decoding::step_graph(model, layout, generation));
    std::vector<graph::Plan> plans;
    plans.push_back(graph::make_plan(std::move(encoder.graph)));
    plans.push_back(graph::make_plan(std::move(step.graph)));
    return plans;
}

/// The chunks of a prompt and the step of a language model; --length and --steps give the context.
Result<std::vector<graph::Plan>> plans_of(const models::Decoder& model, const TuneCommand& command) {
    const decoding::DecoderSessionOptions options = {
        .rows = command.batch,
        .context = std::min(command.length + command.steps, model.config().max_positions),
        .dtype = command.dtype_value(),
        .weights = models::WeightFormat::as_filed,
        .cache = command.cache.format()};
    std::vector<graph::Plan> plans;
    const std::uint32_t beams = command.beams > 1 ? command.beams : 0;
    VKFORMER_TRY(auto chunk,
                 decoding::chunk_graph(model, options, std::min({command.length, options.chunk, options.context}),
                                       false, beams));
    plans.push_back(graph::make_plan(std::move(chunk.graph)));
    if (beams > 0) {
        VKFORMER_TRY(auto search, decoding::beam_step_graph(model, options, {.beams = beams}, 0, 0));
        plans.push_back(graph::make_plan(std::move(search.graph)));
        return plans;
    }
    VKFORMER_TRY(auto step, decoding::step_graph(model, options));
    plans.push_back(graph::make_plan(std::move(step.graph)));
    return plans;
}

/// A whole window of sound, and a step of the decoder with the temperature that goes first.
Result<std::vector<graph::Plan>> speech_plans_of(const models::EncoderDecoder& model, const TuneCommand& command) {
    const auto limits = model.limits();
    const models::DecodeLayout layout = {.batch = command.batch,
                                         .source_len = static_cast<std::uint32_t>(limits.source_len),
                                         .max_steps = static_cast<std::uint32_t>(limits.target_len),
                                         .dtype = command.dtype_value()};
    decoding::SpeechRules rules;
    rules.generation.max_steps = layout.max_steps;
    VKFORMER_TRY(auto encoder, decoding::encoder_graph(model, layout));
    VKFORMER_TRY(auto step, decoding::speech_step_graph(model, layout, rules, 0));
    std::vector<graph::Plan> plans;
    plans.push_back(graph::make_plan(std::move(encoder.graph)));
    plans.push_back(graph::make_plan(std::move(step.graph)));
    return plans;
}

Result<std::vector<graph::Plan>> plans_of(const std::filesystem::path& path, const TuneCommand& command) {
    VKFORMER_TRY(const bool has_one_pass, is_one_pass(path));
    if (has_one_pass && command.beams > 1)
        return Error{ErrorCode::InvalidArgument, "the model answers in one pass: leave out --beams"};
    if (has_one_pass) {
        VKFORMER_TRY(
            auto passes,
            passes_of(path, {.batch = command.batch, .length = command.length, .dtype = command.dtype_value()}));
        std::vector<graph::Plan> plans;
        for (Pass& pass : passes) plans.push_back(graph::make_plan(std::move(pass.graph)));
        return plans;
    }
    VKFORMER_TRY(const bool is_decoder, models::is_decoder(path));
    if (is_decoder) {
        VKFORMER_TRY(const auto model, models::load_decoder(path));
        return plans_of(model, command);
    }
    VKFORMER_TRY(const bool hears, models::is_speech_model(path));
    if (hears) {
        VKFORMER_TRY(const auto speech, models::load_speech_model(path));
        return speech_plans_of(*speech.model, command);
    }
    VKFORMER_TRY(const auto model, models::load_encoder_decoder(path));
    VKFORMER_TRY(const auto generation, models::load_generation_config(path, model->limits().target_len));
    return plans_of(*model, generation, command);
}

json as_json(const tuning::Trial& trial) {
    if (!trial.fault.empty()) return {{"variant", trial.variant}, {"fault", trial.fault}};
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
            std::snprintf(line, sizeof line, "  - %-12s never used: %.110s\n", trial.variant.c_str(),
                          trial.fault.c_str());
        out += line;
    }
    return out;
}

Result<int> run(const TuneCommand& command) {
    if (command.list) return list(command.json);
    if (command.device == "cpu")
        return Error{ErrorCode::InvalidArgument, "the CPU backend has no shader variants; choose a Vulkan device"};
    VKFORMER_TRY(const auto folder, command.model.find());
    VKFORMER_TRY(const auto plans, plans_of(folder, command));

    const auto ladder = std::make_shared<tuning::Ladder>(
        tuning::LadderOptions{.folder = vulkan::default_cache_folder(),
                              .progress = [](const tuning::Progress& p) { show_progress(to_string(p)); },
                              .thorough = true});
    VKFORMER_TRY(const auto backend, vulkan::VulkanBackend::create(command.device));
    const vulkan::Capabilities& device = backend->capabilities();
    for (const graph::Plan& plan : plans) VKFORMER_CHECK(ladder->choose(*backend, plan));

    std::set<std::string> keys;
    for (const graph::Plan& plan : plans)
        for (const graph::Node& node : plan.graph.nodes()) keys.insert(tuning::case_key(plan.graph, node, true));
    json verdicts = json::array();
    std::string text;
    for (const auto& [key, verdict] : ladder->file(device).verdicts()) {
        if (!keys.contains(key)) continue;
        verdicts.push_back(as_json(key, verdict));
        text += as_text(key, verdict);
    }
    if (command.json) {
        VKFORMER_CHECK(print(json{{"device", device.name},
                                  {"driver", device.driver},
                                  {"model", folder.string()},
                                  {"file", ladder->file(device).path().string()},
                                  {"verdicts", verdicts}}
                                 .dump(2, ' ', false, json::error_handler_t::replace) +
                             "\n"));
    } else {
        VKFORMER_CHECK(print(device.name + "\n" + text + "kept in " + ladder->file(device).path().string() + "\n"));
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
