// SPDX-License-Identifier: MIT
#include "formats/gguf.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/block_format.hpp"
#include "core/dtype.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/gguf_bytes.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using namespace formats;
using Catch::Matchers::ContainsSubstring;

/// Parses bytes that lie at the very end of a heap block, so that AddressSanitizer sees a read beyond them.
Result<Gguf> parse_gguf(const std::string& file) {
    auto bytes = std::make_shared<std::vector<std::byte>>(file.size());
    if (!file.empty()) std::memcpy(bytes->data(), file.data(), file.size());
    bytes->shrink_to_fit();
    return Gguf::parse(*bytes, bytes, "x.gguf");
}

/// Three tensors and a value of every type.
GgufBytes small_gguf() {
    using enum GgufType;
    GgufBytes file;
    file.values = {
        gguf_value("general.architecture", string, gguf_text("llama")),
        gguf_value("a.u8", u8, raw(std::uint8_t{200})),
        gguf_value("a.i8", i8, raw(std::int8_t{-100})),
        gguf_value("a.u16", u16, raw(std::uint16_t{60000})),
        gguf_value("a.i16", i16, raw(std::int16_t{-30000})),
        gguf_value("a.u32", u32, raw(std::uint32_t{4'000'000'000})),
        gguf_value("a.i32", i32, raw(std::int32_t{-2'000'000'000})),
        gguf_value("a.u64", u64, raw(std::uint64_t{1} << 63)),
        gguf_value("a.i64", i64, raw(std::int64_t{-5'000'000'000})),
        gguf_value("a.f32", f32, raw(0.1f)),
        gguf_value("a.f64", f64, raw(1e-300)),
        gguf_value("a.nan", f32, raw(std::numeric_limits<float>::quiet_NaN())),
        gguf_value("a.bool", boolean, raw(std::uint8_t{1})),
        gguf_value("a.texts", array, gguf_string_array({"one", "", "zwölf\n"})),
        gguf_value("a.ints", array, gguf_array(i32, 3, raw(1) + raw(-2) + raw(3))),
        gguf_value("a.floats", array, gguf_array(f32, 2, raw(0.5f) + raw(-1.5f))),
        gguf_value("a.bools", array, gguf_array(boolean, 2, std::string("\1\0", 2))),
        gguf_value("a.empty", array, gguf_array(string, 0, "")),
        gguf_value("a.nested", array, gguf_array(array, 2, gguf_array(u8, 1, "x") + gguf_string_array({"y"}))),
    };
    file.tensors = {gguf_tensor("w", {32, 2}, 8, 64), gguf_tensor("bias", {3}, 0, 0),
                    gguf_tensor("other", {128}, 41, 32)};
    file.data = std::string(64, '\1') + std::string(68, '\2');
    return file;
}

/// The message of a file that cannot be read.
std::string refused_gguf(const std::string& file, ErrorCode code = ErrorCode::CorruptFile) {
    const auto parsed = parse_gguf(file);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == code);
    CHECK_THAT(parsed.error().message, ContainsSubstring("x.gguf"));
    return parsed.error().message;
}

/// The message for a file with this one value more.
std::string refused_value(const std::string& value) {
    GgufBytes file = small_gguf();
    file.values.push_back(value);
    return refused_gguf(file.file());
}

std::string refused_tensor(const std::string& tensor) {
    GgufBytes file = small_gguf();
    file.tensors.push_back(tensor);
    return refused_gguf(file.file());
}

std::string upper_case(std::string_view text) {
    std::string result(text);
    for (char& letter : result)
        if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    return result;
}

std::uint32_t must_be(const std::optional<std::uint32_t>& number) {
    REQUIRE(number);
    return *number;
}

}  // namespace

TEST_CASE("gguf: values of every type are read", "[formats][gguf]") {
    const auto file = parse_gguf(small_gguf().file());
    REQUIRE(file);
    CHECK(file->version() == 3);
    CHECK(file->alignment() == 32);
    CHECK(file->part_count() == 1);
    CHECK(file->values().size() == 19);
    CHECK(file->values()[2].key == "a.i8");
    CHECK(file->string("general.architecture").value() == "llama");
    CHECK(file->integer("a.u8").value() == 200);
    CHECK(file->integer("a.i8").value() == -100);
    CHECK(file->integer("a.u16").value() == 60000);
    CHECK(file->integer("a.i16").value() == -30000);
    CHECK(file->unsigned_integer("a.u32").value() == 4'000'000'000);
    CHECK(file->integer("a.i32").value() == -2'000'000'000);
    CHECK(file->integer("a.i64").value() == -5'000'000'000);
    CHECK(file->real("a.u64").value() == 0x1p63);
    CHECK(file->real("a.f32").value() == 0.1f);
    CHECK(file->real("a.f64").value() == 1e-300);
    CHECK(file->boolean("a.bool").value());
    CHECK(file->strings("a.texts").value() == std::vector<std::string_view>{"one", "", "zwölf\n"});
    CHECK(file->integers("a.ints").value() == std::vector{1, -2, 3});
    CHECK(file->integers("a.i8").value() == std::vector{-100});
    CHECK(file->integers("a.bools").value() == std::vector{1, 0});
    CHECK(file->floats("a.floats").value() == std::vector{0.5f, -1.5f});
    CHECK(file->floats("a.ints").value() == std::vector{1.0f, -2.0f, 3.0f});
    CHECK(file->strings("a.empty").value().empty());
    CHECK(file->has("a.nested"));
    CHECK(file->shown(*file->find("a.texts"), 2) == R"(["one", "", … (3 elements)])");
    CHECK(file->shown(*file->find("a.f32"), 2) == "0.1");
    CHECK(file->shown(*file->find("a.nested"), 2) == "an array of 2 arrays");
}

TEST_CASE("gguf: getters check and say what they found", "[formats][gguf]") {
    const auto file = parse_gguf(small_gguf().file());
    REQUIRE(file);
    CHECK(file->unsigned_integer("missing", {.fallback = 7}).value() == 7);
    CHECK(file->string("missing", "x").value() == "x");
    CHECK(file->boolean("missing", true).value());
    CHECK(file->strings("missing").value().empty());
    CHECK(file->integers("missing").value().empty());
    CHECK(message_of(file->unsigned_integer("missing", {.min = 1})) ==
          "x.gguf: \"missing\" is missing, expected a positive integer");
    CHECK(message_of(file->unsigned_integer("general.architecture")) ==
          "x.gguf: \"general.architecture\" is \"llama\", expected a non-negative integer");
    CHECK(message_of(file->unsigned_integer("a.u8", {.min = 1, .max = 100})) ==
          "x.gguf: \"a.u8\" is 200, expected an integer from 1 to 100");
    CHECK_THAT(message_of(file->unsigned_integer("a.i8")), ContainsSubstring("is -100"));
    CHECK_THAT(message_of(file->unsigned_integer("a.u64")), ContainsSubstring("is 9223372036854775808"));
    CHECK_THAT(message_of(file->integer("a.u64")), ContainsSubstring("expected an integer"));
    CHECK_THAT(message_of(file->unsigned_integer("a.f32")), ContainsSubstring("is 0.1"));
    CHECK_THAT(message_of(file->unsigned_integer("a.bool")), ContainsSubstring("is true"));
    CHECK_THAT(message_of(file->real("a.nan")), ContainsSubstring("is nan, expected a number"));
    CHECK_THAT(message_of(file->real("a.bool")), ContainsSubstring("expected a number"));
    CHECK_THAT(message_of(file->boolean("a.u8")), ContainsSubstring("is 200, expected true or false"));
    CHECK_THAT(message_of(file->string("a.texts")),
               ContainsSubstring(R"(is ["one", "", "zwölf\x0a"], expected a text)"));
    CHECK_THAT(message_of(file->strings("a.ints")), ContainsSubstring("is [1, -2, 3], expected a list of texts"));
    CHECK_THAT(message_of(file->integers("a.texts")), ContainsSubstring("expected an integer or a list"));
    CHECK_THAT(message_of(file->integers("a.u64")), ContainsSubstring("expected an integer or a list"));
    CHECK_THAT(message_of(file->integers("a.nested")), ContainsSubstring("an array of 2 arrays"));
    CHECK_THAT(message_of(file->floats("a.bools")), ContainsSubstring("[true, false]"));
    CHECK(file->unsupported("a.u8", "4").code == ErrorCode::UnsupportedConfig);
}

TEST_CASE("gguf: tensors are row-major views into the file", "[formats][gguf]") {
    const auto file = parse_gguf(small_gguf().file());
    REQUIRE(file);
    REQUIRE(file->tensors().size() == 3);
    CHECK(file->tensors()[0].name == "w");
    const TensorData* w = file->weights().find("w");
    REQUIRE(w);
    CHECK(w->dtype == DType::q8_0);
    CHECK(w->shape == Shape{2, 32});
    REQUIRE(w->bytes.size() == 68);
    CHECK(w->bytes[0] == std::byte{2});
    CHECK(w->bytes[67] == std::byte{2});
    CHECK(file->weights().get("bias").value().bytes.size() == 12);
    // Q1_0: listed, and refused by name
    CHECK(ggml_type_name(file->tensors()[2].type) == "Q1_0");
    CHECK(file->tensors()[2].bytes.size() == 18);
    CHECK(file->weights().has("other"));
    CHECK(file->weights().find("other") == nullptr);
    const auto other = file->weights().get("other");
    REQUIRE_FALSE(other);
    CHECK(other.error().code == ErrorCode::UnsupportedDtype);
    CHECK_THAT(other.error().message, ContainsSubstring("\"other\" is of the type Q1_0"));
    CHECK(file->weights().get("output").error().code == ErrorCode::MissingTensor);
    std::vector<DType> dtypes = {DType::f32, DType::f16, DType::bf16, DType::i8,
                                 DType::i16, DType::i32, DType::i64,  DType::f64};
    for (const DType format : kBlockFormats) dtypes.push_back(format);
    for (const DType dtype : dtypes) {
        CAPTURE(to_string(dtype));
        REQUIRE(ggml_type_of(dtype));
        CHECK(dtype_of_ggml_type(*ggml_type_of(dtype)) == dtype);
    }
    CHECK_FALSE(ggml_type_of(DType::u8));
}

TEST_CASE("gguf: version 2 and other alignments", "[formats][gguf]") {
    GgufBytes file = small_gguf();
    file.version = 2;
    REQUIRE(parse_gguf(file.file()));
    CHECK(parse_gguf(file.file())->version() == 2);
    file.values.push_back(gguf_value("general.alignment", GgufType::u32, raw(std::uint32_t{64})));
    file.alignment = 64;
    file.tensors = {gguf_tensor("w", {32, 2}, 8, 64)};
    const auto aligned = parse_gguf(file.file());
    REQUIRE(aligned);
    CHECK(aligned->alignment() == 64);
    CHECK(aligned->weights().find("w")->bytes[0] == std::byte{2});
    CHECK(parse_gguf(GgufBytes{}.file()));
}

TEST_CASE("gguf: every truncation is an error", "[formats][gguf]") {
    const std::string file = small_gguf().file();
    REQUIRE(parse_gguf(file));
    for (std::size_t size = 0; size < file.size(); ++size) {
        CAPTURE(size);
        const auto parsed = parse_gguf(file.substr(0, size));
        REQUIRE_FALSE(parsed);
        CHECK(parsed.error().code == ErrorCode::CorruptFile);
        CHECK_THAT(parsed.error().message, ContainsSubstring("x.gguf: "));
    }
}

TEST_CASE("gguf: tensors of every block format are whole or refused", "[formats][gguf]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    CAPTURE(to_string(format));
    const std::uint32_t type = must_be(ggml_type_of(format));
    CHECK(ggml_type_name(type) == upper_case(to_string(format)));
    const std::size_t elements = block_elements(format), bytes = 6 * block_bytes(format);
    GgufBytes file;
    file.tensors = {gguf_tensor("w", {2 * elements, 3}, type, 0)};
    file.data = std::string(bytes, '\3');
    const std::string whole = file.file();
    const auto parsed = parse_gguf(whole);
    REQUIRE(parsed);
    const TensorData w = parsed->weights().get("w").value();
    CHECK(w.dtype == format);
    CHECK(w.shape == Shape{3, 2 * elements});
    REQUIRE(w.bytes.size() == bytes);
    std::vector<float> values(6 * elements);
    CHECK(convert(w.dtype, w.bytes, 0, std::span(values)));
    for (std::size_t size = 0; size < whole.size(); ++size) CHECK_FALSE(parse_gguf(whole.substr(0, size)));

    const auto refused_as = [&](const std::string& tensor) {
        GgufBytes changed = file;
        changed.tensors = {tensor};
        return refused_gguf(changed.file());
    };
    CHECK_THAT(refused_as(gguf_tensor("w", {elements - 1}, type, 0)), ContainsSubstring("no whole number of blocks"));
    CHECK_THAT(refused_as(gguf_tensor("w", {elements / 2, 2}, type, 0)),
               ContainsSubstring("of " + std::to_string(elements) + " elements in every row"));
    CHECK_THAT(refused_as(gguf_tensor("w", {}, type, 0)), ContainsSubstring("no whole number of blocks"));
    CHECK_THAT(refused_as(gguf_tensor("w", {elements, 7}, type, 0)), ContainsSubstring("reach beyond"));
    CHECK_THAT(refused_as(gguf_tensor("w", {elements, 6}, type, 32)), ContainsSubstring("reach beyond"));
    CHECK_THAT(refused_as(gguf_tensor("w", {std::uint64_t{1} << 62, 4}, type, 0)), ContainsSubstring("overflows"));
}

TEST_CASE("gguf: lies about the file are named", "[formats][gguf]") {
    GgufBytes file = small_gguf();
    file.magic = "GGML";
    CHECK_THAT(refused_gguf(file.file()), ContainsSubstring("does not begin with \"GGUF\""));
    file = small_gguf();
    for (const std::uint32_t version : {0u, 1u, 4u, 70'000u}) {
        file.version = version;
        CHECK_THAT(refused_gguf(file.file()),
                   ContainsSubstring("version " + std::to_string(version) + ", supported: 2 and 3"));
    }
    for (const std::uint32_t version : {0x03000000u, 0x02000000u}) {
        file.version = version;
        CHECK_THAT(refused_gguf(file.file()), ContainsSubstring("big-endian"));
    }
    for (const std::uint64_t count : {std::uint64_t{1000}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
        std::string bytes = small_gguf().file();
        std::memcpy(bytes.data() + 8, &count, sizeof count);
        CHECK_THAT(refused_gguf(bytes), ContainsSubstring(std::to_string(count) + " tensors"));
        bytes = small_gguf().file();
        std::memcpy(bytes.data() + 16, &count, sizeof count);
        CHECK_THAT(refused_gguf(bytes), ContainsSubstring(std::to_string(count) + " metadata values"));
    }
}

TEST_CASE("gguf: lies about values are named", "[formats][gguf]") {
    using enum GgufType;
    CHECK_THAT(refused_value(gguf_value("x", 13, raw(0))), ContainsSubstring("\"x\" has the unknown type 13"));
    CHECK_THAT(refused_value(gguf_value("x", array, raw(99u) + raw(std::uint64_t{0}))),
               ContainsSubstring("the array in the value of \"x\" has the unknown type 99"));
    CHECK_THAT(refused_value(gguf_value("", u8, "x")), ContainsSubstring("name of a key is empty"));
    CHECK_THAT(refused_value(gguf_value(std::string_view("a\0b", 3), u8, "x")),
               ContainsSubstring("\"a\\x00b\" contains a zero byte"));
    CHECK_THAT(refused_value(gguf_value("a.u8", u8, "x")), ContainsSubstring("the key \"a.u8\" occurs twice"));
    for (const std::uint64_t length : {std::uint64_t{1'000'000}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        CAPTURE(length);
        CHECK_THAT(refused_value(gguf_value("x", string, raw(length))),
                   ContainsSubstring("the length " + std::to_string(length) + " of the value of \"x\""));
        CHECK_THAT(refused_value(raw(length)), ContainsSubstring("name of a key"));
        for (const GgufType element : {u8, i16, f32, f64, string, array})
            CHECK_THAT(refused_value(gguf_value("x", array, gguf_array(element, length, ""))),
                       ContainsSubstring("an array of " + std::to_string(length)));
        CHECK_THAT(refused_value(gguf_value("x", array, gguf_array(array, 1, gguf_array(string, length, "")))),
                   ContainsSubstring("an array of " + std::to_string(length)));
    }
    std::string nested = gguf_array(u8, 0, "");
    for (int depth = 0; depth < 8; ++depth) {
        CAPTURE(depth);
        GgufBytes file = small_gguf();
        file.values.push_back(gguf_value("x", array, nested));
        CHECK(parse_gguf(file.file()));
        nested = gguf_array(array, 1, nested);
    }
    CHECK_THAT(refused_value(gguf_value("x", array, nested)), ContainsSubstring("nested deeper than 8 levels"));
    for (int depth = 0; depth < 10'000; ++depth) nested = raw(9u) + raw(std::uint64_t{1}) + nested;
    CHECK_THAT(refused_value(gguf_value("x", array, nested)), ContainsSubstring("nested deeper"));
    for (const std::uint32_t alignment : {0u, 3u, 48u, ~0u})
        CHECK_THAT(refused_value(gguf_value("general.alignment", u32, raw(alignment))),
                   ContainsSubstring("expected a power of two"));
    CHECK_THAT(refused_value(gguf_value("general.alignment", string, gguf_text("32"))),
               ContainsSubstring("expected a power of two"));
}

TEST_CASE("gguf: lies about tensors are named", "[formats][gguf]") {
    const std::uint64_t huge = std::uint64_t{1} << 62;
    CHECK_THAT(refused_tensor(gguf_tensor("x", {1}, 99, 0)), ContainsSubstring("tensor \"x\" has the unknown type 99"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {1}, 4, 0)), ContainsSubstring("unknown type 4"));
    CHECK_THAT(refused_tensor(gguf_tensor("", {1}, 0, 0)), ContainsSubstring("name of a tensor is empty"));
    CHECK_THAT(refused_tensor(gguf_tensor(std::string_view("\0", 1), {1}, 0, 0)), ContainsSubstring("zero byte"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {1, 1, 1, 1, 1}, 0, 0)), ContainsSubstring("has 5 dimensions"));
    CHECK_THAT(refused_tensor(gguf_text("x") + raw(~0u)), ContainsSubstring("has 4294967295 dimensions"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {3, 0}, 0, 0)), ContainsSubstring("[0, 3] with a dimension of 0"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {huge, 4}, 0, 0)), ContainsSubstring("overflows 64 bits"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {huge, 2}, 24, 0)), ContainsSubstring("overflows 64 bits"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {huge}, 0, 0)), ContainsSubstring("overflows 64 bits"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {31}, 8, 0)),
               ContainsSubstring("[31] of Q8_0 is no whole number of blocks"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {16, 2}, 8, 0)), ContainsSubstring("of 32 elements in every row"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {}, 8, 0)), ContainsSubstring("no whole number of blocks"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {1}, 0, 4)), ContainsSubstring("no multiple of the alignment 32"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {1}, 0, 160)), ContainsSubstring("reach beyond the 132 bytes"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {2}, 0, 128)), ContainsSubstring("has 8 bytes from 128 on"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {1}, 0, ~std::uint64_t{31})), ContainsSubstring("reach beyond"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {9}, 0, 0)), ContainsSubstring("overlaps tensor"));
    CHECK_THAT(refused_tensor(gguf_tensor("x", {1}, 0, 96)), ContainsSubstring("\"x\" overlaps tensor \"w\""));
    GgufBytes twice = small_gguf();
    twice.data += std::string(160, '\0');
    twice.tensors.push_back(gguf_tensor("bias", {3}, 0, 160));
    CHECK_THAT(refused_gguf(twice.file()), ContainsSubstring("the tensor \"bias\" occurs twice"));
}

