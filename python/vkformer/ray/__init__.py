# SPDX-License-Identifier: MIT
"""Models on the machines of a Ray cluster: for Ray Data, and for Ray Serve. ``pip install vkformer[ray]``

    import ray, vkformer.ray
    ray.init(resources=vkformer.ray.resources())    # or ray start --resources="$(python -m vkformer.ray)"
    ray.data.read_parquet("texts").map_batches(
        vkformer.ray.Embedder,
        fn_constructor_kwargs={"path": "all-MiniLM-L6-v2"},
        batch_size=256,
        **vkformer.ray.on_devices(),
    ).write_parquet("vectors")

Ray does the rest: it reads and writes, holds back what is not yet asked for, shows how far it is, and starts lost
workers anew. docs/scaling.md tells what it costs.
"""

try:
    import ray as _ray
except ImportError as error:
    raise ImportError("vkformer.ray needs Ray: pip install vkformer[ray]") from error

from ._places import DEVICE, SOFTWARE_DEVICE, on_cpus, on_devices, resources
from ._serving import server
from ._workers import (
    Embedder,
    Generator,
    ImageClassifier,
    ImageEmbedder,
    Reranker,
    Transcriber,
    Translator,
    Worker,
)

del _ray

__all__ = [
    "DEVICE",
    "SOFTWARE_DEVICE",
    "Embedder",
    "Generator",
    "ImageClassifier",
    "ImageEmbedder",
    "Reranker",
    "Transcriber",
    "Translator",
    "Worker",
    "on_cpus",
    "on_devices",
    "resources",
    "server",
]
