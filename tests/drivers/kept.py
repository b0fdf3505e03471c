# SPDX-License-Identifier: MIT
"""The numbers that are kept in the repository: one JSON file per GPU with its default pipelines and the rows of the tables.

An executable is a list of NUMBERS, in this order, None where a driver or an assembly does not tell.
"""
import json

import gpus
import rows

SUMMARY = ["registers", "waves", "spills", "scratch_bytes"]
LOOP = ["instructions", "macs", "full_waits", "loads", "load_bytes", "shared_loads", "conversions", "scratch", "barriers"]
AROUND = ["full_waits", "loads"]
NUMBERS = SUMMARY + LOOP + ["around_" + name for name in AROUND]


def numbers_of(executable):
    summary, loop, around = executable["summary"], executable.get("loop") or {}, executable.get("around") or {}
    exact = lambda value: int(value) if isinstance(value, float) and value == int(value) else value
    return [exact(value) for value in [*(summary.get(name) for name in SUMMARY), *(loop.get(name) for name in LOOP),
                                       *(around.get(name) for name in AROUND)]]


def default_pipelines(report):
    """{name: executable} of what the device runs where nothing was measured; a name is shader, case and data type."""
    out = {}
    for pipeline in report["pipelines"]:
        executable, use = rows.widest(pipeline), next((use for use in pipeline["uses"] if use["default"]), None)
        if not executable or not use:
            continue
        name, count = f"{pipeline['shader']}, {use['case']}, {use['dtype']}", 1
        while (name if count == 1 else f"{name}, {count}") in out:
            count += 1
        out[name if count == 1 else f"{name}, {count}"] = executable
    return out


def condensed(key, report, peer):
    """What is kept of a GPU: the report of ours, and {op: executable} of the peer, which may be empty."""
    table = {}
    for row in rows.ROWS:
        ours = {variant: [is_default, *numbers_of(executable)]
                for variant, (executable, is_default) in rows.of_ours(row, report).items()}
        peers = rows.of_peer(row, peer)
        table[row.title] = {"ours": ours, "peer": numbers_of(peers) if peers else None}
    refused = sorted({f"{pipeline['shader']}: {pipeline['error']['message']}" for pipeline in report["pipelines"] if "error" in pipeline})
    return {"gpu": gpus.GPUS[key].title, "driver": report["driver"], "numbers": NUMBERS, "refused": refused,
            "defaults": {name: numbers_of(executable) for name, executable in default_pipelines(report).items()}, "rows": table}


def merged(before, after, only):
    """What is kept, with the numbers of a report of the shaders with `only` in their names in place of theirs. The peer stays."""
    defaults = {name: numbers for name, numbers in before["defaults"].items() if only not in name.split(",")[0]}
    table = {title: {"ours": {**row["ours"], **after["rows"][title]["ours"]}, "peer": after["rows"][title]["peer"] or row["peer"]}
             for title, row in before["rows"].items()}
    refused = sorted({*(one for one in before["refused"] if only not in one.split(":")[0]), *after["refused"]})
    return {**after, "refused": refused, "defaults": {**defaults, **after["defaults"]}, "rows": table}


def take_peer(kept, before):
    """Gives it the peer's numbers that another one has."""
    for title, row in kept["rows"].items():
        row["peer"] = before["rows"].get(title, {}).get("peer")


def as_text(kept):
    """JSON with an executable to a line."""
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    out, depth = [], 0
    for line in text.splitlines():
        stripped = line.strip()
        if depth:
            out[-1] += stripped + (" " if stripped.endswith(",") else "")
        else:
            out.append(line)
        depth += stripped.endswith("[") - (depth > 0 and stripped.startswith("]"))
        if depth == 0:
            out[-1] = out[-1].rstrip()
    return "\n".join(out) + "\n"


def load(folder):
    found = {key: folder / f"{key}.json" for key in gpus.GPUS}
    return {key: json.loads(path.read_text()) for key, path in found.items() if path.exists()}


def named(numbers):
    return dict(zip(NUMBERS, numbers))


def default(row):
    """The variant of a row of the tables that runs where nothing was measured, and its numbers."""
    return next(((variant, named(numbers[1:])) for variant, numbers in row["ours"].items() if numbers[0]), (None, None))


def spilling(one):
    return bool(one["spills"] or one["scratch_bytes"] or one["scratch"])
