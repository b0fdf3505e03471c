// SPDX-License-Identifier: MIT
/// vkformer info: the devices, what they can do, and which shaders a model would use on them.
#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include <vulkan/vulkan.h>
#include <nlohmann/json.hpp>

#include "api/default_workloads.hpp"
#include "api/open_backend.hpp"
#include "cli.hpp"
#include "core/platform/system.hpp"
#include "core/try.hpp"
#include "hints.hpp"
#include "model_plans.hpp"
#include "tuning/verdicts.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/cooperative_matrix.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;
using vulkan::Capabilities;

struct InfoCommand {
    ModelOption model;
    bool json = false;
};

/// Shaders by op.
using Variants = std::map<std::string, std::set<std::string>>;

/// A model's programs by the dtype of their activations.
using PlansByDtype = std::map<DType, std::vector<graph::Plan>>;

/// What the kernels would choose on a device; nothing runs.
Result<Variants> variants_on(const Capabilities& device, const std::vector<graph::Plan>& plans) {
    Variants variants;
    for (const graph::Plan& plan : plans) {
        const vulkan::KernelContext context = {.graph = plan.graph, .device = device};
        for (const graph::Node& node : plan.graph.nodes()) {
            VKFORMER_TRY(const auto planned, vulkan::plan_dispatches(node.op, context));
            for (const vulkan::Dispatch& dispatch : planned.dispatches)
                variants[std::string(graph::op_name(node.op))].insert(dispatch.module.name());
        }
    }
    return variants;
}

std::string version_text(std::uint32_t version) {
    return std::to_string(VK_API_VERSION_MAJOR(version)) + "." + std::to_string(VK_API_VERSION_MINOR(version)) + "." +
           std::to_string(VK_API_VERSION_PATCH(version));
}

json features(const Capabilities& c) {
    return {{"unified_memory", c.unified_memory},
            {"storage16", c.storage16},
            {"float16", c.float16},
            {"int64", c.int64},
            {"integer_dot", c.integer_dot},
            {"subgroup_arithmetic", c.subgroup_arithmetic},
            {"subgroup_shuffle", c.subgroup_shuffle},
            {"subgroup_size_control", c.subgroup_size_control},
            {"memory_model", c.memory_model},
            {"cooperative_matrix", c.cooperative_matrix},
            {"cooperative_matrix2", c.cooperative_matrix2}};
}

json cooperative_matrices(const Capabilities& c) {
    json list = json::array();
    for (const vulkan::CooperativeMatrix& m : c.cooperative_matrices)
        list.push_back({{"m", m.m},
                        {"n", m.n},
                        {"k", m.k},
                        {"a", vulkan::component_name(m.a)},
                        {"b", vulkan::component_name(m.b)},
                        {"c", vulkan::component_name(m.c)},
                        {"result", vulkan::component_name(m.result)}});
    return list;
}

json cooperative_matrix2(const Capabilities& c) {
    const vulkan::CooperativeMatrix2& parts = c.cooperative_matrix2_parts;
    return {{"reductions", parts.reductions},
            {"conversions", parts.conversions},
            {"per_element_operations", parts.per_element_operations}};
}

json limits(const Capabilities& c) {
    return {{"subgroup_size", c.subgroup_size},
            {"max_workgroup_invocations", c.max_workgroup_invocations},
            {"max_shared_memory_bytes", c.max_shared_memory_bytes},
            {"max_workgroup_count", c.max_workgroup_count},
            {"max_storage_buffer_range", c.max_storage_buffer_range},
            {"max_allocation_bytes", c.max_allocation_bytes},
            {"storage_buffer_alignment", c.storage_buffer_alignment},
            {"timestamp_valid_bits", c.timestamp_valid_bits},
            {"timestamp_period_ns", c.timestamp_period_ns}};
}

json describe(const vulkan::DeviceInfo& info) {
    const Capabilities& c = info.capabilities;
    json device = {{"index", info.index},
                   {"name", c.name},
                   {"type", c.type},
                   {"driver", c.driver},
                   {"uuid", c.uuid},
                   {"vulkan", version_text(c.api_version)},
                   {"usable", info.unusable.empty()},
                   {"features", features(c)},
                   {"limits", limits(c)}};
    if (c.cooperative_matrix) device["cooperative_matrices"] = cooperative_matrices(c);
    if (c.cooperative_matrix2) device["cooperative_matrix2"] = cooperative_matrix2(c);
    if (!info.unusable.empty()) device["unusable"] = info.unusable;
    return device;
}

json as_json(const Variants& variants) {
    json object = json::object();
    for (const auto& [op, shaders] : variants) object[op] = shaders;
    return object;
}

