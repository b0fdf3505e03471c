# SPDX-License-Identifier: MIT
"""What is read out of assembly: small loops as the drivers print them, with what is known of each."""
import unittest

import loops

# One load of 16 bytes per wait, three times: what a compiler makes of loads with a condition around each.
AMD_ONE_BY_ONE = """
BB1:
\ts_cbranch_scc1 BB9                                          ; bfa20003
BB2:
\tbuffer_load_b128 v[20:23], v10, s[20:23], 0 offen           ; e05c0000 8045140a
\ts_waitcnt vmcnt(0)                                          ; bf8903f7
\tv_fmac_f32_e32 v4, v20, v28                                 ; 5608392c
\tbuffer_load_b128 v[24:27], v11, s[20:23], 0 offen           ; e05c0000 8045140a
\ts_waitcnt vmcnt(0) & lgkmcnt(0)                             ; bf8903f7
\tv_fmac_f32_e32 v5, v24, v28                                 ; 5608392c
\tbuffer_load_b64 v[30:31], v12, s[20:23], 0 offen            ; e0540000 8045140a
\ts_waitcnt vmcnt(0)                                          ; bf8903f7
\tv_fma_mix_f32 v3, v30, v24, v3 op_sel_hi:[1,1,0]            ; cc200003 1c0e312c
\ts_branch BB2                                                ; bfa0ff6d
BB9:
\tbuffer_store_b32 v3, v1, s[8:11], 0 offen                   ; e0680000 80420001
\ts_endpgm                                                    ; bfb00000
"""

# The same loads in flight together, by a compiler for GFX12, whose waits have other names.
AMD_TOGETHER = """
BB2:
\tbuffer_load_b128 v[20:23], v10, s[20:23], null offen        ; c4050000
\tbuffer_load_b128 v[24:27], v11, s[20:23], null offen        ; c4050000
\ts_wait_loadcnt 0x1                                          ; bfc00001
\tv_dual_fmac_f32 v4, v20, v28 :: v_dual_fmac_f32 v6, v21, v28 ; c8000000
\ts_wait_loadcnt_dscnt 0x1                                    ; bfc80000
\tv_fmac_f32_e32 v5, v24, v28                                 ; 5608392c
\ts_cbranch_scc1 BB2                                          ; bfa20003
\ts_endpgm
"""

# Loads for the next turn before products of matrices of 64 invocations: the wait at the turn's begin is hidden by them.
AMD_AHEAD = """
BB2:
\ts_waitcnt vmcnt(0)                                          ; bf8903f7
\tds_store_b128 v56, v[12:15]                                 ; db7c0000 00000c38
\ts_barrier                                                   ; bfbd0000
\tbuffer_load_b128 v[12:15], v10, s[20:23], 0 offen           ; e05c0000 8045140a
\tds_load_b128 v[136:139], v19                                ; d9d80000 04000000
\ts_waitcnt lgkmcnt(0)                                        ; bf89fc07
\tv_wmma_f32_16x16x16_f16 v[68:71], v[136:143], v[152:159], v[68:71] ; cc404044 1d133188
\tv_wmma_f32_16x16x16_f16 v[72:75], v[136:143], v[152:159], v[72:75] ; cc404044 1d133188
\tv_cvt_f32_ubyte1_e32 v87, v17                               ; 7eae2511
\tv_fma_mixlo_f16 v0, 1.0, v6, v1                             ; cc210000 04060cf2
\ts_cbranch_scc1 BB2                                          ; bfa20003
\ts_endpgm
"""

# A loop inside another: the outer one loads, the inner one multiplies.
AMD_NEST = """
BB1:
\tbuffer_load_d16_b16 v12, v10, s[20:23], 0 offen             ; e05c0000 8045140a
\ts_waitcnt vmcnt(0)                                          ; bf8903f7
\tds_store_b16 v79, v12 offset:4                              ; d87c0004 0000514f
BB2:
\tv_fmac_f32_e32 v5, v24, v28                                 ; 5608392c
\tscratch_load_b32 v0, off, s32 offset:-3700                  ; dc51118c 00200080
\ts_cbranch_scc1 BB2                                          ; bfa20003
BB3:
\ts_cbranch_scc0 BB1                                          ; bfa20003
\ts_endpgm
"""

