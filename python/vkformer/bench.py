# SPDX-License-Identifier: MIT
"""What ``vkformer bench`` measures, as lists of dicts: ``pandas.DataFrame(vkformer.bench.ops(op="attention"))``.

The measurements are the command line's, a program of its own, which the wheel does not carry. It is found as
``program``, else as the environment variable VKFORMER_PROGRAM, else as ``vkformer`` in PATH; without it every function
raises FileNotFoundError. docs/benchmark.md says what is measured and how. Ctrl-C ends the program.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path as _Path
from typing import Any, Literal, SupportsFloat, TypeAlias

from . import _inputs, _program
from ._errors import Error
from ._inputs import Path

Several: TypeAlias = str | Iterable[str]


class Report(list[dict[str, Any]]):
    """The cases of a report: "op", "shape", "dtype", "variant", "right", "error", "gbps", "gflops", "device_time",
    "wall_time" (both with "median_ns", …; None where there is none) and more. A notebook shows the whole page.
    """

    def __init__(self, document: Mapping[str, Any], html: str) -> None:
        super().__init__(document["cases"])
        self.document = dict(document)
        """All that ``--json`` prints: "device", "limits", "environment", "command" and more, and the cases."""
        self.html = html
        """The page that ``--html`` writes."""

    def _repr_html_(self) -> str:
        page = escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'


class Comparison(list[dict[str, Any]]):
    """The cases of two reports: "case", "before_ns", "after_ns", "ratio", "ratio_low", "ratio_high", "change"."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document["cases"])
        self.document = dict(document)
        """All that ``--json`` prints: "only_before" and "only_after" besides."""

    def _repr_html_(self) -> str:
        def row(case: dict[str, Any]) -> str:
            times = f"<td>{case['before_ns'] / 1e3:.4g}</td><td>{case['after_ns'] / 1e3:.4g}</td>"
            ratio = f"<td>{case['ratio']:.3f}</td><td>{case['ratio_low']:.3f} … {case['ratio_high']:.3f}</td>"
            return f"<tr><td>{escape(case['case'])}</td>{times}{ratio}<td>{escape(case['change'])}</td></tr>"

        head = "<tr><th>case</th><th>before, µs</th><th>after, µs</th><th>ratio</th><th>95 %</th><th></th></tr>"
        return f"<table>{head}{''.join(map(row, self))}</table>"


def ops(
    *,
    device: str | int = "auto",
    op: Several = (),
    shape: Several = (),
    dtype: Several = (),
    all_variants: bool = False,
    plain_shaders: bool = False,
    shader_variants: Mapping[str, str] | None = None,
    cache: Literal["cold", "hot", "both"] = "cold",
    seconds: SupportsFloat = 2.0,
    limits: bool = True,
    program: Path | None = None,
) -> Report:
    """Every op, or those that are named: right? how fast? how far from what the device can do?

    op, shape, dtype: which; one or several, as ``vkformer bench ops --list`` spells them; empty: all.
    all_variants: every variant that can run a case, one after the other.
    plain_shaders, shader_variants: as of vkformer.Graph.
    cache: operands rotate over copies that no cache holds ("cold"), or stay the same ("hot").
    seconds: for a case, at most.
    limits: measure the device's limits first.

    A case whose result is wrong is not timed: "right" is False.
    Raises: FileNotFoundError (no program), Error (with the program's words).
    """
    arguments = ["ops", *_repeated("--op", op), *_repeated("--shape", shape), *_repeated("--dtype", dtype)]
    arguments += ["--all-variants"] if all_variants else []
    return _report(arguments, device, plain_shaders, shader_variants, cache, seconds, limits, program)


def shader(
    path: Path,
    manifest: Path | Mapping[str, Any],
    *,
    device: str | int = "auto",
    cache: Literal["cold", "hot", "both"] = "cold",
    seconds: SupportsFloat = 2.0,
    limits: bool = True,
    timeout: SupportsFloat = 120.0,
    program: Path | None = None,
) -> Report:
    """A compute shader of your own: GLSL, or SPIR-V where the name ends in .spv.

    manifest: buffers, constants, grid and reference (docs/benchmark.md): a JSON file, or a dict like it.
    timeout: seconds for all of it. The shader runs in a process of its own: a driver that crashes on it is an Error.
    Further arguments, errors: as of ``ops``.
    """
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(manifest, Mapping):
            described = _Path(folder, "manifest.json")
            described.write_text(json.dumps(dict(manifest)), encoding="utf-8")
        else:
            described = _Path(os.fsdecode(manifest))
        arguments = ["shader", os.fsdecode(path), "--manifest", str(described)]
        arguments += ["--timeout", str(_inputs.real(timeout, "timeout"))]
        return _report(arguments, device, False, None, cache, seconds, limits, program)


def compare(
    before: Report | Path,
    after: Report | Path,
    *,
    noise: SupportsFloat = 3.0,
    force: bool = False,
    program: Path | None = None,
) -> Comparison:
    """What changed between two reports of ``ops``, or JSON files of them, beyond noise.

    noise: per cent that differ from one process to the next anyway. force: compare reports of different devices, too.
    Raises: as ``ops``.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [_file(report, _Path(folder, name)) for report, name in ((before, "before"), (after, "after"))]
        arguments = ["compare", *files, "--noise", str(_inputs.real(noise, "noise")), "--json"]
        return Comparison(_run([*arguments, *(["--force"] if force else [])], program))


def _report(
    arguments: list[str],
    device: str | int,
    plain_shaders: bool,
    shader_variants: Mapping[str, str] | None,
    cache: str,
    seconds: SupportsFloat,
    limits: bool,
    program: Path | None,
) -> Report:
    _inputs.choice(cache, "cache", ("cold", "hot", "both"))
    arguments += ["--device", _inputs.device_choice(device), "--cache", cache, "--json", "--quiet"]
    arguments += ["--seconds", str(_inputs.real(seconds, "seconds"))]
    arguments += ["--plain"] if plain_shaders else []
    arguments += ["--no-limits"] if not limits else []
    for name, variant in _inputs.variants_by_op(shader_variants).items():
        arguments += ["--variant", f"{name}={variant}"]
    with tempfile.TemporaryDirectory() as folder:
        page = _Path(folder, "report.html")
        document = _run([*arguments, "--html", str(page)], program)
        return Report(document, page.read_text(encoding="utf-8"))


def _run(arguments: list[str], program: Path | None) -> dict[str, Any]:
    command = [_program.find(program, "benchmarks are"), "bench", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        document = json.loads(done.stdout)  # printed too where a result is wrong and the exit code is 1
    except ValueError:
        document = None
    if not isinstance(document, dict):
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        message = "\n".join(line for line in said if "error" in line) or "\n".join(said[-3:])
        raise Error(message.removeprefix("vkformer: error: ") or f"{command[0]} ended with code {done.returncode}")
    return document


def _repeated(option: str, values: Several) -> list[str]:
    several = [values] if isinstance(values, str) else _inputs.texts(values, option.removeprefix("--"))
    return [part for value in several for part in (option, value)]


def _file(report: Report | Path, place: _Path) -> str:
    if not isinstance(report, Report):
        return os.fsdecode(report)
    place.write_text(json.dumps(report.document), encoding="utf-8")
    return str(place)
