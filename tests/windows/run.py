#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Windows build under Wine, on the host's lavapipe, which Wine's winevulkan hands through.

    sudo tests/windows/run.py --make sid          once: a folder with Debian sid's Wine and Mesa (debootstrap; 5 minutes)
    sudo tests/windows/run.py --folder sid --build build/windows --vkformer build/dev/vkformer
                                                  the ZIP of CPack in a folder with spaces and umlauts: every command prints
                                                  what the program of this machine prints, on the CPU and on lavapipe
    sudo tests/windows/run.py --folder sid --build build/windows --tests "[core],[formats],[text]"
                                                  those tests of vkformer_tests.exe besides (a build with VKFORMER_TESTS=ON)
    sudo tests/windows/run.py … --tests "*" --results windows.jsonl --here build/dev/tests/vkformer_tests --table windows.md
                                                  all of them, and a table: how many there are here and how many ran, by
                                                  folder, and why others did not. What the file of results has is not run
                                                  again, so that an hour's work may be ended and gone on with
    tests/windows/run.py --build build/windows    with this machine's own Wine: the short part of it, on the CPU, as
                                                  `ctest --preset windows` does where there is a Wine

A folder needs root, for a chroot. Exit code 1: something differs, or a test fails.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/drivers"))

import debian_folder  # noqa: E402

PACKAGES = ["wine", "wine64", "mesa-vulkan-drivers", "libvulkan1", "xvfb", "xauth", "fonts-dejavu-core"]
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
PLACE = "tmp/vkformer-windows"      # in the folder
UNPACKED = "Grüße aus dem Süden"    # a folder's name as people have them
SECONDS = 3600
CASES = 20      # tests of a process: what breaks it takes no others along but these, which then run one by one
# What tests/CMakeLists.txt leaves out on Windows.
POSIX = re.compile(
    r'#include (<(?:(?:sys/.*|unistd|fcntl|poll|signal|spawn|wordexp)[.]h|csignal)>|"(?:cli/|samples/)?(?:run_program|terminal)[.]hpp")')
DATE = "Donnerstag, den 4. März 2021"
MODEL = ROOT / "samples/models/verse-writer/verse-writer-q8_0.gguf"
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
    """Programs of the build, run in the folder, or where there is none with this machine's Wine, `program`."""

    def __init__(self, folder, build, program):
        self.folder = folder
        self.command = ["chroot", folder] if folder else []
        self.program = "wine" if folder else program
        self.place = folder / PLACE if folder else pathlib.Path(tempfile.mkdtemp(prefix="vkformer-windows."))
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
            "PATH": "/usr/sbin:/usr/bin:/bin" if folder else os.environ["PATH"], "HOME": self.inside(self.place / "home"),
            "XDG_RUNTIME_DIR": self.inside(self.place / "run"), "LANG": "C.UTF-8", "WINEDEBUG": "-all",
            "OPENBLAS_NUM_THREADS": "1"}

    def inside(self, path):
        """The name of a file of the folder as a program in it, and so one under Wine, has it."""
        return "/" + str(path.relative_to(self.folder or "/"))

    def take(self, path):
        """A copy in the folder of a file or folder of this machine."""
        copy = self.place / path.name
        if path.is_dir():
            shutil.copytree(path, copy, dirs_exist_ok=True)
        else:
            shutil.copy(path, copy)
        return copy

    def run(self, program, *arguments, seconds=SECONDS, text=None, has_screen=False):
        screen = ["xvfb-run", "-a", "-s", "-screen 0 1280x1024x24"] if has_screen else []
        return subprocess.run([*self.command, *screen, self.program, self.inside(program), *arguments], env=self.environment,
                              capture_output=True, encoding="utf-8", errors="replace", timeout=seconds, check=False,
                              input=text)

    def kill(self):
        """Whatever still runs there."""
        with contextlib.suppress(OSError):
            subprocess.run([*self.command, "wineserver", "--kill"], env=self.environment, capture_output=True, check=False)

    def end(self):
        """Where it is this machine's, its files go, too."""
        self.kill()
        if not self.folder:
            shutil.rmtree(self.place, ignore_errors=True)


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


def window(wine, build):
    """An application with a window and a Vulkan device of its own, which writes a story between its frames."""
    programs = [build / "frame_budget.exe", build / "sample_picture_check.exe"]
    lacking = [str(program) for program in programs if not program.exists()]
    if lacking:
        yield ("frame_budget in a window", f"there is no {' and no '.join(lacking)}; scripts/windows_dependencies.sh builds SDL2, and "
                                           "-D VKFORMER_TESTS=ON what looks at pictures")
        return
    shutil.copy(wine.unpacked / "bin/vkformer.dll", wine.place)
    picture, frames = wine.place / "frame_budget.png", wine.place / "frame_budget.csv"
    there = wine.run(wine.take(build / "frame_budget.exe"), "--model", wine.inside(wine.take(MODEL)), "--font", FONT,
                     "--screenshot", wine.inside(picture), "--csv", wine.inside(frames), "--frames", "40", "--alone", "10",
                     "--budget-us", "0", has_screen=True)
    yield "frame_budget in a window", None if there.returncode == 0 and picture.exists() else there.stderr.strip() or there.stdout
    seen = wine.run(wine.take(build / "sample_picture_check.exe"), wine.inside(picture), wine.inside(frames), "40")
    yield "its picture shows something", None if seen.returncode == 0 else seen.stderr.strip() or seen.stdout


