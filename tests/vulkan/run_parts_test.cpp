// SPDX-License-Identifier: MIT
// How a run is cut into parts, and a grid into what Vulkan dispatches.
#include "vulkan/run_parts.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "shader_table.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "vulkan/bound_dispatch.hpp"
#include "vulkan/shader_module.hpp"

namespace vkformer::tests {
namespace {

using vulkan::DispatchCost;
using vulkan::RunPart;
using vulkan::RunPlace;

constexpr double kBudgetUs = 100;

std::vector<RunPart> cut(const std::vector<DispatchCost>& costs) {
    return vulkan::cut_run([&](std::uint32_t dispatch) { return costs[dispatch]; },
                           static_cast<std::uint32_t>(costs.size()), kBudgetUs);
}

std::vector<RunPlace> ends_of(const std::vector<RunPart>& parts) {
    std::vector<RunPlace> ends;
    for (const RunPart& part : parts) ends.push_back(part.last);
    return ends;
}

TEST_CASE("dispatches that fit together are a part, and none is left out", "[vulkan][runs]") {
    const auto parts = cut({{.us = 40}, {.us = 60}, {.us = 1}, {.us = 99}, {.us = 0}, {.us = 1}});
    CHECK(ends_of(parts) == std::vector<RunPlace>{{2, 0}, {5, 0}, {6, 0}});
    CHECK(parts[0].expected_us == 100);
    CHECK_FALSE(parts[1].exceeds);
    CHECK(ends_of(cut({})) == std::vector<RunPlace>{{0, 0}});
}

TEST_CASE("a dispatch of unknown time is alone", "[vulkan][runs]") {
    CHECK(ends_of(cut({{.us = 1}, {.us = -1}, {.us = 1}, {.us = 1}})) == std::vector<RunPlace>{{1, 0}, {2, 0}, {4, 0}});
}

TEST_CASE("a dispatch that is longer than the budget is cut where it can be", "[vulkan][runs]") {
    // 250 µs in 10 workgroups: 4 of them fit into 100, and behind the 25 of another dispatch 3.
    CHECK(ends_of(cut({{.us = 250, .groups = 10, .is_cuttable = true}})) ==
          std::vector<RunPlace>{{0, 4}, {0, 8}, {1, 0}});
    CHECK(ends_of(cut({{.us = 25}, {.us = 250, .groups = 10, .is_cuttable = true}, {.us = 50}})) ==
          std::vector<RunPlace>{{1, 3}, {1, 7}, {2, 0}, {3, 0}});
    // Not at all; and not because it is the second of a part.
    const auto parts = cut({{.us = 10}, {.us = 250, .groups = 10}});
    CHECK(ends_of(parts) == std::vector<RunPlace>{{1, 0}, {2, 0}});
    CHECK(parts[1].exceeds);
    CHECK(ends_of(cut({{.us = 60}, {.us = 60, .groups = 10, .is_cuttable = true}})) ==
          std::vector<RunPlace>{{1, 0}, {2, 0}});
    // A workgroup that takes longer than the budget comes alone.
    const auto alone = cut({{.us = 300, .groups = 2, .is_cuttable = true}});
    CHECK(ends_of(alone) == std::vector<RunPlace>{{0, 1}, {1, 0}});
    CHECK(alone[0].exceeds);
}

TEST_CASE("a part that goes on with what another program began leaves it its time", "[vulkan][runs]") {
    const std::vector<DispatchCost> costs{{.us = 50}, {.us = 50}};
    const auto cost = [&](std::uint32_t dispatch) { return costs[dispatch]; };
    CHECK(vulkan::next_part(cost, 2, {}, kBudgetUs, 50, false).last == RunPlace{1, 0});
    CHECK(vulkan::next_part(cost, 2, {}, kBudgetUs, 60, false).last == RunPlace{0, 0});
    CHECK(vulkan::next_part(cost, 2, {}, kBudgetUs, 60, false).is_full);
}

/// Which workgroups were dispatched, and how often.
struct Recorder {
    std::array<std::uint32_t, 3> groups{};
    std::vector<int> seen;
    std::size_t dispatches = 0;
    std::array<std::uint32_t, 2> first{};  // PART_OF_GRID

    // As shaders/lib/grid.glsl does it.
    void mark(std::array<std::uint32_t, 3> size) {
        ++dispatches;
        for (std::uint32_t z = 0; z < size[2]; ++z)
            for (std::uint32_t y = 0; y < size[1]; ++y)
                for (std::uint32_t x = 0; x < size[0]; ++x) {
                    const std::uint32_t workgroup = first[0] + y * size[0] + x, plane = first[1] + z;
                    REQUIRE((workgroup < groups[0] * groups[1] && plane < groups[2]));
                    ++seen[workgroup + groups[0] * groups[1] * plane];
                }
    }
};
Recorder* recorder = nullptr;  // a table's functions know nothing but their arguments

vulkan::DeviceTable recording_table() {
    vulkan::DeviceTable table;
    table.vkCmdBindPipeline = [](VkCommandBuffer, VkPipelineBindPoint, VkPipeline) {};
    table.vkCmdBindDescriptorSets = [](VkCommandBuffer, VkPipelineBindPoint, VkPipelineLayout, std::uint32_t,
                                       std::uint32_t, const VkDescriptorSet*, std::uint32_t, const std::uint32_t*) {};
    table.vkCmdPushConstants = [](VkCommandBuffer, VkPipelineLayout, VkShaderStageFlags, std::uint32_t offset,
                                  std::uint32_t, const void* bytes) {
        REQUIRE(offset == 0);
        std::memcpy(&recorder->first, bytes, sizeof recorder->first);
    };
    table.vkCmdDispatch = [](VkCommandBuffer, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
        recorder->mark({x, y, z});
    };
    return table;
}

TEST_CASE("parts of a grid are its workgroups, each once", "[vulkan][runs]") {
    const auto table = recording_table();
    Recorder recording;
    recorder = &recording;
    vulkan::BoundDispatch dispatch;
    dispatch.push.set(std::uint32_t{7});
    std::mt19937 random(3);
    for (const std::array<std::uint32_t, 3> groups :
         {std::array<std::uint32_t, 3>{7, 1, 1}, {4, 5, 1}, {1, 6, 1}, {3, 2, 4}, {1, 1, 5}, {5, 4, 3}}) {
        dispatch.groups = recording.groups = groups;
        const std::uint64_t count = dispatch.group_count();
        for (int repeat = 0; repeat < 200; ++repeat) {
            recording.seen.assign(count, 0);
            for (std::uint64_t at = 0; at < count;) {
                const std::uint64_t end = std::uniform_int_distribution<std::uint64_t>(at + 1, count)(random);
                recording.dispatches = 0;
                dispatch.record(table, VK_NULL_HANDLE, at, end);
                CHECK(recording.dispatches <= 5);
                if (at == 0 && end == count) CHECK(recording.dispatches == 1);
                at = end;
            }
            CHECK(std::ranges::all_of(recording.seen, [](int times) { return times == 1; }));
        }
    }
}

}  // namespace
}  // namespace vkformer::tests
