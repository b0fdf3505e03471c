# SPDX-License-Identifier: MIT
"""What the model of time knows of graphics cards: numbers that their vendors publish, written
down from memory and not yet looked up one by one."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Card:
    vendor: str
    gpu: str            # whose compiler speaks for it, of gpus.GPUS
    units: int          # what a workgroup runs on: compute units, work-group processors, streaming multiprocessors, Xe cores
    simds: int          # of a unit
    lanes: int          # invocations of a SIMD that an instruction is issued for in a cycle
    megahertz: float
    matrix_macs: int    # multiply-adds of float16 matrices with float16 sums in a cycle of a unit, 0 if it has no such units
    gigabytes: float    # of memory in a second
    cache_mib: float    # the last level of its caches


# The clock is the boost clock, at which such work runs. One published series held its card at 900 MHz.
CARDS = {
    "RX 470": Card("AMD", "polaris10", 32, 4, 16, 1206, 0, 211, 2),
    "RX 470 at 900 MHz": Card("AMD", "polaris10", 32, 4, 16, 900, 0, 211, 2),
    "RX 580": Card("AMD", "polaris10", 36, 4, 16, 1340, 0, 256, 2),
    "Radeon Pro VII": Card("AMD", "vega10", 60, 4, 16, 1700, 0, 1024, 4),
    "RX Vega 64": Card("AMD", "vega10", 64, 4, 16, 1546, 0, 484, 4),
    "RX 6800 XT": Card("AMD", "navi21", 36, 4, 32, 2250, 0, 512, 128),
    "Steam Deck": Card("AMD", "vangogh", 4, 4, 32, 1600, 0, 88, 1),
    "RX 7900 XTX": Card("AMD", "navi31", 48, 4, 32, 2500, 512, 960, 96),
    "Radeon Pro W7800": Card("AMD", "navi31", 35, 4, 32, 2499, 512, 576, 64),
    "RX 9070 XT": Card("AMD", "gfx1201", 32, 4, 32, 2970, 1024, 640, 64),
    "RTX 2080": Card("NVIDIA", "turing", 46, 4, 32, 1710, 512, 448, 4),
    "RTX 3090": Card("NVIDIA", "ampere", 82, 4, 32, 1695, 512, 936, 6),
    "RTX 4060 Ti": Card("NVIDIA", "ada", 34, 4, 32, 2535, 512, 288, 32),
    "RTX 4070": Card("NVIDIA", "ada", 46, 4, 32, 2475, 512, 504, 36),
    "Arc A770": Card("Intel", "dg2", 32, 16, 8, 2400, 1024, 560, 16),
    "Arc B570": Card("Intel", "bmg", 18, 8, 16, 2500, 1024, 380, 13.5),
    "Arc Pro B50": Card("Intel", "bmg", 16, 8, 16, 2600, 1024, 224, 13.5),
}

# The card that stands for a GPU where something is predicted.
OF_GPU = {"polaris10": "RX 580", "vega10": "RX Vega 64", "navi21": "RX 6800 XT", "vangogh": "Steam Deck", "navi31": "RX 7900 XTX",
          "gfx1201": "RX 9070 XT", "turing": "RTX 2080", "ampere": "RTX 3090", "ada": "RTX 4070"}
