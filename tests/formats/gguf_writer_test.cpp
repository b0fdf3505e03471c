// SPDX-License-Identifier: MIT
#include "formats/gguf_writer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/block_format.hpp"
#include "formats/safetensors.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using namespace formats;
using Catch::Matchers::ContainsSubstring;

TensorData floats(Shape shape, unsigned seed) {
    auto values = std::make_shared<std::vector<float>>(shape.element_count());
    std::mt19937 random(seed);
    for (float& value : *values) value = std::normal_distribution<float>()(random);
    return {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*values)), .owner = values};
}

std::string refused_write(const std::vector<OutputTensor>& tensors, ErrorCode code = ErrorCode::InvalidArgument,
                          const GgufMetadata& metadata = {}) {
    const TemporaryFolder folder;
    const auto written = write_gguf(folder / "x.gguf", metadata, tensors);
    REQUIRE_FALSE(written);
    CHECK(written.error().code == code);
    CHECK(std::filesystem::is_empty(folder.path()));
    return written.error().message;
}

}  // namespace

TEST_CASE("gguf writer: the bytes are those of the gguf package", "[formats][gguf]") {
    const TemporaryFolder folder;
    for (const char* name : {"types.gguf", "llama.gguf", "t5.gguf", "bert.gguf"}) {
        CAPTURE(name);
        const std::string golden = read_file(goldens_dir() / "gguf" / name);
        const auto file = Gguf::open(goldens_dir() / "gguf" / name);
        REQUIRE(file);
        GgufMetadata metadata;
        for (const GgufValue& value : file->values()) metadata.set(value);
        std::vector<OutputTensor> tensors;
        for (const GgufTensor& tensor : file->tensors()) {
            const TensorData* data = file->weights().find(tensor.name);
            if (data) tensors.push_back({.name = std::string(tensor.name), .dtype = data->dtype, .source = *data});
        }
        REQUIRE(write_gguf(folder / "x.gguf", metadata, tensors));
        if (tensors.size() == file->tensors().size()) CHECK(read_file(folder / "x.gguf") == golden);
        const auto again = Gguf::open(folder / "x.gguf");
        REQUIRE(again);
        CHECK(again->values().size() == file->values().size());
        for (const OutputTensor& tensor : tensors)
            CHECK(std::ranges::equal(again->weights().find(tensor.name)->bytes, tensor.source.bytes));
    }
}

TEST_CASE("gguf writer: values of each kind", "[formats][gguf]") {
    const TemporaryFolder folder;
    GgufMetadata metadata;
    metadata.set("u", std::uint32_t{7});
    metadata.set("i", std::int32_t{-7});
    metadata.set("f", 0.5f);
    metadata.set("b", true);
    metadata.set("t", "text");
    metadata.set("ts", std::span<const std::string>(std::array<std::string, 2>{"a", ""}));
    metadata.set("is", std::span<const std::int32_t>(std::array<std::int32_t, 2>{1, -2}));
    metadata.set("fs", std::span<const float>(std::array<float, 1>{0.25f}));
    metadata.set("u", std::uint32_t{8});
    REQUIRE(write_gguf(folder / "x.gguf", metadata, {}));
    const auto file = Gguf::open(folder / "x.gguf");
    REQUIRE(file);
    CHECK(file->values()[0].key == "u");
    CHECK(file->unsigned_integer("u").value() == 8);
    CHECK(file->integer("i").value() == -7);
    CHECK(file->real("f").value() == 0.5);
    CHECK(file->boolean("b").value());
    CHECK(file->string("t").value() == "text");
    CHECK(file->strings("ts").value() == std::vector<std::string_view>{"a", ""});
    CHECK(file->integers("is").value() == std::vector{1, -2});
    CHECK(file->floats("fs").value() == std::vector{0.25f});
}

TEST_CASE("gguf writer: tensors are converted as they are written", "[formats][gguf]") {
    const TemporaryFolder folder;
    const TensorData source = floats({5, 512}, 1);
    const std::vector<float> expected = values_in(source);
    std::vector<OutputTensor> tensors;
    std::vector<DType> dtypes = {DType::f64, DType::f32, DType::f16, DType::bf16};
    for (const DType format : kBlockFormats) dtypes.push_back(format);
    for (const DType dtype : dtypes)
        tensors.push_back({.name = std::string(to_string(dtype)), .dtype = dtype, .source = source});
    std::uint64_t last = 0, all = 0;
    REQUIRE(write_gguf(folder / "x.gguf", {}, tensors, [&](std::uint64_t done, std::uint64_t total) {
        CHECK(done > last);
        last = done, all = total;
    }));
    CHECK(last == all);
    const auto file = Gguf::open(folder / "x.gguf");
    REQUIRE(file);
    for (const OutputTensor& tensor : tensors) {
        CAPTURE(tensor.name);
        const TensorData* data = file->weights().find(tensor.name);
        REQUIRE(data);
        CHECK(data->dtype == tensor.dtype);
        CHECK(data->shape == source.shape);
        if (is_quantized(tensor.dtype)) {
            CHECK(std::ranges::equal(data->bytes, quantized(source, tensor.dtype).value().bytes));
            continue;
        }
        const std::vector<float> values = values_in(*data);
        const double bound = tensor.dtype == DType::f16 ? 0x1p-11 : tensor.dtype == DType::bf16 ? 0x1p-8 : 0;
        for (std::size_t i = 0; i < values.size(); ++i)
            REQUIRE(std::abs(values[i] - expected[i]) <= bound * std::abs(expected[i]));
    }
}

