# SPDX-License-Identifier: MIT
"""That the page shows the numbers that are kept, and that a check against them fails where it must."""
import copy
import pathlib
import unittest

import checks
import kept
import page
import rows

DOCUMENTS = pathlib.Path(__file__).resolve().parents[2] / "docs"
LOOP = {"instructions": 100, "macs": 64, "full_waits": 1, "loads": 2, "load_bytes": 32, "shared_loads": 0, "conversions": 0, "scratch": 0,
        "barriers": 0}
REPORT = {"driver": "RADV", "pipelines": [
    {"shader": "linear_row_f16", "default": True, "offered": True,
     "uses": [{"case": "linear 1x1024x1024", "dtype": "f16_q4_0", "op": "linear", "variant": "row", "default": True}],
     "executables": [{"summary": {"registers": 48, "waves": 16, "spills": 0}, "loop": LOOP, "around": None}]}]}


def changed(**numbers):
    report = copy.deepcopy(REPORT)
    report["pipelines"][0]["executables"][0]["loop"] |= numbers
    return report


class Kept(unittest.TestCase):
    def test_the_page_is_made_of_what_is_kept(self):
        found = kept.load(DOCUMENTS / "portability")
        self.assertTrue(found)
        self.assertEqual(page.written(DOCUMENTS / "portability.md"), page.text_of(found).strip())

    def test_the_files_are_as_they_are_written(self):
        for key, one in kept.load(DOCUMENTS / "portability").items():
            self.assertEqual((DOCUMENTS / "portability" / f"{key}.json").read_text(), kept.as_text(one))
            self.assertEqual(one["numbers"], kept.NUMBERS)
            self.assertEqual(list(one["rows"]), [row.title for row in rows.ROWS])

    def test_a_check_passes_over_the_spills_that_are_kept(self):
        before = lambda **numbers: {"navi31": kept.condensed("navi31", changed(**numbers), {})}
        spilling = {"navi31": changed(scratch=2)}
        self.assertEqual(checks.complaints(spilling), ["navi31: linear_row_f16 spills"])
        self.assertEqual(checks.complaints(spilling, before()), ["navi31: linear_row_f16 spills"])
        self.assertEqual(checks.complaints(spilling, before(scratch=1)), ["navi31: linear_row_f16 spills"])
        self.assertEqual(checks.complaints(spilling, before(scratch=2)), [])
        self.assertEqual(checks.complaints({"ada": changed(scratch=2)}, before(scratch=2)), ["ada: linear_row_f16 spills"])
        spilling["navi31"]["pipelines"][0]["executables"][0]["summary"]["spills"] = 1  # registers, where only memory is kept
        self.assertEqual(checks.complaints(spilling, before(scratch=2)), ["navi31: linear_row_f16 spills"])
        other = changed(scratch=2)
        other["pipelines"][0]["uses"][0]["case"] = "linear 1x2048x2048"
        self.assertEqual(checks.complaints({"navi31": other}, before(scratch=2)), ["navi31: linear_row_f16 spills"])

    def test_a_report_of_some_shaders_leaves_what_is_kept_of_others(self):
        other = copy.deepcopy(REPORT["pipelines"][0]) | {"shader": "linear_tile_f16"}
        other["uses"][0]["variant"] = "tile"
        peer = {"MUL_MAT(type_a=q4_0,n=1,)": REPORT["pipelines"][0]["executables"][0]}
        before = kept.condensed("navi31", {**REPORT, "pipelines": [other, *REPORT["pipelines"]]}, peer)
        after = kept.merged(before, kept.condensed("navi31", changed(full_waits=7), {}), "linear_row")
        row, before = after["rows"]["1 row, q4_0"], before["rows"]["1 row, q4_0"]
        self.assertEqual(kept.named(row["ours"]["row"][1:])["full_waits"], 7)
        self.assertEqual(row["ours"]["tile"], before["ours"]["tile"])
        self.assertEqual(row["peer"], before["peer"])
        self.assertEqual(sorted(name.split(",")[0] for name in after["defaults"]), ["linear_row_f16", "linear_tile_f16"])

    def test_a_wait_that_is_gained_is_named(self):
        before = kept.condensed("navi31", REPORT, {})
        self.assertEqual(checks.gained_waits("navi31", before, changed(full_waits=1)), [])
        self.assertEqual(checks.gained_waits("navi31", before, changed(full_waits=2)),
                         ["navi31: linear_row_f16, linear 1x1024x1024, f16_q4_0: 2 full waits a turn, 1 are kept"])

    def test_scratch_in_a_loop_is_a_spill(self):
        self.assertEqual(checks.complaints({"navi31": REPORT}), [])
        self.assertEqual(checks.complaints({"navi31": changed(scratch=3)}), ["navi31: linear_row_f16 spills"])

    def test_a_verdict_says_who_is_ahead_in_what(self):
        one = kept.named(kept.numbers_of(REPORT["pipelines"][0]["executables"][0]))
        self.assertEqual(page.verdict(one, one), "level")
        self.assertEqual(page.verdict(one, one | {"waves": 32, "instructions": 200}), "ours: instructions; peer: in flight")
        self.assertEqual(page.verdict(one, one | {"spills": 1, "full_waits": 0}), "ours: spills; peer: waits")


if __name__ == "__main__":
    unittest.main()