TEST_CASE("gguf: flipped bits never crash and never give a tensor outside the file", "[formats][gguf]") {
    const std::string file = small_gguf().file();
    std::mt19937 random(20'251'121);
    int read = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::string mutated = file;
        const int flips = 1 + static_cast<int>(random() % 4);
        for (int i = 0; i < flips; ++i) mutated[random() % mutated.size()] ^= static_cast<char>(1u << random() % 8);
        if (random() % 8 == 0) mutated.resize(random() % mutated.size());
        const auto parsed = parse_gguf(mutated);
        if (!parsed) {
            REQUIRE_FALSE(parsed.error().message.empty());
            continue;
        }
        ++read;
        unsigned sum = 0;  // touches every byte, for AddressSanitizer
        for (const GgufTensor& tensor : parsed->tensors())
            for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);
        REQUIRE(sum < 256 * mutated.size());
        for (const GgufValue& value : parsed->values()) {
            REQUIRE_FALSE(parsed->shown(value, 100).empty());
            (void)parsed->strings(value.key);
            (void)parsed->integers(value.key);
            (void)parsed->floats(value.key);
        }
    }
    CHECK(read > 1000);
}

namespace {

std::string part(std::uint16_t index, std::uint16_t count, std::int32_t tensor_count, const std::string& tensor) {
    GgufBytes file;
    file.values = {gguf_value("split.no", GgufType::u16, raw(index)),
                   gguf_value("split.count", GgufType::u16, raw(count)),
                   gguf_value("split.tensors.count", GgufType::i32, raw(tensor_count))};
    if (index == 0) file.values.push_back(gguf_value("general.name", GgufType::string, gguf_text("split")));
    if (!tensor.empty()) file.tensors = {gguf_tensor(tensor, {1}, 0, 0)};
    file.data = raw(static_cast<float>(index));
    return file.file();
}

}  // namespace

