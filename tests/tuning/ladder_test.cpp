// SPDX-License-Identifier: MIT
#include "tuning/ladder.hpp"
#include "tuning/likely_variant.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cases/case.hpp"
#include "core/block_format.hpp"
#include "graph/builders.hpp"
#include "support/backends.hpp"
#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "support/lent_device.hpp"
#include "support/must.hpp"
#include "support/quantized.hpp"
#include "support/temporary_folder.hpp"
#include "tuning/trial_case.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using graph::Graph;
using tuning::Ladder;
using tuning::Trial;

/// Two products of a like size and one of another, and an op with one variant.
graph::Plan some_plan() {
    Graph graph;
    const auto x = must(graph.input("x", DType::f32, {3, 64}));
    const auto w = must(graph.input("w", DType::f32, {60, 64}));
    const auto v = must(graph.input("v", DType::f32, {8, 60}));
    const auto a = must(linear(graph, x, w));
    const auto b = must(linear(graph, must(activate(graph, a, graph::Activation::relu)), v));
    graph.mark_output(b);
    graph.mark_output(must(linear(graph, x, w)));
    return graph::make_plan(std::move(graph), {.fuse = false});
}

struct Counted {
    std::size_t trials = 0;
    tuning::LadderOptions options(const std::filesystem::path& folder, bool thorough = false) {
        return {.folder = folder,
                .progress = [this](const tuning::Progress& p) { trials += is_of_kernel(p.trial); },
                .thorough = thorough};
    }

private:
    /// Where a case's kernels are compiled at a time, that is said before its first trial, without a name of one.
    static bool is_of_kernel(const std::string& trial) {
        return vulkan::find_kernel(trial.substr(0, trial.find(' ')), trial.substr(trial.rfind(' ') + 1)) != nullptr;
    }
};

/// Verdicts on an op.
std::size_t count_of(Ladder& ladder, const vulkan::VulkanBackend& backend, const std::string& op) {
    const auto& verdicts = ladder.file(backend.capabilities()).verdicts();
    return static_cast<std::size_t>(
        std::ranges::count_if(verdicts, [&](const auto& v) { return v.first.starts_with(op + " "); }));
}

/// A ladder on which some variants are found to be wrong.
class Suspicious final : public Ladder {
public:
    Suspicious(tuning::LadderOptions options, std::function<bool(Trial&)> is_wrong)
        : Ladder(std::move(options)), is_wrong_(std::move(is_wrong)) {}

private:
    void inspect(Trial& trial) override {
        if (is_wrong_(trial)) trial.fault = "wrong results";
    }
    std::function<bool(Trial&)> is_wrong_;
};

TEST_CASE("the ladder tries what is new, keeps its verdicts, and tries it never again", "[tuning][vulkan]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        CAPTURE(backend->name());
        const TemporaryFolder folder;
        const graph::Plan plan = some_plan();
        Counted first, second;
        vulkan::ChosenVariants chosen;
        {
            Ladder ladder(first.options(folder.path()));
            chosen = must(ladder.choose(*backend, plan));
            const std::size_t trials = first.trials;
            CHECK(must(ladder.choose(*backend, plan)) == chosen);
            CHECK(first.trials == trials);
            CHECK(ladder.file(backend->capabilities()).verdicts().size() == 2);  // by size
            for (const auto& [key, verdict] : ladder.file(backend->capabilities()).verdicts()) {
                CAPTURE(key);
                for (const Trial& trial : verdict.trials) {
                    CAPTURE(trial.variant);
                    CHECK(trial.fault.empty());
                    CHECK(trial.error <= trial.bound);
                    CHECK(trial.us > 0);
                }
            }
        }
        CHECK(first.trials > 2);
        Ladder again(second.options(folder.path()));
        CHECK(must(again.choose(*backend, plan)) == chosen);
        CHECK(second.trials == 0);

        REQUIRE(chosen.size() == plan.graph.nodes().size());
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            const auto kernels =
                vulkan::fitting_kernels(plan.graph.nodes()[i].op, {plan.graph, backend->capabilities()});
            if (kernels.size() == 1)
                CHECK(chosen[i].empty());
            else
                CHECK(vulkan::find_kernel(kernels, chosen[i]));
        }
    }
}

TEST_CASE("variants that there is no memory to try are not held to be wrong", "[tuning][vulkan][errors]") {
    if (vulkan_device_indices().empty()) return;
    const std::string index = vulkan_device_indices().back();
    CAPTURE(index);
    const TemporaryFolder folder;
    const graph::Plan plan = some_plan();
    Interposer interposer(must(vulkan::open_loader()));
    interposer.claim_own_memory(64);  // not enough for anything
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index))});
    Counted counted;
    {
        const auto backend = must(vulkan::VulkanBackend::adopt(lent(host, interposer), {.cache_folder = {}}));
        Ladder ladder(counted.options(folder.path()));
        const auto chosen = must(ladder.choose(*backend, plan));
        CHECK(counted.trials > 2);
        CHECK(ladder.file(backend->capabilities()).verdicts().empty());
        // Of a product whose first variant is wrong, another one.
        std::string wrong;
        Suspicious doubtful(counted.options(folder.path()), [&](Trial& trial) {
            if (wrong.empty()) wrong = trial.variant;
            if (trial.variant != wrong) return false;
            trial.lacked_memory = false;
            return true;
        });
        const auto others = must(doubtful.choose(*backend, plan));
        REQUIRE_FALSE(wrong.empty());
        std::size_t products = 0;
        for (std::size_t i = 0; i < others.size(); ++i) {
            if (!std::holds_alternative<graph::Linear>(plan.graph.nodes()[i].op)) continue;
            ++products;
            CHECK_FALSE(chosen[i].empty());
            CHECK_FALSE(others[i].empty());
            CHECK(others[i] != wrong);
        }
        CHECK(products > 0);
    }
    interposer.claim_own_memory(64 << 20);
    const auto backend = must(vulkan::VulkanBackend::adopt(lent(host, interposer), {.cache_folder = {}}));
    Ladder ladder(counted.options(folder.path()));
    must(ladder.choose(*backend, plan));
    CHECK(ladder.file(backend->capabilities()).verdicts().size() == 2);
}

