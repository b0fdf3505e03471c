// SPDX-License-Identifier: MIT
#include "bench/measure.hpp"

#include <chrono>

#include "cpu/backend.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using bench::Cache;
using bench::CheckedCase;
using bench::Measurement;
using graph::Value;

/// A program whose results have one element that is wrong.
class WrongProgram final : public graph::Program {
public:
    WrongProgram(std::unique_ptr<graph::Program> right, double by) : right_(std::move(right)), by_(by) {}
    Result<void> write(Value tensor, std::span<const float> values) override { return right_->write(tensor, values); }
    Result<void> write(Value tensor, std::span<const std::int32_t> values) override {
        return right_->write(tensor, values);
    }
    Result<void> read(Value tensor, std::span<float> values) override { return spoil(tensor, values); }
    Result<void> read(Value tensor, std::span<double> values) override { return spoil(tensor, values); }
    Result<void> read(Value tensor, std::span<std::int32_t> values) override { return spoil(tensor, values); }
    Result<void> submit(std::uint32_t times) override { return right_->submit(times); }
    Result<void> wait() override { return right_->wait(); }
    const graph::Plan& plan() const noexcept override { return right_->plan(); }

private:
    template <class T>
    Result<void> spoil(Value tensor, std::span<T> values) {
        auto read = right_->read(tensor, values);
        values[values.size() / 2] += static_cast<T>(by_);
        return read;
    }
    std::unique_ptr<graph::Program> right_;
    double by_;
};

class WrongBackend final : public graph::Backend {
public:
    explicit WrongBackend(double by) : by_(by) {}
    std::string name() const override { return "wrong"; }
    std::shared_ptr<graph::TensorStore> make_store() override { return right_->make_store(); }
    Result<std::unique_ptr<graph::Program>> compile(graph::Plan plan, std::shared_ptr<graph::TensorStore> weights,
                                                    std::shared_ptr<graph::TensorStore> states) override {
        auto program = must(right_->compile(std::move(plan), std::move(weights), std::move(states)));
        return std::unique_ptr<graph::Program>(std::make_unique<WrongProgram>(std::move(program), by_));
    }

private:
    std::unique_ptr<graph::Backend> right_ = cpu::make_cpu_backend<float>();
    double by_;
};

cases::Case only_case(const std::string& op, const std::string& shape) {
    return must(cases::choose_cases({.ops = {op}, .shapes = {shape}})).at(0);
}

Measurement measure_on(graph::Backend& backend, const cases::Case& c, Cache cache = Cache::hot) {
    return must(bench::measure(must(CheckedCase::make(c)), {.backend = &backend},
                               {.cache = cache, .cold_bytes = 10'000, .stopping = {.max_seconds = 0.02}}));
}

TEST_CASE("what is right is timed, over as many operands as were asked for", "[bench][measure]") {
    WrongBackend backend(0);
    const cases::Case c = only_case("add", "5x50");  // 3000 bytes
    const Measurement hot = measure_on(backend, c);
    CHECK(hot.check.right());
    CHECK(hot.copies == 1);
    CHECK(hot.wall_ns.runs > 0);
    CHECK(hot.device_ns.runs == 0);
    CHECK(measure_on(backend, c, Cache::cold).copies == 4);
}

TEST_CASE("a warm-up takes its time and is not counted", "[bench][measure]") {
    WrongBackend backend(0);
    const cases::Case c = only_case("add", "5x50");
    const CheckedCase checked = must(CheckedCase::make(c));
    const auto start = std::chrono::steady_clock::now();
    const Measurement measured =
        must(bench::measure(checked, {.backend = &backend},
                            {.cache = Cache::hot, .stopping = {.max_seconds = 0.001}, .warm_up_seconds = 0.1}));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    CHECK(taken.count() > 0.1);
    CHECK(measured.wall_ns.runs > 0);
    CHECK(bench::warm_up_seconds_for(backend) == 0);
}

TEST_CASE("what is wrong is not timed", "[bench][measure]") {
    WrongBackend backend(1);
    for (const auto& [op, shape] : {std::pair("add", "5x50"), {"linear", "3x8x4"}, {"arg_max", "3x40"}}) {
        CAPTURE(op);
        const Measurement measured = measure_on(backend, only_case(op, shape));
        CHECK_FALSE(measured.check.right());
        CHECK_FALSE(measured.check.failure.empty());
        CHECK(measured.wall_ns.runs == 0);
    }
    WrongBackend barely(1e-5);  // 20 times the rounding error of a sum, in one element of 250
    CHECK_FALSE(measure_on(barely, only_case("add", "5x50")).check.right());
}

TEST_CASE("cases of several nodes and of states are right and timed on every Vulkan device", "[bench][measure]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        CAPTURE(backend->name());
        for (const char* const op : {"decode_attention", "cache_reorder", "beam_step", "rope"}) {
            const cases::Case c = must(cases::choose_cases({.ops = {op}})).at(0);
            const Measurement measured = must(bench::measure(must(CheckedCase::make(c)), {.backend = backend},
                                                             {.cache = Cache::hot, .stopping = {.max_seconds = 0.01}}));
            CAPTURE(op, measured.check.failure);
            CHECK(measured.check.right());
            CHECK(measured.wall_ns.runs > 0);
        }
    }
}

}  // namespace
}  // namespace vkformer::tests
