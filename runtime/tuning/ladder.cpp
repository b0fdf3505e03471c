// SPDX-License-Identifier: MIT
#include "tuning/ladder.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "core/ceil_div.hpp"
#include "core/lack_of_memory.hpp"
#include "core/stable_order.hpp"
#include "core/try.hpp"
#include "cpu/backend.hpp"
#include "graph/work.hpp"
#include "tuning/likely_variant.hpp"
#include "tuning/trial_case.hpp"
#include "validation/bounds.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::tuning {
namespace {

using graph::Graph;
using graph::Node;
using graph::Program;
using graph::Value;

/// Multiplications of a trial: a few milliseconds of a slow device.
double max_work(const vulkan::Capabilities& device) { return device.is_cpu() ? 5e7 : 2e10; }
/// Of one whose result is compared with what the CPU computes in double precision, which would take it seconds for what is timed on a GPU.
constexpr double kMostCheckedWork = 5e7;

// A GPU that had little to do is slow, and not in all alike: before the first case that is timed, and before each after it, for it was idle
// while the CPU compiled its pipelines and computed what is right.
constexpr double kFirstWarmUpSeconds = 0.3, kWarmUpSeconds = 0.05;
constexpr double kEnoughUs = 20e3;  // device time after which a variant is timed no more
constexpr int kRuns = 7, kThoroughRuns = 50;
constexpr double kAsFast = 1.03;       // times slower than the best one: as fast, if it errs less
constexpr double kNear = 4;            // times slower than the best one: timed again
constexpr double kHopeless = 5;        // times slower than the best one: one run is enough
constexpr int kRounds = 3;             // in which what is near the best is timed again
constexpr double kLittleWork = 0.005;  // of a plan's
constexpr std::uint64_t kMostCopies = 8;
/// More than the last cache holds, of which Vulkan does not tell: that of a processor that is the device, which is far below; and of a GPU.
std::uint64_t cold_bytes(const vulkan::Capabilities& device) { return (device.is_cpu() ? 16ull : 128ull) << 20; }
/// Of operands of variants that may be timed again: what is not kept is uploaded once more for each round.
std::uint64_t most_kept_bytes(const vulkan::Device& device) {
    constexpr std::uint64_t kMost = 1 << 30, kPart = 16;
    return std::min(kMost, vulkan::largest_local_heap(device) / kPart);
}

/// With how many copies of its operands a node is timed, in turns. A product of few rows is as fast as its weights come from memory, where
/// those of a model lie when their turn is there: in a trial with one copy they would stay in a cache, and another variant would win.
int operand_copies(const Graph& graph, const Node& node, const vulkan::Capabilities& device) {
    const auto* const linear = std::get_if<graph::Linear>(&node.op);
    if (!linear || graph.shape(linear->x).row_count() > graph::kFewRows) return 1;
    const std::uint64_t bytes = graph::storage_bytes(graph.tensor(linear->weight));
    return static_cast<int>(std::min(ceil_div(cold_bytes(device), bytes), kMostCopies));
}

Result<std::vector<double>> read(Program& program, const Graph& graph, Value value) {
    std::vector<double> values(graph.shape(value).element_count());
    if (is_real(graph.dtype(value))) {
        VKFORMER_CHECK(program.read(value, std::span(values)));
        return values;
    }
    std::vector<std::int32_t> integers(values.size());
    VKFORMER_CHECK(program.read(value, std::span(integers)));
    std::ranges::copy(integers, values.begin());
    return values;
}

Result<void> feed(Program& program, const TrialCase& trial) {
    for (const auto& [value, contents] : trial.contents) {
        const Value target = value;
        VKFORMER_CHECK(
            std::visit([&](const auto& values) { return program.write(target, std::span(values)); }, contents));
    }
    return {};
}

/// The relative error of the whole result, or infinity where a single element is off by more than its bound allows.
double error_of(std::span<const double> found, std::span<const double> expected, double bound) {
    double squares = 0, norm = 0, largest = 0, worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double difference = std::abs(found[i] - expected[i]);
        if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
        squares += difference * difference;
        norm += expected[i] * expected[i];
        largest = std::max(largest, std::abs(expected[i]));
        worst = std::max(worst, difference);
    }
    if (squares == 0) return 0;
    if (worst > 8 * bound * largest) return std::numeric_limits<double>::infinity();
    return std::sqrt(squares / norm);
}