TEST_CASE("a case of which a variant lacked memory is tried again by the next ladder", "[tuning][vulkan][errors]") {
    if (vulkan_backends().empty()) return;
    vulkan::VulkanBackend& backend = *vulkan_backends().back();
    CAPTURE(backend.name());
    const TemporaryFolder folder;
    const graph::Plan plan = some_plan();
    Counted first, second;
    std::string missed;
    Suspicious ladder(first.options(folder.path()), [&](Trial& trial) {
        if (missed.empty()) missed = trial.variant;
        if (trial.variant == missed) trial.lacked_memory = true;
        return trial.lacked_memory;
    });
    const auto chosen = must(ladder.choose(backend, plan));
    REQUIRE_FALSE(missed.empty());
    // What was right there is used, and nothing of it is kept.
    const auto given_up = ladder.given_up(backend.capabilities());
    REQUIRE_FALSE(given_up.empty());
    for (const auto& [key, verdict] : given_up) {
        CAPTURE(key);
        CHECK(verdict.variant != missed);
        CHECK(std::ranges::count(chosen, verdict.variant) > 0);
        CHECK_FALSE(ladder.file(backend.capabilities()).find(key));
    }
    Ladder next(second.options(folder.path()));
    must(next.choose(backend, plan));
    CHECK(second.trials > 0);
    CHECK(next.given_up(backend.capabilities()).empty());
    for (const auto& [key, verdict] : given_up) CHECK(next.file(backend.capabilities()).find(key));
}

TEST_CASE("trials end with their time, and the next ladder goes on", "[tuning][vulkan]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        CAPTURE(backend->name());
        const TemporaryFolder folder;
        const graph::Plan plan = some_plan();
        for (const std::size_t expected : {1u, 2u, 2u}) {
            Counted counted;
            tuning::LadderOptions options = counted.options(folder.path());
            options.time.seconds = 1e-9;
            Ladder ladder(options);
            const auto chosen = must(ladder.choose(*backend, plan));
            const auto& verdicts = ladder.file(backend->capabilities()).verdicts();
            CHECK(verdicts.size() == expected);
            if (expected > 1) continue;
            // The larger product came first; the other one has no verdict yet and takes what was found for that, if it can.
            const std::string found = verdicts.begin()->second.variant;
            std::size_t tried = 0, untried = 0;
            for (std::size_t i = 0; i < chosen.size(); ++i) {
                const graph::Node& node = plan.graph.nodes()[i];
                if (!std::holds_alternative<graph::Linear>(node.op)) continue;
                const bool is_known = verdicts.contains(tuning::case_key(plan.graph, node, false));
                const auto kernels = vulkan::fitting_kernels(node.op, {plan.graph, backend->capabilities()});
                CHECK(chosen[i] == (vulkan::find_kernel(kernels, found) ? found : std::string()));
                ++(is_known ? tried : untried);
            }
            CHECK(tried > 0);
            CHECK(untried > 0);
        }
    }
}

const vulkan::KernelTraits* must_find(std::string_view op, std::string_view name) {
    const vulkan::KernelTraits* const kernel = vulkan::find_kernel(op, name);
    REQUIRE(kernel);
    return kernel;
}

/// A ladder whose first trials take a second each, the others `later` seconds.
class Slow final : public Ladder {
public:
    Slow(tuning::LadderOptions options, std::size_t first, double later)
        : Ladder(std::move(options)), first_(first), later_(later) {}

private:
    void inspect(Trial&) override { seconds_ += trials_++ < first_ ? 1 : later_; }
    double now() const override { return seconds_; }
    std::size_t first_, trials_ = 0;
    double later_, seconds_ = 0;
};

TEST_CASE("cooperative matrices and halves are not tried on a CPU when it is first used", "[tuning]") {
    const auto linear = [](std::string_view name) { return must_find("linear", name); };
    const vulkan::KernelList quick = {linear("row_vec4"), linear("tile_vec4"), linear("tile")};
    const vulkan::KernelList slow = {linear("matrix"), linear("matrix_small"), linear("tile_half")};
    vulkan::KernelList all = quick;
    all.insert(all.end(), slow.begin(), slow.end());
    vulkan::Capabilities device;
    device.type = "cpu";
    CHECK(tuning::worth_trying(all, device) == quick);
    CHECK(tuning::worth_trying({linear("matrix"), linear("tile")}, device) ==
          vulkan::KernelList{linear("matrix"), linear("tile")});
    device.type = "discrete";
    CHECK(tuning::worth_trying(all, device) == all);
}

