#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Windows build under Wine, on the host's lavapipe, which Wine's winevulkan hands through.

    sudo tests/windows/run.py --make sid          once: a folder with Debian sid's Wine and Mesa (debootstrap; 5 minutes)
    sudo tests/windows/run.py --folder sid --build build/windows --vkformer build/dev/vkformer
                                                  the ZIP of CPack in a folder with spaces and umlauts: every command prints
                                                  what the program of this machine prints, on the CPU and on lavapipe
    sudo tests/windows/run.py --folder sid --build build/windows --tests "[core],[formats],[text]"
                                                  those tests of vkformer_tests.exe besides (a build with VKFORMER_TESTS=ON)

Needs root, for a chroot. Exit code 1: something differs, or a test fails.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/drivers"))

import debian_folder  # noqa: E402

PACKAGES = ["wine", "wine64", "mesa-vulkan-drivers", "libvulkan1"]
PLACE = "tmp/vkformer-windows"      # in the folder
UNPACKED = "Grüße aus dem Süden"    # a folder's name as people have them
SECONDS = 3600
DATE = "Donnerstag, den 4. März 2021"
DECODERS = ["llama_gqa_odd", "qwen2", "gemma3", "olmoe"]


class Mounted:
    """The system's own folders in the folder, while it lives."""

    def __init__(self, folder):
        self.places = []
        for name in ("proc", "sys", "dev"):
            place = folder / name
            if not os.path.ismount(place):
                subprocess.run(["mount", "--bind", f"/{name}", place], check=True)
                self.places.append(place)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for place in reversed(self.places):
            subprocess.run(["umount", "--lazy", place], check=False)


class Wine:
    """Programs of the build, run in the folder."""

    def __init__(self, folder, build):
        self.folder = folder
        self.place = folder / PLACE
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        archives = sorted(build.glob("vkformer-*-windows-x86_64.zip"))
        if not archives:
            sys.exit(f"{build} has no ZIP; run cpack there")
        with zipfile.ZipFile(archives[-1]) as archive:
            archive.extractall(self.place / UNPACKED)
        (self.unpacked,) = (self.place / UNPACKED).iterdir()
        for name in ("home", "run"):
            (self.place / name).mkdir(mode=0o700)
        self.environment = {
            "PATH": "/usr/sbin:/usr/bin:/bin", "HOME": f"/{PLACE}/home", "XDG_RUNTIME_DIR": f"/{PLACE}/run",
            "LANG": "C.UTF-8",
            "WINEDEBUG": "-all", "OPENBLAS_NUM_THREADS": "1"}

    def inside(self, path):
        """The name of a file of the folder as a program in it, and so one under Wine, has it."""
        return "/" + str(path.relative_to(self.folder))

    def take(self, path):
        """A copy in the folder of a file or folder of this machine."""
        copy = self.place / path.name
        if path.is_dir():
            shutil.copytree(path, copy, dirs_exist_ok=True)
        else:
            shutil.copy(path, copy)
        return copy

    def run(self, program, *arguments, seconds=SECONDS, text=None):
        return subprocess.run(["chroot", self.folder, "wine", self.inside(program), *arguments], env=self.environment,
                              capture_output=True, encoding="utf-8", errors="replace", timeout=seconds, check=False,
                              input=text)


def commands():
    """Arguments that both systems' programs get; a path is one of the repository's, or a copy of it."""
    yield "a date, CPU", ["translate", "--device", "cpu", DATE]
    yield "a date, lavapipe", ["translate", "--device", "0", DATE]
    yield "a date, lavapipe, plain shaders", ["translate", "--device", "0", "--plain", DATE]
    yield "nothing deviates", ["validate", "--device", "0", "--plain", "--json"]
    for name in DECODERS:
        folder = ROOT / "tests/goldens/decoders" / name
        for device in ("cpu", "0"):
            yield (f"32 tokens of {name}, {'CPU' if device == 'cpu' else 'lavapipe'}",
                   ["generate", "--device", device, "--model", folder, "--prompt-tokens", "3,1,4,1,5", "-n", "32",
                    "--ignore-end"])


def comparable(text, arguments):
    """Of validate the verdicts: which device was asked differs."""
    if arguments[0] != "validate":
        return text
    reports = json.loads(text)["reports"]
    return [(check["tensor"], check["diverges"]) for report in reports for check in report["checks"]]


def compare(wine, vkformer):
    """Pairs of what was done and what is wrong (None: nothing)."""
    program = wine.unpacked / "bin/vkformer.exe"
    # The program of this machine, on the folder's driver too.
    places = wine.place / "here"
    places.mkdir()
    driver = debian_folder.driver_environment(wine.folder, "lvp", places)
    environment = {**os.environ, **driver, "XDG_CACHE_HOME": str(places)}
    start = debian_folder.command(wine.folder)
    for title, arguments in commands():
        here = subprocess.run([*start, vkformer, *arguments], capture_output=True, text=True, check=False,
                              env=environment)
        there = wine.run(program, *(wine.inside(wine.take(a)) if isinstance(a, pathlib.Path) else a for a in arguments))
        if here.returncode or there.returncode:
            yield title, (here.stderr if here.returncode else there.stderr).strip()
        elif comparable(here.stdout, arguments) != comparable(there.stdout, arguments):
            yield title, f"here {here.stdout.strip()[:200]!r}, under Wine {there.stdout.strip()[:200]!r}"
        else:
            yield title, None