# (sy) waits for everything; (rpt2) is three instructions, (nop2) two more cycles.
ADRENO = """
l12:
isam.v.base0 (u32)(xyzw)r4.z, r3.y, s#0, t#2
(sy)(rpt2)mad.f32 r4.z, r11.x, r4.z, (last)r2.w
ldib.b.untyped.1d.u16.2.imm.base0 r2.y, r1.z, 12
(sy)(nop2) cov.f16f32 r6.x, (last)hr9.x
ldl.u32 r6.x, l[r5.y], 1
(ss)mad.f32 r4.z, r6.x, r4.z, (last)r2.w
br !p0.x, #l12
end
"""

# The second load has the scoreboard 1, and what waits for the scoreboard 0 waits for the first alone.
NVIDIA = """
block 2 L4 [1, 13] -> {
      r20..24 = ld.global.a64.constant.b128 [r18..20+rZ], pT // delay=1 wr:0
      r24..26 = ld.global.a64.constant.b64 [r22..24+rZ], pT  // delay=1 wr:1
      r11     = ffma.ftz r44 r20 r7                          // delay=4 wt=000001
      r16     = idp4.i8.i8 r16 r40 rZ                        // delay=2
      r11     = f2f.f32.f16.re r24.yy                        // delay=1 wt=000010 rd:0 wr:1
      r10     = ld.global.a64.constant.u16 [r10..12+rZ], pT  // delay=1 wr:2
      r3      = ld.local.strong.cta.b32 [rZ+rZ], pT          // delay=1 wr:0
      r12     = ffma.ftz r44 r10 r12                         // delay=4 wt=000100
@!p0            bra pT L4                                    // delay=1
}
block 3 L5 [2] -> {
                exit                                         // delay=1
}
"""


# Two loads with the tokens 1 and 2, one block for the whole subgroup, and half a subgroup's products of matrices.
INTEL = """
L5:
        send.ugm (8)              r10     r53    null:0  0x00000000  0x02108580   {$1}  // wr:1+0, rd:1; load.ugm.d32x4.a32.bti[1]
        send.ugm (8)              r14     r53    null:0  0x00000000  0x02108580   {I@1,$2}  // wr:1+0, rd:1; load.ugm.d16u32.a32.bti[2]
(W)     send.ugm (1)              r47     r53    null:0  0x00000000  0x02108580   {$3}  // wr:1+0, rd:1; load.ugm.d32x1t.a64
        mad (8)                   r81:f           r99:f             r35:f             r51:f {Compacted,$1.dst}
(W)     sync.nop (1)                            null                              {$2.dst}
        mov (8)                   r52:f           r14:hf                              {I@1}
        mov (8)                   r52:d           r14<0>:ud                           {I@1}
        mad (8)                   r81:d           r99:d             r35:d             r51:d
        send.slm (8)              r18     r53    null:0  0x00000000  0x02108580   {$4}  // wr:1+0, rd:1; load.slm.d32x4.a32
        send.ugm (8)              r19     r53    null:0  0x00000000  0x02108580   {$4}  // wr:1+0, rd:1; load.ugm.d32x8t.a32.ss[a0.4]
        while (8)                             L5
        send.gtwy (8)             null    r127   null:0  0x00000000  0x02000010   {EOT}  // wr:1+0, rd:0; end of thread
"""

# Before GFX12: no tokens.
INTEL_OLD = """
L7:
        sends.hdc1 (8)            r43     r46    null    0x00000000  0x04146EFD  // wr:2+0, rd:1; untyped_read:xy simd8 (8) bti(2)
        sends.hdc1 (8)            r53     r46    null    0x00000000  0x04146EFD  // wr:2+0, rd:1; untyped_read:xyzw simd8 (8) bti(254)
        mad (8)                   r81<0>:f      r99<0;0>:f        r35<0;0>:f        r51<0>:f {Align16,Compacted}
        while (8)                             L7
"""