/// A node with operands, and what it gives in double precision, which is computed when it is first asked for.
class Subject {
public:
    explicit Subject(TrialCase trial)
        : trial_(std::move(trial)), plan_(graph::make_plan(trial_.graph, {.fuse = false})) {}

    const TrialCase& trial() const noexcept { return trial_; }
    const graph::Plan& plan() const noexcept { return plan_; }
    const Node& node() const { return plan_.graph.nodes().front(); }

    /// By result, when it was computed.
    std::span<const std::vector<double>> expected() const noexcept { return expected_; }

    Result<void> compute_expected() {
        if (!expected_.empty()) return {};
        const auto oracle = cpu::make_cpu_backend<double>();
        VKFORMER_TRY(const auto program, oracle->compile(plan_, oracle->make_store(), oracle->make_store()));
        VKFORMER_CHECK(feed(*program, trial_));
        VKFORMER_CHECK(program->submit());
        std::vector<std::vector<double>> all;
        for (const Value result : trial_.results) {
            VKFORMER_TRY(all.emplace_back(), read(*program, trial_.graph, result));
        }
        expected_ = std::move(all);
        return {};
    }

    /// Whether a variant runs the same pipelines here and there, so that what is right here is not another shader there.
    bool shares_pipelines(const Subject& other, std::string_view variant, const vulkan::Capabilities& device) const {
        const auto planned = [&](const Subject& subject) {
            return vulkan::plan_dispatches(subject.node().op, {subject.plan_.graph, device}, variant);
        };
        const auto here = planned(*this), there = planned(other);
        return here && there &&
               std::ranges::equal(here->dispatches, there->dispatches, [](const auto& a, const auto& b) {
                   return a.module == b.module && a.constants == b.constants;
               });
    }

private:
    TrialCase trial_;
    graph::Plan plan_;
    std::vector<std::vector<double>> expected_;
};

/// The variants of one node, tried one after the other.
class Climb {
public:
    /// `checked` is the node with less to do, for variants that run the same pipelines there; null: what is timed is checked.
    Climb(vulkan::VulkanBackend& backend, std::unique_ptr<Subject> timed, std::unique_ptr<Subject> checked, int runs,
          double warm_up_seconds)
        : backend_(backend),
          timed_(std::move(timed)),
          checked_(std::move(checked)),
          runs_(runs),
          warm_up_seconds_(backend.capabilities().is_cpu() ? 0 : warm_up_seconds) {}

    /// Compiles the pipelines of variants beside one another.
    void prepare(const vulkan::KernelList& kernels) { backend_.prepare_pipelines(timed_->plan(), kernels); }

    /// An Error only where no other variant could be tried either.
    Result<Trial> attempt(std::string_view variant) {
        Trial trial{.variant = std::string(variant)};
        const bool has_less = checked_ && checked_->shares_pipelines(*timed_, variant, backend_.capabilities());
        Subject& subject = has_less ? *checked_ : *timed_;
        VKFORMER_CHECK(subject.compute_expected());
        auto tried = check_and_time(subject, trial);
        if (!tried && tried.error().code == ErrorCode::OutOfDeviceMemory && !kept_.empty()) {
            kept_.clear();
            kept_bytes_ = 0;
            tried = check_and_time(subject, trial);
        }
        if (!tried && tried.error().code == ErrorCode::DeviceLost) return tried.error();
        if (!tried) {
            trial.fault = tried.error().message;
            trial.lacked_memory = is_lack_of_memory(tried.error().code);
        }
        return trial;
    }

