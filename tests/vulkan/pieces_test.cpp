// SPDX-License-Identifier: MIT
// Tensors that are larger than what a device binds or allocates: the same bits as on a device that takes them in one piece.
#include <algorithm>
#include <map>
#include <numeric>

#include "cpu/backend.hpp"
#include "decoding/decoder_session.hpp"
#include "decoding/generate_case.hpp"
#include "graph/builders.hpp"
#include "models/open_model.hpp"
#include "models/tiny_llama.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "support/op_bits.hpp"
#include "support/op_case.hpp"
#include "support/quantized.hpp"
#include "support/temporary_folder.hpp"
#include "support/vkf.hpp"
#include "validation/validate.hpp"
#include "vulkan/pieces.hpp"
#include "vulkan/table.hpp"

namespace vkformer::tests {
namespace {

using graph::Graph;
using graph::Value;
using vulkan::VulkanBackend;

/// The device with that index, of which no binding and no allocation may be larger. 0: as it is.
std::unique_ptr<VulkanBackend> device_with(const std::string& index, std::uint64_t most_bytes) {
    return must(VulkanBackend::create(
        index,
        {.validation = validation_available(), .check_memory = true, .most_bytes = most_bytes, .cache_folder = {}}));
}

/// The case on both, and that the second one cut something.
void check_equal(const OpCase& c, VulkanBackend& whole, VulkanBackend& limited, Value result) {
    const auto pieced =
        must(vulkan::cut_into_pieces(graph::make_plan(c.graph, {.fuse = false}), limited.capabilities()));
    REQUIRE_FALSE(pieced.cut.empty());
    for (const auto& [id, cut] : pieced.cut) CHECK(cut.pieces.size() >= 2);
    const auto expected = runs_of(c, whole, result), found = runs_of(c, limited, result);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        CHECK(found[i] == expected[i]);
    }
    CHECK(whole.validation_messages().empty());
    CHECK(limited.validation_messages().empty());
}

constexpr std::uint64_t kMost = 40 << 10;

/// What the backend makes of the fused graph, whose input is "x".
std::vector<std::uint32_t> fused_bits_of(VulkanBackend& backend, const OpCase& c, Value y) {
    const auto program = must(backend.compile(graph::make_plan(c.graph), backend.make_store(), backend.make_store()));
    std::vector<float> x(c.graph.shape(*c.graph.find("x")).element_count()), values(c.graph.shape(y).element_count());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 8 - 1;
    must(program->write(*c.graph.find("x"), std::span<const float>(x)));
    must(program->submit());
    must(program->read(y, std::span<float>(values)));
    return bits_of(values);
}

}  // namespace

TEST_CASE("a product with a weight in pieces gives the bits of one piece", "[vulkan][pieces][linear]") {
    struct Formats {
        DType stored, computed;
    };
    constexpr Formats kFormats[] = {{DType::f32, DType::f32},  {DType::f16, DType::f16},  {DType::bf16, DType::f32},
                                    {DType::q8_0, DType::f32}, {DType::q4_0, DType::f32}, {DType::q4_k, DType::f16},
                                    {DType::mxfp4, DType::f32}};
    for (const std::string& index : vulkan_device_indices()) {
        const auto whole = device_with(index, 0), limited = device_with(index, kMost);
        for (const auto& [stored, computed] : kFormats)
            for (const std::uint64_t rows : {1u, 40u}) {
                CAPTURE(whole->name(), to_string(stored), to_string(computed), rows);
                if (!takes_case(index, 3)) continue;
                OpCase c;
                const std::uint64_t in = 256, out = 332;  // no multiple of any tile
                const Value x = c.floats("x", computed, {rows, in});
                const Value weight = random_weight(c, stored, out, in), bias = c.floats("bias", computed, {out});
                const Value y = c.expect(linear(c.graph, x, weight, bias));
                check_equal(c, *whole, *limited, y);
            }
    }
}

