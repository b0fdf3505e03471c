#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the compilers of GPUs that are not here make of the shaders.

Mesa's drm-shim (Debian: mesa-drm-shim, in sid) lets RADV, Turnip, NVK and Honeykrisp come up for a GPU that an environment
variable names. They compile for it and run nothing, which is all that `vkformer bench pipelines` needs.

    sudo tests/drivers/run.py --make sid          once: a folder with Debian sid's Mesa and the shims (debootstrap, 400 MB)
    tests/drivers/run.py --folder sid --vkformer build/dev/vkformer --out results --write docs/portability.md
    tests/drivers/run.py --folder sid --vkformer build/dev/vkformer --out results --gpu navi31 --gpu adreno750
    tests/drivers/run.py --out after --before before        compares two folders of results, runs nothing

Exit code 1: a shader did not compile, a shader that runs where nothing was measured spills, or one has no case.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import debian_folder

# key: (name in the tables, driver, shim, environment)
GPUS = {
    "polaris10": ("AMD Polaris10", "radeon", "amdgpu", {"AMDGPU_GPU_ID": "polaris10"}),
    "vega10": ("AMD Vega10", "radeon", "amdgpu", {"AMDGPU_GPU_ID": "vega10"}),
    "navi21": ("AMD Navi21", "radeon", "amdgpu", {"AMDGPU_GPU_ID": "navi21"}),
    "vangogh": ("AMD Vangogh", "radeon", "amdgpu", {"AMDGPU_GPU_ID": "vangogh"}),
    "navi31": ("AMD Navi31", "radeon", "amdgpu", {"AMDGPU_GPU_ID": "navi31"}),
    "gfx1201": ("AMD GFX1201", "radeon", "amdgpu", {"AMDGPU_GPU_ID": "gfx1201"}),
    "adreno660": ("Adreno 660", "freedreno", "freedreno", {"FD_GPU_ID": "660"}),
    "adreno740": ("Adreno 740", "freedreno", "freedreno", {"FD_GPU_ID": "740"}),
    "adreno750": ("Adreno 750", "freedreno", "freedreno", {"FD_GPU_ID": "750"}),
    "turing": ("NVIDIA Turing", "nouveau", "nouveau", {"NOUVEAU_CHIPSET": "0x164"}),
    "ampere": ("NVIDIA Ampere", "nouveau", "nouveau", {"NOUVEAU_CHIPSET": "0x176"}),
    "ada": ("NVIDIA Ada", "nouveau", "nouveau", {"NOUVEAU_CHIPSET": "0x194"}),
    "m1": ("Apple M1", "asahi", "asahi", {}),
}

# The rows of the cost tables: title, case, and the shaders, of which the first that a report has is shown: that is what runs where
# nothing was measured.
PRODUCTS = [
    ("GEMM, f32", "linear 512 rows, 4096 → 4096", ("linear_tile_vec4_f32", "linear_tile_f32")),
    ("GEMM, f16", "linear 512 rows, 4096 → 4096", ("linear_tile_vec4_f16", "linear_tile_f16")),
    ("GEMM, f32, epilogue", "linear 512 rows, 4096 → 4096, bias, GELU, residual", ("linear_tile_vec4_f32", "linear_tile_f32")),
    ("GEMM, q8_0", "linear 512 rows, q8_0", ("linear_quantized_tile_f16",)),
    ("GEMM, q4_0", "linear 512 rows, q4_0", ("linear_quantized_tile_f16",)),
    ("1 row, f32", "linear 1 row, 4096 → 4096", ("linear_row_vec4_f32", "linear_row_f32")),
    ("1 row, f16", "linear 1 row, 4096 → 4096", ("linear_row_vec4_f16", "linear_row_f16")),
    ("8 rows, f16", "linear 8 rows, 4096 → 4096", ("linear_row_vec4_f16", "linear_row_f16")),
    ("1 row, q8_0", "linear 1 row, q8_0", ("linear_quantized_row_f16",)),
    ("1 row, q4_0", "linear 1 row, q4_0", ("linear_quantized_row_f16",)),
    ("attention, head size 64, f16", "attention 512 queries, head size 64, causal", ("attention_tile_vec4_f16", "attention_tile_f16")),
    ("attention, head size 128, f16", "attention 512 queries, head size 128, causal", ("attention_tile_vec4_f16", "attention_tile_f16")),
    ("decode attention, 64, f16", "decode attention 4096 keys, head size 64", ("decode_attention_split_vec4_f16", "decode_attention_split_f16")),
    ("decode attention, 128, f16", "decode attention 4096 keys, head size 128", ("decode_attention_split_vec4_f16", "decode_attention_split_f16")),
]


