#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Races on shared memory: the tests of the ops under the validation layer that watches it.

A barrier too few is right on every driver that runs the invocations of a workgroup in turns, as CPUs do, and wrong on GPUs. Vulkan's
validation layer (1.4.3xx, newer than Debian 12's) notes who read and wrote which word of shared memory since the last barrier.

    sudo tests/drivers/run.py --make sid     once: a folder with Debian sid's layer and driver
    tests/drivers/races.py --folder sid --tests build/dev/tests/vkformer_tests
    tests/drivers/races.py --tests build/dev/tests/vkformer_tests "[decode_attention]"     with this machine's layer and drivers

First a barrier of a shader is left out, which must be named; then each test runs by itself, and what it found is told at once (all ops:
about an hour). What is not watched: storage buffers, and modules with atomics on shared memory may be named in vain.

Exit code 1: a race, a test that fails, or a race that was made on purpose and not found. 77: the layer is too old, or is not there.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import debian_folder

SETTING = "gpuav_shared_memory_data_race"
LAYER = "VkLayer_khronos_validation.json"
# All of what the layer can do but the one thing asked for takes minutes per test.
SETTINGS = f"""
khronos_validation.gpuav_enable = true
khronos_validation.gpuav_shader_instrumentation = true
khronos_validation.{SETTING} = true
khronos_validation.gpuav_descriptor_checks = false
khronos_validation.gpuav_buffer_address_oob = false
khronos_validation.gpuav_post_process_descriptor_indexing = false
khronos_validation.gpuav_buffers_validation = false
khronos_validation.gpuav_safe_mode = false
khronos_validation.validate_core = false
"""


def layer_manifest(folder):
    """The layer's manifest, if the layer knows the setting."""
    roots = [folder / "usr/share"] if folder else [pathlib.Path("/usr/share"), pathlib.Path("/usr/local/share"), pathlib.Path("/etc")]
    found = [root / "vulkan/explicit_layer.d" / LAYER for root in roots]
    return next((path for path in found if path.exists() and SETTING in path.read_text()), None)


def passed(done):
    """Whether all tests of a run did, whatever validation said besides."""
    return any(line.startswith("All tests passed") for line in done.stdout.splitlines())


def races_in(text):
    """Which shaders, by the name of the op that ran them."""
    return sorted(set(re.findall(r"\[ Debug region: ([^\]]*?) \][^\n]*data race was detected", text)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filter", nargs="?", default="[op]", help="which tests, as Catch2 names them; [op] if absent")
    parser.add_argument("--tests", type=pathlib.Path, default="build/dev/tests/vkformer_tests", help="the program of the tests")
    parser.add_argument("--folder", type=pathlib.Path, help="a Debian sid, as tests/drivers/run.py --make makes it")
    options = parser.parse_args()
    if options.folder:
        options.folder = options.folder.resolve()
    manifest = layer_manifest(options.folder)
    if not manifest:
        print(f"races: there is no validation layer that knows {SETTING}; make a folder with tests/drivers/run.py --make",
              file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory() as temporary:
        settings = pathlib.Path(temporary) / "settings.txt"
        settings.write_text(SETTINGS)
        environment = {**os.environ, "VK_LAYER_SETTINGS_PATH": str(settings), "XDG_CACHE_HOME": temporary}
        command = []
        if options.folder:
            environment |= debian_folder.driver_environment(options.folder, "lvp", temporary)
            environment["VK_LAYER_PATH"] = str(debian_folder.manifest_of(options.folder, manifest, temporary).parent)
            command = debian_folder.command(options.folder)

        def run(*arguments):
            return subprocess.run([*command, options.tests.resolve(), *arguments], env=environment, capture_output=True, text=True)

        if not passed(run("a barrier less is a race that the validation layer names")):
            print("races: a barrier was left out on purpose, and the layer named no race", file=sys.stderr)
            return 1
        names = run("--list-test-names-only", options.filter).stdout.splitlines()
        if not names:
            print(f"races: no test is called {options.filter}", file=sys.stderr)
            return 1
        failed = False
        for name in names:
            done = run(re.sub(r"([,\[\\])", r"\\\1", name))  # as Catch2 reads names
            found = races_in(done.stdout + done.stderr)
            verdict = f"race in {', '.join(found)}" if found else "no race" if passed(done) else "failed"
            print(f"{verdict}: {name}", flush=True)
            if not passed(done):
                print(done.stdout[-4000:], file=sys.stderr)
            failed = failed or verdict != "no race"
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