TEST_CASE("what is fused into a product works on pieces, too", "[vulkan][pieces][linear]") {
    for (const std::string& index : vulkan_device_indices()) {
        const auto whole = device_with(index, 0), limited = device_with(index, kMost);
        for (const DType stored : {DType::f32, DType::f16, DType::q8_0})
            for (const std::uint64_t rows : {1u, 9u}) {
                CAPTURE(whole->name(), to_string(stored), rows);
                if (!takes_case(index, 5)) continue;
                OpCase c;  // norm, gate; activation and residual
                const std::uint64_t width = 256, inner = 192;
                Graph& g = c.graph;
                const Value x = must(g.input("x", DType::f32, {rows, width}));
                const Value gain = must(g.weight("gain", owned(c.random_floats(width), {width}), DType::f32));
                const auto weight = [&](const char* name, std::uint64_t out, std::uint64_t in) {
                    TensorData data = owned(c.random_floats(out * in, 0.1f), {out, in});
                    if (is_quantized(stored)) data = must(quantized(data, stored));
                    return must(g.weight(name, std::move(data), stored));
                };
                const Value both = must(linear(g, must(rms_norm(g, x, gain, 1e-6f)), weight("up", 2 * inner, width)));
                const Value gated = must(gated_activation(g, both, {}, graph::Activation::silu));
                const Value wide = must(linear(g, gated, weight("out", 768, inner)));
                const Value active = must(activate(g, wide, graph::Activation::gelu_tanh));
                const Value other =
                    must(activate(g, must(linear(g, x, weight("other", 768, width))), graph::Activation::relu));
                const Value y = must(add(g, other, must(linear(g, active, weight("last", 768, 768)))));
                g.mark_output(y);
                CHECK(fused_bits_of(*limited, c, y) == fused_bits_of(*whole, c, y));
            }
    }
}

// 96 columns of MXFP4 are three blocks of 17 bytes: only four rows are whole words.
TEST_CASE("pieces of a weight whose rows are no whole words are whole words", "[vulkan][pieces][linear]") {
    constexpr std::uint64_t kIn = 96;
    for (const std::string& index : vulkan_device_indices()) {
        const auto whole = device_with(index, 0), limited = device_with(index, kMost);
        for (const std::uint64_t rows : {1u, 7u}) {
            CAPTURE(whole->name(), rows);
            if (!takes_case(index, 2)) continue;
            {
                OpCase c;
                const Value x = c.floats("x", DType::f32, {rows, kIn});
                const Value y = c.expect(linear(c.graph, x, random_weight(c, DType::mxfp4, 1004, kIn)));
                check_equal(c, *whole, *limited, y);
            }
            OpCase c;  // of a gate and its other half, each by itself
            const Value x = must(c.graph.input("x", DType::f32, {rows, kIn}));
            const Value both = must(linear(c.graph, x, random_weight(c, DType::mxfp4, 2 * std::uint64_t{604}, kIn)));
            const Value y = must(gated_activation(c.graph, both, {}, graph::Activation::silu));
            c.graph.mark_output(y);
            const auto pieced = must(vulkan::cut_into_pieces(graph::make_plan(c.graph), limited->capabilities()));
            REQUIRE(pieced.cut.contains(c.graph.find("weight")->id));
            const vulkan::CutTensor& weight = pieced.cut.at(c.graph.find("weight")->id);
            CHECK(weight.sizes == vulkan::Sizes{1, 2, 604, kIn});
            CHECK(weight.pieces.size() >= 2);
            CHECK(fused_bits_of(*limited, c, y) == fused_bits_of(*whole, c, y));
        }
    }
}

TEST_CASE("a table in pieces gives each token its row", "[vulkan][pieces][embedding]") {
    for (const std::string& index : vulkan_device_indices()) {
        const auto whole = device_with(index, 0), limited = device_with(index, kMost);
        for (const DType stored : {DType::f32, DType::f16, DType::q8_0, DType::q4_k}) {
            CAPTURE(whole->name(), to_string(stored));
            if (!takes_case(index, 2)) continue;
            OpCase c;
            const std::int32_t vocab = 333;
            std::vector<std::int32_t> ids = {0, vocab - 1, vocab, -1, 1 << 30, 150};
            for (std::int32_t i = 0; i < vocab; i += 3) ids.push_back(i);
            const Value tokens = c.ints("tokens", {1, ids.size()}, ids);
            const Value table = random_weight(c, stored, static_cast<std::uint64_t>(vocab), 256);
            const Value x = must(embedding(c.graph, tokens, table, 1.5f, DType::f32));
            const Value few = must(c.graph.reshape(x, {ids.size(), 256}));
            const Value y = c.expect(linear(c.graph, few, table));  // tied
            c.expect(x);
            check_equal(c, *whole, *limited, x);
            check_equal(c, *whole, *limited, y);
        }
    }
}

