# SPDX-License-Identifier: MIT
"""The peer on the same compilers: ggml's Vulkan backend, whose shaders the drivers print while its own program runs single ops."""
import os
import pty
import re
import subprocess

import debian_folder
import gpus
import loops

PROGRAM = "libexec/x86_64-linux-gnu/ggml/test-backend-ops"
MATRICES = "type_a=({}),type_b=f32,m=4096,n={},k=14336"
# Each run of the program: its arguments, of which the last chooses ops by a regular expression. What has no measurement is tested.
RUNS = [
    ("perf", "MUL_MAT", MATRICES.format("f16|q8_0|q4_0|q4_K|q6_K", "1")),
    ("perf", "MUL_MAT", MATRICES.format("f16|q8_0|q4_0|q4_K|q6_K", "8")),
    ("perf", "MUL_MAT", MATRICES.format("f32|f16|q8_0|q4_K", "512")),
    ("perf", "FLASH_ATTN_EXT", r"hsk=128,hsv=128,nh=8,nr23=.4,1.,kv=4096,nb=4096,.*type_K=f16"),
    ("perf", "FLASH_ATTN_EXT", r"hsk=128,hsv=128,nh=8,nr23=.4,1.,kv=4096,nb=1,.*type_K=f16"),
    ("test", "FLASH_ATTN_EXT", r"hsk=64,hsv=64,nh=4,nr23=.4,1.,kv=512,nb=75,mask=1,sinks=0,max_bias=0.*prec=f32,type_K=f16,type_V=f16,"
                               r"permute=.0,1,2,3."),
    ("perf", "FLASH_ATTN_EXT", r"hsk=64,hsv=64,nh=8,nr23=.8,1.,kv=7680,nb=1,.*type_K=f16"),
    ("test", "RMS_NORM", r"type=f32,ne=.64,5,4,3.,v=0,eps=0.000001"),
    ("perf", "ROPE", r"type=f16,ne_a=.64,8,512,1.,n_dims=64,mode=2,.*ff=0,v=0"),
    ("perf", "SOFT_MAX", r"ne=.4096,4096,5,1."),
]
ESCAPES = re.compile(r"\x1b\[[0-9;]*[a-zA-Z]")


def numbers(text, names):
    """What a driver says of a shader, one `name: number` to a line, under our names; several of one name add up."""
    summary = {}
    for name, ours in names.items():
        found = re.search(rf"^{name}: (\d+)", text, re.M)
        if found:
            summary[ours] = summary.get(ours, 0) + int(found[1])
    return summary


def amd(text):
    for code, rest in re.findall(r"^disasm:\n(.*?)^\*\*\* SHADER STATS \*\*\*\n(.*?)^\*{10}", text, re.M | re.S):
        yield code, None, numbers(rest, {"VGPRs": "registers", "Subgroups per SIMD": "waves", "Spilled VGPRs": "spills",
                                         "Spilled SGPRs": "spills", "Scratch size": "scratch_bytes", "LDS size": "shared_bytes",
                                         "Code size": "code_bytes"})


def nvidia(text):
    for code, rest in re.findall(r"^NAK IR after calc_instr_deps:\n(.*?)^Stage: compute\n(.*?)^Encoded shader", text, re.M | re.S):
        code = code.split("NAK IR after")[-1]
        yield code, 32, numbers(rest, {"Num GPRs": "registers", "Max warps/SM": "waves", "Spills to mem": "spills",
                                       "Fills from mem": "spills", "SLM size": "scratch_bytes"})


def adreno(text):
    text = re.sub(r"^MESA: info: ", "", text, flags=re.M)
    for code, rest in re.findall(r"^Native code for unnamed CL shader.*?\n(.*?)(^; CL prog.*?max_waves)", text, re.M | re.S):
        found = {name: int(value) for value, name in re.findall(r"(\d+) (full|half|max_waves|stp|ldp)\b", rest)}
        code = "\n".join(line for line in code.splitlines() if not line.startswith(";"))
        yield code, None, {"registers": 4 * found["full"], "waves": found["max_waves"],
                           "spills": len(re.findall(r"\b(?:stp|ldp)\b", code))}


def intel(text):
    for width, spills, fills, code in re.findall(
            r"^SIMD(\d+) shader: .*? (\d+):(\d+) spills:fills[^\n]*\n(.*?)(?=^Native code|^NIR|^SIMD|\Z)", text, re.M | re.S):
        code = "\n".join(line for line in code.splitlines()
                         if re.match(r"L\d+:|\([^)]*\)\s+[a-z]|\s+[a-z][\w.]*\s+\(\d+\)|\s*$", line))
        yield code, int(width), {"spills": int(spills) + int(fills)}


READERS = {"AMD": amd, "NAK": nvidia, "IR3": adreno, "GEN": intel}


def shaders(language, text):
    """The shaders in what a driver printed, as executables of a report."""
    for code, width, summary in READERS[language](text):
        hot, around = loops.hot_loops(language, code, width)
        if hot:
            yield {"summary": summary, "loop": hot.as_json(), "around": around and around.as_json()}


def ops(language, text):
    """The shader of each op, which is named behind what was compiled for it: the one with most multiply-adds in its loop, or with most
    loads. A second op that needs nothing new has none."""
    out = {}
    # Before a name may stand how wrong the result is: there is no GPU that computes one.
    parts = re.split(r"^\s*(?:\[\w+\] .* )?((?:MUL_MAT|FLASH_ATTN_EXT|RMS_NORM|ROPE|SOFT_MAX)\([^)]*\)):", text, flags=re.M)
    for part, name in zip(parts[0::2], parts[1::2]):
        found = list(shaders(language, part))
        if found:
            out[name] = max(found, key=lambda e: (e["loop"]["macs"], e["loop"]["load_bytes"]))
    return out


def run_with_terminal(command, environment, cwd):
    """What a program writes to both of its outputs, in order: to a terminal, for which it does not hold lines back."""
    master, slave = pty.openpty()
    with subprocess.Popen(command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave) as process:
        os.close(slave)
        parts = []
        while True:
            try:
                part = os.read(master, 1 << 16)
            except OSError:  # the last one that had the terminal open has ended
                break
            if not part:
                break
            parts.append(part)
        process.wait()
    os.close(master)
    return ESCAPES.sub("", b"".join(parts).decode(errors="replace").replace("\r", ""))


def report(key, folder, runs=tuple(RUNS), variables=None):
    """What the compiler of one GPU makes of the peer's ops: {op: executable}. The variables are added to the environment."""
    gpu = gpus.GPUS[key]
    backends = next(debian_folder.library_folder(folder).glob("ggml/backends*"))
    out = {}
    for mode, op, pattern in runs:
        with gpus.environment_on(key, folder, {**gpu.debug, **(variables or {})}) as (command, environment):
            program = [folder / "usr" / PROGRAM, mode, "-b", "Vulkan0", "-o", op, "-p", pattern]
            text = run_with_terminal([*command, *map(str, program)], environment, backends)
        out |= ops(gpu.language, text)
    return out
