# SPDX-License-Identifier: MIT
"""Where the repository's models and goldens are, and the devices that tests run on."""

import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import vkformer

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "goldens"
DATES = ROOT / "samples" / "models" / "date-normalizer"
TEXTS = GOLDENS / "decoder_text"
CLIP = GOLDENS / "vision" / "clip"
VIT = GOLDENS / "vision" / "vit"
PICTURES = GOLDENS / "vision" / "pictures"


def vulkan_devices() -> list[str]:
    """Every Vulkan device that models can run on, by index."""
    try:
        return [str(device.index) for device in vkformer.devices() if not device.unusable]
    except (vkformer.NoVulkanLoaderError, vkformer.NoDeviceError):
        return []


def device_names() -> list[str]:
    """ "cpu", and all Vulkan devices with VKFORMER_TEST_THOROUGH=1: the C++ tests run the same goldens on them all."""
    return ["cpu", *(vulkan_devices() if os.environ.get("VKFORMER_TEST_THOROUGH") == "1" else [])]


def read_json(*parts: str) -> Any:
    return json.loads(GOLDENS.joinpath(*parts).read_text(encoding="utf-8"))


def read_tensor(path: Path, name: str) -> npt.NDArray[Any]:
    """One tensor of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + length])[name]
    dtype = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8"}[entry["dtype"]]
    first, last = entry["data_offsets"]
    return np.frombuffer(data[8 + length + first : 8 + length + last], dtype).reshape(entry["shape"])


def relative_error(found: Any, expected: Any) -> float:
    """‖found − expected‖ / ‖expected‖; NaN passes no comparison."""
    f, e = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert f.shape == e.shape
    return float(np.linalg.norm(f - e) / np.linalg.norm(e))


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def in_child(work: Callable[[], None]) -> int:
    """Forks, and gives the child's exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is measured and compiled here is no verdict for the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(params=device_names())
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["cpu", *vulkan_devices()])
def any_device(request: pytest.FixtureRequest) -> str:
    """For what always runs on the CPU and on every Vulkan device."""
    return str(request.param)


@pytest.fixture
def generator() -> Iterator[vkformer.Generator]:
    with vkformer.Generator(TEXTS, "cpu", plain_shaders=True) as loaded:
        yield loaded


@pytest.fixture
def translator() -> Iterator[vkformer.Translator]:
    with vkformer.Translator(DATES, "cpu", plain_shaders=True) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def long_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of texts with room for 4000 tokens: its positions are computed, so a larger limit is as good."""
    folder = tmp_path_factory.mktemp("models") / "long"
    shutil.copytree(TEXTS, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}))
    return folder


Load = Callable[[], Any]
#: Each class on the CPU with a call that gives something comparable.
CALLS: dict[str, tuple[Load, Callable[[Any], Any]]] = {
    "Translator": (
        lambda: vkformer.Translator(DATES, "cpu", plain_shaders=True),
        lambda m: m.translate(["4. März 2021", "March 5, 2021"]),
    ),
    "Generator": (
        lambda: vkformer.Generator(TEXTS, "cpu", plain_shaders=True),
        lambda m: m.generate("Hello", max_tokens=20).tokens,
    ),
    "Embedder": (
        lambda: vkformer.Embedder(GOLDENS / "sentences" / "embedder", "cpu", plain_shaders=True),
        lambda m: m.embed(["a cat", "a dog"]).tolist(),
    ),
    "Reranker": (
        lambda: vkformer.Reranker(GOLDENS / "sentences" / "cross_encoder", "cpu", plain_shaders=True),
        lambda m: m.score([("a cat", "a dog")]).tolist(),
    ),
    "Transcriber": (
        lambda: vkformer.Transcriber(
            GOLDENS / "speech" / "whisper_texts", "cpu", plain_shaders=True, temperatures=0, timestamps=False
        ),
        lambda m: m.transcribe(np.zeros(800, np.float32) + np.float32(0.1)).text,
    ),
    "ImageClassifier": (
        lambda: vkformer.ImageClassifier(VIT, "cpu", plain_shaders=True),
        lambda m: m.classify(PICTURES / "colour.png"),
    ),
    "ImageEmbedder": (
        lambda: vkformer.ImageEmbedder(CLIP, "cpu", plain_shaders=True),
        lambda m: m.embed_images(PICTURES / "colour.png").tolist(),
    ),
}


@pytest.fixture(params=sorted(CALLS))
def call(request: pytest.FixtureRequest) -> tuple[Load, Callable[[Any], Any]]:
    return CALLS[str(request.param)]
