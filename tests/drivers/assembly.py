# SPDX-License-Identifier: MIT
"""What the instructions of each compiler's assembly are, as far as the numbers of a loop need it.

One class per assembly, which reads a line at a time: ASSEMBLIES has them by the language that a GPU of gpus.py names. Mali's and
VideoCore's, where an instruction is more or less than a line, have files of their own.
"""
import re

import mali
import videocore
from instruction import ALL, DOT, MATRIX, PLAIN, Instruction, first_number


class Amd:
    """RADV (ACO), GFX8 to GFX12. Loads arrive in order; a wait names how many of them may still be on their way."""
    skips = (";", "}", "#")
    products = [  # name, multiply-adds, kind; the first that matches
        (r"v_(?:s)?wmma\w*_(\d+)x(\d+)x(\d+)", None, MATRIX),
        (r"v_pk_fma_f16|v_pk_fmac_f16", 2, PLAIN),
        (r"v_dot2\w*", 2, DOT),
        (r"v_dot4\w*", 4, DOT),
        (r"v_dot8\w*", 8, DOT),
        (r"v_(?:dual_)?(?:fma|fmac|mac|mad|fmaak|fmamk|madak|madmk)(?:_mix|_legacy)?_f(?:32|16)", 1, PLAIN),
    ]
    widths = [(r"(?:b128|dwordx4)", 16), (r"(?:b96|dwordx3)", 12), (r"(?:b64|dwordx2)", 8), (r"(?:b32|dword)\b", 4),
              (r"(?:16|short)", 2), (r"(?:8|byte)", 1)]

    def label(self, line):
        return re.match(r"(BB\d+):", line)

    def instruction(self, line):
        code = line.split(";")[0].strip()
        name = code.split(" ")[0]
        branch = re.search(r"\bs_c?branch\w* (BB\d+)", code)
        out = Instruction(target=branch[1] if branch else None, falls_through=not re.match(r"s_branch|s_endpgm", code))
        out.issued = not re.match(r"s_waitcnt|s_wait_|s_delay_alu|s_clause|s_set_inst_prefetch", code)
        # One with half-precision operands and a factor of 1 or nothing to add is what a conversion is made of.
        mixed = name.startswith("v_fma_mix")
        out.conversion = name.startswith("v_cvt") or mixed and (
            not name.startswith("v_fma_mix_f32") or re.search(r"\b1\.0\b|neg\(0\)|, 0(?: |$)", code) is not None)
        for part in code.split("::"):  # two at once
            if not out.conversion:
                macs, out.kind = self.macs(part) or (0, out.kind)
                out.macs += macs
        if out.kind == MATRIX:
            out.cycles = 32
        if re.match(r"(?:t?buffer|global|flat)_load", name):
            out.load_bytes = next(width for pattern, width in self.widths if re.search(pattern, name))
            out.token = "load"
        out.shared_load = re.match(r"ds_(?:load|read)", name) is not None
        out.barrier = re.match(r"s_barrier(?:_wait)?$", name) is not None
        out.scratch = name.startswith("scratch_")
        left = first_number(r"\bvmcnt\((\d+)\)", code)
        if name == "s_wait_loadcnt":
            left = first_number(r"(0x[0-9a-f]+|\d+)$", code)
        elif name.startswith("s_wait_loadcnt_"):
            left = first_number(r"(0x[0-9a-f]+|\d+)$", code) >> 8
        out.awaits = left
        return out

    def macs(self, code):
        """Multiply-adds and their kind; None if there are none."""
        for pattern, macs, kind in self.products:
            found = re.search(r"\b(?:" + pattern + ")", code)
            if not found:
                continue
            if macs:
                return macs, kind
            # A matrix of 16 x 16 sums of 32 bits is 8 registers of 32 invocations or 4 of 64, of 16 bits half of that in GFX12.
            first, last = map(int, re.search(r"v\[(\d+):(\d+)\]", code).groups())
            invocations = int(found[1]) * int(found[2]) // (last - first + 1)
            return int(found[1]) * int(found[2]) * int(found[3]) / min(invocations, 64), MATRIX
        return None


