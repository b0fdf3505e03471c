# SPDX-License-Identifier: MIT
"""docs/performance.md and its plots, of the measurements in docs/performance/*.json. Nothing is measured here."""
import json
import statistics
import sys
import textwrap

import builds
import plot
import translating
from machine import NOISY, SOURCE
from plot import number

DOCS = SOURCE / "docs"
DATA = DOCS / "performance"
SUBJECTS = ("ops", "peer_ops", "models", "serving", "translation", "hearing", "translating", "embedding", "guest", "builds")
WEIGHTS = {"f32": "F32", "f16": "F16", "q8_0": "Q8_0", "q4_0": "Q4_0"}
NAMES = {"masked_softmax": "softmax", "gated_activation": "SwiGLU", "rms_norm": "RMS norm", "layer_norm": "layer norm", "rope": "RoPE"}
LIMITS = {"copy_bandwidth": "copies", "read_bandwidth": "reads", "peak_f32": "float32", "peak_f16": "float16", "peak_int_dot": "integer dot products",
          "peak_matrix_f16": "cooperative matrices", "launch_overhead": "an empty dispatch"}

INTRODUCTION = """\
# Performance

What was measured, on what, by which command. Everything on this page is made by `tools/report/report.py page` from the
JSON files in [performance/](performance); how the figures come about is told in [benchmark.md](benchmark.md), what
limits the kernels and what was tried in vain in [kernels.md](kernels.md).

**No figure here comes from a real GPU: none was at hand.** The Vulkan drivers below run on the processor. What the
compilers of GPUs make of the shaders is in [portability.md](portability.md). Figures are comparable within their own
table, where one program ran after the other on one machine; a time during which other programs took more than 5 % of
it has a star (*). Beside each table stand the commit and the commands that it was measured with.
"""

HOW_TO = """\
## To make it anew

    cmake --preset release && cmake --build --preset release
    sudo tests/drivers/run.py --make sid                              # Debian sid in a folder: newest drivers, llama.cpp
    tools/report/report.py ops --place lavapipe --device llvmpipe     # measures into docs/performance/lavapipe-ops.json
    tools/report/report.py page                                       # makes this page of all such files

`tools/report/report.py --help` has the other subjects and what they need. One file is one device and one subject;
a file that is taken away takes its section with it.
"""


def wrapped(text):
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def time_text(us):
    return f"{number(us)} µs" if us < 1000 else f"{number(us / 1e3)} ms"


def known(value, text):
    """What a row does not say is a dash."""
    return "–" if value is None else text(value)


def star(row):
    return " *" if row["others"] > NOISY else ""


def kernel(name):
    return f"`{name}`" if name else "–"


def shape(text):
    return text.replace("x", " × ")


def case_name(row):
    """An op, its shape and, where it is another, what its operands are stored as."""
    return f"{NAMES.get(row['op'], row['op'])} {row['shape'].replace('x', '×')}" + ("" if row["dtype"] == "f32" else f" {row['dtype']}")


def source(report):
    """Where the figures of a section are from."""
    text = f"{report['device']}" + (f", {report['driver']}" if report["driver"] else "") + f"; {report['processor']}; vkformer at `{report['vkformer']}`"
    if "before" in report:
        text += f", before at `{report['before']}`"
    if "peer" in report:
        text += f"; {report['peer']}" + ("" if "(" in report["peer"] else " (Debian)")
    return wrapped(text + ".") + "\n\n" + "\n".join("    " + command for command in report["commands"])


def ops_section(report, picture):
    """How far each op is from the device's limits."""
    if not any("share" in row for row in report["rows"]):
        return ops_without_limits(report, picture)
    rows = report["rows"]
    limits = ", ".join(f"{LIMITS[name]} {number(value)} {unit}" for name, (value, unit) in report["limits"].items() if name in LIMITS)
    picture(plot.bars("Share of what the device can do: its measured arithmetic or bandwidth, whichever binds", "%",
                      [(case_name(row), [(100 * row["share"], 1 if row["limit"].startswith("peak") else 0)],
                        f"{100 * row['share']:.0f} %  {time_text(row['us'])}{star(row)}") for row in rows], marks=(100,)))
    listed = table(("op", "shape", "kernel", "time", "95 %", "GFLOP/s", "GB/s", "share", "limit"),
                   [(row["op"], shape(row["shape"]), kernel(row["variant"]), time_text(row["us"]) + star(row),
                     f"{time_text(row['low_us'])} – {time_text(row['high_us'])}", number(row["gflops"]), number(row["gbps"]),
                     f"{100 * row['share']:.0f} %", LIMITS.get(row["limit"], row["limit"])) for row in rows])
    text = f"""Operands in float32, from memory, by the kernel that the device's own trials took. The limits that were measured beside them:
        {limits}. Blue bars are bound by memory, orange ones by arithmetic; above 100 % a cache served what counts as memory traffic."""
    return "Single ops", wrapped(text), listed


