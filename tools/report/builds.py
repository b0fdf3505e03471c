# SPDX-License-Identifier: MIT
"""Two builds of vkformer against each other on one machine: the same cases by the same kernels, in turns.

What each build would choose is asked first; then both are given the kernel that the newer one takes, under the name that it had in the
older one (--renamed), so that like is compared with like. A ratio is the older build's time by the newer one's: above 1 is faster.
"""
import json
import statistics

from journal import Journal
from machine import NOISY, Place, commit_of
from measure import bench_ops, card, head, rounded, time_of

SLOWER = 0.97  # a ratio below this is measured again
LENGTHS = ["--length", "256", "--steps", "32"]


def ratio(row):
    return statistics.median(row["before"]) / statistics.median(row["after"])


def spread(row):
    """The least and the largest ratio of a turn."""
    ratios = [before / after for before, after in zip(row["before"], row["after"])]
    return min(ratios), max(ratios)


def new_row(op, shape, dtype, kernel="", before_chose=""):
    return {"op": op, "shape": shape, "dtype": dtype, "kernel": kernel, "before_chose": before_chose, "before": [], "after": [], "others": 0}


class Builds:
    def __init__(self, options):
        self.options = options
        self.place = Place(options.folder)
        self.programs = {"before": options.before, "after": options.vkformer}
        self.caches = {build: options.cache / build for build in self.programs}
        self.renamed = {old: new.split(",") for old, new in (pair.split("=") for pair in options.renamed)}
        self.kernels = {build: json.loads(self.place.run(program, "tune", "--list", "--json")) for build, program in self.programs.items()}

    def older_name(self, op, name):
        """What the older build calls a kernel: the same if it has that, else the first of what was renamed to it; None: it has it not."""
        known = self.kernels["before"].get(op, [])
        return next((old for old in [name, *(old for old, new in self.renamed.items() if name in new)] if old in known), None)

    def choices(self, build, names):
        """Op → the kernel it is to take, as the build calls it, for every op that has one of the newer build's `names`."""
        found = {(op, name): name if build == "after" else self.older_name(op, name)
                 for op, known in self.kernels["after"].items() for name in names if name in known}
        return {op: name for (op, _), name in found.items() if name}

    def bench(self, build, *arguments):
        return bench_ops(self.place, self.programs[build], self.options.device, self.caches[build], "--no-limits", *arguments, attempts=1)

    def models(self):
        return {weights: self.options.models / f"random-{weights}.gguf" for weights in self.options.weights}

    def op_rows(self):
        """A row for each case that both have, without times: what each build chooses, of which the newer one's is to be taken."""
        chosen = {build: {(case["op"], case["shape"], case["dtype"]): case["variant"]
                          for case in self.bench(build, "--seconds", "0.05")[0]["cases"]} for build in self.programs}
        return [new_row(*key, kernel, chosen["before"][key]) for key, kernel in chosen["after"].items() if key in chosen["before"]]

    def turns(self, rows, measure, journal):
        """Measures rows until they have their turns, or three times as many where one is slower. `measure`: each row's time in µs, and what
        others took of the machine."""
        wanted = self.options.turns
        while len(rows[0]["before"]) < wanted or (min(map(ratio, rows)) < SLOWER and len(rows[0]["before"]) < 3 * wanted):
            journal.check_time()
            order = ("before", "after") if len(rows[0]["before"]) % 2 == 0 else ("after", "before")
            for _ in range(self.options.attempts):
                found = {build: measure(build) for build in order}
                others = max(others for _, others in found.values())
                if others <= NOISY:
                    break
            for build in order:
                for row, us in zip(rows, found[build][0]):
                    row[build].append(rounded(us))
            for row in rows:
                row["others"] = max(row["others"], others)
            journal.save()

    def measure_op(self, row, journal):
        names = row["kernel"].split(" + ") if row["kernel"] else []

        def measure(build):
            case = ["--op", row["op"], "--shape", row["shape"], "--dtype", row["dtype"]]
            chosen = self.choices(build, names)
            which = [argument for op, name in chosen.items() for argument in ("--variant", f"{op}={name}")]
            report, others = self.bench(build, *case, *which, "--seconds", str(self.options.seconds))
            taken = report["cases"][0]["variant"]
            if chosen and not set(taken.split(" + ")) <= set(chosen.values()):
                raise SystemExit(f"{build}, {' '.join(case)}: takes {taken} where {chosen} was asked for; see --renamed")
            return [time_of(report["cases"][0])["us"]], others

        self.turns([row], measure, journal)

    def measure_model(self, weights, journal):
        rows = [row for row in journal.report["rows"] if (row["op"], row["dtype"]) == ("model", weights)]

        def measure(build):
            printed, others = self.place.run_quietly(
                self.programs[build], "bench", "model", "-q", "-m", self.models()[weights], "-d", self.options.device, *LENGTHS, "--runs",
                str(self.options.runs), "--json", cache=self.caches[build], attempts=1)
            return [1e6 / json.loads(printed)[f"{row['shape']}_tokens_per_second"]["median"] for row in rows], others

        self.turns(rows, measure, journal)

    def settle(self):
        """Tries all kernels for the models' graphs with both builds, and then makes both builds' verdicts name the same ones."""
        for build, program in self.programs.items():
            for model in self.models().values():
                self.place.run(program, "tune", "-q", "-m", model, "-d", self.options.device, cache=self.caches[build])
        files = {build: next((cache / "vkformer").glob("variants-*.json")) for build, cache in self.caches.items()}
        content = {build: json.loads(path.read_text()) for build, path in files.items()}
        before, after = (content[build]["verdicts"] for build in ("before", "after"))
        for key in sorted(before.keys() & after.keys()):
            older, newer = before[key], after[key]
            op = key.split()[0]
            if older["variant"] == self.older_name(op, newer["variant"]):
                continue
            print(f"{key}: {older['variant']}, {newer['variant']}")
            right = {trial["variant"] for trial in older["trials"] if not trial["fault"]}
            if self.older_name(op, newer["variant"]) in right:
                older["variant"] = self.older_name(op, newer["variant"])
            else:  # a kernel that the older build has not: both take the older one's
                newer["variant"] = next(trial["variant"] for trial in newer["trials"] if self.older_name(op, trial["variant"]) == older["variant"])
        for build, path in files.items():
            path.write_text(json.dumps(content[build], indent=1))
        for key in sorted(before.keys() ^ after.keys()):
            print(f"only {'before' if key in before else 'after'}: {key}")


def builds(options):
    run = Builds(options)
    if options.settle:
        return run.settle()
    commands = [f"vkformer bench ops --device {options.device} --op OP --shape SHAPE --dtype DTYPE --variant OP=KERNEL --no-limits "
                f"--seconds {options.seconds:g} --json",
                f"vkformer bench model -m FILE --device {options.device} {' '.join(LENGTHS)} --runs {options.runs} --json"]
    journal = Journal(options.out, head("builds", options, card(run.place, options, run.caches["after"]), commands, before=commit_of(options.before),
                                        title=options.title), options.stop_after)
    rows = journal.report["rows"]
    if not any(row["op"] != "model" for row in rows):
        rows += run.op_rows()
    for weights in options.weights:
        if not journal.has(op="model", dtype=weights):
            rows += [new_row("model", end, weights) for end in ("prompt", "decode")]
    journal.save()
    for row in rows:
        if row["op"] != "model":
            run.measure_op(row, journal)
    for weights in options.weights:
        run.measure_model(weights, journal)
