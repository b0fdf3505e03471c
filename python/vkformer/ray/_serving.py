# SPDX-License-Identifier: MIT
"""`vkformer serve` behind Ray Serve: its routes and its answers, from as many replicas as there are devices."""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .. import _inputs
from .._inputs import Path

if TYPE_CHECKING:
    from ray import serve


def server(
    models: Mapping[str, Path],
    *,
    device: str | int | None = None,
    arguments: Iterable[str] = (),
    program: Path | None = None,
    start_seconds: float = 600,
    **options: Any,
) -> "serve.Application":
    """An application for ``ray.serve.run``: what ``vkformer serve`` answers, it answers (docs/serving.md).

    models: name for the clients → path, as every node sees it.
    device: as ``vkformer serve --device``; None: what Ray has assigned, as for vkformer.ray.Worker: with
        ``ray_actor_options={"resources": {"vkformer_device": 1}}`` a GPU that no other worker has; with
        ``{"num_cpus": 2}`` the CPU backend on two processors.
    arguments: further ones of ``vkformer serve``: ["--context", "8192", "--api-key-file", "/etc/vkformer/keys"].
        Clients that reach Ray by a name need --allow-host, pages elsewhere --allow-origin.
    program: ``vkformer`` on every node, where it is neither in PATH nor in VKFORMER_PROGRAM.
    start_seconds: until a replica's models are loaded, at most.
    Ray's proxy stands before the server, which hears it on the loopback: where the proxy listens to a network
    (``http_options={"host": …}``), give keys, for the server cannot ask for them then.
    options: of the deployment: num_replicas, autoscaling_config, max_ongoing_requests (128 if absent), ….
    """
    from ray import serve

    from ._replica import Replica

    if not models:
        raise ValueError("a server needs a model")
    command = ["serve", "--port", "0", "--json-logs"]
    for name, path in models.items():
        command += ["--model", f"{_inputs.text(name, 'the name of a model')}={os.fsdecode(path)}"]
    own = {"--port", "--json-logs", "--host", "--device", "-d", "--model", "-m", "--check"}
    for argument in (given := _inputs.texts(arguments, "arguments")):
        if argument.split("=")[0] in own:
            raise ValueError(f"arguments has {argument}, which a replica's server has from here")
    chosen = {"name": "vkformer", "max_ongoing_requests": 128, **options}
    where = None if program is None else os.fsdecode(program)
    deployment = serve.deployment(**chosen)(Replica)
    return deployment.bind(command + given, device, where, start_seconds, _grace(given))


def _grace(arguments: list[str]) -> float:
    """Seconds after which a server that was told to end is killed: its own ``--grace-seconds`` and five."""
    given = [*arguments, "--grace-seconds", "30"]
    at = next(i for i, argument in enumerate(given) if argument.split("=")[0] == "--grace-seconds")
    seconds = given[at].partition("=")[2] or given[at + 1]
    return 5.0 + (float(seconds) if seconds.isdecimal() else 0)  # the server says what is wrong with another
