// SPDX-License-Identifier: MIT
/// The files under tests/goldens as vectors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "formats/safetensors.hpp"

namespace vkformer::tests {

std::filesystem::path goldens_dir();
inline std::filesystem::path sentence_folder(const std::string& name) { return goldens_dir() / "sentences" / name; }
inline std::filesystem::path speech_folder(const std::string& name) { return goldens_dir() / "speech" / name; }
inline std::filesystem::path vision_folder(const std::string& name) { return goldens_dir() / "vision" / name; }

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

/// The elements of a file's tensor as float32.
std::vector<float> values_in(const TensorData& data);

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

/// [rows, columns] → [columns, rows]
inline std::vector<float> transposed(const std::vector<float>& matrix, std::size_t columns) {
    const std::size_t rows = matrix.size() / columns;
    std::vector<float> result(matrix.size());
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < columns; ++j) result[j * rows + i] = matrix[i * columns + j];
    return result;
}

}  // namespace vkformer::tests