TEST_CASE("gguf writer: rows in another order, in pieces", "[formats][gguf]") {
    const TemporaryFolder folder;
    const TensorData matrix = floats({700, 2048}, 2), vector = floats({6}, 3);  // the matrix takes two pieces
    OutputTensor reversed{.name = "m", .dtype = DType::f32, .source = matrix};
    for (std::uint64_t row = 700; row > 0; --row) reversed.row_order.push_back(row - 1);
    const OutputTensor swapped{.name = "v", .dtype = DType::f32, .source = vector, .row_order = {5, 4, 3, 2, 1, 0}};
    REQUIRE(write_gguf(folder / "x.gguf", {}, std::vector{reversed, swapped}));
    const auto file = Gguf::open(folder / "x.gguf");
    REQUIRE(file);
    const std::vector<float> before = values_in(matrix), after = values_in(*file->weights().find("m"));
    for (std::size_t row = 0; row < 700; ++row)
        REQUIRE(std::equal(after.begin() + static_cast<std::ptrdiff_t>(row * 2048),
                           after.begin() + static_cast<std::ptrdiff_t>((row + 1) * 2048),
                           before.begin() + static_cast<std::ptrdiff_t>((699 - row) * 2048)));
    std::vector<float> backwards = values_in(vector);
    std::ranges::reverse(backwards);
    CHECK(values_in(*file->weights().find("v")) == backwards);
}

TEST_CASE("gguf writer: columns in another order, and tensors of parts", "[formats][gguf]") {
    const TemporaryFolder folder;
    const TensorData matrix = floats({3, 64}, 4), other = floats({2, 64}, 5);
    OutputTensor turned{.name = "turned", .dtype = DType::f32, .source = matrix, .row_order = {2, 0, 1}};
    for (std::uint64_t column = 64; column > 0; --column) turned.column_order.push_back(column - 1);
    const TensorData whole = {.dtype = DType::f32, .shape = {5, 64}, .bytes = {}, .owner = {}};
    const OutputTensor joined{.name = "joined", .dtype = DType::f32, .source = whole, .parts = {matrix, other}};
    const OutputTensor blocks{.name = "blocks", .dtype = DType::q8_0, .source = whole, .parts = {matrix, other}};
    REQUIRE(write_gguf(folder / "x.gguf", {}, std::vector{turned, joined, blocks}));
    const auto file = Gguf::open(folder / "x.gguf");
    REQUIRE(file);
    const std::vector<float> first = values_in(matrix), second = values_in(other);
    const std::vector<float> after = values_in(*file->weights().find("turned"));
    for (std::size_t row = 0; row < 3; ++row)
        for (std::size_t column = 0; column < 64; ++column)
            REQUIRE(after[row * 64 + column] == first[turned.row_order[row] * 64 + 63 - column]);
    std::vector<float> both = first;
    both.insert(both.end(), second.begin(), second.end());
    CHECK(file->weights().find("joined")->shape == Shape{5, 64});
    CHECK(values_in(*file->weights().find("joined")) == both);
    const std::size_t third = file->weights().find("blocks")->bytes.size() / 5 * 3;
    const auto stored = file->weights().find("blocks")->bytes;
    CHECK(std::ranges::equal(stored.first(third), quantized(matrix, DType::q8_0).value().bytes));
    CHECK(std::ranges::equal(stored.subspan(third), quantized(other, DType::q8_0).value().bytes));
}

