// SPDX-License-Identifier: MIT
/// Times single ops of ggml's Vulkan backend (llama.cpp), for comparison with `vkformer bench ops` on the same device. Not part of the
/// build. On Debian sid, with libggml-dev and libggml0-backend-vulkan:
///     g++ -O2 -std=c++20 tools/peers/ggml_ops.cpp -lggml -lggml-base -o ggml_ops
///     GGML_VK_VISIBLE_DEVICES=0 ./ggml_ops [SECONDS PER OP] [PART OF A NAME]
/// Elsewhere, for a folder with sid in it and libggml-dev unpacked beside it, as tools/report/report.py runs it:
///     g++ -O2 -std=c++20 -I dev/usr/include tools/peers/ggml_ops.cpp sid/usr/lib/x86_64-linux-gnu/libggml{,-base}.so.0 \
///         -Wl,--allow-shlib-undefined -o ggml_ops
/// GGML_VK_VISIBLE_DEVICES is needed for devices of type CPU; which of GGML_VK_DISABLE_F16=1 and GGML_VK_DISABLE_COOPMAT=1 is best differs
/// by op. The time is that of a graph with the op many times over, less that of the graph with it once, per op: as inside a model, without
/// the submission. Printed: op, microseconds (least of the runs), GFLOP/s, GB/s (products: weights alone; else all that is read and written).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

namespace {

/// Seconds.
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Case {
    std::string name;
    double flop, bytes;
    /// A node that depends on nothing but inputs.
    std::function<ggml_tensor*(ggml_context*)> build;
};

/// Least time of a graph with so many copies of the case's node, measured for `budget` seconds; negative where the backend cannot.
double seconds(ggml_backend_t backend, const Case& c, int copies, double budget) {
    ggml_init_params params{
        ggml_tensor_overhead() * (std::size_t(copies) * 8 + 64) + ggml_graph_overhead_custom(8192, false), nullptr,
        true};
    ggml_context* context = ggml_init(params);
    ggml_cgraph* graph = ggml_new_graph_custom(context, 8192, false);
    ggml_tensor* first = c.build(context);
    ggml_build_forward_expand(graph, first);
    for (int i = 1; i < copies; ++i) {  // the same operands again
        ggml_tensor* again = ggml_dup_tensor(context, first);
        again->op = first->op;
        std::copy(std::begin(first->op_params), std::end(first->op_params), std::begin(again->op_params));
        std::copy(std::begin(first->src), std::end(first->src), std::begin(again->src));
        ggml_build_forward_expand(graph, again);
    }
    if (!ggml_backend_supports_op(backend, first)) return -1;
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, backend);
    if (!buffer) return -1;
    std::mt19937 random(1);
    for (ggml_tensor* t = ggml_get_first_tensor(context); t; t = ggml_get_next_tensor(context, t)) {
        if (t->op != GGML_OP_NONE) continue;
        std::vector<float> values(std::size_t(ggml_nelements(t)));
        for (float& v : values) v = float(random()) * 0x1p-31f - 1;
        std::vector<char> bytes(ggml_nbytes(t));
        if (t->type == GGML_TYPE_I32) {
            for (std::size_t i = 0; i < values.size(); ++i)
                reinterpret_cast<std::int32_t*>(bytes.data())[i] = std::int32_t(i);
        } else {
            ggml_quantize_chunk(t->type, values.data(), bytes.data(), 0, ggml_nelements(t) / t->ne[0], t->ne[0],
                                nullptr);
        }
        ggml_backend_tensor_set(t, bytes.data(), 0, bytes.size());
    }
    ggml_backend_graph_compute(backend, graph);
    double best = 1e30;
    const double end = now() + budget;
    for (int run = 0; run < 3 || now() < end; ++run) {
        const double start = now();
        ggml_backend_graph_compute(backend, graph);
        best = std::min(best, now() - start);
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    return best;
}

Case product(ggml_type type, const char* label, int rows, int in, int out) {
    const double weight = double(ggml_row_size(type, in)) * out;
    return {std::string("linear ") + label + " " + std::to_string(rows) + "x" + std::to_string(in) + "x" +
                std::to_string(out),
            2.0 * rows * in * out, weight, [=](ggml_context* c) {
                return ggml_mul_mat(c, ggml_new_tensor_2d(c, type, in, out),
                                    ggml_new_tensor_2d(c, GGML_TYPE_F32, in, rows));
            }};
}

Case attention(ggml_type type, const char* label, int queries) {
    constexpr int kDim = 64, kHeads = 9, kKvHeads = 3, kKeys = 512;
    return {std::string("attention ") + label + " " + std::to_string(queries) + " queries",
            4.0 * queries * kKeys * kDim * kHeads, 0, [=](ggml_context* c) {
                ggml_tensor* q = ggml_new_tensor_4d(c, GGML_TYPE_F32, kDim, queries, kHeads, 1);
                ggml_tensor* k = ggml_new_tensor_4d(c, type, kDim, kKeys, kKvHeads, 1);
                ggml_tensor* v = ggml_new_tensor_4d(c, type, kDim, kKeys, kKvHeads, 1);
                return ggml_flash_attn_ext(c, q, k, v, nullptr, 0.125f, 0, 0);
            }};
}

}  // namespace