TEST_CASE("gguf: split files are joined", "[formats][gguf]") {
    const TemporaryFolder folder;
    write_text(folder / "m-00001-of-00003.gguf", part(0, 3, 2, ""));
    write_text(folder / "m-00002-of-00003.gguf", part(1, 3, 2, "a"));
    write_text(folder / "m-00003-of-00003.gguf", part(2, 3, 2, "b"));
    for (const char* name : {"m-00001-of-00003.gguf", "m-00003-of-00003.gguf"}) {
        const auto file = Gguf::open(folder / name);
        REQUIRE(file);
        CHECK(file->part_count() == 3);
        CHECK(file->string("general.name").value() == "split");
        REQUIRE(file->weights().find("b"));
        float b = 0;
        REQUIRE(convert(DType::f32, file->weights().find("b")->bytes, 0, std::span(&b, 1)));
        CHECK(b == 2);
    }
    const auto refused_open = [&](const char* name) {
        const auto file = Gguf::open(folder / name);
        REQUIRE_FALSE(file);
        return file.error().message;
    };
    write_text(folder / "renamed.gguf", part(0, 3, 2, ""));
    CHECK_THAT(refused_open("renamed.gguf"), ContainsSubstring("\"-00001-of-00003.gguf\""));
    write_text(folder / "m-00002-of-00003.gguf", part(1, 3, 2, "b"));
    CHECK_THAT(refused_open("m-00001-of-00003.gguf"), ContainsSubstring("\"b\" is in two parts"));
    write_text(folder / "m-00002-of-00003.gguf", part(1, 3, 2, ""));
    CHECK_THAT(refused_open("m-00001-of-00003.gguf"), ContainsSubstring("\"split.tensors.count\" is 2"));
    write_text(folder / "m-00002-of-00003.gguf", part(2, 3, 2, "a"));
    CHECK_THAT(refused_open("m-00001-of-00003.gguf"), ContainsSubstring("says that it is part 2 of 3"));
    write_text(folder / "m-00002-of-00003.gguf", part(4, 3, 2, "a"));
    CHECK_THAT(refused_open("m-00002-of-00003.gguf"), ContainsSubstring("part 4 of 3"));
    std::filesystem::remove(folder / "m-00002-of-00003.gguf");
    CHECK_THAT(refused_open("m-00001-of-00003.gguf"), ContainsSubstring("m-00002-of-00003.gguf"));
    CHECK_THAT(refused_gguf(part(0, 3, 2, "")), ContainsSubstring("one part of a split file"));
}

