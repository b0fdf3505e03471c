// SPDX-License-Identifier: MIT
#include "formats/safetensors.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "formats/weights.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using namespace formats;
using Catch::Matchers::ContainsSubstring;

/// The bytes of a file with this header and `data_bytes` bytes after it.
std::string file_with(const std::string& header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string file(sizeof length, '\0');
    std::memcpy(file.data(), &length, sizeof length);
    return file + header + std::string(data_bytes, '\7');
}

/// Parses bytes that lie at the very end of a heap block, so that AddressSanitizer sees a read beyond them.
Result<Safetensors> parse_safetensors(const std::string& file) {
    auto bytes = std::make_shared<std::vector<std::byte>>(file.size());
    if (!file.empty()) std::memcpy(bytes->data(), file.data(), file.size());
    bytes->shrink_to_fit();
    return Safetensors::parse(*bytes, bytes, "x.safetensors");
}

NamedTensor random_tensor(std::string name, DType dtype, Shape shape, unsigned seed) {
    auto bytes = std::make_shared<std::vector<std::byte>>(shape.element_count() * element_bytes(dtype));
    std::mt19937 random(seed);
    for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random());
    return {std::move(name), TensorData{.dtype = dtype, .shape = shape, .bytes = *bytes, .owner = bytes}};
}

std::string small_safetensors() {
    const TemporaryFolder folder;
    const std::vector tensors = {random_tensor("encoder.weight", DType::f32, {3, 2}, 1),
                                 random_tensor("bias", DType::f16, {3}, 2),
                                 random_tensor("flags", DType::boolean, {2, 1, 2}, 3)};
    REQUIRE(write_safetensors(folder / "small.safetensors", tensors, {{"format", "pt"}}));
    return read_file(folder / "small.safetensors");
}

}  // namespace

TEST_CASE("safetensors: what is written is read back, mapped", "[formats][safetensors]") {
    const TemporaryFolder folder;
    const std::vector tensors = {random_tensor("b", DType::f32, {2, 3}, 1),
                                 random_tensor("a", DType::f32, {1}, 2),
                                 random_tensor("half", DType::f16, {5}, 3),
                                 random_tensor("brain", DType::bf16, {4, 1}, 4),
                                 random_tensor("double", DType::f64, {2}, 5),
                                 random_tensor("long", DType::i64, {1, 1, 1, 1, 1, 2}, 6),
                                 random_tensor("int", DType::i32, {3}, 7),
                                 random_tensor("short", DType::i16, {3}, 8),
                                 random_tensor("char", DType::i8, {3}, 9),
                                 random_tensor("byte", DType::u8, {3}, 10),
                                 random_tensor("bool", DType::boolean, {}, 11),
                                 random_tensor("empty", DType::f32, {0, 7}, 12),
                                 random_tensor("ünïcode \"quoted\"\n", DType::u8, {2}, 13)};
    const Metadata metadata = {{"format", "pt"}, {"note", "naïve \\ text"}};
    REQUIRE(write_safetensors(folder / "x.safetensors", tensors, metadata));

    const auto file = Safetensors::open(folder / "x.safetensors");
    REQUIRE(file);
    CHECK(file->names().size() == tensors.size());
    CHECK(file->metadata() == metadata);
    for (const NamedTensor& expected : tensors) {
        CAPTURE(expected.name);
        const TensorData* found = file->find(expected.name);
        REQUIRE(found);
        CHECK(found->dtype == expected.data.dtype);
        CHECK(found->shape == expected.data.shape);
        REQUIRE(found->bytes.size() == expected.data.bytes.size());
        CHECK(std::equal(found->bytes.begin(), found->bytes.end(), expected.data.bytes.begin()));
    }
    CHECK(file->find("c") == nullptr);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);  // no temporary file stays

    std::vector<NamedTensor> shuffled(tensors.rbegin(), tensors.rend());
    REQUIRE(write_safetensors(folder / "y.safetensors", shuffled, metadata));
    CHECK(read_file(folder / "x.safetensors") == read_file(folder / "y.safetensors"));
}

