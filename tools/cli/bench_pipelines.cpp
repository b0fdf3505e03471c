// SPDX-License-Identifier: MIT
/// vkformer bench pipelines: what a driver's compiler makes of the shaders. Nothing is submitted and no tensor gets memory, so
/// that it also runs on drivers whose GPU is not there.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "bench/code.hpp"
#include "bench_pipelines.hpp"
#include "cases/case.hpp"
#include "core/try.hpp"
#include "cpu_devices/lib/lanes.h"
#include "graph/plan.hpp"
#include "shader_table.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::cli {
namespace {

using nlohmann::json;
using vulkan::Capabilities;
using vulkan::Dispatch;
using vulkan::PipelineExecutable;
using vulkan::PipelineSummary;

struct BenchPipelinesCommand {
    DeviceOptions device;
    bool json = false, all = false, code = false, progress = false;
    std::string only;
    std::size_t first = 0, last = std::numeric_limits<std::size_t>::max();
};

/// What asks for a pipeline: a node of a case, of which a variant dispatches it.
struct Use {
    std::string case_label, dtype, op, variant;
    std::array<std::uint32_t, 3> groups;
    bool is_default = false;  ///< the device runs it there where nothing was measured
};

/// One pipeline that the kernels asked for, and all that asks for it.
struct Wanted {
    Dispatch dispatch;
    bool is_offered = false;  ///< it is one of the device's variants; else one of devices of another kind
    std::vector<Use> uses;
    bool is_default() const { return std::ranges::any_of(uses, &Use::is_default); }
};

/// The pipelines that the kernels ask for, each once: one is its shader and its constants.
class WantedList {
public:
    enum class Take { first_variants, all_variants, of_other_devices };

    /// Asks for every node of the case on a device of these capabilities.
    Result<void> add(const cases::Case& which, const Capabilities& device, Take take) {
        cases::CaseBuilder builder(cases::CaseBuilder::Contents::none);
        VKFORMER_CHECK(which.build(builder));
        const graph::Plan plan = graph::make_plan(std::move(builder.graph), {.fuse = false});
        const vulkan::KernelContext context = {.graph = plan.graph, .device = device};
        for (const graph::Node& node : plan.graph.nodes()) {
            auto kernels = vulkan::fitting_kernels(node.op, context);
            if (take == Take::first_variants) kernels.resize(1);
            for (const vulkan::KernelTraits* kernel : kernels) {
                VKFORMER_TRY(const auto planned, vulkan::plan_dispatches(node.op, context, *kernel));
                for (const Dispatch& dispatch : planned.dispatches) {
                    auto constants = dispatch.constants;
                    std::ranges::sort(constants);
                    const auto [found, is_new] =
                        places_.emplace(std::pair(dispatch.module, std::move(constants)), list_.size());
                    if (is_new)
                        list_.push_back(
                            {.dispatch = dispatch, .is_offered = take != Take::of_other_devices, .uses = {}});
                    Use use{.case_label = which.op + " " + which.shape,
                            .dtype = which.dtype,
                            .op = std::string(graph::op_name(node.op)),
                            .variant = std::string(kernel->name),
                            .groups = dispatch.groups,
                            .is_default = take == Take::first_variants};
                    add_use(list_[found->second], take, std::move(use));
                }
            }
        }
        return {};
    }
    const std::vector<Wanted>& list() const noexcept { return list_; }

private:
    /// Once each: the first variants are met again among all, and what other devices run of this one's is no news.
    static void add_use(Wanted& wanted, Take take, Use use) {
        if (take == Take::of_other_devices && wanted.is_offered) return;
        const auto same = [&](const Use& u) {
            return std::tie(u.case_label, u.dtype, u.op, u.variant, u.groups) ==
                   std::tie(use.case_label, use.dtype, use.op, use.variant, use.groups);
        };
        if (std::ranges::none_of(wanted.uses, same)) wanted.uses.push_back(std::move(use));
    }

