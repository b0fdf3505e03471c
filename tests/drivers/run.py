#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the compilers of GPUs that are not here make of the shaders.

Mesa's drm-shim (Debian: mesa-drm-shim, in sid) lets drivers come up for a GPU that an environment variable names. They compile for it
and run nothing, which is all that `vkformer bench pipelines` needs.

    sudo tests/drivers/run.py --make sid          once: a folder with Debian sid's Mesa and the shims (debootstrap; 5 minutes)
    sudo tests/drivers/run.py --make sid --build  the same with drivers that Debian does not package: Mali, Raspberry Pi (20 minutes)
    tests/drivers/run.py --folder sid --vkformer build/dev/vkformer --gpu navi31 --only linear_matrix
                                                  the numbers of some pipelines on one GPU
    tests/drivers/run.py --folder sid --vkformer build/dev/vkformer --out results
                                                  all GPUs, one JSON file each
    tests/drivers/run.py --out after --before before        compares two folders of results, runs nothing
    tests/drivers/run.py --folder sid --vkformer build/dev/vkformer --out results --peer --keep
                                                  the same with the peer's shaders; docs/portability.md and its JSON files
                                                  with --only what is kept of other shaders stays as it is
    tests/drivers/run.py --folder sid --vkformer build/dev/vkformer --check
                                                  compares with these JSON files
    tests/drivers/run.py --predict navi31                   what the model of time makes of these JSON files
    tests/drivers/run.py --folder sid --calibrate           asks for the peer's shaders that the model is fitted to

Exit code 1: a shader did not compile, a shader that runs where nothing was measured spills, or one has no case; with --check it may spill as
much as the JSON files say of that very pipeline, but wait for its loads no more often.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import sys

import calibration
import checks
import chips
import debian_folder
import gpus
import kept
import mesa_shims
import ours
import page
import peer
import prediction
import tables

DOCUMENTS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def load(folder):
    found = {key: folder / f"{key}.json" for key in gpus.GPUS}
    return {key: json.loads(path.read_text()) for key, path in found.items() if path.exists()}


def ask(options):
    """The reports of the GPUs that were asked for; those that the folder lacks a driver for are named and left out."""
    wanted = options.gpu or list(gpus.GPUS)
    lacking = {key: gpus.missing(key, options.folder) for key in wanted}
    for text in filter(None, lacking.values()):
        print(text, file=sys.stderr)
    arguments = ["--all"] * options.all + (["--only", options.only] if options.only else [])
    wanted = [key for key in wanted if not lacking[key]]
    reports = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for key, report in zip(wanted, pool.map(
                lambda key: ours.report(key, options.folder, options.vkformer.resolve(), arguments), wanted)):
            print(f"{key}: {len(report['pipelines'])} pipelines", file=sys.stderr)
            reports[key] = report
            if options.out:
                options.out.mkdir(parents=True, exist_ok=True)
                (options.out / f"{key}.json").write_text(json.dumps(report, indent=1))
        if options.peer:
            wanted = [key for key in wanted if gpus.GPUS[key].language in peer.READERS]
            for key, found in zip(wanted, pool.map(lambda key: peer.report(key, options.folder), wanted)):
                (options.out / f"{key}.peer.json").write_text(json.dumps(found, indent=1))
    return reports


def keep(reports, results, only):
    """Writes the numbers that are kept and the page that shows them. Those of a peer that was not asked stay."""
    folder = DOCUMENTS / "portability"
    folder.mkdir(exist_ok=True)
    before = kept.load(folder)
    for key, report in reports.items():
        of_peer = results / f"{key}.peer.json"
        numbers = kept.condensed(key, report, json.loads(of_peer.read_text()) if of_peer.exists() else {})
        if key in before and only:
            numbers = kept.merged(before[key], numbers, only)
        elif key in before and not of_peer.exists():
            kept.take_peer(numbers, before[key])
        (folder / f"{key}.json").write_text(kept.as_text(numbers))
    page.write(DOCUMENTS / "portability.md", kept.load(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", type=pathlib.Path, metavar="FOLDER", help="make the folder with Mesa and the shims, as root")
    parser.add_argument("--build", action="store_true", help="with --make: also build the drivers of Mali and Raspberry Pi")
    parser.add_argument("--mirror", help="where --make gets Debian from; absent: where apt has it from")
    parser.add_argument("--folder", type=pathlib.Path, help="a Debian sid with mesa-vulkan-drivers and mesa-drm-shim")
    parser.add_argument("--vkformer", type=pathlib.Path, default="build/dev/vkformer", help="the program")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the results, one JSON file per GPU")
    parser.add_argument("--gpu", action="append", choices=gpus.GPUS, help="only this one; may be given several times")
    parser.add_argument("--only", default="", help="only shaders with this in their names")
    parser.add_argument("--all", action="store_true", help="also the shaders for devices of another kind")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="GPUs at a time")
    parser.add_argument("--before", type=pathlib.Path, help="show what changed since the results in this folder")
    parser.add_argument("--peer", action="store_true", help="also ask for the peer's shaders; needs --out")
    parser.add_argument("--keep", action="store_true", help="write docs/portability.md and its JSON files; needs --out")
    parser.add_argument("--check", action="store_true", help="compare with the JSON files of docs/portability")
    parser.add_argument("--predict", choices=chips.OF_GPU, metavar="GPU", help="print times of products by the model; runs nothing")
    parser.add_argument("--calibrate", action="store_true", help="ask for the shaders of docs/portability/measured.json")
    options = parser.parse_args()
    if (options.peer or options.keep) and not options.out:
        parser.error("--peer and --keep need --out")
    if options.make:
        debian_folder.make(options.make, options.mirror)
        return mesa_shims.make(options.make, options.mirror, options.build)
    if options.predict:
        found = kept.load(DOCUMENTS / "portability")
        if options.predict not in found:
            parser.error(f"no numbers of {options.predict} are kept")
        return print(prediction.text_of(options.predict, found[options.predict]))
    if options.calibrate:
        if not options.folder:
            parser.error("--calibrate needs --folder")
        return calibration.ask(options.folder.resolve())
    if options.folder:
        options.folder = options.folder.resolve()
        reports = ask(options)
    elif options.out:
        reports = load(options.out)
    else:
        parser.error("--folder is required, or --out with results")
    if options.before:
        print(tables.comparison(load(options.before), reports))
    elif options.gpu or options.only:
        for key, report in reports.items():
            print(f"{gpus.GPUS[key].title}, {report['driver']}\n\n{tables.pipelines(report)}")
    if options.keep:
        keep(reports, options.out, options.only)
    before = kept.load(DOCUMENTS / "portability") if options.check else {}
    found = checks.complaints(reports, before)
    if options.check:
        for key, report in reports.items():
            found += checks.gained_waits(key, before[key], report) if key in before else [f"{key}: no numbers are kept"]
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
