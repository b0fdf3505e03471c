# SPDX-License-Identifier: MIT
"""A simple model of the time that a product takes on a graphics card, from what a compiler makes of its shader.

    turn    = max(instructions · cycles per instruction · subgroup / lanes, multiply-adds / rate of the units for matrices)
    compute = turns of the busiest SIMD · max(turn, (turn + full waits · latency) / subgroups in flight)
    time    = max(compute, bytes / (share · bandwidth))

Of what is no product it says nothing: too few times of such ops are published.
"""
import dataclasses
import math
import re

OUT, IN = 4096, 14336  # y of 4096 from x of 14336, as the peer's program measures it
BYTES = {"f32": 4, "f16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32, "q4_k": 144 / 256, "q6_k": 210 / 256}  # of a weight
SUBGROUP = {"AMD": 64, "NVIDIA": 32, "Intel": 16}
INTEL_THREADS = 8  # of a vector engine, at most; its compiler does not tell how many of them run


@dataclasses.dataclass(frozen=True)
class Constants:
    """The same for all cards."""
    cycles: float     # to issue an instruction
    latency: float    # of memory, in nanoseconds
    bandwidth: float  # the share of the published one that is reached


@dataclasses.dataclass(frozen=True)
class Tile:
    """What a workgroup makes of y where x has many rows."""
    columns: int = 128
    rows: int = 128
    invocations: int = 256


PEER_TILE = Tile()


def tile_of(variant):
    """Of our shaders (docs/shaders.md)."""
    if variant.startswith("matrix"):
        return {"small": Tile(64, 64, 256), "large": Tile(256, 128, 512)}.get(variant.rsplit("_", 1)[-1], Tile())
    return Tile(128, 64, 128) if variant.endswith("_large") else Tile(64, 64, 128)


def product_of(title):
    """The rows of x and the type of the weights of a row of the tables; nothing of what is no product."""
    found = re.fullmatch(r"(?:GEMM|(\d+) rows?), (\w+)", title)
    return (int(found[1] or 512), found[2]) if found else None


def in_flight(card, one):
    """Subgroups that share a SIMD; NVIDIA's are told for a whole unit."""
    if one["waves"] is None:
        return INTEL_THREADS
    return one["waves"] / card.simds if card.vendor == "NVIDIA" else one["waves"]


def compute_seconds(card, one, rows, tile, matrix_macs, constants):
    subgroup = SUBGROUP[card.vendor]
    turn = one["instructions"] * constants.cycles * subgroup / card.lanes
    if matrix_macs:
        turn = max(turn, one["macs"] * subgroup * card.simds / matrix_macs)
    turns = OUT * IN * rows / (one["macs"] * subgroup * card.units * card.simds)
    flight = in_flight(card, one)
    if tile:
        workgroups = math.ceil(OUT / tile.columns) * math.ceil(rows / tile.rows)
        most = math.ceil(workgroups / card.units)
        turns *= most * card.units / workgroups
        flight = min(flight, max(1, most * tile.invocations / subgroup / card.simds))
    waiting = (one["full_waits"] or 0) * constants.latency * card.megahertz / 1000
    return turns * max(turn, (turn + waiting) / flight) / (card.megahertz * 1e6)


def memory_seconds(card, rows, dtype, constants):
    return (OUT * IN * BYTES[dtype] + 4 * rows * (OUT + IN)) / (constants.bandwidth * card.gigabytes * 1e9)


def seconds(card, one, title, tile, matrix_macs, constants):
    """Of an executable `one`, as kept.named() has it. tile: where x has many rows. matrix_macs: the rate of the units that it uses."""
    rows, dtype = product_of(title)
    return max(compute_seconds(card, one, rows, tile if rows > 8 else None, matrix_macs, constants),
               memory_seconds(card, rows, dtype, constants))


def of_peer(card, one, title, has_matrices, constants):
    """The peer multiplies matrices of many rows, with float16 sums."""
    return seconds(card, one, title, PEER_TILE, card.matrix_macs if has_matrices and product_of(title)[0] > 8 else 0, constants)


def of_ours(card, one, title, variant, constants):
    """Our sums are float32, for which NVIDIA's cards of this kind have half the rate."""
    rate = card.matrix_macs / (2 if card.vendor == "NVIDIA" else 1)
    return seconds(card, one, title, tile_of(variant), rate if variant.startswith("matrix") else 0, constants)