    std::vector<Wanted> list_;
    std::map<std::pair<vulkan::Module, std::vector<Dispatch::Constant>>, std::size_t> places_;
};

/// Devices of the other kind and with less, so that every variant the device can run is met: where there are cooperative matrices,
/// nothing multiplies halves without them.
std::vector<Capabilities> views_of(const Capabilities& device) {
    std::vector<Capabilities> views;
    for (const bool storage16 : {device.storage16, false}) {
        for (const char* type : {"discrete", "cpu"}) {
            views.push_back(device);
            views.back().type = type;
            views.back().storage16 = storage16;
            if (views.back().is_cpu()) views.back().subgroup_size = shaders::kCpuLanes;
        }
    }
    if (device.cooperative_matrix) {
        views.push_back(device);
        views.back().type = "discrete";
        views.back().cooperative_matrix = views.back().cooperative_matrix2 = false;
    }
    return views;
}

Result<WantedList> wanted_on(const Capabilities& device, bool all) {
    using enum WantedList::Take;
    VKFORMER_TRY(const std::vector<cases::Case> all_cases, cases::compiled_cases());
    WantedList wanted;
    const auto add = [&](const Capabilities& view, WantedList::Take take) -> Result<void> {
        for (const cases::Case& which : all_cases) VKFORMER_CHECK(wanted.add(which, view, take));
        return {};
    };
    VKFORMER_CHECK(add(device, first_variants));
    VKFORMER_CHECK(add(device, all_variants));
    if (all)
        for (const Capabilities& view : views_of(device)) VKFORMER_CHECK(add(view, of_other_devices));
    return wanted;
}

/// What became of one of them.
struct Compiled {
    const Wanted* wanted;
    Result<vulkan::PipelineReport> report;
};

json as_json(const PipelineExecutable& executable) {
    json out = {{"name", executable.name},
                {"description", executable.description},
                {"subgroup_size", executable.subgroup_size},
                {"summary", bench::as_json(vulkan::summarise(executable))},
                {"statistics", json::array()}};
    for (const auto& s : executable.statistics)
        out["statistics"].push_back({{"name", s.name},
                                     {"description", s.description},
                                     {"value", std::visit([](auto v) { return json(v); }, s.value)}});
    for (const auto& r : executable.representations)
        out["code"].push_back({{"name", r.name}, {"description", r.description}, {"text", r.text}});
    return out;
}

json as_json(const Compiled& compiled) {
    const Wanted& wanted = *compiled.wanted;
    json out = {{"shader", wanted.dispatch.module.name()},
                {"default", wanted.is_default()},
                {"offered", wanted.is_offered},
                {"constants", json::object()},
                {"uses", json::array()}};
    for (const Use& use : wanted.uses)
        out["uses"].push_back({{"case", use.case_label},
                               {"dtype", use.dtype},
                               {"op", use.op},
                               {"variant", use.variant},
                               {"groups", use.groups},
                               {"default", use.is_default}});
    for (const auto& [id, value] : wanted.dispatch.constants) out["constants"][std::to_string(id)] = value;
    if (!compiled.report) {
        out["error"] = {{"code", to_string(compiled.report.error().code)},
                        {"message", compiled.report.error().message}};
        return out;
    }
    out["compile_ms"] = compiled.report->compile_ms;
    out["executables"] = json::array();
    for (const auto& executable : compiled.report->executables) out["executables"].push_back(as_json(executable));
    return out;
}

std::string cell(const std::optional<double>& value) {
    return value ? std::to_string(std::llround(*value)) : std::string("-");
}

std::string table_row(const std::vector<std::string>& cells) {
    static constexpr int kWidths[] = {-34, 8, 6, 7, 7, 8, 6, 7, 8, 9, 9};
    std::string out;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const auto width = static_cast<std::size_t>(std::abs(kWidths[i]));
        const std::string pad(width - std::min(width, cells[i].size()), ' ');
        out += (out.empty() ? "" : " ") + (kWidths[i] < 0 ? cells[i] + pad : pad + cells[i]);
    }
    return out + "\n";
}

