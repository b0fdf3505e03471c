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
constexpr Type kTypes[] = {{40, "nvfp4", DType::f16, 144},   {16, "iq2_xxs", DType::f32, 66},
                           {17, "iq2_xs", DType::f32, 74},   {22, "iq2_s", DType::f32, 82},
                           {19, "iq1_s", DType::q6_k, 50},   {29, "iq1_m", DType::q6_k, 56},
                           {18, "iq3_xxs", DType::q6_k, 98}, {21, "iq3_s", DType::q6_k, 110},
                           {34, "tq1_0", DType::q4_0, 54},   {35, "tq2_0", DType::q4_0, 66}};

std::vector<float> floats_of(DType dtype, std::span<const std::byte> blocks, std::size_t count) {
    std::vector<float> values(count);
    must(convert(dtype, blocks, 0, std::span(values)));
    return values;
}

TEST_CASE("what is repacked holds the values that ggml's layouts say, bit for bit", "[formats][gguf][quantized]") {
    const Type type = GENERATE(from_range(std::begin(kTypes), std::end(kTypes)));
    CAPTURE(type.name);
    const Golden golden("quantized/" + std::string(type.name) + ".safetensors");
    const std::vector<float> expected = golden.floats("dequantized");
    const auto blocks = golden.tensor("blocks").bytes;
    REQUIRE(blocks.size() == expected.size() / 256 * type.block_bytes);
    REQUIRE(formats::repacked_dtype(type.number) == type.holder);
    std::vector<std::byte> repacked(bytes_of(type.holder, expected.size()));
    formats::repack(type.number, blocks, 1, repacked);
    CHECK(floats_of(type.holder, repacked, expected.size()) == expected);
}

TEST_CASE("of a small odd scale of iq3_xxs half is rounded", "[formats][gguf][quantized]") {
    std::vector<std::byte> block(98, std::byte{0}), repacked(210);
    block[0] = std::byte{201};                               // d = 201 · 2^-24
    for (int i = 2; i < 66; ++i) block[i] = std::byte{255};  // entries of the grid with the largest magnitudes
    formats::repack(18, block, 1, repacked);
    float largest = 0;
    for (const float value : floats_of(DType::q6_k, repacked, 256)) largest = std::max(largest, value);
    CHECK(largest / 31 == 100 * 0x1p-24f);  // not 100.5: to even
}

TEST_CASE("of a small scale of iq1_s an eighth is rounded", "[formats][gguf][quantized]") {
    std::vector<std::byte> block(50, std::byte{0}), repacked(210);  // the first row of the grid: −1 everywhere
    block[0] = std::byte{12};                                       // d = 12 · 2^-24
    formats::repack(19, block, 1, repacked);
    CHECK(floats_of(DType::q6_k, repacked, 256)[0] == -7 * 2 * 0x1p-24f);  // not 1.5: to even
}

TEST_CASE("the scales beside tensors of nvfp4 are in their values", "[formats][gguf][quantized]") {
    const Golden golden("quantized/nvfp4.safetensors");
    const auto blocks = golden.tensor("blocks").bytes.subspan(64 * 36, 6 * 36);  // two rows of each of three matrices
    const auto values = golden.floats("dequantized");
    GgufBytes bytes;
    bytes.values = {gguf_value("general.architecture", formats::GgufType::string, gguf_text("llama"))};
    const auto add = [&](const char* name, std::vector<std::uint64_t> dims, std::uint32_t type, auto of) {
        bytes.tensors.push_back(gguf_tensor(name, dims, type, bytes.data.size()));
        bytes.data.append(reinterpret_cast<const char*>(of.data()), of.size() * sizeof of[0]);
        bytes.data.resize((bytes.data.size() + 31) / 32 * 32);
    };
    add("a.scale", {1}, 0, std::vector{0.3f});  // before its matrix, too
    add("a.weight", {64, 6}, 40, blocks);
    add("a.input_scale", {1}, 0, std::vector{7.0f});
    add("b_exps.weight", {64, 2, 3}, 40, blocks);
    add("b_exps.scale", {3}, 0, std::vector{0.3f, -2.0f, 0.0f});
    add("c.weight", {64, 6}, 40, blocks);
    add("d.weight", {64, 6}, 40, blocks);
    add("d.scale", {6}, 0, std::vector{1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f});
    add("e.weight", {1}, 0, std::vector{1.0f});
    add("e.scale", {1}, 0, std::vector{1.0f});
    const std::string file = bytes.file();
    const auto gguf = must(formats::Gguf::parse(std::as_bytes(std::span(file)), nullptr, "test.gguf"));
    const formats::Weights& weights = gguf.weights();
    CHECK(weights.unasked() ==
          std::vector<std::string>{"a.weight", "b_exps.weight", "c.weight", "d.weight", "e.scale", "e.weight"});
    const std::vector<float> alike(3, 0.3f), none(3, 1.0f), own = {0.3f, -2.0f, 0.0f};
    for (const auto& [name, scales] :
         {std::pair("a.weight", alike), std::pair("b_exps.weight", own), std::pair("c.weight", none)}) {
        CAPTURE(name);
        const TensorData tensor = must(weights.get(name));
        REQUIRE(tensor.dtype == DType::f16);
        const std::vector<float> found = floats_of(DType::f16, tensor.bytes, 6 * 64);
        for (std::size_t i = 0; i < found.size(); ++i) {
            const float product = values[64 * 64 + i] * scales[i / 128];
            CHECK(found[i] == half_to_float(float_to_half(product)));
        }
    }
    CHECK_THAT(weights.get("d.weight").error().message,
               Catch::Contains("of the type NVFP4 with scales that are not one number or one a matrix"));
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