TEST_CASE("what cannot be the fastest on a GPU is tried where nothing else is right", "[tuning]") {
    const auto kernels = [](std::initializer_list<std::string_view> names) {
        vulkan::KernelList list;
        for (const std::string_view name : names) list.push_back(vulkan::find_kernel("linear", name));
        return list;
    };
    struct Case {
        const char* type;
        vulkan::KernelList all, first, last_resort;
    };
    for (const auto& [type, all, first, last_resort] : {
             Case{"discrete", kernels({"tile_vec4", "tile", "tile_int8", "matrix", "tile_half", "matrix_split"}),
                  kernels({"tile_int8", "matrix", "matrix_split"}), kernels({"tile_vec4", "tile", "tile_half"})},
             Case{"integrated", kernels({"row_vec4", "row", "tile", "row_int8", "tile_int8", "split"}),
                  kernels({"row_vec4", "row", "row_int8", "split"}), kernels({"tile", "tile_int8"})},
             Case{"discrete",
                  kernels({"tile_vec4", "tile", "tile_half"}),
                  kernels({"tile_vec4", "tile", "tile_half"}),
                  {}},
             Case{"cpu", kernels({"row", "tile", "matrix"}), kernels({"row", "tile", "matrix"}), {}},
         }) {
        vulkan::Capabilities device;
        device.type = type;
        const auto order = tuning::trial_order(all, device);
        CHECK(order.first == first);
        CHECK(order.last_resort == last_resort);
    }
}

TEST_CASE("what is not tried takes what was found for the case that is nearest in size", "[tuning][vulkan]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        CAPTURE(backend->name());
        const auto plan_of = [](std::uint64_t rows, std::uint64_t out) {
            Graph graph;
            graph.mark_output(must(linear(graph, must(graph.input("x", DType::f32, {rows, 64})),
                                          must(graph.input("w", DType::f32, {out, 64})))));
            return graph::make_plan(std::move(graph), {.fuse = false});
        };
        const auto key_of = [](const graph::Plan& plan) {
            return tuning::case_key(plan.graph, plan.graph.nodes().front(), false);
        };
        const graph::Plan near = plan_of(512, 256), wide = plan_of(512, 8192), asked = plan_of(64, 256),
                          asked_wide = plan_of(64, 8192);
        const auto kernels =
            vulkan::fitting_kernels(asked.graph.nodes().front().op, {asked.graph, backend->capabilities()});
        REQUIRE(kernels.size() >= 2);
        const std::string first(kernels[0]->name), second(kernels[1]->name);
        struct NoTime final : Ladder {
            using Ladder::Ladder;
            double now() const override { return seconds += 10; }
            mutable double seconds = 0;
        };
        const auto choice = [&](const tuning::Verdict& of_near, const tuning::Verdict& of_wide,
                                const graph::Plan& plan) {
            const TemporaryFolder folder;
            Ladder ladder({.folder = folder.path()});
            tuning::VerdictFile& file = ladder.file(backend->capabilities());
            file.set(key_of(near), of_near);
            file.set(key_of(wide), of_wide);
            file.set("add x=f32[64,256]", {.variant = second});
            file.save();
            // Its time is over before the case is begun.
            NoTime hasty({.folder = folder.path(), .time = {.seconds = 1}});
            must(hasty.choose(*backend, plan_of(8, 8)));
            return must(hasty.choose(*backend, plan)).front();
        };
        const auto verdict = [](const std::string& variant, std::vector<Trial> trials = {}) {
            return tuning::Verdict{.variant = variant, .trials = std::move(trials)};
        };
        // What was taken for many rows may be none for few: then what was right there and the fastest.
        const Trial fastest{.variant = second, .us = 1}, slower{.variant = first, .us = 2};
        const Trial wrong{.variant = second, .us = 1, .fault = "wrong results"};
        CHECK(choice(verdict("of many rows", {slower, fastest}), verdict(first), asked) == second);
        CHECK(choice(verdict("of many rows", {slower, wrong}), verdict(second), asked) == first);
        CHECK(choice(verdict(first), verdict(second), asked) == first);
        CHECK(choice(verdict(second), verdict(first), asked) == second);
        CHECK(choice(verdict(first), verdict(second), asked_wide) == second);
        CHECK(choice(verdict(second), verdict(first), asked_wide) == first);
    }
}

TEST_CASE("what is for many rows is not taken for few because it was the fastest for many", "[tuning]") {
    const vulkan::KernelTraits *const row = must_find("linear", "row"), *const tile = must_find("linear", "tile"),
                                      *const tile_vec4 = must_find("linear", "tile_vec4"),
                                      *const split = must_find("linear", "split");
    REQUIRE(row->rows == vulkan::KernelTraits::Rows::few);
    REQUIRE(tile->rows == vulkan::KernelTraits::Rows::many);
    const TemporaryFolder folder;
    vulkan::Capabilities device;
    device.uuid = "of a test";
    tuning::VerdictFile file(folder.path(), device);
    file.set("linear x=f32[512,64] weight=f32[32,64] y=f32[512,32]", {.variant = "tile"});
    const std::string asked = "linear x=f32[1,64] weight=f32[32,64] y=f32[1,32]";
    CHECK(tuning::likely_variant(file, {}, asked, {row, tile}).empty());
    CHECK(tuning::likely_variant(file, {}, asked, {tile_vec4, tile}) == tile->name);
    // Nor what was slower there; but what is left where those for few rows were wrong.
    const std::string many = "linear x=f32[4096,64] weight=f32[32,64] y=f32[4096,32]";
    file.set(many, {.variant = "tile", .trials = {{.variant = "tile", .us = 1}, {.variant = "split", .us = 2}}});
    CHECK(tuning::likely_variant(file, {}, asked, {row, split}).empty());
    CHECK(tuning::likely_variant(file, {}, asked, {tile_vec4, split}) == split->name);
    file.set(
        "linear x=f32[8,64] weight=f32[32,64] y=f32[8,32]",
        {.variant = "tile", .trials = {{.variant = "row", .fault = "wrong results"}, {.variant = "tile", .us = 1}}});
    CHECK(tuning::likely_variant(file, {}, asked, {row, tile}) == tile->name);
}