int main(int argc, char** argv) {
    const double budget = argc > 1 ? std::atof(argv[1]) : 1;
    const std::string only = argc > 2 ? argv[2] : "";
    ggml_backend_load_all();
    ggml_backend_t backend = ggml_backend_init_by_name("Vulkan0", nullptr);
    if (!backend) return std::puts("no Vulkan backend"), 1;
    const auto f32 = [](ggml_context* c, auto... ne) {
        const std::int64_t dims[] = {ne...};
        return ggml_new_tensor(c, GGML_TYPE_F32, sizeof...(ne), dims);
    };
    const std::vector<Case> cases = {
        product(GGML_TYPE_F32, "f32", 1024, 1024, 1024),
        product(GGML_TYPE_F16, "f16", 1024, 1024, 1024),
        product(GGML_TYPE_Q8_0, "q8_0", 1024, 1024, 1024),
        product(GGML_TYPE_Q4_0, "q4_0", 1024, 1024, 1024),
        product(GGML_TYPE_F32, "f32", 1, 576, 49152),
        product(GGML_TYPE_F16, "f16", 1, 576, 49152),
        product(GGML_TYPE_Q8_0, "q8_0", 1, 576, 49152),
        product(GGML_TYPE_Q4_0, "q4_0", 1, 576, 49152),
        product(GGML_TYPE_Q4_0, "q4_0", 1, 14336, 4096),
        product(GGML_TYPE_Q8_0, "q8_0", 1, 14336, 4096),
        attention(GGML_TYPE_F32, "f32", 1),
        attention(GGML_TYPE_F32, "f32", 64),
        attention(GGML_TYPE_F32, "f32", 512),
        attention(GGML_TYPE_F16, "f16", 1),
        attention(GGML_TYPE_F16, "f16", 64),
        attention(GGML_TYPE_F16, "f16", 512),
        {"softmax 9x512x512", 0, 2.0 * 9 * 512 * 512 * 4,
         [&](ggml_context* c) { return ggml_soft_max(c, f32(c, 512, 512, 9)); }},
        {"layer norm 512x576", 0, 2.0 * 512 * 576 * 4,
         [&](ggml_context* c) { return ggml_norm(c, f32(c, 576, 512), 1e-5f); }},
        {"rms norm 512x576", 0, 2.0 * 512 * 576 * 4,
         [&](ggml_context* c) { return ggml_rms_norm(c, f32(c, 576, 512), 1e-5f); }},
        {"swiglu 512x1536", 0, 3.0 * 512 * 1536 * 4,
         [&](ggml_context* c) { return ggml_swiglu_split(c, f32(c, 1536, 512), f32(c, 1536, 512)); }},
        {"rope 512x9x64", 0, 2.0 * 512 * 9 * 64 * 4,
         [&](ggml_context* c) {
             return ggml_rope(c, f32(c, 64, 9, 512), ggml_new_tensor_1d(c, GGML_TYPE_I32, 512), 64, 0);
         }},
        {"add 576", 0, 3.0 * 576 * 4, [&](ggml_context* c) { return ggml_add(c, f32(c, 576), f32(c, 576)); }},
    };
    for (const Case& c : cases) {
        if (c.name.find(only) == std::string::npos) continue;
        const double once = seconds(backend, c, 1, 0.2);
        if (once < 0) {
            std::printf("%-32s not supported\n", c.name.c_str());
            continue;
        }
        const int copies = std::clamp(int(0.05 / once), 2, 400);
        const double many = seconds(backend, c, copies, budget);
        const double t = std::max((many - once) / (copies - 1), 1e-9);
        std::printf("%-32s %10.1f us %8.2f GFLOP/s %8.2f GB/s\n", c.name.c_str(), t * 1e6, c.flop / t * 1e-9,
                    c.bytes / t * 1e-9);
        std::fflush(stdout);
    }
    ggml_backend_free(backend);
}