TEST_CASE("experts in pieces give each row its own", "[vulkan][pieces][expert_linear]") {
    for (const std::string& index : vulkan_device_indices()) {
        const auto whole = device_with(index, 0), limited = device_with(index, kMost);
        for (const DType stored : {DType::f32, DType::q8_0, DType::q4_k})
            for (const std::uint64_t rows : {3u, 30u}) {
                CAPTURE(whole->name(), to_string(stored), rows);
                OpCase c;
                constexpr std::uint64_t kExperts = 23, kOut = 20, kIn = 256;
                std::vector<std::int32_t> chosen = c.random_ints(rows * 2, 0, kExperts - 1);
                chosen[1] = kExperts;
                chosen[4] = -1;
                const Value x = c.floats("x", DType::f32, {rows, kIn});
                const Value weight = random_weight(c, stored, kExperts * kOut, kIn);
                const Value ids = c.ints("experts", {rows, 2}, chosen);
                check_equal(c, *whole, *limited, c.expect(expert_linear(c.graph, x, weight, ids, kExperts)));
            }
    }
}

TEST_CASE("a cache in pieces keeps and gives what one piece does", "[vulkan][pieces][cache]") {
    for (const std::string& index : vulkan_device_indices()) {
        const auto whole = device_with(index, 0);
        // Two heads, one head, and one of one sequence in a piece.
        for (const std::uint64_t most : {100u << 10, 44u << 10, 24u << 10}) {
            const auto limited = device_with(index, most);
            for (const DType dtype : {DType::f32, DType::f16})
                for (const DType stored : {dtype, DType::q8_0})
                    for (const std::uint64_t len : {1u, 2u}) {
                        CAPTURE(whole->name(), most, to_string(dtype), to_string(stored), len);
                        constexpr std::uint64_t kBatch = 2, kCapacity = 72, kHeads = 8, kKvHeads = 4, kDim = 64;
                        if (stored == DType::q8_0 && most > (24u << 10)) continue;  // nothing is cut
                        if (dtype == DType::f16 && most > (44u << 10)) continue;
                        if (!takes_case(index, 3)) continue;
                        OpCase c;
                        Graph& g = c.graph;
                        const Shape cache{kBatch, kCapacity, kKvHeads, kDim};
                        const Value starts = c.ints("starts", {kBatch}, {60, 33});
                        const auto make = [&](const char* name) {
                            return c.state(name, stored, cache, c.random_floats(cache.element_count()));
                        };
                        const Value keys = make("keys"), values = make("values");
                        const Value qkv = c.floats("qkv", dtype, {kBatch, len, kHeads + 2 * kKvHeads, kDim});
                        const std::vector<double> frequencies = graph::rope_frequencies(kDim, 10000);
                        const Value table =
                            must(g.weight("table", graph::rope_table(kCapacity, frequencies), DType::f32));
                        const bool splits = stored == dtype;
                        Value query;
                        if (splits) {
                            query = must(split_qkv(g, qkv, table, starts, keys, values, graph::RopePairing::halves));
                        } else {
                            query = c.floats("query", dtype, {kBatch, len, kHeads, kDim});
                            const Value x = c.floats("x", dtype, {kBatch, len, kKvHeads, kDim});
                            must(cache_append(g, x, starts, keys));
                            must(cache_append(g, x, starts, values));
                        }
                        graph::AttentionMask mask{.causal = true, .starts = starts};
                        if (dtype == DType::f32 && splits)  // one of the two
                            mask.additive = c.floats("additive", DType::f32, {kBatch, kHeads, len, kCapacity});
                        else
                            mask.sinks = c.floats("sinks", DType::f32, {kHeads});
                        const Value y = c.expect(len == 1 ? decode_attention(g, query, keys, values, mask, 0.125f)
                                                          : attention(g, query, keys, values, mask, 0.125f));
                        check_equal(c, *whole, *limited, y);
                        check_equal(c, *whole, *limited, keys);
                        check_equal(c, *whole, *limited, values);
                    }
        }
    }
}