    /// Keeps a GPU busy before the first variant is timed, for it was idle while the CPU computed what is right.
    Result<void> warm_up(vulkan::VulkanProgram& program) {
        const std::chrono::duration<double> most(std::exchange(warm_up_seconds_, 0));
        const auto start = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - start < most) {
            VKFORMER_CHECK(program.submit());
            VKFORMER_CHECK(program.wait());
        }
        return {};
    }

    /// Times once more what came near the best; its time is the shortest of all.
    Result<void> repeat(Trial& trial) {
        if (!trial.fault.empty() || trial.us > kNear * fastest_) return {};
        const auto timed = time(trial, runs_ / 2);  // where there is no memory for another round, its time stands
        if (!timed && timed.error().code == ErrorCode::DeviceLost) return timed.error();
        return {};
    }

private:
    Result<void> check_and_time(const Subject& subject, Trial& trial) {
        VKFORMER_CHECK(check(subject, trial));
        if (&subject != timed_.get() && trial.fault.empty()) VKFORMER_CHECK(check_whole(trial));
        return trial.fault.empty() ? time(trial, runs_) : Result<void>();
    }

    Result<std::unique_ptr<vulkan::VulkanProgram>> compile(const Subject& subject, const std::string& variant,
                                                           bool check) {
        vulkan::ProgramOptions options{.timestamps = check ? vulkan::Timestamps::none : vulkan::Timestamps::ends,
                                       .check_memory = check,
                                       .variants = {variant},
                                       .offloads = false};
        VKFORMER_TRY(auto program,
                     backend_.compile_program(subject.plan(), backend_.make_store(), backend_.make_store(), options));
        VKFORMER_CHECK(feed(*program, subject.trial()));
        return program;
    }

    /// That every element is written of what is timed, where the check had less of them.
    Result<void> check_whole(Trial& trial) {
        VKFORMER_TRY(const auto program, compile(*timed_, trial.variant, true));
        VKFORMER_CHECK(program->submit());
        VKFORMER_CHECK(program->wait());
        for (const Value result : timed_->trial().results) {
            VKFORMER_TRY(const auto found, read(*program, timed_->trial().graph, result));
            if (std::ranges::any_of(found, [](double value) { return std::isnan(value); }))
                trial.fault = "wrong results";
        }
        return {};
    }

    Result<void> check(const Subject& subject, Trial& trial) {
        VKFORMER_TRY(const auto program, compile(subject, trial.variant, true));
        VKFORMER_CHECK(program->submit());
        VKFORMER_CHECK(program->wait());
        const TrialCase& operands = subject.trial();
        for (std::size_t i = 0; i < operands.results.size(); ++i) {
            VKFORMER_TRY(const auto found, read(*program, operands.graph, operands.results[i]));
            const double bound =
                validation::error_bound(operands.graph, subject.node(), operands.results[i], program->rounding(0));
            judge(trial, found, subject.expected()[i], bound);
        }
        return {};
    }

    /// Times a variant once: some runs one after the other.
    Result<void> time(Trial& trial, int runs) {
        Programs fresh;
        const auto found = kept_.find(trial.variant);
        if (found == kept_.end()) {
            VKFORMER_TRY(fresh, compile_copies(trial.variant));
        }
        const Programs& programs = found == kept_.end() ? fresh : found->second;
        VKFORMER_CHECK(warm_up(*programs.front()));
        double best = std::numeric_limits<double>::infinity(), spent = 0;
        for (int run = 0; run <= runs && spent < kEnoughUs; ++run) {
            VKFORMER_TRY(const double us, time_run(*programs[next_copy_++ % programs.size()]));
            spent += us;
            best = std::min(best, us);
            if (run > 0 && best > kHopeless * fastest_) break;  // the first one warms caches
        }
        trial.us = trial.us > 0 ? std::min(trial.us, best) : best;
        fastest_ = std::min(fastest_, best);
        if (found == kept_.end() && kept_bytes_ + copy_bytes() * fresh.size() <= most_kept_bytes(*backend_.device())) {
            kept_bytes_ += copy_bytes() * fresh.size();
            kept_.emplace(trial.variant, std::move(fresh));
        }
        return {};
    }

    Result<double> time_run(vulkan::VulkanProgram& program) {
        const auto start = std::chrono::steady_clock::now();
        VKFORMER_CHECK(program.submit());
        VKFORMER_CHECK(program.wait());
        const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - start;
        if (backend_.capabilities().timestamp_valid_bits == 0) return wall.count();
        VKFORMER_TRY(const double ns, program.device_ns());
        return ns * 1e-3;
    }

    /// With operands of their own.
    using Programs = std::vector<std::unique_ptr<vulkan::VulkanProgram>>;
    Result<Programs> compile_copies(const std::string& variant) {
        const int copies =
            std::min(operand_copies(timed_->plan().graph, timed_->node(), backend_.capabilities()), runs_ + 1);
        Programs programs;
        while (programs.size() < static_cast<std::size_t>(copies)) {
            VKFORMER_TRY(programs.emplace_back(), compile(*timed_, variant, false));
        }
        return programs;
    }

    std::uint64_t copy_bytes() const {
        std::uint64_t bytes = 0;
        for (const graph::Tensor& tensor : timed_->plan().graph.tensors()) bytes += graph::storage_bytes(tensor);
        return bytes;
    }

    vulkan::VulkanBackend& backend_;
    std::unique_ptr<Subject> timed_, checked_;
    int runs_;
    double fastest_ = std::numeric_limits<double>::infinity();
    double warm_up_seconds_;
    std::map<std::string, Programs> kept_;  // by variant, so that another round costs no more than its runs
    std::uint64_t kept_bytes_ = 0;
    std::size_t next_copy_ = 0;  // goes on from round to round, so that the copies take turns
};