std::string as_text(const Compiled& compiled) {
    const Wanted& wanted = *compiled.wanted;
    std::string out;
    if (!compiled.report) return "  " + wanted.dispatch.module.name() + ": " + compiled.report.error().message + "\n";
    char ms[32];
    std::snprintf(ms, sizeof(ms), "%.1f", compiled.report->compile_ms);
    const auto& executables = compiled.report->executables;
    if (executables.empty()) return table_row({wanted.dispatch.module.name(), ms});
    for (const PipelineExecutable& executable : executables) {
        const PipelineSummary s = vulkan::summarise(executable);
        out += table_row({wanted.dispatch.module.name(), ms, cell(s.registers), cell(s.scalar_registers),
                          cell(s.spills), cell(s.shared_bytes), cell(s.waves), cell(s.instructions), cell(s.code_bytes),
                          cell(s.cycles), cell(s.throughput_cycles)});
    }
    return out;
}

std::string as_text(const std::vector<Compiled>& list) {
    std::string out, label;
    for (const bool is_default : {true, false}) {
        const auto count = std::ranges::count(list, is_default, [](const auto& c) { return c.wanted->is_default(); });
        if (count == 0) continue;
        out += is_default ? "What the device runs where nothing was measured\n" : "The other variants\n";
        out += table_row(
            {"shader", "ms", "regs", "scalar", "spills", "shared", "waves", "instr", "code", "cycles", "busy"});
        for (const Compiled& compiled : list) {
            if (compiled.wanted->is_default() != is_default) continue;
            const std::string& first_case = compiled.wanted->uses.front().case_label;
            if (first_case != label) out += "  " + (label = first_case) + "\n";
            out += as_text(compiled);
        }
        out += "\n";
    }
    return out;
}

/// The shaders that the device can run and no case has led to: a family of tools/cases lacks one.
std::vector<std::string> without_case(const WantedList& wanted, const Capabilities& device) {
    std::set<std::string> reached;
    for (const Wanted& w : wanted.list()) reached.insert(w.dispatch.module.name());
    // No node of a graph runs these two.
    const auto source_of = [](const vulkan::ShaderFamily& family) {
        return family.find(vulkan::Storage::single)->source;
    };
    const std::set<std::string_view> outside_graphs = {source_of(vulkan::modules::image_to_tensor),
                                                       source_of(vulkan::modules::strided_copy)};
    std::vector<std::string> names;
    for (const vulkan::ShaderBinary& binary : vulkan::shader_table())
        if (vulkan::can_run(device, binary) && !reached.contains(std::string(binary.name)) &&
            !outside_graphs.contains(binary.source))
            names.emplace_back(binary.name);
    return names;
}

Result<std::unique_ptr<vulkan::VulkanBackend>> open(const BenchPipelinesCommand& command) {
    const auto refused = [](const std::string& what) { return Error{ErrorCode::InvalidArgument, what}; };
    if (command.device.offloaded_bytes > 0)
        return refused("--offload is for what runs; here shaders are compiled alone");
    if (command.device.plain || !command.device.variants.empty())
        return refused("--plain and --variant are for what runs; here every variant is compiled, or those of --only");
    if (command.last < command.first)
        return refused("--last " + std::to_string(command.last) + " is before --first " +
                       std::to_string(command.first));
    vulkan::BackendOptions options{.cache_folder = {}};  // a cached pipeline would hide its compile time
    VKFORMER_TRY(options.capture, statistics_of(command.device.device));
    if (command.code) options.capture = vulkan::PipelineCapture::statistics_and_code;
    return vulkan::VulkanBackend::create(command.device.device, options);
}

