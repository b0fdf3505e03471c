// SPDX-License-Identifier: MIT
/// The four BLAS calls that the CPU ops use, row-major and always accumulating: c keeps what it holds, so that a bias or a zero
/// is put there first and no result depends on how a BLAS treats "0 · what was there".
#pragma once

#include <cblas.h>

#include <cassert>
#include <cstddef>
#include <limits>

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

/// y[m] += alpha · a[m, k] · x[k]
inline void add_matrix_vector(std::size_t m, std::size_t k, float alpha, Matrix<const float> a, const float* x,
                              float* y) {
    cblas_sgemv(CblasRowMajor, CblasNoTrans, blas_int(m), blas_int(k), alpha, a.data, blas_int(a.stride), x, 1, 1, y,
                1);
}
inline void add_matrix_vector(std::size_t m, std::size_t k, double alpha, Matrix<const double> a, const double* x,
                              double* y) {
    cblas_dgemv(CblasRowMajor, CblasNoTrans, blas_int(m), blas_int(k), alpha, a.data, blas_int(a.stride), x, 1, 1, y,
                1);
}

/// y[k] += x[m] · a[m, k]
inline void add_vector_matrix(std::size_t m, std::size_t k, const float* x, Matrix<const float> a, float* y) {
    cblas_sgemv(CblasRowMajor, CblasTrans, blas_int(m), blas_int(k), 1, a.data, blas_int(a.stride), x, 1, 1, y, 1);
}
inline void add_vector_matrix(std::size_t m, std::size_t k, const double* x, Matrix<const double> a, double* y) {
    cblas_dgemv(CblasRowMajor, CblasTrans, blas_int(m), blas_int(k), 1, a.data, blas_int(a.stride), x, 1, 1, y, 1);
}

}  // namespace vkformer::cpu
