# SPDX-License-Identifier: MIT
"""What must not be: shaders that do not compile, and defaults that spill or wait more often than they did."""
import kept
import tables


SPILLS = ("spills", "scratch_bytes", "scratch")


def spills_more(executable, before):
    """Whether it spills or uses scratch memory more than the kept numbers of the same pipeline say."""
    old, new = kept.named(before), kept.named(kept.numbers_of(executable))
    return any((new[which] or 0) > (old[which] or 0) for which in SPILLS)


def spilling(report, before):
    """The shaders that the device runs where nothing was measured and that spill or keep something in scratch memory; not those whose very
    pipelines do so in the numbers of `before`, {name: numbers}, and do it no more than there."""
    names = {id(executable): name for name, executable in kept.default_pipelines(report).items()}
    known = lambda executable: before.get(names.get(id(executable)))
    return sorted({pipeline["shader"] for pipeline in report["pipelines"] if pipeline["default"]
                   for executable in pipeline["executables"] if tables.spilled(executable)
                   and (not known(executable) or spills_more(executable, known(executable)))})


def complaints(reports, before=None):
    """Of reports of GPUs; `before`: the kept numbers of GPUs, if what they have is no complaint."""
    out = []
    for gpu, report in reports.items():
        for pipeline in report["pipelines"]:
            if "error" in pipeline:
                case = next((use["case"] for use in pipeline["uses"]), "its case is not known")
                out.append(f"{gpu}: {pipeline['shader']} ({case}): {pipeline['error']['message']}")
        out += [f"{gpu}: {shader} spills" for shader in spilling(report, (before or {}).get(gpu, {}).get("defaults", {}))]
        out += [f"{gpu}: {shader} has no case in tools/cases" for shader in report.get("without_case", [])]
    return out


def gained_waits(gpu, before, report):
    """The default pipelines of a report that wait for all loads more often than the kept numbers say."""
    out = []
    for name, executable in kept.default_pipelines(report).items():
        if name in before["defaults"]:
            old, new = kept.named(before["defaults"][name]), kept.named(kept.numbers_of(executable))
            for which in ("full_waits", "around_full_waits"):
                if old[which] is not None and new[which] is not None and new[which] > old[which]:
                    where = " around the hot loop" if which.startswith("around") else ""
                    out.append(f"{gpu}: {name}: {new[which]} full waits a turn{where}, {old[which]} are kept")
    return out
