// SPDX-License-Identifier: MIT
/// Pictures against Pillow, and files that are damaged.
#include "images/image.hpp"

#include <fstream>
#include <random>

#include <nlohmann/json.hpp>

#include "images/exif.hpp"
#include "images/resample.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

std::filesystem::path pictures() { return goldens_dir() / "vision/pictures"; }

std::vector<std::uint8_t> bytes_of(const std::string& hex) {
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    return bytes;
}

Image image_of(const json& object) {
    return {.width = object["width"], .height = object["height"], .rgb = bytes_of(object["rgb"])};
}

int largest_difference(const Image& a, const Image& b) {
    REQUIRE(a.width == b.width);
    REQUIRE(a.height == b.height);
    REQUIRE(a.rgb.size() == b.rgb.size());
    int largest = 0;
    for (std::size_t i = 0; i < a.rgb.size(); ++i) largest = std::max(largest, std::abs(a.rgb[i] - b.rgb[i]));
    return largest;
}

template <class T>
void check_corrupt(const Result<T>& result, const std::string& what) {
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::CorruptFile);
    CHECK_THAT(result.error().message, ContainsSubstring(what));
}

}  // namespace

TEST_CASE("pictures have the pixels that Pillow reads", "[images][golden]") {
    const json golden = json::parse(std::ifstream(pictures() / "pixels.json"));
    CHECK(golden.size() == 16);
    for (const auto& [name, expected] : golden.items()) {
        CAPTURE(name);
        const Image found = must(load_image(pictures() / name));
        // PNG is exact; Pillow's libjpeg-turbo may be of another version than this one
        CHECK(largest_difference(found, image_of(expected)) <= (name.ends_with(".png") ? 0 : 1));
    }
}

TEST_CASE("images are resized to the byte as Pillow does it", "[images][golden]") {
    const json golden = json::parse(std::ifstream(goldens_dir() / "vision/resized.json"));
    const Image image = image_of(golden);
    for (const json& expected : golden["results"]) {
        const auto filter = images::resample_of(expected["resample"]);
        REQUIRE(filter);
        CAPTURE(expected["resample"].get<int>(), expected["width"].get<int>(), expected["height"].get<int>());
        const Image found = must(images::resize(image, expected["width"], expected["height"], *filter));
        CHECK(largest_difference(found, image_of(expected)) == 0);
    }
    CHECK_FALSE(images::resample_of(0));
    CHECK_FALSE(images::resample_of(5));
    CHECK_FALSE(images::resize(image, 0, 5, images::Resample::box));
    CHECK_FALSE(images::resize(image, 40000, 5, images::Resample::box));
}

TEST_CASE("a pixel on the border of two boxes is the right one's, as in Pillow", "[images]") {
    const Image image{.width = 2, .height = 1, .rgb = {10, 20, 30, 40, 50, 60}};
    const Image found = must(images::resize(image, 3, 1, images::Resample::box));
    CHECK(found.rgb == std::vector<std::uint8_t>{10, 20, 30, 40, 50, 60, 40, 50, 60});
}

TEST_CASE("a picture that ends too early is an error wherever it ends", "[images][errors]") {
    for (const std::string name : {"colour.png", "palette.png", "colour.jpg", "progressive.jpg"}) {
        const std::vector<std::byte> file = read_bytes(pictures() / name);
        CAPTURE(name, file.size());
        // the last bytes of a JPEG file are its end marker and padding
        const std::size_t end = name.ends_with("jpg") ? file.size() - 8 : file.size();
        for (std::size_t length = 0; length < end; length += 1 + length / 16) {
            CAPTURE(length);
            const auto result = decode_image(std::span(file).first(length));
            REQUIRE_FALSE(result);
            CHECK(result.error().code == ErrorCode::CorruptFile);
        }
    }
}

TEST_CASE("damaged pictures give an error or an image, never anything else", "[images][errors]") {
    std::mt19937 random(1);
    for (const std::string name : {"colour.png", "alpha.png", "palette.png", "bits.png", "colour.jpg",
                                   "progressive.jpg", "inks.jpg", "turned6.jpg"}) {
        const std::vector<std::byte> file = read_bytes(pictures() / name);
        for (int trial = 0; trial < 200; ++trial) {
            std::vector<std::byte> damaged = file;
            for (int i = 0; i <= trial % 4; ++i)
                damaged[random() % damaged.size()] = static_cast<std::byte>(random() & 0xFF);
            const auto result = decode_image(damaged);
            if (result) CHECK(result->rgb.size() == std::size_t{result->width} * result->height * 3);
        }
    }
}

TEST_CASE("pictures that claim too many pixels are refused before they are read", "[images][errors]") {
    std::vector<std::byte> png = read_bytes(pictures() / "colour.png");
    png[16 + 1] = std::byte{1};  // width: 65573; the checksum is wrong as well
    check_corrupt(decode_image(png), "PNG");
    std::vector<std::byte> jpeg = read_bytes(pictures() / "colour.jpg");
    const std::vector<std::byte> start = {std::byte{0xFF}, std::byte{0xC0}};
    const auto frame = std::search(jpeg.begin(), jpeg.end(), start.begin(), start.end());
    REQUIRE(frame != jpeg.end());
    for (int i = 5; i < 9; ++i) frame[i] = std::byte{0xFE};  // 65278 × 65278
    check_corrupt(decode_image(jpeg), "65278 × 65278 pixels");
    CHECK_FALSE(images::make_image(1 << 14, 1 << 13));
    CHECK_FALSE(images::make_image(0, 1));
}

