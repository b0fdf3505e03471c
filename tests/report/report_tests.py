#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of tools/report that need nothing but Python: plots, pages, measurements that go on, models of random weights, the day of a GPU."""
import argparse
import http.server
import json
import pathlib
import re
import struct
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools/report"))
import builds  # noqa: E402
import day_page  # noqa: E402
import embedding  # noqa: E402
import gpu_day  # noqa: E402
import journal  # noqa: E402
import load  # noqa: E402
import page  # noqa: E402
import plot  # noqa: E402
import random_model  # noqa: E402
import serving  # noqa: E402
import translating  # noqa: E402
import translation  # noqa: E402


class Streaming(http.server.BaseHTTPRequestHandler):
    """Stands for a server: three texts of a prompt, 20 ms apart."""
    asked = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body["prompt"] = body.get("prompt") or body.get("q", "")
        Streaming.asked.append((self.server.server_port, body["prompt"]))
        self.send_response(404 if self.path == "/nowhere" else 200)
        self.end_headers()
        if body["prompt"] == "late":
            time.sleep(0.3)
        for text in "abc":
            time.sleep(0.02)
            self.wfile.write(b"data: " + json.dumps({"choices": [{"text": text}]}).encode() + b"\n\n")
        usage = {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": 3}
        self.wfile.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n")

    def log_message(self, *_):
        pass


class Translations(unittest.TestCase):
    def test_turns_and_section(self):
        mine, others = iter((10.0, 30.0, 20.0)), iter((5.0, 10.0, 40.0))
        found = translation.in_turns(3, lambda: next(mine), lambda: next(others))
        self.assertEqual(found[:3], (20.0, 10.0, 2.0))
        row = {"weights": "q8_0", "peer_weights": "int8", "batch": 8, "beams": 1, "tokens_per_second": 20.0, "peer_tokens_per_second": 10.0, "ratio": 2.0,
               "others": 0.5}
        shown = []
        title, text, listed = page.translation_section({"processor": "X, 2 threads, AVX2", "turns": 3, "rows": [row]}, lambda svg, part="": shown.append(svg))
        self.assertEqual(title, "Translation against CTranslate2")
        self.assertIn("2 threads", text)
        self.assertIn("| Q8_0 : int8 * | 8 | 1 | 20.0 : 10.0 | 2.00 |", listed)
        self.assertIn("Q8_0, 8 texts, 1 beam", shown[0])


class Hearing(unittest.TestCase):
    def test_section(self):
        row = {"weights": "f32", "peer_weights": "float32", "beams": 5, "seconds": 1.5, "peer_seconds": 3.0, "encoder_ms": 860.0, "peer_encoder_ms": 1720.0,
               "token_ms": 10.0, "peer_token_ms": 20.0, "ratio": 2.0, "others": 0.01}
        shown = []
        title, text, listed = page.hearing_section({"processor": "X, 2 threads, AVX2", "turns": 3, "rows": [row]}, lambda svg, part="": shown.append(svg))
        self.assertEqual(title, "Whisper against CTranslate2")
        self.assertIn("2 threads", text)
        self.assertIn("| F32 : float32 | 5 | 860 : 1720 | 10.0 : 20.0 | 1.50 : 3.00 | 2.00 |", listed)
        self.assertIn("F32, 5 beams", shown[0])


class Embeddings(unittest.TestCase):
    def test_turns_and_section(self):
        asked = []

        def of(seconds, vector):
            def ask(texts):
                asked.append(len(texts))
                return seconds, vector
            return ask, None

        row = embedding.compared(3, of(0.8, [1.0, 0.0]), of(1.6, [2.0, 0.0]), 4, 16)  # two calls of ours in a turn, one of theirs
        self.assertEqual(asked, [4] * (2 + 3 * 3))
        self.assertEqual((row["texts_per_second"], row["peer_texts_per_second"], row["ratio"]), (5.0, 2.5, 2.0))
        with self.assertRaises(SystemExit):
            embedding.compared(1, of(1, [1.0, 0.0]), of(1, [0.9, 0.1]), 1, 16)
        texts = embedding.texts_of(1, 3, 16)
        self.assertEqual([len(text.split()) for text in texts], [14] * 3)
        self.assertNotEqual(texts, embedding.texts_of(2, 3, 16))
        report = {"processor": "X, 2 threads, AVX2", "turns": 3, "rows": [{**row, "texts": 4, "tokens": 16, "others": 0.5}]}
        shown = []
        title, text, listed = page.embedding_section(report, lambda svg, part="": shown.append(svg))
        self.assertEqual(title, "Embeddings against sentence-transformers")
        self.assertIn("2 threads", text)
        self.assertIn("| 4 * | 16 | 5.00 : 2.50 | 2.00 |", listed)
        self.assertIn("4 texts of 16 tokens", shown[0])


    def test_section_of_translators(self):
        row = {"clients": 4, "requests_per_second": 3.0, "answer_ms": 900.0, "answer_ms_most": 1200.0, "peer_requests_per_second": 1.5,
               "peer_answer_ms": 2000.0, "peer_answer_ms_most": 2500.0, "ratio": 2.0, "others": 0.5}
        shown = []
        title, text, listed = page.translating_section({"processor": "X, 2 threads, AVX2", "turns": 3, "rows": [row]}, lambda svg, part="": shown.append(svg))
        self.assertEqual(title, "Translation against LibreTranslate")
        self.assertIn("2 threads", text)
        self.assertIn("| 4 * | 3.00 : 1.50 | 2.00 | 900 : 2000 | 1200 : 2500 |", listed)
        self.assertIn("4 clients", shown[0])


class Clients(unittest.TestCase):
    def setUp(self):
        Streaming.asked.clear()
        self.servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Streaming) for _ in range(2)]
        for server in self.servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.ports = [server.server_port for server in self.servers]

    def tearDown(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def test_what_clients_see_is_counted_and_timed(self):
        seen = load.measure(self.ports[0], 2, 3, lambda number: {"prompt": load.prompt(number, 5 + number)})
        self.assertEqual((seen["requests"], seen["prompt_tokens"], seen["least_prompt"], seen["most_prompt"]), (6, 45, 5, 10))
        self.assertAlmostEqual(seen["tokens_per_second"], 3 * seen["requests_per_second"])
        self.assertTrue(15 < seen["first_ms"] <= seen["first_ms_most"] and 15 < seen["between_ms"] <= seen["between_ms_p99"], seen)

    def test_what_all_write_at_the_same_time_is_counted(self):
        def client(times, tokens):
            one = load.Seen()
            one.times, one.usage = times, {"completion_tokens": tokens}
            return one

        # 10 a second each, a token and a half for each text; what lies before and behind does not count
        seen = [client([0.0, 5.0, *(10 + i / 10 for i in range(21)), 13.0], 36), client([10.0 + i / 10 for i in range(21)], 31.5)]
        self.assertAlmostEqual(load.rate_together(seen), 2 * 10 * 1.5)
        for others in ([], [0.0, 1.0], [11.95]):
            with self.assertRaises(RuntimeError):
                load.rate_together([*seen, client(others, 2)])
        # One client writes at the same time as itself; between two the machine may be busy.
        self.assertTrue(0 < load.together(self.ports[0], 1, lambda number: {"prompt": "some words"}) <= 51)

    def test_whole_answers_are_timed(self):
        seen = load.measure_answers(self.ports[0], "/translate", 3, 2, lambda number: {"prompt": str(number)})
        self.assertEqual(seen["requests"], 6)
        self.assertTrue(60 < seen["answer_ms"] <= seen["answer_ms_most"], seen)  # three texts, for each of which the server sleeps
        self.assertTrue(0 < seen["requests_per_second"] < 3 / 0.06, seen)
        with self.assertRaises(RuntimeError):
            load.measure_answers(self.ports[0], "/nowhere", 1, 1, lambda number: {"prompt": ""})

    def test_translators_have_their_turns_with_the_same_texts(self):
        for turns in (1, 2):
            Streaming.asked.clear()
            rows, ratio = translating.in_turns(argparse.Namespace(requests=2, turns=turns, attempts=1), [(None, port) for port in self.ports], 2)
            self.assertEqual([row["requests"] for row in rows], [4, 4])
            if turns == 1:
                self.assertAlmostEqual(ratio, rows[0]["requests_per_second"] / rows[1]["requests_per_second"])
            mine, others = ([prompt for port, prompt in Streaming.asked if port == one] for one in self.ports)
            self.assertEqual((sorted(mine), len(set(mine))), (sorted(others), 2 + 4 * turns))

    def test_clients_that_do_not_write_at_the_same_time_are_refused(self):
        with self.assertRaisesRegex(RuntimeError, "at the same time"):
            load.together(self.ports[0], 2, lambda number: {"prompt": "late" if number else "early"})

    def test_servers_have_their_turns_with_the_same_prompts_and_none_twice(self):
        options = argparse.Namespace(requests=2, turns=3, attempts=1, words=(2, 9))
        rows, ratio = serving.in_turns(options, [(port, None) for port in self.ports], 2)
        self.assertEqual([row["requests"] for row in rows], [4, 4])
        self.assertTrue(0.3 < ratio < 3, ratio)
        mine, others = ([prompt for port, prompt in Streaming.asked if port == one] for one in self.ports)
        self.assertEqual((sorted(mine), len(set(mine))), (sorted(others), 2 * 2 * 4))
        turns = [port for port, _ in Streaming.asked[::4]]
        self.assertEqual(turns, self.ports * 4)


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
    def test_blocks_have_the_deviation_that_is_said(self):
        pool = random_model.FORMATS["q8_0"].pool(seed=1)
        weights = [struct.unpack_from("<e", pool, at)[0] * quant for at in range(0, 34 * 500, 34) for quant in struct.unpack_from("<32b", pool, at + 2)]
        self.assertAlmostEqual((sum(weight * weight for weight in weights) / len(weights)) ** 0.5, 0.02, delta=0.001)

    def test_a_file_ends_with_its_last_tensor(self):
        with tempfile.TemporaryDirectory() as temporary:
            path = pathlib.Path(temporary) / "model.gguf"
            for weights in random_model.FORMATS:
                random_model.write(path, weights, layers=1, width=256, inner=512, heads=4, kv_heads=2, vocab=300, positions=32)
                content = path.read_bytes()
                self.assertEqual(content[:4], b"GGUF")
                name = b"output_norm.weight"  # the last, of 256 numbers
                rank, dim, number, offset = struct.unpack_from("<IQIQ", content, content.index(name) + len(name))
                self.assertEqual((rank, dim, number), (1, 256, 0))
                self.assertEqual(struct.unpack("<256f", content[-1024:]), (1.0,) * 256)
                for token in random_model.vocabulary(300):
                    self.assertIn(struct.pack("<Q", len(token.encode())) + token.encode(), content)
                head = content.index(name) + len(name) + 24
                self.assertEqual(head + -head % random_model.ALIGNMENT + offset + 1024, len(content))

    def test_rows_that_end_within_a_block_are_refused(self):
        with self.assertRaisesRegex(ValueError, "rows of 96"):
            random_model.write(pathlib.Path("nowhere.gguf"), "q4_k", layers=1, width=96, inner=256, heads=4, kv_heads=2, vocab=300)


class Days(unittest.TestCase):
    ROW = {"group": "sums", "op": "add", "shape": "1x576", "dtype": "f32", "cache": "cold", "gflops": 1.0, "gbps": 2.0, "share": 0.5, "limit": "reads"}

    def day(self, **options):
        options = {"minutes": 1, "out": pathlib.Path(self.folder.name), "vkformer": pathlib.Path(sys.executable), "own": None, **options}
        return gpu_day.Day(gpu_day.argparse.Namespace(**options))

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_the_fastest_right_kernel_is_shown(self):
        rows = [{**self.ROW, "variant": "slow", "right": True, "us": 9.0}, {**self.ROW, "variant": "fast", "right": True, "us": 3.0},
                {**self.ROW, "variant": "wrong", "right": False}]
        (best, slowest, count), = day_page.best_of(rows)
        self.assertEqual((best["variant"], slowest, count), ("fast", 9.0, 2))
        text = day_page.ops_part(rows)
        self.assertIn("<td>fast</td>", text)
        self.assertIn("Wrong results", text)
        self.assertIn("<td>wrong</td>", text)

    def test_the_peer_stands_beside_us(self):
        text = day_page.models_part([{"weights": "f16", "bytes": 2e9, "prompt": 300.0, "decode": 30.0}],
                                    {"models": [{"weights": "f16", "prompt": 100.0, "decode": 60.0}]})
        for said in ("<td class=\"n\">3.00</td>", "<td class=\"n\">0.500</td>", "<td class=\"n\">60.0</td>"):
            self.assertIn(said, text)

    def test_steps_that_fail_or_run_long_are_told_and_kept(self):
        day = self.day()

        def fails(_):
            raise gpu_day.Failure("a < b")
        day.step("validate", fails)
        day.step("ops", lambda end: day.run(end - 60, sys.executable, "-c", "import time; time.sleep(60)"))
        day.step("models", lambda _: "as it should")
        self.assertEqual([step["state"] for step in day.report["steps"]], ["failed", "out of time", "done"])
        kept = json.loads((day.options.out / "gpu_day.json").read_text())
        self.assertEqual(kept["steps"][0]["note"], "a < b")
        self.assertIn("a &lt; b", (day.options.out / "gpu_day.html").read_text())

    def script(self, name, text):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(0o755)
        return path

    def test_tests_are_shared_out_and_those_that_were_cut_off_are_no_failures(self):
        """Stands for the tests' program: tells its names, or runs those of a file, of which one fails or never ends."""
        for bad, said in (("b fails", "1 checks failed, the first: x.cpp:3"), ("c hangs", None)):
            tests = self.script("tests", f"""
import sys, time
if "--list-test-names-only" in sys.argv:
    print("a ends\\n{bad}\\nd ends")
    sys.exit(3)
for name in open(sys.argv[sys.argv.index("-f") + 1]).read().splitlines():
    if "fails" in name:
        print("x.cpp:3: FAILED:")
    if "hangs" in name:
        time.sleep(600)
    print("0.001 s: " + name, flush=True)
""")
            day = self.day(tests=tests)
            end = time.monotonic() + (60 if said else 4)
            if said:
                with self.assertRaisesRegex(gpu_day.Failure, said):
                    day.tests(end)
                self.assertTrue(day.report["tests"]["is_whole"])
            else:
                self.assertRegex(day.tests(end), "^[0-2] tests ended well before the time was over$")
                self.assertFalse(day.report["tests"]["is_whole"])

    def test_what_is_packed_runs_elsewhere(self):
        out = pathlib.Path(self.folder.name) / "own.tar.xz"
        programs = [pathlib.Path("/bin/true"), pathlib.Path("/bin/false")]
        gpu_day.pack_own(programs, out)
        with tarfile.open(out) as packed:
            names = packed.getnames()
        self.assertEqual([name for name in names if name.startswith("bin/")], ["bin/true", "bin/false"])
        self.assertFalse([name for name in names if re.search(r"lib/lib(c|stdc\+\+)\.so", name)])
        with self.assertRaisesRegex(SystemExit, "there is no /nowhere"):
            gpu_day.pack_own([pathlib.Path("/nowhere")], out)

    def test_what_a_command_says_against_it_is_the_failure(self):
        day = self.day()
        with self.assertRaisesRegex(gpu_day.Failure, "ended with 3: no such thing"):
            day.run(day.end, sys.executable, "-c", "import sys; print('no such thing', file=sys.stderr); sys.exit(3)")


if __name__ == "__main__":
    unittest.main()