def ops_without_limits(report, picture):
    rows = report["rows"]
    arithmetic = [row for row in rows if row["gflops"] > 8 * row["gbps"]]  # operations for a byte
    for part, chosen, unit, what in (("arithmetic", arithmetic, "gflops", "GFLOP/s"),
                                     ("memory", [row for row in rows if row not in arithmetic], "gbps", "GB/s, every operand counted once")):
        picture(plot.bars("More than 8 operations for a byte" if part == "arithmetic" else "Fewer operations for a byte", what,
                          [(case_name(row), [(row[unit], 0)], f"{number(row[unit])}, {time_text(row['us'])}{star(row)}") for row in chosen]), part)
    listed = table(("op", "shape", "time", "95 %", "GFLOP/s", "GB/s"),
                   [(row["op"], shape(row["shape"]), time_text(row["us"]) + star(row), f"{time_text(row['low_us'])} – {time_text(row['high_us'])}",
                     number(row["gflops"]), number(row["gbps"])) for row in rows])
    return "Single ops", wrapped("Operands in float32, from memory; wall time."), listed


def peer_ops_section(report, picture):
    rows = report["rows"]
    high = max(row["ratio"] for row in rows) * 1.2
    picture(plot.dots("Times as fast as llama.cpp's Vulkan backend", "times as fast (logarithmic)",
                      [(case_name(row), [(row["ratio"], 0, None, None)], f"{number(row['ratio'])} ×{star(row)}") for row in rows],
                      min(0.5, min(row["ratio"] for row in rows)), high, marks=(1, 3)))
    listed = table(("op", "shape", "stored as", "kernel", "ours", "rate", "llama.cpp", "its setting", "ratio"),
                   [(row["op"], shape(row["shape"]), row["dtype"], kernel(row["variant"]), known(row["us"], time_text) + star(row),
                     known(row["rate"], lambda rate: f"{number(rate)} {'GFLOP/s' if row['unit'] == 'gflops' else 'GB/s'}"),
                     known(row["peer_us"], time_text), row["setting"] or "–",
                     number(row["ratio"])) for row in rows])
    ratios = [row["ratio"] for row in rows]
    text = f"""Operands hot. Ours: the median of the device's time, by the kernel that its trials took. llama.cpp's: the least time of its best
        setting (as it is, without cooperative matrices, without float16 either). Of {len(rows)} ops {sum(r >= 3 for r in ratios)} are three times
        as fast or more, {sum(r < 1 for r in ratios)} slower; the median is {number(statistics.median(ratios))}. The dashed lines are 1 and 3 times."""
    return "Single ops against llama.cpp", wrapped(text), listed


def models_section(report, picture):
    rows = report["rows"]
    ends = {"prompt": "prompt of 256", "decode": "32 generated behind it"}
    lines = [(f"{WEIGHTS[row['weights']]}, {end}", [(row[end], 0), (row[f'peer_{end}'], 3)],
              f"{number(row[end])} : {number(row[f'peer_{end}'])}, {number(row[end] / row[f'peer_{end}'])} ×{star(row)}")
             for end in ends for row in rows]
    for end in ends:  # a plot of each: prompts are read many times as fast as answers are written
        chosen = [line for line in lines if line[0].endswith(end)]
        picture(plot.bars(f"{ends[end].capitalize()}: vkformer (blue) and llama.cpp (grey)", "tokens per second", chosen), end)
    listed = table(("weights", *(f"{ends[end]}: {what}" for end in ends for what in ("ours", "llama.cpp", "ratio"))),
                   [(WEIGHTS[row["weights"]] + star(row), *(text for end in ends for text in (
                       number(row[end]), number(row[f"peer_{end}"]) + (f" ({row[f'peer_{end}_setting']})" if row[f"peer_{end}_setting"] else ""),
                       number(row[end] / row[f"peer_{end}"])))) for row in rows])
    text = """A Llama of SmolLM2-135M's shape (30 layers, width 576, feed-forward 1536, 9 query and 3 key heads, vocabulary 49152, tied) with random
        weights, one GGUF file for both programs, two threads. Tokens per second, ours the median, llama.cpp's the mean at the best of its
        settings. On Vulkan F16 is computed with float16 activations (`--dtype f16`), the others in float32."""
    return "A language model against llama.cpp", wrapped(text), listed


