# SPDX-License-Identifier: MIT
"""The tables of docs/portability.md, made of the numbers that are kept."""
import textwrap

import kept
import prediction
from tables import number, table

BEGIN, END = "<!-- tests/drivers/run.py writes this -->", "<!-- until here -->"
# Of GPUs whose compilers do nearly the same one stands for the others; all are in the JSON files.
SHOWN = ["vega10", "navi31", "adreno750", "ada", "dg2", "bmg", "g610", "v3d71"]


def per_instruction(one):
    return one["macs"] / one["instructions"] if one["macs"] and one["instructions"] else None


def waits_per_mac(one):
    """Full waits of the hot loop for each multiply-add."""
    return one["full_waits"] / one["macs"] if one["macs"] and one["full_waits"] is not None else None


def rank(one):
    """What is better comes first: no spills, then multiply-adds per instruction, and a wait counts as the instructions that a subgroup
    could have issued meanwhile."""
    if not one["macs"]:
        return (kept.spilling(one), one["instructions"] or 0)
    return (kept.spilling(one), (one["instructions"] + 200 * (one["full_waits"] or 0) / (one["waves"] or 8)) / one["macs"])


def best(title, row):
    """The name and numbers of the variant that ranks first. For a few rows tiles of rows multiply mostly what is not there."""
    few = " row" in title
    ours = {variant: kept.named(numbers[1:]) for variant, numbers in row["ours"].items()
            if not (few and variant.startswith(("tile", "matrix")))}
    return min(ours.items(), key=lambda item: rank(item[1]), default=(None, None))


def cell(variant, one):
    """Multiply-adds per instruction · full waits for 1000 of them · loads and their width · subgroups in flight."""
    if not one:
        return "–"
    parts = [f"`{variant}`"] if variant else []
    parts.append(number(per_instruction(one)))
    waits = waits_per_mac(one)
    parts.append("–" if waits is None else number(1000 * waits))
    parts.append(f"{number(one['load_bytes'] / one['loads'])} B" if one["loads"] else "–")
    parts.append(number(one["waves"]))
    return " · ".join(parts) + (" · **spills**" if kept.spilling(one) else "")


def ahead(ours, peers):
    """Which of two numbers is better, in a word: more is better."""
    if ours is None or peers is None or ours == peers:
        return None
    return ours > peers


def verdict(ours, peers):
    """Who is ahead in what, of our best and the peer."""
    if not ours or not peers:
        return "–"
    negated = lambda value: None if value is None else -value
    compared = [("instructions", ahead(per_instruction(ours), per_instruction(peers))),
                ("waits", ahead(negated(waits_per_mac(ours)), negated(waits_per_mac(peers)))),
                ("in flight", ahead(ours["waves"], peers["waves"])),
                ("spills", ahead(-kept.spilling(ours), -kept.spilling(peers)))]
    sides = [", ".join(name for name, is_ours in compared if is_ours is side) for side in (True, False)]
    return "; ".join(f"{who}: {what}" for who, what in zip(("ours", "peer"), sides) if what) or "level"


def overview(kept_of):
    lines = []
    for one in kept_of.values():
        defaults = {name: kept.named(numbers) for name, numbers in one["defaults"].items()}
        told = [d["full_waits"] for d in defaults.values() if d["full_waits"] is not None]
        spills = sorted({name.split(",")[0] for name, d in defaults.items() if kept.spilling(d)})
        shown = ", ".join(f"`{name}`" for name in spills[:3]) + (f" and {len(spills) - 3} more" if len(spills) > 3 else "")
        registers = max((d["registers"] for d in defaults.values() if d["registers"] is not None), default=None)
        waves = min((d["waves"] for d in defaults.values() if d["waves"] is not None), default=None)
        lines.append([one["gpu"], len(defaults), len(one["refused"]) or "none", shown or "**none**", number(registers), number(waves),
                      sum(count > 1 for count in told) if told else "not told"])
    return table(["GPU", "default pipelines", "refused", "shaders that spill or use scratch memory", "most registers",
                  "fewest subgroups in flight", "pipelines with more than one full wait a turn"], lines)


def rows_of(one):
    lines = []
    for title, row in one["rows"].items():
        if row["ours"]:
            variant, chosen = best(title, row)
            peers = kept.named(row["peer"]) if row["peer"] else None
            lines.append([title, cell(*kept.default(row)), cell(variant, chosen), cell("", peers), verdict(chosen, peers)])
    return table(["", "ours by default", "ours, best", "peer", "ahead, our best and the peer"], lines)


def text_of(kept_of):
    drivers = sorted({one["driver"] for one in kept_of.values()})
    named = textwrap.fill(f"Drivers: {', '.join(drivers)}.", 120, break_on_hyphens=False)
    out = f"{named}\n\n{overview(kept_of)}"
    for key in SHOWN:
        if key in kept_of:
            out += f"\n### {kept_of[key]['gpu']}\n\n{rows_of(kept_of[key])}"
    return f"{out}\n{prediction.section(kept_of)}"


def write(path, kept_of):
    whole = path.read_text()
    before, rest = whole.split(BEGIN, 1)
    path.write_text(f"{before}{BEGIN}\n\n{text_of(kept_of)}\n{END}{rest.split(END, 1)[1]}")


def written(path):
    """The text that stands between the marks."""
    return path.read_text().split(BEGIN, 1)[1].split(END, 1)[0].strip()
