# SPDX-License-Identifier: MIT
from collections.abc import Iterable
from typing import Any, SupportsIndex, Unpack

import numpy as np
import numpy.typing as npt

from . import _core, _inputs
from ._inputs import ArrayLike, Dtype, Path
from ._model import CommonArguments, Model, Progress
from ._results import AttentionWeights, FloatArray, ImageLabel

UInt8Array = npt.NDArray[np.uint8]


def load_image(path: Path) -> UInt8Array:
    """A PNG or JPEG file as uint8 [height, width, 3], with the pixels that Pillow's convert("RGB") gives.

    Transparency is dropped, colour profiles and gamma are not applied; a JPEG comes as its Exif orientation says, upright.
    Raises: MissingFileError, CorruptFileError.
    """
    return _core.load_image(_inputs.path(path))


def decode_image(file: bytes) -> UInt8Array:
    """``load_image`` for a file in memory."""
    if not isinstance(file, (bytes, bytearray, memoryview)):
        raise TypeError(f"the file is of type {type(file).__name__}, expected bytes")
    return _core.decode_image(bytes(file))


class ImageClassifier(Model[_core.ImageClassifier]):
    """A ViT, DeiT or DINOv2 with a classification head, from a folder. Results are those of transformers.

    path: a folder with config.json, model.safetensors, preprocessor_config.json.
    device, dtype: as of Translator. batch: images in one run at most. Further keyword arguments: vkformer.CommonArguments.

    Images are uint8 arrays [height, width, 3] (red, green, blue), contiguous, of any size; what has DLPack or a buffer;
    Pillow's images of mode RGB; or paths of PNG and JPEG files. Several are a list, or an array [images, height, width, 3].

    Raises: as Translator; UnsupportedConfigError also for a model without a classification head.
    """

    def __init__(
        self,
        path: Path,
        device: str | int = "auto",
        dtype: Dtype = "f32",
        *,
        batch: SupportsIndex = 32,
        **common: Unpack[CommonArguments],
    ) -> None:
        options, on_progress = _inputs.common(ImageClassifier, device, dtype, common)
        core = _core.ImageClassifier(_inputs.path(path), options, on_progress, batch=_inputs.uint(batch, "batch"))
        super().__init__(core)
        self._labels = core.labels()

    def classify(
        self, images: ArrayLike, *, top_k: SupportsIndex | None = None, on_progress: Progress | None = None
    ) -> Any:
        """The labels of an image, the likeliest first: a list of ImageLabel; of several images a list of such lists.

        ``top_k``: the first of them only. Raises: TypeError and ValueError for what is no image, InvalidArgumentError,
        DeviceLostError, VulkanError, MemoryError.
        """
        is_one = _inputs.is_one_image(images)
        given = [_inputs.pixels(images)] if is_one else _inputs.images(images)
        found = self._ranked(self._run(lambda stop: self._core.classify(given, on_progress, stop)), top_k)
        return found[0] if is_one else found

    async def classify_async(
        self, images: ArrayLike, *, top_k: SupportsIndex | None = None, on_progress: Progress | None = None
    ) -> Any:
        """``classify`` in another thread."""
        is_one = _inputs.is_one_image(images)
        given = [_inputs.pixels(images)] if is_one else _inputs.images(images)
        found = self._ranked(await self._run_async(lambda stop: self._core.classify(given, on_progress, stop)), top_k)
        return found[0] if is_one else found

    def attention(self, image: ArrayLike) -> list[AttentionWeights]:
        """What the patches of an image look at, layer by layer.

        Token 0 is the class token, of DeiT token 1 that for distillation, of DINO with registers those from 1 on; then
        patches from left to right and from top to bottom, ``patch_rows`` times ``patch_columns``.
        """
        given = _inputs.pixels(image)
        return [AttentionWeights(*layer) for layer in self._run(lambda stop: self._core.attention(given, stop))]

    @property
    def labels(self) -> list[str]:
        """Names; "LABEL_3" where the folder has none."""
        return list(self._labels)

    @property
    def patch_rows(self) -> int:
        """Patches of an image from top to bottom."""
        return int(self._core.patches()[0])

    @property
    def patch_columns(self) -> int:
        """Patches of an image from left to right."""
        return int(self._core.patches()[1])

    def _ranked(self, found: list[Any], top_k: SupportsIndex | None) -> list[list[ImageLabel]]:
        most = len(self._labels) if top_k is None else _inputs.uint(top_k, "top_k")
        return [
            [ImageLabel(self._labels[index], index, logit, probability) for index, logit, probability in ranked[:most]]
            for ranked in found
        ]


