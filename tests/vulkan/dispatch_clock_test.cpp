// SPDX-License-Identifier: MIT
#include "vulkan/dispatch_clock.hpp"

#include <random>

#include "support/catch.h"

namespace vkformer::tests {
namespace {

using vulkan::DispatchClock;

constexpr double kBudgetUs = 2000;

/// Equal dispatches on a device of its own time, and slices of them as a session would cut them.
class Device {
public:
    Device(double step_us, double disturbed, double factor)
        : step_us_(step_us), disturbed_(disturbed), factor_(factor), kind_(clock_.number({})) {}

    /// What a slice of at most kBudgetUs takes.
    double run_slice() {
        std::vector<DispatchClock::Share> slice{{kind_}};
        if (const double known = clock_.expected_us(kind_); known >= 0)
            while (clock_.likely_us(known * static_cast<double>(slice.size() + 1)) <= kBudgetUs)
                slice.push_back({kind_});
        double us = step_us_ * static_cast<double>(slice.size());
        if (std::uniform_real_distribution<>(0, 1)(random_) < disturbed_) us *= factor_;
        clock_.learn(slice, us);
        return us;
    }

private:
    DispatchClock clock_;
    double step_us_, disturbed_, factor_;
    DispatchClock::Kind kind_;
    std::mt19937 random_{7};
};

struct Punctuality {
    double late = 0;  ///< share of the slices that took longer than the budget
    double mean = 0;  ///< share of the budget that slices took
};

Punctuality run_slices(Device device, int slices = 4000) {
    for (int i = 0; i < 400; ++i) device.run_slice();
    Punctuality outcome;
    for (int i = 0; i < slices; ++i) {
        const double us = device.run_slice();
        outcome.late += us > kBudgetUs ? 1.0 / slices : 0;
        outcome.mean += us / kBudgetUs / slices;
    }
    return outcome;
}

TEST_CASE("slices keep to their budget on a quiet device, and use it", "[vulkan][guest][clock]") {
    const Punctuality quiet = run_slices(Device(50, 0, 1));
    CHECK(quiet.late == 0);
    CHECK(quiet.mean > 0.9);
}

TEST_CASE("where slices are disturbed, room is left for it", "[vulkan][guest][clock]") {
    const Punctuality disturbed = run_slices(Device(50, 0.2, 2));  // every fifth takes twice as long
    CHECK(disturbed.late < 0.07);
    CHECK(disturbed.mean > 0.35);
}

}  // namespace
}  // namespace vkformer::tests