TEST_CASE("what the nearest case took is tried first", "[tuning][vulkan]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        CAPTURE(backend->name());
        const auto plan_of = [](std::uint64_t rows) {
            Graph graph;
            graph.mark_output(must(linear(graph, must(graph.input("x", DType::f32, {rows, 64})),
                                          must(graph.input("w", DType::f32, {32, 64})))));
            return graph::make_plan(std::move(graph), {.fuse = false});
        };
        const graph::Plan near = plan_of(512), plan = plan_of(64);
        const auto key_of = [](const graph::Plan& of) {
            return tuning::case_key(of.graph, of.graph.nodes().front(), false);
        };
        const auto fitting =
            vulkan::fitting_kernels(plan.graph.nodes().front().op, {plan.graph, backend->capabilities()});
        const auto tried =
            tuning::trial_order(tuning::worth_trying(fitting, backend->capabilities()), backend->capabilities()).first;
        REQUIRE(tried.size() >= 2);
        for (const vulkan::KernelTraits* const likely : tried) {
            const TemporaryFolder folder;
            std::vector<std::string> names;
            Ladder ladder({.folder = folder.path(), .progress = [&](const tuning::Progress& progress) {
                               const std::string key = key_of(plan) + " ";
                               if (progress.trial.starts_with(key)) names.push_back(progress.trial.substr(key.size()));
                           }});
            ladder.file(backend->capabilities()).set(key_of(near), {.variant = std::string(likely->name)});
            must(ladder.choose(*backend, plan));
            REQUIRE(names.size() >= tried.size());
            CHECK(names.front() == likely->name);
            std::ranges::sort(names);
            CHECK(std::ranges::adjacent_find(names) == names.end());  // each once
        }
    }
}

TEST_CASE("a case is begun only if it may be done in time, given up after that, but never the first",
          "[tuning][vulkan]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        CAPTURE(backend->name());
        const graph::Plan plan = some_plan();
        Counted all;
        Ladder complete(all.options({}));
        must(complete.choose(*backend, plan));
        REQUIRE(complete.file(backend->capabilities()).verdicts().size() == 2);
        std::size_t first_case = 0;  // trials of it
        for (const auto& [key, verdict] : complete.file(backend->capabilities()).verdicts())
            first_case = std::max(first_case, verdict.trials.size());
        const auto seconds = static_cast<double>(first_case);

        struct Limit {
            double seconds, later;
            std::size_t begun;  // trials of the second case
        };
        // Too little for a second case like the first; enough for such a one, which takes longer, though, from its first trial on.
        for (const auto& [limit, later, begun] : {Limit{1.5 * seconds, 1, 0}, Limit{2.5 * seconds, 2 * seconds, 1}}) {
            CAPTURE(limit, later);
            const TemporaryFolder folder;
            // What is left out is what the next run begins with.
            for (const std::size_t expected : {1u, 2u}) {
                Counted counted;
                tuning::LadderOptions options = counted.options(folder.path());
                options.time.seconds = limit;
                Slow slow(options, first_case, later);
                const auto chosen = must(slow.choose(*backend, plan));
                const auto& verdicts = slow.file(backend->capabilities()).verdicts();
                CHECK(verdicts.size() == expected);
                // The case that was given up takes the one variant that was tried of it.
                for (std::size_t i = 0; i < chosen.size() && expected == 1 && begun == 1; ++i) {
                    const graph::Node& node = plan.graph.nodes()[i];
                    const auto kernels = vulkan::fitting_kernels(node.op, {plan.graph, backend->capabilities()});
                    if (kernels.size() < 2 || verdicts.contains(tuning::case_key(plan.graph, node, false))) continue;
                    const auto tried = tuning::worth_trying(kernels, backend->capabilities());
                    const auto first = tuning::trial_order(tried, backend->capabilities()).first;
                    const std::string& nearest = verdicts.begin()->second.variant;  // of the only other case
                    CHECK(chosen[i] == (vulkan::find_kernel(first, nearest) ? nearest : first.front()->name));
                }
                if (expected == 1) CHECK(counted.trials == first_case + begun);
            }
            // Nothing is taken for having ended the process.
            tuning::VerdictFile file(folder.path(), backend->capabilities());
            for (const auto& [key, verdict] : file.verdicts())
                for (const Trial& trial : verdict.trials) CHECK(trial.fault.empty());
        }
    }
}

TEST_CASE("a plan leaves those behind it a share of the time", "[tuning][vulkan]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        CAPTURE(backend->name());
        const graph::Plan plan = some_plan();
        Counted all;
        Ladder complete(all.options({}));
        must(complete.choose(*backend, plan));
        std::size_t first_case = 0;  // trials of it
        for (const auto& [key, verdict] : complete.file(backend->capabilities()).verdicts())
            first_case = std::max(first_case, verdict.trials.size());

        Graph graph;
        graph.mark_output(must(
            add(graph, must(graph.input("a", DType::f32, {64, 64})), must(graph.input("b", DType::f32, {64, 64})))));
        graph.mark_output(must(
            linear(graph, must(graph.input("x", DType::f32, {9, 64})), must(graph.input("w", DType::f32, {512, 64})))));
        const graph::Plan later = graph::make_plan(std::move(graph), {.fuse = false});
        for (const double share : {1.0, 0.5}) {
            CAPTURE(share);
            Counted counted;
            tuning::LadderOptions options = counted.options({});
            options.time.seconds = 2.5 * static_cast<double>(first_case);
            options.time.plan_share = share;
            Slow slow(options, first_case, 2 * static_cast<double>(first_case));
            must(slow.choose(*backend, plan));
            // The second case of the first plan, or the first one of the second.
            CHECK(counted.trials == first_case + (share == 1 ? 1 : 0));
            must(slow.choose(*backend, later));
            CHECK(counted.trials == first_case + 1);
        }
    }
}