TEST_CASE("a cache in pages is cut along its heads alone", "[vulkan][pieces][cache][pages]") {
    constexpr std::uint64_t kBatch = 2, kPages = 5, kHeads = 8, kKvHeads = 4, kDim = 64;
    for (const std::string& index : vulkan_device_indices()) {
        const auto whole = device_with(index, 0);
        for (const DType stored : {DType::f32, DType::f16, DType::q8_0})
            for (const std::uint64_t len : {1u, 2u}) {
                const DType dtype = stored == DType::q8_0 ? DType::f32 : stored;
                CAPTURE(whole->name(), to_string(stored), len);
                OpCase c;
                Graph& g = c.graph;
                const Shape cache{kPages, graph::kPageLen, kKvHeads, kDim};
                const Value pages = c.ints("pages", {kBatch, 2}, {3, 0, 1, 4});
                const Value starts = c.ints("starts", {kBatch}, {63, 100});
                const auto make = [&](const char* name) {
                    return c.state(name, stored, cache, c.random_floats(cache.element_count()));
                };
                const Value keys = make("keys"), values = make("values");
                Value query;
                if (stored == dtype) {
                    const Value qkv = c.floats("qkv", dtype, {kBatch, len, kHeads + 2 * kKvHeads, kDim});
                    query = must(split_qkv(g, qkv, {}, starts, keys, values, graph::RopePairing::halves, {}, pages));
                } else {
                    query = c.floats("query", dtype, {kBatch, len, kHeads, kDim});
                    const Value x = c.floats("x", dtype, {kBatch, len, kKvHeads, kDim});
                    must(cache_append(g, x, starts, keys, pages));
                    must(cache_append(g, x, starts, values, pages));
                }
                const graph::AttentionMask mask{.causal = true, .starts = starts};
                const Value y =
                    c.expect(len == 1 ? decode_attention(g, query, keys, values, mask, 0.125f, 128, 0, pages)
                                      : attention(g, query, keys, values, mask, 0.125f, 0, pages));
                // two heads in a piece
                const std::uint64_t head_bytes = bytes_of(stored, kPages * graph::kPageLen * kDim);
                const auto limited = device_with(index, 2 * head_bytes + (8 << 10));
                check_equal(c, *whole, *limited, y);
                check_equal(c, *whole, *limited, keys);
                check_equal(c, *whole, *limited, values);

                const auto tiny = device_with(index, head_bytes / 2 + (8 << 10));  // not even one
                const auto refused =
                    vulkan::cut_into_pieces(graph::make_plan(g, {.fuse = false}), tiny->capabilities());
                REQUIRE_FALSE(refused);
                CHECK(refused.error().message.find("cannot look for pages in pieces of it") != std::string::npos);
            }
    }
}

TEST_CASE("rows of a cache in pieces follow their parents", "[vulkan][pieces][cache]") {
    for (const std::string& index : vulkan_device_indices()) {
        const auto whole = device_with(index, 0), limited = device_with(index, 100 << 10);
        for (const DType stored : {DType::f32, DType::f16}) {
            CAPTURE(whole->name(), to_string(stored));
            OpCase c;
            const Shape shape{6, 72, 4, 32};
            const Value cache = c.state("cache", stored, shape, c.random_floats(shape.element_count()));
            const Value parents = c.ints("parents", {6}, {2, 0, 0, 3, 5, 4});
            const Value lengths = c.ints("lengths", {6}, {50, 72, 3, 7, 71, 1});
            must(cache_reorder(c.graph, cache, parents, lengths, 3));
            check_equal(c, *whole, *limited, cache);
        }
    }
}