/// Whether fewer columns are the same arithmetic for less of it.
bool is_product(const graph::Op& op) {
    return std::holds_alternative<graph::Linear>(op) || std::holds_alternative<graph::ExpertLinear>(op);
}

/// What the file says about a node, if the node has that variant.
const Verdict* known(const VerdictFile& file, const Graph& graph, const Node& node, const vulkan::KernelList& kernels) {
    for (const bool exact : {true, false}) {
        const Verdict* const verdict = file.find(case_key(graph, node, exact));
        if (verdict && vulkan::find_kernel(kernels, verdict->variant)) return verdict;
    }
    return nullptr;
}

Error all_wrong(const std::string& device, const std::string& key, const Verdict& verdict) {
    std::string text = "device \"" + device + "\" cannot be used: no variant of " + key + " works (";
    for (const Trial& trial : verdict.trials)
        text += (text.ends_with('(') ? "" : "; ") + trial.variant + ": " + trial.fault;
    return {.code = ErrorCode::Vulkan,
            .message = text + "); update its driver or choose another device",
            .hint = Hint::other_device};
}

}  // namespace

std::string to_string(const Progress& progress) {
    if (progress.trial.empty()) return {};
    return "trying the shaders of " + progress.device + ", " + std::to_string(progress.done + 1) + " of " +
           std::to_string(progress.total) + ": " + progress.trial;
}

vulkan::KernelList worth_trying(const vulkan::KernelList& kernels, const vulkan::Capabilities& device) {
    vulkan::KernelList left = kernels;
    if (device.is_cpu())
        std::erase_if(left, [&](const vulkan::KernelTraits* kernel) {
            return kernel->is_emulated_on_cpus && kernel != kernels.front();
        });
    return left;
}