TEST_CASE("an op's first case is tried before another op's second", "[tuning][vulkan]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        CAPTURE(backend->name());
        Graph graph;
        const auto product = [&](const char* name, std::uint64_t in, std::uint64_t out) {
            const std::string x = std::string("x") + name, w = std::string("w") + name;
            graph.mark_output(must(linear(graph, must(graph.input(x, DType::f32, {16, in})),
                                          must(graph.input(w, DType::f32, {out, in})))));
        };
        product("a", 128, 128);
        product("b", 128, 64);
        const auto q = must(graph.input("q", DType::f32, {1, 16, 2, 16}));
        graph.mark_output(must(attention(graph, q, q, q, {}, 0.25f)));
        graph.mark_output(must(add(graph, must(graph.input("l", DType::f32, {2, 4})),
                                   must(graph.input("r", DType::f32, {2, 4})))));  // too little to come first
        const graph::Plan plan = graph::make_plan(std::move(graph), {.fuse = false});
        const TemporaryFolder folder;
        std::vector<std::string> ops;
        for (int run = 0; run < 3; ++run) {
            Counted counted;
            tuning::LadderOptions options = counted.options(folder.path());
            options.time.seconds = 1e-9;  // one case
            Ladder ladder(options);
            must(ladder.choose(*backend, plan));
            for (const auto& [key, verdict] : ladder.file(backend->capabilities()).verdicts()) {
                const std::string op = key.substr(0, key.find(' '));
                if (static_cast<std::size_t>(std::ranges::count(ops, op)) < count_of(ladder, *backend, op))
                    ops.push_back(op);
            }
        }
        CHECK(ops == std::vector<std::string>{"linear", "attention", "linear"});
    }
}

TEST_CASE("what is timed on a GPU is checked with fewer columns and all its rows", "[tuning]") {
    const auto product = [](std::uint64_t rows, std::uint64_t in, std::uint64_t out, tuning::Fewer first) {
        Graph graph;
        graph.mark_output(must(linear(graph, must(graph.input("x", DType::f32, {rows, in})),
                                      must(graph.input("w", DType::f32, {out, in})))));
        const auto trial = must(tuning::make_trial_case(graph, graph.nodes()[0], 3e8, first));
        return trial.graph.shape(trial.results.at(0));
    };
    CHECK(product(512, 2048, 4096, tuning::Fewer::columns) == Shape{512, 256});
    CHECK(product(512, 8192, 4096, tuning::Fewer::columns) == Shape{128, 256});  // and then fewer rows
    CHECK(product(512, 2048, 4096, tuning::Fewer::rows) == Shape{64, 2048});
    CHECK(product(8, 2048, 4096, tuning::Fewer::columns) == Shape{8, 4096});
}

TEST_CASE("a device that calls itself a GPU finds right variants for what is more than it checks", "[tuning][vulkan]") {
    for (const std::string& index : vulkan_device_indices()) {
        if (!takes_case(index, 2)) continue;
        Interposer interposer(must(vulkan::open_loader()));
        interposer.claim_type(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
        HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index))});
        const auto instance = must(vulkan::Instance::adopt(interposer.get(), host.instance, false));
        const auto backend = must(vulkan::VulkanBackend::on(
            must(vulkan::Device::create(instance, instance->describe(host.physical))), {.cache_folder = {}}));
        CAPTURE(backend->name());
        Graph graph;
        graph.mark_output(must(linear(graph, must(graph.input("x", DType::f32, {40, 1024})),
                                      must(graph.input("w", DType::f32, {8192, 1024})))));
        const graph::Plan plan = graph::make_plan(std::move(graph), {.fuse = false});
        Ladder ladder({});
        must(ladder.choose(*backend, plan));
        const auto& verdicts = ladder.file(backend->capabilities()).verdicts();
        REQUIRE(verdicts.size() == 1);
        CHECK(verdicts.begin()->second.trials.size() >= 2);
        for (const Trial& trial : verdicts.begin()->second.trials) {
            CAPTURE(trial.variant);
            CHECK(trial.fault.empty());
            CHECK(trial.error > 0);
            CHECK(trial.us > 0);
        }
    }
}

TEST_CASE("a GPU that loses the end of a large grid is not believed for a small one", "[tuning][vulkan]") {
    for (const std::string& index : vulkan_device_indices()) {
        Interposer interposer(must(vulkan::open_loader()));
        interposer.claim_type(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
        HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index))});
        const auto instance = must(vulkan::Instance::adopt(interposer.get(), host.instance, false));
        const auto backend = must(vulkan::VulkanBackend::on(
            must(vulkan::Device::create(instance, instance->describe(host.physical))), {.cache_folder = {}}));
        CAPTURE(backend->name());
        interposer.lose_workgroups_behind(100);  // of tiles of 64 columns: 64 are checked, 128 are timed
        Graph graph;
        graph.mark_output(must(linear(graph, must(graph.input("x", DType::f32, {40, 1024})),
                                      must(graph.input("w", DType::f32, {8192, 1024})))));
        Ladder ladder({});
        const auto chosen = ladder.choose(*backend, graph::make_plan(std::move(graph), {.fuse = false}));
        REQUIRE_FALSE(chosen);
        CHECK_THAT(chosen.error().message, ContainsSubstring("no variant") && ContainsSubstring("tile: wrong results"));
    }
}

TEST_CASE("tuning tries the exact shapes whatever is known", "[tuning][vulkan]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        const TemporaryFolder folder;
        const graph::Plan plan = some_plan();
        Counted quick, thorough;
        must(Ladder(quick.options(folder.path())).choose(*backend, plan));
        Ladder ladder(thorough.options(folder.path(), true));
        must(ladder.choose(*backend, plan));
        CHECK(thorough.trials >= quick.trials);  // also of the references
        CHECK(ladder.file(backend->capabilities()).find(tuning::case_key(plan.graph, plan.graph.nodes()[0], true)));
        CHECK(ladder.file(backend->capabilities()).verdicts().size() == 4);
    }
}