/// Each option for itself: who goes through the list in parts may have none left that --only means, or nothing behind the last.
Result<void> check_choice(const BenchPipelinesCommand& command, const std::vector<Wanted>& list) {
    if (command.first > list.size())
        return Error{ErrorCode::InvalidArgument, "--first " + std::to_string(command.first) + ": there are " +
                                                     std::to_string(list.size()) + " pipelines"};
    if (std::ranges::none_of(
            list, [&](const Wanted& w) { return w.dispatch.module.name().find(command.only) != std::string::npos; }))
        return Error{ErrorCode::InvalidArgument,
                     "--only " + command.only + ": no shader has that in its name" +
                         (command.all ? "" : " that devices of this kind run (others: --all)")};
    return {};
}

Result<int> run(const BenchPipelinesCommand& command) {
    VKFORMER_TRY(const auto backend, open(command));
    const Capabilities& device = backend->capabilities();
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", device.name.c_str());
    VKFORMER_TRY(const auto wanted, wanted_on(device, command.all));
    VKFORMER_CHECK(check_choice(command, wanted.list()));
    std::vector<Compiled> compiled;
    for (std::size_t i = command.first; i < wanted.list().size() && i <= command.last; ++i) {
        const Wanted& w = wanted.list()[i];
        const std::string name = w.dispatch.module.name();
        if (name.find(command.only) == std::string::npos) continue;
        if (command.progress) std::fprintf(stderr, "vkformer: pipeline %zu: %s\n", i, name.c_str());
        compiled.push_back({&w, backend->report_pipeline(w.dispatch)});
    }
    const bool failed = std::ranges::any_of(compiled, [](const Compiled& c) { return !c.report; });

    if (!command.json) {
        VKFORMER_CHECK(print(as_text(compiled)));
    } else {
        json report = {{"device", device.name},
                       {"driver", device.driver},
                       {"version", VKFORMER_VERSION},
                       {"pipelines", json::array()},
                       {"statistics", device.pipeline_statistics}};
        for (const Compiled& c : compiled) report["pipelines"].push_back(as_json(c));
        if (command.all) report["without_case"] = without_case(wanted, device);
        VKFORMER_CHECK(print_json(report));
    }
    return failed ? kDivergence : kOk;
}

}  // namespace

void add_bench_pipelines(CLI::App& bench, Action& action) {
    auto options = std::make_shared<BenchPipelinesCommand>();
    CLI::App& command = *bench.add_subcommand("pipelines", "What the driver's compiler makes of every shader");
    options->device.add_device(command);
    command.add_flag("--all", options->all,
                     "Also the shaders for devices of another kind (a CPU, no 16-bit storage, no "
                     "cooperative matrices)");
    command.add_option("--only", options->only, "Only shaders with this in their names");
    command.add_option("--first", options->first, "Leave out those before this one, counted from 0")
        ->check(CLI::NonNegativeNumber);
    command.add_option("--last", options->last, "Leave out those behind this one")->check(CLI::NonNegativeNumber);
    command.add_flag("--progress", options->progress,
                     "Name each on stderr before it is compiled, so that what the driver writes there has a name");
    command.add_flag("--json", options->json, "Print everything as JSON, the driver's own statistics included");
    command.add_flag("--code", options->code, "With --json: also the compiler's intermediate and final code");
    command.footer(
        "Compiles the shaders that each op would use for the shapes of large models, and submits no work. Columns: "
        "compile\n"
        "time; vector and scalar registers; spilled registers; bytes of shared memory; subgroups in flight; "
        "instructions;\n"
        "bytes of code; the compiler's estimates of the cycles of one subgroup, with waits and without. Statistics "
        "need\n"
        "VK_KHR_pipeline_executable_properties; without it there is the compile time alone.\n"
        "Exit code 1: a shader did not compile.\n"
        "Examples:\n"
        "  vkformer bench pipelines --only linear\n"
        "  vkformer bench pipelines --all --json | jq '.pipelines[] | select(.executables[].summary.spills > "
        "0).shader'");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
