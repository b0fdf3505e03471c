# SPDX-License-Identifier: MIT
"""The machine that is measured on: what it is, where programs find their drivers, and how quiet it was meanwhile."""
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests/drivers"))  # behind this folder, which has files of the same names
import debian_folder  # noqa: E402

NOISY = 0.05  # share of the machine that other programs may take before a time is measured again, or marked


def processor():
    """Its name, and what tells processors of the same name apart."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*: (.*)$", text, re.M)
    flags = set(re.search(r"^flags\s*: (.*)$", text, re.M)[1].split())
    widest = next((label for flag, label in (("amx_tile", "AVX-512, AMX"), ("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags), "")
    return ", ".join(filter(None, [name[1] if name else "unknown processor", f"{os.cpu_count()} threads", widest]))


def commit_of(program):
    """The commit of the tree in which a program was built; an error where the tree has changes of its own beside documents."""
    folder = pathlib.Path(program).resolve().parent

    def git(*arguments):
        return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    root = git("rev-parse", "--show-toplevel")
    changed = git("-C", root, "status", "--porcelain", "--", "runtime", "shaders", "include", "tools/bench", "tools/cli")
    if changed:
        sys.exit(f"{root}: there are changes that no commit has:\n{changed}")
    return git("rev-parse", "--short=10", "HEAD")


def _ticks():
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)  # busy with whatever, stolen time included; and all


def _seconds_of(process):
    """What a process that runs has used of the processors."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Quiet:
    """In `with`: the share of the machine that others took, `others`, of which the children that ended meanwhile are none, nor is `process`,
    which runs on."""

    def __init__(self, process=None):
        self._process = process

    def __enter__(self):
        self._ticks, self._own = _ticks(), self._used()
        return self

    def __exit__(self, *_):
        busy, total = (after - before for after, before in zip(_ticks(), self._ticks))
        own = (self._used() - self._own) * os.sysconf("SC_CLK_TCK")
        self.others = round(max(0.0, busy - own) / max(total, 1), 3)

    def _used(self):
        ours = sum(usage.ru_utime + usage.ru_stime
                   for usage in (resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)))
        return ours + (_seconds_of(self._process) if self._process else 0)


class Place:
    """Where programs find their Vulkan drivers: on this machine, or in a folder with Debian sid (tests/drivers/run.py --make)."""

    def __init__(self, folder=None, libraries=()):
        """`libraries`: folders among the libraries of the folder that hold some, too."""
        self.folder = folder.resolve() if folder else None
        self._temporary = tempfile.TemporaryDirectory()
        self._environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._command = []
        if self.folder:
            self._environment |= debian_folder.driver_environment(self.folder, "lvp", self._temporary.name)
            self._command = debian_folder.command(self.folder)
            self._command[-1] += "".join(f":{self.libraries() / name}" for name in libraries)

    def libraries(self):
        return debian_folder.library_folder(self.folder)

    def packages(self, *names):
        """What the folder has of these Debian packages: "name version, …"."""
        status = (self.folder / "var/lib/dpkg/status").read_text()
        found = dict(re.findall(r"^Package: (\S+)\n(?:(?!^$).*\n)*?Version: (\S+)$", status, re.M))
        return ", ".join(f"{name} {found[name]}" for name in names)

    @staticmethod
    def threads(device):
        """What makes the CPU backend take all processors, which OpenBLAS's number of threads says; a Vulkan driver has its own."""
        return {"OPENBLAS_NUM_THREADS": str(os.cpu_count())} if device == "cpu" else {}

    def command(self, *arguments):
        return [*self._command, *map(str, arguments)]

    def environment(self, cache=None, **more):
        """`cache`: the folder of a program's verdicts and of the driver's machine code."""
        return {**self._environment, **more, **({"XDG_CACHE_HOME": str(cache)} if cache else {})}

    def run(self, *arguments, cache=None, folder=None, **environment):
        """What a program prints. `cache` as of environment()."""
        command = self.command(*arguments)
        done = subprocess.run(command, env=self.environment(cache, **environment), cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
        return done.stdout

    def run_quietly(self, *arguments, attempts=3, **how):
        """What a program prints, and the share that others took of the machine: of the quietest attempt, where one is not quiet."""
        best = None
        for attempt in range(attempts):
            if attempt:
                time.sleep(2)
            with Quiet() as quiet:
                printed = self.run(*arguments, **how)
            if best is None or quiet.others < best[1]:
                best = printed, quiet.others
            if quiet.others <= NOISY:
                break
        return best