TEST_CASE("gguf writer: blocks by what counts in each row and matrix", "[formats][gguf]") {
    const auto weights = [](std::size_t count, unsigned seed) {
        std::mt19937 random(seed);
        std::vector<float> all(count);
        for (float& weight : all) weight = std::exp(2 * std::normal_distribution<float>()(random));
        return std::make_shared<const std::vector<float>>(std::move(all));
    };
    const auto blocks_of = [](const TensorData& data, const std::vector<float>& importance) {  // [rows, 256]
        std::vector<float> values(data.shape.element_count()), each;
        REQUIRE(convert(data.dtype, data.bytes, 0, values));
        while (each.size() < values.size()) each.insert(each.end(), importance.begin(), importance.end());
        std::string blocks(bytes_of(DType::q4_k, values.size()), '\0');
        quantize(DType::q4_k, values, std::as_writable_bytes(std::span(blocks)), each);
        return blocks;
    };
    const auto written = [](const OutputTensor& tensor) {
        std::string all;
        REQUIRE(check_output(tensor));
        REQUIRE(each_piece(tensor, [&](std::span<const std::byte> piece) -> Result<void> {
            all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
            return {};
        }));
        return all;
    };
    // More rows than a piece has.
    const TensorData rows = floats({5000, 256}, 1);
    const auto of_row = weights(256, 2);
    CHECK(written({.name = "a", .dtype = DType::q4_k, .source = rows, .importance = of_row}) ==
          blocks_of(rows, *of_row));
    // Each matrix of a stack has its own, whether it lies in one piece or in parts.
    const TensorData first = floats({3, 256}, 3), second = floats({3, 256}, 4);
    const auto of_each = weights(512, 5);
    const std::string wanted = blocks_of(first, std::vector<float>(of_each->begin(), of_each->begin() + 256)) +
                               blocks_of(second, std::vector<float>(of_each->begin() + 256, of_each->end()));
    OutputTensor parts = {.name = "b",
                          .dtype = DType::q4_k,
                          .source = {.dtype = DType::f32, .shape = {2, 3, 256}, .bytes = {}, .owner = {}}};
    parts.importance = of_each;
    parts.parts = {first, second};
    CHECK(written(parts) == wanted);
    auto both = std::make_shared<std::vector<std::byte>>(first.bytes.begin(), first.bytes.end());
    both->insert(both->end(), second.bytes.begin(), second.bytes.end());
    const TensorData stack = {.dtype = DType::f32, .shape = {2, 3, 256}, .bytes = *both, .owner = both};
    CHECK(written({.name = "c", .dtype = DType::q4_k, .source = stack, .importance = of_each}) == wanted);
    // One for all matrices.
    parts.importance = of_row;
    CHECK(written(parts) == blocks_of(first, *of_row) + blocks_of(second, *of_row));

    const auto refused = [&](std::shared_ptr<const std::vector<float>> importance, const TensorData& data) {
        const auto checked =
            check_output({.name = "d", .dtype = DType::q4_k, .source = data, .importance = std::move(importance)});
        REQUIRE_FALSE(checked);
        return checked.error().message;
    };
    CHECK_THAT(refused(weights(255, 1), rows), ContainsSubstring("255 elements does not fit the shape"));
    CHECK_THAT(refused(weights(512, 1), rows), ContainsSubstring("does not fit"));
    CHECK_THAT(refused(weights(768, 1), stack), ContainsSubstring("does not fit"));
    CHECK_THAT(refused(weights(256, 1), floats({256}, 1)), ContainsSubstring("does not fit"));
    for (const float bad : {-1.0f, NAN, INFINITY})
        CHECK_THAT(refused(std::make_shared<const std::vector<float>>(256, bad), rows),
                   ContainsSubstring("negative or not finite"));
}

TEST_CASE("gguf writer: refuses what could not be read", "[formats][gguf]") {
    const OutputTensor good{.name = "a", .dtype = DType::f32, .source = floats({2, 32}, 1)};
    const auto changed = [&](auto change) {
        OutputTensor tensor = good;
        change(tensor);
        return std::vector{tensor};
    };
    CHECK_THAT(refused_write({good, good}), ContainsSubstring("\"a\" is given twice"));
    CHECK_THAT(refused_write(changed([](auto& t) { t.name = ""; })), ContainsSubstring("is empty"));
    CHECK_THAT(refused_write(changed([](auto& t) { t.name = std::string("a\0", 2); })), ContainsSubstring("zero byte"));
    CHECK_THAT(refused_write(changed([](auto& t) {
                   t.source.shape = {3, 32};
               })),
               ContainsSubstring("do not fit the shape"));
    CHECK_THAT(refused_write(changed([](auto& t) {
                   t.source.shape = {1, 1, 1, 2, 32};
               })),
               ContainsSubstring("no place"));
    CHECK_THAT(refused_write(changed([](auto& t) { t.source.shape = {0}, t.source.bytes = {}; })),
               ContainsSubstring("no place"));
    CHECK_THAT(refused_write(changed([](auto& t) { t.dtype = DType::q4_k; })),
               ContainsSubstring("no multiple of a q4_k block"));
    CHECK_THAT(refused_write(changed([](auto& t) { t.dtype = DType::u8; }), ErrorCode::UnsupportedDtype),
               ContainsSubstring("cannot store f32 as u8"));
    CHECK_THAT(refused_write(changed([](auto& t) { t.row_order = {0}; })), ContainsSubstring("row order"));
    CHECK_THAT(refused_write(changed([](auto& t) { t.row_order = {0, 2}; })), ContainsSubstring("row order"));
    CHECK_THAT(refused_write(changed([](auto& t) { t.column_order = {0, 1}; })), ContainsSubstring("column order"));
    CHECK_THAT(refused_write(changed([](auto& t) {
                   t.parts = {t.source, t.source};
               })),
               ContainsSubstring("parts do not fit"));
    CHECK_THAT(refused_write(changed([](auto& t) {
                   t.parts = {t.source}, t.parts[0].shape = {4, 32};
               })),
               ContainsSubstring("do not fit the shape [4, 32]"));
    GgufMetadata metadata;
    metadata.set("general.alignment", std::uint32_t{24});
    CHECK_THAT(refused_write({good}, ErrorCode::InvalidArgument, metadata), ContainsSubstring("power of two"));
    const auto nowhere = write_gguf("/nonexistent/folder/x.gguf", {}, std::vector{good});
    REQUIRE_FALSE(nowhere);
    CHECK(nowhere.error().code == ErrorCode::FileNotFound);
}

