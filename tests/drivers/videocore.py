# SPDX-License-Identifier: MIT
"""V3DV's assembly, of the Raspberry Pi's VideoCore VI and VII.

An instruction has an operation of the adder, one of the multiplier and signals. Memory, shared memory too, is reached through the
texture units (TMU): an address that is written there is a load, or a store if data was written before, and after a switch of threads
each `ldtmu` takes 4 bytes of the answers. How wide a load is, and which memory it reads, stands in the uniforms, not in the code.
"""
import re

from instruction import PLAIN, Instruction, first_number

MULTIPLICATIONS = {"fmul": 1, "vfmul": 2}
ADDITIONS = {"fadd": 1, "fsub": 1, "faddnf": 1}
CONVERSIONS = {"itof", "utof", "ftoin", "ftoiz", "ftouz", "vfpack"}
DELAY_SLOTS = 3         # instructions behind a branch that run before it is taken
SWITCH_DELAY_SLOTS = 2  # and behind a switch of threads


class Qpu:
    untold = ("shared_loads", "scratch")

    def instructions(self, text):
        lines = text.splitlines()
        out = [self.instruction(i, line) for i, line in enumerate(lines)]
        self.take_loads(out, lines)
        return out

    @staticmethod
    def registers(text):
        """How many are named, counted up to the last."""
        return max((int(found) for found in re.findall(r"\brf(\d+)\b", text)), default=-1) + 1

    @staticmethod
    def instruction(i, line):
        names = [part.split()[0].split(".")[0] for part in line.split(";") if part.strip()]
        out = Instruction(labels=(i,), sums=sum(ADDITIONS.get(name, 0) for name in names))
        branch = re.match(r"b\S*  (-?\d+)", line)
        if branch:
            out.target, out.delay_slots = i + 1 + DELAY_SLOTS + int(branch[1]) // 8, DELAY_SLOTS
        out.macs, out.kind = sum(MULTIPLICATIONS.get(name, 0) for name in names), PLAIN
        out.conversion = any(name in CONVERSIONS for name in names)
        out.barrier = "barrierid" in names
        return out

    @staticmethod
    def take_loads(out, lines):
        """Gives the addresses the bytes of their answers. Those written before a switch are answered together: the first `ldtmu` after
        it waits for them, and all until the next switch share what they bring."""
        has_data, asked, answered, switch = False, [], [], None
        for i, line in enumerate(lines):
            if switch is not None and i > switch + SWITCH_DELAY_SLOTS:
                answered, asked, switch = asked or answered, [], None
                is_first = True
            if "ldtmu" in line and answered:
                for one in answered:
                    one.load_bytes += 4 / len(answered)
                if is_first:
                    out[i].awaits, is_first = frozenset({answered[0].token}), False
            if re.search(r"\btmuau?\b", line):
                if not has_data:
                    out[i].token = asked[0].token if asked else i
                    asked.append(out[i])
                has_data = False
            has_data |= re.search(r"\btmud\b", line) is not None
            if "thrsw" in line:
                switch = i
