#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a real GPU is asked on the day that one is there, in at most --minutes: is all right on it, how fast is it, and how fast is the peer?

    cmake --preset release && cmake --build --preset release --target vkformer_cli        # where there are compilers
    cmake --preset dev && cmake --build --preset dev --target vkformer_tests
    scripts/gpu_day.sh --pack own.tar.xz               # the programs, with the libraries that they need
    scripts/gpu_day.sh --pack-peer sid peer.tar.xz     # llama.cpp of a Debian sid in a folder, with its libraries; without it there is no peer
    scripts/gpu_day.sh --out day --own own.tar.xz --peer peer.tar.xz    # on the machine with the GPU, which needs Python 3.9, a
                                                       # Vulkan driver and a C library that is no older than this one's

Without --own, on the machine that built them, the programs are taken from where they were built.

Writes OUT/gpu_day.json and OUT/gpu_day.html, anew after each step, so that nothing is lost where time is cut short. The steps, each with a
share of the time: the device; `validate` of a small model; single ops, every kernel (on CPUs the chosen one), beside the device's limits; a
language model of 1.2 thousand million random weights; the same file by llama-bench, and the peer's products and attention; what is left, for
the tests of ops. A step that fails or ends early is told as such, and the exit code is then 1.
"""
import argparse
import datetime
import io
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import day_page
import random_model
from machine import SOURCE, processor

sys.path.append(str(SOURCE / "tests/drivers"))
import debian_folder  # noqa: E402

# Single ops: those that belong together and share the time of their group. A case is one run of `bench ops`.
GROUPS = {
    "products of floats": (["linear"], ["f32", "f16"]),
    "products of blocks": (["linear"], ["q8_0", "q4_0", "q4_k", "q6_k"]),
    "attention": (["attention", "attention_causal"], ["f32", "f16"]),
    "decode attention": (["decode_attention"], ["f16", "f16_q8_0"]),
    "norms and others": (["rms_norm", "layer_norm", "rope", "gated_activation", "add"], ["f32", "f16"]),
    "softmax": (["masked_softmax"], ["f32"]),
    "states": (["gated_delta_rule", "selective_scan", "short_convolution_gated"], ["f16"]),
}
MODEL = {"layers": 16, "width": 2048, "inner": 8192, "heads": 32, "kv_heads": 8, "vocab": 128256, "positions": 8192}
SMALL = {"layers": 2, "width": 256, "inner": 512, "heads": 4, "kv_heads": 2, "vocab": 512, "positions": 2048}
WEIGHTS = ("f16", "q8_0", "q4_k", "q4_0")
# The parts of the whole time that the steps may take at most; the tests have what is left.
SHARES = {"validate": 0.08, "ops": 0.40, "models": 0.20, "peer": 0.16}
PEER_OPS = ("MUL_MAT", r"type_a=(f16|q8_0|q4_0|q4_K|q6_K),type_b=f32,m=4096,n=(1|8|512),k=14336")


class Failure(Exception):
    """A step that did not do what it should; its text says what happened."""


class Day:
    def __init__(self, options):
        self.options = options
        self.begin = time.monotonic()
        self.end = self.begin + 60 * options.minutes
        self.report = {"what": "gpu_day", "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                       "processor": processor(), "minutes": options.minutes, "steps": []}
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="gpu_day"))
        # Verdicts of its own: every kernel is tried anew on this day.
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(self.work / "cache")}

    def programs(self, end):
        """Those that --own brings, or that were built here."""
        if self.options.own:
            with tarfile.open(self.options.own) as packed:
                packed.extractall(self.work / "own")
            self.options.vkformer, self.options.tests = (self.work / "own/bin" / name for name in ("vkformer", "vkformer_tests"))
            folders = [str(self.work / "own/lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
            self.environment["LD_LIBRARY_PATH"] = ":".join(folders)
        if not self.options.vkformer.exists():
            raise Failure(f"there is no {self.options.vkformer}; build it, or name it with --vkformer, or bring it with --own")
        self.report["vkformer"] = self.run(end, self.options.vkformer, "--version").strip()

    def step(self, name, work):
        """Does a part; what it says, or how it failed, is in the report."""
        left = self.end - time.monotonic()
        seconds = min(left, 60 * self.options.minutes * SHARES.get(name, 1))
        entry = {"name": name, "state": "done"}
        self.report["steps"].append(entry)
        begin = time.monotonic()
        try:
            if seconds < 1:
                raise subprocess.TimeoutExpired(name, 0)
            note = work(time.monotonic() + seconds)
            if note:
                entry["note"] = note
        except subprocess.TimeoutExpired:
            entry |= {"state": "out of time", "note": f"its {seconds:.0f} s were over"}
        except Failure as failure:
            entry |= {"state": "failed", "note": str(failure)}
        entry["seconds"] = round(time.monotonic() - begin, 1)
        self.report["seconds"] = round(time.monotonic() - self.begin, 1)
        print(f"{name}: {entry['state']} in {entry['seconds']} s" + (f": {entry['note']}" if "note" in entry else ""), file=sys.stderr)
        self.save()

    def save(self):
        out = self.options.out
        out.mkdir(parents=True, exist_ok=True)
        (out / "gpu_day.json").write_text(json.dumps(self.report, indent=1, ensure_ascii=False) + "\n")
        (out / "gpu_day.html").write_text(day_page.page(self.report))

    def run(self, end, *command, expects=(0,), **more):
        """What a command prints. Ends it with the step's time."""
        command = [str(part) for part in command]
        done = subprocess.run(command, env={**self.environment, **more.pop("environment", {})}, capture_output=True, text=True, errors="replace",
                              timeout=max(1, end - time.monotonic()), check=False, **more)
        if done.returncode not in expects:
            raise Failure(f"{' '.join(command[:8])} … ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}")
        return done.stdout

    def vkformer(self, end, *arguments, **more):
        return json.loads(self.run(end, self.options.vkformer, *arguments, "--json", **more))

    def device(self, end):
        devices = [device for device in self.vkformer(end, "info")["devices"] if device["usable"]]
        wanted = self.options.device
        found = [device for device in devices if wanted in (None, str(device["index"])) or wanted.lower() in device["name"].lower()]
        if wanted is None:
            found.sort(key=lambda device: device["type"] == "cpu")
        if not found:
            raise Failure(f"no usable Vulkan device {wanted or ''}; there are: {', '.join(device['name'] for device in devices) or 'none'}")
        chosen = found[0]
        self.report["device"] = {key: chosen[key] for key in ("name", "driver", "type", "vulkan", "features", "limits")}
        self.chosen = str(chosen["index"])
        self.is_cpu = chosen["type"] == "cpu"

    def sizes(self):
        return SMALL if self.is_cpu else MODEL

    def file(self, weights, sizes):
        path = self.work / f"{'small' if sizes is SMALL else 'model'}-{weights}.gguf"
        if not path.exists():
            random_model.write(path, weights, **sizes)
        return path

    def validate(self, end):
        self.report["validate"] = []
        wrong = []
        for weights, dtype in (("f16", "f32"), ("f16", "f16"), ("q8_0", "f16"), ("q4_k", "f16")):
            file = self.file(weights, SMALL)
            found = self.vkformer(end, "validate", "-q", "-m", file, "-d", self.chosen, "--dtype", dtype, "--length", "33", expects=(0, 1))
            checks = [check for report in found["reports"] for check in report["checks"]]
            off = [check for check in checks if check["diverges"]]
            self.report["validate"].append({"weights": weights, "dtype": dtype, "results": len(checks), "off": off})
            wrong += off
        if wrong:
            raise Failure(f"{len(wrong)} results are outside their bounds, the first: {wrong[0]['node']}")

    def ops(self, end):
        self.report["ops"], failures = [], []
        first = self.work / "first.json"  # a report, whose limits the others take
        begin, seconds = time.monotonic(), self.options.seconds
        all_kernels = [] if self.is_cpu else ["--all-variants"]  # CPUs take minutes to compile what is unrolled for GPUs
        for i, (name, (ops, dtypes)) in enumerate(GROUPS.items()):
            part_end = begin + (end - begin) * (i + 1) / len(GROUPS)
            for op, shape, dtype in ((op, shape, dtype) for op in ops for shape in self.shapes(op) for dtype in dtypes):
                known = ["--limits", first] if first.exists() else []
                try:
                    found = self.vkformer(part_end, "bench", "ops", "-q", "-d", self.chosen, "--op", op, "--shape", shape, "--dtype", dtype, *all_kernels,
                                          *known, "--seconds", seconds, expects=(0, 1))
                except subprocess.TimeoutExpired:
                    failures.append(f"{name}: out of time at {op} {shape} {dtype}")
                    break
                except Failure as failure:
                    failures.append(str(failure))
                    continue
                if not known:
                    first.write_text(json.dumps(found))
                    self.report["limits"] = [limit for limit in found["limits"] if "value" in limit]
                self.report["ops"] += [{"group": name, **case_row(case)} for case in found["cases"]]
                failures += [f"{case['op']} {case['shape']} {case['dtype']} by {case['variant']}: {case.get('failure', 'wrong')}"
                             for case in found["cases"] if not case["right"]]
                self.save()
        if failures:
            raise Failure("; ".join(failures))

    def shapes(self, op):
        """Those that `bench ops` has on this device, the ones that only GPUs have first."""
        listed = self.run(self.end, self.options.vkformer, "bench", "ops", "--list").splitlines()
        line = next(listed[i + 1] for i, text in enumerate(listed) if text.startswith(f"{op}  "))
        everywhere, _, on_gpus = line.partition("; on GPUs also")
        return ([] if self.is_cpu else on_gpus.split()) + everywhere.split()

    def models(self, end):
        self.report["models"] = []
        for weights in WEIGHTS:
            file = self.file(weights, self.sizes())
            row = {"weights": weights, "bytes": file.stat().st_size}
            self.report["models"].append(row)
            for run in ("first", "later"):  # the first one tries kernels, as far as its time goes; the later one goes on
                found = self.vkformer(end, "bench", "model", "-q", "-m", file, "-d", self.chosen, "--dtype", "f32" if self.is_cpu else "f16",
                                      "--length", "512", "--steps", "32", "--runs", "10")
                rates = {part: found[f"{part}_tokens_per_second"]["median"] for part in ("prompt", "decode")}
                row |= rates if run == "later" else {f"first_{part}": rate for part, rate in rates.items()}
                row |= {"first_token_seconds": found["first_token_seconds"]} if run == "first" else {}
                self.save()

    def peer(self, end):
        if not self.options.peer:
            return "no --peer was given"
        folder = self.work / "peer"
        with tarfile.open(self.options.peer) as packed:
            packed.extractall(folder)
        start = json.loads((folder / "peer.json").read_text())
        command = [folder / "lib" / start["loader"], "--library-path", f"{folder / 'lib'}"]
        environment = {"GGML_VK_VISIBLE_DEVICES": self.chosen}
        self.report["peer"] = {"version": start["version"], "models": [], "ops": []}
        for weights in WEIGHTS:
            file = self.file(weights, self.sizes())
            rates = {}
            for part, arguments in {"prompt": ["-p", "512", "-n", "0"], "decode": ["-p", "0", "-n", "32", "-d", "512"]}.items():
                printed = self.run(end, *command, folder / "bin/llama-bench", "-m", file, *arguments, "-r", "30", "-dev", "Vulkan0", "-ngl", "99",
                                   "-o", "jsonl", cwd=folder / "backends", environment=environment)
                rates[part] = statistics.median(json.loads(printed.splitlines()[-1])["samples_ts"])  # the first ones met an idle card
            self.report["peer"]["models"].append({"weights": weights, **rates})
            self.save()
        printed = self.run(end, *command, folder / "bin/test-backend-ops", "perf", "-b", "Vulkan0", "-o", PEER_OPS[0], "-p", PEER_OPS[1],
                           cwd=folder / "backends", environment=environment)
        self.report["peer"]["ops"] = [{"op": op, "us": float(us)} for op, us in re.findall(r"^\s*(\w+\([^)]*\)):.*?([\d.]+) us/run", plain(printed), re.M)]

    def tests(self, end):
        """The tests of ops on every device there is, shared out among processes; what was seen of them when the time was over counts, too."""
        tests = self.options.tests
        if not tests.exists():
            return f"there is no {tests}"
        names = self.test_names(end)
        if not names:
            raise Failure(f"{tests} names no tests of ops")
        random.Random(1).shuffle(names)
        count = max(1, min(12, len(names), (os.cpu_count() or 2) - 2))
        jobs = [self.start_tests(names[i::count], i) for i in range(count)]
        cut_off = set()
        for i, process in enumerate(jobs):
            try:
                process.wait(max(0.1, end - 2 - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                cut_off.add(i)
        printed, is_whole = "".join(self.printed_by(i).read_text(errors="replace") for i in range(count)), not cut_off
        ended = re.findall(r"^([\d.]+) s: (.*)$", printed, re.M)
        failed = sorted(set(re.findall(r"^(\S+\.cpp:\d+): FAILED:", printed, re.M)))
        self.report["tests"] = {"ended": len(ended), "failed": failed, "is_whole": is_whole}
        if failed:
            raise Failure(f"{len(failed)} checks failed, the first: {failed[0]}")
        ended_badly = [process.returncode for i, process in enumerate(jobs) if i not in cut_off and process.returncode != 0]
        if ended_badly:
            raise Failure(f"the tests ended with {ended_badly[0]}: {printed[-600:]}")
        return f"{len(ended)} tests ended well" + ("" if is_whole else " before the time was over")

    def test_names(self, end):
        for arguments in (["--list-test-names-only"], ["--list-tests", "--verbosity", "quiet"]):  # Catch2 2, whose exit code is their number, and 3
            printed = self.run(end, self.options.tests, "[op]", *arguments, expects=range(256))
            if "Unrecognised token" not in printed:
                return sorted(name for name in printed.splitlines() if name.strip())
        return []

    def printed_by(self, number):
        return self.work / f"printed{number}.txt"

    def start_tests(self, names, number):
        file = self.work / f"tests{number}.txt"
        file.write_text("".join(f"{name}\n" for name in names))
        own = {"OPENBLAS_NUM_THREADS": "1", "XDG_CACHE_HOME": str(self.work / f"cache{number}")}
        with open(self.printed_by(number), "w") as printed:
            return subprocess.Popen([self.options.tests, "-f", file, "--durations", "yes"], stdout=printed, stderr=subprocess.STDOUT,
                                    env={**self.environment, **own})


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", text)


def case_row(case):
    time_of = case["device_time"] or case["wall_time"] or {}
    row = {key: case[key] for key in ("op", "shape", "dtype", "variant", "cache", "right", "gflops", "gbps") if key in case}
    if time_of:
        row["us"] = time_of["median_ns"] / 1e3
    if "roofline" in case:
        row |= {"share": case["roofline"]["share"], "limit": case["roofline"]["limit"]}
    return row


def pack_own(programs, out):
    """The programs and the libraries that they need, but those of C and C++, which a newer system has, and what the driver may need of X and GL."""
    missing = [program for program in programs if not program.exists()]
    if missing:
        sys.exit(f"there is no {missing[0]}; build it, or name it with --vkformer and --tests")
    own_of_system = re.compile(r"/(ld-linux|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)[-.]")
    needed = set()
    for name in ("libvulkan.so.1", "libX11.so.6", "libXext.so.6", "libGLdispatch.so.0", "libGLX.so.0", "libEGL.so.1"):
        needed |= set(itertools.islice(pathlib.Path("/usr/lib").glob(f"*/{name}"), 1))
    for file in [*programs, *needed]:
        listed = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
        if "not found" in listed:
            sys.exit(f"{file} lacks a library: {re.search('.*not found', listed)[0].strip()}")
        needed |= {pathlib.Path(path) for path in re.findall(r"=> (/\S+)", listed) if not own_of_system.search(path)}
    with tempfile.TemporaryDirectory() as folder, tarfile.open(out, "w:xz", preset=9) as packed:
        for program in programs:
            stripped = pathlib.Path(folder) / program.name
            subprocess.run(["strip", "-o", stripped, program], check=True)
            packed.add(stripped, f"bin/{program.name}")
        for library in sorted(needed):
            packed.add(library.resolve(), f"lib/{library.name}")
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


def pack_peer(folder, out):
    """llama.cpp of a Debian in a folder, with the libraries that it needs, in one file that runs on any Linux with a newer kernel."""
    libraries = debian_folder.library_folder(folder)
    programs = [folder / "usr/bin/llama-bench", folder / "usr/libexec" / libraries.name / "ggml/test-backend-ops"]
    for program in programs:
        if not program.exists():
            sys.exit(f"there is no {program}: chroot {folder} apt-get install llama.cpp")
    # Backends are found in the folder where a program begins.
    backends = [next(libraries.glob("ggml/backends*")) / f"libggml-{name}.so" for name in ("vulkan", "cpu-x64")]
    loader = next(libraries.glob("ld-linux*.so*"))
    needed = {loader}
    for file in [*programs, *backends]:
        command = [loader, "--library-path", f"{libraries}:{libraries / 'llama'}", "--list", file]
        needed |= {pathlib.Path(path) for path in re.findall(r"=> (/\S+)", subprocess.run(command, capture_output=True, text=True, check=True).stdout)}
    status = (folder / "var/lib/dpkg/status").read_text()
    found = re.search(r"^Package: llama.cpp\n(?:.+\n)*?Version: (\S+)", status, re.M)
    described = json.dumps({"version": f"llama.cpp {found[1] if found else ''}".strip(), "loader": loader.name}).encode()
    with tarfile.open(out, "w:xz") as packed:
        for name, files in {"bin": programs, "backends": backends, "lib": sorted(needed)}.items():
            for file in files:
                packed.add(file.resolve(), f"{name}/{file.name}")
        entry = tarfile.TarInfo("peer.json")
        entry.size = len(described)
        packed.addfile(entry, io.BytesIO(described))
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu_day"), help="the folder of the two files; gpu_day if absent")
    parser.add_argument("--device", help="index or part of the name; the first that is no CPU if absent, else the first")
    parser.add_argument("--minutes", type=float, default=8, help="for everything; 8 if absent")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each case of an op; 0.2 if absent")
    parser.add_argument("--vkformer", type=pathlib.Path, default=SOURCE / "build/release/vkformer")
    parser.add_argument("--tests", type=pathlib.Path, default=SOURCE / "build/dev/tests/vkformer_tests", help="without it no test is run")
    parser.add_argument("--peer", type=pathlib.Path, help="a file that --pack-peer made")
    parser.add_argument("--own", type=pathlib.Path, help="a file that --pack made, in place of --vkformer and --tests")
    parser.add_argument("--pack", type=pathlib.Path, metavar="OWN", help="make the file OWN of --vkformer and --tests and do nothing else")
    parser.add_argument("--pack-peer", type=pathlib.Path, nargs=2, metavar=("SID", "PEER"), help="make the file PEER and do nothing else")
    options = parser.parse_args()
    if options.pack:
        return pack_own([options.vkformer, options.tests], options.pack)
    if options.pack_peer:
        return pack_peer(*options.pack_peer)
    day = Day(options)
    try:
        day.step("programs", day.programs)
        if "vkformer" in day.report:
            day.step("device", day.device)
        if "device" in day.report:
            for name, work in (("validate", day.validate), ("ops", day.ops), ("models", day.models), ("peer", day.peer), ("tests", day.tests)):
                day.step(name, work)
    finally:
        shutil.rmtree(day.work)
    print(options.out / "gpu_day.html")
    return any(step["state"] != "done" for step in day.report["steps"])


if __name__ == "__main__":
    sys.exit(main())
