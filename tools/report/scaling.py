#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/scaling.md's figures: what a job on a Ray cluster costs, measured, and a model of it for clusters that are not here.

    tools/report/scaling.py measure     docs/scaling/cpu.json, with the package of this Python (vkformer[ray]) on a quiet machine
    tools/report/scaling.py page        the tables of docs/scaling.md, of that file
    tools/report/scaling.py page --check

The model, for N rows in blocks of k, c seconds for a row, W workers of which P at a time have a processor (or a GPU) of their own, and Q
processors that Ray has on all nodes:

    T(W) = s + max((N c + N/k a) / min(W, P) + k c, (N c' + N/k b) / Q, N/k d)

s: until the first row of a job of one is written; k c: the last block, for which the others wait at most; c': what a row takes of a
processor, c on the CPU backend, nothing on a GPU. In each block, besides: a: what a worker does; b: what all processors do together (reading,
handing over, writing); d: what the driver does, one block after the other, whatever the number of nodes. They are how much longer jobs with
many blocks take than jobs with few, in which nothing is done to the rows; none is fitted to the runs that the model is compared with.
"""
import argparse
import json
import math
import os
import pathlib
import re
import sys
import tempfile
import time

from machine import SOURCE, processor

MODEL = SOURCE / "samples/models/date-normalizer"
PAGE = SOURCE / "docs/scaling.md"
FIGURES = SOURCE / "docs/scaling/cpu.json"
MONTHS = ("Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November", "Dezember")
WORKERS = (1, 2, 4)
NODES = (1, 10, 100, 1000)
GPU_ROWS_PER_SECOND = (100, 2_000, 20_000)


def dates(count):
    return [f"{1 + i % 28}. {MONTHS[i // 28 % 12]} {1950 + i // 336 % 120}" for i in range(count)]


def job(ray, on_ray, rows, block, workers, out):
    """Seconds from the call to the last row, and what came out, in the order of the rows."""
    given = ray.data.from_items([{"text": row} for row in rows], override_num_blocks=math.ceil(len(rows) / block))
    begun = time.monotonic()
    given.map_batches(
        on_ray.Translator, batch_size=block, batch_format="pyarrow", num_cpus=1, compute=ray.data.ActorPoolStrategy(size=workers),
        fn_constructor_kwargs={"path": str(MODEL), "plain_shaders": True, "beams": 1},
    ).write_parquet(out)
    return time.monotonic() - begun


def measure(options):
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", OPENBLAS_NUM_THREADS="1")
    import pyarrow.parquet
    import ray
    import ray.data

    import vkformer
    import vkformer.ray as on_ray

    rows = dates(options.rows)
    processors = len(os.sched_getaffinity(0))
    figures = {"processor": processor(), "processors": processors, "ray": ray.__version__, "vkformer": vkformer.__version__,
               "rows": options.rows, "block": options.block, "attempts": options.attempts}

    # One process without Ray, on one processor.
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    with vkformer.Translator(MODEL, "cpu", plain_shaders=True, beams=1) as model:
        model.translate(rows[:options.block])
        begun = time.monotonic()
        expected = [one.text for i in range(0, len(rows), options.block) for one in model.translate(rows[i:i + options.block])]
        alone = time.monotonic() - begun
    os.sched_setaffinity(0, allowed)
    figures["row_seconds"] = alone / len(rows)

    ray.init(num_cpus=2 * max(WORKERS), include_dashboard=False, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True

    # Ray's share in a block: seconds of jobs in which nothing is done, with few and with many blocks.
    few, many = 100, 400

    def empty(blocks, workers):
        given = ray.data.from_items([{"text": row} for row in rows[:blocks * 8]], override_num_blocks=blocks)
        with tempfile.TemporaryDirectory() as out:
            before = time.monotonic(), _busy(), time.process_time()
            given.map_batches(_Nothing, compute=ray.data.ActorPoolStrategy(size=workers), num_cpus=1).write_parquet(out)
            return [after - then for after, then in zip((time.monotonic(), _busy(), time.process_time()), before)]

    def a_block(workers):
        least = [[min(column) for column in zip(*(empty(blocks, workers) for _ in range(options.attempts)))] for blocks in (few, many)]
        return [(more - less) / (many - few) for less, more in zip(*least)]

    empty(few, 1)
    figures["worker_seconds"] = a_block(1)[0]
    _, figures["busy_seconds"], figures["driver_seconds"] = a_block(processors)

    # Until the first row is there.
    with tempfile.TemporaryDirectory() as out:
        job(ray, on_ray, rows[:1], 1, 1, out)
    with tempfile.TemporaryDirectory() as out:
        figures["start_seconds"] = job(ray, on_ray, rows[:1], 1, 1, out)

    figures["runs"] = []
    for workers in WORKERS:
        def once(workers=workers):
            with tempfile.TemporaryDirectory() as out:
                seconds = job(ray, on_ray, rows, options.block, workers, out)
                table = pyarrow.parquet.read_table(out)
                return seconds, sorted(table.column("translation").to_pylist()), sum(f.stat().st_size for f in pathlib.Path(out).iterdir())

        tries = [once() for _ in range(options.attempts)]
        if any(found != sorted(expected) for _, found, _ in tries):
            raise SystemExit(f"{workers} workers: not what one process writes")
        seconds, _, size = min(tries, key=lambda one: one[0])
        figures["runs"].append({"workers": workers, "seconds": seconds})
        figures["bytes_per_row"] = size / len(rows)
    ray.shutdown()
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=1) + "\n")


def _busy():
    """Seconds that this machine's processors have worked."""
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:8]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


class _Nothing:
    def __call__(self, batch):
        return batch


def predicted(figures, workers):
    rows, blocks, cost = figures["rows"], figures["rows"] / figures["block"], figures["row_seconds"]
    places = figures["processors"]
    work = (rows * cost + blocks * figures["worker_seconds"]) / min(workers, places) + figures["block"] * cost
    together = (rows * cost + blocks * figures["busy_seconds"]) / places
    return figures["start_seconds"] + max(work, together, blocks * figures["driver_seconds"])


def predicted_on_gpus(figures, nodes, rows, block, rate):
    """Nodes with one GPU, which does `rate` rows a second, and as many processors as were measured on."""
    blocks = rows / block
    work = (rows / rate + blocks * figures["worker_seconds"]) / nodes + block / rate
    together = blocks * figures["busy_seconds"] / (nodes * figures["processors"])
    return figures["start_seconds"] + max(work, together, blocks * figures["driver_seconds"])


def tables(figures):
    runs = ["| workers of one thread | seconds | rows per second | by the model | measured : model |", "| --- | --- | --- | --- | --- |"]
    for run in figures["runs"]:
        guess = predicted(figures, run["workers"])
        rate = figures["rows"] / run["seconds"]
        runs.append(f"| {run['workers']} | {run['seconds']:.1f} | {rate:.0f} | {guess:.1f} | {run['seconds'] / guess:.2f} |")
    costs = [
        "| | measured |", "| --- | --- |",
        f"| c, a row, in one process without Ray on one processor | {figures['row_seconds'] * 1e3:.3f} ms |",
        f"| s, a job of one row | {figures['start_seconds']:.1f} s |",
        f"| a, a block, of the one worker there is | {figures['worker_seconds'] * 1e3:.1f} ms |",
        f"| b, a block, of all processors | {figures['busy_seconds'] * 1e3:.1f} ms |",
        f"| d, a block, of the driver | {figures['driver_seconds'] * 1e3:.1f} ms |",
        f"| a row that is written, as Parquet | {figures['bytes_per_row']:.0f} bytes |",
    ]
    far = ["| rows per second of a worker | nodes | rows of a block | a block, seconds | rows of an hour's work | efficiency |",
           "| --- | --- | --- | --- | --- | --- |"]
    for rate in GPU_ROWS_PER_SECOND:
        for nodes in NODES:
            # So large that the driver has time for all of them, and twice that; but no smaller than a second's work.
            block = max(rate, 2 * math.ceil(nodes * rate * figures["driver_seconds"]))
            rows = 3600 * nodes * rate
            took = predicted_on_gpus(figures, nodes, rows, block, rate)
            far.append(f"| {rate:,} | {nodes:,} | {block:,} | {block / rate:.1f} | {rows:,} | {3600 / took * 100:.1f} % |")
    origin = [f"{figures['processor']}; Ray {figures['ray']}; {figures['rows']:,} rows in blocks of {figures['block']}; the shortest of {figures['attempts']} runs."]
    return {"runs": runs, "costs": costs, "far": far, "origin": origin}


def page(options):
    text = PAGE.read_text(encoding="utf-8")
    made = text
    for name, lines in tables(json.loads(FIGURES.read_text())).items():
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        if not between.search(made):
            sys.exit(f"{PAGE} has no place for {name}")
        made = between.sub(lambda found, lines=lines: found[1] + "\n" + "\n".join(lines) + "\n\n" + found[2], made)
    if options.check and made != text:
        sys.exit(f"{PAGE} is not what {FIGURES} makes: run {sys.argv[0]} page")
    if not options.check:
        PAGE.write_text(made, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("measure")
    command.set_defaults(run=measure)
    command.add_argument("--rows", type=int, default=20_000)
    command.add_argument("--block", type=int, default=200)
    command.add_argument("--attempts", type=int, default=3)
    command.add_argument("--out", type=pathlib.Path, default=FIGURES)
    command = commands.add_parser("page")
    command.set_defaults(run=page)
    command.add_argument("--check", action="store_true")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
