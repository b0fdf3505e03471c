# SPDX-License-Identifier: MIT
"""V3DV's assembly, of the Raspberry Pi's VideoCore VI and VII.

An instruction has an operation of the adder, one of the multiplier and signals. Memory, shared memory too, is reached through the
texture units (TMU): an address that is written there is a load, or a store if data was written before, and after a switch of threads
each `ldtmu` takes 4 bytes of the answers. An address written to `tmua` asks for 4 bytes, one to `tmuau` for as many as its uniform
says; so which loads read shared memory is not told.
"""
import dataclasses
import re

from instruction import PLAIN, Instruction

MULTIPLICATIONS = {"fmul": 1, "vfmul": 2}
ADDITIONS = {"fadd": 1, "fsub": 1, "faddnf": 1}
CONVERSIONS = {"itof", "utof", "ftoin", "ftoiz", "ftouz", "vfpack"}
DELAY_SLOTS = 3         # instructions behind a branch that run before it is taken
SWITCH_DELAY_SLOTS = 2  # and behind a switch of threads
REGISTER = re.compile(r"\b(?:rf\d+|r[0-5])\b")


@dataclasses.dataclass
class Answers:
    """To loads that a switch of threads waits for."""
    asked: list  # (instruction, whether it asks for 4 bytes, whether for private memory)
    words: int = 0

    def share(self):
        """Gives the loads from buffers the bytes that they ask for."""
        wide = [one for one, is_narrow, _ in self.asked if not is_narrow]
        words = self.words - (len(self.asked) - len(wide))
        for one, is_narrow, is_private in self.asked:
            if not is_private:
                one.load_bytes = 4 if is_narrow else 4 * max(words, 1) / len(wide)


class PrivateMemory:
    """Which registers hold addresses of private memory: those made of the number of the thread, which nothing else is made of."""

    def __init__(self):
        self.registers = set()

    def takes(self, operation):
        """Goes on by an operation; whether one of its operands is such an address."""
        code = operation.split()
        operands = [operand.strip(",") for operand in code[1:]]
        is_private = code[0] == "tidx" or any(operand in self.registers for operand in operands[1:])
        if operands and REGISTER.fullmatch(operands[0]):
            (self.registers.add if is_private else self.registers.discard)(operands[0])
        return is_private


class Qpu:
    untold = ("shared_loads",)

    def instructions(self, text):
        lines = [[part.strip() for part in line.split(";")] for line in text.splitlines()]
        out = [self.instruction(i, parts) for i, parts in enumerate(lines)]
        self.take_memory(out, lines)
        return out

    @staticmethod
    def registers(text):
        """How many are named."""
        return len(set(REGISTER.findall(text)))

    @staticmethod
    def instruction(i, parts):
        names = [part.split()[0].split(".")[0] for part in parts if part]
        out = Instruction(labels=(i,), kind=PLAIN, sums=sum(ADDITIONS.get(name, 0) for name in names))
        branch = re.match(r"b\S*  (-?\d+)", parts[0])
        if branch:
            out.target, out.delay_slots = i + 1 + DELAY_SLOTS + int(branch[1]) // 8, DELAY_SLOTS
        out.macs = sum(MULTIPLICATIONS.get(name, 0) for name in names)
        out.conversion = any(name in CONVERSIONS for name in names)
        out.barrier = "barrierid" in names
        return out

    @staticmethod
    def take_memory(out, lines):
        """Finds loads and what they wait for. Those that were asked for before a switch of threads are answered together."""
        private, has_data, asked, answers, switch = PrivateMemory(), False, [], Answers([]), None
        for i, (one, parts) in enumerate(zip(out, lines)):
            if switch is not None and i > switch + SWITCH_DELAY_SLOTS:
                if asked:
                    answers.share()
                    answers, asked = Answers(asked), []
                switch = None
            signals = [signal.split(".") for signal in parts[2:]]
            if ["ldtmu"] in [signal[:1] for signal in signals]:
                if not answers.words:
                    one.awaits = frozenset(asker.token for asker, _, is_private in answers.asked if not is_private) or None
                answers.words += 1
            for operation in parts[:2]:
                is_private = private.takes(operation)
                address = re.match(r"\S+ (tmuau?|tmud)\b", operation)
                if address and address[1] == "tmud":
                    has_data = True
                elif address:
                    one.scratch |= is_private
                    if not has_data:
                        one.token = None if is_private else i
                        asked.append((one, address[1] == "tmua", is_private))
                    has_data = False
            private.registers.difference_update(signal[1] for signal in signals if len(signal) > 1)
            if ["thrsw"] in signals:
                switch = i
        answers.share()