std::string joined(const auto& words, std::string_view separator) {
    std::string text;
    for (const auto& word : words) text += (text.empty() ? "" : std::string(separator)) + std::string(word);
    return text;
}

std::string as_text(const json& device) {
    const auto text = [](const json& value) { return value.get<std::string>(); };
    std::string out = std::to_string(device["index"].get<int>()) + "  " + text(device["name"]) + "\n";
    out += "   type " + text(device["type"]) + ", driver " + text(device["driver"]) + ", Vulkan " +
           text(device["vulkan"]) + "\n";
    out += "   UUID " + text(device["uuid"]) + "\n";
    if (device.contains("unusable")) out += "   cannot be used: " + text(device["unusable"]) + "\n";
    std::vector<std::string> has, lacks;
    for (const auto& [name, value] : device["features"].items()) (value.get<bool>() ? has : lacks).push_back(name);
    out += "   has    " + joined(has, ", ") + "\n   lacks  " + joined(lacks, ", ") + "\n   limits";
    for (const auto& [name, value] : device["limits"].items())
        out += (out.ends_with("limits") ? " " : ", ") + name + " " + value.dump();
    out += "\n";
    for (const json& matrix : device.value("cooperative_matrices", json::array()))
        out += "   matrix " + matrix["m"].dump() + " x " + matrix["n"].dump() + " x " + matrix["k"].dump() + ", " +
               text(matrix["a"]) + " x " + text(matrix["b"]) + " + " + text(matrix["c"]) + " -> " +
               text(matrix["result"]) + "\n";
    if (const json verdicts = device.value("verdicts", json::object()); !verdicts.empty()) {
        out += "   measured, " + std::to_string(verdicts.size()) + " cases (" + text(device["verdicts_file"]) + ")\n";
        for (const auto& [key, variant] : verdicts.items()) out += "     " + key + ": " + text(variant) + "\n";
    }
    const json variants = device.value("variants", json::object());
    for (const auto& [dtype, ops] : variants.items()) {
        out += "   shaders for " + dtype + " where nothing was measured\n";
        for (const auto& [op, shaders] : ops.items())
            out += "     " + op + std::string(op.size() < 21 ? 21 - op.size() : 1, ' ') +
                   joined(shaders.get<std::vector<std::string>>(), ", ") + "\n";
    }
    const json errors = device.value("variant_errors", json::object());
    for (const auto& [dtype, error] : errors.items()) out += "   cannot run in " + dtype + ": " + text(error) + "\n";
    return out;
}

/// Without a model the devices are still worth a look, unless one was asked for.
Result<std::optional<models::OpenedModel>> open_model(const ModelOption& option, json& report) {
    const auto path = option.find();
    if (!path && option.folder.empty()) return std::optional<models::OpenedModel>();
    if (!path) return path.error();
    VKFORMER_TRY(auto model, models::open_model(*path));
    report["model"] = path->string();
    return std::optional(std::move(model));
}

Result<PlansByDtype> plans_by_dtype(const models::OpenedModel& model) {
    PlansByDtype plans;
    for (const DType dtype : {DType::f32, DType::f16}) {
        VKFORMER_TRY(plans[dtype], plans_of(model, {.length = 16, .steps = 16, .dtype = dtype, .every_program = true}));
    }
    return plans;
}

/// What was tried on the device by earlier commands: the choice of the shaders above may be another one then.
void add_verdicts(json& device, const Capabilities& capabilities) {
    const tuning::VerdictFile file(platform::cache_folder(), capabilities);
    json verdicts = json::object();
    for (const auto& [key, verdict] : file.verdicts()) verdicts[key] = verdict.variant;
    device["verdicts"] = std::move(verdicts);
    device["verdicts_file"] = file.path().string();
}

void add_variants(json& device, const Capabilities& capabilities, const PlansByDtype& plans_by_dtype) {
    for (const auto& [dtype, plans] : plans_by_dtype) {
        const auto variants = variants_on(capabilities, plans);
        const std::string name(to_string(dtype));
        if (variants)
            device["variants"][name] = as_json(*variants);
        else
            device["variant_errors"][name] = variants.error().message;
    }
}

/// What was measured of the model on a Vulkan device that is a CPU and on the CPU backend, if it was.
Result<std::optional<tuning::BackendTimes>> measured_times(const models::OpenedModel& model, DType dtype,
                                                           const Capabilities& device) {
    VKFORMER_TRY(const auto workloads, api::default_workloads(model, dtype));
    return tuning::known_times(workloads, tuning::VerdictFile(platform::cache_folder(), device));
}

