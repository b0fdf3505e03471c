# SPDX-License-Identifier: MIT
"""Figures of ours, and of llama.cpp beside them, with all that says where they are from: what docs/performance/ holds."""
import json

from journal import Journal
from machine import Place, commit_of, processor

WEIGHTS = ("f32", "f16", "q8_0", "q4_0")
PEER_SETTINGS = {"as it is": {}, "without matrices": {"GGML_VK_DISABLE_COOPMAT": "1"},
                 "without both": {"GGML_VK_DISABLE_F16": "1", "GGML_VK_DISABLE_COOPMAT": "1"}}

# A case of tools/peers/ggml_ops.cpp; ours: op, shape, dtype; what its rate counts.
PEER_OPS = [
    *[(f"linear {dtype} 1024x1024x1024", "linear", "1024x1024x1024", dtype, "gflops") for dtype in WEIGHTS],
    *[(f"linear {dtype} 1x576x49152", "linear", "1x576x49152", dtype, "gflops") for dtype in WEIGHTS],
    *[(f"linear {dtype} 1x14336x4096", "linear", "1x14336x4096", dtype, "gflops") for dtype in ("q8_0", "q4_0")],
    *[(f"attention {dtype} {queries} queries", "attention", f"{queries}x512x9x3x64", dtype, "gflops")
      for queries in (1, 64, 512) for dtype in ("f32", "f16")],
    ("softmax 9x512x512", "masked_softmax", "9x512x512", "f32", "gbps"),
    ("layer norm 512x576", "layer_norm", "512x576", "f32", "gbps"),
    ("rms norm 512x576", "rms_norm", "512x576", "f32", "gbps"),
    ("swiglu 512x1536", "gated_activation", "512x1536", "f32", "gbps"),
    ("rope 512x9x64", "rope", "512x9x64", "f32", "gbps"),
    ("add 576", "add", "1x576", "f32", "gbps"),
]


def bench_ops(place, program, device, cache, *arguments, attempts=3):
    """The report of `bench ops --json`, and what others took of the machine meanwhile."""
    printed, others = place.run_quietly(program, "bench", "ops", "-q", "-d", device, "--json", *arguments, cache=cache, attempts=attempts)
    report = json.loads(printed)
    for case in report["cases"]:
        if not case["right"]:
            raise SystemExit(f"{case['op']} {case['shape']} {case['dtype']}: {case.get('failure')}")
    return report, others


def time_of(case):
    """Device time where the device tells it, else wall time: median and its interval, in microseconds."""
    time = case["device_time"] or case["wall_time"]
    return {"us": rounded(time["median_ns"] / 1e3), "low_us": rounded(time["low_ns"] / 1e3), "high_us": rounded(time["high_ns"] / 1e3)}


def rounded(value):
    return float(f"{value:.4g}")


def head(subject, options, device, commands, **more):
    """What all figures of a file have in common. `device`: the card of a report of ours."""
    return {"subject": subject, "place": options.place, "device": device["device"], "driver": device.get("driver", ""),
            "processor": processor(), "vkformer": commit_of(options.vkformer), "commands": commands, **more}


def card(place, options, cache=None):
    return bench_ops(place, options.vkformer, options.device, cache or options.cache, "--op", "add", "--shape", "1x576", "--seconds", "0.05", "--no-limits",
                     attempts=1)[0]["device"]


def ops(options):
    """Every op, and how far it is from what the device can do."""
    place = Place(options.folder)
    # What has no verdict yet is tried in a run before, so that no trial is timed.
    bench_ops(place, options.vkformer, options.device, options.cache, "--seconds", "0.05", "--no-limits", attempts=1)
    report, others = bench_ops(place, options.vkformer, options.device, options.cache, "--seconds", str(options.seconds), attempts=options.attempts)
    command = f"vkformer bench ops --device {options.device} --seconds {options.seconds:g} --json"
    limits = {limit["name"]: [rounded(limit["value"]), limit["unit"]] for limit in report["limits"] if "value" in limit}
    journal = Journal(options.out, head("ops", options, report["device"], [command], limits=limits))
    journal.report["rows"] = []
    for case in report["cases"]:
        row = {"op": case["op"], "shape": case["shape"], "dtype": case["dtype"], "variant": case["variant"], "cache": case["cache"],
               **time_of(case), "gflops": rounded(case["gflops"]), "gbps": rounded(case["gbps"]), "others": others}
        if "roofline" in case:
            row |= {"share": rounded(case["roofline"]["share"]), "limit": case["roofline"]["limit"]}
        journal.report["rows"].append(row)
    journal.save()


class Peer:
    """llama.cpp's programs in a folder with Debian sid. Its backends are found in the folder where a program begins."""

    def __init__(self, place):
        self.place = Place(place.folder, libraries=["llama"])
        self.backends = self.place.libraries() / "ggml/backends0"
        self.version = self.place.packages("llama.cpp", "libggml0-backend-vulkan")

    def run(self, *arguments, settings, attempts=3):
        return self.place.run_quietly(*arguments, folder=self.backends, attempts=attempts, **settings)