def run_on(gpu, options):
    """The report of `vkformer bench pipelines --all --code` for a GPU that is not here, without the code itself."""
    _, driver, shim, variables = GPUS[gpu]
    with tempfile.TemporaryDirectory() as temporary:
        environment = {**debian_folder.driver_environment(options.folder, driver, temporary),
                       "MESA_SHADER_CACHE_DISABLE": "true", "HOME": temporary, "XDG_RUNTIME_DIR": temporary, **variables}
        command = debian_folder.command(options.folder, f"lib{shim}_noop_drm_shim.so")
        command += [options.vkformer, "bench", "pipelines", "--all", "--json", "--code", "-q", "-d", "0"]
        if options.only:
            command += ["--only", options.only]
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{gpu}: vkformer ended with {done.returncode}: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    for pipeline in report["pipelines"]:
        for executable in pipeline.get("executables", []):
            executable["loop"] = hot_loop(executable.pop("code", []))
    return report


# ---- the loop in which a shader spends its time -------------------------------------------------------------------------
# From the final assembly: of the loops with multiplications and no such loop inside, the one that has most of them.

FMA = {
    "Assembly": r"\bv_(?:dual_)?(?:fma|fmac|mac|mad|fmaak|fmamk)(?:_mix)?_f(?:32|16)|\bv_pk_fma_f16|\bv_dot2\w*|\bv_dot4\w*|\bv_wmma\w*",
    "IR3 Assembly": r"\bmad\.f(?:32|16)|\bdp4acc|\bdp2acc",
    "NAK assembly": r"\b[fh]fma2?\b|\bidp4?\b|\b[hi]mma\b",
}
FLOP_PER_FMA = {"v_pk_fma_f16": 4, "v_dot2": 4, "v_dot4": 8, "dp4acc": 8, "dp2acc": 4, "hfma2": 4, "idp": 8}


def parse(name, text):
    """The instructions in order: (labels, target of a branch or None, FLOP per invocation, cycles to issue, whether the next one
    may follow)."""
    out, labels = [], []
    for line in text.splitlines():
        stripped = line.strip()
        label = (re.match(r"(BB\d+):", stripped) if name == "Assembly" else
                 re.match(r"(l\d+):", stripped) if name == "IR3 Assembly" else
                 re.match(r"block(?:\.u)? \d+ (L\d+) ", stripped))
        if label:
            labels.append(label[1])
            continue
        if not stripped or stripped[0] in ";}#":
            continue
        code = stripped.split(";")[0].split("//")[0]
        branch = (re.search(r"\bs_c?branch\w* (BB\d+)", code) if name == "Assembly" else
                  re.search(r"\b(?:br|jump|bra\w*)\b.*#(l\d+)", code) if name == "IR3 Assembly" else
                  re.search(r"\bbra\b.* (L\d+)", code))
        always = re.match(r"s_branch|jump\b|bra pT L", code) is not None
        flop = sum(next((v for k, v in FLOP_PER_FMA.items() if found.startswith(k)), 2)
                   for found in re.findall(FMA[name], code))
        cycles = 1
        if name == "IR3 Assembly":
            repeat = re.search(r"\(rpt(\d+)\)", code)
            wait = re.search(r"\(nop(\d+)\)", code)
            if repeat:
                cycles += int(repeat[1])
                flop *= 1 + int(repeat[1])
            cycles += int(wait[1]) if wait else 0
        if name == "NAK assembly":
            delay = re.search(r"delay=(\d+)", stripped)
            cycles = int(delay[1]) if delay else 1
        out.append((labels, branch[1] if branch else None, flop, cycles, not always))
        labels = []
    return out


def loops_of(name, instructions):
    """The instructions of each loop. NVK puts other code between them, so there they are those that reach a branch back without
    passing its target; the others enter a loop at its test, which would look like a second entry, but leave nothing between."""
    place = {label: i for i, (labels, *_) in enumerate(instructions) for label in labels}
    back = [(place[target], i) for i, (_, target, *_) in enumerate(instructions) if place.get(target, i + 1) <= i]
    if name != "NAK assembly":
        return [set(range(head, branch + 1)) for head, branch in back]
    sources = [[] for _ in instructions]
    for i, (_, target, _, _, falls_through) in enumerate(instructions):
        if target in place:
            sources[place[target]].append(i)
        if falls_through and i + 1 < len(instructions):
            sources[i + 1].append(i)
    by_head = {}
    for head, branch in back:
        loop, open_ones = by_head.setdefault(head, {head}), [branch]
        while open_ones:
            one = open_ones.pop()
            if one not in loop:
                loop.add(one)
                open_ones += sources[one]
    return list(by_head.values())