std::string why(api::AutoChoice choice, const vulkan::DeviceInfo& best,
                const std::optional<tuning::BackendTimes>& times) {
    const std::string device = "device " + std::to_string(best.index);
    if (choice == api::AutoChoice::unmeasured)
        return "not measured yet: the first command that runs the model measures the CPU backend and " + device +
               ", which run on the same processor, and takes the faster one";
    if (!times) return "it is a GPU, the first of its kind (" + best.capabilities.type + ")";
    char text[128];
    std::snprintf(text, sizeof text, "measured %.2f ms on the CPU backend, %.2f ms on %s", times->cpu_us / 1e3,
                  times->vulkan_us / 1e3, device.c_str());
    return text;
}

/// What "auto" takes for the model with activations of this dtype: "takes" (an index, "cpu", null where it is not known yet), "why", and
/// what was measured.
Result<json> auto_choice(const vulkan::DeviceInfo& best, const models::OpenedModel& model, DType dtype) {
    std::optional<tuning::BackendTimes> times;
    VKFORMER_TRY(const auto choice, api::choose_auto(best.capabilities, [&] {
                     auto measured = measured_times(model, dtype, best.capabilities);
                     if (measured) times = *measured;
                     return measured;
                 }));
    json answer = {{"takes", nullptr}, {"why", why(choice, best, times)}};
    if (choice == api::AutoChoice::cpu) answer["takes"] = "cpu";
    if (choice == api::AutoChoice::vulkan) answer["takes"] = best.index;
    if (times) answer["cpu_us"] = times->cpu_us, answer["vulkan_us"] = times->vulkan_us;
    return answer;
}

/// The best Vulkan device ("device"), and by dtype what is taken for the model. A model that cannot be loaded in one is an error there
/// already.
Result<json> auto_choices(const std::vector<vulkan::DeviceInfo>& devices,
                          const std::optional<models::OpenedModel>& model) {
    VKFORMER_TRY(const std::uint32_t best, vulkan::choose_device(devices, "auto"));
    json choices = {{"device", best}};
    if (!model) return choices;
    for (const DType dtype : {DType::f32, DType::f16}) {
        VKFORMER_TRY(choices[std::string(to_string(dtype))], auto_choice(devices[best], *model, dtype));
    }
    return choices;
}

std::string auto_text(const json& choices) {
    const std::string device = choices["device"].dump();
    std::string out = "--device auto\n";
    for (const char* const dtype : {"f32", "f16"}) {
        if (!choices.contains(dtype)) continue;
        const json& taken = choices[dtype]["takes"];
        const std::string name = taken.is_null() ? "cpu or " + device : taken.is_string() ? "cpu" : taken.dump();
        out += "   takes " + name + " for this model with --dtype " + dtype + ": " +
               choices[dtype]["why"].get<std::string>() + "\n";
    }
    return out + "   takes " + device +
           " for what looks at Vulkan: validate, tune, bench but bench model, --plain, --variant\n";
}

Result<int> run(const InfoCommand& command) {
    json report = {{"version", VKFORMER_VERSION}, {"devices", json::array()}};
    VKFORMER_TRY(const auto model, open_model(command.model, report));
    PlansByDtype plans;
    if (model) {
        VKFORMER_TRY(plans, plans_by_dtype(*model));
    }
    const auto devices = vulkan::list_devices();
    if (!devices) report["vulkan_error"] = devices.error().message;
    for (const auto& info : devices ? *devices : std::vector<vulkan::DeviceInfo>()) {
        json device = describe(info);
        if (info.unusable.empty()) add_verdicts(device, info.capabilities);
        if (info.unusable.empty()) add_variants(device, info.capabilities, plans);
        report["devices"].push_back(std::move(device));
    }
    if (devices) {
        if (auto choices = auto_choices(*devices, model)) report["auto"] = *std::move(choices);
    }
    if (command.json) {
        VKFORMER_CHECK(print_json(report));
        return kOk;
    }
    std::string out;
    for (const json& device : report["devices"]) out += as_text(device) + "\n";
    out += "cpu  CPU (float)\n   the same graphs in plain C++ and BLAS; --device cpu\n\n";
    if (report.contains("auto")) out += auto_text(report["auto"]);
    if (report.contains("model"))
        out += "Shaders and times are those for the model " + report["model"].get<std::string>() + ".\n";
    VKFORMER_CHECK(print(out));
    if (!devices) std::fprintf(stderr, "vkformer: no Vulkan: %s\n", told(devices.error()).c_str());
    return kOk;
}

}  // namespace

void add_info(CLI::App& app, Action& action) {
    auto options = std::make_shared<InfoCommand>();
    CLI::App& command = *app.add_subcommand("info", "Devices, their capabilities, and the shaders each would use");
    options->model.add(command);
    command.add_flag("--json", options->json, "Print JSON");
    command.footer("Examples:\n  vkformer info\n  vkformer info --json | jq '.devices[].name'");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
