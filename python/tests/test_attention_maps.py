# SPDX-License-Identifier: MIT
"""Attention of translations, as a notebook shows it."""

import xml.etree.ElementTree

import numpy as np
import pytest

import vkformer


def svg_of(picture: str) -> tuple[list[str], int]:
    """Its texts, and how many cells have a colour."""
    root = xml.etree.ElementTree.fromstring(picture)
    texts = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    return texts, sum(path.get("d", "").count("M") for path in root.iter("{http://www.w3.org/2000/svg}path"))


def test_attention_maps_show_themselves(translator: vkformer.Translator) -> None:
    text = "March 4, 2021"
    maps = translator.attention(text)
    texts, cells = svg_of(maps._repr_svg_())
    assert texts[0] == f"{text} → {maps.translation.text}"
    heads = [f"layer {layer + 1}, head {head + 1}" for layer in range(2) for head in range(4)]
    assert [text for text in texts if text.startswith("layer ")] == heads * 3
    assert [text for text in texts if text.endswith("ttention")] == [
        "Cross-attention",
        "Encoder self-attention",
        "Decoder self-attention",
    ]
    assert cells == sum(int((np.rint(layer.weights * 63) > 0).sum()) for layer in maps.weights)

    one = maps.only("cross", 1, 2)
    (layer,) = one.weights
    (whole,) = maps.only("cross", layer=1).weights
    assert (layer.weights == whole.weights[2:3]).all()
    assert layer.heads == (2,)
    assert layer.only(2).weights.shape == layer.weights.shape
    for shown in (one._repr_svg_(), layer._repr_svg_()):
        texts, cells = svg_of(shown)
        assert [text for text in texts if text.startswith("layer ")] == ["layer 2, head 3"]
        assert cells == int((np.rint(layer.weights * 63) > 0).sum())
        assert all(token in texts for token in maps.source + maps.written)
    for wrong in ({"kind": "self"}, {"layer": 2}, {"head": 4}, {"head": -1}):
        with pytest.raises(IndexError, match="there are no weights|has no head"):
            maps.only(**wrong)  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        layer.only(1)


def test_pictures_of_strange_weights() -> None:
    weights = np.array([[[np.nan, 2, -1], [0, 1, 0.5]]], np.float32)
    strange = vkformer.AttentionWeights("cross", 0, weights, ["<&>", "\0\x1b"], ["'\"", "\ud800", "ok"])
    texts, cells = svg_of(strange._repr_svg_())
    assert cells == 5
    assert "<&>" in texts
    assert "\N{REPLACEMENT CHARACTER}" * 2 in texts
    assert strange._repr_svg_().count("#d91a1a") == 1
    patches = vkformer.AttentionWeights("encoder", 0, np.eye(3, dtype=np.float32)[None])
    assert svg_of(patches._repr_svg_())[1] == 3
