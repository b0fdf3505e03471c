# SPDX-License-Identifier: MIT
"""What PanVK and V3DV print of each shader that they compile. VK_KHR_pipeline_executable_properties tells less: of PanVK's the size
of the code, and of V3DV's the scratch memory, under the name of spills too."""
import re

# Invocations of a shader core while each has 32 registers or fewer, as Mesa's pan_kmod and its shim of a G610 have them; half of them
# with more. And those of a subgroup.
MALI = {"Bifrost": (768, 8), "Valhall": (2048, 16)}
VIDEOCORE_SUBGROUP = 16


def lines_of(progress):
    """What was printed last of each pipeline that a run of vkformer named, in order; "" where nothing was."""
    parts = re.split(r"^vkformer: pipeline \d+: .*$", progress, flags=re.M)[1:]
    return [next(reversed(re.findall(r"^SHADER-DB.*$", part, re.M)), "") for part in parts]


def number(pattern, line):
    return int(re.search(pattern, line)[1])


def spills(line):
    return sum(map(int, re.search(r"(\d+):(\d+) spills:fills", line).groups()))


def mali(language, line):
    invocations, subgroup = MALI[language]
    return {"instructions": number(r"(\d+) inst", line), "waves": invocations // subgroup * number(r"(\d+) threads", line) // 2,
            "spills": spills(line)}


def videocore(line, executable):
    """The scratch memory is set aside for a subgroup."""
    scratch = next((one["value"] for one in executable["statistics"] if one["name"] == "Spill Size"), 0)
    return {"instructions": number(r"(\d+) inst", line), "waves": number(r"(\d+) threads", line), "spills": spills(line),
            "scratch_bytes": scratch // VIDEOCORE_SUBGROUP}


def complete(executable, language, line):
    """Adds to an executable of vkformer's report what the line says."""
    if line and language in MALI:
        executable["summary"] |= mali(language, line)
    elif line and language == "QPU":
        executable["summary"] |= videocore(line, executable)
