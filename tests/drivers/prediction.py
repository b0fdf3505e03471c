# SPDX-License-Identifier: MIT
"""What the model of time says of a GPU: our shaders and the peer's beside each other."""
import dataclasses
import statistics

import calibration
import chips
import kept
import model
from tables import number, table


def candidates(title, row):
    """{variant: numbers} of ours that could be the best: without spills, for a few rows without tiles, and for many without those
    that split the depth, which are for products of a few tiles."""
    ours = {variant: kept.named(numbers[1:]) for variant, numbers in row["ours"].items()}
    return {variant: one for variant, one in ours.items() if one["macs"] and not kept.spilling(one)
            and not (variant.startswith(("tile", "matrix")) if " row" in title else "split" in variant)}


def of_row(key, title, row):
    """{"default", "best": (variant, seconds), "peer": seconds}, None for what is not known; nothing of a row that the model has no
    published times for."""
    if not calibration.class_of(title) or key not in chips.OF_GPU:
        return None
    card, constants = chips.CARDS[chips.OF_GPU[key]], calibration.constants()
    time = lambda variant, one: (variant, model.of_ours(card, one, title, variant, constants))
    variant, default = kept.default(row)
    best = min((time(*item) for item in candidates(title, row).items()), key=lambda item: item[1], default=None)
    peers = row["peer"] and model.of_peer(card, kept.named(row["peer"]), title, True, constants)
    return {"default": time(variant, default) if default and default["macs"] else None, "best": best, "peer": peers}


def of_gpu(key, one):
    found = {title: of_row(key, title, row) for title, row in one["rows"].items()}
    return {title: row for title, row in found.items() if row and row["default"]}


def time_range(seconds, factor):
    """In microseconds: as far as nine of ten predictions were off."""
    return f"{number(1e6 * seconds / factor)}–{number(1e6 * seconds * factor)} µs"


def text_of(key, one):
    """The table of one GPU."""
    lines = []
    for title, row in of_gpu(key, one).items():
        factor = calibration.errors()[calibration.class_of(title)].most
        cell = lambda found: f"`{found[0]}` · {time_range(found[1], factor)}" if found else "–"
        ratios = [number(row["peer"] / row[which][1]) if row["peer"] and row[which] else "–" for which in ("default", "best")]
        lines.append([title, cell(row["default"]), cell(row["best"]), time_range(row["peer"], factor) if row["peer"] else "–", *ratios])
    head = ["", "ours by default", "ours, best", "peer", "peer ÷ default", "peer ÷ best"]
    return f"{one['gpu']}, as {chips.OF_GPU[key]}: y of {model.OUT} from x of {model.IN}\n\n{table(head, lines)}"


def ratios(kept_of):
    """The peer's time divided by ours, by default and at best, of each GPU that the peer was asked on."""
    of = {key: of_gpu(key, one) for key, one in kept_of.items() if key in chips.OF_GPU}
    of = {key: rows for key, rows in of.items() if any(row["peer"] for row in rows.values())}
    titles = list(dict.fromkeys(title for rows in of.values() for title in rows))
    pair = lambda row: [row["peer"] / row[which][1] for which in ("default", "best")] if row and row["peer"] and row["best"] else None
    lines = []
    for key, rows in of.items():
        pairs = [pair(rows.get(title)) for title in titles]
        known = [found for found in pairs if found]
        middle = [statistics.median(column) for column in zip(*known)]
        lines.append([kept_of[key]["gpu"], chips.OF_GPU[key], *(" / ".join(map(number, found)) if found else "–" for found in pairs),
                      " / ".join(map(number, middle))])
    return table(["GPU", "card", *titles, "median"], lines)


CONSTANTS = {"cycles": ("cycles to issue an instruction", ""), "latency": ("latency of memory", " ns"),
             "bandwidth": ("share of the published bandwidth that is reached", "")}


def constants_table():
    fitted = dataclasses.asdict(calibration.constants())
    lines = [[text, f"{fitted[name]:.3g}{unit}"] for name, (text, unit) in CONSTANTS.items()]
    return table(["fitted, one for all cards", "value"], lines)


def errors_table():
    factor = lambda value: f"× {value:.2f}"
    lines = [[name, error.points, error.gpus, factor(error.median), factor(error.most)] for name, error in calibration.errors().items()]
    return table(["products", "points", "GPUs", "off by, in the median", "nine of ten off by at most"], lines)


def cards_table():
    lines = [[name, card.gpu, card.units, card.simds, card.lanes, number(card.megahertz), card.matrix_macs or "–",
              number(card.gigabytes)] for name, card in chips.CARDS.items()]
    return table(["card", "GPU", "units", "SIMDs of a unit", "lanes of a SIMD", "MHz", "multiply–adds of matrices in a cycle of a unit",
                  "GB/s"], lines)


def section(kept_of):
    found = calibration.measured()
    points, used = found["points"], len(calibration.usable(found))
    outside = calibration.errors_of_left_out(found)
    return f"""### Time of products, by a model

    turn    = max(instructions · cycles · subgroup / lanes, multiply–adds / rate of the units for matrices)
    compute = turns of the busiest SIMD · max(turn, (turn + full waits · latency) / subgroups in flight)
    time    = max(compute, bytes / (share · bandwidth))

All that it takes of a shader are the numbers above; workgroups are given to units as wholes. The constants are
fitted, by least squares of logarithms, to {used} of the {len(points)} published times in `docs/portability/measured.json`, each
with its card, settings, date and address: of the peer's `test-backend-ops`, and of language models, whose time is
taken for that of their products. The other {len(points) - used} are left out for the reasons that stand there, such as a driver's
fault or weights that stay in a cache between runs; of them it is off by up to × {max(outside):.1f}. The compilers here are Mesa's
and the peer is of today: NVIDIA's times and some of AMD's were made with other drivers, and many with the peer of
2025.

{constants_table()}
How far predictions are off, of GPUs that were left out of the fit, one after the other:

{errors_table()}
Memory measured idle answers in 226 ns (RX 6900 XT, about the same on an RTX 3090; Chips and Cheese), so that the
fitted latency is one under load. Of products with 2 to 16 rows, attention, norms, RoPE and softmax too few times
are published on these GPUs: the model says nothing of them. Nor does it of GPUs whose vendor has no card below, or
of Intel's, whose compiler does not tell how many subgroups are in flight. Numbers of cards are those that their
vendors publish, written down from memory and not yet looked up one by one; clocks are boost clocks.

{cards_table()}
The peer's time divided by ours, *by default / at best*, for y of {model.OUT} from x of {model.IN} with weights in memory; more
than 1: ours is faster. By default means where nothing was measured on the device. Where memory decides, both take
the same time. Each of the two times is as uncertain as the table of errors says, though part of it is common to
both; none of ours has been measured yet. On matrices the peer multiplies f32 as f16 and its sums are float16; ours
are float32. `tests/drivers/run.py --predict navi31` prints the times themselves, as ranges of nine in ten.

{ratios(kept_of)}"""