TEST_CASE("what is no picture is said to be none", "[images][errors]") {
    const TemporaryFolder folder;
    std::ofstream(folder / "text.png") << "not a picture";
    std::ofstream(folder / "empty.jpg") << "";
    check_corrupt(load_image(folder / "text.png"), "text.png: this is neither a PNG nor a JPEG file");
    check_corrupt(load_image(folder / "empty.jpg"), "neither");
    const auto missing = load_image(folder / "missing.png");
    REQUIRE_FALSE(missing);
    CHECK(missing.error().code == ErrorCode::FileNotFound);
    CHECK_THAT(missing.error().message, ContainsSubstring("missing.png"));
}

TEST_CASE("orientations outside of Exif's numbers, or cut off, are upright", "[images]") {
    using namespace std::string_literals;
    std::string marker = "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"s;
    const auto of = [&](std::size_t length) {
        return images::exif_orientation(std::as_bytes(std::span(marker)).first(length));
    };
    CHECK(of(marker.size()).transposed);
    for (std::size_t length = 0; length < 25; ++length) CHECK_FALSE(of(length).transposed);
    for (const char type : {'\1', '\4'}) {  // BYTE, LONG
        marker[18] = type;
        CHECK(of(marker.size()).transposed);
    }
    marker[18] = 5;  // RATIONAL
    CHECK_FALSE(of(marker.size()).transposed);
    marker[18] = 3;
    marker[24] = 9;
    CHECK_FALSE(of(marker.size()).transposed);
    marker[10] = '\xFF';  // the directory lies outside
    CHECK_FALSE(of(marker.size()).transposed);
}

namespace {

/// Annex D of the PNG specification.
std::uint32_t chunk_checksum(std::string_view bytes) {
    std::uint32_t sum = 0xFFFFFFFF;
    for (const char byte : bytes) {
        sum ^= static_cast<unsigned char>(byte);
        for (int bit = 0; bit < 8; ++bit) sum = sum & 1 ? 0xEDB88320 ^ (sum >> 1) : sum >> 1;
    }
    return ~sum;
}

/// A chunk of that name and data, before or behind the pixels.
std::vector<std::byte> with_chunk(std::vector<std::byte> png, const std::string& name, const std::string& data,
                                  bool behind) {
    const auto big_endian = [](std::size_t number) {
        std::string bytes;
        for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
        return bytes;
    };
    const std::string chunk = big_endian(data.size()) + name + data + big_endian(chunk_checksum(name + data));
    constexpr std::ptrdiff_t kHeader = 33, kEnd = 12;
    const auto bytes = std::as_bytes(std::span(chunk));
    png.insert(behind ? png.end() - kEnd : png.begin() + kHeader, bytes.begin(), bytes.end());
    return png;
}

}  // namespace

TEST_CASE("what else has the marker of Exif is no orientation, and hides none", "[images]") {
    using namespace std::string_literals;
    const std::vector<std::byte> turned = read_bytes(pictures() / "turned6.jpg");
    const std::string xmp = "\xFF\xE1\0\x23http://ns.adobe.com/xap/1.0/\0<x/>"s;
    REQUIRE(xmp.size() == 2 + 0x23);
    std::vector<std::byte> both = turned;
    const auto bytes = std::as_bytes(std::span(xmp));
    both.insert(both.begin() + 2, bytes.begin(), bytes.end());  // behind the start of the image
    const Image expected = must(decode_image(turned)), found = must(decode_image(both));
    CHECK(found.width == expected.width);
    CHECK(found.rgb == expected.rgb);
}

TEST_CASE("PNG files are turned as their Exif orientation says", "[images]") {
    using namespace std::string_literals;
    const std::vector<std::byte> png = read_bytes(pictures() / "colour.png");
    const Image stored = must(decode_image(png));
    for (char number = 1; number <= 9; ++number)
        for (const bool behind : {false, true}) {
            CAPTURE(static_cast<int>(number), behind);
            const std::string exif = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"s + number + "\0\0\0\0\0\0\0"s;
            const Image turned = must(decode_image(with_chunk(png, "eXIf", exif, behind)));
            const std::string marker = "Exif\0\0"s + exif;
            const Image expected = images::upright(stored, images::exif_orientation(std::as_bytes(std::span(marker))));
            CHECK((turned.width == expected.width && turned.height == expected.height));
            CHECK(turned.rgb == expected.rgb);
            CHECK((turned.rgb == stored.rgb) == (number == 1 || number == 9));
        }
    const Image odd = must(decode_image(with_chunk(png, "eXIf", "II", false)));  // of no use
    CHECK(odd.rgb == stored.rgb);
}

}  // namespace vkformer::tests
