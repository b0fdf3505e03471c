# SPDX-License-Identifier: MIT
"""Models of images against the goldens that the C++ tests have, on every device."""

import numpy as np
import pytest
from conftest import CLIP, GOLDENS, PICTURES, VIT, read_json, relative_error

import vkformer


def test_pictures_are_pillows() -> None:
    pixels = read_json("vision", "pictures", "pixels.json")
    for name in ("alpha.png", "palette.png", "bits.png"):
        expected = pixels[name]
        rgb = np.frombuffer(bytes.fromhex(expected["rgb"]), np.uint8).reshape(expected["height"], expected["width"], 3)
        np.testing.assert_array_equal(vkformer.load_image(PICTURES / name), rgb)
        np.testing.assert_array_equal(vkformer.decode_image((PICTURES / name).read_bytes()), rgb)


def test_labels_of_images(device: str) -> None:
    golden = read_json("vision", "vit", "golden.json")
    with vkformer.ImageClassifier(VIT, device, plain_shaders=True) as classifier:
        found = classifier.classify([PICTURES / name for name in golden["images"]])
        for ranked, logits, probabilities in zip(found, golden["logits"], golden["probabilities"], strict=True):
            by_index = sorted(ranked, key=lambda label: label.index)
            assert relative_error([label.logit for label in by_index], logits) < 1e-5
            assert relative_error([label.probability for label in by_index], probabilities) < 3e-5
            assert [label.logit for label in ranked] == sorted((label.logit for label in ranked), reverse=True)
            assert [label.label for label in by_index] == classifier.labels
        image = vkformer.load_image(PICTURES / golden["images"][0])
        assert classifier.classify(image) == found[0] or classifier.classify(image)[0].label == found[0][0].label
        assert len(classifier.classify(image, top_k=2)) == 2
        assert len(classifier.classify(np.stack([image, image]))) == 2
        layers = classifier.attention(image)
        assert relative_error(layers[1].weights, golden["attention.1"]) < 1e-5
        assert layers[1].weights.shape[1] == classifier.patch_rows * classifier.patch_columns + 1


def test_images_and_texts_in_one_space(device: str) -> None:
    golden = read_json("vision", "clip", "golden.json")
    images = [vkformer.load_image(PICTURES / name) for name in golden["images"]]
    with vkformer.ImageEmbedder(CLIP, device, plain_shaders=True) as embedder:
        assert relative_error(embedder.embed_images(images), golden["image_embeds"]) < 1e-5
        assert relative_error(embedder.embed_texts(golden["texts"]), golden["text_embeds"]) < 1e-5
        assert relative_error(embedder.score(images, golden["texts"]), golden["logits_per_image"]) < 3e-5
        assert embedder.embed_images(images[0]).shape == (embedder.dimension,)
        assert embedder.embed_texts("a cat").shape == (embedder.dimension,)
        assert embedder.reads_texts
        shares = embedder.probabilities(golden["logits_per_image"])
        assert np.allclose(shares.sum(-1), 1, atol=1e-6)
    with vkformer.ImageEmbedder(CLIP, device, normalize=False, plain_shaders=True) as embedder:
        assert relative_error(embedder.embed_images(images), golden["image_features"]) < 1e-5


def test_images_and_texts_with_siglip(device: str) -> None:
    golden = read_json("modern_vision", "siglip", "golden.json")
    images = [PICTURES / name for name in golden["images"]]
    with vkformer.ImageEmbedder(GOLDENS / "modern_vision" / "siglip", device, plain_shaders=True) as embedder:
        assert relative_error(embedder.embed_images(images), golden["image_embeds"]) < 1e-5
        assert relative_error(embedder.embed_texts(golden["texts"]), golden["text_embeds"]) < 1e-5
        scores = embedder.score(images, golden["texts"])
        assert relative_error(scores, golden["logits_per_image"]) < 3e-5
        assert relative_error(embedder.probabilities(scores), golden["probabilities"]) < 1e-4
        assert embedder.probabilities(scores[0]).shape == scores[0].shape
        assert embedder.probabilities(np.zeros((2, 0), np.float32)).shape == (2, 0)


def test_images_alone_with_dino(device: str) -> None:
    golden = read_json("modern_vision", "dino", "golden.json")
    images = [PICTURES / name for name in golden["images"]]
    folder = GOLDENS / "modern_vision" / "dino"
    with vkformer.ImageEmbedder(folder, device, normalize=False, plain_shaders=True) as embedder:
        assert relative_error(embedder.embed_images(images), golden["class_token"]) < 1e-5
        assert not embedder.reads_texts
        assert embedder.max_length == 0
        with pytest.raises(vkformer.UnsupportedConfigError, match="images only"):
            embedder.embed_texts("a cat")
    with vkformer.ImageClassifier(folder, device, plain_shaders=True) as classifier:
        found = sorted(classifier.classify(images[0]), key=lambda label: label.index)
        assert relative_error([label.logit for label in found], golden["logits"][0]) < 1e-5
