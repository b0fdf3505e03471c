# SPDX-License-Identifier: MIT
"""The model of time: what it counts, that the fit finds constants, and that what is not known is not predicted."""
import dataclasses
import json
import math
import pathlib
import tempfile
import unittest
from unittest import mock

import calibration
import chips
import kept
import model
import prediction

CARD = chips.Card("NVIDIA", "ada", units=32, simds=4, lanes=32, megahertz=1000, matrix_macs=512, gigabytes=100, cache_mib=4)
CONSTANTS = model.Constants(cycles=2, latency=500, bandwidth=0.5)
ONE = dict.fromkeys(kept.NUMBERS, 0) | {"instructions": 100, "macs": 64, "full_waits": 1, "waves": 4}
MACS = model.OUT * model.IN


def seconds(title="GEMM, f16", card=CARD, **numbers):
    return model.seconds(card, ONE | numbers, title, model.PEER_TILE, 0, CONSTANTS)


class Time(unittest.TestCase):
    def test_a_row_takes_as_long_as_its_bytes(self):
        weights = MACS * 18 / 32
        self.assertAlmostEqual(seconds("1 row, q4_0", waves=48, full_waits=0), (weights + 4 * (model.OUT + model.IN)) / 50e9)
        self.assertAlmostEqual(seconds("1 row, f16", waves=48, full_waits=0) / seconds("1 row, q4_0", waves=48, full_waits=0), 32 / 9, 1)

    def test_instructions_are_issued_for_the_lanes_of_all_simds(self):
        turns = MACS * 512 / (64 * 32 * 32 * 4)
        self.assertAlmostEqual(seconds(full_waits=0), turns * 200 / 1e9)
        self.assertAlmostEqual(seconds(full_waits=0, card=dataclasses.replace(CARD, lanes=16)), turns * 400 / 1e9)

    def test_a_wait_is_hidden_by_subgroups_in_flight(self):
        self.assertAlmostEqual(seconds(waves=4) / seconds(waves=4, full_waits=0), 700 / 200)
        self.assertAlmostEqual(seconds(waves=8) / seconds(waves=8, full_waits=0), 700 / 400)
        self.assertAlmostEqual(seconds(waves=32), seconds(waves=32, full_waits=0))

    def test_few_workgroups_leave_few_subgroups_in_flight(self):
        many = dataclasses.replace(CARD, units=128)
        self.assertAlmostEqual(seconds(waves=32, card=many) / seconds(waves=32, card=many, full_waits=0), 700 / 400)

    def test_the_last_workgroups_leave_units_idle(self):
        one_more = dataclasses.replace(CARD, units=127)
        self.assertAlmostEqual(seconds(card=one_more, full_waits=0) / seconds(card=dataclasses.replace(CARD, units=128), full_waits=0), 2)

    def test_matrices_have_a_rate(self):
        card, one = dataclasses.replace(CARD, gigabytes=1000), ONE | {"instructions": 1, "macs": 4096, "full_waits": 0}
        peers = model.of_peer(card, one, "GEMM, f16", True, CONSTANTS)
        self.assertAlmostEqual(peers, MACS * 512 / (512 * 32 * 1e9))
        self.assertLess(model.of_peer(card, one, "GEMM, f16", False, CONSTANTS), peers)
        self.assertAlmostEqual(model.of_ours(card, one, "GEMM, f16", "matrix", CONSTANTS), 2 * peers)  # float32 sums


class Fit(unittest.TestCase):
    CARDS = {"one": CARD, "two": dataclasses.replace(CARD, gpu="ampere", gigabytes=400),
             "three": dataclasses.replace(CARD, gpu="turing", units=64)}

    def pairs(self, slow=None):
        out = []
        for card in self.CARDS:
            for row, numbers in (("GEMM, f16", {"waves": 4}), ("GEMM, q8_0", {"full_waits": 0}),
                                 ("1 row, f16", {"waves": 48, "full_waits": 0})):
                for extra in ({"microseconds": 1}, {"model": "Llama 3 8B F16", "tokens_per_second": 1}):
                    point = {"card": card, "matrices": "none", "row": row} | extra
                    time = calibration.predicted_seconds(point, ONE | numbers, CONSTANTS) * (2 if card == slow else 1)
                    point |= {"microseconds": 1e6 * time} if "microseconds" in point else {"tokens_per_second": 1 / time}
                    out.append((point, ONE | numbers))
        return out

    def test_constants_are_found_again(self):
        with mock.patch.object(chips, "CARDS", self.CARDS):
            found = calibration.fitted(self.pairs())
        for name, value in dataclasses.asdict(CONSTANTS).items():
            self.assertAlmostEqual(math.log(getattr(found, name) / value), 0, 1, name)

    def test_a_token_takes_the_products_of_its_model(self):
        with mock.patch.object(chips, "CARDS", self.CARDS):
            product = {"card": "one", "matrices": "none", "row": "1 row, f16", "microseconds": 1}
            token = {"card": "one", "matrices": "none", "row": "1 row, f16", "model": "Llama 3 8B F16", "tokens_per_second": 1}
            prompt = token | {"row": "GEMM, f16"}
            of = lambda point: calibration.predicted_seconds(point, ONE, CONSTANTS)
            self.assertAlmostEqual(of(token) / of(product), 7.50e9 / MACS)
            self.assertAlmostEqual(of(prompt) / seconds(), 6.97e9 / MACS / 512)

    def test_the_error_of_a_gpu_is_of_constants_that_do_not_know_it(self):
        with mock.patch.object(chips, "CARDS", self.CARDS):
            found = calibration.left_out_errors(self.pairs(slow="two"))
        for factor in (factor for point, factor in found if point["card"] == "two"):
            self.assertAlmostEqual(factor, 0.5, 1)

    def test_a_quantile_is_one_of_the_values(self):
        self.assertEqual(calibration.quantile([5, 1, 2, 4, 3], 0.5), 3)
        self.assertEqual(calibration.quantile(range(1, 11), 0.9), 9)


