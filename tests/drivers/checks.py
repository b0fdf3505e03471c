# SPDX-License-Identifier: MIT
"""What must not be: shaders that do not compile, and defaults that spill."""
import tables


def spilling(report):
    """The shaders that the device runs where nothing was measured and that spill or keep something in scratch memory."""
    return sorted({pipeline["shader"] for pipeline in report["pipelines"] if pipeline["default"]
                   for executable in pipeline["executables"] if tables.spilled(executable)})


def complaints(reports):
    out = []
    for gpu, report in reports.items():
        for pipeline in report["pipelines"]:
            if "error" in pipeline:
                case = next((use["case"] for use in pipeline["uses"]), "its case is not known")
                out.append(f"{gpu}: {pipeline['shader']} ({case}): {pipeline['error']['message']}")
        out += [f"{gpu}: {shader} spills" for shader in spilling(report)]
        out += [f"{gpu}: {shader} has no case in pipeline_cases()" for shader in report.get("without_case", [])]
    return out