def guest_section(report, picture):
    rows = report["rows"]
    picture(plot.bars("How long slices take that are asked to take a time: median (blue) and 99th percentile (orange)", "ms",
                      [(f"{WEIGHTS[row['weights']]}, slices of {number(cost['budget_us'] / 1e3)} ms",
                        [(cost["median_us"] / 1e3, 0), (cost["p99_us"] / 1e3, 1)],
                        f"{number(cost['median_us'] / 1e3)}, {number(cost['p99_us'] / 1e3)}{star(row)}") for row in rows for cost in row["slices"]]))
    listed = table(("weights", "dispatches of a token", "to record a token", "to record and submit it", "device memory", "slices: median, 99th percentile"),
                   [(WEIGHTS[row["weights"]] + star(row), f"{row['dispatches']:.0f}", time_text(row["record_us"]), time_text(row["step_us"]),
                     f"{row['device_bytes'] / 2**20:.0f} MiB",
                     "; ".join(f"{number(cost['budget_us'] / 1e3)} ms: {number(cost['median_us'] / 1e3)}, {number(cost['p99_us'] / 1e3)} ms" for cost in row["slices"]))
                    for row in rows])
    text = """What the language model of above costs an application that records it into its frames ([embedding.md](embedding.md)): the time of the
        calling thread, and how long a slice really takes. A slice ends between dispatches; one that is longer than the budget stands alone."""
    return "A guest in a frame", wrapped(text), listed


def serving_section(report, picture):
    rows = report["rows"]

    def name(row):
        return f"{WEIGHTS[row['weights']]}, {row['clients']} client{'s' if row['clients'] > 1 else ''}"

    picture(plot.bars("Clients at a time: vkformer (blue) and llama.cpp (grey)", "tokens per second of all clients",
                      [(name(row), [(row["tokens_per_second"], 0), (row["peer_tokens_per_second"], 3)],
                        f"{number(row['tokens_per_second'])} : {number(row['peer_tokens_per_second'])}, {number(row['ratio'])} ×{star(row)}")
                       for row in rows]))

    def both(row, key):
        return f"{number(row[key])} : {number(row['peer_' + key])}"

    listed = table(("weights and clients", "requests per second, ours : llama.cpp's", "tokens per second", "ratio", "to the first text, ms",
                    "the slowest", "between texts, ms", "99th percentile", "all writing: ours, of a batch alone"),
                   [(name(row) + star(row), both(row, "requests_per_second"), both(row, "tokens_per_second"), number(row["ratio"]),
                     both(row, "first_ms"), both(row, "first_ms_most"), both(row, "between_ms"), both(row, "between_ms_p99"),
                     f"{number(row['together_tokens_per_second'])}, {number(row['of_alone'])}") for row in rows])
    turns = f"Medians of {report['turns']} turns" if report["turns"] > 1 else "One turn"
    shortest, longest = min(row["least_prompt"] for row in rows), max(row["most_prompt"] for row in rows)
    text = f"""`vkformer serve` and llama-server, in turns, with the same file of the model of above and the same requests: prompts of {shortest:.0f} to
        {longest:.0f} tokens, no two alike, 64 tokens generated, streamed. {turns}; the ratio is that of tokens per second within a
        turn. The last column: tokens per second while all clients write, behind some 64 tokens and up to 128, and how much that is of what
        `bench model --batch` decodes without a server."""
    weights = {row["weights"] for row in rows}
    return "Many clients of a server" + (f", {WEIGHTS[rows[0]['weights']]}" if len(weights) == 1 else ""), wrapped(text), listed


def translation_section(report, picture):
    rows = report["rows"]

    def name(row):
        texts, beams = (f"{count} {what}{'s' if count > 1 else ''}" for count, what in ((row["batch"], "text"), (row["beams"], "beam")))
        return f"{WEIGHTS[row['weights']]}, {texts}, {beams}"

    picture(plot.bars("Translation: vkformer (blue) and CTranslate2 (grey)", "tokens per second of all texts",
                      [(name(row), [(row["tokens_per_second"], 0), (row["peer_tokens_per_second"], 3)],
                        f"{number(row['tokens_per_second'])} : {number(row['peer_tokens_per_second'])}, {number(row['ratio'])} ×{star(row)}") for row in rows]))
    listed = table(("weights, ours : CTranslate2's", "texts together", "beams", "tokens per second", "ratio"),
                   [(f"{WEIGHTS[row['weights']]} : {row['peer_weights']}{star(row)}", str(row["batch"]), str(row["beams"]),
                     f"{number(row['tokens_per_second'])} : {number(row['peer_tokens_per_second'])}", number(row["ratio"])) for row in rows])
    text = f"""A MarianMT of an opus-mt's shape (6 + 6 layers, width 512, feed-forward 2048, vocabulary 58101) with random weights, the same for both
        programs, {report["processor"].split(" threads")[0].split(", ")[-1]} threads; 32 tokens read and 32 written. Medians of {report["turns"]} turns;
        the ratio is that within a turn. Ours is the time of an encoder's run and of 32 steps, CTranslate2's that of translate_batch() with
        tokens for texts."""
    return "Translation against CTranslate2", wrapped(text), listed


