#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of tools/report that need nothing but Python: plots, the page, measurements that go on, models of random weights."""
import json
import pathlib
import struct
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools/report"))
import builds  # noqa: E402
import journal  # noqa: E402
import page  # noqa: E402
import plot  # noqa: E402
import random_model  # noqa: E402


class Plots(unittest.TestCase):
    def test_a_text_on_another_is_refused(self):
        picture = plot.Picture(100, "title")
        picture.text(10, 50, "one")
        with self.assertRaises(plot.Collision):
            picture.text(20, 55, "two")
        picture.text(10, 50 + plot.ROW, "two")

    def test_a_text_outside_is_refused(self):
        for x, y, anchor in ((plot.WIDTH - 5, 50, "start"), (5, 50, "end"), (100, 5, "start"), (100, 99, "start")):
            with self.assertRaises(plot.Collision):
                plot.Picture(100, "title").text(x, y, "far too long", anchor)

    def test_lengths_are_in_proportion(self):
        axis = plot.Axis(0, 50, 100, 300, logarithmic=False)
        self.assertEqual([axis(0), axis(25), axis(50)], [100, 200, 300])
        axis = plot.Axis(1, 100, 100, 300, logarithmic=True)
        self.assertAlmostEqual(axis(10), 200)

    def test_ticks_are_few_and_inside(self):
        for low, high, logarithmic in ((0, 0.037, False), (0, 613, False), (0.5, 80, True), (0.8, 1.25, True), (0.5, 4000, True)):
            ticks = plot.Axis(low, high, 0, 100, logarithmic).ticks()
            self.assertTrue(3 <= len(ticks) <= 12, (low, high, ticks))
            self.assertTrue(all(low <= tick <= high * 1.001 for tick in ticks), (low, high, ticks))

    def test_is_xml_with_what_it_was_given(self):
        svg = plot.bars("a < b", "GB/s", [("x & y", [(3.0, 0)], "3"), ("z", [(1.5, 1)], "1.5")])
        texts = [element.text for element in xml.etree.ElementTree.fromstring(svg).iter() if element.text]
        for text in ("a < b", "GB/s", "x & y", "z", "1.5"):
            self.assertIn(text, texts)

    def test_numbers_have_three_digits(self):
        self.assertEqual([plot.number(value) for value in (0, 0.01234, 0.5, 0.9999, 12.345, 99.96, 1234.5)],
                         ["0", "0.0123", "0.500", "1.00", "12.3", "100", "1234"])


class Page(unittest.TestCase):
    def test_says_where_every_section_is_from(self):
        reports = page.read_reports()
        self.assertTrue(reports)
        text = page.make(reports)["performance.md"]
        for stem, report in reports.items():
            for said in (report["device"], report["vkformer"], *report["commands"]):
                self.assertIn(said, " ".join(text.split()) if said == report["device"] else text, stem)

    def test_a_disturbed_time_has_a_star(self):
        row = {"op": "add", "shape": "1x576", "dtype": "f32", "variant": "elements", "cache": "cold", "us": 12.0, "low_us": 11.0,
               "high_us": 13.0, "gflops": 0.05, "gbps": 0.6, "share": 0.1, "limit": "copy_bandwidth", "others": 0}
        report = {"subject": "ops", "place": "x", "device": "d", "driver": "e", "processor": "p", "vkformer": "1", "commands": [],
                  "limits": {"copy_bandwidth": [6.0, "GB/s"]}, "rows": [row, {**row, "op": "activate"}]}
        self.assertEqual(self.stars(report), 0)
        report["rows"][0]["others"] = 0.2
        self.assertEqual(self.stars(report), 1)

    @staticmethod
    def stars(report):
        return sum(text.count(" *<") for name, text in page.make({"x": report}).items() if name.endswith(".svg"))

    def test_prose_is_wrapped(self):
        lines = page.make(page.read_reports())["performance.md"].splitlines()
        self.assertEqual([line for line in lines if len(line) > 120 and not line.startswith(("|", "    ", "!["))], [])

    def test_what_is_slower_is_named(self):
        row = builds.new_row("add", "1x576", "f32", "elements", "plain") | {"before": [9.0, 9.0, 9.0], "after": [10.0, 10.0, 10.0]}
        report = {"subject": "builds", "place": "x", "device": "d", "driver": "e", "processor": "p", "vkformer": "1", "before": "0",
                  "commands": [], "title": "", "rows": [row]}
        self.assertIn("(add 1×576)", page.make({"x": report})["performance.md"])
        row["after"] = [9.0, 9.0, 9.0]
        self.assertIn("none is", page.make({"x": report})["performance.md"])


class Journals(unittest.TestCase):
    def test_goes_on_with_what_is_there_unless_it_is_about_something_else(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "deeper/x.json"
            first = journal.Journal(path, {"subject": "ops", "vkformer": "a"})
            first.add({"op": "add", "us": 1})
            again = journal.Journal(path, {"subject": "ops", "vkformer": "a"})
            self.assertTrue(again.has(op="add"))
            self.assertFalse(again.has(op="add", us=2))
            other = journal.Journal(path, {"subject": "ops", "vkformer": "b"})
            self.assertFalse(other.has(op="add"))

    def test_stops_in_time(self):
        with self.assertRaises(journal.OutOfTime):
            journal.Journal("nowhere.json", {"subject": "ops"}, seconds=1e-9).check_time()


class RandomModels(unittest.TestCase):
    def test_tensors_are_where_the_header_says(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            weights = random_model.write(folder, layers=2, width=64, inner=96, heads=4, kv_heads=2, vocab=300, positions=32)
            content = (folder / "model.safetensors").read_bytes()
            size = struct.unpack("<Q", content[:8])[0]
            header = json.loads(content[8:8 + size])
            self.assertEqual(sum(random_model.count(entry["shape"]) for entry in header.values()), weights)
            self.assertEqual(len(content), 8 + size + 4 * weights)
            begin, end = header["model.norm.weight"]["data_offsets"]
            self.assertEqual(set(struct.unpack(f"<{(end - begin) // 4}f", content[8 + size + begin:8 + size + end])), {1.0})
            vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
            self.assertEqual(sorted(vocabulary.values()), list(range(300)))


if __name__ == "__main__":
    unittest.main()