def peer_ops(options):
    """Single ops beside those of llama.cpp's Vulkan backend; each of them at the best of its settings."""
    place = Place(options.folder)
    peer = Peer(place)
    commands = [f"vkformer bench ops --device {options.device} --op OP --shape SHAPE --dtype DTYPE --cache hot --no-limits --json",
                f"ggml_ops {options.seconds:g} NAME"]
    journal = Journal(options.out, head("peer_ops", options, card(place, options), commands, peer=peer.version), options.stop_after)
    for name, op, shape, dtype, unit in PEER_OPS:
        if journal.has(name=name):
            continue
        journal.check_time()
        chosen = ["--op", op, "--shape", shape, "--dtype", dtype, "--cache", "hot", "--no-limits", "--seconds"]
        bench_ops(place, options.vkformer, options.device, options.cache, *chosen, "0.05", attempts=1)
        report, others = bench_ops(place, options.vkformer, options.device, options.cache, *chosen, str(options.seconds), attempts=options.attempts)
        case = report["cases"][0]
        theirs = []
        for setting, environment in PEER_SETTINGS.items():
            printed, meanwhile = peer.run(options.ggml_ops.resolve(), str(options.seconds), name,
                                          settings={"GGML_VK_VISIBLE_DEVICES": "0", **environment}, attempts=options.attempts)
            fields = printed.split(name)[-1].split()
            if fields[1] == "us":
                theirs.append((float(fields[0]), setting, meanwhile))
        us, setting, meanwhile = min(theirs)
        journal.add({"name": name, "op": op, "shape": shape, "dtype": dtype, "variant": case["variant"], **time_of(case),
                     "rate": rounded(case[unit]), "unit": unit, "peer_us": us, "setting": setting, "ratio": rounded(us / time_of(case)["us"]),
                     "others": max(others, meanwhile)})


def models(options):
    """A language model's prompt and answer beside llama.cpp's, the same file for both."""
    place = Place(options.folder)
    peer = Peer(place)
    is_cpu = options.device == "cpu"
    lengths = ["--length", "256", "--steps", "32"]
    commands = [f"vkformer bench model -m FILE --device {options.device} {' '.join(lengths)} --runs {options.runs} --json",
                f"llama-bench -m FILE -t 2 -p 256 -n 0 -r {options.runs} -o jsonl", f"llama-bench -m FILE -t 2 -p 0 -n 32 -d 256 -r {options.runs} -o jsonl"]
    journal = Journal(options.out, head("models", options, card(place, options), commands, peer=peer.version), options.stop_after)
    bench = place.libraries().parents[1] / "bin/llama-bench"
    for weights in options.weights or WEIGHTS:
        if journal.has(weights=weights):
            continue
        journal.check_time()
        file = options.models / f"random-{weights}.gguf"
        dtype = ["--dtype", "f16"] if weights == "f16" and not is_cpu else []
        if options.tune and not is_cpu:
            place.run(options.vkformer, "tune", "-q", "-m", file, "-d", options.device, cache=options.cache)
        printed, others = place.run_quietly(options.vkformer, "bench", "model", "-q", "-m", file, "-d", options.device, *lengths, "--runs",
                                            str(options.runs), *dtype, "--json", cache=options.cache, attempts=options.attempts,
                                            **place.threads(options.device))
        report = json.loads(printed)
        row = {"weights": weights, **{end: rounded(report[f"{end}_tokens_per_second"]["median"]) for end in ("prompt", "decode")},
               "weight_bytes": report["weight_bytes_per_step"], "weight_gbps": rounded(report["weight_gb_per_second"]),
               "read_bandwidth_gbps": rounded(report.get("read_bandwidth_gb_per_second", 0)), "others": others}
        for end, arguments in {"prompt": ["-p", "256", "-n", "0"], "decode": ["-p", "0", "-n", "32", "-d", "256"]}.items():
            found = []
            for setting, environment in ({"": {}} if is_cpu else {name: PEER_SETTINGS[name] for name in options.settings}).items():
                where = ["-dev", "none", "-ngl", "0"] if is_cpu else ["-dev", "Vulkan0", "-ngl", "99"]
                printed, meanwhile = peer.run(bench, "-m", file.resolve(), "-t", "2", *arguments, "-r", str(options.runs), *where, "-o", "jsonl",
                                              settings={"GGML_VK_VISIBLE_DEVICES": "" if is_cpu else "0", **environment}, attempts=options.attempts)
                found.append((json.loads(printed.splitlines()[-1])["avg_ts"], setting, meanwhile))
            rate, setting, meanwhile = max(found)
            row |= {f"peer_{end}": rounded(rate), f"peer_{end}_setting": setting, "others": max(row["others"], meanwhile)}
        journal.add(row)


def guest(options):
    """What a language model costs the application that records it into its frames."""
    place = Place(options.folder)
    commands = [f"vkformer bench guest -m FILE --device {options.device} --prompt 64 --tokens 8 --json"]
    journal = Journal(options.out, head("guest", options, card(place, options), commands))
    journal.report["rows"] = []
    for weights in options.weights or ["q8_0"]:
        arguments = ["bench", "guest", "-m", options.models / f"random-{weights}.gguf", "-d", options.device, "--prompt", "64", "--tokens", "8", "--json"]
        place.run(options.vkformer, *arguments, cache=options.cache)  # so that the driver has compiled
        printed, others = place.run_quietly(options.vkformer, *arguments, cache=options.cache)
        report = json.loads(printed)
        journal.add({"weights": weights, "dispatches": report["step"]["dispatches"], "record_us": rounded(report["record"]["us_median"]),
                     "step_us": rounded(report["step"]["us_median"]), "device_bytes": report["device_bytes"],
                     "slices": [{"budget_us": cost["budget_us"], "median_us": rounded(cost["us_median"]), "p99_us": rounded(cost["us_p99"]),
                                 "exceeding": cost["exceeding"]} for cost in report["slices"]], "others": others})