# A descriptor, a load through it and one from shared memory, each waited for at the end of its clause, and of the two products one with
# something to add.
BIFROST = """
clause_75:
ds(0) nbb load ncph next_load dwb(0) 
{
    *NOP t0
    +LOAD.i64 t1, u3.w0, u3.w1, @r5
}

clause_76:
ds(0) nbb load ncph dwb(0) 
{
    *NOP t0
    +IADD.s32 t1, r0, r2
    *LSHIFT_OR.i32 t0, t1, #0, 0x00000002 /* 0.000000 */
    +IADD.s32 r4:t1, r5, t
    *NOP t0
    +LOAD.i32 t1, r4, t1, @r4
}

clause_80:
ds(0) nbb load ncph dwb(0) 
{
    *NOP t0
    +LOAD.i32.wls t1, t1, #0.x, @r55
}

clause_81:
ds(0) nbb r_uncond ncph dwb(0) 
{
    *FMA.f32 r50:t0, r53, r55, r50
    +NOP t1
    *FMA.f32 t0, t1, 0x3fb8aa3b /* 1.442695 */, #0.neg
    +F32_TO_S32 t1, t
    *NOP t0
    +JUMP t1, clause_75
}
"""

# From a buffer to shared memory and from there to a product; the upper half of a pointer tells what is read and written. The branch
# goes back to the load from the buffer.
VALHALL = """
   LSHIFT_OR.i32.wait1 r14, r14, 0x3020100.b22, 0x0
   LD_BUFFER.i32.unsigned.slot0 @r14, ^r14, 0x1000000
   MOV.i32 r48, ^r15
   MOV.i32.wait0 r49, workgroup_local_pointer.w1
   STORE.i32.slot1 @r14, ^r48, offset:0
   IADD_IMM.i32 r53, r52, #0x410
   IADD.u32 r53, workgroup_local_pointer.w0, ^r53
   MOV.i32 r56, ^r53
   MOV.i32 r57, workgroup_local_pointer.w1
   LOAD.i32.unsigned.slot2 @r53, ^r56, offset:0
   IADD_IMM.i32 r55, r54, #0x810
   IADD.u32 r55, workgroup_local_pointer.w0, ^r55
   MOV.i32 r56, ^r55
   MOV.i32.wait2 r57, workgroup_local_pointer.w1
   LOAD.i32.unsigned.slot0.wait0 @r55, ^r56, offset:0
   FMA.f32 r50, ^r53, ^r55, ^r50
   FMA.f32 r1, ^r1, r2, 0x0.neg
   U32_TO_F32 r3, u7
   U16_TO_U32 r4, r1.h00
   BRANCHZ.eq.reconverge 0x0, offset:-19

   NOP.end 
"""

# A sum of exponentials, on a Raspberry Pi 4: a load before a switch of threads, three instructions behind the branch that belong to
# the loop.
QPU = """\
nop                           ; mov.ifa r1, 0
nop                           ; mov.pushz -, rf11
nop                           ; mov rf27, r1
nop                           ; mov.ifa rf7, rf10
nop                           ; nop                         ; ldunif
xor.pushz -, rf11, r5         ; nop                         ; ldunif
nop                           ; mov.ifa rf11, 0
sub.pushc -, rf7, rf12        ; nop
nop                           ; mov.andz -, rf11
nop                           ; mov.ifa rf11, r5
nop                           ; mov.pushz -, rf11
bu.allna  16, r:unif
nop                           ; nop
nop                           ; nop
nop                           ; nop
nop                           ; mov.pushz -, rf11           ; ldunif
nop                           ; mov.ifa rf11, r5
add r2, rf13, rf7             ; nop                         ; ldunif
xor.pushz -, rf11, r5         ; nop                         ; ldunif
nop                           ; mov.ifa rf11, 0
shl r3, r2, 2                 ; mov.pushz -, rf11
add.ifa tmua, r5, r3          ; nop                         ; thrsw
add.ifa rf7, rf7, rf15        ; nop
nop                           ; nop
nop                           ; nop                         ; ldtmu.r4; ldunif
fsub r0, r4, rf27             ; nop
nop                           ; fmul r1, r0, rf28
exp rf29, r1                  ; nop
fadd.ifa rf8, rf8, rf29       ; nop
xor.pushz -, rf11, r5         ; nop
nop                           ; mov.ifa rf11, 0
nop                           ; mov.pushz -, rf11
bu.anyap  -256, r:unif
nop                           ; nop
nop                           ; nop
nop                           ; nop
barrierid syncb               ; nop                         ; ldunif
"""

