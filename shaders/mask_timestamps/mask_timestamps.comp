#version 460
// SPDX-License-Identifier: MIT
// y[row, i] = x[row, i], or −∞ where Whisper's rules on timestamps forbid i: Radford et al. 2022, section 4.5, as Hugging Face's
// WhisperTimeStampLogitsProcessor has them. Times are the tokens from `first` on; s is the row's own tokens,
// sequences[row, begins[row] … starts[row]].
//   s is empty                          only times, at most first + latest_initial
//   s ends in a time, which is its      no time
//     only token or follows another
//   s ends in a time, else              no text but what is not below eos, no time before it
//   s does not end in one               no time up to the last of s
//   always                              not first − 1, which asks for no times
// Where Σ exp(x) over the times that are left is larger than exp(x) of every text token that is left: only times.
// x, y: f32 [rows, width]; starts, begins: i32 [rows]; sequences: i32 [rows, capacity].
// One workgroup per row; an invocation owns the elements i ≡ its index modulo the workgroup's size. The first finds the bounds of
// what is left, looking back for the last time, which lies a sentence away.
#extension GL_GOOGLE_include_directive : require
#include "mask_timestamps/contract.h"
#include "lib/grid.glsl"

layout(local_size_x_id = kWorkgroupConstant) in;
layout(push_constant) uniform Push { PART_OF_GRID MaskTimestampsPush p; };
layout(std430, binding = kMaskTimestampsX) readonly buffer X { float x[]; };
layout(std430, binding = kMaskTimestampsStarts) readonly buffer Starts { int starts[]; };
layout(std430, binding = kMaskTimestampsBegins) readonly buffer Begins { int begins[]; };
layout(std430, binding = kMaskTimestampsSequences) readonly buffer Sequences { int sequences[]; };
layout(std430, binding = kMaskTimestampsY) writeonly buffer Y { float y[]; };
#include "lib/numbers.glsl"
#include "lib/reduce.glsl"

shared uint text_from, time_from, time_end;  // what is left: text_from … first − 2, time_from … time_end − 1

void find_bounds(uint row) {
    const int len = clamp(starts[row], -1, int(p.capacity) - 1) + 1;
    const int begin = clamp(begins[row], 0, len);
    const uint base = row * p.capacity;
    const int first = int(p.first);
    text_from = 0;
    time_from = p.first;
    time_end = p.width;
    if (begin == len) {
        text_from = p.first;
        if (p.latest_initial >= 0) time_end = min(p.width, p.first + uint(p.latest_initial) + 1);
        return;
    }
    const bool ends_in_time = sequences[base + uint(len) - 1] >= first;
    const bool is_second = len - begin < 2 || sequences[base + uint(len) - 2] >= first;
    int last = len - 1;
    while (last >= begin && sequences[base + uint(last)] < first) --last;
    if (last >= begin) time_from = uint(sequences[base + uint(last)]) + (ends_in_time && !is_second ? 0 : 1);
    if (ends_in_time && is_second) time_end = p.first;
    if (ends_in_time && !is_second) text_from = p.eos;
}

void main() {
    const uint row = linear_workgroup();
    if (row >= p.rows) return;  // the whole workgroup leaves
    const uint base = row * p.width;
    if (gl_LocalInvocationIndex == 0) find_bounds(row);
    barrier();

    float best_text = MINUS_INFINITY, best_time = MINUS_INFINITY;
    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        if (i >= text_from && i + 1 < p.first) best_text = max_keeping_nan(best_text, x[base + i]);
        if (i >= time_from && i < time_end) best_time = max_keeping_nan(best_time, x[base + i]);
    }
    best_text = workgroup_max(best_text);
    best_time = workgroup_max(best_time);

    float total = 0.0;
    if (best_time != MINUS_INFINITY)  // the same for the whole workgroup
        for (uint i = time_from + gl_LocalInvocationIndex; i < time_end; i += gl_WorkGroupSize.x)
            total += exp(x[base + i] - best_time);
    total = workgroup_sum(total);
    const bool only_times = total > 0.0 && best_time + log(total) > best_text;

    for (uint i = gl_LocalInvocationIndex; i < p.width; i += gl_WorkGroupSize.x) {
        const bool is_left = i < p.first ? !only_times && i >= text_from && i + 1 < p.first : i >= time_from && i < time_end;
        y[base + i] = is_left ? x[base + i] : MINUS_INFINITY;
    }
}
