// SPDX-License-Identifier: MIT
/// The products that the CPU ops use, row-major and always accumulating: c keeps what it holds, so that a bias or a zero is put
/// there first and no result depends on how a BLAS treats "0 · what was there". Those of matrices are a BLAS's and run on its threads;
/// those with a vector are, in float, float_kernels' and run on the calling thread.
#pragma once

#include <cblas.h>

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <limits>
#include <vector>

#include "cpu/float_product.hpp"

namespace vkformer::cpu {

/// BLAS counts in int; every dimension of a Graph's tensor is at most 2^31 − 1.
inline int blas_int(std::size_t count) {
    assert(count <= static_cast<std::size_t>(std::numeric_limits<int>::max()));
    return static_cast<int>(count);
}

/// A row-major matrix in memory: element (i, j) is data[i · stride + j].
template <class T>
struct Matrix {
    T* data;
    std::size_t stride;
};

/// c[m, n] += alpha · a[m, k] · b[n, k]ᵀ
inline void add_product_transposed(std::size_t m, std::size_t n, std::size_t k, float alpha, Matrix<const float> a,
                                   Matrix<const float> b, Matrix<float> c) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, blas_int(m), blas_int(n), blas_int(k), alpha, a.data,
                blas_int(a.stride), b.data, blas_int(b.stride), 1, c.data, blas_int(c.stride));
}
inline void add_product_transposed(std::size_t m, std::size_t n, std::size_t k, double alpha, Matrix<const double> a,
                                   Matrix<const double> b, Matrix<double> c) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, blas_int(m), blas_int(n), blas_int(k), alpha, a.data,
                blas_int(a.stride), b.data, blas_int(b.stride), 1, c.data, blas_int(c.stride));
}

/// c[m, n] += a[m, k] · b[k, n]
inline void add_product(std::size_t m, std::size_t n, std::size_t k, Matrix<const float> a, Matrix<const float> b,
                        Matrix<float> c) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, blas_int(m), blas_int(n), blas_int(k), 1, a.data,
                blas_int(a.stride), b.data, blas_int(b.stride), 1, c.data, blas_int(c.stride));
}
inline void add_product(std::size_t m, std::size_t n, std::size_t k, Matrix<const double> a, Matrix<const double> b,
                        Matrix<double> c) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, blas_int(m), blas_int(n), blas_int(k), 1, a.data,
                blas_int(a.stride), b.data, blas_int(b.stride), 1, c.data, blas_int(c.stride));
}

/// x[m, k] of several products on the calling thread, in float; for matrices that lie in a cache.
template <class T>
class SmallProduct {
public:
    SmallProduct(std::size_t m, std::size_t k, T alpha, Matrix<const T> x) : m_(m), k_(k), alpha_(alpha), x_(x) {}
    /// c[m, n] += alpha · x[m, k] · w[n, k]ᵀ
    void add(std::size_t n, Matrix<const T> w, Matrix<T> c) const {
        add_product_transposed(m_, n, k_, alpha_, x_, w, c);
    }

private:
    std::size_t m_, k_;
    T alpha_;
    Matrix<const T> x_;
};
template <>
class SmallProduct<float> {
public:
    SmallProduct(std::size_t m, std::size_t k, float alpha, Matrix<const float> x)
        : product_(m, k, x.data, x.stride, alpha) {}
    void add(std::size_t n, Matrix<const float> w, Matrix<float> c) const {
        product_.add(n, w.data, w.stride, c.data, c.stride);
    }

private:
    SmallFloatProduct product_;
};

/// c[m, n] += a[m, k] · b[k, n], likewise.
inline void add_small_product(std::size_t m, std::size_t n, std::size_t k, Matrix<const float> a, Matrix<const float> b,
                              Matrix<float> c) {
    add_small_float_product({.rows = m,
                             .columns = n,
                             .depth = k,
                             .x = a.data,
                             .x_stride = a.stride,
                             .w = b.data,
                             .w_stride = b.stride,
                             .y = c.data,
                             .y_stride = c.stride});
}
inline void add_small_product(std::size_t m, std::size_t n, std::size_t k, Matrix<const double> a,
                              Matrix<const double> b, Matrix<double> c) {
    add_product(m, n, k, a, b, c);
}

/// Calls visit(first, count, columns) for columns first … first + count − 1 of w: [k, n], until it has seen all. Those of float are
/// copied, as many as stay in a first cache: there, rows that lie far apart push each other out. They are shared out evenly.
template <class T>
void for_columns(std::size_t k, std::size_t n, Matrix<const T> w, std::vector<T>& scratch, auto&& visit) {
    if constexpr (!std::same_as<T, float>) return visit(std::size_t{0}, n, w);
    constexpr std::size_t kWhole = 16;  // a vector's, or several
    const std::size_t most = float_panel_kernels().panel_columns, parts = (n + most - 1) / most;
    const std::size_t width = std::min(most, ((n + parts - 1) / parts + kWhole - 1) / kWhole * kWhole);
    scratch.resize(k * width);
    for (std::size_t first = 0; first < n; first += width) {
        const std::size_t count = std::min(width, n - first);
        for (std::size_t i = 0; i < k; ++i)
            std::copy_n(w.data + i * w.stride + first, count, scratch.data() + i * count);
        visit(first, count, Matrix<const T>{scratch.data(), count});
    }
}

/// y[m] += alpha · a[m, k] · x[k]
inline void add_matrix_vector(std::size_t m, std::size_t k, float alpha, Matrix<const float> a, const float* x,
                              float* y) {
    float_panel_kernels().add_transposed({.rows = 1,
                                          .columns = m,
                                          .depth = k,
                                          .x = x,
                                          .x_stride = k,
                                          .w = a.data,
                                          .w_stride = a.stride,
                                          .y = y,
                                          .y_stride = m,
                                          .scale = alpha});
}
inline void add_matrix_vector(std::size_t m, std::size_t k, double alpha, Matrix<const double> a, const double* x,
                              double* y) {
    cblas_dgemv(CblasRowMajor, CblasNoTrans, blas_int(m), blas_int(k), alpha, a.data, blas_int(a.stride), x, 1, 1, y,
                1);
}

/// y[k] += x[m] · a[m, k]
inline void add_vector_matrix(std::size_t m, std::size_t k, const float* x, Matrix<const float> a, float* y) {
    float_kernels().add_scaled_rows(x, m, a.data, a.stride, k, y);
}
inline void add_vector_matrix(std::size_t m, std::size_t k, const double* x, Matrix<const double> a, double* y) {
    cblas_dgemv(CblasRowMajor, CblasTrans, blas_int(m), blas_int(k), 1, a.data, blas_int(a.stride), x, 1, 1, y, 1);
}

}  // namespace vkformer::cpu