def host(wine, build):
    """C programs that MinGW has built against the DLL."""
    lacking = [name for name in ("minimal_c.exe", "batch_c.exe") if not (build / name).exists()]
    if lacking:
        yield "C programs on the DLL", f"{build} has no {' and no '.join(lacking)}"
        return
    shutil.copy(wine.unpacked / "bin/vkformer.dll", wine.place)
    if wine.folder:  # with a Vulkan
        there = wine.run(wine.take(build / "minimal_c.exe"))
        yield "a C program on the DLL, lavapipe", None if "5 6 7 8" in there.stdout else there.stderr.strip() or there.stdout
    there = wine.run(wine.take(build / "batch_c.exe"), wine.inside(wine.take(MODEL)), "cpu")
    is_whole = there.returncode == 0 and "In the beginning" in there.stdout and "24 tokens" in there.stdout
    yield "a C program on the DLL, CPU", None if is_whole else there.stderr.strip() or there.stdout
    broken = wine.place / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"model_type": "llama", bad')
    there = wine.run(wine.take(build / "batch_c.exe"), wine.inside(broken), "cpu")
    yield ("what is thrown in the DLL is an error there",
           None if there.returncode == 1 and "config.json: parse error" in there.stderr else there.stderr or there.stdout)


class TestProgram:
    """vkformer_tests.exe under Wine."""

    def __init__(self, wine, program):
        self.wine = wine
        self.program = wine.take(program)
        self.names = wine.place / "names"
        self.report = wine.place / "report.xml"

    def run(self, *arguments):
        return self.wine.run(self.program, *arguments, "--durations", "no")

    def results(self, names):
        """Of each test its name, source file, and what is wrong with it (null: nothing); of the last one also how many
        assertions held in all of them."""
        self.names.write_text("".join(re.sub(r"[\\,]", r"\\\g<0>", name) + "\n" for name in names), encoding="utf-8")
        self.report.unlink(missing_ok=True)
        # Catch2 takes what begins with a slash for an option on Windows; Wine's drive Z is the folder.
        names_file, report_file = (f"Z:{self.wine.inside(path)}" for path in (self.names, self.report))
        report, said = None, "it took more than an hour"
        try:
            done = self.run("--input-file", names_file, "--reporter", "xml", "--out", report_file)
            said = f"the program ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-500:]}"
            report = xml.etree.ElementTree.parse(self.report).getroot()
        except subprocess.TimeoutExpired:
            self.wine.kill()
        except (OSError, xml.etree.ElementTree.ParseError):
            pass
        cases = [] if report is None else list(report.iter("TestCase"))
        if len(cases) == len(names):
            found = [{"name": case.get("name"), "file": case.get("filename"), "wrong": failure_of(case)} for case in cases]
            found[-1]["assertions"] = int(report.findall("OverallResults")[-1].get("successes"))
            return found
        if len(names) == 1:
            return [{"name": names[0], "file": None, "wrong": said}]
        return [result for name in names for result in self.results([name])]


def failure_of(case):
    if case.find("OverallResult").get("success") == "true":
        return None
    for wrong in case.iter():
        if wrong.tag in ("FatalErrorCondition", "Exception", "Failure"):
            return f"{wrong.tag}: {(wrong.text or '').strip()}"
        if wrong.tag == "Expression" and wrong.get("success") == "false":
            words = [(wrong.findtext(part) or "").strip() for part in ("Original", "Expanded")]
            return f"{pathlib.Path(wrong.get('filename')).name}:{wrong.get('line')}: {' is '.join(words)}"
    return "failed"


def listed(run, spec):
    """Tests of a program: name and source file. `run` runs the program."""
    names = [line for line in run("--list-test-names-only", spec).stdout.splitlines() if line.strip()]
    places = run("--list-tests", "--verbosity", "high", spec)
    files = re.findall(r"^    (/.*_test[.]cpp):[0-9]+$", places.stdout.replace("\r", ""), re.M)
    if not names or len(names) != len(files):
        raise RuntimeError(f"{len(names)} names of tests, {len(files)} places: {places.stderr.strip()[-500:]}")
    return list(zip(names, files))


def folder_of(file):
    parts = pathlib.Path(file).parts
    return parts[len(parts) - 1 - parts[::-1].index("tests") + 1]


def why_left_out(file):
    found = POSIX.search(pathlib.Path(file).read_text(encoding="utf-8"))
    return f"`{found.group(1)}`" if found else "not in the build for Windows"


