// SPDX-License-Identifier: MIT
// The splits of decode_attention, from the keys of each to the result of all:
//   y[row, v] = Σ_s exp(m[s] − m) · sums[s, v] / Σ_s exp(m[s] − m) · total[s],  m = max_s m[s],  zeros if no key is seen,
// where { sums[s, :], m[s], total[s] } is what split s leaves in partial[row, s, :]. Dao et al. 2023, "Flash-Decoding".
// y: [batch · heads, value_dim], storage as lib/storage.glsl says. With ROW_PER_INVOCATION the shader has y, and puts the splits together itself.
#ifndef VKFORMER_SPLIT_GLSL
#define VKFORMER_SPLIT_GLSL
#include "lib/numbers.glsl"

layout(std430, binding = kDecodeAttentionPartial) coherent buffer Partial { float partial[]; };
layout(std430, binding = kDecodeAttentionPartial) coherent buffer PartialCounters { uint counters[]; };  // the same memory

struct Split {
    uint begin, end;  // its keys: begin … end − 1
    uint index;       // among the splits that have keys
    uint count;       // of splits that have keys, but at least 1
};

// The keys that the query sees are shared out evenly over as many splits as have enough to do, which are spread over all of them
// (runtime/graph/splits.hpp): what a cache could hold costs nothing. Splits without work have index == count. All but the last have a
// multiple of `unit` keys.
Split split_of(uvec2 seen, uint split, uint unit) {
    const uint keys = seen.y - seen.x;
    const uint each = (max(kLeastSplitKeys, (keys + p.splits - 1) / p.splits) + unit - 1) / unit * unit;
    const uint count = max((keys + each - 1) / each, 1);  // no keys: one split, for the zeros
    const uint index = split * count / p.splits;
    if (split > 0 && index == (split - 1) * count / p.splits) return Split(0, 0, count, count);
    const uint first = seen.x + index * each;
    return Split(first, min(first + each, seen.y), index, count);
}

uint partial_row(uint row) { return row * (p.splits * (p.value_dim + kPartialExtra) + 1); }
uint partial_base(uint row, uint split) { return partial_row(row) + split * (p.value_dim + kPartialExtra); }

// What exponents are relative to. −∞ − (−∞) would be NaN.
float shift_of_largest(float largest) { return largest == MINUS_INFINITY ? 0.0 : largest; }

#ifdef ROW_PER_INVOCATION
// The same of a row, from what its splits left.
float shift_of(uint row, uint splits) {
    float largest = MINUS_INFINITY;
    for (uint s = 0; s < splits; ++s)
        largest = max_keeping_nan(largest, partial[partial_base(row, s) + p.value_dim + kPartialMaximum]);
    return shift_of_largest(largest);
}
#endif

// Counts one split of a row that is done. True for the last, which finds what the others stored before they counted.
bool is_last_split(uint row, uint splits) {
    const uint counter = partial_row(row + 1) - 1;
    if (atomicAdd(counters[counter], 1) + 1 != splits) return false;
    counters[counter] = 0;  // for the next time
    return true;
}

#ifndef ROW_PER_INVOCATION
layout(std430, binding = kDecodeAttentionY) STORED buffer Y { ELEMENT y[]; };
shared bool is_last;

// Element v of y[row, :]. What several splits left is on its way at the same time: from where others stored it just now, a load takes long.
void combine(uint row, uint v, uint splits) {
    const uint at_a_time = 8;
    float largest = MINUS_INFINITY, sum = 0.0, total = 0.0;
    for (uint first = 0; first < splits; first += at_a_time) {
        float maxima[at_a_time], sums[at_a_time], totals[at_a_time];
        [[unroll]] for (uint i = 0; i < at_a_time; ++i) {
            const uint base = partial_base(row, min(first + i, splits - 1));  // past the end the last again, which is not used
            maxima[i] = partial[base + p.value_dim + kPartialMaximum];
            totals[i] = partial[base + p.value_dim + kPartialSum];
            sums[i] = partial[base + v];
        }
        const float before = largest;
        [[unroll]] for (uint i = 0; i < at_a_time; ++i) largest = max_keeping_nan(largest, maxima[i]);
        const float shift = shift_of_largest(largest), correction = exp(before - shift);
        sum *= correction;
        total *= correction;
        [[unroll]] for (uint i = 0; i < at_a_time; ++i) {
            if (first + i >= splits) continue;
            const float factor = exp(maxima[i] - shift);
            sum += factor * sums[i];
            total += factor * totals[i];
        }
    }
    total += sink_weight(row % p.heads, shift_of_largest(largest));
    STORE(y, row * p.value_dim + v, total == 0.0 ? 0.0 : sum / total);
}

// After a workgroup has stored what its split leaves for `rows` rows from first_row on, which other workgroups have splits of in the same
// way. To be called by all invocations.
void finish_rows(uint first_row, uint rows, uint splits) {
    memoryBarrierBuffer();  // what this invocation stored is there before the workgroup is counted
    barrier();
    if (splits > 1) {
        if (gl_LocalInvocationIndex == 0) is_last = is_last_split(first_row, splits);
        barrier();
        if (!is_last) return;
        memoryBarrierBuffer();
    }
    for (uint e = gl_LocalInvocationIndex; e < rows * p.value_dim; e += gl_WorkGroupSize.x)
        combine(first_row + e / p.value_dim, e % p.value_dim, splits);
}
#endif
#endif
