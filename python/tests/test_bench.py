# SPDX-License-Identifier: MIT
"""vkformer.bench: reports of the command line as lists of dicts, and how its program is found."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, vulkan_devices

import vkformer
from vkformer import bench

needs_program = pytest.mark.skipif(
    shutil.which(os.environ.get("VKFORMER_PROGRAM", "vkformer")) is None, reason="VKFORMER_PROGRAM names no program"
)


@needs_program
def test_ops_as_dicts_and_what_changed(tmp_path: Path) -> None:
    report = bench.ops(device="cpu", op="rms_norm", shape="1x576", dtype=["f32", "f16"], seconds=0.05, limits=False)
    assert isinstance(report, list)
    assert [(case["op"], case["shape"], case["dtype"]) for case in report] == [
        ("rms_norm", "1x576", "f32"),
        ("rms_norm", "1x576", "f16"),
    ]
    for case in report:
        assert case["right"] is True
        assert case["wall_time"]["median_ns"] > 0
    assert report.document["schema"] == "vkformer-bench-ops/1"
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "rms_norm" in shown
    assert shown.count('"') == 4  # the page's own are escaped

    saved = tmp_path / "before.json"
    saved.write_text(json.dumps(report.document))
    for before in (report, saved, str(saved)):
        comparison = bench.compare(before, report)
        assert [case["case"] for case in comparison] == ["rms_norm 1x576 f32 cold", "rms_norm 1x576 f16 cold"]
        assert comparison[0]["ratio"] == 1
    assert comparison.document["only_before"] == []
    assert "<td>rms_norm 1x576 f32 cold</td>" in comparison._repr_html_()


@needs_program
def test_variants_and_a_shader_of_ones_own() -> None:
    devices = vulkan_devices()
    if not devices:
        pytest.skip("there is no Vulkan device")
    report = bench.ops(
        device=devices[-1],
        op="rms_norm",
        shape="1x576",
        dtype="f32",
        shader_variants={"rms_norm": "row"},
        seconds=0.05,
        limits=False,
    )
    assert [(case["variant"], case["right"]) for case in report] == [("row", True)]
    folder = ROOT / "samples" / "bench"
    as_dict = json.loads((folder / "rms_norm.json").read_text())
    for manifest in (folder / "rms_norm.json", as_dict):
        (case,) = bench.shader(folder / "rms_norm.comp", manifest, device=devices[-1], seconds=0.05, limits=False)
        assert case["right"] is True


@needs_program
def test_what_the_program_refuses_is_an_error() -> None:
    with pytest.raises(vkformer.Error, match="^there is no case for op nonsense"):
        bench.ops(device="cpu", op="nonsense")
    with pytest.raises(vkformer.Error, match="no-such-file"):
        bench.compare("no-such-file.json", "no-such-file.json")
    with pytest.raises(vkformer.Error, match="no such device"):
        bench.ops(device="no such device", op="rms_norm")


def test_arguments_of_benchmarks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"cache": "warm"}, ValueError, "cache is 'warm'"),
        ({"seconds": "2"}, TypeError, "seconds"),
        ({"device": 1.5}, TypeError, "device"),
        ({"op": [3]}, TypeError, r"op\[0\]"),
        ({"program": tmp_path}, FileNotFoundError, "no program that can be run"),
    ]
    for arguments, kind, words in wrong:
        with pytest.raises(kind, match=words):
            bench.ops(**arguments)
    monkeypatch.delenv("VKFORMER_PROGRAM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="not in PATH.*VKFORMER_PROGRAM"):
        bench.ops()

    script = tmp_path / "vkformer"
    script.write_text('#!/bin/sh\necho "a line" >&2; echo "vkformer: error: it is $4" >&2; exit 2\n')
    script.chmod(0o755)
    with pytest.raises(vkformer.Error, match="^it is softmax$"):
        bench.ops(op="softmax")
    script.write_text("#!/bin/sh\nexit 139\n")
    with pytest.raises(vkformer.Error, match="ended with code 139"):
        bench.ops(program=script)
