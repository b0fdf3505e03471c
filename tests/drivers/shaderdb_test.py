# SPDX-License-Identifier: MIT
"""What is read of the lines that PanVK and V3DV print."""
import unittest

import ours
import shaderdb
import gpus

MALI = """vkformer: pipeline 3: linear_row_f32
SHADER-DB: MESA_SHADER_COMPUTE shader: 262 inst, 6.000000 cycles, 1.281250 fma, 1.375000 cvt, 0.000000 sfu, 0.000000 v, 0.000000 t, \
6.000000 ls, 134 quadwords, 1 threads, 2 loops, 3:4 spills:fills
vkformer: pipeline 5: linear_row_f16
vkformer: pipeline 6: rope_pairs_f16
SHADER-DB: MESA_SHADER_COMPUTE shader: 10 inst, 1.0 cycles, 2 quadwords, 2 threads, 0 loops, 0:0 spills:fills
SHADER-DB: MESA_SHADER_COMPUTE shader: 20 inst, 1.0 cycles, 2 quadwords, 2 threads, 0 loops, 0:0 spills:fills
""".replace("\\\n", "")
VIDEOCORE = ("SHADER-DB-0000 - MESA_SHADER_COMPUTE shader: 412 inst, 2 threads, 3 loops, 61 uniforms, 48 max-temps, 5:7 spills:fills, "
             "4 sfu-stalls, 416 inst-and-stalls, 30 nops")


def executable(**statistics):
    return {"summary": {"instructions": 1, "spills": 320},
            "statistics": [{"name": name.replace("_", " "), "value": value} for name, value in statistics.items()]}


class Lines(unittest.TestCase):
    def test_each_pipeline_has_the_last_line_behind_its_name(self):
        first, second, third = shaderdb.lines_of(MALI)
        self.assertIn("262 inst", first)
        self.assertEqual(second, "")
        self.assertIn("20 inst", third)

    def test_mali(self):
        one = executable()
        shaderdb.complete(one, "Valhall", shaderdb.lines_of(MALI)[0])
        self.assertEqual(one["summary"], {"instructions": 262, "waves": 64, "spills": 7})
        self.assertEqual(shaderdb.mali("Bifrost", shaderdb.lines_of(MALI)[2])["waves"], 96)

    def test_videocore(self):
        one = executable(Spill_Size=320)
        shaderdb.complete(one, "QPU", VIDEOCORE)
        self.assertEqual(one["summary"], {"instructions": 412, "waves": 2, "spills": 12, "scratch_bytes": 20})

    def test_what_is_not_printed_is_not_told(self):
        one = executable()
        shaderdb.complete(one, "Valhall", "")
        self.assertEqual(one, executable())


class Reports(unittest.TestCase):
    def test_registers_are_counted_in_the_code(self):
        one = {"summary": {}, "statistics": [], "code": [{"name": "Assembly", "text": "   MOV.i32 r41, r2\n   NOP.end \n"}]}
        self.assertEqual(ours.measured(one, gpus.GPUS["g610"])["summary"], {"registers": 2})


if __name__ == "__main__":
    unittest.main()
