# SPDX-License-Identifier: MIT
"""What a GPU's compiler makes of vkformer's shaders: the report of `vkformer bench pipelines`, with loops in place of code."""
import itertools
import json
import re

import gpus
import loops
import shaderdb


def measured(executable, gpu, printed=""):
    """An executable of the report with the numbers of its hot loop in place of its code, and with what the driver printed of it."""
    text = next((code["text"] for code in executable.pop("code", []) if code["name"] == gpu.assembly), None)
    hot, around = loops.hot_loops(gpu.language, text, executable.get("subgroup_size")) if text else (None, None)
    shaderdb.complete(executable, gpu.language, printed)
    if text and "registers" not in executable["summary"]:
        executable["summary"] |= loops.registers(gpu.language, text)
    executable["loop"] = hot and hot.as_json()
    executable["around"] = around and around.as_json()
    return executable


def last_begun(progress):
    """The number and name of the pipeline that a run of vkformer named last."""
    found = re.findall(r"^vkformer: pipeline (\d+): (\S+)$", progress, re.M)
    return (int(found[-1][0]), found[-1][1]) if found else None


def report(key, folder, vkformer, arguments=(), run_on=gpus.run_on):
    """The report on one GPU. A pipeline with which the driver ends the program becomes one with an error, and the others are asked
    for without it."""
    program = [vkformer, "bench", "pipelines", "--json", "--code", "--progress", "-q", "-d", "0", *arguments]
    whole, pipelines, parts = {}, [], [(0, None)]
    while parts:
        first, last = parts.pop(0)
        done = run_on(key, folder, [*program, "--first", first, *(["--last", last] if last is not None else [])])
        if done.stdout:
            whole = json.loads(done.stdout)
            for pipeline, printed in itertools.zip_longest(whole["pipelines"], shaderdb.lines_of(done.stderr), fillvalue=""):
                pipeline["executables"] = [measured(e, gpus.GPUS[key], printed) for e in pipeline.get("executables", [])]
            pipelines += whole["pipelines"]
            continue
        begun = last_begun(done.stderr)
        if not begun:
            raise RuntimeError(f"{key}: vkformer ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
        number, name = begun
        pipelines.append({"shader": name, "default": True, "offered": True, "uses": [], "executables": [],
                          "error": {"message": f"the driver ended the program ({done.returncode})"}})
        parts = [(first, number - 1)] * (number > first) + [(number + 1, last)] * (last is None or number < last) + parts
    return {**whole, "pipelines": pipelines}