def hot_loop(codes):
    """FLOP per invocation, instructions and issue cycles of one turn; None where the driver shows no assembly."""
    final = next((c for c in codes if c["name"] in FMA), None)
    if not final:
        return None
    instructions = parse(final["name"], final["text"])
    flop = lambda loop: sum(instructions[i][2] for i in loop)
    loops = [loop for loop in loops_of(final["name"], instructions) if flop(loop) > 0]
    innermost = [a for a in loops if not any(b < a for b in loops)]
    hot = max(innermost, key=flop, default=range(len(instructions)))  # a shader without loops is all hot
    return {"flop": flop(hot), "instructions": len(hot), "cycles": sum(instructions[i][3] for i in hot)}


# ---- tables -------------------------------------------------------------------------------------------------------------

def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def number(value):
    return "–" if value is None else f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def executables(report, only_default=False):
    """Of what the device may run: a CPU's variants need not suit a GPU."""
    for pipeline in report["pipelines"]:
        if pipeline["default"] if only_default else pipeline["offered"]:
            for executable in pipeline.get("executables", []):
                yield pipeline, executable


def spilling(report, only_default):
    """With scratch memory, too: NVK counts what it keeps there, arrays with indices that it does not know, as no spill."""
    return sorted({p["shader"] for p, e in executables(report, only_default)
                   if e["summary"].get("spills", 0) > 0 or e["summary"].get("scratch_bytes", 0) > 0})


def worst(report, what, pick):
    known = [(e["summary"][what], p["shader"]) for p, e in executables(report, True) if what in e["summary"]]
    return pick(known, key=lambda x: x[0]) if known else None


def overview(reports):
    rows = []
    for gpu, report in reports.items():
        pipelines = report["pipelines"]
        failed = [p["shader"] for p in pipelines if "error" in p]
        registers, waves = worst(report, "registers", max), worst(report, "waves", min)
        shared = worst(report, "shared_bytes", max)
        default_spills, other_spills = spilling(report, True), spilling(report, False)
        other_spills = [s for s in other_spills if s not in default_spills]
        times = [p["compile_ms"] for p in pipelines if "compile_ms" in p and p["offered"]]
        rows.append([GPUS[gpu][0], f"{len({p['shader'] for p in pipelines})} / {len(pipelines)}", len(failed) or "none",
                     f"{number(registers[0])} `{registers[1]}`" if registers else "–",
                     ", ".join(f"`{s}`" for s in default_spills) or "**none**",
                     ", ".join(f"`{s}`" for s in other_spills) or "none",
                     f"{number(waves[0])} `{waves[1]}`" if waves else "–",
                     f"{shared[0] / 1024:.1f} KiB" if shared else "–",
                     f"{sum(times) / len(times):.0f} / {max(times):.0f} ms" if times else "–"])
    return table(["GPU", "shaders / pipelines", "failed", "most registers, default", "spills, default", "spills, others",
                  "fewest subgroups in flight, default", "most shared memory", "compile time of those offered, mean / longest"], rows)


def find(report, case, shaders):
    """The pipeline of a case, by the shader's name; f16 is found as f16_words on devices without 16-bit storage."""
    for shader in shaders:
        for pipeline, executable in executables(report):
            if pipeline["case"] == case and pipeline["shader"] in (shader, shader + "_words"):
                return executable
    return None


def cost(executable):
    """Registers / subgroups in flight; FLOP per instruction of the hot loop; the driver's estimate of cycles."""
    if not executable:
        return "–"
    s, loop = executable["summary"], executable["loop"]
    parts = [f"{number(s.get('registers'))}/{number(s.get('waves'))}"]
    if loop and loop["instructions"]:
        parts.append(f"{loop['flop'] / loop['instructions']:.2f}")
        if loop["cycles"] != loop["instructions"]:
            parts.append(f"{loop['flop'] / loop['cycles']:.2f}/cycle")
    cycles = s.get("throughput_cycles", s.get("cycles"))
    parts.append(number(cycles) if cycles is not None else number(s.get("instructions")) + " instr")
    return " · ".join(parts)


def costs(reports, gpus):
    chosen = {g: reports[g] for g in gpus if g in reports}
    rows = [[title, *(cost(find(r, case, shaders)) for r in chosen.values())] for title, case, shaders in PRODUCTS]
    return table(["", *(GPUS[g][0] for g in chosen)], rows)


def versus(before, after, what):
    if before is None or after is None:
        return "–"
    b, a = what(before), what(after)
    return "–" if b is None or a is None else f"{b:.2f} → {a:.2f}" if max(a, b) < 10 else f"{b:.0f} → {a:.0f}"