TEST_CASE("gguf: files of the gguf package", "[formats][gguf]") {
    const std::filesystem::path folder = std::filesystem::path(VKFORMER_SOURCE_DIR) / "tests/goldens/gguf";
    const auto file = Gguf::open(folder / "types.gguf");
    REQUIRE(file);
    CHECK(file->string("general.architecture").value() == "llama");
    CHECK(file->unsigned_integer("llama.block_count").value() == 2);
    CHECK(file->real("test.u64").value() == 0x1p63);
    CHECK(file->real("test.f64").value() == 0.1);
    CHECK(file->boolean("test.bool").value());
    CHECK(file->strings("test.texts").value() == std::vector<std::string_view>{"one", "", "zwölf"});
    CHECK(file->integers("test.ints").value() == std::vector{1, -2, 3});
    CHECK(file->floats("test.floats").value() == std::vector{0.5f, -1.5f});
    CHECK(file->tensors().size() == 13);
    const auto error_of = [&](const char* name, double bound) {
        CAPTURE(name);
        const TensorData* data = file->weights().find(name);
        REQUIRE(data);
        CHECK(data->shape == Shape{3, 64});
        std::vector<float> values(3 * 64);
        REQUIRE(convert(data->dtype, data->bytes, 0, values));
        double largest = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            double expected = (static_cast<double>(i % 64) - 20) * static_cast<double>(i / 64 + 1) / 2;
            if (!is_float(data->dtype) && !is_quantized(data->dtype)) expected = std::trunc(expected);
            largest = std::max(largest, std::abs(values[i] - expected));
        }
        CHECK(largest <= bound);
    };
    for (const char* name : {"float32", "float16", "float64", "int8", "int16", "int32", "int64", "BF16"})
        error_of(name, 0);
    error_of("Q8_0", 65.0 / 127 * 0.51);  // half a step of the largest block, the scale rounded to half
    error_of("Q4_0", 65.0 / 8 * 1.01);    // a whole step at the end that has no level of its own
    error_of("Q5_0", 65.0 / 16 * 1.01);
    error_of("Q4_1", 46.5 / 15 * 0.52);  // the range of the largest block
    error_of("Q5_1", 46.5 / 31 * 0.52);

    const auto split = Gguf::open(folder / "split-00002-of-00003.gguf");
    REQUIRE(split);
    CHECK(split->part_count() == 3);
    CHECK(split->string("general.name").value() == "split");
    CHECK(split->tensors().size() == 5);
    float value = 0;
    REQUIRE(convert(DType::f32, split->weights().get("t4").value().bytes, 5, std::span(&value, 1)));
    CHECK(value == 4);
}

}  // namespace vkformer::tests