TEST_CASE("safetensors: the written bytes are those of the reference implementation", "[formats][safetensors]") {
    // safetensors.numpy.save({"b": arange(2, int32), "a": arange(3, float32), "é": ones(1, uint8)}, {"format": "pt"})
    const TemporaryFolder folder;
    const std::array<std::int32_t, 2> b = {0, 1};
    const std::array<float, 3> a = {0, 1, 2};
    const std::array<std::uint8_t, 1> e = {1};
    const auto data = [](DType dtype, const auto& array) {
        return TensorData{.dtype = dtype, .shape = {array.size()}, .bytes = std::as_bytes(std::span(array))};
    };
    const std::vector<NamedTensor> tensors = {
        {"b", data(DType::i32, b)}, {"a", data(DType::f32, a)}, {"é", data(DType::u8, e)}};
    REQUIRE(write_safetensors(folder / "x.safetensors", tensors, {{"format", "pt"}}));
    const std::string header =
        R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
        R"("b":{"dtype":"I32","shape":[2],"data_offsets":[12,20]},"é":{"dtype":"U8","shape":[1],"data_offsets":[20,21]}})";
    const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
    const std::string file = read_file(folder / "x.safetensors");
    REQUIRE(file.size() == 8 + padded.size() + 21);
    CHECK(file.substr(0, 8 + padded.size()) == file_with(padded, 0));
    CHECK(file.back() == '\1');
}

TEST_CASE("safetensors: writing refuses what could not be read", "[formats][safetensors]") {
    const TemporaryFolder folder;
    const auto path = folder / "x.safetensors";
    const NamedTensor good = random_tensor("a", DType::f32, {2}, 1);
    const auto code = [&](std::vector<NamedTensor> tensors, const Metadata& metadata = {}) {
        const auto written = write_safetensors(path, tensors, metadata);
        REQUIRE_FALSE(written);
        CHECK(std::filesystem::is_empty(folder.path()));
        return written.error().code;
    };
    CHECK(code({good, good}) == ErrorCode::InvalidArgument);
    CHECK(code({random_tensor("__metadata__", DType::f32, {2}, 1)}) == ErrorCode::InvalidArgument);
    CHECK(code({random_tensor("\xFF", DType::f32, {2}, 1)}) == ErrorCode::InvalidArgument);
    CHECK(code({good}, {{"key", "\xC3"}}) == ErrorCode::InvalidArgument);
    NamedTensor wrong = good;
    wrong.data.shape = {3};
    CHECK(code({wrong}) == ErrorCode::InvalidArgument);
    const auto nowhere = write_safetensors(folder / "no/such/folder", std::vector{good});
    REQUIRE_FALSE(nowhere);
    CHECK(nowhere.error().code == ErrorCode::FileNotFound);
}

TEST_CASE("safetensors: every truncation is an error", "[formats][safetensors]") {
    const std::string file = small_safetensors();
    REQUIRE(parse_safetensors(file));
    for (std::size_t size = 0; size < file.size(); ++size) {
        CAPTURE(size);
        const auto parsed = parse_safetensors(file.substr(0, size));
        REQUIRE_FALSE(parsed);
        CHECK(parsed.error().code == ErrorCode::CorruptFile);
        CHECK_THAT(parsed.error().message, ContainsSubstring("x.safetensors: "));
    }
    CHECK_FALSE(parse_safetensors(file + "x"));
}

