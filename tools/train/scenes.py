"""The pictures that shape-classifier learns from: one shape over a gradient, among bars and dots.

    python scenes.py scenes.png        # a sheet of some

A scene is drawn from signed distances; samples/window/shaders/scene.frag draws the same ones. Lengths are in widths of
the picture, x to the right and y down; a shape's own coordinates have its radius as their unit.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LABELS = ("circle", "ring", "square", "triangle", "cross", "star", "heart", "moon")
SIZE = 48  # pixels, both ways
BARS = 6
EVALUATION_SEED, SECOND_SEED = 10_001, 10_002  # no training seed may be one of these

Floats = NDArray[np.float32]


def length(x: Floats, y: Floats) -> Floats:
    return np.sqrt(x * x + y * y)


def shape_distance(label: int, x: Floats, y: Floats) -> Floats:
    """Signed, exact or nearly so near the outline, in radii: negative inside."""
    name = LABELS[label]
    if name == "circle":
        return length(x, y) - 1
    if name == "ring":
        return np.abs(length(x, y) - 0.75) - 0.25
    if name == "square":
        return np.maximum(np.abs(x), np.abs(y)) - 0.8
    if name == "triangle":
        return np.maximum(y, 0.8660 * np.abs(x) - 0.5 * y) - 0.5
    if name == "cross":
        x, y = np.abs(x), np.abs(y)
        return np.minimum(np.maximum(x - 1, y - 0.3), np.maximum(x - 0.3, y - 1))
    if name == "star":  # five times the edge from the tip (0, 1) to the corner at 36° and radius 0.42
        sector = 2 * np.pi / 5
        angle = np.abs(np.mod(np.arctan2(x, -y) + sector / 2, sector) - sector / 2)
        radius = length(x, y)
        return 0.9366 * radius * np.sin(angle) + 0.3503 * (radius * np.cos(angle) - 1)
    if name == "heart":  # a square on its tip, with a circle over each of its upper edges
        x, y = np.abs(x), y - 0.08
        return np.minimum((x + np.abs(y)) * 0.7071 - 0.6, length(x - 0.4243, y + 0.4243) - 0.6)
    return np.maximum(length(x, y) - 1, 0.8 - length(x - 0.45, y))  # moon



def bar_distance(x: Floats, y: Floats, half_length: Floats, half_width: Floats) -> Floats:
    """A line with round ends; a dot where it has no length."""
    return length(np.maximum(np.abs(x) - half_length, 0), y) - half_width


@dataclass
class Pictures:
    pixels: Floats  # [count, SIZE, SIZE, 3], 0 to 1
    labels: NDArray[np.int64]  # [count]


def draw(rng: np.random.Generator, count: int, hardness: float = 1.0) -> Pictures:
    """Everything is drawn by `rng`: the same seed gives the same pictures. A light shape on something darker; with
    `hardness` 0 large, white on black, near the middle: lessons begin with those.
    """

    def uniform(low: float, high: float, *shape: int) -> Floats:
        return rng.uniform(low, high, (count, *shape)).astype(np.float32)

    labels = rng.integers(0, len(LABELS), count)
    upper, lower = uniform(0, 0.55 * hardness, 3), uniform(0, 0.55 * hardness, 3)
    direction = uniform(0, 2 * np.pi, 1, 1)
    # Between point sampling and a blur of more than a pixel: renderers differ in how they smooth an outline.
    softness = uniform(0.2, 1.2, 1, 1) / SIZE

    x = (np.arange(SIZE, dtype=np.float32) + 0.5)[None, None] / SIZE
    y = x.reshape(1, SIZE, 1)
    slope = np.clip(0.5 + (x - 0.5) * np.cos(direction) + (y - 0.5) * np.sin(direction), 0, 1)[..., None]
    pixels = upper[:, None, None] * (1 - slope) + lower[:, None, None] * slope

    def local(center_x: Floats, center_y: Floats, angle: Floats) -> tuple[Floats, Floats]:
        dx, dy = x - center_x, y - center_y
        return np.cos(angle) * dx + np.sin(angle) * dy, np.cos(angle) * dy - np.sin(angle) * dx

    def paint(distance: Floats, color: Floats) -> None:
        picture, row, column = np.nonzero(distance < softness / 2)
        cover = np.clip(0.5 - distance[picture, row, column] / softness[picture, 0, 0], 0, 1)[:, None]
        below = pixels[picture, row, column]
        pixels[picture, row, column] = below + cover * (color[picture] - below)

    for _ in range(BARS):
        bar = local(uniform(0, 1, 1, 1), uniform(0, 1, 1, 1), uniform(0, np.pi, 1, 1))
        half_width = uniform(-0.012, 0.03, 1, 1)
        half_width[(half_width < 0.004) | (uniform(0, 1, 1, 1) > hardness)] = -1  # there is none
        paint(bar_distance(*bar, np.maximum(uniform(-0.08, 0.16, 1, 1), 0), half_width), uniform(0, 0.8, 3))

    radius = uniform(0.32 - 0.12 * hardness, 0.34, 1, 1)
    reach = (0.5 - radius) * (0.3 + 0.7 * hardness)
    center_x, center_y = (0.5 + uniform(-1, 1, 1, 1) * reach for _ in range(2))
    own_x, own_y = (v / radius for v in local(center_x, center_y, uniform(-0.5, 0.5, 1, 1)))
    distance = np.empty_like(own_x)
    for label in range(len(LABELS)):
        chosen = labels == label
        distance[chosen] = shape_distance(label, own_x[chosen], own_y[chosen])
    paint(distance * radius, light_colors(rng, (upper + lower) / 2, 1 - 0.6 * hardness))
    pixels += uniform(0, 0.04 * hardness, 1, 1, 1) * rng.standard_normal(pixels.shape, np.float32)
    return Pictures(np.clip(pixels, 0, 1).astype(np.float32), labels)


def light_colors(rng: np.random.Generator, backgrounds: Floats, darkest: float) -> Floats:
    """Channels from `darkest` to 1, at least 0.45 away from the middle of the background: of sixteen tries the first that
    is, or else the last.
    """
    tries = rng.uniform(darkest, 1, (16, *backgrounds.shape)).astype(np.float32)
    is_far = np.linalg.norm(tries - backgrounds, axis=-1) >= 0.45
    return tries[np.where(is_far.any(0), is_far.argmax(0), 15), np.arange(len(backgrounds))]


def to_bytes(pixels: Floats) -> NDArray[np.uint8]:
    return np.rint(pixels * 255).astype(np.uint8)


def main() -> None:
    from PIL import Image

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rows, columns = 6, 12
    pixels = draw(np.random.default_rng(args.seed), rows * columns).pixels.reshape(rows, columns, SIZE, SIZE, 3)
    Image.fromarray(to_bytes(pixels.transpose(0, 2, 1, 3, 4).reshape(rows * SIZE, columns * SIZE, 3))).save(args.out)


if __name__ == "__main__":
    main()
