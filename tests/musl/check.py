#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether the library compiles against musl: nothing of glibc alone may be in runtime/ and include/.

    sudo apt-get install musl-tools
    tests/musl/check.py --build build/dev                  every source of the library; a folder that has been configured and built
    tests/musl/check.py --build build/dev core/platform    those whose path has that

Debian has musl's headers and a compiler for C, so g++ checks the syntax with its own headers of C++ over musl's of C, and nothing is
linked. Exit code 1: a source does not compile.
"""
import argparse
import concurrent.futures
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

MUSL = pathlib.Path("/usr/include/x86_64-linux-musl")
# What g++'s headers, configured for glibc, ask the C library for: its version, its locales and the bits of its table of characters.
ASSUMED = ["__GLIBC_PREREQ(major,minor)=0", "__locale_t=locale_t", *(
    f"_IS{kind}={1 << bit}" for bit, kind in enumerate(
        ["upper", "lower", "alpha", "digit", "xdigit", "space", "print", "cntrl", "punct", "blank"]))]
# What they believe to be there, as it is in glibc.
WITHOUT = ["_GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT", "_GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK", "_GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK"]
# Headers of the libraries that the runtime needs, by what is included.
LIBRARIES = ["vulkan", "vk_video", "nlohmann", "sentencepiece_processor.h", "utf8proc.h", "pcre2.h", "cblas.h", "openblas_config.h",
             "zlib.h", "zconf.h", "lzma.h", "lzma", "png.h", "pngconf.h", "pnglibconf.h",
             "jpeglib.h", "jconfig.h", "jmorecfg.h", "jerror.h"]


def compiler_folders(compiler):
    """The folders where g++ looks for headers, in its order."""
    said = subprocess.run([compiler, "-xc++", "-E", "-v", "/dev/null"], capture_output=True, text=True, check=True).stderr
    between = said.split("#include <...> search starts here:")[1].split("End of search list.")[0]
    return [pathlib.Path(line.strip()) for line in between.splitlines() if line.strip()]


def link_libraries(folders, target):
    """Links to the libraries' headers alone: glibc's lie beside them."""
    for name in LIBRARIES:
        found = next((path for folder in folders if (path := folder / name).exists()), None)
        if not found:
            sys.exit(f"{name} is not found in {', '.join(map(str, folders))}")
        (target / name).symlink_to(found)


def without_glibc(target):
    """A configuration of g++'s headers in place of theirs."""
    config = target / "bits/c++config.h"
    config.parent.mkdir()
    config.write_text("\n".join(["#include_next <bits/c++config.h>", *(f"#undef {name}" for name in WITHOUT)]) + "\n")


def sources(build, part):
    """Sources of the library with their own options of the build, unity sources left as they are."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        source = pathlib.Path(entry["file"])
        if not any(f"runtime/CMakeFiles/vkformer{kind}_objects.dir" in entry["command"] for kind in ("", "_fast")):
            continue
        texts = [str(source)]
        if "Unity" in source.parts:
            texts = [line for line in source.read_text().splitlines() if line.startswith("#include")]
        if any(part in text for text in texts):
            yield source, [word for word in words if word.startswith(("-I", "-D", "-m", "-std=", "-f"))], entry["directory"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a build for this machine")
    parser.add_argument("--compiler", default="g++", help="default: g++")
    parser.add_argument("--jobs", type=int, default=2, help="default: 2")
    parser.add_argument("part", nargs="?", default="", help="only sources whose path has this")
    options = parser.parse_args()
    if not MUSL.exists():
        sys.exit(f"there is no {MUSL}; install musl-tools")
    folders = compiler_folders(options.compiler)
    of_cpp = [folder for folder in folders if "c++" in folder.parts]
    of_compiler = [folder for folder in folders if (folder / "stddef.h").exists() and "gcc" in folder.parts]
    openblas = [folder / "openblas-pthread" for folder in folders]
    todo = list(sources(options.build, options.part))
    if not todo:
        sys.exit(f"{options.build} has no such source of the library")
    with tempfile.TemporaryDirectory() as libraries, tempfile.TemporaryDirectory() as config:
        link_libraries([*folders, *openblas], pathlib.Path(libraries))
        without_glibc(pathlib.Path(config))
        places = [config, *of_cpp, MUSL, *of_compiler, libraries]

        def check(entry):
            source, words, directory = entry
            return source, subprocess.run(
                [options.compiler, "-fsyntax-only", "-nostdinc", *words, *(f"-D{name}" for name in ASSUMED),
                 *(f"-isystem{place}" for place in places), source],
                cwd=directory, capture_output=True, text=True, check=False)

        failures = 0
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for source, done in pool.map(check, todo):
                if done.returncode:
                    failures += 1
                    print(f"{source}:\n{done.stderr}", flush=True)
    print(f"{len(todo) - failures} of {len(todo)} sources compile against musl")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