def umlauts(wine):
    """Folders and files whose names are not ASCII, as arguments and in what is written."""
    program = wine.unpacked / "bin/vkformer.exe"
    model = wine.unpacked / "share/vkformer/models/date-normalizer"
    there = wine.run(program, "translate", "--device", "cpu", "--model", wine.inside(model), DATE)
    yield ("a model in a folder with umlauts",
           None if there.stdout == "2021-03-04\n" else there.stderr.strip() or there.stdout)
    output = wine.place / UNPACKED / "Änderung.safetensors"
    there = wine.run(program, "convert", wine.inside(model / "model.safetensors"), wine.inside(output), "--dtype", "f16")
    is_there = output.exists() and output.stat().st_size > 1000
    yield "a file with an umlaut is written", None if there.returncode == 0 and is_there else there.stderr.strip()
    left = [path.name for path in output.parent.iterdir() if path.suffix == ".tmp"]
    yield "no temporary file is left", None if not left else str(left)
    lines_of_windows = DATE + "\r\n1. Mai 1999\r\n"
    there = wine.run(program, "translate", "--device", "cpu", text=lines_of_windows)
    yield "lines with Windows' ends", None if there.stdout == "2021-03-04\n1999-05-01\n" else there.stderr + there.stdout
    there = wine.run(program, "translate", "--device", "cpu", "--model", "Nirgendwo/ä", DATE)
    yield "a refusal with an umlaut", None if there.returncode == 2 and "Nirgendwo/ä" in there.stderr else there.stderr


def host(wine, build):
    """A C program that MinGW has built against the DLL."""
    sample = build / "minimal_c.exe"
    if not sample.exists():
        yield "a C program on the DLL", f"there is no {sample}"
        return
    shutil.copy(wine.unpacked / "bin/vkformer.dll", wine.place)
    there = wine.run(wine.take(sample))
    yield "a C program on the DLL", None if "5 6 7 8" in there.stdout else there.stderr.strip() or there.stdout
    broken = wine.place / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"model_type": "llama", bad')
    there = wine.run(wine.take(build / "batch_c.exe"), wine.inside(broken), "cpu")
    yield ("what is thrown in the DLL is an error there",
           None if there.returncode == 1 and "config.json: parse error" in there.stderr else there.stderr or there.stdout)


def tests(wine, build, spec):
    program = build / "tests/vkformer_tests.exe"
    if not program.exists():
        yield f"tests {spec}", f"there is no {program}; configure with -D VKFORMER_TESTS=ON"
        return
    # The tests look for files of the repository where it was built.
    there = wine.folder / str(ROOT).lstrip("/")
    there.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", ROOT, there], check=True)
    try:
        done = wine.run(wine.take(program), spec, "--durations", "no")
    finally:
        subprocess.run(["umount", "--lazy", there], check=False)
    last = [line for line in done.stdout.splitlines() if "test cases" in line or line.startswith("All tests passed")]
    found = re.findall(r"^(?:  \S.*|.*FAILED:.*)$", done.stdout, re.M)
    wrong = None if done.returncode == 0 else "\n".join(found[:40]) or done.stderr[-2000:]
    yield f"tests {spec}: {' '.join(last)}", wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", type=pathlib.Path, metavar="FOLDER", help="make the folder, and do nothing else")
    parser.add_argument("--folder", type=pathlib.Path, help="a folder that --make has made")
    parser.add_argument("--build", type=pathlib.Path, help="the build with the preset windows, its ZIP made by cpack")
    parser.add_argument("--vkformer", type=pathlib.Path, help="this machine's vkformer, to compare with")
    parser.add_argument("--tests", help="tests of vkformer_tests.exe to run, in Catch2's words")
    parser.add_argument("--json", action="store_true", help="one JSON object for each line of the table")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("this needs root, for a chroot")
    if options.make:
        return debian_folder.make(options.make, packages=PACKAGES)
    if not options.folder or not options.build:
        parser.error("--folder and --build are needed")
    failures = 0
    folder = options.folder.resolve()
    with Mounted(folder):
        wine = Wine(folder, options.build)
        parts = [umlauts(wine), host(wine, options.build)]
        if options.vkformer:
            parts.append(compare(wine, options.vkformer))
        if options.tests:
            parts.append(tests(wine, options.build, options.tests))
        for part in parts:
            for title, wrong in part:
                failures += wrong is not None
                if options.json:
                    print(json.dumps({"check": title, "wrong": wrong}, ensure_ascii=False), flush=True)
                else:
                    print(f"{'ok    ' if wrong is None else 'WRONG '} {title}" + (f": {wrong}" if wrong else ""), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