TEST_CASE("safetensors: tensors are converted as they are written", "[formats][safetensors]") {
    const TemporaryFolder folder;
    const TensorData source = floats({3, 64}, 4);
    const auto blocks = quantized(source, DType::q8_0).value();
    const std::vector<OutputTensor> tensors = {{.name = "half", .dtype = DType::f16, .source = source},
                                               {.name = "blocks", .dtype = DType::f32, .source = blocks}};
    REQUIRE(write_safetensors(folder / "x.safetensors", tensors));
    const auto file = Safetensors::open(folder / "x.safetensors");
    REQUIRE(file);
    CHECK(file->find("half")->dtype == DType::f16);
    CHECK(values_in(*file->find("blocks")) == values_in(blocks));
    const std::vector<OutputTensor> wrong = {{.name = "blocks", .dtype = DType::q8_0, .source = blocks}};
    CHECK(write_safetensors(folder / "y.safetensors", wrong).error().code == ErrorCode::UnsupportedDtype);
}

TEST_CASE("writers refuse by name what is no number, or none in the format", "[formats][gguf]") {
    const auto refused = [](DType dtype, TensorData source, const std::string& words) {
        CAPTURE(to_string(dtype), words);
        const std::vector<OutputTensor> tensors = {{.name = "fine", .source = floats({2, 256}, 1)},
                                                   {.name = "wide", .dtype = dtype, .source = std::move(source)}};
        const std::string expected = "tensor \"wide\" has a number that is " + words;
        CHECK_THAT(refused_write(tensors), ContainsSubstring(expected));
        if (is_quantized(dtype)) return;
        const TemporaryFolder folder;
        const auto written = write_safetensors(folder / "x.safetensors", tensors, {}, {});
        REQUIRE_FALSE(written);
        CHECK_THAT(written.error().message, ContainsSubstring(expected));
        CHECK(std::filesystem::is_empty(folder.path()));
    };
    const auto with = [](float value) {
        TensorData data = floats({3, 256}, 2);
        auto values = std::make_shared<std::vector<float>>(data.shape.element_count());
        std::memcpy(values->data(), data.bytes.data(), data.bytes.size());
        (*values)[300] = value;
        data.bytes = std::as_bytes(std::span(*values));
        data.owner = values;
        return data;
    };
    constexpr float kMost = std::numeric_limits<float>::max();
    refused(DType::f16, with(1e5f), "beyond f16; take bf16 or f32");
    refused(DType::bf16, with(-kMost), "beyond bf16; take f32");
    for (const float bad : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
        for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) refused(dtype, with(bad), "not finite");
        for (const DType dtype : kBlockFormats) refused(dtype, with(bad), "not finite");
    }
    for (const DType dtype : kBlockFormats)
        if (dtype != DType::mxfp4) refused(dtype, with(1e12f), "beyond " + std::string(to_string(dtype)));
    // Blocks that go over as they are.
    TensorData blocks = must(quantized(with(1), DType::q8_0));
    std::vector<std::byte> bytes(blocks.bytes.begin(), blocks.bytes.end());
    bytes[35] = std::byte{0x7C};
    blocks.bytes = bytes;
    refused(DType::q8_0, blocks, "not finite");

    // What nobody reads, and what a model has computed.
    const TemporaryFolder folder;
    CHECK(write_gguf(
        folder / "x.gguf", {},
        std::vector<OutputTensor>{{.name = "h.0.attn.masked_bias", .dtype = DType::f16, .source = with(-1e9f)}}));
    CHECK(write_safetensors(folder / "x.safetensors", std::vector<NamedTensor>{{"logits", with(std::nanf(""))}}));
}

}  // namespace vkformer::tests