# A Raspberry Pi 5 keeps the sums of a product in private memory, whose addresses are made of the number of the thread: sixteen bytes
# of weights come by one load, and four bytes of x each, and the sum that they are added to, by one of private memory.
QPU_PRIVATE = """\
tidx rf9                      ; nop                         ; ldunif
eidx rf11                     ; multop -, rf9, rf0
shl rf12, rf11, 2             ; umul24 rf10, rf9, rf0
add rf13, rf10, rf12          ; nop                         ; ldunif
add rf14, rf13, rf0           ; nop                         ; ldunifrf.rf4
nop                           ; mov tmud, rf16              ; thrsw
add.ifa tmua, rf14, rf0       ; nop                         ; ldunif
add.ifa tmuau, rf0, rf22      ; nop
tmuwt rf19                    ; nop                         ; ldunif
nop                           ; nop                         ; ldtmu.rf20
nop                           ; nop                         ; ldtmu.rf21
nop                           ; nop                         ; ldtmu.rf22
nop                           ; nop                         ; ldtmu.rf23
add.ifa tmua, rf14, rf0       ; nop                         ; ldunif
add.ifa tmua, rf14, rf0       ; nop                         ; thrsw; ldunif
add.ifa tmua, rf14, rf0       ; nop                         ; ldunif
add.ifa tmua, rf14, rf0       ; nop                         ; ldunif
nop                           ; nop                         ; ldtmu.rf24
nop                           ; fmul rf2, rf20, rf24        ; ldtmu.rf26
nop                           ; fmul rf3, rf21, rf26        ; thrsw; ldtmu.rf27
nop                           ; fmul rf5, rf22, rf27        ; ldtmu.rf1
add.ifa tmua, rf14, rf0       ; fmul rf6, rf23, rf1
nop                           ; nop                         ; ldtmu.rf9
fadd rf11, rf2, rf9           ; nop
fadd rf12, rf3, rf11          ; nop
fadd rf13, rf5, rf12          ; nop
fadd rf16, rf6, rf13          ; nop
nop                           ; mov tmud, rf16              ; thrsw
add.ifa tmua, rf14, rf0       ; nop                         ; ldunif
bu.anyap  -224, r:unif
nop                           ; nop
nop                           ; nop
nop                           ; nop
"""


def hot(name, text, subgroup_size=None):
    return loops.hot_loops(name, text, subgroup_size)[0]


class FullWaits(unittest.TestCase):
    def test_loads_one_by_one_are_waited_for_one_by_one(self):
        self.assertEqual(hot("AMD", AMD_ONE_BY_ONE).full_waits, 3)

    def test_loads_in_flight_together_are_waited_for_once(self):
        self.assertEqual(hot("AMD", AMD_TOGETHER).full_waits, 1)

    def test_a_wait_that_the_turn_hides_is_none(self):
        self.assertEqual(hot("AMD", AMD_AHEAD).full_waits, 0)
        before_use = AMD_AHEAD.replace("\ts_waitcnt lgkmcnt(0) ", "\ts_waitcnt vmcnt(0) & lgkmcnt(0) ")
        self.assertEqual(hot("AMD", before_use).full_waits, 1)

    def test_adreno_waits_for_everything_at_once(self):
        self.assertEqual(hot("IR3", ADRENO).full_waits, 2)
        self.assertEqual(hot("IR3", ADRENO.replace("(sy)(nop2)", "(nop2)")).full_waits, 1)

    def test_nvidia_waits_by_scoreboards(self):
        self.assertEqual(hot("NAK", NVIDIA).full_waits, 2)
        self.assertEqual(hot("NAK", NVIDIA.replace("wt=000010 rd:0 wr:1", "rd:0 wr:3")).full_waits, 0)

    def test_intel_waits_by_tokens(self):
        self.assertEqual(hot("GEN", INTEL).full_waits, 1)
        self.assertEqual(hot("GEN", INTEL.replace("{$2.dst}", "{$3.dst}")).full_waits, 0)
        one_by_one = INTEL.replace("{I@1,$2}  //", "{I@1,$2,$1.dst}  //")
        self.assertEqual(hot("GEN", one_by_one).full_waits, 2)

    def test_mali_waits_by_slots(self):
        self.assertEqual(hot("Bifrost", BIFROST).full_waits, 2)
        self.assertEqual(hot("Bifrost", BIFROST.replace("dwb(0)", "dwb(1)")).full_waits, 0)
        self.assertEqual(hot("Valhall", VALHALL).full_waits, 1)
        self.assertEqual(hot("Valhall", VALHALL.replace("MOV.i32.wait0", "MOV.i32")).full_waits, 0)  # later, at the last LOAD

    def test_videocore_waits_for_the_first_answer(self):
        self.assertEqual(hot("QPU", QPU).full_waits, 1)
        lines = QPU.splitlines()
        lines.insert(0, lines.pop(next(i for i, line in enumerate(lines) if "tmua" in line)))
        self.assertEqual(hot("QPU", "\n".join(lines)).full_waits, 0)  # by then half of the turn has been issued

    def test_where_the_hardware_waits_by_itself_nothing_is_told(self):
        self.assertIsNone(hot("GEN", INTEL_OLD).full_waits)


