# SPDX-License-Identifier: MIT
"""Tables in Markdown of what the compilers say."""


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def number(value):
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def ratio(part, whole):
    return part / whole if part is not None and whole else None


def spilled(executable):
    """Registers that the compiler had no place for, in the words of a table; empty if there are none. Scratch memory counts: NVK keeps
    arrays with indices that it does not know there and calls none of it a spill."""
    summary = executable["summary"]
    parts = [f"{number(summary['spills'])} spills"] if summary.get("spills") else []
    parts += [f"{number(summary['scratch_bytes'])} B scratch"] if summary.get("scratch_bytes") else []
    loop = executable.get("loop")
    if loop and loop["scratch"]:
        parts.append(f"{loop['scratch']} in the loop")
    return ", ".join(parts)


NUMBERS = ["registers", "in flight", "spills", "multiply–adds", "per instruction", "full waits", "loads", "shared loads", "conversions",
           "barriers"]


def waits(loop, around):
    """Of the hot loop, and behind + of all that is done around it."""
    if not loop:
        return "–"
    if loop["full_waits"] is None:
        return "not told"
    return f"{loop['full_waits']}" + (f" + {around['full_waits'] - loop['full_waits']}" if around else "")


def loads(loop, around):
    """How many, and how wide they are."""
    show = lambda of: f"{of['loads']} × {number(of['load_bytes'] / of['loads'])} B" if of and of["loads"] else "0"
    return "–" if not loop else show(loop) + (f" ({show(around)})" if around else "")


def numbers_of(executable):
    """The cells of NUMBERS."""
    summary, loop, around = executable["summary"], executable.get("loop"), executable.get("around")
    of = lambda what: "–" if not loop else "not told" if loop[what] is None else number(loop[what])
    return [number(summary.get("registers")), number(summary.get("waves")), spilled(executable) or "0", of("macs"),
            number(ratio(loop["macs"], loop["instructions"]) if loop else None), waits(loop, around), loads(loop, around),
            of("shared_loads"), of("conversions"), of("barriers")]


def pipelines(report, offered_only=True):
    """Every pipeline of a report, with its first use."""
    rows = []
    for pipeline in report["pipelines"]:
        if offered_only and not pipeline["offered"]:
            continue
        use = next(iter(pipeline["uses"]), {"case": "", "variant": "", "dtype": ""})
        name = [f"`{pipeline['shader']}`", use["case"], f"`{use['variant']}`" + (", default" if pipeline["default"] else "")]
        if "error" in pipeline:
            rows.append([*name, pipeline["error"]["message"], *[""] * (len(NUMBERS) - 1)])
        for executable in pipeline["executables"]:
            rows.append([*name, *numbers_of(executable)])
    return table(["shader", "case", "variant", *NUMBERS], rows)


def best_executable(pipeline):
    """Of a pipeline that a driver compiled for several widths of subgroups the widest, which is what it prefers."""
    return max(pipeline["executables"], key=lambda e: e.get("subgroup_size", 0), default=None)


def comparison(before, after):
    """What changed from one set of reports to another: pipelines are the same if shader, case, data type and variant are."""
    def named(report):
        found = {}
        for pipeline in report["pipelines"]:
            executable = best_executable(pipeline)
            for use in pipeline["uses"]:
                if executable:
                    found[pipeline["shader"], use["case"], use["dtype"], use["variant"]] = numbers_of(executable)
        return found

    rows = []
    for gpu, report in after.items():
        old, new = named(before.get(gpu, {"pipelines": []})), named(report)
        for key in new:
            if key in old and old[key] != new[key]:
                change = [a if a == b else f"{a} → {b}" for a, b in zip(old[key], new[key])]
                rows.append([gpu, f"`{key[0]}`", key[1], f"`{key[3]}`", *change])
    return table(["GPU", "shader", "case", "variant", *NUMBERS], rows)