TEST_CASE("activations in pieces are those of one piece", "[vulkan][pieces]") {
    for (const std::string& index : vulkan_device_indices()) {
        const auto whole = device_with(index, 0), limited = device_with(index, 64 << 10);
        for (const DType dtype : {DType::f32, DType::f16}) {
            CAPTURE(whole->name(), to_string(dtype));
            OpCase c;
            Graph& g = c.graph;
            const Value x = c.floats("x", dtype, {2, 60, 64});
            const Value weight = random_weight(c, dtype, 320, 64);
            const Value logits = must(linear(g, x, weight));
            const Value capped = must(soft_cap(g, must(g.reshape(logits, {120, 320})), 3));
            const Value y = c.expect(log_softmax(g, capped));
            check_equal(c, *whole, *limited, y);
        }
    }
}

TEST_CASE("an arena larger than an allocation lies in several blocks", "[vulkan][pieces][memory]") {
    for (const std::string& index : vulkan_device_indices()) {
        const auto limited = device_with(index, 64 << 10), whole = device_with(index, 0);
        const auto run = [&](VulkanBackend& backend) {
            Graph g;
            const Value x = must(g.input("x", DType::f32, {40, 256}));
            std::vector<Value> kept;
            for (int i = 0; i < 5; ++i) {
                kept.push_back(must(activate(g, x, i % 2 ? graph::Activation::tanh : graph::Activation::silu)));
            }
            Value sum = kept[0];
            for (std::size_t i = 1; i < kept.size(); ++i) sum = must(add(g, sum, kept[i]));
            g.mark_output(sum);
            const graph::Plan plan = graph::make_plan(g);
            CHECK(plan.arena_bytes > 64 << 10);
            const graph::Plan* const plans[] = {&plan};
            const auto store = std::make_shared<vulkan::VulkanStore>(backend.device());
            const auto needs = must(vulkan::memory_needs(*backend.device(), plans, *store, *store));
            const std::uint64_t before = backend.device()->allocator().used();
            const auto program = must(backend.compile_program(plan, backend.make_store(), backend.make_store()));
            CHECK(needs.activations <= program->memory_bytes());
            CHECK(backend.device()->allocator().used() > before);
            std::vector<float> values(40 * 256);
            for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251) / 100 - 1;
            must(program->write(x, std::span<const float>(values)));
            must(program->submit());
            must(program->read(sum, std::span<float>(values)));
            return bits_of(values);
        };
        CHECK(run(*limited) == run(*whole));
    }
}

TEST_CASE("what cannot work on pieces says which tensor, how large it is and what the device takes",
          "[vulkan][pieces]") {
    for (const std::string& index : vulkan_device_indices()) {
        const auto limited = device_with(index, kMost);
        OpCase c;
        const Value x = c.floats("scores", DType::f32, {1, 4, 64, 64});
        const Value y = c.expect(masked_softmax(c.graph, x));
        (void)y;
        const auto result = limited->compile(graph::make_plan(c.graph), limited->make_store(), limited->make_store());
        REQUIRE_FALSE(result);
        CHECK(result.error().code == ErrorCode::MissingFeature);
        for (const char* part :
             {"scores has 65536 bytes", "maxStorageBufferRange", "maxMemoryAllocationSize", "masked_softmax"})
            CHECK(result.error().message.find(part) != std::string::npos);

        OpCase norm;
        norm.expect(rms_norm(norm.graph, norm.floats("rows", DType::f32, {100, 3, 64}),
                             norm.floats("gain", DType::f32, {3, 64}), 1e-5f));
        const auto refused =
            limited->compile(graph::make_plan(norm.graph), limited->make_store(), limited->make_store());
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message.find("take gains by turns in pieces of it") != std::string::npos);
    }
}

namespace {

/// Its table, its products and its caches are larger than a MiB.
constexpr TinyLlama kLargeParts = {.heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 64,
                                   .hidden = 128,
                                   .inner = 1536,
                                   .layers = 2,
                                   .vocab = 4099,
                                   .positions = 4096};

std::vector<std::int32_t> tokens_from(graph::Backend& backend, const models::Decoder& model,
                                      decoding::DecoderSessionOptions options) {
    std::vector<decoding::Request> requests(2);
    for (std::size_t r = 0; r < requests.size(); ++r) {
        for (std::int32_t i = 0; i < 21; ++i)
            requests[r].prompt.push_back((i * 397 + static_cast<std::int32_t>(r) * 11) % 4099);
        requests[r].max_tokens = 8;
    }
    auto session = must(decoding::DecoderSession::create(backend, model, options));
    std::vector<std::int32_t> tokens;
    for (const auto& result : must(session.run(requests)))
        tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
    return tokens;
}

}  // namespace