TEST_CASE("a variant that is wrong is never chosen, however fast", "[tuning][vulkan]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        const graph::Plan plan = some_plan();
        std::set<std::string> liars;
        for (const graph::Node& node : plan.graph.nodes())
            for (const auto* kernel : vulkan::fitting_kernels(node.op, {plan.graph, backend->capabilities()}))
                liars.insert(std::string(kernel->name));
        for (const std::string& liar : liars) {
            Suspicious ladder({}, [&](const Trial& trial) { return trial.variant == liar; });
            for (const std::string& variant : must(ladder.choose(*backend, plan))) CHECK(variant != liar);
        }
    }
}

TEST_CASE("threads that share a ladder try each case once, and what is known waits for nobody",
          "[tuning][vulkan][threads]") {
    if (vulkan_backends().empty()) return;
    vulkan::VulkanBackend& backend = *vulkan_backends().back();
    const graph::Plan plan = some_plan();
    Graph small;
    small.mark_output(
        must(linear(small, must(small.input("x", DType::f32, {2, 8})), must(small.input("w", DType::f32, {4, 8})))));
    const graph::Plan known = graph::make_plan(std::move(small), {.fuse = false});

    Counted alone;
    const auto expected = must(Ladder(alone.options({})).choose(backend, plan)).size();

    std::promise<void> is_trying, may_go_on;
    std::atomic<std::size_t> trials = 0;
    bool holds = false;
    Ladder ladder({.folder = {}, .progress = [&](const tuning::Progress& p) {
                       if (p.trial.empty()) return;
                       ++trials;
                       if (!std::exchange(holds, false)) return;
                       is_trying.set_value();
                       may_go_on.get_future().wait();
                   }});
    must(ladder.choose(backend, known));
    trials = 0;
    holds = true;
    const auto choose = [&](const graph::Plan& of) { return ladder.choose(backend, of); };
    auto first = std::async(std::launch::async, choose, plan);
    is_trying.get_future().wait();
    auto second = std::async(std::launch::async, choose, plan);  // the same cases: waits, and tries nothing
    auto third = std::async(std::launch::async, choose, known);
    const bool is_free = third.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
    const bool waits = second.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout;
    may_go_on.set_value();
    CHECK(is_free);
    CHECK(waits);
    CHECK(must(third.get()).size() == known.graph.nodes().size());
    const auto chosen = must(first.get());
    CHECK(chosen.size() == expected);
    CHECK(must(second.get()) == chosen);
    CHECK(trials == alone.trials);
}

TEST_CASE("threads may be the first to ask a ladder", "[tuning][vulkan][threads]") {
    if (vulkan_backends().empty()) return;
    constexpr std::size_t kWorkers = 2;
    const graph::Plan plan = some_plan();
    Ladder ladder({});
    std::array<std::vector<vulkan::ChosenVariants>, kWorkers> chosen;
    {
        std::latch begin(kWorkers);
        std::vector<std::jthread> threads;
        for (auto& of_thread : chosen)
            threads.emplace_back([&] {
                begin.arrive_and_wait();
                for (vulkan::VulkanBackend* const backend : vulkan_backends())
                    if (const auto found = ladder.choose(*backend, plan)) of_thread.push_back(*found);
            });
    }
    CHECK(chosen[0].size() == vulkan_backends().size());
    CHECK(chosen[1] == chosen[0]);
}

TEST_CASE("a ladder is asked for what it knows while another thread finds out more", "[tuning][vulkan][threads]") {
    if (vulkan_backends().empty()) return;
    vulkan::VulkanBackend& backend = *vulkan_backends().back();
    const auto plan_of = [](std::initializer_list<std::uint64_t> widths) {
        Graph graph;
        const auto x = must(graph.input("x", DType::f32, {2, 8}));
        for (const std::uint64_t width : widths)
            graph.mark_output(
                must(linear(graph, x, must(graph.input("w" + std::to_string(width), DType::f32, {width, 8})))));
        return graph::make_plan(std::move(graph), {.fuse = false});
    };
    const graph::Plan known = plan_of({32}), further = plan_of({4, 8, 16, 64, 128, 256, 512, 1024});
    Ladder ladder({});
    const auto expected = must(ladder.choose(backend, known));
    std::atomic<bool> is_done = false;
    std::jthread other([&] {
        (void)ladder.choose(backend, further);
        is_done = true;
    });
    std::size_t failures = 0;
    while (!is_done) {
        const auto chosen = ladder.choose(backend, known);
        failures += !chosen || *chosen != expected;
    }
    CHECK(failures == 0);
}

TEST_CASE("a reference is the last resort of a device that is a CPU", "[tuning][vulkan]") {
    const std::string reference = "tile";
    REQUIRE(vulkan::find_kernel("linear", reference)->is_reference);
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        const graph::Plan plan = some_plan();
        const auto is_for_cpus = [](const vulkan::KernelTraits* k) { return k->device == vulkan::DeviceClass::cpu; };
        const auto has_own = [&](const graph::Node& node) {
            return std::ranges::any_of(vulkan::fitting_kernels(node.op, {plan.graph, backend->capabilities()}),
                                       is_for_cpus);
        };
        if (!std::ranges::all_of(plan.graph.nodes(), has_own)) continue;  // a GPU
        for (const bool are_wrong : {false, true}) {
            CAPTURE(backend->name(), are_wrong);
            Suspicious ladder({}, [&](const Trial& trial) { return are_wrong && trial.variant != reference; });
            const auto chosen = must(ladder.choose(*backend, plan));
            CHECK((std::ranges::count(chosen, reference) > 0) == are_wrong);
            for (const auto& [key, verdict] : ladder.file(backend->capabilities()).verdicts())
                CHECK(std::ranges::any_of(verdict.trials, [&](const Trial& t) { return t.variant == reference; }) ==
                      are_wrong);
        }
    }
}