TrialOrder trial_order(const vulkan::KernelList& kernels, const vulkan::Capabilities& device) {
    const std::uint32_t matrices = vulkan::needs(vulkan::ShaderRequirement::coopmat);
    const std::uint32_t many_at_once = matrices | vulkan::needs(vulkan::ShaderRequirement::int_dot);
    const bool have_matrices = std::ranges::any_of(kernels, [&](const auto* k) { return (k->needs & matrices) != 0; });
    const bool are_for_cpus =
        std::ranges::find(kernels, vulkan::DeviceClass::cpu, &vulkan::KernelTraits::device) != kernels.end();
    using Rows = vulkan::KernelTraits::Rows;
    const bool are_for_few_rows = std::ranges::find(kernels, Rows::few, &vulkan::KernelTraits::rows) != kernels.end();
    const auto is_last_resort = [&](const vulkan::KernelTraits& kernel) {
        if (device.is_cpu()) return are_for_cpus && kernel.is_reference;
        return (have_matrices && (kernel.needs & many_at_once) == 0) || (are_for_few_rows && kernel.rows == Rows::many);
    };
    TrialOrder order;
    for (const vulkan::KernelTraits* const kernel : kernels)
        (is_last_resort(*kernel) ? order.last_resort : order.first).push_back(kernel);
    return order;
}

void judge(Trial& trial, std::span<const double> found, std::span<const double> expected, double bound) {
    if (!trial.fault.empty()) return;
    const double error = error_of(found, expected, bound);
    const bool is_right = error <= bound;
    if (is_right && trial.bound > 0 && error * trial.bound <= trial.error * bound) return;  // another result is worse
    trial.error = std::isfinite(error) ? error : -1;                                        // JSON has no infinity
    trial.bound = bound;
    if (!is_right) trial.fault = "wrong results";
}

Result<void> repeat_in_rounds(std::vector<Trial>& trials, int rounds,
                              const std::function<Result<void>(Trial&)>& repeat) {
    for (int round = 0; round < rounds; ++round)
        for (std::size_t i = 0; i < trials.size(); ++i)
            VKFORMER_CHECK(repeat(trials[round % 2 == 0 ? trials.size() - 1 - i : i]));
    return {};
}

std::string best_of(const std::vector<Trial>& trials) {
    double shortest = std::numeric_limits<double>::infinity();
    for (const Trial& tried : trials)
        if (tried.fault.empty()) shortest = std::min(shortest, tried.us);
    const Trial* best = nullptr;
    for (const Trial& tried : trials) {
        if (!tried.fault.empty() || tried.us > kAsFast * shortest) continue;
        if (!best || std::pair(tried.bound, tried.us) < std::pair(best->bound, best->us)) best = &tried;
    }
    return best ? best->variant : std::string();
}

double Ladder::now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

VerdictFile& Ladder::file(const vulkan::Capabilities& device) {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(device.uuid);
    if (found != files_.end()) return found->second;
    return files_.emplace(device.uuid, VerdictFile(options_.folder, device)).first->second;
}

std::vector<std::pair<std::string, Ladder::OpenCase>> Ladder::open_cases(const graph::Plan& plan,
                                                                         const vulkan::Capabilities& device) {
    const VerdictFile& verdicts = file(device);
    const std::lock_guard lock(mutex_);
    std::map<std::string, OpenCase> open;
    std::set<std::string_view> ops;  // that something is found for, or will be by a case that comes before
    for (const Node& node : plan.graph.nodes()) {
        auto kernels = vulkan::fitting_kernels(node.op, {plan.graph, device});
        if (kernels.size() < 2) continue;
        const std::string key = case_key(plan.graph, node, options_.thorough);
        const bool is_open = options_.thorough ? !tuned_.contains(device.uuid + key)
                                               : known(verdicts, plan.graph, node, kernels) == nullptr;
        if (!is_open) ops.insert(graph::op_name(node.op));
        if (!options_.thorough) kernels = worth_trying(kernels, device);
        if (is_open && kernels.size() >= 2)
            open.try_emplace(key, OpenCase{&node, std::move(kernels)}).first->second.work +=
                graph::work_of(node.op, plan.graph);
    }
    std::vector<std::pair<std::string, OpenCase>> sorted(open.begin(), open.end());
    sort_stably(sorted, [](const auto& a, const auto& b) { return a.second.work > b.second.work; });
    // An op's first case, where it is not little, before any op's second: what is not tried takes what was found for its op.
    double all_work = 0;
    for (const auto& [key, open_case] : sorted) all_work += open_case.work;
    for (auto& [key, open_case] : sorted)
        open_case.is_first_of_op =
            ops.insert(graph::op_name(open_case.node->op)).second && open_case.work > kLittleWork * all_work;
    sort_stably(sorted,
                [](const auto& a, const auto& b) { return a.second.is_first_of_op && !b.second.is_first_of_op; });
    return sorted;
}

