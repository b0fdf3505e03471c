# SPDX-License-Identifier: MIT
"""Debian sid in a folder: the newest Mesa, its shims and the newest validation layer beside a stable system.

No root and no chroot to run a program on them: it is started by the folder's own dynamic linker, so that the folder's libraries find
the C library they were built for, with this machine's libraries behind for what the folder lacks.
"""
import json
import pathlib
import re
import subprocess
import sys

# The last is the peer: its libggml0 has the program that runs single ops.
PACKAGES = ["mesa-vulkan-drivers", "mesa-drm-shim", "vulkan-validationlayers", "libvulkan1", "libstdc++6",
            "libggml0-backend-vulkan"]


def library_folder(folder):
    return next((folder / "usr/lib").glob("*-linux-gnu"))


def debian_mirror():
    """Where apt has Debian from on this machine, by its configuration, as in scripts/setup.sh; on a derivative none is found."""
    def targets(fields, *options):
        command = ["apt-get", "indextargets", *options, "--format", " ".join(f"$({field})" for field in fields)]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return [line.split() for line in found.splitlines()]

    found = [target[-1] for target in targets(["CREATED_BY", "ORIGIN", "LABEL", "REPO_URI"])
             if target[:-1] == ["Packages", "Debian", "Debian"]]
    if not found:  # before the first `apt-get update`: by the name of the release
        release = re.search(r"^VERSION_CODENAME=(\S+)", pathlib.Path("/etc/os-release").read_text(), re.M)
        found = [target[-1] for target in
                 targets(["CREATED_BY", "RELEASE", "COMPONENT", "REPO_URI"], "--no-release-info")
                 if release and target[:-1] == ["Packages", release[1], "main"]]
    return found[0] if found else None


def mirror_or_exit():
    return debian_mirror() or sys.exit("apt's configuration names no Debian mirror; name one with --mirror")


def make(folder, mirror=None, packages=tuple(PACKAGES)):
    """Makes the folder, as root, or adds to it what it lacks. The mirror: where apt has Debian from, unless one is named."""
    mirror = mirror or mirror_or_exit()
    if not (folder / "etc/debian_version").exists():
        subprocess.run(["debootstrap", "--variant=minbase", "sid", folder, mirror], check=True)
    subprocess.run(["chroot", folder, "apt-get", "install", "-y", "--no-install-recommends", *packages], check=True)


def manifest_of(folder, manifest, where):
    """A copy of a driver's or a layer's manifest that names its library in the folder; the path of the copy, in the folder `where`."""
    described = json.loads(manifest.read_text())
    part = described["ICD"] if "ICD" in described else described["layer"]
    part["library_path"] = str(library_folder(folder) / pathlib.Path(part["library_path"]).name)
    path = pathlib.Path(where) / manifest.name
    path.write_text(json.dumps(described))
    return path


def chosen_by(manifest):
    return {"VK_DRIVER_FILES": str(manifest), "VK_ICD_FILENAMES": str(manifest), "OPENBLAS_NUM_THREADS": "1"}


def driver_environment(folder, driver, where):
    """What chooses a Vulkan driver of the folder, lvp for one."""
    return chosen_by(manifest_of(folder, next((folder / "usr/share/vulkan/icd.d").glob(f"{driver}_icd*.json")), where))


def environment_of(library, where):
    """What chooses the Vulkan driver that a library is; its manifest is written into the folder `where`."""
    manifest = pathlib.Path(where) / f"{library.stem}.json"
    manifest.write_text(json.dumps({"file_format_version": "1.0.1", "ICD": {"library_path": str(library), "api_version": "1.3.0"}}))
    return chosen_by(manifest)


def command(folder, *preloaded):
    """The beginning of a command line, before the program: what it is started by."""
    libraries = library_folder(folder)
    # This machine's libraries come last. OpenBLAS and BLAS lie in folders of their own.
    here = [f"/usr/lib/{libraries.name}", *map(str, pathlib.Path(f"/usr/lib/{libraries.name}").glob("*blas*"))]
    preload = [argument for library in preloaded for argument in ("--preload", str(library))]
    return [str(next(libraries.glob("ld-linux*.so*"))), *preload, "--library-path", ":".join([str(libraries), *here])]