TEST_CASE("safetensors: every lie of the header is named", "[formats][safetensors]") {
    struct Lie {
        std::string header;
        std::size_t data_bytes;
        const char* message;
        ErrorCode code = ErrorCode::CorruptFile;
    };
    const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
        return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
    };
    const std::string good = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
    const std::vector<Lie> lies = {
        {"", 0, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {" {}", 0, "does not begin with '{'"},
        {"{", 0, "not valid JSON"},
        {"{}}", 0, "not valid JSON"},
        {"{} x", 0, "not valid JSON"},
        {std::string("{}\0", 3), 0, "not valid JSON"},
        {"{\"a\xFF\":1}", 0, "not valid JSON"},
        {"{" + good + "," + good + "}", 4, "\"a\" occurs twice"},
        {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "\"dtype\" occurs twice"},
        {R"({"__metadata__":{"k":"v","k":"v"}})", 0, "\"k\" twice"},
        {R"({"__metadata__":{},"__metadata__":{}})", 0, "occurs twice"},
        {R"({"__metadata__":{"k":1}})", 0, "expected a text"},
        {R"({"__metadata__":{"k":{}}})", 0, "expected a text"},
        {R"({"__metadata__":[]})", 0, "expected an object"},
        {R"({"__metadata__":"x"})", 0, "expected an object"},
        {R"({"a":1})", 0, "expected an object"},
        {R"({"a":null})", 0, "expected an object"},
        {R"({"a":[]})", 0, "an array"},
        {R"({"a":{}})", 0, "has no dtype"},
        {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "has no shape"},
        {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "has no data_offsets"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "unknown field \"x\""},
        {R"({"a":{"dtype":"F32","shape":{"x":1},"data_offsets":[0,4]}})", 4, "an object"},
        {R"({"a":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", 4, "an array"},
        {R"({"a":{"dtype":5,"shape":[1],"data_offsets":[0,4]}})", 4, "does not belong there"},
        {one("F33", "[1]", "[0,4]"), 4, "tensor \"a\": unknown dtype \"F33\""},
        {one("f32", "[1]", "[0,4]"), 4, "unknown dtype"},
        {one("F8_E5M2", "[4]", "[0,4]"), 4, "tensor \"a\": dtype \"F8_E5M2\" is not supported",
         ErrorCode::UnsupportedDtype},
        {one("F32", "[1]", "[0,8]"), 4, "reach beyond the 4 bytes"},
        {one("F32", "[1]", "[0,18446744073709551615]"), 4, "reach beyond"},
        {one("F32", "[1]", "[18446744073709551612,18446744073709551615]"), 4, "reach beyond"},
        {one("F32", "[1]", "[4,0]"), 4, "reversed"},
        {one("F32", "[2]", "[0,4]"), 4, "[2] of f32 needs 8"},
        {one("F32", "[]", "[0,0]"), 0, "needs 4"},
        {one("F32", "[0]", "[0,4]"), 4, "needs 0"},
        {one("F32", "[1,1,1,1,1,1,1]", "[0,4]"), 4, "more than 6 dimensions"},
        {one("F32", "[4294967296,4294967296]", "[0,4]"), 4, "overflows"},
        {one("F32", "[4611686018427387904]", "[0,0]"), 0, "overflows"},
        {one("F32", "[18446744073709551616]", "[0,4]"), 4, "no 64-bit integer"},
        {one("F32", "[1e0]", "[0,4]"), 4, "no 64-bit integer"},
        {one("F32", "[1.0]", "[0,4]"), 4, "no 64-bit integer"},
        {one("F32", "[-1]", "[0,4]"), 4, "negative number -1"},
        {one("F32", "[1]", "[-4,0]"), 4, "negative number -4"},
        {one("F32", "[1]", "[0]"), 4, "needs two numbers"},
        {one("F32", "[1]", "[0,4,4]"), 4, "more than two"},
        {one("F32", "[1]", "[]"), 4, "needs two numbers"},
        {one("F32", "[1]", "4"), 4, "does not belong there"},
        {one("F32", "[\"1\"]", "[0,4]"), 4, "the text \"1\""},
        {one("F32", "[true]", "[0,4]"), 4, "a boolean"},
        {one("F32", "[null]", "[0,4]"), 4, "null"},
        {one("F32", "[[1]]", "[0,4]"), 4, "an array"},
        {one("F32", "[1]", "[0,4]"), 5, "the last 1 bytes of the data belong to no tensor"},
        {one("F32", "[1]", "[1,5]"), 5, "bytes 0 to 1 of the data belong to no tensor"},
        {"{" + good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 6, "\"b\" overlaps"},
        {"{" + good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "overlaps"},
        {"{" + good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}})", 9, "bytes 4 to 5"},
        {"{}", 1, "belong to no tensor"},
        {R"({"a":)" + std::string(100'000, '['), 0, "an array"},
        {[] {
             std::string bomb;
             for (int i = 0; i < 100'000; ++i) bomb += R"({"a":)";
             return bomb;
         }(),
         0, "unknown field \"a\""},
    };
    for (const Lie& lie : lies) {
        CAPTURE(lie.header.substr(0, 200), lie.data_bytes);
        const auto parsed = parse_safetensors(file_with(lie.header, lie.data_bytes));
        REQUIRE_FALSE(parsed);
        CHECK(parsed.error().code == lie.code);
        CHECK_THAT(parsed.error().message, ContainsSubstring(lie.message));
    }
    for (const std::uint64_t length :
         {std::uint64_t{3}, std::uint64_t{100'000'000}, std::uint64_t{100'000'001}, ~std::uint64_t{0}}) {
        CAPTURE(length);
        std::string file = file_with("{}", 0);
        std::memcpy(file.data(), &length, sizeof length);
        const auto parsed = parse_safetensors(file);
        REQUIRE_FALSE(parsed);
        CHECK_THAT(parsed.error().message, ContainsSubstring("header length " + std::to_string(length)));
    }
    CHECK(parse_safetensors(file_with("{}", 0)));
    CHECK(parse_safetensors(file_with(R"({"__metadata__":null})", 0)));
    CHECK(parse_safetensors(
        file_with("{" + good + R"(,"b":{"shape":[0,18446744073709551615],"data_offsets":[4,4],"dtype":"F64"}}  )", 4)));
}

TEST_CASE("safetensors: flipped bits never crash and never give a tensor outside the file", "[formats][safetensors]") {
    const std::string file = small_safetensors();
    std::mt19937 random(20'240'229);
    for (int round = 0; round < 20'000; ++round) {
        std::string mutated = file;
        const int flips = 1 + static_cast<int>(random() % 4);
        for (int i = 0; i < flips; ++i) {
            // Half of them in the first 200 bytes: the header is where lies matter.
            const std::size_t range = random() % 2 ? mutated.size() : std::min<std::size_t>(mutated.size(), 200);
            mutated[random() % range] ^= static_cast<char>(1u << random() % 8);
        }
        if (random() % 4 == 0) mutated.resize(random() % mutated.size());
        const auto parsed = parse_safetensors(mutated);
        if (!parsed) {
            REQUIRE_FALSE(parsed.error().message.empty());
            continue;
        }
        std::size_t bytes = 0;
        unsigned sum = 0;  // touches every byte, for AddressSanitizer
        for (const auto& [name, data] : parsed->tensors()) {
            bytes += data.bytes.size();
            REQUIRE(data.bytes.size() == data.shape.element_count() * element_bytes(data.dtype));
            for (const std::byte byte : data.bytes) sum += std::to_integer<unsigned>(byte);
        }
        REQUIRE(bytes < mutated.size());
        REQUIRE(sum < 256 * mutated.size());
    }
}

TEST_CASE("open_weights finds one file or shards and says what to do with a pickle", "[formats][weights]") {
    const TemporaryFolder folder;
    const auto message = [&] {
        const auto weights = open_weights(folder.path());
        REQUIRE_FALSE(weights);
        return weights.error().message;
    };
    CHECK_THAT(message(), ContainsSubstring("has neither model.safetensors nor"));
    std::filesystem::copy_file(goldens_dir() / "gguf/llama.gguf", folder / "model.gguf");
    CHECK_THAT(message(), ContainsSubstring("model.gguf is a model of its own (\"llama\")"));
    std::filesystem::remove(folder / "model.gguf");
    write_text(folder / "pytorch_model.bin", "pickle");
    CHECK_THAT(message(), ContainsSubstring("safe_serialization=True"));

    const std::vector first = {random_tensor("encoder.weight", DType::f32, {3, 2}, 1),
                               random_tensor("unlisted", DType::f32, {1}, 4)};
    const std::vector second = {random_tensor("decoder.weight", DType::f16, {3}, 2)};
    REQUIRE(write_safetensors(folder / "model-1.safetensors", first));
    REQUIRE(write_safetensors(folder / "model-2.safetensors", second));
    const auto write_index = [&](const std::string& map) {
        write_text(folder / "model.safetensors.index.json",
                   R"({"metadata":{"total_size":30},"weight_map":)" + map + "}");
    };
    write_index(R"({"encoder.weight":"model-1.safetensors","decoder.weight":"model-2.safetensors"})");
    {
        const auto weights = open_weights(folder.path());
        REQUIRE(weights);
        CHECK(weights->names() == std::vector<std::string_view>{"decoder.weight", "encoder.weight"});
        CHECK(weights->find("encoder.weight")->shape == Shape{3, 2});
        const auto missing = weights->get("decoder.weigth");
        REQUIRE_FALSE(missing);
        CHECK(missing.error().code == ErrorCode::MissingTensor);
        CHECK_THAT(missing.error().message, ContainsSubstring("the nearest name is \"decoder.weight\""));
    }
    write_index(R"({"encoder.weight":"model-2.safetensors"})");
    CHECK_THAT(message(), ContainsSubstring("it is not there"));
    write_index(R"({"encoder.weight":"model-3.safetensors"})");
    CHECK_THAT(message(), ContainsSubstring("model-3.safetensors"));
    write_index(R"({"encoder.weight":"../model-1.safetensors"})");
    CHECK_THAT(message(), ContainsSubstring("is not the name of a .safetensors file in the folder"));
    write_index(R"({"encoder.weight":7})");
    CHECK_THAT(message(), ContainsSubstring("is not the name"));
    write_index("[]");
    CHECK_THAT(message(), ContainsSubstring("has no object \"weight_map\""));
    write_text(folder / "model.safetensors.index.json", R"({"weight_map":{"a":"x.safetensors","a":"x.safetensors"}})");
    CHECK_THAT(message(), ContainsSubstring("twice"));

    REQUIRE(write_safetensors(folder / "model.safetensors", second));
    const auto weights = open_weights(folder.path());
    REQUIRE(weights);
    CHECK(weights->names() == std::vector<std::string_view>{"decoder.weight"});
    CHECK_THAT(open_weights(folder / "nowhere").error().message, ContainsSubstring("there is no folder"));
}

}  // namespace vkformer::tests