TEST_CASE("a device on which every variant is wrong is an error", "[tuning][vulkan][errors]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        Suspicious ladder({}, [](const Trial&) { return true; });
        const auto chosen = ladder.choose(*backend, some_plan());
        REQUIRE_FALSE(chosen);
        CHECK(chosen.error().code == ErrorCode::Vulkan);
        CHECK_THAT(chosen.error().message, ContainsSubstring("linear") && ContainsSubstring("tile: wrong results"));
    }
}

TEST_CASE("variants can be forced by name", "[tuning][vulkan]") {
    CHECK(vulkan::NamedVariants::create({{"linear", "tile"}}, nullptr));
    const auto no_op = vulkan::NamedVariants::create({{"linaer", "tile"}}, nullptr);
    REQUIRE_FALSE(no_op);
    CHECK_THAT(no_op.error().message, ContainsSubstring("linear"));
    const auto one_kernel = vulkan::NamedVariants::create({{"add", "elements"}}, nullptr);
    REQUIRE_FALSE(one_kernel);
    CHECK_THAT(one_kernel.error().message, ContainsSubstring("add"));
    const auto no_variant = vulkan::NamedVariants::create({{"linear", "fastest"}}, nullptr);
    REQUIRE_FALSE(no_variant);
    CHECK_THAT(no_variant.error().message, ContainsSubstring("tile"));

    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        const graph::Plan plan = some_plan();
        const auto named = must(vulkan::NamedVariants::create({{"linear", "row"}}, nullptr));
        const auto chosen = must(named->choose(*backend, plan));
        const auto references = must(vulkan::ReferenceVariants().choose(*backend, plan));
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            const bool is_linear = graph::op_name(plan.graph.nodes()[i].op) == "linear";
            CHECK(chosen[i] == (is_linear ? "row" : ""));
            CHECK(references[i] == (is_linear ? "tile" : "elements"));
        }
    }
}

TEST_CASE("every op has one reference, which needs nothing, and names no two kernels alike", "[tuning]") {
    REQUIRE(vulkan::kernel_catalogue().size() == std::variant_size_v<graph::Op>);
    for (const vulkan::OpKernels& all : vulkan::kernel_catalogue()) {
        CAPTURE(all.op);
        CHECK(std::ranges::count(all.kernels, true, &vulkan::KernelTraits::is_reference) == 1);
        for (const vulkan::KernelTraits* kernel : all.kernels) {
            CAPTURE(kernel->name);
            CHECK(std::ranges::count(all.kernels, kernel->name, &vulkan::KernelTraits::name) == 1);
            if (!kernel->is_reference) continue;
            CHECK(kernel->needs == 0);
            CHECK(kernel->storage_buffers == vulkan::kFewStorageBuffers);
            CHECK(kernel->device == vulkan::DeviceClass::gpu);
            CHECK(kernel->rounding == graph::Rounding::none);
        }
    }
}

TEST_CASE("a trial's product is cut to what can be tried in a moment", "[tuning]") {
    Graph graph;
    const auto x = must(graph.input("x", DType::f16, {2, 300, 512}));
    const auto w = must(graph.input("w", DType::f16, {50000, 512}));
    const auto b = must(graph.input("b", DType::f16, {50000}));
    must(linear(graph, x, w, b));
    const auto trial = must(tuning::make_trial_case(graph, graph.nodes()[0], 1e8));
    const auto& op = std::get<graph::Linear>(trial.graph.nodes()[0].op);
    const auto work = trial.graph.shape(op.x).row_count() * trial.graph.shape(op.weight).element_count();
    CHECK(work <= 100'000'000);
    CHECK(work > 20'000'000);
    CHECK(trial.graph.shape(op.x).back() == 512);
    CHECK(trial.graph.shape(op.epilogue.bias) == Shape{trial.graph.shape(op.weight)[0]});
    CHECK(trial.graph.shape(op.y) == Shape{trial.graph.shape(op.x)[0], trial.graph.shape(op.weight)[0]});
    CHECK(trial.graph.dtype(op.x) == DType::f16);
}

TEST_CASE("the trial case of caches in pages reads and writes all that its table has room for", "[tuning][pages]") {
    Graph graph;
    const auto query = must(graph.input("query", DType::f32, {2, 1, 4, 8}));
    const auto cache = must(graph.state("cache", DType::f32, {3, graph::kPageLen, 2, 8}));
    const auto x = must(graph.input("x", DType::f32, {2, 1, 2, 8}));
    const auto starts = must(graph.input("starts", DType::i32, {2}));
    const auto pages = must(graph.input("pages", DType::i32, {2, 2}));
    must(cache_append(graph, x, starts, cache, pages));
    must(decode_attention(graph, query, cache, cache, {.causal = true, .starts = starts}, 1, 128, 0, pages));
    for (const graph::Node& node : graph.nodes()) {
        const auto trial = must(tuning::make_trial_case(graph, node, 1e8));
        std::size_t found = 0;
        graph::for_each_operand(
            trial.graph.nodes()[0].op, [&](std::string_view name, graph::Value value, graph::Access) {
                for (const auto& [of, contents] : trial.contents)
                    if (of == value && name == "pages") {
                        ++found;
                        CHECK(std::get<std::vector<std::int32_t>>(contents) == std::vector<std::int32_t>{0, 1, 2, 0});
                    } else if (of == value && name == "starts" && graph::op_name(node.op) == "decode_attention") {
                        CHECK(std::get<std::vector<std::int32_t>>(contents) == std::vector<std::int32_t>(2, 127));
                    }
            });
        CHECK(found == 1);
        CHECK(tuning::case_key(graph, node, true).find(" pages=i32[2,2]") != std::string::npos);
    }
}