def table_of(here, ran):
    """Markdown. `here`: tests of this machine's program; `ran`: results under Wine, each with its file."""
    there = {one["name"] for one in ran}
    rows = {}
    for name, file in here:
        row = rows.setdefault(folder_of(file), {"here": 0, "ran": 0, "wrong": [], "out": {}})
        row["here"] += 1
        if name not in there:
            row["out"].setdefault(why_left_out(file), set()).add(pathlib.Path(file).name)
    files = dict(here)
    for one in ran:
        if one["name"] not in files:  # of another version
            continue
        row = rows[folder_of(files[one["name"]])]
        row["ran"] += 1
        if one["wrong"]:
            row["wrong"].append(one["name"])
    lines = ["| `tests/` | here | under Wine | failed | left out |", "| --- | --- | --- | --- | --- |"]
    for folder, row in sorted(rows.items()):
        out = "; ".join(f"{', '.join(sorted(names))}: {why}" for why, names in sorted(row["out"].items()))
        lines.append(f"| {folder} | {row['here']} | {row['ran']} | {'; '.join(row['wrong']) or '0'} | {out} |")
    return "\n".join(lines) + "\n"


def tests(wine, build, options):
    spec, kept = options.tests, options.results
    program = build / "tests/vkformer_tests.exe"
    if not program.exists():
        yield f"tests {spec}", f"there is no {program}; configure with -D VKFORMER_TESTS=ON"
        return
    # The tests look for files of the repository where it was built.
    there = wine.folder / str(ROOT).lstrip("/")
    there.mkdir(parents=True, exist_ok=True)
    before = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept and kept.exists() else []
    done = {one["name"]: one for one in before if not one["wrong"]}  # what failed runs again
    subprocess.run(["mount", "--bind", ROOT, there], check=True)
    try:
        windows = TestProgram(wine, program)
        wanted = [name for name, _ in listed(windows.run, spec)]
        names = [name for name in wanted if name not in done]
        ran = [done[name] for name in wanted if name in done]
        for first in range(0, len(names), CASES):
            results = windows.results(names[first : first + CASES])
            ran += results
            if kept:
                with kept.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in results)
            print(f"{first + len(results)} of {len(names)} tests", file=sys.stderr, flush=True)
    except RuntimeError as error:
        yield f"tests {spec}", str(error)
        return
    finally:
        subprocess.run(["umount", "--lazy", there], check=False)
    wrong = [f"{one['name']}: {one['wrong']}" for one in ran if one["wrong"]]
    held = sum(one.get("assertions", 0) for one in ran)
    yield f"tests {spec}: {len(ran)}, {held} assertions", "\n".join(["", *wrong]) if wrong else None
    if options.here:
        def here(*words):
            return subprocess.run([options.here, *words], capture_output=True, text=True, check=False)
        options.table.write_text(table_of(listed(here, spec), ran), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", type=pathlib.Path, metavar="FOLDER", help="make the folder, and do nothing else")
    parser.add_argument("--folder", type=pathlib.Path, help="a folder that --make has made")
    parser.add_argument("--build", type=pathlib.Path, help="the build with the preset windows, its ZIP made by cpack")
    parser.add_argument("--vkformer", type=pathlib.Path, help="this machine's vkformer, to compare with")
    parser.add_argument("--tests", help="tests of vkformer_tests.exe to run, in Catch2's words")
    parser.add_argument("--wine", help="this machine's Wine, if it is not in PATH")
    parser.add_argument("--results", type=pathlib.Path, help="a file of results, a line each, that is gone on with")
    parser.add_argument("--here", type=pathlib.Path, help="this machine's vkformer_tests: which tests there are")
    parser.add_argument("--table", type=pathlib.Path, help="where a table of tests goes, with --here")
    parser.add_argument("--json", action="store_true", help="one JSON object for each line of the table")
    options = parser.parse_args()
    if (options.make or options.folder) and os.geteuid() != 0:
        sys.exit("a folder needs root, for a chroot")
    if options.make:
        return debian_folder.make(options.make, packages=PACKAGES)
    if not options.build:
        parser.error("--build is needed")
    if not options.folder and (options.vkformer or options.tests):
        parser.error("--vkformer and --tests need a --folder, whose Wine has Vulkan")
    program = options.wine or shutil.which("wine")
    if not options.folder and not program:
        parser.error("there is no wine (Debian: wine); name one with --wine, or a --folder")
    if bool(options.here) != bool(options.table):
        parser.error("--here and --table belong together")
    failures = 0
    folder = options.folder.resolve() if options.folder else None
    with contextlib.ExitStack() as stack:
        if folder:
            stack.enter_context(Mounted(folder))
        wine = Wine(folder, options.build, program)
        stack.callback(wine.end)
        parts = [umlauts(wine), host(wine, options.build)]
        if folder:
            parts.append(window(wine, options.build))
        if options.vkformer:
            parts.append(compare(wine, options.vkformer))
        if options.tests:
            parts.append(tests(wine, options.build, options))
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
