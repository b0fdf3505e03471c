// SPDX-License-Identifier: MIT
/// vkformer info: the devices, what they can do, and which shaders a model would use on them.
#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include <vulkan/vulkan.h>
#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/try.hpp"
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
using Plans = std::map<DType, std::vector<graph::Plan>>;

/// What the kernels would choose on a device; nothing runs.
Result<Variants> variants_on(const Capabilities& device, const std::vector<graph::Plan>& plans) {
    Variants variants;
    for (const graph::Plan& plan : plans) {
        const vulkan::KernelContext context = {.graph = plan.graph, .device = device};
        for (const graph::Node& node : plan.graph.nodes()) {
            VKFORMER_TRY(const auto dispatch,
                         std::visit([&](const auto& op) { return vulkan::plan_dispatch(op, context); }, node.op));
            variants[std::string(graph::op_name(node.op))].insert(dispatch.shader);
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
            {"storage8", c.storage8},
            {"float16", c.float16},
            {"int8", c.int8},
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
    return {{"workgroup_scope", parts.workgroup_scope},
            {"flexible_dimensions", parts.flexible_dimensions},
            {"reductions", parts.reductions},
            {"conversions", parts.conversions},
            {"per_element_operations", parts.per_element_operations},
            {"tensor_addressing", parts.tensor_addressing},
            {"block_loads", parts.block_loads}};
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
Result<Plans> open_model(const ModelOption& option, json& report) {
    const auto path = option.find();
    if (!path && option.folder.empty()) return Plans();
    if (!path) return path.error();
    Plans plans;
    for (const DType dtype : {DType::f32, DType::f16}) {
        VKFORMER_TRY(plans[dtype], plans_of(*path, {.length = 16, .steps = 16, .dtype = dtype, .every_program = true}));
    }
    report["model"] = path->string();
    return plans;
}

/// What was tried on the device by earlier commands: the choice of the shaders above may be another one then.
void add_verdicts(json& device, const Capabilities& capabilities) {
    const tuning::VerdictFile file(vulkan::default_cache_folder(), capabilities);
    json verdicts = json::object();
    for (const auto& [key, verdict] : file.verdicts()) verdicts[key] = verdict.variant;
    device["verdicts"] = std::move(verdicts);
    device["verdicts_file"] = file.path().string();
}

void add_variants(json& device, const Capabilities& capabilities, const Plans& plans_by_dtype) {
    for (const auto& [dtype, plans] : plans_by_dtype) {
        const auto variants = variants_on(capabilities, plans);
        const std::string name(to_string(dtype));
        if (variants)
            device["variants"][name] = as_json(*variants);
        else
            device["variant_errors"][name] = variants.error().message;
    }
}

Result<int> run(const InfoCommand& command) {
    json report = {{"version", VKFORMER_VERSION}, {"devices", json::array()}};
    VKFORMER_TRY(const auto plans, open_model(command.model, report));
    const auto devices = vulkan::list_devices();
    if (!devices) report["vulkan_error"] = devices.error().message;
    for (const auto& info : devices ? *devices : std::vector<vulkan::DeviceInfo>()) {
        json device = describe(info);
        if (info.unusable.empty()) add_verdicts(device, info.capabilities);
        if (info.unusable.empty()) add_variants(device, info.capabilities, plans);
        report["devices"].push_back(std::move(device));
    }
    if (devices) {
        if (const auto chosen = vulkan::choose_device(*devices, "auto")) report["auto"] = *chosen;
    }
    if (command.json) {
        VKFORMER_CHECK(print(report.dump(2, ' ', false, json::error_handler_t::replace) + "\n"));
        return kOk;
    }
    std::string out;
    for (const json& device : report["devices"]) out += as_text(device) + "\n";
    out += "cpu  CPU (float)\n   the same graphs in plain C++ and BLAS; --device cpu\n\n";
    if (report.contains("auto")) out += "--device auto takes " + report["auto"].dump() + ".\n";
    if (report.contains("model"))
        out += "Shaders are those for the model " + report["model"].get<std::string>() + ".\n";
    VKFORMER_CHECK(print(out));
    if (!devices) std::fprintf(stderr, "vkformer: no Vulkan: %s\n", devices.error().message.c_str());
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