TEST_CASE("a model with a table, products and caches in pieces generates what it does in one",
          "[vulkan][pieces][decoder]") {
    TemporaryFolder folder;
    write_tiny_llama(folder.path(), kLargeParts);
    const models::Decoder model = must(models::load_decoder(folder.path()));
    for (const std::string& index : vulkan_device_indices()) {
        const auto whole = device_with(index, 0), limited = device_with(index, 1 << 20);
        for (const auto weights : {models::WeightFormat::as_computed, models::WeightFormat::as_filed})
            for (const auto cache : {models::CacheFormat::as_computed, models::CacheFormat::q8_0}) {
                CAPTURE(whole->name());
                if (!takes_case(index, 3)) continue;
                const decoding::DecoderSessionOptions options{
                    .rows = 2, .context = 3000, .weights = weights, .cache = cache};
                CHECK(tokens_from(*limited, model, options) == tokens_from(*whole, model, options));
            }
    }
}

TEST_CASE("weights in pieces are read where the model's file is mapped", "[vulkan][pieces][decoder]") {
    TemporaryFolder folder;
    write_tiny_llama(folder.path(), kLargeParts);
    const models::Decoder model = must(models::load_decoder(folder.path()));
    for (const std::string& index : vulkan_device_indices()) {
        const auto open = [&](std::uint64_t most_bytes) {
            return must(VulkanBackend::create(index, {.most_bytes = most_bytes, .cache_folder = {}}));
        };
        const auto whole = open(0), limited = open(1 << 20);
        CAPTURE(whole->name());
        const decoding::DecoderSessionOptions options{.context = 64, .chunk = 16};
        CHECK(tokens_from(*limited, model, options) == tokens_from(*whole, model, options));
        if (whole->capabilities().host_memory_alignment == 0) continue;
        // Pieces of gates and their other halves lie in two places of the file, and are copied. The table is not.
        const std::uint64_t gates = 2 * std::uint64_t{2} * kLargeParts.inner * kLargeParts.hidden * sizeof(float);
        CHECK(limited->device()->allocator().peak() < whole->device()->allocator().peak() + gates + (512 << 10));
    }
}

TEST_CASE("an encoder-decoder with tables and caches in pieces generates what it does in one",
          "[vulkan][pieces][encoder_decoder]") {
    const std::string name = GENERATE("m2m100_d26_h2", "t5_d22_relu");
    const auto folder = goldens_dir() / "encoder_decoders" / name;
    const auto model = must(models::load_encoder_decoder(folder));
    const json defaults = read_json(folder / "generation_config.json"), entries = read_json(folder / "generate.json");
    for (const std::string& index : vulkan_device_indices()) {
        const auto whole = device_with(index, 0), limited = device_with(index, 8 << 10);
        for (const std::size_t i : {0u, 2u}) {  // greedy, and with beams
            CAPTURE(whole->name(), name, entries[i]["options"].dump());
            if (!takes_case(index, 3)) continue;
            const Entry entry =
                read_entry(entries[i], defaults, model->limits().target_len, model->limits().target_vocab);
            const auto run = [&](graph::Backend& backend) {
                auto session =
                    must(decoding::Session::create(backend, *model, {.generation = entry.generation, .batch = 2}));
                return must(session.generate(sources_of(entry)));
            };
            const auto expected = run(*whole), found = run(*limited);
            REQUIRE(found.size() == expected.size());
            for (std::size_t b = 0; b < found.size(); ++b) {
                CHECK(found[b].tokens == expected[b].tokens);
                CHECK(found[b].score == expected[b].score);
            }
        }
    }
}

