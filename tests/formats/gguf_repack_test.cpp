// SPDX-License-Identifier: MIT
#include "formats/gguf_repack.hpp"

#include <thread>
#include <vector>

#include "core/block_format.hpp"
#include "formats/gguf.hpp"
#include "support/catch.h"
#include "support/gguf_bytes.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

struct Type {
    std::uint32_t number;
    const char* name;
    DType holder;
    std::size_t block_bytes;  // of 256 elements
};
constexpr Type kTypes[] = {{18, "iq3_xxs", DType::q6_k, 98},
                           {21, "iq3_s", DType::q6_k, 110},
                           {34, "tq1_0", DType::q4_0, 54},
                           {35, "tq2_0", DType::q4_0, 66}};

std::vector<float> floats_of(DType dtype, std::span<const std::byte> blocks, std::size_t count) {
    std::vector<float> values(count);
    must(convert(dtype, blocks, 0, std::span(values)));
    return values;
}

TEST_CASE("what is repacked holds the values that ggml's layouts say, bit for bit", "[formats][gguf][quantized]") {
    const Type type = GENERATE(values<Type>({kTypes[0], kTypes[1], kTypes[2], kTypes[3]}));
    CAPTURE(type.name);
    const Golden golden("quantized/" + std::string(type.name) + ".safetensors");
    const std::vector<float> expected = golden.floats("dequantized");
    const auto blocks = golden.tensor("blocks").bytes;
    REQUIRE(blocks.size() == expected.size() / 256 * type.block_bytes);
    REQUIRE(formats::repacked_dtype(type.number) == type.holder);
    std::vector<std::byte> repacked(bytes_of(type.holder, expected.size()));
    formats::repack(type.number, blocks, repacked);
    CHECK(floats_of(type.holder, repacked, expected.size()) == expected);
}

TEST_CASE("of a small odd scale of iq3_xxs half is rounded", "[formats][gguf][quantized]") {
    std::vector<std::byte> block(98, std::byte{0}), repacked(210);
    block[0] = std::byte{201};                               // d = 201 · 2^-24
    for (int i = 2; i < 66; ++i) block[i] = std::byte{255};  // entries of the grid with the largest magnitudes
    formats::repack(18, block, repacked);
    float largest = 0;
    for (const float value : floats_of(DType::q6_k, repacked, 256)) largest = std::max(largest, value);
    CHECK(largest / 31 == 100 * 0x1p-24f);  // not 100.5: to even
}

TEST_CASE("no other type is repacked", "[formats][gguf]") {
    for (std::uint32_t type = 0; type < 64; ++type) {
        CAPTURE(type);
        const bool is_listed = std::ranges::find(kTypes, type, &Type::number) != std::end(kTypes);
        CHECK(formats::repacked_dtype(type).has_value() == is_listed);
        if (is_listed) CHECK_FALSE(formats::dtype_of_ggml_type(type));
    }
}

TEST_CASE("a tensor of a file is repacked when it is first asked for", "[formats][gguf][threads]") {
    const Golden golden("quantized/iq3_s.safetensors");
    const auto blocks = golden.tensor("blocks").bytes;
    constexpr std::uint64_t kCopies = 100, kCount = kCopies * 24 * 256;  // more than are repacked at a time
    GgufBytes bytes;
    bytes.values = {gguf_value("general.architecture", formats::GgufType::string, gguf_text("llama"))};
    bytes.tensors = {gguf_tensor("w", {512, kCount / 512}, 21, 0)};
    for (std::uint64_t copy = 0; copy < kCopies; ++copy)
        bytes.data.append(reinterpret_cast<const char*>(blocks.data()), blocks.size());
    const std::string file = bytes.file();
    const auto gguf = must(formats::Gguf::parse(std::as_bytes(std::span(file)), nullptr, "test.gguf"));
    const formats::Weights& weights = gguf.weights();
    CHECK(weights.has("w"));
    CHECK(weights.names() == std::vector<std::string_view>{"w"});
    CHECK(weights.unasked() == std::vector<std::string>{"w"});
    CHECK(weights.tensors().empty());
    CHECK(weights.find("v") == nullptr);

    std::vector<const TensorData*> found(4);
    std::vector<std::thread> threads;
    for (auto& one : found) threads.emplace_back([&] { one = weights.find("w"); });
    for (std::thread& thread : threads) thread.join();
    for (const TensorData* one : found) CHECK(one == found[0]);
    REQUIRE(found[0]);
    CHECK(found[0]->dtype == DType::q6_k);
    CHECK(found[0]->shape == Shape{kCount / 512, 512});
    const std::vector<float> expected = golden.floats("dequantized");
    const std::vector<float> all = floats_of(DType::q6_k, found[0]->bytes, kCount);
    for (auto copy = all.begin(); copy != all.end(); copy += 24 * 256)
        CHECK(std::equal(copy, copy + 24 * 256, expected.begin(), expected.end()));
    CHECK(weights.unasked().empty());
    const formats::Weights copy = weights;
    CHECK(must(copy.get("w")).bytes.data() == found[0]->bytes.data());
}

}  // namespace
}  // namespace vkformer::tests
