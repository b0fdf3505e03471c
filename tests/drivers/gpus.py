# SPDX-License-Identifier: MIT
"""The GPUs whose compilers are asked, and how a program is started so that it finds one of them."""
import contextlib
import dataclasses
import os
import pathlib
import subprocess
import tempfile

import debian_folder
import mesa_shims

# Seconds for a pipeline. On a Mali G52 others took 4 at most, and one, in PanVK's register allocation for Bifrost, did not end in 240.
PATIENCE = 600


@dataclasses.dataclass(frozen=True)
class Gpu:
    title: str
    driver: str       # of Vulkan, as its manifest is called
    shim: str
    variables: dict   # what chooses the GPU, and lets the driver tell what it tells by no extension
    assembly: str     # the representation of the final code, as the driver calls it; "" where it shows none
    language: str     # of it, of assembly.ASSEMBLIES
    debug: dict = dataclasses.field(default_factory=dict)  # what lets the driver print a program's shaders, which a peer needs


AMD = {"driver": "radeon", "shim": "amdgpu", "assembly": "Assembly", "language": "AMD",
       "debug": {"RADV_DEBUG": "shaderstats,asm,nocache"}}
ADRENO = {"driver": "freedreno", "shim": "freedreno", "assembly": "IR3 Assembly", "language": "IR3",
          "debug": {"IR3_SHADER_DEBUG": "cs,disasm"}}
NVIDIA = {"driver": "nouveau", "shim": "nouveau", "assembly": "NAK assembly", "language": "NAK", "debug": {"NAK_DEBUG": "print"}}
INTEL = {"driver": "intel", "shim": "intel", "assembly": "GEN Assembly", "language": "GEN", "debug": {"INTEL_DEBUG": "cs"}}
# PanVK of Mesa 25.0 calls itself Vulkan 1.0 or 1.1 and has what 1.2 asks of compute shaders; of Bifrost it wants to be asked for.
MALI = {"driver": "panfrost", "shim": "panfrost", "assembly": "Assembly",
        "variables": {"MESA_VK_VERSION_OVERRIDE": "1.3", "PAN_I_WANT_A_BROKEN_VULKAN_DRIVER": "1", "BIFROST_MESA_DEBUG": "shaderdb"}}
BIFROST, VALHALL = MALI | {"language": "Bifrost"}, MALI | {"language": "Valhall"}
VIDEOCORE = {"driver": "broadcom", "shim": "v3d", "assembly": "QPU (MESA_SHADER_COMPUTE)", "language": "QPU",
             "variables": {"V3D_DEBUG": "shaderdb"}}
APPLE = {"driver": "asahi", "shim": "asahi", "assembly": "", "language": ""}


def gpu(title, family, **variables):
    return Gpu(title=title, **family | {"variables": family.get("variables", {}) | variables})


GPUS = {
    "polaris10": gpu("AMD Polaris10", AMD, AMDGPU_GPU_ID="polaris10"),
    "vega10": gpu("AMD Vega10", AMD, AMDGPU_GPU_ID="vega10"),
    "navi21": gpu("AMD Navi21", AMD, AMDGPU_GPU_ID="navi21"),
    "vangogh": gpu("AMD Vangogh", AMD, AMDGPU_GPU_ID="vangogh"),
    "navi31": gpu("AMD Navi31", AMD, AMDGPU_GPU_ID="navi31"),
    "gfx1201": gpu("AMD GFX1201", AMD, AMDGPU_GPU_ID="gfx1201"),
    "adreno660": gpu("Adreno 660", ADRENO, FD_GPU_ID="660"),
    "adreno740": gpu("Adreno 740", ADRENO, FD_GPU_ID="740"),
    "adreno750": gpu("Adreno 750", ADRENO, FD_GPU_ID="750"),
    "turing": gpu("NVIDIA Turing", NVIDIA, NOUVEAU_CHIPSET="0x164"),
    "ampere": gpu("NVIDIA Ampere", NVIDIA, NOUVEAU_CHIPSET="0x176"),
    "ada": gpu("NVIDIA Ada", NVIDIA, NOUVEAU_CHIPSET="0x194"),
    "skl": gpu("Intel Skylake", INTEL, INTEL_STUB_GPU_PLATFORM="skl"),
    "tgl": gpu("Intel Tiger Lake", INTEL, INTEL_STUB_GPU_PLATFORM="tgl"),
    "adl": gpu("Intel Alder Lake", INTEL, INTEL_STUB_GPU_PLATFORM="adl"),
    "dg2": gpu("Intel DG2", INTEL, INTEL_STUB_GPU_PLATFORM="dg2"),
    "mtl": gpu("Intel Meteor Lake", INTEL, INTEL_STUB_GPU_PLATFORM="mtl"),
    "lnl": gpu("Intel Lunar Lake", INTEL, INTEL_STUB_GPU_PLATFORM="lnl"),
    "bmg": gpu("Intel Battlemage", INTEL, INTEL_STUB_GPU_PLATFORM="bmg"),
    "m1": gpu("Apple M1", APPLE),
    "g52": gpu("Mali G52", BIFROST, PAN_GPU_ID="7212"),
    "g610": gpu("Mali G610", VALHALL, PAN_GPU_ID="a867"),
    "g310": gpu("Mali G310", VALHALL, PAN_GPU_ID="ac74"),
    "v3d42": gpu("Raspberry Pi 4", VIDEOCORE, V3D_SHIM_VERSION="42"),
    "v3d71": gpu("Raspberry Pi 5", VIDEOCORE, V3D_SHIM_VERSION="71"),
}


def library_of(folder, which):
    """A shim's place: sid's own lie beside the other libraries, what was built in a folder of its own."""
    built = folder / mesa_shims.SHIM_FOLDER / which
    return built if built.exists() else debian_folder.library_folder(folder) / which


def libraries_of(gpu):
    """What the loader of programs must find: the shim and the driver."""
    return f"lib{gpu.shim}_noop_drm_shim.so", f"libvulkan_{gpu.driver}.so"


def missing(key, folder):
    """What the folder lacks for this GPU, in words; None if nothing."""
    lacking = [name for name in libraries_of(GPUS[key]) if not library_of(folder, name).exists()]
    return f"{key}: the folder has no {lacking[0]}" if lacking else None


@contextlib.contextmanager
def environment_on(key, folder, variables=None):
    """For as long as it lasts: what a command line begins with and the environment, so that the program finds the GPU `key`."""
    gpu = GPUS[key]
    shim, driver = (library_of(folder, name) for name in libraries_of(gpu))
    with tempfile.TemporaryDirectory() as temporary:
        environment = {**os.environ, **debian_folder.environment_of(driver, temporary), "HOME": temporary,
                       "MESA_SHADER_CACHE_DISABLE": "true", "XDG_RUNTIME_DIR": temporary, **gpu.variables, **(variables or {})}
        yield debian_folder.command(folder, shim), environment


def run_patiently(command, environment, patience):
    """Runs a program that writes to stderr what it begins, and kills it once nothing was written for `patience` seconds, or up to twice
    as many."""
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as progress, \
            subprocess.Popen(command, env=environment, stdout=out, stderr=progress) as process:
        written = -1
        while process.poll() is None:
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                before, written = written, os.fstat(progress.fileno()).st_size
                if written == before:
                    process.kill()
        for file in (out, progress):
            file.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, out.read(), progress.read())


def run_on(key, folder, program, patience=PATIENCE):
    """Runs a program that finds the GPU `key`."""
    with environment_on(key, folder) as (command, environment):
        return run_patiently([*command, *map(str, program)], environment, patience)
