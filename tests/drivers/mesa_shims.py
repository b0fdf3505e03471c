# SPDX-License-Identifier: MIT
"""The shims and drivers that Debian does not package: Intel's shim, and PanVK (Mali) and V3DV (Raspberry Pi) with theirs.

They are built from Debian 13's own Mesa source in a folder that is removed afterwards (2.8 GB meanwhile), and laid into opt/shims of
the sid folder: 365 KB for Intel, whose shim serves the ANV that sid packages, 25 MB for the others, whose drivers come with them.
"""
import pathlib
import shutil
import subprocess

import debian_folder

SHIM_FOLDER = "opt/shims"
SUITE = "trixie"
BUILD_PACKAGES = ("dpkg-dev meson ninja-build gcc g++ pkg-config python3-mako python3-yaml python3-packaging bison flex libdrm-dev "
                  "zlib1g-dev libzstd-dev libexpat1-dev").split()
# For mesa_clc, which compiles shaders of PanVK's own while it is built; the drivers themselves need none of them.
CLC_PACKAGES = ("glslang-tools llvm-19-dev clang-19 libclang-19-dev libclang-cpp19-dev libclc-19 libclc-19-dev libllvmspirvlib-19-dev "
                "spirv-tools").split()
INTEL_TARGETS = ["src/intel/tools/libintel_noop_drm_shim.so"]
OTHER_TARGETS = ["src/panfrost/drm-shim/libpanfrost_noop_drm_shim.so", "src/panfrost/vulkan/libvulkan_panfrost.so",
                 "src/broadcom/drm-shim/libv3d_noop_drm_shim.so", "src/broadcom/vulkan/libvulkan_broadcom.so"]
# "intel" among the tools: without it meson does not enter the folder of Intel's shim. Of the tools none but the shim is built.
OPTIONS = ("-Dbuildtype=plain -Dc_args=-O1 -Dcpp_args=-O1 -Db_ndebug=true -Dgallium-drivers= -Dplatforms= -Dtools=drm-shim,intel "
           "-Dglx=disabled -Degl=disabled -Dgbm=disabled -Dopengl=false -Dgles1=disabled -Dgles2=disabled -Dvideo-codecs= "
           "-Dintel-rt=disabled -Dvulkan-layers= -Dvalgrind=disabled -Dlibunwind=disabled -Dlmsensors=disabled "
           "-Dbuild-tests=false").split()

V3D_SHIM = "src/broadcom/drm-shim/v3d_noop.c"
# V3DV wants two parameters that the shim does not know, and no counters that it cannot serve. The identity of the Raspberry Pi 5's
# core (7.1) is told if the environment asks for it; the shim's own is the Raspberry Pi 4's.
V3D_CHANGES = [
    ('#include "', '#include <stdlib.h>\n#include <string.h>\n#include "'),
    ("        case DRM_V3D_PARAM_SUPPORTS_PERFMON:\n                gp->value = 1;\n                return 0;\n",
     "        case DRM_V3D_PARAM_SUPPORTS_PERFMON:\n                gp->value = 0;\n                return 0;\n"
     "        case DRM_V3D_PARAM_SUPPORTS_MULTISYNC_EXT:\n        case DRM_V3D_PARAM_SUPPORTS_CPU_QUEUE:\n"
     "                gp->value = 1;\n                return 0;\n"),
    ("        if (gp->param < ARRAY_SIZE(v3d42_reg_map)",
     "        const char *version = getenv(\"V3D_SHIM_VERSION\");\n"
     "        if (version && !strcmp(version, \"71\")) {\n"
     "                if (gp->param == DRM_V3D_PARAM_V3D_CORE0_IDENT0) { gp->value = 0x07443356; return 0; }\n"
     "                if (gp->param == DRM_V3D_PARAM_V3D_CORE0_IDENT1) { gp->value = 0x81001431; return 0; }\n"
     "        }\n"
     "        if (gp->param < ARRAY_SIZE(v3d42_reg_map)"),
]


def change_v3d_shim(source):
    """The source of V3D's shim with what V3DV needs."""
    for before, after in V3D_CHANGES:
        if before not in source:
            raise ValueError(f"{V3D_SHIM} of this Mesa is another than the one that is changed here: it lacks {before!r}")
        source = source.replace(before, after, 1)
    return source


def make(folder, mirror=None, others=False):
    """Builds Intel's shim into a sid folder (3 minutes), as root; with `others` also Mali's and Raspberry Pi's (15)."""
    mirror = mirror or debian_folder.mirror_or_exit()
    build = pathlib.Path(f"{folder}.build").absolute()
    inside = lambda *arguments: subprocess.run(["chroot", build, *arguments], check=True)
    if not (build / "etc/debian_version").exists():
        subprocess.run(["debootstrap", "--variant=minbase", SUITE, build, mirror], check=True)
    (build / "etc/apt/sources.list").write_text(f"deb {mirror} {SUITE} main\ndeb-src {mirror} {SUITE} main\n")
    inside("apt-get", "update")
    inside("apt-get", "install", "-y", "--no-install-recommends", *BUILD_PACKAGES, *(CLC_PACKAGES if others else []))
    # --no-check: apt has compared the files with the signed index; the uploader's key need not be here.
    inside("sh", "-ec", "cd /root; apt-get source --download-only mesa; dpkg-source --no-check -x mesa_*.dsc mesa")
    v3d = build / "root/mesa" / V3D_SHIM
    v3d.write_text(change_v3d_shim(v3d.read_text()))
    drivers = "panfrost,broadcom" if others else ""
    targets = INTEL_TARGETS + (OTHER_TARGETS if others else [])
    inside("meson", "setup", "/root/b", "/root/mesa", *OPTIONS, f"-Dvulkan-drivers={drivers}",
           f"-Dllvm={'enabled' if others else 'disabled'}")
    inside("ninja", "-C", "/root/b", *targets)
    shims = pathlib.Path(folder) / SHIM_FOLDER
    shims.mkdir(parents=True, exist_ok=True)
    for target in targets:
        shutil.copy(build / "root/b" / target, shims)
    shutil.rmtree(build)
