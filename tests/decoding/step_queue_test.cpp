// SPDX-License-Identifier: MIT
#include "decoding/run_script.hpp"

#include <catch2/catch.hpp>

#include "cpu/backend.hpp"

namespace vkformer::tests {
namespace {

/// A device of which no more than this is asked here.
class QueuedBackend final : public graph::Backend {
public:
    std::string name() const override { return "queued"; }
    std::shared_ptr<graph::TensorStore> make_store() override { return nullptr; }
    Result<std::unique_ptr<graph::Program>> compile(graph::Plan, std::shared_ptr<graph::TensorStore>,
                                                    std::shared_ptr<graph::TensorStore>) override {
        return Error{ErrorCode::MissingFeature, name()};
    }
};

}  // namespace

TEST_CASE("steps are queued on devices, and run one at a time on the CPU", "[decoding]") {
    using decoding::StepQueue;
    const QueuedBackend device;
    StepQueue doubling(StepQueue::Growth::doubling, device), timed(StepQueue::Growth::by_time, device, 0.05);
    CHECK(doubling.count() == 4);
    doubling.took(4, 1);
    CHECK(doubling.count() == 8);
    CHECK(timed.count() == 1);
    timed.took(1, 0.01);
    CHECK(timed.count() == 5);
    timed.took(5, 1e-9);
    CHECK(timed.count() == StepQueue::kMost);
    const auto cpu = cpu::make_cpu_backend<float>();
    for (const auto growth : {StepQueue::Growth::doubling, StepQueue::Growth::by_time}) {
        StepQueue queue(growth, *cpu);
        CHECK(queue.count() == 1);
        queue.took(1, 1e-9);
        CHECK(queue.count() == 1);
    }
}

}  // namespace vkformer::tests
