// SPDX-License-Identifier: MIT
/// The shaders that measure limits, on every driver. They check themselves; rates are looked at only for being there.
#include "bench/limits.hpp"

#include "bench_shader_table.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using namespace bench;

/// An old shader compiler leaves out what it does not know.
bool is_built(const vulkan::ShaderFamily& family) { return family.find(vulkan::Storage::single) != nullptr; }

TEST_CASE("the limits of every Vulkan device, with little time for them", "[bench][limits]") {
    for (vulkan::VulkanBackend* const backend : vulkan_backends()) {
        CAPTURE(backend->name());
        const vulkan::Capabilities& c = backend->device()->capabilities();
        std::vector<std::string> begun;
        const auto limits = must(
            measure_limits(backend->device(), {.stopping = {.max_seconds = 0.01, .min_runs = 1},
                                               .seconds = 0.1,
                                               .progress = [&](std::string_view name) { begun.emplace_back(name); }}));
        REQUIRE(limits.size() == kLimits.size());
        CHECK(begun == std::vector<std::string>(kLimits.begin(), kLimits.end()));
        for (std::size_t i = 0; i < limits.size(); ++i) {
            const Limit& limit = limits[i];
            CAPTURE(limit.name, limit.missing);
            CHECK(limit.name == kLimits[i]);
            const bool lacks =
                (limit.name == kPeakF16 && !c.float16) ||
                (limit.name == kPeakIntDot && (!c.integer_dot || !is_built(vulkan::modules::bench_peak_int_dot))) ||
                (limit.name == kPeakMatrixF16 &&
                 (!c.cooperative_matrix || !is_built(vulkan::modules::bench_matrix_peak)));
            CHECK(limit.missing.empty() == !lacks);
            CHECK((limit.value > 0) == !lacks);
            CHECK((limit.ns.runs > 0) == !lacks);
            CHECK((find_limit(limits, limit.name) == &limit) == !lacks);
        }
        const auto unknown = measure_limit(backend->device(), "speed", {});
        REQUIRE_FALSE(unknown);
        CHECK(unknown.error().code == ErrorCode::InvalidArgument);
    }
}

}  // namespace
}  // namespace vkformer::tests
