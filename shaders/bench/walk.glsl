// SPDX-License-Identifier: MIT
// Who touches which elements, for copy.comp and read.comp. In each turn an invocation takes kBenchCopyUnroll elements, `step` apart.
// As a rule neighbouring invocations touch neighbouring elements, and step is the number of all invocations: what GPUs want.
// With APART each workgroup walks through a piece of its own: what CPUs want, on which a workgroup is one thread and memory is fetched
// ahead along a walk.
#ifdef WIDE
#define ELEMENT uvec4
#else
#define ELEMENT uint
#endif

struct Walk {
    uint first, step;
};

Walk walk_of_invocation() {
#ifdef APART
    const uint piece = p.turns * kBenchCopyUnroll * gl_WorkGroupSize.x;
    return Walk(linear_workgroup() * piece + gl_LocalInvocationIndex, gl_WorkGroupSize.x);
#else
    const uint invocations = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_WorkGroupSize.x;
    return Walk(linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex, invocations);
#endif
}