class Published(unittest.TestCase):
    def test_the_file_is_as_it_is_written(self):
        found = calibration.measured()
        self.assertEqual(calibration.MEASURED.read_text(), calibration.as_text(found))
        self.assertEqual(found["numbers"], kept.NUMBERS)

    def test_every_point_says_what_it_is(self):
        points = calibration.measured()["points"]
        for point in points:
            self.assertIn(point["card"], chips.CARDS)
            self.assertIn(point["matrices"], ("matrices", "none"))
            self.assertTrue(calibration.class_of(point["row"]), point)
            self.assertNotEqual("microseconds" in point, "tokens_per_second" in point)
            self.assertTrue(point["source"].startswith("https://") and point["date"].startswith("202"), point)
            if "model" in point:
                self.assertIn(point["model"].rsplit(" ", 1)[0], calibration.MODELS)
        self.assertGreaterEqual(len(calibration.usable(calibration.measured())), 30)

    def test_weights_that_stay_in_a_cache_are_left_out(self):
        for point, _ in calibration.usable(calibration.measured()):
            rows, dtype = model.product_of(point["row"])
            if rows == 1 and "microseconds" in point:
                self.assertGreater(MACS * model.BYTES[dtype], chips.CARDS[point["card"]].cache_mib * 2 ** 20, point)

    def test_a_product_has_its_row(self):
        self.assertEqual(calibration.title_of("MUL_MAT(type_a=q4_K,type_b=f32,m=4096,n=512,k=14336)"), "GEMM, q4_k")
        self.assertEqual(calibration.title_of("MUL_MAT(type_a=f16,type_b=f32,m=4096,n=1,k=14336)"), "1 row, f16")
        self.assertIsNone(calibration.title_of("MUL_MAT(type_a=f16,type_b=f32,m=4096,n=8,k=14336)"))


    def test_the_peer_is_asked_with_each_setting_of_the_points(self):
        points = [{"card": card, "matrices": setting, "row": "1 row, f16", "microseconds": 1}
                  for card, setting in (("RTX 4070", "matrices"), ("RTX 4060 Ti", "none"), ("RTX 4070", "none"))]
        executable = {"summary": {"waves": 4}, "loop": {"macs": 32}}
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(calibration, "MEASURED", pathlib.Path(folder) / "measured.json"):
            calibration.MEASURED.write_text(json.dumps({"numbers": kept.NUMBERS, "points": points, "shaders": {}}))
            with mock.patch.object(calibration.peer, "report", return_value={"MUL_MAT(type_a=f16,m=4096,n=1,": executable}) as report:
                calibration.ask(pathlib.Path("sid"))
            found = json.loads(calibration.MEASURED.read_text())
        self.assertEqual([call.args[0] for call in report.call_args_list], ["ada", "ada"])
        self.assertEqual([call.args[3] for call in report.call_args_list], [None, calibration.WITHOUT_MATRICES])
        self.assertEqual(list(found["shaders"]["ada"]), ["matrices", "none"])
        self.assertEqual(kept.named(found["shaders"]["ada"]["none"]["1 row, f16"])["macs"], 32)


class Prediction(unittest.TestCase):
    ROW = {"ours": {"row": [True, *(ONE[name] for name in kept.NUMBERS)]}, "peer": [ONE[name] for name in kept.NUMBERS]}

    def test_what_has_no_published_times_is_not_predicted(self):
        self.assertIsNone(prediction.of_row("ada", "8 rows, f16", self.ROW))
        self.assertIsNone(prediction.of_row("ada", "attention, head size 64", self.ROW))
        self.assertIsNone(prediction.of_row("adreno750", "1 row, f16", self.ROW))
        self.assertIsNotNone(prediction.of_row("ada", "1 row, f16", self.ROW))

    def test_the_best_has_no_spills(self):
        slow = [False, *((ONE | {"instructions": 10 ** 6})[name] for name in kept.NUMBERS)]
        spills = [True, *((ONE | {"spills": 1})[name] for name in kept.NUMBERS)]
        found = prediction.of_row("ada", "1 row, f16", {"ours": {"row": spills, "row_vec4": slow}, "peer": None})
        self.assertEqual((found["default"][0], found["best"][0], found["peer"]), ("row", "row_vec4", None))
        self.assertGreater(found["best"][1], found["default"][1])

    def test_many_rows_are_not_split_in_depth(self):
        numbers = [ONE[name] for name in kept.NUMBERS]
        ours = {"tile": [True, *numbers], "matrix_split": [False, *numbers], "tile_int8": [False, *numbers]}
        self.assertEqual(list(prediction.candidates("GEMM, q8_0", {"ours": ours})), ["tile", "tile_int8"])
        self.assertEqual(list(prediction.candidates("1 row, q8_0", {"ours": {"split": [True, *numbers]} | ours})), ["split"])

    def test_a_range_is_as_wide_as_the_error(self):
        self.assertEqual(prediction.time_range(100e-6, 2), "50–200 µs")

    def test_a_peer_that_was_not_asked_stays(self):
        after = {"rows": {"1 row, f16": {"ours": {}, "peer": None}}}
        kept.take_peer(after, {"rows": {"1 row, f16": self.ROW}})
        self.assertEqual(after["rows"]["1 row, f16"]["peer"], self.ROW["peer"])


if __name__ == "__main__":
    unittest.main()
