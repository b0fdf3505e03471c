# SPDX-License-Identifier: MIT
"""Which devices a cluster has, and which of them a worker takes."""

import math
import os
from contextlib import suppress
from typing import Any

import ray
import ray.data

from .. import devices
from .._errors import NoDeviceError, NoVulkanLoaderError
from .._results import Device
from ._claims import SHARES, Claim, claim

#: Names of resources: GPUs, and Vulkan devices that are CPUs (lavapipe, SwiftShader).
DEVICE = "vkformer_device"
SOFTWARE_DEVICE = "vkformer_software_device"

_WAIT = 60.0
"""Seconds for a worker that ends to give its device back: a server may take half a minute to finish what runs."""


def resources(*, software: bool = False) -> dict[str, float]:
    """What this machine has, for ``ray.init(resources=…)``; ``python -m vkformer.ray`` prints it for
    ``ray start --resources=…``: how many GPUs as "vkformer_device".

    software: Vulkan devices that are CPUs too, as "vkformer_software_device".
    None of a kind, nothing of it; no Vulkan loader or driver, nothing.
    """
    counted = {DEVICE: float(len(_usable(False)))}
    if software:
        counted[SOFTWARE_DEVICE] = float(len(_usable(True)))
    return {name: count for name, count in counted.items() if count}


def on_devices(*, workers_per_device: int = 1, software: bool = False) -> dict[str, Any]:
    """Arguments of ``Dataset.map_batches``: a worker for every GPU of the cluster, or several.

    software: on Vulkan devices that are CPUs, in place of GPUs.
    Raises: ValueError (workers_per_device not 1 to 12), RuntimeError (no node of the cluster has told of a device).
    """
    if not 1 <= workers_per_device <= SHARES:
        raise ValueError(f"workers_per_device is {workers_per_device}, expected 1 to {SHARES}")
    name = SOFTWARE_DEVICE if software else DEVICE
    count = int(ray.cluster_resources().get(name, 0))  # type: ignore[no-untyped-call]
    if not count:
        told = 'ray start --resources="$(python -m vkformer.ray{})"'.format(" --software" if software else "")
        raise RuntimeError(
            f"no node of the cluster has the resource {name}: start each with {told}, or this one with "
            f"ray.init(resources=vkformer.ray.resources({'software=True' if software else ''}))"
        )
    # A little less than the part itself: three thirds, rounded up, would not fit.
    part = 1.0 if workers_per_device == 1 else math.floor(1e4 / workers_per_device) / 1e4
    return {"resources": {name: part}, **_pool(count * workers_per_device)}


def on_cpus(threads: int = 1) -> dict[str, Any]:
    """Arguments of ``Dataset.map_batches``: workers on the CPU backend, each with so many processors of its own, as
    many as the cluster has room for.

    Raises: ValueError (no threads), RuntimeError (no node has so many processors).
    """
    if threads < 1:
        raise ValueError(f"threads is {threads}, expected at least 1")
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    workers = sum(int(node["Resources"].get("CPU", 0)) // threads for node in nodes if node["Alive"])
    if not workers:
        raise RuntimeError(f"no node of the cluster has {threads} processors")
    return {"num_cpus": threads, **_pool(workers)}


def _pool(most: int) -> dict[str, Any]:
    """One is enough to begin with: a node that is not there yet, or not any more, holds up no job."""
    return {"compute": ray.data.ActorPoolStrategy(min_size=1, max_size=most), "batch_format": "pyarrow"}


def place(device: str | int | None) -> tuple[str | int, list[Claim]]:
    """The device for a worker, and what holds it: the given one; else the one that its resources stand for.

    Raises: RuntimeError (no device is free on this machine; none is given outside of Ray's workers), ValueError (the
    worker has more than one device, or too small a part).
    """
    assigned = _assigned()
    if device is not None and device != "cpu":
        return device, []
    if assigned is None:
        if device is None:
            raise RuntimeError("this process is no worker of Ray's, which says what to run on: give device=")
        return device, []
    for name, software in ((DEVICE, False), (SOFTWARE_DEVICE, True)):
        if name in assigned and device is None:
            taken = _take_device(name, assigned[name], [found.uuid for found in _usable(software)])
            return taken.name, [taken]
    return "cpu", _take_processors(max(1, int(assigned.get("CPU", 1))))


def _assigned() -> dict[str, float] | None:
    """The resources of the worker that this process is; None: it is none."""
    if not ray.is_initialized():
        return None
    try:
        found: dict[str, float] = ray.get_runtime_context().get_assigned_resources()  # type: ignore[no-untyped-call]
    except AssertionError:  # a driver
        return None
    return found


def _take_device(name: str, part: float, ids: list[str]) -> Claim:
    if not 1 / SHARES <= part + 1e-4 or part > 1:
        raise ValueError(f"the worker has {part:g} {name}, expected 1, or a part of at least 1/{SHARES}")
    taken = claim(ids, part, _WAIT if ids else 0)
    if taken is None:
        raise RuntimeError(
            f"none of this node's {len(ids)} devices has {part:g} {name} free: more was said to be here than is, or "
            "others than this cluster's workers have it"
        )
    return taken


def _take_processors(count: int) -> list[Claim]:
    """Has this process run on so many processors, those that fewest other workers have: none, while there are some."""
    free = [f"processor-{one}" for one in sorted(os.sched_getaffinity(0))]
    claims: list[Claim] = []
    while len(claims) < count and (taken := claim(free, 1 / SHARES, 0, spread=True)) is not None:
        free.remove(taken.name)
        claims.append(taken)
    if claims:  # else there are a dozen on each already: where this one runs, the system may say
        own = {int(taken.name.removeprefix("processor-")) for taken in claims}
        for thread in os.listdir("/proc/self/task"):  # those that are there; the others have it from them
            with suppress(ProcessLookupError):  # one that has ended meanwhile
                os.sched_setaffinity(int(thread), own)
    return claims


def _usable(software: bool) -> list[Device]:
    """Each once: a GPU with two drivers is one."""
    try:
        found = devices()
    except (NoVulkanLoaderError, NoDeviceError):
        return []
    kind = {one.uuid: one for one in reversed(found) if not one.unusable and (one.type == "cpu") == software}
    return sorted(kind.values(), key=lambda one: one.index)