Result<void> Ladder::climb(vulkan::VulkanBackend& backend, const Graph& graph, const std::string& key,
                           const OpenCase& open_case, Progress progress, double end) {
    const vulkan::Capabilities& device = backend.capabilities();
    VerdictFile& verdicts = file(device);
    VKFORMER_TRY(auto timed, make_trial_case(graph, *open_case.node, max_work(device)));
    std::unique_ptr<Subject> checked;
    if (!device.is_cpu() && !options_.thorough && is_product(open_case.node->op) &&
        graph::work_of(timed.graph.nodes().front().op, timed.graph) > kMostCheckedWork) {
        VKFORMER_TRY(auto less, make_trial_case(graph, *open_case.node, kMostCheckedWork, Fewer::columns));
        checked = std::make_unique<Subject>(std::move(less));
    }
    Climb climb(backend, std::make_unique<Subject>(std::move(timed)), std::move(checked),
                options_.thorough ? kThoroughRuns : kRuns,
                warmed_up_.insert(device.uuid).second ? kFirstWarmUpSeconds : kWarmUpSeconds);
    TrialOrder order{open_case.kernels, {}};
    if (!options_.thorough) {
        order = trial_order(open_case.kernels, device);
        // First what an untried case would take: one that is given up is then no worse than that.
        const std::string likely = [&] {
            const std::lock_guard lock(mutex_);
            return likely_variant(verdicts, given_up_[device.uuid], key, order.first);
        }();
        std::ranges::stable_partition(order.first, [&](const auto* kernel) { return kernel->name == likely; });
    }
    // Drivers of CPUs compile with all their threads, and not all of it is needed.
    if (!device.is_cpu() && backend.device()->is_own()) {
        const bool may_prepare = [&] {
            const std::lock_guard lock(mutex_);
            return !verdicts.has_unfinished(key) && verdicts.begin(key, "all at a time");
        }();
        if (may_prepare) {
            progress.trial = key;
            if (options_.progress) options_.progress(progress);
            climb.prepare(order.first);
            const std::lock_guard lock(mutex_);
            verdicts.end();
        }
    }
    Verdict verdict;
    vulkan::KernelList kernels = order.first;
    kernels.insert(kernels.end(), order.last_resort.begin(), order.last_resort.end());
    for (std::size_t i = 0; i < kernels.size(); ++i) {
        if (i >= order.first.size() && !best_of(verdict.trials).empty()) break;
        const std::string_view name = kernels[i]->name;
        progress.trial = key + " " + std::string(name);
        if (options_.progress) options_.progress(progress);
        const bool may_try = [&] {
            const std::lock_guard lock(mutex_);
            return verdicts.begin(key, name);
        }();
        if (!may_try) {
            verdict.trials.push_back({.variant = std::string(name), .fault = "ended the process when it was tried"});
            continue;
        }
        auto attempted = climb.attempt(name);
        if (attempted || attempted.error().code != ErrorCode::DeviceLost) {  // which counts as having ended the process
            const std::lock_guard lock(mutex_);
            verdicts.end();
        }
        VKFORMER_TRY(Trial tried, std::move(attempted));
        inspect(tried);
        verdict.trials.push_back(std::move(tried));
        const bool has_more = i + 1 < order.first.size() && !best_of(verdict.trials).empty();
        if (has_more && !tuned_.empty() && now() >= end) {
            verdict.variant = best_of(verdict.trials);
            const std::lock_guard lock(mutex_);
            given_up_[device.uuid][key] = std::move(verdict);
            verdicts.save();  // that nothing is being tried
            return {};
        }
    }
    VKFORMER_CHECK(repeat_in_rounds(verdict.trials, kRounds, [&](Trial& tried) -> Result<void> {
        if (!tuned_.empty() && now() >= end) return {};
        return climb.repeat(tried);
    }));
    verdict.variant = best_of(verdict.trials);
    const auto untried = std::ranges::find_if(verdict.trials, &Trial::lacked_memory);
    const bool all_tried = untried == verdict.trials.end();
    if (verdict.variant.empty() && all_tried) return all_wrong(device.name, key, verdict);
    if (verdict.variant.empty()) verdict.variant = untried->variant;  // which nothing is known against
    const std::lock_guard lock(mutex_);
    if (all_tried) {
        verdicts.set(key, std::move(verdict));
        tuned_.insert(device.uuid + key);
        given_up_[device.uuid].erase(key);
    } else {  // another time there may be memory
        given_up_[device.uuid][key] = std::move(verdict);
    }
    verdicts.save();
    return {};
}