TEST_CASE("the trial case of a step of a search is its first one", "[tuning]") {
    cases::CaseBuilder builder(cases::CaseBuilder::Contents::none);
    must(must(cases::families_of("beam_step", 2).front()->make({2, 3}, DType::f32)).build(builder));
    const auto trial = must(tuning::make_trial_case(builder.graph, builder.graph.nodes().back(), 1e8));
    const auto& op = std::get<graph::BeamStep>(trial.graph.nodes()[0].op);
    std::vector<std::int32_t> state;
    for (const auto& [value, contents] : trial.contents)
        if (value == op.state) state = std::get<std::vector<std::int32_t>>(contents);
    REQUIRE(state.size() >= 5);
    state.resize(5);
    CHECK(state == std::vector<std::int32_t>{1, 1, 0, 0, static_cast<std::int32_t>(op.max_steps)});
}

TEST_CASE("the trial case of a layer with states goes on from them with all its tokens", "[tuning]") {
    const bool is_scan = GENERATE(false, true);
    CAPTURE(is_scan);
    Graph graph;
    const auto slots = must(graph.input("slots", DType::i32, {2, 2}));
    const graph::StatePlace place = {.starts = must(graph.input("starts", DType::i32, {2})),
                                     .counts = must(graph.input("counts", DType::i32, {2})),
                                     .slots = slots};
    const auto x = must(graph.input("x", DType::f32, {2, 5, 24}));
    const auto state = must(graph.state("state", DType::f32, {3, 1, 8, 8}));
    graph.mark_output(is_scan ? must(selective_scan(graph, x, must(graph.input("steps", DType::f32, {2, 5, 1})),
                                                    must(graph.input("rates", DType::f32, {3, 1})), state, place, {}))
                              : must(gated_delta_rule(graph, x, must(graph.input("gates", DType::f32, {2, 5, 2})),
                                                      must(graph.input("decay", DType::f32, {2, 1})), state, place,
                                                      {.key_heads = 1})));
    const auto trial = must(tuning::make_trial_case(graph, graph.nodes().back(), 1e8));
    std::map<std::string, std::vector<std::int32_t>, std::less<>> integers;
    const auto note = [&](std::string_view name, graph::Value operand, graph::Access) {
        for (const auto& [value, contents] : trial.contents)
            if (const auto* const found = std::get_if<std::vector<std::int32_t>>(&contents); found && value == operand)
                integers[std::string(name)] = *found;
    };
    graph::for_each_operand(trial.graph.nodes()[0].op, note);
    CHECK(integers["starts"] == std::vector<std::int32_t>{1, 1});
    CHECK(integers["counts"].size() == 2);
    CHECK(std::ranges::all_of(integers["counts"], [](std::int32_t count) { return count >= 5; }));
    CHECK(integers["slots"] == std::vector<std::int32_t>{0, 0, 1, 1});
    CHECK(trial.results.size() == 2);
}

/// One product with a weight of zeros in the format.
Graph quantized_product(DType format, const Shape& x, const Shape& weight) {
    const std::vector<float> values(weight.element_count());
    const TensorData zeros{
        .dtype = DType::f32, .shape = weight, .bytes = std::as_bytes(std::span(values)), .owner = {}};
    Graph graph;
    const auto w = must(graph.weight("w", must(quantized(zeros, format)), format));
    graph.mark_output(must(linear(graph, must(graph.input("x", DType::f32, x)), w)));
    return graph;
}

TEST_CASE("the trial case of a product with blocks has blocks, and not zeros", "[tuning][quantized]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    CAPTURE(to_string(format));
    const Graph graph = quantized_product(format, {4, 100, 512}, {2000, 512});
    const auto trial = must(tuning::make_trial_case(graph, graph.nodes()[0], 1e7));
    const auto& op = std::get<graph::Linear>(trial.graph.nodes()[0].op);
    const TensorData& blocks = trial.graph.tensor(op.weight).data[0];
    CHECK(blocks.shape == Shape{250, 512});
    REQUIRE(blocks.dtype == format);
    REQUIRE(blocks.bytes.size() == bytes_of(format, blocks.shape.element_count()));
    std::vector<double> rows(2 * 512);
    must(convert(format, blocks.bytes, 0, std::span(rows)));
    const auto first = std::span(rows).first(512), second = std::span(rows).last(512);
    CHECK(std::ranges::max(first) > 0.5);
    CHECK_FALSE(std::ranges::equal(first, second));
}

TEST_CASE("every variant for quantised weights passes its trial", "[tuning][quantized][vulkan]") {
    const DType format = GENERATE(DType::q4_0, DType::q6_k);
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        CAPTURE(backend->name(), to_string(format));
        if (!takes_case(*backend, 2)) continue;
        const graph::Plan plan = graph::make_plan(quantized_product(format, {2, 256}, {40, 256}), {.fuse = false});
        Ladder ladder{{}};
        const auto chosen = must(ladder.choose(*backend, plan));
        CHECK_FALSE(chosen.at(0).empty());
        for (const auto& [key, verdict] : ladder.file(backend->capabilities()).verdicts())
            for (const Trial& trial : verdict.trials) {
                CAPTURE(key, trial.variant);
                CHECK(trial.fault.empty());
            }
    }
}

}  // namespace
}  // namespace vkformer::tests