def hearing_section(report, picture):
    rows = report["rows"]

    def name(row):
        return f"{WEIGHTS[row['weights']]}, {row['beams']} beam{'s' if row['beams'] > 1 else ''}"

    def both(row, key):
        return f"{number(row[key])} : {number(row['peer_' + key])}"

    picture(plot.bars("A window of sound: vkformer (blue) and CTranslate2 (grey)", "seconds for 30 s of sound and 64 tokens",
                      [(name(row), [(row["seconds"], 0), (row["peer_seconds"], 3)],
                        f"{both(row, 'seconds')}, {number(row['ratio'])} ×{star(row)}") for row in rows]))
    listed = table(("weights, ours : CTranslate2's", "beams", "encoder, ms", "a token, ms", "a window of 64 tokens, s", "times as fast"),
                   [(f"{WEIGHTS[row['weights']]} : {row['peer_weights']}{star(row)}", str(row["beams"]), both(row, "encoder_ms"), both(row, "token_ms"),
                     both(row, "seconds"), number(row["ratio"])) for row in rows])
    text = f"""A Whisper of whisper-base's shape (6 + 6 layers, width 512, feed-forward 2048, vocabulary 51865) with random weights, the same for both
        programs, {report["processor"].split(" threads")[0].split(", ")[-1]} threads; a window of 30 s and 64 tokens. Medians of {report["turns"]} turns; how
        many times as fast is that within a turn. faster-whisper hears with CTranslate2's encode() and generate(). Spectrograms, which faster-whisper makes
        with NumPy, are not in it."""
    return "Whisper against CTranslate2", wrapped(text), listed


def translating_section(report, picture):
    rows = report["rows"]

    def name(row):
        return f"{row['clients']} client{'s' if row['clients'] > 1 else ''}"

    def both(row, key):
        return f"{number(row[key])} : {number(row['peer_' + key])}"

    picture(plot.bars("Clients at a time: vkformer (blue) and LibreTranslate (grey)", "translations per second of all clients",
                      [(name(row), [(row["requests_per_second"], 0), (row["peer_requests_per_second"], 3)],
                        f"{both(row, 'requests_per_second')}, {number(row['ratio'])} ×{star(row)}") for row in rows]))
    listed = table(("clients", "translations per second, ours : LibreTranslate's", "ratio", "to an answer, ms", "the slowest"),
                   [(f"{row['clients']}{star(row)}", both(row, "requests_per_second"), number(row["ratio"]), both(row, "answer_ms"),
                     both(row, "answer_ms_most")) for row in rows])
    text = f"""`vkformer serve` and LibreTranslate, the latter on the processor with {report["processor"].split(" threads")[0].split(", ")[-1]} threads, in
        turns, with the same weights in float32: a MarianMT of an opus-mt's shape, random, that reads {translating.DIGITS * 2 + 1} tokens and writes {translating.WRITTEN} with 4 beams. Medians of
        {report["turns"]} turns; the ratio is that within a turn."""
    return "Translation against LibreTranslate", wrapped(text), listed


def embedding_section(report, picture):
    rows = report["rows"]

    def name(row):
        return f"{row['texts']} text{'s' if row['texts'] > 1 else ''} of {row['tokens']} tokens"

    def both(row):
        return f"{number(row['texts_per_second'])} : {number(row['peer_texts_per_second'])}"

    picture(plot.bars("Texts of a call: vkformer (blue) and sentence-transformers (grey)", "texts per second",
                      [(name(row), [(row["texts_per_second"], 0), (row["peer_texts_per_second"], 3)], f"{both(row)}, {number(row['ratio'])} ×{star(row)}")
                       for row in rows]))
    listed = table(("texts of a call", "tokens of each", "texts per second, ours : sentence-transformers'", "ratio"),
                   [(f"{row['texts']}{star(row)}", str(row["tokens"]), both(row), number(row["ratio"])) for row in rows])
    text = f"""An encoder of all-MiniLM-L6-v2's shape (6 layers, width 384, feed-forward 1536, 12 heads) with random weights in float32, the same folder
        for both, {report["processor"].split(" threads")[0].split(", ")[-1]} threads, one call after the other. Ours is `vkformer serve`, HTTP and JSON
        included; sentence-transformers' `encode` is called in its own process. Medians of {report["turns"]} turns; the ratio is that within a turn."""
    return "Embeddings against sentence-transformers", wrapped(text), listed