class Numbers(unittest.TestCase):
    def test_amd(self):
        one_by_one = hot("AMD", AMD_ONE_BY_ONE)
        self.assertEqual((one_by_one.instructions, one_by_one.macs), (7, 3))
        self.assertEqual((one_by_one.loads, one_by_one.load_bytes), (3, 40))
        self.assertEqual(hot("AMD", AMD_TOGETHER).macs, 3)

    def test_products_of_matrices_are_divided_by_the_invocations(self):
        ahead = hot("AMD", AMD_AHEAD)
        self.assertEqual(ahead.macs, 2 * 16 * 16 * 16 / 64)
        self.assertEqual((ahead.conversions, ahead.shared_loads, ahead.barriers), (2, 1, 1))
        of_32 = AMD_AHEAD.replace("v[68:71]", "v[68:75]").replace("v[72:75]", "v[76:83]")
        self.assertEqual(hot("AMD", of_32).macs, 2 * 16 * 16 * 16 / 32)

    def test_the_hot_loop_and_what_is_around_it(self):
        inner, around = loops.hot_loops("AMD", AMD_NEST)
        self.assertEqual((inner.macs, inner.scratch, inner.loads, inner.full_waits), (1, 1, 0, 0))
        self.assertEqual((around.macs, around.loads, around.load_bytes, around.full_waits), (1, 1, 2, 1))

    def test_of_a_loop_inside_a_hot_one_nothing_is_counted(self):
        outer = AMD_NEST.replace("\tds_store_b16 v79", "\tv_fmac_f32_e32 v5, v24, v28\n\tv_fmac_f32_e32 v6, v24, v28\n\tds_store_b16 v79")
        one, around = loops.hot_loops("AMD", outer)
        self.assertEqual((one.macs, one.scratch, one.loads), (2, 0, 1))
        self.assertIsNone(around)

    def test_adreno(self):
        loop = hot("IR3", ADRENO)
        self.assertEqual((loop.macs, loop.instructions, loop.cycles), (4, 7, 11))
        self.assertEqual((loop.loads, loop.load_bytes, loop.shared_loads, loop.conversions), (2, 20, 1, 1))

    def test_nvidia(self):
        loop = hot("NAK", NVIDIA)
        self.assertEqual((loop.loads, loop.load_bytes, loop.conversions, loop.scratch), (3, 26, 1, 1))
        self.assertEqual((loop.instructions, loop.cycles), (9, 16))
        self.assertEqual(loop.macs, 4)  # of the dot product, for which the two others are made

    def test_intel(self):
        loop = hot("GEN", INTEL, 8)
        self.assertEqual((loop.instructions, loop.macs, loop.conversions), (10, 1, 1))
        self.assertEqual((loop.loads, loop.load_bytes, loop.shared_loads, loop.scratch), (2, 18, 1, 1))
        self.assertEqual(hot("GEN", INTEL, 16).macs, 0.5)
        old = hot("GEN", INTEL_OLD, 8)
        self.assertEqual((old.loads, old.load_bytes, old.shared_loads), (1, 8, 1))
        matrices = INTEL.replace("mad (8)                   r81:f ", "dpas.8x8 (8)              r81:f ").replace("r99:f", "r99:hf")
        self.assertEqual(hot("GEN", matrices, 16).macs, 8 * 8 * 16 / 16)

    def test_bifrost(self):
        loop = hot("Bifrost", BIFROST)
        self.assertEqual((loop.instructions, loop.macs, loop.conversions, loop.barriers), (8, 1, 1, 0))
        self.assertEqual((loop.loads, loop.load_bytes, loop.shared_loads, loop.scratch), (2, 12, 1, 0))
        self.assertEqual(loops.registers("Bifrost", BIFROST), {"registers": 7})
        private = hot("Bifrost", BIFROST.replace(".wls", ".tl"))
        self.assertEqual((private.loads, private.shared_loads, private.scratch), (2, 0, 1))
        halves = BIFROST.replace("FMA.f32 r50", "FMA.v2f16 r50").replace("+NOP", "+BARRIER")
        self.assertEqual((hot("Bifrost", halves).macs, hot("Bifrost", halves).barriers), (2, 1))

    def test_valhall(self):
        loop = hot("Valhall", VALHALL)
        self.assertEqual((loop.instructions, loop.macs, loop.conversions, loop.barriers), (19, 1, 1, 0))
        self.assertEqual((loop.loads, loop.load_bytes, loop.shared_loads, loop.scratch), (1, 4, 2, 0))
        self.assertEqual(hot("Valhall", VALHALL.replace("wait2 r57, workgroup_local_pointer.w1", "wait2 r57, ^r49")).shared_loads, 2)
        private = hot("Valhall", VALHALL.replace("workgroup", "thread"))
        self.assertEqual((private.loads, private.shared_loads, private.scratch), (1, 0, 3))
        of_bytes = VALHALL.replace("FMA.f32 r50, ^r53, ^r55, ^r50", "IDP.v4s8 r50, ^r53, ^r55").replace("U16_TO_U32", "BARRIER.slot7.wait")
        self.assertEqual((hot("Valhall", of_bytes).macs, hot("Valhall", of_bytes).barriers), (4, 1))

    def test_videocore(self):
        loop = hot("QPU", QPU)
        self.assertEqual((loop.instructions, loop.macs, loop.conversions, loop.barriers), (32, 1, 0, 0))
        self.assertEqual((loop.loads, loop.load_bytes, loop.shared_loads, loop.scratch), (1, 4, None, 0))
        self.assertEqual(loops.registers("QPU", QPU), {"registers": 16})
        changed = QPU.replace("sub.pushc -, rf7", "itof rf1, rf2").replace("mov.andz -", "vfmul rf1, rf2").replace("xor.pushz", "fsub")
        changed = changed.replace("mov.ifa rf7, rf10", "itof rf7, rf10")  # before the loop
        self.assertEqual((hot("QPU", changed).macs, hot("QPU", changed).conversions), (3, 1))
        self.assertEqual(hot("QPU", QPU.replace("exp rf29, r1 ", "barrierid syncb")).barriers, 1)

    def test_videocores_private_memory(self):
        loop = hot("QPU", QPU_PRIVATE)
        self.assertEqual((loop.instructions, loop.macs, loop.full_waits), (28, 4, 1))
        self.assertEqual((loop.loads, loop.load_bytes, loop.scratch), (1, 16, 7))
        self.assertEqual(hot("QPU", QPU_PRIVATE.replace("fadd", "fmin")).macs, 0)  # products that nothing adds
        narrow = hot("QPU", QPU_PRIVATE.replace("nop                           ; mov tmud, rf16 ", "add.ifa tmua, rf4, rf17       ; nop           ", 1))
        self.assertEqual((narrow.loads, narrow.load_bytes), (2, 12))  # of four answers one is for the narrow load, one for private memory
        self.assertEqual(hot("QPU", QPU_PRIVATE.replace("ldtmu.rf20", "ldtmu.rf14")).scratch, 1)  # another address from there on

    def test_a_shader_without_loops_is_all_hot(self):
        loop, around = loops.hot_loops("AMD", "BB0:\n\tv_fmac_f32_e32 v5, v24, v28\n\ts_endpgm\n")
        self.assertEqual((loop.macs, loop.instructions), (1, 2))
        self.assertIsNone(around)

    def test_an_assembly_that_is_not_known_has_no_numbers(self):
        self.assertEqual(loops.hot_loops("AGX", "mov"), (None, None))


if __name__ == "__main__":
    unittest.main()