namespace {

/// What a session of the model in that folder generates behind 21 tokens, on an adopted device whose driver is behind `interposer`.
std::vector<std::int32_t> generate_behind(const Interposer& interposer, const std::string& index,
                                          const std::filesystem::path& folder) {
    std::vector<std::int32_t> prompt(21), tokens;
    std::iota(prompt.begin(), prompt.end(), 4000);
    HostApplication host({.device_index = static_cast<std::uint32_t>(std::stoul(index)), .get = interposer.get()});
    {
        const VkfDevice device = adopt(host.lend(true));
        const VkfModel model = load_model(*device, folder.string());
        vkf_session_info info = VKF_SESSION_INFO_INIT;
        info.context = 3000;
        info.chunk = 16;
        const VkfSession session = make_session(*model, info);
        succeed(vkf_session_begin(session.get(), prompt.data(), prompt.size(), 6));
        while (status_of(*session).state != VKF_SESSION_DONE) {
            vkf_slice slice = VKF_SLICE_INIT;
            succeed(vkf_session_step(session.get(), 0, nullptr, &slice));
            succeed(vkf_session_wait(session.get(), UINT64_MAX));
        }
        tokens = tokens_of(*session);
        CHECK(tokens.size() == 6);
    }
    CHECK(host.messages().empty());
    return tokens;
}

/// What becomes of the plan on a device with these limits is the plan itself: each node as it is, and no memory of other sizes.
bool is_left_whole(const graph::Plan& plan, std::uint64_t binding, std::uint64_t allocation) {
    vulkan::Capabilities device;
    device.max_storage_buffer_range = binding;
    device.max_allocation_bytes = allocation;
    const auto pieced = must(vulkan::cut_into_pieces(plan, device));
    bool is_whole = pieced.cut.empty() && pieced.copied_at.empty() && pieced.copied_bytes == 0 &&
                    pieced.arena_block_bytes == 0 && pieced.plan.arena_offset == plan.arena_offset &&
                    pieced.plan.arena_bytes == plan.arena_bytes &&
                    pieced.plan.graph.tensors().size() == plan.graph.tensors().size() &&
                    pieced.nodes.size() == plan.graph.nodes().size();
    for (std::size_t i = 0; is_whole && i < pieced.nodes.size(); ++i)
        is_whole = pieced.nodes[i].size() == 1 && std::holds_alternative<graph::Op>(pieced.nodes[i][0].what) &&
                   std::get<graph::Op>(pieced.nodes[i][0].what).index() == plan.graph.nodes()[i].op.index();
    return is_whole;
}

constexpr std::uint64_t kSlack = 4096 + 256;  // that an allocation has beside one tensor

}  // namespace

TEST_CASE("what a device binds and allocates at once stays in one piece, to the byte", "[vulkan][pieces]") {
    constexpr std::uint64_t kBytes = 300 * 64 * sizeof(float);
    OpCase c;
    const Value x = must(c.graph.input("x", DType::f32, {3, 64}));
    const Value weight = must(c.graph.weight("weight", owned(c.random_floats(300 * 64), {300, 64}), DType::f32));
    c.graph.mark_output(must(activate(c.graph, must(linear(c.graph, x, weight)), graph::Activation::silu)));
    const graph::Plan plan = graph::make_plan(c.graph);
    CHECK(is_left_whole(plan, kBytes, kBytes + kSlack));
    CHECK_FALSE(is_left_whole(plan, kBytes - 1, kBytes + kSlack));
    CHECK_FALSE(is_left_whole(plan, kBytes, kBytes));
}

// Limits of Vulkan drivers of 2025, in bytes: the largest storage buffer and the largest allocation. What a device binds 128 MiB of, as
// lavapipe and some phones, was refused before there were pieces.
TEST_CASE("a model of 8 billion parameters is left whole by the limits of GPUs", "[vulkan][pieces]") {
    constexpr std::uint64_t kGiB = 1 << 30, kVocab = 128'256, kHidden = 4096, kInner = 14'336, kContext = 8192;
    const auto [binding, allocation] = GENERATE(table<std::uint64_t, std::uint64_t>(
        {{4 * kGiB - 1, 4 * kGiB - 4}, {4 * kGiB - 1, 2 * kGiB}, {2 * kGiB - 1, 2 * kGiB}}));
    CAPTURE(binding, allocation);
    Graph graph;
    const auto weight = [&](const std::string& name, std::uint64_t out, std::uint64_t in) {
        return must(graph.input(name, DType::f16, {out, in}));  // as an input: it needs no contents
    };
    const Value tokens = must(graph.input("tokens", DType::i32, {1, 512}));
    Value x = must(embedding(graph, tokens, weight("table", kVocab, kHidden)));
    const Value gate = must(linear(graph, x, weight("gate", kInner, kHidden))),
                up = must(linear(graph, x, weight("up", kInner, kHidden)));
    x = must(gated_activation(graph, gate, up, graph::Activation::silu));
    x = must(linear(graph, x, weight("down", kHidden, kInner)));
    graph.mark_output(must(linear(graph, x, weight("head", kVocab, kHidden))));
    graph.mark_output(must(graph.state("keys", DType::f16, {1, kContext, 8, 128})));
    CHECK(is_left_whole(graph::make_plan(std::move(graph)), binding, allocation));
}