def builds_section(report, picture):
    rows = [row for row in report["rows"] if len(row["before"]) > 0]

    def name(row):
        return f"{WEIGHTS[row['dtype']]} model, {row['shape']}" if row["op"] == "model" else case_name(row)

    ratios = [builds.ratio(row) for row in rows]
    low, high = min(0.8, min(ratios) * 0.98), max(1.25, max(ratios) * 1.02)
    picture(plot.dots("Speed after, where before is 1", "times the speed before",
                      [(name(row), [(builds.ratio(row), 0, *builds.spread(row))], f"{builds.ratio(row):.2f}{star(row)}") for row in rows],
                      low, high, marks=(builds.SLOWER, 1)))
    listed = table(("case", "kernel", "before", "after", "speed", "turns"),
                   [(name(row), kernel(row["kernel"]), time_text(statistics.median(row["before"])) + star(row), time_text(statistics.median(row["after"])),
                     f"{builds.ratio(row):.2f} ({' – '.join(f'{value:.2f}' for value in builds.spread(row))})", str(len(row["before"]))) for row in rows])
    slower = [name(row) for row in rows if builds.ratio(row) < builds.SLOWER]
    text = f"""The same cases by the same kernels with a build of before and one of after, in turns; medians. Lines in the plot go from the least to the
        largest ratio of a turn. Of {len(rows)} cases {"none is" if not slower else f"{len(slower)} are"} below {builds.SLOWER} times the speed
        before{"" if not slower else f" ({', '.join(slower)})"}; the median is {statistics.median(ratios):.3f}. Times of a model are those of a token."""
    return report["title"] or "Before and after", wrapped(text), listed


SECTIONS = {"ops": ops_section, "peer_ops": peer_ops_section, "models": models_section, "guest": guest_section, "serving": serving_section,
            "translation": translation_section, "hearing": hearing_section, "translating": translating_section,
            "embedding": embedding_section, "builds": builds_section}


def place_title(report):
    """The driver; of the CPU backend, at the place cpu-avx2, say, what the processor is left with."""
    if report["driver"]:
        return report["driver"]
    _, _, has = report["place"].partition("-")
    return "The CPU backend" + (f", {has.upper()}" if has else "")


def make(reports):
    """Every file of the page: name → text. `reports`: file name without ending → report."""
    files, text = {}, [INTRODUCTION]
    places = {}
    for stem, report in reports.items():
        places.setdefault(report["place"], []).append((stem, report))
    # Drivers first, the CPU backend last.
    for place, listed in sorted(places.items(), key=lambda item: (item[1][0][1]["driver"] == "", item[0])):
        text.append(f"## {place_title(listed[0][1])}\n")
        for stem, report in sorted(listed, key=lambda item: SUBJECTS.index(item[1]["subject"])):
            pictures = []

            def picture(svg, part=""):
                name = f"performance/{stem}{'-' + part if part else ''}.svg"
                files[name] = svg
                pictures.append(name)

            title, told, rows = SECTIONS[report["subject"]](report, picture)
            if report.get("note"):
                told = wrapped(f"{told} {report['note']}")
            shown = "\n\n".join(f"![{title}, {place_title(report)}]({name})" for name in pictures)
            text.append(f"### {title}\n\n{told}\n\n{shown}\n\n<details><summary>As a table</summary>\n\n{rows}\n\n</details>\n\n{source(report)}\n")
    files["performance.md"] = "\n".join([*text, HOW_TO])
    return files


def read_reports(folder=DATA):
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def page(options):
    files = make(read_reports())
    existing = {f"performance/{path.name}" for path in DATA.glob("*.svg")}
    wrong = sorted([name for name, text in files.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != text] + list(existing - files.keys()))
    if options.check:
        for name in wrong:
            print(f"docs/{name} is not what docs/performance/*.json makes; run tools/report/report.py page", file=sys.stderr)
        return 1 if wrong else 0
    for name in existing - files.keys():
        (DOCS / name).unlink()
    for name, text in files.items():
        (DOCS / name).write_text(text)
    print(f"docs/performance.md, {len(files) - 1} plots")
    return 0
