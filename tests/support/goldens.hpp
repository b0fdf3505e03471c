// SPDX-License-Identifier: MIT
/// The files under tests/goldens as vectors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "formats/safetensors.hpp"

namespace vkformer::tests {

std::filesystem::path goldens_dir();

/// One safetensors file of tests/goldens; whatever is missing fails the test case.
class Golden {
public:
    /// `path` below tests/goldens: "torch/sdpa_causal.safetensors"
    explicit Golden(const std::string& path);

    bool has(const std::string& name) const { return file_.find(name) != nullptr; }
    Shape shape(const std::string& name) const { return tensor(name).shape; }
    const TensorData& tensor(const std::string& name) const;
    std::vector<float> floats(const std::string& name) const;
    std::vector<double> doubles(const std::string& name) const;
    std::vector<std::int32_t> ints(const std::string& name) const;

private:
    template <class T>
    std::vector<T> values(const std::string& name) const;

    std::string path_;
    formats::Safetensors file_;
};

/// [a, b, c, d] → [a, c, b, d]: between PyTorch's [batch, heads, len, dim] and ours, [batch, len, heads, dim].
template <class T>
std::vector<T> swap_middle(const std::vector<T>& x, const Shape& shape) {
    std::vector<T> result(x.size());
    const std::size_t a = shape[0], b = shape[1], c = shape[2], d = shape[3];
    for (std::size_t i = 0; i < a; ++i)
        for (std::size_t j = 0; j < b; ++j)
            for (std::size_t k = 0; k < c; ++k)
                for (std::size_t l = 0; l < d; ++l)
                    result[((i * c + k) * b + j) * d + l] = x[((i * b + j) * c + k) * d + l];
    return result;
}
inline Shape swap_middle(const Shape& s) { return {s[0], s[2], s[1], s[3]}; }

}  // namespace vkformer::tests
