// SPDX-License-Identifier: MIT
// Who touches which elements, for copy.comp and read.comp. In each turn an invocation takes kBenchCopyUnroll elements, `step` apart.
// As a rule neighbouring invocations touch neighbouring elements, and step is the number of all invocations: what GPUs want.
// With APART each workgroup, of one invocation, walks through a piece of its own: what CPUs want, on which the lanes of a subgroup
// are those of a vector unit, and loads become single ones instead of gathers where all lanes agree on the address.
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
    return Walk(linear_workgroup() * p.turns * kBenchCopyUnroll, 1);
#else
    const uint invocations = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_WorkGroupSize.x;
    return Walk(linear_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex, invocations);
#endif
}