Result<void> Ladder::try_open_cases(vulkan::VulkanBackend& backend, const graph::Plan& plan) {
    const vulkan::Capabilities& device = backend.capabilities();
    if (open_cases(plan, device).empty()) return {};
    const std::lock_guard lock(trials_mutex_);
    const auto open = open_cases(plan, device);  // another thread may have tried some meanwhile
    Progress progress{.device = device.name, .trial = {}, .done = 0, .total = open.size()};
    const TrialTime time = device.is_cpu() ? options_.time : options_.gpu_time.value_or(options_.time);
    const double longest_plan =
        time.seconds > 0 ? (time.seconds - seconds_) * time.plan_share : std::numeric_limits<double>::infinity();
    const double begin = now();
    constexpr double kShortCase = 0.1;  // seconds; what is compiled at a time is not cut short
    double last = begin, longest_case = tuned_.empty() ? 0 : kShortCase;
    for (const auto& [key, open_case] : open) {
        if (last - begin + longest_case >= longest_plan) break;
        VKFORMER_CHECK(climb(backend, plan.graph, key, open_case, progress, begin + longest_plan));
        const double taken = now() - last;
        last += taken;
        seconds_ += taken;
        longest_case = std::max(longest_case, taken);
        ++progress.done;
    }
    if (options_.progress && !open.empty()) options_.progress(progress);
    return {};
}

std::map<std::string, Verdict> Ladder::given_up(const vulkan::Capabilities& device) {
    const std::lock_guard lock(mutex_);
    return given_up_[device.uuid];
}

Result<vulkan::ChosenVariants> Ladder::choose(vulkan::VulkanBackend& backend, const graph::Plan& plan) {
    const vulkan::Capabilities& device = backend.capabilities();
    if (backend.can_submit()) VKFORMER_CHECK(try_open_cases(backend, plan));
    const VerdictFile& verdicts = file(device);
    const std::lock_guard lock(mutex_);
    vulkan::ChosenVariants chosen;
    const std::map<std::string, Verdict>& given_up = given_up_[device.uuid];
    std::map<std::string, std::string> likely;  // by case
    for (const Node& node : plan.graph.nodes()) {
        const auto kernels = vulkan::fitting_kernels(node.op, {plan.graph, device});
        chosen.emplace_back();
        if (kernels.size() < 2) continue;
        if (const Verdict* const verdict = known(verdicts, plan.graph, node, kernels)) {
            chosen.back() = verdict->variant;
            continue;
        }
        const std::string key = case_key(plan.graph, node, options_.thorough);
        const auto own = given_up.find(key);
        if (own != given_up.end() && vulkan::find_kernel(kernels, own->second.variant)) {
            chosen.back() = own->second.variant;
            continue;
        }
        const auto [found, is_new] = likely.try_emplace(key);
        if (is_new || (!found->second.empty() && !vulkan::find_kernel(kernels, found->second)))
            found->second = likely_variant(verdicts, given_up, key, kernels);
        chosen.back() = found->second;
    }
    return chosen;
}

}  // namespace vkformer::tuning