def comparison(before, after):
    per_instruction = lambda e: e["loop"] and e["loop"]["instructions"] and e["loop"]["flop"] / e["loop"]["instructions"]
    per_cycle = lambda e: e["loop"] and e["loop"]["cycles"] and e["loop"]["flop"] / e["loop"]["cycles"]
    cycles = lambda e: e["summary"].get("throughput_cycles", e["summary"].get("cycles"))
    rows = []
    for title, case, shaders in PRODUCTS:
        for gpu in after:
            if gpu not in before:
                continue
            b, a = find(before[gpu], case, shaders), find(after[gpu], case, shaders)
            if b and a and (b["summary"], b["loop"]) != (a["summary"], a["loop"]):
                rows.append([title, GPUS[gpu][0], versus(b, a, lambda e: e["summary"].get("registers")),
                             versus(b, a, lambda e: e["summary"].get("spills")),
                             versus(b, a, lambda e: e["summary"].get("waves")), versus(b, a, per_instruction),
                             versus(b, a, per_cycle), versus(b, a, cycles)])
    return table(["", "GPU", "registers", "spills", "subgroups in flight", "FLOP per instruction", "FLOP per issue cycle",
                  "estimated cycles"], rows)


def document(reports, before):
    drivers = sorted({r["driver"] for r in reports.values()})
    families = {"AMD (RADV)": [g for g in GPUS if GPUS[g][1] == "radeon"],
                "Qualcomm (Turnip)": [g for g in GPUS if GPUS[g][1] == "freedreno"],
                "NVIDIA (NVK) and Apple (Honeykrisp)": [g for g in GPUS if GPUS[g][1] in ("nouveau", "asahi")]}
    out = f"Drivers: {', '.join(drivers)}.\n\n{overview(reports)}"
    for title, gpus in families.items():
        if any(g in reports for g in gpus):
            out += f"\n### {title}\n\n{costs(reports, gpus)}"
    if before:
        out += f"\n### Before and after\n\n{comparison(before, reports)}"
    return out


def write_between(path, begin, end, text):
    whole = path.read_text()
    before, rest = whole.split(begin, 1)
    after = rest.split(end, 1)[1]
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")


def load(folder):
    found = {g: folder / f"{g}.json" for g in GPUS}
    return {g: json.loads(p.read_text()) for g, p in found.items() if p.exists()}


def complaints(reports):
    out = []
    for gpu, report in reports.items():
        out += [f"{gpu}: {p['shader']} ({p['case']}): {p['error']['message']}" for p in report["pipelines"] if "error" in p]
        out += [f"{gpu}: {shader} spills" for shader in spilling(report, True)]
        out += [f"{gpu}: {shader} has no case in pipeline_cases()" for shader in report.get("without_case", [])]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", type=pathlib.Path, metavar="FOLDER", help="make the folder with Mesa and the shims, as root")
    parser.add_argument("--mirror", help="where --make gets Debian from; absent: where apt has it from")
    parser.add_argument("--folder", type=pathlib.Path, help="a Debian sid with mesa-vulkan-drivers and mesa-drm-shim")
    parser.add_argument("--vkformer", type=pathlib.Path, default="build/dev/vkformer", help="the program")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the results, one JSON file per GPU")
    parser.add_argument("--gpu", action="append", choices=GPUS, help="only this one; may be given several times")
    parser.add_argument("--only", default="", help="only shaders with this in their names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="GPUs at a time")
    parser.add_argument("--before", type=pathlib.Path, help="show what changed since the results in this folder")
    parser.add_argument("--write", type=pathlib.Path, help="put the tables into this document")
    options = parser.parse_args()

    if options.make:
        return debian_folder.make(options.make, options.mirror)
    if not options.out:
        parser.error("--out is required")
    if options.folder:
        options.folder = options.folder.resolve()
        options.out.mkdir(parents=True, exist_ok=True)
        gpus = options.gpu or list(GPUS)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for gpu, report in zip(gpus, pool.map(lambda g: run_on(g, options), gpus)):
                (options.out / f"{gpu}.json").write_text(json.dumps(report, indent=1))
                print(f"{gpu}: {len(report['pipelines'])} pipelines", file=sys.stderr)
    reports = load(options.out)
    before = load(options.before) if options.before else {}
    if before and not options.write:
        print(comparison(before, reports))
    text = document(reports, before)
    if options.write:
        write_between(options.write, "<!-- tests/drivers/run.py writes this -->", "<!-- until here -->", text)
    elif not options.before:
        print(text)
    found = complaints(reports)
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
