# SPDX-License-Identifier: MIT
"""PanVK's assembly, of Bifrost (Mali G31 to G76) and Valhall (from G57 on).

A message, such as a load, names a slot, and what waits names a set of slots; branches are told by places.
"""
import re

from instruction import DOT, PLAIN, Instruction, first_number

CONVERSION = re.compile(r"(?=\w*F)\w*\d_TO_\w+")  # of integers to wider ones there are more, of which compilers make divisions
# A product to which nothing is added is a multiplication. The zero has a sign, so that it changes no zero.
NO_SUM = re.compile(r", (?:0x0|#0)(?:\.neg\w*)?(?:\.\w+)*$")


def multiply_adds(code):
    """Multiply-adds and their kind."""
    name = code.split(" ")[0]
    if name.startswith("FMA.") and not NO_SUM.search(code):
        return (2 if name.startswith("FMA.v2f16") else 1), PLAIN
    return (4, DOT) if name.startswith("IDP.v4") else (0, 0)


def bytes_of(name):
    """What a LOAD or STORE moves."""
    return first_number(r"\.i(\d+)", name) // 8


def wait(slots):
    """What stands for a wait between two instructions: nothing is issued."""
    return Instruction(issued=False, cycles=0, awaits=frozenset(slots))


def registers(text):
    """How many are named."""
    return len(set(re.findall(r"\br(\d+)\b", text)))


class Bifrost:
    """A tuple, an instruction of the multiplier and one of the adder, is issued at once. Tuples are bound to clauses, of which each
    has at most one message; a clause says before it begins what is waited for after its end. Descriptors are loaded like buffers."""
    registers = staticmethod(registers)

    def instructions(self, text):
        out, label, slot, awaits = [], None, None, ()
        for line in map(str.strip, text.splitlines()):
            clause = re.match(r"(clause_\d+):", line)
            if clause:
                label = clause[1]
            elif line.startswith("ds("):
                slot = first_number(r"ds\((\d)\)", line)
                waits = re.search(r"dwb\(([\d, ]+)\)", line)
                awaits = re.findall(r"\d", waits[1]) if waits else ()
            elif line.startswith("*"):
                out.append(Instruction(labels=(label,) if label else (), issued=False))
                label = None
                self.take(out[-1], line[1:], slot)
            elif line.startswith("+"):
                self.take(out[-1], line[1:], slot)
            elif line == "}" and awaits:
                out.append(wait(map(int, awaits)))
        return out

    @staticmethod
    def take(out, code, slot):
        """Adds one half of a tuple."""
        name = code.split(" ")[0]
        out.issued |= name != "NOP"
        macs, kind = multiply_adds(code)
        out.macs, out.kind = out.macs + macs, kind or out.kind
        out.conversion |= CONVERSION.match(name) is not None
        out.barrier |= name == "BARRIER"
        out.scratch |= re.match(r"(?:LOAD|STORE)\b.*\.tl\b", name) is not None
        branch = re.search(r"\b(clause_\d+)\b(?! >>)", code) if re.match(r"BRANCH|JUMP", name) else None
        out.target = branch[1] if branch else out.target
        if name.startswith("LOAD."):
            out.shared_load = ".wls" in name
            if not re.search(r"\.(?:wls|tl|ubo)\b", name):
                out.load_bytes, out.token = bytes_of(name), slot


class Valhall:
    """An instruction to a line; a branch counts them. LD_BUFFER reads a buffer, LOAD any memory, since there is one address space: what
    it reads from is told by the pointer that its address was made of."""
    registers = staticmethod(registers)
    pointers = {"workgroup_local_pointer": "shared", "thread_local_pointer": "private"}
    waits = {"wait0": "0", "wait1": "1", "wait01": "01", "wait2": "2", "wait02": "02", "wait12": "12", "wait012": "012",
             "wait0126": "0126", "wait": "01267"}

    def instructions(self, text):
        # Between blocks there are empty lines. A line of blanks is an instruction that the disassembler does not know.
        lines = [line.strip() for line in text.splitlines() if line]
        out, spaces = [], {}
        for i, line in enumerate(lines):
            name, _, operands = line.partition(" ")
            one = Instruction(labels=(i,), issued=name not in ("", "NOP") and not name.startswith("NOP."))
            one.macs, one.kind = multiply_adds(line)
            one.conversion = CONVERSION.match(name) is not None
            one.barrier = name.startswith("BARRIER")
            if name.split(".")[0] == "BRANCHZ":
                one.target = i + 1 + first_number(r"offset:(-?\d+)", line, 0)
            operands = operands.split(", ")
            if name.startswith("LD_BUFFER."):
                self.access(one, name, None)
            elif re.match(r"(?:LOAD|STORE)\.", name):
                self.access(one, name, self.space(operands[1], spaces))
            self.write(name, operands, spaces)
            out.append(one)
            flow = next((self.waits[part] for part in name.split(".") if part in self.waits), None)
            if flow:
                out.append(wait(map(int, flow)))
        return out

    @staticmethod
    def access(one, name, space):
        one.scratch = space == "private"
        if not name.startswith("STORE."):
            one.shared_load = space == "shared"
            if not space:
                one.load_bytes, one.token = bytes_of(name), first_number(r"\.slot(\d)", name, 0)

    def space(self, address, spaces):
        """Where an address of 64 bits points to: the pointer itself, or the second of two registers, which the pointer gave."""
        pointer = next((space for name, space in self.pointers.items() if name in address), None)
        low = first_number(r"\br(\d+)", address)
        return pointer or (spaces.get(low + 1) if low is not None else None)

    def write(self, name, operands, spaces):
        """Keeps which registers hold a pointer's half."""
        written = re.match(r"r(\d+)", operands[0])
        if written and not name.startswith("BRANCHZ"):
            source = operands[-1] if name.startswith("MOV.") else ""
            copied = spaces.get(first_number(r"\br(\d+)$", source, -1))
            given = next((space for pointer, space in self.pointers.items() if pointer in source), None)
            spaces[int(written[1])] = given or copied
        elif not name.startswith("STORE"):
            for register in re.findall(r"\br(\d+)", operands[0]):
                spaces.pop(int(register), None)
