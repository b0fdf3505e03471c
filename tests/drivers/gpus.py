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


@dataclasses.dataclass(frozen=True)
class Gpu:
    title: str
    driver: str       # of Vulkan, as its manifest is called
    shim: str
    variables: dict   # what chooses the GPU
    assembly: str     # the representation of the final code, as the driver calls it; "" where it shows none
    debug: dict = dataclasses.field(default_factory=dict)  # what lets the driver print a program's shaders, which a peer needs


AMD = ("radeon", "amdgpu"), "Assembly", {"RADV_DEBUG": "shaderstats,asm,nocache"}
ADRENO = ("freedreno", "freedreno"), "IR3 Assembly", {"IR3_SHADER_DEBUG": "cs,disasm"}
NVIDIA = ("nouveau", "nouveau"), "NAK assembly", {"NAK_DEBUG": "print"}
INTEL = ("intel", "intel"), "GEN Assembly", {"INTEL_DEBUG": "cs"}


def gpu(title, family, **variables):
    (driver, shim), assembly, debug = family
    return Gpu(title, driver, shim, variables, assembly, debug)


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
    "m1": Gpu("Apple M1", "asahi", "asahi", {}, ""),
}


def library_of(folder, which):
    """A shim's place: sid's own lie beside the other libraries, what was built in a folder of its own."""
    built = folder / mesa_shims.SHIM_FOLDER / which
    return built if built.exists() else debian_folder.library_folder(folder) / which


def missing(key, folder):
    """What the folder lacks for this GPU, in words; None if nothing."""
    shim = f"lib{GPUS[key].shim}_noop_drm_shim.so"
    return None if library_of(folder, shim).exists() else f"{key}: the folder has no {shim}"


@contextlib.contextmanager
def environment_on(key, folder, variables=None):
    """For as long as it lasts: what a command line begins with and the environment, so that the program finds the GPU `key`."""
    gpu = GPUS[key]
    with tempfile.TemporaryDirectory() as temporary:
        environment = {**os.environ, **debian_folder.driver_environment(folder, gpu.driver, temporary), "HOME": temporary,
                       "MESA_SHADER_CACHE_DISABLE": "true", "XDG_RUNTIME_DIR": temporary, **gpu.variables, **(variables or {})}
        yield debian_folder.command(folder, library_of(folder, f"lib{gpu.shim}_noop_drm_shim.so")), environment


def run_on(key, folder, program):
    """Runs a program that finds the GPU `key`."""
    with environment_on(key, folder) as (command, environment):
        return subprocess.run([*command, *map(str, program)], env=environment, capture_output=True, text=True, errors="replace")
