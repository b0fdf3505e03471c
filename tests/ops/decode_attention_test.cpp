// SPDX-License-Identifier: MIT
#include <iterator>

#include "support/attention_case.hpp"
#include "support/backends.hpp"
#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "support/must.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/vendors.hpp"

namespace vkformer::tests {
namespace {

struct DecodeSizes {
    AttentionSizes sizes;
    std::uint32_t split_keys;
};

graph::Value partial_of(const OpCase& c) { return std::get<graph::DecodeAttention>(c.graph.nodes()[0].op).partial; }

TEST_CASE("decode_attention caps its scores before the mask", "[op][decode_attention][soft_cap]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const float soft_cap = GENERATE(50.0f, 3.0f, 1e30f);
    const AttentionSizes sizes{2, 1, 77, 6, 2, 12, 16};
    const MaskKind kind = GENERATE(MaskKind{}, kMasks[std::size(kMasks) - 1]);
    CAPTURE(backend.name(), to_string(dtype), soft_cap, kind.name);

    OpCase c;
    const AttentionOperands o = attention_operands(c, sizes, dtype);
    c.expect(decode_attention(c.graph, o.query, o.key, o.value, make_mask(c, kind, sizes), 2, 32, soft_cap));
    c.check(backend);
}

TEST_CASE("decode_attention agrees with double precision under every mask", "[op][decode_attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const MaskKind kind = GENERATE(from_range(std::begin(kMasks), std::end(kMasks)));
    // lavapipe compiles each variant anew for every mask, and the longer the more heads share a key head: hence three sizes of a head.
    for (const DecodeSizes& d : {DecodeSizes{{5, 1, 20, 6, 2, 8, 12}, 8}, DecodeSizes{{6, 1, 200, 6, 2, 16, 16}, 32},
                                 DecodeSizes{{4, 1, 150, 2, 1, 9, 33}, 150}}) {
        CAPTURE(backend.name(), kind.name, to_string(d.sizes), d.split_keys);
        if (!takes_case(backend, 3)) continue;
        OpCase c;
        const AttentionOperands o = attention_operands(c, d.sizes, DType::f32);
        const graph::AttentionMask mask = make_mask(c, kind, d.sizes);
        c.expect(decode_attention(c.graph, o.query, o.key, o.value, mask, attention_scale(d.sizes), d.split_keys));
        c.check(backend);
    }
}

TEST_CASE("decode_attention fetches values ahead where there are registers for them",
          "[op][decode_attention][vulkan]") {
    for (const std::string& index : vulkan_device_indices()) {
        Interposer interposer(must(vulkan::open_loader()));
        interposer.claim_type(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
        interposer.claim_vendor(vulkan::vendors::kNvidia);
        interposer.claim_subgroup_size(32);
        HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index))});
        const auto instance = must(vulkan::Instance::adopt(interposer.get(), host.instance, false));
        const auto backend = must(vulkan::VulkanBackend::on(
            must(vulkan::Device::create(instance, instance->describe(host.physical))), {.cache_folder = {}}));
        // One tile of keys and three, the last one broken; one head for a key head and four; columns of values in one step and two.
        for (const DecodeSizes& d :
             {DecodeSizes{{1, 1, 300, 8, 2, 64, 64}, 300}, DecodeSizes{{2, 1, 300, 8, 2, 64, 64}, 100},
              DecodeSizes{{1, 1, 40, 1, 1, 8, 256}, 32}})
            for (const DType dtype : {DType::f32, DType::f16})
                for (const MaskKind& kind : {kMasks[0], kMasks[std::size(kMasks) - 1]}) {
                    if (dtype == DType::f16 && !backend->capabilities().storage16) continue;
                    CAPTURE(backend->name(), to_string(d.sizes), to_string(dtype), kind.name);
                    if (!takes_case(index, 3)) continue;
                    OpCase c;
                    const AttentionOperands o = attention_operands(c, d.sizes, dtype);
                    const graph::AttentionMask mask = make_mask(c, kind, d.sizes);
                    c.expect(decode_attention(c.graph, o.query, o.key, o.value, mask, attention_scale(d.sizes),
                                              d.split_keys));
                    c.check_variant(*backend, "split_vec4");
                }
    }
}

