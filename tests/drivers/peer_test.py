# SPDX-License-Identifier: MIT
"""How the peer's shaders are found in what drivers print: outputs that were shortened to what is looked for."""
import unittest

import peer

AMD = """ggml_vulkan: Found 1 Vulkan devices:
Compute Shader
disasm:
BB0:
\tbuffer_store_b32 v9, v0, s[8:11], 0 offen                   ; e0680000 80420900
\ts_endpgm                                                    ; bfb00000


Compute Shader:
*** SHADER STATS ***
VGPRs: 12
Spilled SGPRs: 0
Spilled VGPRs: 0
********************

Compute Shader
disasm:
BB2:
\tbuffer_load_b128 v[20:23], v10, s[20:23], 0 offen           ; e05c0000 8045140a
\ts_waitcnt vmcnt(0)                                          ; bf8903f7
\tv_dot4_i32_iu8 v16, v16, v71, 0 neg_lo:[1,1,0] clamp        ; cc16c010 7a028f10
\ts_cbranch_scc1 BB2                                          ; bfa20003
\ts_endpgm                                                    ; bfb00000


Compute Shader:
*** SHADER STATS ***
VGPRs: 48
Spilled SGPRs: 2
Spilled VGPRs: 1
Subgroups per SIMD: 32
********************
  MUL_MAT(type_a=q4_0,type_b=f32,m=4096,n=1,k=14336,bs=[1,1]):             266676 runs
  MUL_MAT(type_a=q4_0,type_b=f32,m=4096,n=2,k=14336,bs=[1,1]):             266676 runs
"""

NVIDIA = """NAK IR after assign_regs:
block 2 L4 [] -> {
      r1 = ffma.ftz r44 r20 r7
      r1 = ffma.ftz r44 r20 r7
}
NAK IR after calc_instr_deps:
block 2 L4 [1, 13] -> {
      r11     = ffma.ftz r44 r20 r7                          // delay=4
@!p0            bra pT L4                                    // delay=1
} -> []

Stage: compute
Instruction count: 14
Max warps/SM: 48
Spills to mem: 3
Fills from mem: 4
Num GPRs: 24
SLM size: 16
Encoded shader:
  000079c3 00000000 00002500 000e0200 00007919 00000000 00002100 000e4200
  ROPE(type=f16,ne_a=[64,8,512,1]):             266676 runs
"""

ADRENO = """MESA: info: NIR of something
MESA: info: Native code for unnamed CL shader (null) with blake3 c043ce:
MESA: info: ; num_ubos:           0
MESA: info: l12:
MESA: info: (sy)mad.f32 r4.z, r11.x, r4.z, (last)r2.w
MESA: info: br !p0.x, #l12
MESA: info: end
MESA: info: ; CL prog 21/1: 2609 instr, 517 nops
MESA: info: ; CL prog 21/1: 0 last-baryf, 0 last-helper, 0 half, 16 full, 20 constlen
MESA: info: ; CL prog 21/1: 6 max_waves, 1 double_threadsize
  SOFT_MAX(type=f32,ne=[4096,4096,5,1]):             266676 runs
"""

INTEL = """Native code for unnamed compute shader (null) (src_hash 0xb4b803f2)
SIMD16 shader: 4012 instructions. 6 loops. 329908 cycles. 2:3 spills:fills, 270 sends, scheduled with mode none.
L5:
        mad (16)                  r81:f           r99:f             r35:f             r51:f {Compacted,$1.dst}
(W)     sync.nop (1)                            null                              {$2.dst}
        while (16)                            L5

NIR (SSA form) for compute shader:
        32    %4 = load_const
  SOFT_MAX(type=f32,ne=[4096,4096,5,1]):             266676 runs
"""


class Outputs(unittest.TestCase):
    def test_amd(self):
        found = peer.ops("AMD", AMD)
        self.assertEqual(list(found), ["MUL_MAT(type_a=q4_0,type_b=f32,m=4096,n=1,k=14336,bs=[1,1])"])  # nothing new for the other
        executable = next(iter(found.values()))
        self.assertEqual(executable["summary"], {"registers": 48, "waves": 32, "spills": 3})
        self.assertEqual((executable["loop"]["macs"], executable["loop"]["full_waits"]), (4, 1))

    def test_nvidia(self):
        executable = next(iter(peer.ops("NAK", NVIDIA).values()))
        self.assertEqual(executable["summary"], {"registers": 24, "waves": 48, "spills": 7, "scratch_bytes": 16})
        self.assertEqual((executable["loop"]["macs"], executable["loop"]["instructions"]), (1, 2))

    def test_adreno(self):
        executable = next(iter(peer.ops("IR3", ADRENO).values()))
        self.assertEqual(executable["summary"], {"registers": 64, "waves": 6, "spills": 0})
        self.assertEqual((executable["loop"]["macs"], executable["loop"]["instructions"]), (1, 2))

    def test_intel(self):
        executable = next(iter(peer.ops("GEN", INTEL).values()))
        self.assertEqual(executable["summary"], {"spills": 5})
        self.assertEqual((executable["loop"]["macs"], executable["loop"]["instructions"]), (1, 2))

    def test_a_result_that_is_wrong(self):
        wrong = INTEL.replace("  SOFT_MAX(", "[SOFT_MAX] ERR = 1.023987320 > 0.000000100   SOFT_MAX(").replace("266676 runs", "FAIL")
        self.assertEqual(peer.ops("GEN", wrong), peer.ops("GEN", INTEL))
        self.assertEqual(len(peer.ops("GEN", wrong)), 1)


if __name__ == "__main__":
    unittest.main()