class ImageEmbedder(Model[_core.ImageEmbedder]):
    """Images to vectors and, with a CLIP or SigLIP, texts to vectors of the same space, as transformers gives them.

    An image's vector is get_image_features() of CLIP and SigLIP; of DINOv2, DINOv3, ViT and DeiT it is the last hidden
    state of the class token.

    path: a folder with config.json, model.safetensors, preprocessor_config.json and, to read texts, tokenizer.json.
    device, dtype, batch and further keyword arguments: as of ImageClassifier, and what images are.
    normalize: vectors of length 1.
    """

    def __init__(
        self,
        path: Path,
        device: str | int = "auto",
        dtype: Dtype = "f32",
        *,
        batch: SupportsIndex = 32,
        normalize: bool = True,
        **common: Unpack[CommonArguments],
    ) -> None:
        options, on_progress = _inputs.common(ImageEmbedder, device, dtype, common)
        super().__init__(
            _core.ImageEmbedder(
                _inputs.path(path),
                options,
                on_progress,
                batch=_inputs.uint(batch, "batch"),
                normalize=bool(normalize),
            )
        )

    def embed_images(self, images: ArrayLike, *, on_progress: Progress | None = None) -> FloatArray:
        """float32: [dimension] of an image, [images, dimension] of several, in order."""
        is_one = _inputs.is_one_image(images)
        given = [_inputs.pixels(images)] if is_one else _inputs.images(images)
        vectors: FloatArray = self._run(lambda stop: self._core.embed_images(given, on_progress, stop))
        return vectors[0] if is_one else vectors

    async def embed_images_async(self, images: ArrayLike, *, on_progress: Progress | None = None) -> FloatArray:
        """``embed_images`` in another thread."""
        is_one = _inputs.is_one_image(images)
        given = [_inputs.pixels(images)] if is_one else _inputs.images(images)
        vectors: FloatArray = await self._run_async(lambda stop: self._core.embed_images(given, on_progress, stop))
        return vectors[0] if is_one else vectors

    def embed_texts(self, texts: str | Iterable[str], *, on_progress: Progress | None = None) -> FloatArray:
        """float32: [dimension] of a text, [texts, dimension] of several. Longer texts than the model takes are cut."""
        given = [texts] if isinstance(texts, str) else _inputs.texts(texts, "texts")
        vectors: FloatArray = self._run(lambda stop: self._core.embed_texts(given, on_progress, stop))[0]
        return vectors[0] if isinstance(texts, str) else vectors

    async def embed_texts_async(self, texts: str | Iterable[str], *, on_progress: Progress | None = None) -> FloatArray:
        """``embed_texts`` in another thread."""
        given = [texts] if isinstance(texts, str) else _inputs.texts(texts, "texts")
        vectors: FloatArray = (await self._run_async(lambda stop: self._core.embed_texts(given, on_progress, stop)))[0]
        return vectors[0] if isinstance(texts, str) else vectors

    def score(self, images: ArrayLike, texts: Iterable[str]) -> FloatArray:
        """How well texts fit images: the models' logits_per_image, float32 [images, texts]."""
        given = [_inputs.pixels(images)] if _inputs.is_one_image(images) else _inputs.images(images)
        read = _inputs.texts(texts, "texts")
        return self._run(lambda stop: self._core.score(given, read, stop))

    async def score_async(self, images: ArrayLike, texts: Iterable[str]) -> FloatArray:
        """``score`` in another thread."""
        given = [_inputs.pixels(images)] if _inputs.is_one_image(images) else _inputs.images(images)
        read = _inputs.texts(texts, "texts")
        return await self._run_async(lambda stop: self._core.score(given, read, stop))

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """What ``score`` says, of its shape: with CLIP the softmax over the texts, with SigLIP the sigmoid of each."""
        given = np.atleast_1d(np.asarray(scores, dtype=np.float32))
        rows: list[list[float]] = given.reshape(-1, given.shape[-1]).tolist() if given.size else []
        found = [self._core.probabilities(row) for row in rows]
        return np.array(found, dtype=np.float32).reshape(given.shape)

    def check_text(self, text: str) -> None:
        """Raises where ``embed_texts`` does not take the text; runs nothing."""
        _inputs.text(text, "the text")
        self._run(lambda _: self._core.check_text(text))

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        return self._core.dimension()

    @property
    def reads_texts(self) -> bool:
        """Whether it is a CLIP or SigLIP; what takes texts raises where it is not."""
        return self._core.reads_texts()

    @property
    def max_length(self) -> int:
        """Tokens of a text at most; 0 where none is read."""
        return self._core.max_length()