TEST_CASE("decode_attention shares out the keys that are seen", "[op][decode_attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const AttentionSizes sizes{1, 1, 200, 3, 1, 8, 8};
    OpCase c;
    const AttentionOperands o = attention_operands(c, sizes, DType::f32);
    const graph::AttentionMask mask{.causal = true, .starts = c.ints("starts", {1}, {60})};
    c.expect(decode_attention(c.graph, o.query, o.key, o.value, mask, 1, 25));
    c.check(backend);
    // Two of 8 splits have the 61 keys, 32 and 29; a split's sum of weights is at least 1, that of its largest score.
    const std::vector<float> found = c.run(backend, partial_of(c));
    for (std::size_t head = 0; head < 3; ++head) {
        const std::size_t row = head * 81;
        std::size_t used = 0;
        for (std::size_t split = 0; split < 8; ++split) used += found[row + split * 10 + 9] >= 1 ? 1 : 0;
        CHECK(used == 2);
        CHECK(found[row + 80] == 0);  // the count of splits that are done, ready for the next run
    }
}

TEST_CASE("decode_attention does not cut a cache into any number of splits", "[op][decode_attention]") {
    OpCase c;
    const AttentionOperands o = attention_operands(c, {1, 1, 100'000, 1, 1, 1, 1}, DType::f32);
    c.expect(decode_attention(c.graph, o.query, o.key, o.value, {}, 1, 128));
    CHECK(to_string(c.graph.shape(partial_of(c))) == "[1, 97]");  // 32 splits of a value, m and sum; their count
}

TEST_CASE("decode_attention reads nothing of the cache that the query does not see", "[op][decode_attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::uint64_t kCapacity = 90;  // 5 splits, of which 23 keys need one
    OpCase c;
    std::vector<float> key = c.random_floats(2 * kCapacity * 8), value = c.random_floats(2 * kCapacity * 8);
    for (std::size_t i = 23 * 8; i < kCapacity * 8; ++i) key[i] = value[i] = std::numeric_limits<float>::quiet_NaN();
    graph::AttentionMask mask;
    SECTION("behind the length") { mask.key_lengths = c.ints("key_lengths", {2}, {23, 90}); }
    SECTION("after the query") {
        mask = {.causal = true};
        mask.starts = c.ints("starts", {2}, {22, 89});
    }
    SECTION("before the window") {
        for (std::size_t i = 0; i < 11 * 8; ++i) key[i] = value[i] = std::numeric_limits<float>::quiet_NaN();
        mask = {.causal = true, .window = 12};
        mask.starts = c.ints("starts", {2}, {22, 89});
    }
    const graph::Value q = c.floats("query", DType::f32, {2, 1, 1, 8});
    const graph::Value k = c.floats("key", DType::f32, {2, kCapacity, 1, 8}, key);
    const graph::Value v = c.floats("value", DType::f32, {2, kCapacity, 1, 8}, value);
    c.expect(decode_attention(c.graph, q, k, v, mask, 1, 20));
    c.check(backend);
}

TEST_CASE("decode_attention gives zeros for a query that sees no key", "[op][decode_attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    OpCase c;
    const AttentionOperands o = attention_operands(c, {3, 1, 40, 2, 2, 8, 9}, dtype);
    const graph::AttentionMask mask{.key_lengths = c.ints("key_lengths", {3}, {0, -7, 0})};
    const graph::Value y = c.expect(decode_attention(c.graph, o.query, o.key, o.value, mask, 1, 16));
    for (const float element : c.run(backend, y)) CHECK(element == 0);
}

TEST_CASE("decode_attention bears any lengths and starts", "[op][decode_attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    const bool causal = GENERATE(false, true);
    const std::uint32_t window = GENERATE(0u, 1u, 40u, 0xFFFFFFFFu);
    CAPTURE(backend.name(), causal, window);
    OpCase c;
    const AttentionOperands o = attention_operands(c, {6, 1, 40, 1, 1, 8, 8}, DType::f32);
    const graph::Value lengths = c.ints("key_lengths", {6}, {kLowest, -1, 41, kHighest, kHighest, 20});
    const graph::Value starts = c.ints("starts", {6}, {3, 4, kLowest, kHighest, -2, 39});
    const graph::AttentionMask mask{.causal = causal, .window = window, .key_lengths = lengths, .starts = starts};
    c.expect(decode_attention(c.graph, o.query, o.key, o.value, mask, 0.5f, 16));
    c.check(backend);
}

TEST_CASE("decode_attention and attention give the same", "[op][decode_attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const AttentionOperands o = attention_operands(c, {2, 1, 150, 4, 2, 24, 40}, DType::f32);
    const graph::Value split = c.expect(decode_attention(c.graph, o.query, o.key, o.value, {}, 0.2f, 64));
    const graph::Value fused = c.expect(attention(c.graph, o.query, o.key, o.value, {}, 0.2f));
    const std::vector<float> a = c.run(backend, split), b = c.run(backend, fused);
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-5f);
}

}  // namespace
}  // namespace vkformer::tests