class Adreno:
    """Turnip (IR3). (sy) waits for all that was asked of memory."""
    skips = (";", "}", "#")

    def label(self, line):
        return re.match(r"(l\d+):", line)

    def instruction(self, code):
        branch = re.search(r"\b(?:br\w*|jump|bra\w*|getone|getlast\S*)\b.*#(l\d+)", code)
        repeat = first_number(r"\(rpt(\d+)\)", code, 0)
        name = re.sub(r"\([^)]*\)", "", code).split()[0]
        out = Instruction(target=branch[1] if branch else None, falls_through=name not in ("jump", "end"))
        out.cycles = 1 + repeat + first_number(r"\(nop(\d+)\)", code, 0)
        macs, out.kind = ((1, PLAIN) if re.match(r"mad\.f(?:32|16)", name) else (4, DOT) if name.startswith("dp4acc") else
                          (2, DOT) if name.startswith("dp2acc") else (0, 0))
        out.macs = (1 + repeat) * macs
        out.conversion = name.startswith("cov.")
        out.shared_load = name.startswith("ldl.") or name.startswith("ldlw")
        out.barrier = name == "bar" or name.startswith("bar.")
        out.scratch = re.match(r"(?:ldp|stp)\b", name) is not None
        out.load_bytes = self.load_bytes(name, code)
        out.token = "load" if out.load_bytes else None
        out.awaits = ALL if "(sy)" in code else None
        return out

    @staticmethod
    def load_bytes(name, code):
        if name.startswith("isam"):
            wide = re.search(r"\([usf](32|16|8)\)\(([xyzw]+)\)", code)
            return int(wide[1]) // 8 * len(wide[2]) if wide else 4
        if name.startswith("ldib"):
            wide = re.search(r"\.[usf](32|16|8)\.(\d)", name)
            return int(wide[1]) // 8 * int(wide[2]) if wide else 4
        if re.match(r"ldg\b", name):
            wide = re.search(r"\.[usf](32|16|8)", name)
            return (int(wide[1]) // 8 if wide else 4) * first_number(r", (\d+)$", code, 1)
        return 0


class Nvidia:
    """NVK (NAK). A load names a scoreboard, and who needs the result a set of them."""
    skips = ("}",)

    def label(self, line):
        return re.match(r"block(?:\.u)? \d+ (L\d+) ", line)

    def instruction(self, line):
        code, _, schedule = line.partition("//")
        code = code.strip()
        name = re.match(r"(?:@\S+ )?(?:.* = )?([a-z]\S*)?", code)[1] or ""
        branch = re.search(r"\bbra\b.* (L\d+)", code)
        out = Instruction(target=branch[1] if branch else None, falls_through=not re.match(r"bra (?:pT )?L|exit$", code))
        out.cycles = first_number(r"delay=(\d+)", schedule, 1)
        matrices = re.match(r"[hi]mma\.m(\d+)n(\d+)k(\d+)", name)
        if matrices:
            out.macs, out.kind = int(matrices[1]) * int(matrices[2]) * int(matrices[3]) / 32, MATRIX
            out.cycles = max(out.cycles, 16)
        elif re.match(r"(?:ffma|dfma)\b", name):
            out.macs, out.kind = 1, PLAIN
        elif name.startswith("hfma2"):
            out.macs, out.kind = 2, PLAIN
        elif name.startswith("idp4"):
            out.macs, out.kind = 4, DOT
        out.conversion = re.match(r"f2f|i2f|f2i|f2fp|i2i|i2fp", name) is not None
        if name.startswith("ld.global"):
            wide = re.search(r"\.[bus](128|64|32|16|8)\b", name)
            out.load_bytes = int(wide[1]) // 8 if wide else 4
            out.token = first_number(r"wr:(\d)", schedule)
        out.shared_load = name.startswith(("ld.shared", "ldsm"))
        out.barrier = name.startswith("bar.")
        out.scratch = ".local" in name
        waits = re.search(r"wt=([01]+)", schedule)
        if waits:
            out.awaits = frozenset(i for i, bit in enumerate(reversed(waits[1])) if bit == "1")
        return out


class Intel:
    """ANV (brw). From GFX12 on a message has a token, and who needs its result names it; before, the hardware looks at registers, so
    that nothing is told of waits. A message for the whole subgroup is no invocation's load."""
    skips = ("}",)
    products = re.compile(r"dpas\.(\d+)x(\d+)")
    number_format = re.compile(r":(df|hf|bf|f)\b")

    def label(self, line):
        return re.match(r"(L\d+):", line)

    def instruction(self, line):
        code, _, meaning = line.partition("//")
        found = re.match(r"(?:\(([^)]*)\)\s*)?([a-z]\S*)\s*(?:\((\d+)\))?", code)
        predicate, name, width = found[1] or "", found[2], int(found[3] or 1)
        out = Instruction(falls_through=True, width=width)
        if name == "while":
            out.target = re.search(r"\b(L\d+)", code)[1]
        out.issued = not re.match(r"sync|nop", name)
        matrices = self.products.match(name)
        if matrices:  # rows x 4-byte steps of the depth; halves are two to a step, bytes four
            per_step = 4 if re.search(r":u?b\b", code) else 2
            out.macs, out.kind = int(matrices[2]) * int(matrices[1]) * per_step, MATRIX
            out.cycles = int(matrices[2])
        elif name in ("mad", "mac") and self.number_format.search(code):
            out.macs, out.kind = 1, PLAIN
        elif name == "dp4a":
            out.macs, out.kind = 4, DOT
        out.conversion = name == "mov" and self.converts(code)
        self.message(out, name, meaning, predicate, code)
        if name == "sync.allwr":
            out.awaits = ALL
        else:
            out.awaits = frozenset(re.findall(r"\$(\d+)\.dst", code)) or None
        return out

    def converts(self, code):
        operands = re.findall(r"(?:\br\d+|null|-?\d+|0x)\S*", code.split("{")[0].split(")", 1)[1])[:2]
        formats = [self.number_format.search(operand) for operand in operands]
        return len(formats) == 2 and (formats[0] and formats[0][1]) != (formats[1] and formats[1][1])

    @staticmethod
    def message(out, name, meaning, predicate, code):
        if not name.startswith("send"):
            return
        out.scratch = ".ss[" in meaning or "scratch" in meaning
        lsc = re.search(r"load\.(ugm|slm)\.d(\d+)(?:u32)?(?:x(\d+)(t?))?", meaning)       # DG2 and later
        hdc = re.search(r"(?:untyped|byte_scattered)_read:(\w+).*?(?:bti\((\d+)\)|flat)", meaning)  # before
        token = re.search(r"\$(\d+)[},]", code)
        if lsc and not lsc[4]:
            out.shared_load = lsc[1] == "slm"
            out.load_bytes = int(lsc[2]) // 8 * int(lsc[3] or 1)
        elif hdc:
            out.shared_load = hdc[2] == "254"
            out.load_bytes = int(hdc[1][1:]) // 8 if hdc[1][0] == "d" else 4 * len(hdc[1])
        if out.shared_load or out.scratch:
            out.load_bytes = 0
        elif out.load_bytes and token:
            out.token = token[1]
        out.barrier = "barrier_msg" in meaning


ASSEMBLIES = {"AMD": Amd(), "IR3": Adreno(), "NAK": Nvidia(), "GEN": Intel(), "Bifrost": mali.Bifrost(), "Valhall": mali.Valhall(),
              "QPU": videocore.Qpu()}


def parse(assembly, text):
    """The instructions in order."""
    if hasattr(assembly, "instructions"):
        return assembly.instructions(text)
    out, labels = [], ()
    for line in text.splitlines():
        line = line.strip()
        label = assembly.label(line)
        if label:
            labels += (label[1],)
        elif line and not line.startswith(assembly.skips):
            instruction = assembly.instruction(line)
            instruction.labels, labels = labels, ()
            out.append(instruction)
    return out
