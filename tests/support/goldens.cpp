// SPDX-License-Identifier: MIT
#include "support/goldens.hpp"

#include "support/catch.h"

namespace vkformer::tests {
namespace {

formats::Safetensors open(const std::string& path) {
    auto file = formats::Safetensors::open(goldens_dir() / path);
    if (!file) FAIL(file.error().message);
    return std::move(*file);
}

}  // namespace

std::filesystem::path goldens_dir() { return std::filesystem::path(VKFORMER_SOURCE_DIR) / "tests" / "goldens"; }

std::vector<float> values_in(const TensorData& data) {
    std::vector<float> values(data.shape.element_count());
    REQUIRE(convert(data.dtype, data.bytes, 0, std::span(values)));
    return values;
}

Golden::Golden(const std::string& path) : path_(path), file_(open(path)) {}

const TensorData& Golden::tensor(const std::string& name) const {
    const TensorData* const found = file_.find(name);
    if (!found) FAIL(path_ << " has no tensor " << name);
    return *found;
}

template <class T>
std::vector<T> Golden::values(const std::string& name) const {
    const TensorData& data = tensor(name);
    std::vector<T> result(data.shape.element_count());
    const auto converted = convert(data.dtype, data.bytes, 0, std::span(result));
    if (!converted) FAIL(path_ << ": " << converted.error().message);
    return result;
}

std::vector<float> Golden::floats(const std::string& name) const { return values<float>(name); }
std::vector<double> Golden::doubles(const std::string& name) const { return values<double>(name); }
std::vector<std::int32_t> Golden::ints(const std::string& name) const { return values<std::int32_t>(name); }

}  // namespace vkformer::tests