TEST_CASE("a model that just fits a device records what it does on a device without limits",
          "[vulkan][pieces][api][c][guest]") {
    TemporaryFolder folder;
    write_tiny_llama(folder.path(), kLargeParts);
    for (const std::string& index : vulkan_device_indices()) {
        const auto recorded_with = [&](std::uint64_t binding, std::uint64_t allocation, auto&& look) {
            Interposer interposer(must(vulkan::open_loader()));
            interposer.claim_limits(static_cast<std::uint32_t>(binding), allocation);
            interposer.slow_down(0.001);  // what is cut for its time is the same in each
            generate_behind(interposer, index, folder.path());
            look(interposer);
            return interposer.recorded();
        };
        CAPTURE(index);
        std::uint64_t binding = 0, allocation = 0;
        const auto look = [&](const Interposer& interposer) {
            binding = interposer.largest_binding();
            allocation = interposer.largest_allocation();
        };
        const auto without = recorded_with(UINT32_MAX, std::uint64_t{1} << 40, look);
        const auto nothing = [](const Interposer&) {};
        const std::uint64_t least = binding, most = allocation + kSlack;
        CHECK(recorded_with(0, 0, nothing) == without);  // the driver's own limits
        CHECK(recorded_with(least, most, nothing) == without);
        CHECK(recorded_with(least - 1, most, nothing) != without);
    }
}

TEST_CASE("nothing above a device's limits is bound or allocated", "[vulkan][pieces][api][c][guest]") {
    TemporaryFolder folder;
    write_tiny_llama(folder.path(), kLargeParts);
    for (const std::string& index : vulkan_device_indices()) {
        constexpr std::uint32_t kMiB = 1 << 20;
        std::vector<std::vector<std::int32_t>> generated;
        for (const auto& [binding, allocation] : {std::pair{0u, std::uint64_t{0}}, {kMiB, 0}, {0, kMiB}}) {
            CAPTURE(index, binding, allocation);
            Interposer interposer(must(vulkan::open_loader()));
            interposer.claim_limits(binding, allocation);
            generated.push_back(generate_behind(interposer, index, folder.path()));
            if (binding) CHECK(interposer.largest_binding() <= binding);
            if (allocation) CHECK(interposer.largest_allocation() <= allocation);
            if (!binding && !allocation) CHECK(interposer.largest_binding() > kMiB);
            if (!binding && !allocation) CHECK(interposer.largest_allocation() > kMiB);
        }
        CHECK(generated[1] == generated[0]);
        CHECK(generated[2] == generated[0]);
    }
}

TEST_CASE("validation compares every node of a graph in pieces", "[vulkan][pieces][validation]") {
    for (const std::string& index : vulkan_device_indices()) {
        const auto limited = device_with(index, kMost);
        OpCase c;
        const Value x = must(c.graph.input("x", DType::f32, {3, 64}));
        const Value weight = must(c.graph.weight("weight", owned(c.random_floats(300 * 64), {300, 64}), DType::f32));
        c.graph.mark_output(must(activate(c.graph, must(linear(c.graph, x, weight)), graph::Activation::silu)));
        const auto oracle = cpu::make_cpu_backend<double>();
        const auto report =
            must(validation::validate(c.graph, "pieces", {{"x", c.random_floats(3 * 64)}}, *limited, *oracle));
        CHECK(report.checks.size() == 1);
        CHECK(report.first_divergence() == nullptr);
    }
}

}  // namespace vkformer::tests
